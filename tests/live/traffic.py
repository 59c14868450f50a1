"""Traffic whose every event is judged when it arrives: feeds that publish, readers that want some of it.

::

    async with Traffic(network, directory, "trades") as traffic:    # 3 feeds and 4 readers, all live
        await traffic.flows()         # every reader gets new events of every feed
        …                             # break something, mend it
        await traffic.finish()        # exactly the matching events, once, in order, all confirmed; no Reset

What an event says follows from its publisher and its number alone, so a reader knows what must come without
asking the network and without keeping anything: between two events of a publisher there may be none that
its selector matches. That makes hours of traffic judgeable in constant memory."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from zlib import crc32

import gapless
from gapless.server.inquiry import Survey, survey
from live.harness import BrokerProcess, LiveNetwork

SYMBOLS = ("AAPL", "IBM", "NVDA", "SAP", "TSLA")
VENUES = ("EU-W", "EU-C", "US-E", "ASIA")
SCHEMA = "n BIGINT, symbol STRING, price DOUBLE, venue STRING, urgent BOOLEAN"
FEEDS = {"b3": "desk", "b5": None, "b6": None}
"""Where feeds are, and the name of those that have one, and so a store."""
READERS = {
    "b4": "",
    "b6": "symbol = 'IBM' AND price > 50",
    "b3": "venue LIKE 'EU-%' AND price BETWEEN 20 AND 200",
    "b1": "symbol IN ('NVDA', 'AAPL') AND NOT urgent",
}
"""Where readers are, and what they want."""
SELECTORS = ("", "urgent", "price > 100 OR venue = 'ASIA'", "n BETWEEN 0 AND 1000000000 AND symbol <> 'SAP'")
"""What those may want who come later."""
TICKS = 50
"""How often a second a feed publishes."""
FAULTS_MAX = 20
BLUNDERS = re.compile("Traceback|never retrieved|never awaited| ERROR ")
"""What no broker logs unless it is at fault itself."""
LIMIT = 40.0
"""Seconds that anything may take; on a busy machine a broker alone may take many to start."""


def attributes(publisher: str, sequence: int) -> dict[str, Any]:
    """What the event of that number says."""
    chance = crc32(f"{publisher}/{sequence}".encode())
    return {
        "n": sequence,
        "symbol": SYMBOLS[chance % 5],
        "price": chance % 997 / 4,
        "venue": VENUES[(chance >> 12) % 4],
        "urgent": bool(chance >> 20 & 1),
    }


@dataclass
class Feed:
    """A publisher that publishes at a constant rate."""

    publisher: gapless.Publisher
    home: str
    """The broker that its client was connected to."""
    stopped: bool = False

    @property
    def name(self) -> str:
        return self.publisher.name

    @property
    def published(self) -> int:
        return self.publisher.published

    async def run(self, per_second: float) -> None:
        """Publish until it is stopped; when there was no room for a while, do not make up for it."""
        loop = asyncio.get_running_loop()
        due = loop.time()
        while not self.stopped:
            for _ in range(max(1, round(per_second / TICKS))):
                await self.publisher.publish(attributes(self.name, self.published + 1))
            due = max(due + 1 / TICKS, loop.time() - 0.1)
            await asyncio.sleep(due - loop.time())


@dataclass
class Stream:
    """What a reader has got of one feed."""

    judged: int | None
    """The last sequence that was judged, delivered or rightly not; None: the promise has not begun."""
    latest: int | None = None
    """Where a promise that has not begun begins at the latest, if that is known."""
    at: float = field(default_factory=time.monotonic)
    longest: float = 0.0
    """Seconds between two events, at most."""

    def now(self) -> None:
        """An event comes."""
        now = time.monotonic()
        self.longest = max(self.longest, now - self.at)
        self.at = now


class Reader:
    """A subscriber that judges what it gets."""

    def __init__(self, name: str, subscription: gapless.Subscription, feeds: list[Feed]) -> None:
        self.name = name
        self.subscription = subscription
        self.received = 0
        self.faults: list[str] = []
        """What was wrong, from the first on."""
        self._matches = gapless.Selector(subscription.selector or "TRUE").matches
        self.streams = {feed.name: self._begin(feed) for feed in feeds}

    @property
    def unreachable(self) -> set[str]:
        """The brokers whose publishers are not promised."""
        return {node for each in self.subscription.unreachable for node in each.nodes}

    def _begin(self, feed: Feed) -> Stream:
        """A publisher that the start does not name is promised from now on, if its broker is reached."""
        if feed.home in self.unreachable:
            return Stream(None)
        first = self.subscription.start.get(feed.name)
        if first is None:
            return Stream(None, feed.published + 1)
        if first > feed.published + 1:
            self._blame(f"the start {first} of {feed.name} is in the future")
        return Stream(first - 1)

    def reaches(self, feeds: list[Feed]) -> bool:
        """Whether all is promised by now; what is published after that must come."""
        if self.unreachable:
            return False
        for feed in feeds:
            if self.streams[feed.name].judged is None:
                self.streams[feed.name].latest = feed.published + 1
        return True

    def _blame(self, fault: str) -> None:
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(f"{self.name}: {fault}")

    async def run(self) -> None:
        """Take what comes."""
        try:
            async for item in self.subscription:
                if isinstance(item, gapless.Event):
                    self._judge(item)
                else:
                    self._blame(f"{item}")
        except gapless.GaplessError as error:
            self._blame(f"ended: {error}")

    def _judge(self, event: gapless.Event) -> None:
        self.received += 1
        stream = self.streams.setdefault(event.publisher, Stream(0))
        stream.now()
        what = f"{event.sequence} of {event.publisher}"
        if stream.judged is None:
            stream.judged = min(stream.latest or event.sequence, event.sequence) - 1
        if event.sequence <= stream.judged:
            self._blame(f"{what} came after {stream.judged} was judged: twice, out of order or too early")
            return
        self._expect_none(event.publisher, stream, event.sequence)
        stream.judged = event.sequence
        if not self._matches(event.attributes) or event.best_effort:
            self._blame(f"{what} was not wanted: {event}")
        if event.attributes != attributes(event.publisher, event.sequence):
            self._blame(f"{what} is not what was published: {event}")

    def _expect_none(self, publisher: str, stream: Stream, before: int) -> None:
        missing = self._matching(publisher, stream, before)
        if missing:
            self._blame(f"{len(missing)} of {publisher} are missing from {missing[0]} to {missing[-1]}")

    def _matching(self, publisher: str, stream: Stream, before: int) -> list[int]:
        """The promised events after those that were judged."""
        first = stream.judged + 1 if stream.judged is not None else stream.latest or before
        return [each for each in range(first, before) if self._matches(attributes(publisher, each))]

    def has_seen(self, publisher: str, sequence: int) -> bool:
        """Whether it got this event or a later one."""
        return (self.streams[publisher].judged or 0) >= sequence

    def lacks(self, feed: Feed) -> bool:
        """Whether something of the feed has still to come."""
        return bool(self._matching(feed.name, self.streams[feed.name], feed.published + 1))

    def conclude(self, feeds: list[Feed]) -> None:
        """Nothing more comes: what has not come is missing."""
        for feed in feeds:
            self._expect_none(feed.name, self.streams[feed.name], feed.published + 1)


class Traffic:
    """Feeds and readers at several brokers of a network, each with a client of its own."""

    def __init__(
        self,
        network: LiveNetwork,
        directory: Path,
        topic: str,
        *,
        order: str = "publisher",
        per_second: float = 300.0,
    ) -> None:
        self.feeds: list[Feed] = []
        self.readers: list[Reader] = []
        self.topic = topic
        self._order = order
        self._network = network
        self._directory = directory
        self._per_second = per_second / len(FEEDS)
        self._stack = AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []
        self._clients: list[gapless.Client] = []
        self._blunders: list[dict[str, Any]] = []  # of the client library, which nobody would see otherwise

    async def __aenter__(self) -> Self:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: self._blunders.append(context))
        async with asyncio.timeout(LIMIT), AsyncExitStack() as opening:
            opening.push_async_exit(self.__aexit__)
            await (await self._client("b0")).create_topic(self.topic, order=self._order, schema=SCHEMA)
            for broker, selector in READERS.items():
                await self.read(broker, selector)
            for broker, name in FEEDS.items():
                await self.feed(broker, f"{name}-{self.topic}" if name else None)
            opening.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def _client(self, broker: str) -> gapless.Client:
        connecting = gapless.connect(self._network[broker].address, data=str(self._directory), timeout=LIMIT)
        client = await self._stack.enter_async_context(connecting)
        self._clients.append(client)
        return client

    async def feed(self, broker: str, name: str | None = None) -> Feed:
        """One more feed, which begins at once."""
        publisher = (await self._client(broker)).publisher(self.topic, name=name)
        await publisher.__aenter__()  # and no exit, which would wait for confirmations after a failure
        feed = Feed(publisher, broker)
        for reader in self.readers:
            reader.streams[feed.name] = Stream(feed.published)
        self.feeds.append(feed)
        self._do(feed.run(self._per_second))
        return feed

    async def read(self, broker: str, selector: str) -> Reader:
        """One more reader, which is live and reads at once."""
        subscription = (await self._client(broker)).subscribe(self.topic, selector)
        await self._stack.enter_async_context(subscription)
        reader = Reader(f"{selector or 'everything'} at {broker}", subscription, self.feeds)
        self.readers.append(reader)
        self._do(reader.run())
        return reader

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        self._tasks.append(asyncio.create_task(work))

    # -- what should happen ------------------------------------------------------------------------------

    async def flows(self) -> None:
        """Wait until every reader has got events of every feed that were published after now."""
        marks = [(feed.name, feed.published + 1) for feed in self.feeds]
        await self.until(
            "every reader gets new events of every feed",
            lambda: all(reader.has_seen(*mark) for reader in self.readers for mark in marks),
        )

    async def finish(self) -> None:
        """Publish no more, and wait for the rest: everything is confirmed, and everybody got all of it."""
        for feed in self.feeds:
            feed.stopped = True
        await self.until("everything is confirmed", lambda: self.published == self.confirmed)
        await self.until("all have come", lambda: not any(map(self._lacks, self.readers)), fails=False)
        for reader in self.readers:
            reader.conclude(self.feeds)
        self.check()
        assert all(reader.received for reader in self.readers)

    def _lacks(self, reader: Reader) -> bool:
        return any(map(reader.lacks, self.feeds))

    def check(self) -> None:
        """Raise what went wrong so far."""
        for task in self._tasks:
            if task.done():
                task.result()
        faults = [fault for reader in self.readers for fault in reader.faults]
        assert not faults, "\n".join(faults)
        assert not self._blunders, self._blunders

    async def until(self, what: str, condition: Callable[[], bool], *, fails: bool = True) -> None:
        """Wait for a condition of the traffic; nothing may be wrong with it meanwhile."""
        deadline = time.monotonic() + LIMIT
        while not condition():
            self.check()
            if time.monotonic() > deadline:
                assert not fails, f"not within {LIMIT:g} s: {what}\n{await self.account()}"
                return
            await asyncio.sleep(0.02)

    async def account(self) -> str:
        """What can be said about traffic that does not flow."""
        lines = [
            f"{each.name}: published {each.published}, confirmed {each.publisher.confirmed}"
            for each in self.feeds
        ]
        for reader in self.readers:
            judged = {publisher: stream.judged for publisher, stream in reader.streams.items()}
            lines.append(f"{reader.name}: {judged}, unreachable {reader.unreachable}")
        found = await look(self._network)
        for name, report in sorted(found.reports.items()):
            lines.append(f"{name}: {report['state']}, {report['partitions']}, stalled {report['stalled']}")
        return "\n".join(lines)

    # -- figures -----------------------------------------------------------------------------------------

    @property
    def published(self) -> int:
        return sum(feed.published for feed in self.feeds)

    @property
    def confirmed(self) -> int:
        return sum(feed.publisher.confirmed for feed in self.feeds)

    @property
    def received(self) -> int:
        return sum(reader.received for reader in self.readers)

    def longest_stall(self) -> float:
        """The longest time that a reader had to wait for the next event of a feed since the last call."""
        longest = 0.0
        for reader in self.readers:
            for stream in reader.streams.values():
                longest = max(longest, stream.longest, time.monotonic() - stream.at)
                stream.longest = 0.0
        return longest

    async def is_whole(self) -> bool:
        """Whether every broker has its sessions, and every client is at its own broker."""
        found = await look(self._network)
        return is_whole(self._network, found) and all(
            client.name in peers(found.reports[home_of(client)]) for client in self._clients
        )

    async def whole(self) -> None:
        """Wait until it is so."""
        deadline = time.monotonic() + LIMIT
        while not await self.is_whole():
            self.check()
            assert time.monotonic() < deadline, f"not whole within {LIMIT:g} s\n{await self.account()}"
            await asyncio.sleep(0.1)


def home_of(client: gapless.Client) -> str:
    """The broker that a client belongs to: the one it was connected to, or who has the place of that one."""
    return client._node.identity.home or ""


def check_logs(network: LiveNetwork) -> None:
    """Raise what a broker has logged and should not have."""
    for broker in network.brokers.values():
        check_log(broker)


def check_log(broker: BrokerProcess) -> None:
    """Raise what the broker has logged and should not have."""
    found = BLUNDERS.search(broker.log())
    assert not found, f"{broker.name}: …{broker.log()[max(0, found.start() - 500) :][:4000]}"


async def look(network: LiveNetwork) -> Survey:
    """The status of all brokers that answer."""
    addresses = [each.address for each in network.brokers.values() if each.is_running]
    return await survey(addresses, timeout=5.0)


def peers(report: dict[str, Any]) -> set[str]:
    """With whom the broker has an active session."""
    return {each["peer"] for each in report["sessions"] if each["active"]}


def is_whole(network: LiveNetwork, found: Survey) -> bool:
    """Whether every broker is there, knows of no failure, and has a session with each of its neighbours."""
    for name in network.brokers:
        report = found.reports.get(name)
        if report is None or report["state"] != "operational" or report["partitions"]:
            return False
        neighbours = {other for link in report["links"] if name in link for other in link if other != name}
        if not neighbours <= peers(report):
            return False
    return True
