"""The invariants once more, literally and slowly: for every record, look at all others.

Shares nothing with the checkers but the trace. Each function returns a set of what is wrong; violations
are named by (where the subscription began, publisher, sequence).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from gapless.simulation.trace import (
    Confirm,
    Crash,
    Deliver,
    Fenced,
    Live,
    Publish,
    Record,
    Reset,
    Subscribe,
    Unsubscribe,
)
from simulation.histories import understands

Event: TypeAlias = tuple[str, int]
Named: TypeAlias = tuple[int, str, int]


class Stay:
    """A subscription from its beginning to its end, with what it was told and given."""

    def __init__(self, records: list[Record], begin: int) -> None:
        first = records[begin]
        assert isinstance(first, Subscribe)
        self.begin, self.first = begin, first
        self.end = next((i for i in range(begin + 1, len(records)) if self._ends(records[i])), None)
        inside = list(enumerate(records))[begin + 1 : self.end]
        self.grants = [
            (i, r) for i, r in inside if isinstance(r, (Live, Reset)) and r.subscription == first.subscription
        ]
        self.live = next((i for i, r in self.grants if isinstance(r, Live)), None)
        self.deliveries = [
            (i, r) for i, r in inside if isinstance(r, Deliver) and r.subscription == first.subscription
        ]

    def _ends(self, record: Record) -> bool:
        if isinstance(record, Unsubscribe):
            return record.subscription == self.first.subscription
        return isinstance(record, Crash) and record.node == self.first.client and not self.first.durable

    def when(self, event: Event) -> int | None:
        """When it got the event first."""
        return next((i for i, r in self.deliveries if (r.publisher, r.sequence) == event), None)

    def reliable(self) -> list[tuple[int, Event]]:
        """First deliveries that are not flagged."""
        found = [(i, (r.publisher, r.sequence)) for i, r in self.deliveries if not r.best_effort]
        return [(i, event) for i, event in found if self.when(event) == i]


class World:
    """A trace of one topic, asked naively."""

    def __init__(self, records: list[Record]) -> None:
        self.records = records
        self.published = {
            (r.publisher, r.sequence): (i, r) for i, r in enumerate(records) if isinstance(r, Publish)
        }
        self.stays: list[Stay] = []
        for i, r in enumerate(records):
            if isinstance(r, Subscribe):
                same = [s for s in self.stays if s.first.subscription == r.subscription]
                if all(s.end is not None and s.end < i for s in same):
                    self.stays.append(Stay(records, i))

    def matching(self, stay: Stay) -> list[Event]:
        """All events that match."""
        return [e for e, (_, r) in self.published.items() if understands(stay.first.selector, r.attributes)]

    def excused(self, event: Event) -> bool:
        """Not confirmed, and the client of the publisher crashed afterwards, or was fenced."""
        published, record = self.published[event]
        confirmed = any(isinstance(r, Confirm) and (r.publisher, r.sequence) == event for r in self.records)
        later = self.records[published:]
        crashed = any(isinstance(r, Crash) and r.node == record.client for r in later)
        about = (record.client, record.publisher)
        fenced = any(isinstance(r, Fenced) and (r.client, r.publisher) == about for r in later)
        return (crashed or fenced) and not confirmed

    def epochs(self, stay: Stay, publisher: str) -> list[tuple[int, int, bool]]:
        """(record, first promised sequence, by a reset?) of each promise about the publisher."""
        found: list[tuple[int, int, bool]] = []
        clients = {r.client for e, (_, r) in self.published.items() if e[0] == publisher}
        promised, out_of_reach = False, False
        for i, grant in stay.grants:
            after = [e[1] for e, (at, _) in self.published.items() if e[0] == publisher and at > i]
            start = grant.start.get(publisher, min(after, default=10**9))
            if isinstance(grant, Live):
                out_of_reach = bool({publisher, *clients} & set(grant.unreachable))
                if not (promised or out_of_reach):
                    found.append((i, start, False))
                    promised = True
            elif not grant.publishers:
                found.append((i, 10**9, True))
                promised = False
            elif publisher in grant.start or publisher in grant.publishers:
                promised = publisher in grant.start or not out_of_reach
                found.append((i, start if promised else 10**9, True))
        return found

    def pasts(self) -> dict[Event, set[Event]]:
        """The causal past of each event."""
        past: dict[Event, set[Event]] = {}
        for event, (published, record) in self.published.items():
            direct = {e for e in past if e[0] == event[0]}
            for stay in self.stays:
                for i, r in stay.deliveries:
                    if i < published and r.client == record.client:
                        direct.add((r.publisher, r.sequence))
            past[event] = direct.union(*(past[e] for e in direct))
        return past


def gap(world: World) -> set[Named]:
    """INV-GAP."""
    return {(stay.begin, *e) for stay in world.stays for e in _gap(world, stay)}


def _gap(world: World, stay: Stay) -> Iterator[Event]:
    for i, (publisher, sequence) in stay.reliable():
        epochs = [epoch for epoch in world.epochs(stay, publisher) if epoch[0] < i]
        if not epochs:
            continue
        begun, start, by_reset = epochs[-1]
        earlier = [e[1] for at, e in stay.reliable() if begun < at < i and e[0] == publisher]
        base = start if by_reset else min(start, [*earlier, sequence][0])
        low = max([base, *(n + 1 for n in earlier)])
        for event in world.matching(stay):
            if event[0] == publisher and low <= event[1] < sequence and not world.excused(event):
                at = stay.when(event)
                if at is None or at > i:
                    yield event


def lost(world: World) -> set[Named]:
    """INV-LIVE, without the subscriptions that never went live."""
    return {
        (stay.begin, *event)
        for stay in world.stays
        if stay.end is None and stay.live is not None
        for event in world.matching(stay)
        if any(event[1] >= start for _, start, _ in world.epochs(stay, event[0])[-1:])
        and stay.when(event) is None
        and not world.excused(event)
    }


def causal(world: World) -> set[Named]:
    """INV-CAUSAL of a healed run."""
    pasts = world.pasts()
    return {(stay.begin, *e) for stay in world.stays if stay.live for e in _causal(world, stay, pasts)}


def _causal(world: World, stay: Stay, pasts: dict[Event, set[Event]]) -> Iterator[Event]:
    assert stay.live is not None
    history = [(i, event) for i, event in stay.reliable() if i > stay.live]
    given = {event for _, event in history}
    for event in world.matching(stay):
        at = stay.when(event)
        epochs = world.epochs(stay, event[0])
        effect = (
            bool(epochs)
            and not epochs[0][2]
            and event[1] < epochs[0][1]
            and not given.isdisjoint(pasts[event])
        )
        for i, later in history:
            if event in pasts[later] and (at is None or at > i):
                promised = any(event[1] >= start for _, start, _ in [e for e in epochs if e[0] < i][-1:])
                if event in given or ((promised or effect) and not world.excused(event)):
                    yield event
        if effect and at is None and stay.end is None and not world.excused(event):
            yield event


def disputed(world: World) -> bool:
    """INV-TOTAL: whether no order of all events agrees with what every subscription got."""
    before = {e: {e2 for s in world.stays for e2 in _after(s, e)} for e in world.published}
    for via in world.published:
        for event, later in before.items():
            if via in later:
                before[event] = later | before[via]
    return any(event in later for event, later in before.items())


def _after(stay: Stay, event: Event) -> list[Event]:
    got = [e for _, e in stay.reliable()]
    return got[got.index(event) + 1 :] if event in got else []
