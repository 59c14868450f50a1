"""The checker of total order: whether one order exists that all subscriptions of a topic agree with.

What a subscription got one after the other is an edge between two events. The edges are added in the order of
the trace to a graph that is kept in topological order (Pearce and Kelly, 2007): an edge that agrees with the
order so far costs nothing, another one reorders only the events between its ends, and one that cannot be
added contradicts what others were given before. So the delivery where the disagreement shows is known.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from gapless.simulation.checkers.deliveries import violation
from gapless.simulation.checkers.history import NEVER, History, Subscription
from gapless.simulation.checkers.violations import Kind, Violation
from gapless.simulation.trace import Deliver, Live

EventKey: TypeAlias = tuple[str, int]
"""A publisher and a sequence."""


class Precedence:
    """Events in an order that agrees with every edge added so far."""

    def __init__(self) -> None:
        self._place: dict[EventKey, int] = {}
        self._after: dict[EventKey, dict[EventKey, str]] = {}
        self._before: dict[EventKey, dict[EventKey, str]] = {}

    def add(self, first: EventKey, second: EventKey, witness: str) -> str | None:
        """Put one event before another, as ``witness`` saw it; if that cannot be, who saw otherwise."""
        for event in (first, second):
            if event not in self._place:
                self._place[event] = len(self._place)
                self._after[event], self._before[event] = {}, {}
        if second in self._after[first]:
            return None
        if self._place[first] > self._place[second]:
            later, opponent = self._reach(second, self._after, self._place[second], self._place[first], first)
            if opponent is not None:
                return opponent
            sooner, _ = self._reach(first, self._before, self._place[second], self._place[first], None)
            self._reorder(sooner, later)
        self._after[first][second] = self._before[second][first] = witness
        return None

    def _reach(
        self,
        origin: EventKey,
        edges: dict[EventKey, dict[EventKey, str]],
        low: int,
        high: int,
        target: EventKey | None,
    ) -> tuple[list[EventKey], str | None]:
        """All events reached from one within some places; and the witness of the last step to the target."""
        found = {origin: ""}
        waiting = [origin]
        while waiting:
            event = waiting.pop()
            for following, witness in edges[event].items():
                if following == target:
                    return [], witness
                if following not in found and low <= self._place[following] <= high:
                    found[following] = witness
                    waiting.append(following)
        return list(found), None

    def _reorder(self, sooner: list[EventKey], later: list[EventKey]) -> None:
        """Give the places of all these events to ``sooner`` first; within each part the order stays."""
        events = sorted(sooner, key=self._place.__getitem__) + sorted(later, key=self._place.__getitem__)
        places = sorted(self._place[event] for event in events)
        self._place.update(zip(events, places, strict=True))


def total(history: History, *, healed: bool) -> Iterator[Violation]:
    """INV-TOTAL (G4-43): all subscriptions of a topic agree on the order of what they got.

    Those with the same selector and the same start get the same, from the first event to the last (in a run
    that did not end healed, or after an unsubscribe: as far as the shorter one goes).
    """
    yield from _disagreements(history)
    groups: dict[tuple[object, ...], list[Subscription]] = {}
    for subscription in history.subscriptions:
        start = _start(history, subscription)
        if start is not None:
            key = (subscription.topic, subscription.selector, *start)
            groups.setdefault(key, []).append(subscription)
    for group in groups.values():
        model = next((subscription for subscription in group if subscription.is_open), group[0])
        expected = _sequence(history, model)
        for subscription in group:
            if subscription is not model:
                found = _difference(history, (model, expected), subscription, healed)
                yield from [found] if found else []


def _disagreements(history: History) -> Iterator[Violation]:
    orders = {topic: Precedence() for topic in history.streams}
    last: dict[int, EventKey] = {}
    for index, subscription in history.owners.items():
        record = history.records[index]
        assert isinstance(record, Deliver)
        if record.best_effort or subscription.received[record.publisher][record.sequence] != index:
            continue
        stream = history.streams.get(subscription.topic, {}).get(record.publisher)
        if stream is None or record.sequence not in stream.published:
            continue
        event = (record.publisher, record.sequence)
        previous = last.get(subscription.index)
        if previous is not None:
            opponent = orders[subscription.topic].add(previous, event, subscription.name)
            if opponent is not None:
                got = f"{subscription.name} got {previous[0]}.{previous[1]} before {event[0]}.{event[1]}"
                message = f"{got}, which contradicts the order that others got them in ({opponent})"
                yield violation(history, Kind.TOTAL, index, message)
                continue
        last[subscription.index] = event


def _start(history: History, subscription: Subscription) -> tuple[object, ...] | None:
    """Where the subscription starts, in a form that can be compared; none if it started more than once."""
    if len(subscription.grants) != 1:
        return None
    live = subscription.grants[0][1]
    if not isinstance(live, Live) or live.unreachable:
        return None
    if live.position is not None:
        return (live.position,)
    streams = history.streams.get(subscription.topic, {}).values()
    return tuple((s.publisher, epoch.start) for s in streams for epoch in history.epochs(subscription, s))


def _sequence(history: History, subscription: Subscription) -> list[tuple[int, EventKey]]:
    """The reliable deliveries from the start on, with the index of each."""
    live = subscription.grants[0][1]
    by_tick = isinstance(live, Live) and live.position is not None
    found: list[tuple[int, EventKey]] = []
    for publisher, stream in history.streams.get(subscription.topic, {}).items():
        start = 0 if by_tick else history.epochs(subscription, stream)[0].start
        for sequence, index in subscription.received.get(publisher, {}).items():
            if sequence >= start and sequence in stream.published and history.reliable(index):
                found.append((index, (publisher, sequence)))
    return sorted(found)


def _difference(
    history: History,
    model: tuple[Subscription, list[tuple[int, EventKey]]],
    subscription: Subscription,
    healed: bool,
) -> Violation | None:
    """The first difference between what two subscriptions got that start at the same place."""
    other, expected = model
    actual = _sequence(history, subscription)
    message = f"{subscription.name} and {other.name} start at the same place, but "
    for number, ((_, theirs), (index, ours)) in enumerate(zip(expected, actual, strict=False), start=1):
        if theirs != ours:
            message += (
                f"event {number} is {ours[0]}.{ours[1]} for one and {theirs[0]}.{theirs[1]} for the other"
            )
            return violation(history, Kind.TOTAL, index, message)
    shorter, longer, rest = subscription, other, expected[len(actual) :]
    if len(actual) > len(expected):
        shorter, longer, rest = other, subscription, actual[len(expected) :]
    if rest and healed and shorter.ended == NEVER:
        index, event = rest[0]
        message += f"only {longer.name} got {event[0]}.{event[1]}"
        return violation(history, Kind.TOTAL, index, message)
    return None
