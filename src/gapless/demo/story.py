"""The course of the demonstration: a tree of seven brokers, trading, four faults, the closing bell."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

import gapless
from gapless.demo.market import SCHEMA, Desk, Reader, Verdict
from gapless.demo.processes import BrokerProcess

BROKERS, FANOUT, DELTA = 7, 2, 2
TOPIC = "trades"
DESKS = {"desk-paris": 3, "desk-tokyo": 5, "desk-york": 6}
READERS = {
    "all of it": (4, ""),
    "big IBM": (6, "symbol = 'IBM' AND quantity > 500"),
    "Europe": (3, "venue LIKE 'EU-%' AND price BETWEEN 100 AND 250"),
    "chips": (1, "symbol IN ('NVDA', 'AAPL') AND side = 'buy'"),
}
FAULTS = (
    ("an inner broker", (1,)),
    ("a subscriber's own broker", (4,)),
    ("the root", (0,)),
    ("a publisher's own broker and its neighbour", (2, 5)),
)


@dataclass
class Story:
    """What is going on, for whoever looks at it."""

    delta: int = DELTA
    brokers: list[BrokerProcess] = field(default_factory=list)
    desks: list[Desk] = field(default_factory=list)
    readers: list[Reader] = field(default_factory=list)
    news: list[tuple[float, str]] = field(default_factory=list)
    """What has happened, with the seconds since the beginning."""
    verdicts: list[Verdict] = field(default_factory=list)
    began: float = field(default_factory=time.monotonic)

    def tell(self, what: str) -> None:
        """Note what has happened."""
        self.news.append((time.monotonic() - self.began, what))

    @property
    def published(self) -> int:
        """Trades so far."""
        return sum(len(desk.trades) for desk in self.desks)

    @property
    def confirmed(self) -> int:
        """Trades that the network has and will not lose."""
        return sum(desk.publisher.confirmed for desk in self.desks)

    @property
    def ok(self) -> bool:
        """Whether every subscriber got what it should, and everything was confirmed."""
        return (
            bool(self.verdicts)
            and all(each.ok for each in self.verdicts)
            and self.confirmed == self.published
        )


async def run(story: Story, directory: Path, *, per_second: float, pause: float) -> None:
    """Play the story; ``pause`` is how long each state of the network lasts."""
    async with AsyncExitStack() as stack:
        await _start_brokers(story, directory, stack)
        await _open_market(story, directory, stack)
        closing = asyncio.Event()
        trading = [desk.trade(per_second, closing) for desk in story.desks]
        async with _running([reader.read() for reader in story.readers]), _running(trading):
            await asyncio.sleep(pause)
            for what, victims in FAULTS:
                await _fault(story, what, victims, pause)
            closing.set()
            story.tell("the market closes")
            await _until(lambda: story.confirmed == story.published, 30)
        story.verdicts = [reader.judge(story.desks) for reader in story.readers]


async def _start_brokers(story: Story, directory: Path, stack: AsyncExitStack) -> None:
    for number in range(BROKERS):
        join = story.brokers[(number - 1) // FANOUT].address if number else ""
        story.brokers.append(BrokerProcess(f"b{number}", directory, join, DELTA))
        stack.push_async_callback(story.brokers[-1].stop)
    await asyncio.gather(*(broker.start() for broker in story.brokers))  # who joins waits for its parent
    story.tell(f"{BROKERS} brokers are up, each a process of its own; δ = {DELTA}")


async def _open_market(story: Story, directory: Path, stack: AsyncExitStack) -> None:
    async def client(number: int) -> gapless.Client:
        address = story.brokers[number].address
        return await stack.enter_async_context(gapless.connect(address, data=str(directory)))

    await (await client(0)).create_topic(TOPIC, schema=SCHEMA)
    for name, (number, selector) in READERS.items():
        subscription = (await client(number)).subscribe(TOPIC, selector)
        await stack.enter_async_context(subscription)
        story.readers.append(Reader(name, f"b{number}", selector, subscription))
    for seed, (name, number) in enumerate(DESKS.items()):
        publisher = (await client(number)).publisher(TOPIC, name=name)
        await stack.enter_async_context(publisher)
        story.desks.append(Desk(name, publisher, Random(seed)))
    story.tell(f"the market opens: {len(DESKS)} desks, {len(READERS)} subscriptions, all live")


async def _fault(story: Story, what: str, victims: tuple[int, ...], pause: float) -> None:
    brokers = [story.brokers[number] for number in victims]
    names = " and ".join(broker.name for broker in brokers)
    for broker in brokers:
        await broker.kill()
    story.tell(f"kill -9 {names}: {what}")
    await asyncio.sleep(pause)
    await asyncio.gather(*(broker.start() for broker in brokers))
    story.tell(f"{names} restarted")
    await asyncio.sleep(pause)


async def _until(condition: Callable[[], bool], seconds: float) -> None:
    """Wait for a condition of the story; what is still missing after that is for the verdict to say."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        await asyncio.sleep(0.02)


@asynccontextmanager
async def _running(work: Iterable[Coroutine[Any, Any, None]]) -> AsyncIterator[None]:
    """Do the work beside what follows; what is not done then is given up."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
