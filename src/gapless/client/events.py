"""What a subscription yields."""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from gapless.core.model import StartCut


class Event(msgspec.Struct, frozen=True, gc=False):
    """An event, as it was published."""

    topic: str
    attributes: dict[str, Any]
    payload: bytes
    publisher: str
    sequence: int
    """Counts the publisher's events of the topic from 1, without holes."""
    published_at: float
    """Seconds since the epoch, by the publisher's clock."""
    best_effort: bool = False
    """Delivered beyond δ failures, on a topic that allows it."""


class Reset(msgspec.Struct, frozen=True):
    """The promise could not be kept and begins anew: there may be a gap here, and it is not silent."""

    publishers: tuple[str, ...]
    """Whose events may be missing; none named: those of any publisher."""
    start: dict[str, int]
    """The first sequence of each publisher that is promised again."""


Item: TypeAlias = Event | Reset


def starting_cut(cut: StartCut) -> dict[str, int]:
    """A starting cut as applications see it."""
    return dict(cut.first)
