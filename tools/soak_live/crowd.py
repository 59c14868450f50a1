"""Clients that come and go. What they do and see in a round is recorded, and judged at its end."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import gapless
from live.harness import LiveNetwork
from live.traffic import LIMIT, SCHEMA, SELECTORS, attributes
from tools.soak_live.deck import Deck
from tools.soak_live.recording import RecordedClient, Recording

TOPIC = "crowd"
LEASE_SECONDS = 6.0
"""A subscriber that is away for longer is given up, and told so when it returns."""
PUBLISHERS = 3
SUBSCRIBERS_FIRST, SUBSCRIBERS_MAX = 3, 8
PER_SECOND = 20.0
"""How many events a publisher publishes."""
CONNECT_SECONDS = 10.0
ACTS = {
    "subscribe": 6,
    "unsubscribe": 1,
    "close a client": 1,
    "vanish": 1,
    "cut off briefly": 1,
    "cut off for longer than the lease": 1,
    "publisher ends and goes on": 1,
    "publisher crashes and goes on": 1,
    "publisher loses its store": 1,
}


class Reader:
    """Reads one subscription."""

    def __init__(self, subscription: gapless.Subscription) -> None:
        self.subscription = subscription
        self.seen: dict[str, int] = {}
        """The last sequence that it got of each publisher."""
        self.reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async with self.subscription:
            async for item in self.subscription:
                if isinstance(item, gapless.Event):
                    self.seen[item.publisher] = item.sequence

    async def stop(self) -> None:
        await _cancel(self.reading)
        await self.subscription.close()


@dataclass(eq=False)
class Subscriber:
    """A client with its subscriptions."""

    client: RecordedClient
    readers: list[Reader] = field(default_factory=list)


@dataclass(eq=False)
class Writer:
    """A publisher of a name, in whichever client it is now."""

    name: str
    data: Path
    client: RecordedClient
    publisher: gapless.Publisher
    writing: asyncio.Task[None]

    async def stop_writing(self) -> None:
        await _cancel(self.writing)


class Crowd:
    """All clients that come and go."""

    def __init__(
        self, network: LiveNetwork, directory: Path, rng: Random, up: Callable[[], list[str]]
    ) -> None:
        self.deck = Deck(ACTS, rng)
        self.totals: Counter[str] = Counter()
        """How many records of each kind the rounds had that are over."""
        self.recording = Recording()
        self._network = network
        self._directory = directory
        self._rng = rng
        self._up = up
        self._round = 0
        self._subscribers: list[Subscriber] = []
        self._writers: list[Writer] = []
        self._returning: set[asyncio.Task[None]] = set()

    # -- a round -----------------------------------------------------------------------------------------

    async def begin(self) -> None:
        """The first clients of a round; nobody of the last one is left."""
        self._round += 1
        self.recording = Recording()
        if self._round == 1:
            opener = await self._connect(self._directory)
            await opener.create_topic(TOPIC, schema=SCHEMA)
            await opener.close()
        for number in range(PUBLISHERS):
            name = f"pen-{self._round}-{number}"
            await self._write(name, self._directory / "crowd" / name)
        for _ in range(SUBSCRIBERS_FIRST):
            await self._subscribe()

    async def finish(self) -> None:
        """All is mended: everybody returns, is live and gets what is published now, and all is confirmed. So
        nothing is under way any more, and the checkers judge."""
        await asyncio.gather(*self._returning)
        await self._until("all subscriptions are live and reach everybody", self._unreached)
        marks = {each.name: each.publisher.published for each in self._writers}
        for reader in self._readers():
            reader.seen.clear()
        await self._until("all subscriptions get new events", lambda: self._idle(marks))
        for writer in self._writers:
            await writer.stop_writing()
        await self._until("the crowd's events are confirmed", self._unconfirmed)
        faults = await asyncio.to_thread(self.recording.judged)
        self.totals += self.recording.counts()
        if faults:
            place = self._directory / f"crowd-{self._round}.jsonl"
            self.recording.trace.write(place)
            raise AssertionError("\n".join([f"round {self._round}, trace in {place}:", *faults]))
        await self.leave()

    async def leave(self) -> None:
        """Everybody says goodbye."""
        for task in self._returning:
            task.cancel()
        for writer in self._writers:
            await writer.stop_writing()
            await writer.client.close()
        for subscriber in self._subscribers:
            await self._close(subscriber)
        self._writers.clear()
        self._subscribers.clear()

    def check(self) -> None:
        """Raise what has gone wrong so far."""
        tasks = [each.writing for each in self._writers]
        tasks += [each.reading for each in self._readers()]
        for task in [*tasks, *self._returning]:
            if task.done() and not task.cancelled():
                task.result()

    async def _until(self, what: str, lacking: Callable[[], list[str]]) -> None:
        deadline = time.monotonic() + LIMIT + LEASE_SECONDS
        while missing := lacking():
            self.check()
            assert time.monotonic() < deadline, f"not in time: {what}; {'; '.join(missing)}"
            await asyncio.sleep(0.05)

    def _unconfirmed(self) -> list[str]:
        publishers = [each.publisher for each in self._writers]
        return [
            f"{each.name} has {each.confirmed} of {each.published}"
            for each in publishers
            if each.confirmed < each.published
        ]

    def _unreached(self) -> list[str]:
        return [
            f"{each.name} does not reach {each.unreachable}"
            for each in (reader.subscription for reader in self._readers())
            if each.latency is None or each.unreachable
        ]

    def _idle(self, marks: dict[str, int]) -> list[str]:
        return [
            f"{reader.subscription.name} gets nothing of {name} after {mark}"
            for reader in self._readers()
            for name, mark in marks.items()
            if reader.seen.get(name, 0) <= mark
        ]

    def _readers(self) -> list[Reader]:
        return [reader for subscriber in self._subscribers for reader in subscriber.readers]

    # -- acts --------------------------------------------------------------------------------------------

    async def act(self) -> None:
        """Somebody comes, goes, or comes back."""
        here = [each for each in self._subscribers if each.readers]
        possible = set(ACTS)
        if len(self._subscribers) >= SUBSCRIBERS_MAX:
            possible.discard("subscribe")
        if not here:
            possible = {each for each in ACTS if each.startswith(("subscribe", "publisher"))}
        kind = self.deck.draw(possible)
        assert kind is not None
        if kind == "subscribe":
            await self._subscribe()
        elif kind.startswith("publisher"):
            await self._interrupt(self._rng.choice(self._writers), kind)
        elif kind.startswith("cut off"):
            self._cut_off(self._rng.choice(here), is_long=kind != "cut off briefly")
        elif kind == "unsubscribe":
            readers = self._rng.choice(here).readers
            await readers.pop(self._rng.randrange(len(readers))).stop()
        else:
            subscriber = self._rng.choice(here)
            self._subscribers.remove(subscriber)
            await self._close(subscriber, silently=kind == "vanish")
        self.deck.counts[kind] += 1

    async def _subscribe(self) -> None:
        """A new client, or sometimes one that is there, wants something."""
        if not self._subscribers or self._rng.random() < 0.7:
            self._subscribers.append(Subscriber(await self._connect(self._directory)))
        else:
            self._rng.shuffle(self._subscribers)
        subscriber = self._subscribers[-1]
        subscription = subscriber.client.subscribe(TOPIC, self._rng.choice(SELECTORS))
        subscriber.readers.append(Reader(subscription))

    async def _close(self, subscriber: Subscriber, *, silently: bool = False) -> None:
        if silently:
            await subscriber.client.vanish()
        for each in subscriber.readers:
            await each.stop()
        await subscriber.client.close()

    def _cut_off(self, subscriber: Subscriber, *, is_long: bool) -> None:
        """It is away for a while, and knows as little of that as the brokers do."""
        span = self._rng.uniform(1.1, 1.4) if is_long else self._rng.uniform(0.1, 0.6)
        brokers = list(self._network.brokers)

        async def wait() -> None:
            await asyncio.sleep(span * LEASE_SECONDS)
            subscriber.client.heal(brokers)

        subscriber.client.cut(brokers)
        task = asyncio.create_task(wait())
        self._returning.add(task)
        task.add_done_callback(self._returning.discard)

    async def _interrupt(self, writer: Writer, kind: str) -> None:
        """A publisher's client ends or crashes; later another client goes on with its name."""
        self._writers.remove(writer)
        await writer.stop_writing()
        if kind == "publisher ends and goes on":
            await writer.client.close()
        else:
            await writer.client.vanish()
        if kind == "publisher loses its store":
            shutil.rmtree(writer.data)
        await asyncio.sleep(self._rng.uniform(0.0, 2.0))
        await self._write(writer.name, writer.data)

    async def _write(self, name: str, data: Path) -> None:
        client = await self._connect(data)
        publisher = client.publisher(TOPIC, name=name)
        await publisher.__aenter__()  # and no exit, which would wait for confirmations after a failure
        self._writers.append(Writer(name, data, client, publisher, asyncio.create_task(_write(publisher))))

    async def _connect(self, data: Path) -> RecordedClient:
        """A client of some broker that is well; it may fail in this moment, then of another one."""
        for _ in range(10):
            home = self._network[self._rng.choice(self._up())]
            client = RecordedClient(
                home.address, data=str(data), timeout=CONNECT_SECONDS, recording=self.recording
            )
            with suppress(gapless.NotConnectedError):
                await client
                return client
            await asyncio.sleep(0.2)
        raise AssertionError("no broker lets a client in")


async def _cancel(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def _write(publisher: gapless.Publisher) -> None:
    while True:
        await publisher.publish(attributes(publisher.name, publisher.published + 1))
        await asyncio.sleep(1 / PER_SECOND)
