"""A trace, indexed once for all checkers: who published what, who was promised what, who got what.

Nothing is judged here. A *stream* is what one publisher published on one topic. A *subscription* is one
stay: an unsubscribe ends it, and the same name afterwards is another one. A crash of its client ends it too,
unless it is durable. The name subscribed again while it is open (a durable subscriber that comes back, a
client that moves to another broker) goes on with the same one.

A promise about a publisher is a list of *epochs*. The first begins when the subscription goes live, or later
for a publisher that was unreachable then; only a reset ends one and begins the next, which is not before it
is reached if it is unreachable still. A second ``live`` adds promises, it takes none back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import msgspec

from gapless.selectors import Selector
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

NEVER = 2**63
"""A sequence that no event has and an index that no record has."""


class Matcher(Protocol):
    """A selector: says which attributes match."""

    def matches(self, attributes: Mapping[str, Any], /) -> bool:
        """Whether an event with these attributes matches."""


@dataclass(slots=True, eq=False)
class Stream:
    """What one publisher published on one topic."""

    topic: str
    publisher: str
    published: dict[int, int] = field(default_factory=dict)
    """The index of each sequence's publication, in the order of publication."""
    order: list[int] = field(default_factory=list)
    """The keys of ``published``."""
    indices: list[int] = field(default_factory=list)
    """The values of ``published``."""
    confirmed: set[int] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    """The publisher, and the clients and brokers it published at."""

    def first_after(self, index: int) -> int:
        """The sequence that was published first after a record."""
        place = bisect_right(self.indices, index)
        return self.order[place] if place < len(self.order) else NEVER


@dataclass(frozen=True, slots=True)
class Epoch:
    """From the record ``index`` on, everything of a publisher from the sequence ``start`` on is promised."""

    index: int
    start: int
    by_reset: bool


@dataclass(slots=True, eq=False)
class Subscription:
    """One stay of a subscription and what it was given."""

    name: str
    client: str
    topic: str
    selector: str
    durable: bool
    index: int
    """The record that began it."""
    live: int = NEVER
    """The record that made it live."""
    ended: int = NEVER
    """The record that ended it."""
    grants: list[tuple[int, Live | Reset]] = field(default_factory=list)
    received: dict[str, dict[int, int]] = field(default_factory=dict)
    """Per publisher, the index of the first delivery of each sequence, in the order of delivery."""
    repeated: list[int] = field(default_factory=list)
    """Deliveries of what it had already."""
    epochs: dict[str, list[Epoch]] = field(default_factory=dict)

    @property
    def is_open(self) -> bool:
        """Whether it was still there when the trace ended."""
        return self.ended == NEVER


class History:
    """The index of a trace. ``durable`` takes every subscription for a durable one."""

    def __init__(
        self,
        trace: Iterable[Record],
        *,
        durable: bool = False,
        selectors: Callable[[str], Matcher] = Selector,
    ) -> None:
        self.records: Sequence[Record] = trace if isinstance(trace, list) else list(trace)
        self.durable = durable
        self.streams: dict[str, dict[str, Stream]] = {}
        """By topic and publisher."""
        self.subscriptions: list[Subscription] = []
        self.owners: dict[int, Subscription] = {}
        """The subscription of each delivery."""
        self.strays: list[int] = []
        """Deliveries to no open subscription, or to another client than that of the subscription."""
        self.renumbered: list[tuple[int, int]] = []
        """Publications with another sequence than the one expected, which follows."""
        self.unfounded: list[int] = []
        """Confirmations of what was not published."""
        self._crashes: dict[str, list[int]] = {}
        self._fences: dict[tuple[str, str], int] = {}
        """By client and publisher, when the client was told last that the publisher is not its own."""
        self._selectors = selectors
        self._matchers: dict[str, Matcher] = {}
        self._verdicts: dict[str, dict[bytes, bool]] = {}
        self._matching: dict[tuple[str, str, str], list[int]] = {}
        self._keys: dict[int, bytes] = {}
        self._index()

    def reliable(self, index: int) -> bool:
        """Whether the delivery at this index is not flagged as best effort."""
        record = self.records[index]
        return isinstance(record, Deliver) and not record.best_effort

    def matches(self, selector: str, index: int) -> bool:
        """Whether the selector matches the event published at this index."""
        verdicts = self._verdicts.setdefault(selector, {})
        key = self._keys.get(index)
        record = self.records[index]
        assert isinstance(record, Publish)
        if key is None:
            key = self._keys[index] = msgspec.json.encode(record.attributes)
        verdict = verdicts.get(key)
        if verdict is None:
            verdict = not selector or self._matcher(selector).matches(record.attributes)
            verdicts[key] = verdict
        return verdict

    def matching(self, subscription: Subscription, stream: Stream) -> list[int]:
        """The sequences of the stream that match the subscription, in ascending order."""
        key = (subscription.selector, stream.topic, stream.publisher)
        found = self._matching.get(key)
        if found is None:
            found = sorted(
                sequence
                for sequence, index in stream.published.items()
                if self.matches(subscription.selector, index)
            )
            self._matching[key] = found
        return found

    def epochs(self, subscription: Subscription, stream: Stream) -> list[Epoch]:
        """What the subscription was promised of the publisher; empty when nothing was."""
        found = subscription.epochs.get(stream.publisher)
        if found is None:
            found = subscription.epochs[stream.publisher] = list(_epochs(subscription, stream))
        return found

    def excused(self, stream: Stream, sequence: int) -> bool:
        """Whether the publisher's client crashed, or was fenced, before the network confirmed the event."""
        if not (self._crashes or self._fences) or sequence in stream.confirmed:
            return False
        published = stream.published[sequence]
        record = self.records[published]
        assert isinstance(record, Publish)
        crashes = self._crashes.get(record.client, [])
        fenced = self._fences.get((record.client, record.publisher), -1)
        return max(fenced, *crashes[-1:], -1) > published

    def _matcher(self, selector: str) -> Matcher:
        if selector not in self._matchers:
            self._matchers[selector] = self._selectors(selector)
        return self._matchers[selector]

    def _index(self) -> None:
        opened: dict[str, Subscription] = {}
        for index, record in enumerate(self.records):
            match record:
                case Deliver():
                    self._deliver(index, record, opened.get(record.subscription))
                case Publish():
                    self._publish(index, record)
                case Confirm():
                    self._confirm(index, record)
                case Subscribe():
                    self._subscribe(index, record, opened)
                case Live() | Reset():
                    _grant(index, record, opened.get(record.subscription))
                case Unsubscribe():
                    if ended := opened.pop(record.subscription, None):
                        ended.ended = index
                case Crash():
                    self._crash(index, record.node, opened)
                case Fenced():
                    self._fences[record.client, record.publisher] = index
                case _:
                    pass

    def _deliver(self, index: int, record: Deliver, subscription: Subscription | None) -> None:
        if subscription is None or subscription.client != record.client:
            self.strays.append(index)
            return
        self.owners[index] = subscription
        got = subscription.received.get(record.publisher)
        if got is None:
            got = subscription.received[record.publisher] = {}
        if record.sequence in got:
            subscription.repeated.append(index)
        else:
            got[record.sequence] = index

    def _publish(self, index: int, record: Publish) -> None:
        publishers = self.streams.setdefault(record.topic, {})
        stream = publishers.get(record.publisher)
        if stream is None:
            stream = publishers[record.publisher] = Stream(record.topic, record.publisher)
        expected = stream.order[-1] + 1 if stream.order else 1
        if record.sequence != expected:
            self.renumbered.append((index, expected))
        if record.sequence not in stream.published:
            stream.published[record.sequence] = index
            stream.order.append(record.sequence)
            stream.indices.append(index)
        stream.names.update((record.publisher, record.client, record.broker))

    def _confirm(self, index: int, record: Confirm) -> None:
        """Without a topic, the event is known only if one topic alone has that sequence of the publisher."""
        topics = [record.topic] if record.topic else list(self.streams)
        found = [stream for topic in topics if (stream := self.streams.get(topic, {}).get(record.publisher))]
        found = [stream for stream in found if record.sequence in stream.published]
        if not found:
            self.unfounded.append(index)
        elif len(found) == 1:
            found[0].confirmed.add(record.sequence)

    def _subscribe(self, index: int, record: Subscribe, opened: dict[str, Subscription]) -> None:
        before = opened.get(record.subscription)
        if before and (before.topic, before.selector) == (record.topic, record.selector):
            before.client = record.client
            return
        if before:
            before.ended = index
        subscription = Subscription(
            name=record.subscription,
            client=record.client,
            topic=record.topic,
            selector=record.selector,
            durable=self.durable or bool(record.durable),
            index=index,
        )
        opened[record.subscription] = subscription
        self.subscriptions.append(subscription)

    def _crash(self, index: int, node: str, opened: dict[str, Subscription]) -> None:
        self._crashes.setdefault(node, []).append(index)
        for name in [name for name, subscription in opened.items() if subscription.client == node]:
            if not opened[name].durable:
                opened.pop(name).ended = index


def _grant(index: int, record: Live | Reset, subscription: Subscription | None) -> None:
    if subscription is not None:
        subscription.grants.append((index, record))
        if isinstance(record, Live):
            subscription.live = min(subscription.live, index)


def _epochs(subscription: Subscription, stream: Stream) -> Iterable[Epoch]:
    promised, is_reached = False, True
    for index, grant in subscription.grants:
        start = grant.start.get(stream.publisher)
        if isinstance(grant, Live):
            is_reached = stream.names.isdisjoint(grant.unreachable)
            concerned = not promised and is_reached
        else:
            concerned = start is not None or stream.publisher in grant.publishers
            if not grant.publishers or (concerned and start is None and not is_reached):
                promised = False  # withdrawn; a live follows
                yield Epoch(index, NEVER, True)
                continue
        if concerned:
            promised = True
            first = stream.first_after(index) if start is None else start
            yield Epoch(index, first, isinstance(grant, Reset))


def between(ascending: list[int], low: int, high: int) -> list[int]:
    """The part of an ascending list from ``low`` up to, but not including, ``high``."""
    return ascending[bisect_left(ascending, low) : bisect_left(ascending, high)]
