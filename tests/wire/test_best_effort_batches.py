"""What a broker gathers for a peer in one batch may be larger than a frame, in best effort too."""

from __future__ import annotations

from gapless.core.messages import BestEffortEvents
from gapless.core.model import Event
from gapless.wire.codec import FRAME_MAX, FrameReader, encode


def test_best_effort_events_are_parted_in_order() -> None:
    events = tuple(Event("t", "p", n, {"n": n}, bytes(1 << 20), 0) for n in range(1, 14))
    assert len(events) << 20 > FRAME_MAX
    parts = FrameReader().feed(encode([BestEffortEvents(events)]))
    assert len(parts) > 1
    assert tuple(each for part in parts for each in part.events) == events  # type: ignore[union-attr]
