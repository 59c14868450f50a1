"""The trace of clients in real time: what they asked for and saw, for the checkers of the simulator.

All clients live in this process, so the order of the records is the order in which things happened. An event
counts as published when it is durable at its publisher, which is before any broker can have it: what was not
durable when its client crashed has never been, and its number is given to another event.
"""

from __future__ import annotations

import time
from collections import Counter

from gapless.client.client import WINDOW_EVENTS, Client
from gapless.client.errors import NotConnectedError
from gapless.client.journal import PublisherStores
from gapless.client.subscription import Subscription
from gapless.core import effects
from gapless.core.effects import Effect, EventsRetained, NumberingBegun, Record
from gapless.core.model import Event, OrderName
from gapless.simulation import trace
from gapless.simulation.checkers import check
from gapless.simulation.sources import Sources
from gapless.simulation.swarm.run import untold
from gapless.simulation.trace import Trace


class Recording:
    """What the crowd does and sees in one round."""

    def __init__(self) -> None:
        self.trace = Trace()
        self.sources = Sources()
        self._began = time.monotonic()
        self._published: dict[tuple[str, str], int] = {}  # by source and topic, the last sequence
        self._confirmed: dict[tuple[str, str], int] = {}

    @property
    def now(self) -> int:
        """Microseconds since the round began."""
        return int((time.monotonic() - self._began) * 1e6)

    def counts(self) -> Counter[str]:
        """How many records there are of each kind."""
        return Counter(type(each).__name__ for each in self.trace)

    def judged(self) -> list[str]:
        """What is wrong, now that all is healed and nothing under way."""
        report = check(self.trace, promise=OrderName.PUBLISHER, healed=True)
        faults = [f"{each.kind}: {each.message}" for each in report]
        count = untold(self.trace)
        return [*faults, f"{count} times a publisher counted anew untold"] if count else faults

    # -- what clients tell ---------------------------------------------------------------------------------

    def stored(self, client: str, home: str, records: list[Record]) -> None:
        """These have become durable at a publisher."""
        for record in records:
            if isinstance(record, NumberingBegun):
                self.sources.begins(client, record)
            elif isinstance(record, EventsRetained):
                for event in record.events:
                    self._publish(client, home, event)

    def _publish(self, client: str, home: str, event: Event) -> None:
        name = self.sources.current(client, event.publisher)
        if event.sequence <= self._published.get((name, event.topic), 0):
            return  # the same event, retained again
        self._published[name, event.topic] = event.sequence
        self.trace.append(
            trace.Publish(
                t=self.now,
                client=client,
                publisher=name,
                sequence=event.sequence,
                topic=event.topic,
                attributes=event.attributes,
                broker=home,
            )
        )

    def subscribed(self, client: str, home: str, subscription: Subscription) -> None:
        """A client asks for a subscription."""
        self.trace.append(
            trace.Subscribe(
                t=self.now,
                client=client,
                subscription=subscription.name,
                topic=subscription.topic,
                selector=subscription.selector,
                broker=home,
            )
        )

    def unsubscribed(self, subscription: str) -> None:
        """A client wants no more of it."""
        self.trace.append(trace.Unsubscribe(t=self.now, subscription=subscription))

    def crashed(self, client: str) -> None:
        """A client is gone without a word."""
        self.trace.append(trace.Crash(t=self.now, node=client))

    def performed(self, client: str, effect: Effect) -> None:
        """A client's application is told something."""
        match effect:
            case effects.Deliver(subscription=subscription, events=events):
                for event in events:
                    self.trace.append(
                        trace.Deliver(
                            t=self.now,
                            client=client,
                            subscription=subscription,
                            publisher=self.sources.name(event.publisher, effect.numbering),
                            sequence=event.sequence,
                            best_effort=effect.best_effort,
                        )
                    )
            case effects.Live(subscription=subscription, start=start, unreachable=partitions):
                nodes = tuple(node for each in partitions for node in each.nodes)
                first = self.sources.start(start)
                self.trace.append(
                    trace.Live(t=self.now, subscription=subscription, start=first, unreachable=nodes)
                )
            case effects.Reset(subscription=subscription, publishers=publishers):
                first = self.sources.start_of_reset(effect)
                self.trace.append(
                    trace.Reset(t=self.now, subscription=subscription, publishers=publishers, start=first)
                )
            case effects.Receipt():
                self._confirm(client, effect)
            case _:
                pass

    def _confirm(self, client: str, receipt: effects.Receipt) -> None:
        name = self.sources.current(client, receipt.publisher)
        key = (name, receipt.topic)
        for sequence in range(self._confirmed.get(key, 0) + 1, receipt.sequence + 1):
            self.trace.append(
                trace.Confirm(t=self.now, publisher=name, sequence=sequence, topic=receipt.topic)
            )
        self._confirmed[key] = max(receipt.sequence, self._confirmed.get(key, 0))


class RecordedStores(PublisherStores):
    """Stores of publishers that tell what has become durable."""

    def __init__(self, place: str, client: RecordedClient) -> None:
        super().__init__(place)
        self._client = client

    async def open(self, publisher: str, network: str) -> tuple[Record, ...]:
        records = await super().open(publisher, network)
        self._client.recording.sources.adopted(self._client.name, publisher, records)
        return records

    async def append(self, records: list[Record]) -> None:
        await super().append(records)
        self._client.recording.stored(self._client.name, self._client.home, records)


class RecordedClient(Client):
    """A client that tells all it does and sees, and that can vanish without a word."""

    def __init__(self, address: str, *, data: str, timeout: float, recording: Recording) -> None:
        super().__init__([address], name=None, data=data, window=WINDOW_EVENTS, timeout=timeout)
        self.recording = recording
        self._stores = RecordedStores(data, self)

    @property
    def home(self) -> str:
        """The broker that it belongs to, or who has the place of that one now."""
        return self._node.identity.home or ""

    async def vanish(self) -> None:
        """End as a crash would: nothing more is sent or written."""
        driver, self._driver = self._driver, None
        if driver is not None:
            self._end(NotConnectedError(f"{self.name} has vanished"))
            await driver.stop("vanished", at_once=True)
            await self._stores.close()
            self.recording.crashed(self.name)

    def cut(self, brokers: list[str]) -> None:
        """Let nothing pass between here and these brokers."""
        self.recording.trace.append(trace.Cut(t=self.recording.now, nodes=(self.name, self.home)))
        for each in brokers:
            if self._driver is not None:
                self._driver.transport.cut_link(each)

    def heal(self, brokers: list[str]) -> None:
        """Let everything pass again."""
        self.recording.trace.append(trace.Heal(t=self.recording.now, nodes=(self.name, self.home)))
        for each in brokers:
            if self._driver is not None:
                self._driver.transport.heal_link(each)

    async def open_subscription(self, subscription: Subscription) -> None:
        await super().open_subscription(subscription)
        self.recording.subscribed(self.name, self.home, subscription)

    def close_subscription(self, subscription: Subscription) -> None:
        if subscription.name in self._subscriptions:
            self.recording.unsubscribed(subscription.name)
        super().close_subscription(subscription)

    def _perform(self, effect: Effect) -> None:
        if not isinstance(effect, effects.Deliver) or effect.subscription in self._subscriptions:
            self.recording.performed(self.name, effect)
        super()._perform(effect)
