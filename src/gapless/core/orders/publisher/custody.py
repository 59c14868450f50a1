"""Custody: publications that were taken over and not yet confirmed by all their targets (000, V; 003, algorithm 1).

A publication is kept, with the clients it must reach, until each has it. Every target is assigned to the
nearest established node on its path; when that changes, the publication is sent again over the new
session, with the targets, the epoch and the exclusions that were first decided (deciding anew would let
some events of a stream through and not others). What was taken over is sent in the order in which it came.

A publisher's events come in *generations*: each time its home session changes it repeats all that is not
confirmed in a new generation, which is a stream of its own. Of two generations the older one vanishes as a
whole, wherever they meet.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from gapless.core.messages.publisher import Publication
from gapless.core.model import Event, NodeId, Path

Source = tuple[str, str]
"""A stream of events: topic and publisher."""


def source_of(event: Event) -> Source:
    """The stream that an event belongs to."""
    return event.topic, event.publisher


@dataclass(slots=True)
class Held:
    """A publication in custody."""

    publication: Publication
    senders: dict[NodeId, None]
    waiting: dict[NodeId | None, dict[NodeId, Path]]
    """Targets by the peer they were sent to; ``None``: there is nobody to send to now."""


@dataclass(slots=True)
class Stream:
    """What is known of one publisher's stream."""

    generation: int
    highest: int = 0
    held: dict[int, Held] = field(default_factory=dict)


class Custody:
    """All publications that a broker answers for."""

    def __init__(self) -> None:
        self.streams: dict[Source, Stream] = {}

    def stream(self, source: Source, generation: int) -> tuple[Stream | None, Iterable[Held]]:
        """The stream of that generation, and what of older ones must be dropped for it.

        ``None`` when a newer generation is known.
        """
        stream = self.streams.get(source)
        if stream is not None and stream.generation > generation:
            return None, ()
        if stream is not None and stream.generation == generation:
            return stream, ()
        dropped = stream.held.values() if stream is not None else ()
        fresh = self.streams[source] = Stream(generation)
        return fresh, dropped

    def all_held(self) -> Iterator[Held]:
        """Everything in custody, each stream in order."""
        for stream in self.streams.values():
            yield from stream.held.values()

    def confirmed(self, source: Source, generation: int, sequence: int, peer: NodeId) -> Held | None:
        """The peer has passed it on to all its targets; returns it when that was the last one waited for."""
        stream = self.streams.get(source)
        if stream is None or stream.generation != generation:
            return None
        held = stream.held.get(sequence)
        if held is None or held.waiting.pop(peer, None) is None or held.waiting:
            return None
        del stream.held[sequence]
        return held
