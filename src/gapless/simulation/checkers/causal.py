"""The checker of causal order, from the definition and from nothing that a protocol knows.

``e1 → e2`` when both are of one publisher and ``e1`` is the earlier one, or when ``e1`` was given to a client
before that client published ``e2``; and so on in chains. Causality is that of one topic: a chain through
another topic does not count, because each topic promises its own order.

With a publisher's event everything before it of that publisher is in the past too. So the past of an event
is a vector: how far it reaches into each publisher's stream. The vectors of one publisher only grow; they are
kept as a log of changes, and what a client or a subscription knows already is never looked at again.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from gapless.simulation.checkers.deliveries import violation
from gapless.simulation.checkers.history import NEVER, History, Stream, Subscription, between
from gapless.simulation.checkers.liveness import never_came
from gapless.simulation.checkers.violations import Kind, Violation
from gapless.simulation.trace import Deliver, Publish

Vector: TypeAlias = dict[str, int]
"""How far knowledge reaches into each publisher's stream."""


@dataclass(slots=True)
class _Log:
    """How the vectors of one publisher's events grow: a change is (sequence, other publisher, reach)."""

    sequences: list[int] = field(default_factory=list)
    changes: list[tuple[str, int]] = field(default_factory=list)
    columns: dict[str, tuple[list[int], list[int]]] = field(default_factory=dict)
    """The same by other publisher: the sequences, and the reaches from there on."""

    def add(self, sequence: int, publisher: str, reach: int) -> None:
        self.sequences.append(sequence)
        self.changes.append((publisher, reach))
        column = self.columns.setdefault(publisher, ([], []))
        column[0].append(sequence)
        column[1].append(reach)

    def reaches(self, after: int, upto: int) -> Iterator[tuple[str, int]]:
        """What changed after one event up to another; when that is much, only the last of each publisher."""
        low, high = bisect_right(self.sequences, after), bisect_right(self.sequences, upto)
        if high - low <= 2 * len(self.columns):
            yield from self.changes[low:high]
            return
        for publisher, (sequences, reaches) in self.columns.items():
            place = bisect_right(sequences, upto)
            if place:
                yield publisher, reaches[place - 1]


class Causality:
    """The causal past of every event of one topic."""

    def __init__(self) -> None:
        self._logs: dict[str, _Log] = {}

    def log(self, publisher: str) -> _Log:
        """The growth of one publisher's vectors."""
        found = self._logs.get(publisher)
        if found is None:
            found = self._logs[publisher] = _Log()
        return found

    def absorb(self, known: Vector, publisher: str, sequence: int) -> list[tuple[str, int, int]]:
        """Add an event and its past to a vector; returns what grew: (publisher, reach before, reach now)."""
        before = known.get(publisher, 0)
        if sequence <= before:
            return []
        grown: Vector = {publisher: before}
        known[publisher] = sequence
        for other, reach in self.log(publisher).reaches(before, sequence):
            old = known.get(other, 0)
            if reach > old:
                grown.setdefault(other, old)
                known[other] = reach
        return [(other, old, known[other]) for other, old in grown.items()]

    def reach(self, publisher: str, sequence: int, other: str) -> int:
        """How far the past of an event reaches into another publisher's stream."""
        if other == publisher:
            return sequence - 1
        sequences, reaches = self.log(publisher).columns.get(other, ([], []))
        place = bisect_right(sequences, sequence)
        return reaches[place - 1] if place else 0

    def first_effect(self, publisher: str, causes: Vector) -> int:
        """The first event of the publisher with one of the causes (a sequence per publisher) in its past."""
        first = causes[publisher] + 1 if publisher in causes else NEVER
        for other, (sequences, reaches) in self.log(publisher).columns.items():
            place = bisect_left(reaches, causes.get(other, NEVER))
            if place < len(sequences):
                first = min(first, sequences[place])
        return first


@dataclass(slots=True)
class _Client:
    """What a client was given, with its past, and the order in which that grew."""

    known: Vector = field(default_factory=dict)
    journal: list[str] = field(default_factory=list)


def causalities(history: History) -> dict[str, Causality]:
    """The causal pasts of all events, by topic."""
    result = {topic: Causality() for topic in history.streams}
    publishing = {(r.topic, r.client) for r in history.records if isinstance(r, Publish)}
    clients: dict[tuple[str, str], _Client] = {}
    known: dict[tuple[str, str], Vector] = {}
    read: dict[tuple[str, str, str], int] = {}
    for index, record in enumerate(history.records):
        if isinstance(record, Deliver):
            subscription = history.owners.get(index)
            if subscription is None or (subscription.topic, record.client) not in publishing:
                continue
            stream = history.streams[subscription.topic].get(record.publisher)
            if stream is None or stream.published.get(record.sequence, NEVER) > index:
                continue
            client = clients.setdefault((subscription.topic, record.client), _Client())
            grown = result[subscription.topic].absorb(client.known, record.publisher, record.sequence)
            client.journal.extend(publisher for publisher, _, _ in grown)
        elif isinstance(record, Publish):
            giver = clients.get((record.topic, record.client))
            if giver is None:
                continue
            cursor = (record.topic, record.publisher, record.client)
            vector = known.setdefault((record.topic, record.publisher), {})
            log = result[record.topic].log(record.publisher)
            for other in dict.fromkeys(giver.journal[read.get(cursor, 0) :]):
                if other != record.publisher and giver.known[other] > vector.get(other, 0):
                    vector[other] = giver.known[other]
                    log.add(record.sequence, other, giver.known[other])
            read[cursor] = len(giver.journal)
    return result


def causal(history: History, *, healed: bool) -> Iterator[Violation]:
    """INV-CAUSAL (C1-07, gapless causal delivery): what is delivered comes after its causes, none missed.

    When an event is delivered, everything that matches in its past was delivered before, as far as it was
    promised or is itself an effect of something delivered. In a healed run the effects of what was delivered
    are delivered even when they lie before the promised start.
    """
    pasts = causalities(history)
    for subscription in history.subscriptions:
        if subscription.live != NEVER and subscription.topic in pasts:
            yield from Judge(history, pasts[subscription.topic], subscription).violations(healed)


class Judge:
    """Follows the reliable deliveries of one subscription."""

    def __init__(self, history: History, causality: Causality, subscription: Subscription) -> None:
        self._history = history
        self._causality = causality
        self._subscription = subscription
        self._streams = history.streams[subscription.topic]
        self._effects: Vector = {}
        self._deliveries = sorted(
            index
            for publisher, got in subscription.received.items()
            for sequence, index in got.items()
            if index > subscription.live and history.reliable(index) and self._exists(publisher, sequence)
        )
        self._renewals = sorted(
            (
                (epoch.index, stream.publisher, epoch.start)
                for stream in self._streams.values()
                for epoch in history.epochs(subscription, stream)
                if epoch.index > subscription.live
            ),
            reverse=True,
        )
        """Promises that began after live, the last first: they may be about what was looked at before."""
        self._lowest: Vector = {}
        for index in self._deliveries:
            record = history.records[index]
            assert isinstance(record, Deliver)
            lowest = self._lowest.get(record.publisher, NEVER)
            self._lowest[record.publisher] = min(lowest, record.sequence)

    def violations(self, healed: bool) -> Iterator[Violation]:
        """What was delivered too early or never."""
        past: Vector = {}
        renewed: Vector = {}
        for index in self._deliveries:
            record = self._history.records[index]
            assert isinstance(record, Deliver)
            while self._renewals and self._renewals[-1][0] < index:
                _, publisher, start = self._renewals.pop()
                renewed[publisher] = start - 1
            for publisher, before in list(renewed.items()):
                reach = self._causality.reach(record.publisher, record.sequence, publisher)
                if reach > before:
                    yield from self._missed(
                        publisher, before, min(reach, past.get(publisher, 0)), record, index
                    )
                    renewed[publisher] = reach
            for publisher, before, now in self._causality.absorb(past, record.publisher, record.sequence):
                yield from self._missed(publisher, before, now, record, index)
        if healed and self._subscription.is_open:
            for stream in self._streams.values():
                yield from self._missed_at_end(stream, past.get(stream.publisher, 0))

    def _exists(self, publisher: str, sequence: int) -> bool:
        return publisher in self._streams and sequence in self._streams[publisher].published

    def _missed(
        self, publisher: str, before: int, now: int, record: Deliver, index: int
    ) -> Iterator[Violation]:
        """What matches after the reach ``before`` up to ``now`` and should have come before a delivery."""
        stream = self._streams[publisher]
        got = self._subscription.received.get(publisher, {})
        for cause in between(self._history.matching(self._subscription, stream), before + 1, now + 1):
            at = got.get(cause, NEVER)
            if at <= index:
                continue
            reordered = at != NEVER and self._history.reliable(at)
            missing = self._required(stream, cause, index) and not self._history.excused(stream, cause)
            if reordered or missing:
                delivered = f"{record.publisher}.{record.sequence}"
                message = f"{record.subscription} got {delivered} without its cause {publisher}.{cause}"
                yield violation(
                    self._history, Kind.CAUSAL, index, message, publisher=publisher, sequence=cause
                )

    def _required(self, stream: Stream, sequence: int, index: int) -> bool:
        """Whether an undelivered event was promised at that moment, or is an effect below the first start."""
        epochs = self._history.epochs(self._subscription, stream)
        current = [epoch for epoch in epochs if epoch.index < index]
        if current and sequence >= current[-1].start:
            return True
        started_live = bool(epochs) and not epochs[0].by_reset
        return started_live and self._first_effect(stream) <= sequence < epochs[0].start

    def _first_effect(self, stream: Stream) -> int:
        found = self._effects.get(stream.publisher)
        if found is None:
            found = self._causality.first_effect(stream.publisher, self._lowest)
            self._effects[stream.publisher] = found
        return found

    def _missed_at_end(self, stream: Stream, reach: int) -> Iterator[Violation]:
        """Effects below the start that never came; what was promised and never came is a loss (INV-LIVE)."""
        epochs = self._history.epochs(self._subscription, stream)
        if not epochs or epochs[0].by_reset:
            return
        low = max(reach + 1, self._first_effect(stream))
        got = self._subscription.received.get(stream.publisher, {})
        for sequence in between(self._history.matching(self._subscription, stream), low, epochs[0].start):
            if sequence not in got and not self._history.excused(stream, sequence):
                why = ", an effect of what it got"
                yield never_came(self._history, Kind.CAUSAL, self._subscription, stream, sequence, why=why)
