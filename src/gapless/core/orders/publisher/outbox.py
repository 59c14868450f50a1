"""What leaves a node at the end of a batch: publications a peer, as runs, and acknowledgements as ranges."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from gapless.core.effects import Effect, Send
from gapless.core.messages.publisher import (
    Acknowledged,
    Acknowledgement,
    Header,
    Publications,
    Run,
    Superseded,
)
from gapless.core.model import Event, Generation, NodeId
from gapless.core.orders.publisher.custody import Held, Source
from gapless.core.orders.publisher.vectors import Numbers

Flow: TypeAlias = tuple[str, str, Generation]
"""One generation of a stream of events: topic, publisher, generation."""


def ranges(sequences: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as ranges with both ends included, in ascending order."""
    ordered = sorted(set(sequences))
    if ordered and ordered[-1] - ordered[0] + 1 == len(ordered):
        return ((ordered[0], ordered[-1]),)
    found: list[tuple[int, int]] = []
    for number in ordered:
        if found and found[-1][1] + 1 == number:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def within(sequences: Mapping[int, object], first: int, last: int) -> list[int]:
    """Those of the sequences that lie in a range, whatever range a peer may have sent."""
    if last - first < len(sequences):
        return [each for each in range(first, last + 1) if each in sequences]
    return [each for each in sequences if first <= each <= last]


class Draft:
    """A run that is being written."""

    __slots__ = ("_length", "_zeros", "events", "header", "kept", "numbers")

    def __init__(self, kept: Header, header: Header) -> None:
        self.kept = kept
        """The header of the events where they are kept: those that share it go together."""
        self.header = header
        self.events: list[Event] = []
        self.numbers: list[Numbers] = []
        self._length = len(header.path)
        numbered = self._length
        while numbered and not header.path[numbered - 1][1]:
            numbered -= 1
        self._zeros = (0,) * (self._length - numbered)

    def take(self, events: Sequence[Event]) -> None:
        """These are the next, which no broker has numbered yet."""
        self.events += events
        self.numbers += ((),) * len(events)

    def add(self, group: Sequence[Held]) -> None:
        """These are the next; bypassed brokers, at the end of the path, give no number."""
        self.events += [held.event for held in group]
        numbers = [(*held.numbers, held.number) for held in group]
        if self._zeros or len(numbers[0]) > self._length:
            numbers = [(*each, *self._zeros)[-self._length :] for each in numbers]
        self.numbers += numbers

    def run(self) -> Run:
        """The run."""
        return Run(self.header, tuple(self.events), tuple(self.numbers))


class Outbox:
    """Gathers during a batch, sends at its end."""

    def __init__(self, out: list[Effect], batch: int) -> None:
        self.batch = batch
        """How many events a message has at most."""
        self.effects = out
        self._drafts: dict[NodeId, list[Draft]] = {}
        self._acks: dict[NodeId, dict[Flow, list[int]]] = {}
        self._superseded: dict[tuple[NodeId, Source], tuple[Generation, bool]] = {}

    def draft(self, peer: NodeId, group: Sequence[Held]) -> Draft | None:
        """The run to the peer that these may go with: that which was begun last, or none."""
        drafts = self._drafts.get(peer)
        if not drafts:
            return None
        draft, first = drafts[-1], group[0]
        fits = (
            draft.kept is first.header
            and len(draft.events) + len(group) <= self.batch
            and draft.events[-1].sequence < first.event.sequence
        )
        return draft if fits else None

    def begin(self, peer: NodeId, kept: Header, header: Header) -> Draft:
        """Begin another run to the peer, after those that were given before it."""
        draft = Draft(kept, header)
        self._drafts.setdefault(peer, []).append(draft)
        return draft

    def acknowledge(self, peer: NodeId, flow: Flow, sequences: Iterable[int]) -> None:
        """Tell the peer that all targets behind here have these events."""
        self._acks.setdefault(peer, {}).setdefault(flow, []).extend(sequences)

    def supersede(
        self, peer: NodeId, source: Source, generation: Generation, *, refused: bool = False
    ) -> None:
        """Tell the peer of a newer generation."""
        _, refused_before = self._superseded.get((peer, source), (generation, True))
        self._superseded[peer, source] = generation, refused and refused_before

    def forget(self, peer: NodeId) -> None:
        """The session is gone, and what was to be sent on it with it."""
        self._drafts.pop(peer, None)
        self._acks.pop(peer, None)
        for key in [key for key in self._superseded if key[0] == peer]:
            del self._superseded[key]

    def drop_events(self, peer: NodeId) -> None:
        """The events that were to be sent to the peer are sent in another way."""
        self._drafts.pop(peer, None)

    def flush(self) -> None:
        """Send it all."""
        for peer, drafts in self._drafts.items():
            for runs in _batches(drafts, self.batch):
                self.effects.append(Send(peer, Publications(runs)))
        for peer, acks in self._acks.items():
            told = tuple(Acknowledgement(*flow, ranges(sequences)) for flow, sequences in acks.items())
            self.effects.append(Send(peer, Acknowledged(told)))
        for (peer, source), about in self._superseded.items():
            self.effects.append(Send(peer, Superseded(*source, *about)))
        self._drafts.clear()
        self._acks.clear()
        self._superseded.clear()


def _batches(drafts: Sequence[Draft], most: int) -> Iterator[tuple[Run, ...]]:
    """The runs, in order, as many a message as it may have events."""
    batch: list[Run] = []
    count = 0
    for draft in drafts:
        if batch and count + len(draft.events) > most:
            yield tuple(batch)
            batch, count = [], 0
        batch.append(draft.run())
        count += len(draft.events)
    yield tuple(batch)
