"""The driver of a node: what is worked on when, and what goes out in which order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

from gapless.core.effects import Deliver, Effect, EventsConfirmed, Persist, Record, Send
from gapless.core.events import Input, LeaveRequested, MessageReceived, SessionDown
from gapless.core.messages import Ping, Publications, Superseded
from gapless.core.model import SECOND, Identity, Micros
from gapless.server.driver import Driver

ANSWER = Superseded("t", "p", (0, 1))
RECORD = EventsConfirmed("t", "p", 1)
LIMIT = 10


class Scripted:
    """A node that does as it is told."""

    def __init__(self) -> None:
        self.identity = Identity("me", 1)
        self.config = SimpleNamespace(delta=1)
        self.overlay = SimpleNamespace(me="me")
        self.batches: list[list[Input]] = []
        self.deadline: Micros | None = None
        self.answers: Callable[[Input], list[Effect]] = lambda each: []
        self.is_awaited = False

    def start(self, now: Micros) -> list[Effect]:
        return []

    def step(self, batch: list[Input], now: Micros) -> list[Effect]:
        self.batches.append(batch)
        return [effect for each in batch for effect in self.answers(each)]

    def wake_at(self) -> Micros | None:
        return self.deadline


class Wire:
    """A connection that notes what is sent on it."""

    def __init__(self, name: str, seen: list[str]) -> None:
        self.name, self.seen = name, seen

    def send(self, messages: list[Any]) -> None:
        self.seen += [self.name for each in messages if each == ANSWER]


def run(scenario: Callable[[Driver, Scripted], Awaitable[None]], **options: Any) -> None:
    async def main() -> None:
        node: Any = Scripted()
        driver = Driver(node, **options)
        driver.start()
        async with asyncio.timeout(LIMIT):
            await scenario(driver, node)
        await driver.stop("over", at_once=True)
        assert driver.failed is None

    asyncio.run(main())


def connect(driver: Driver, wire: Any) -> None:
    driver.session_up(Identity("b", 1), wire, dialed=True)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def deliver(each: Input) -> list[Effect]:
    is_news = isinstance(each, MessageReceived) and isinstance(each.message, Publications)
    return [Send("b", ANSWER), Deliver("s", ())] if is_news else []


def test_the_application_gets_an_event_before_the_acknowledgement_goes_out() -> None:
    seen: list[str] = []
    woken = asyncio.Event()

    async def application() -> None:
        await woken.wait()
        seen.append("application")

    async def scenario(driver: Driver, node: Scripted) -> None:
        node.answers = deliver
        waiting = asyncio.create_task(application())
        connect(driver, Wire("acknowledged", seen))
        await turns()
        driver.messages("b", [Publications(())])
        await turns()
        await waiting
        assert seen == ["application", "acknowledged"]

    run(scenario, perform=lambda effect: woken.set())


class Slow:
    """A journal whose writes last until a test lets them end."""

    def __init__(self, seen: list[str]) -> None:
        self.seen = seen
        self.written = asyncio.Event()
        self.batches: list[list[Record]] = []

    def select(self, records: list[Record]) -> list[Record]:
        return records

    async def append(self, records: list[Record]) -> None:
        self.batches.append(records)
        await self.written.wait()
        self.seen.append("durable")

    def learned(self, book: Any) -> None:
        pass


def test_nothing_leaves_before_the_records_are_durable_and_many_share_one_write() -> None:
    seen: list[str] = []

    async def scenario(driver: Driver, node: Scripted) -> None:
        node.answers = lambda each: (
            [Send("b", ANSWER), Persist(RECORD)] if isinstance(each, LeaveRequested) else []
        )
        journal = driver._journal
        assert isinstance(journal, Slow)
        connect(driver, Wire("sent", seen))
        await turns()
        for _ in range(3):
            driver.request(LeaveRequested())
        await turns()
        for _ in range(4):
            driver.request(LeaveRequested())
        await turns()
        assert not seen
        assert [len(each) for each in journal.batches] == [3], "what comes meanwhile waits for the next write"
        journal.written.set()
        await turns(10)
        assert seen == ["durable", *["sent"] * 3, "durable", *["sent"] * 4]
        assert [len(each) for each in journal.batches] == [3, 4]

    run(scenario, journal=Slow(seen))


def test_what_was_to_go_on_a_session_does_not_stray_into_the_next() -> None:
    seen: list[str] = []

    async def scenario(driver: Driver, node: Scripted) -> None:
        node.answers = deliver
        connect(driver, Wire("first", seen))
        await turns()
        await asyncio.sleep(0.01)
        driver.messages("b", [Publications(())])
        driver.session_down("b", "gone")
        connect(driver, Wire("second", seen))
        for _ in range(3):
            driver.request(LeaveRequested())
        assert not seen, "the application comes first"
        await driver.stop("over")  # which works on what was asked for without a turn of the loop
        assert seen == ["first"]
        assert any(SessionDown("b", "gone") in batch for batch in node.batches)

    run(scenario, perform=lambda effect: None)


def test_what_comes_after_a_rest_is_worked_on_at_once_and_the_rest_together() -> None:
    async def scenario(driver: Driver, node: Scripted) -> None:
        connect(driver, Wire("b", []))
        await turns()
        await asyncio.sleep(0.01)
        node.batches.clear()
        news = MessageReceived("b", Publications(()))
        driver.messages("b", [Publications(())])
        assert [batch.count(news) for batch in node.batches] == [1]
        for _ in range(3):
            driver.messages("b", [Publications(())])
        assert len(node.batches) == 1
        await turns()
        assert [batch.count(news) for batch in node.batches] == [1, 3]

    run(scenario)


def test_a_node_that_was_held_up_reads_all_before_it_works() -> None:
    async def scenario(driver: Driver, node: Scripted) -> None:
        node.deadline = driver.clock.now() + SECOND // 100
        driver.messages("b", [Ping()])
        await turns()
        node.batches.clear()
        time.sleep(0.02)  # nobody has listened
        driver.messages("b", [Ping()])
        assert not node.batches
        driver.messages("c", [Ping()])
        node.deadline = None
        await turns()
        assert node.batches[0] == [MessageReceived("b", Ping()), MessageReceived("c", Ping())]

    run(scenario)


def test_what_cannot_be_sent_ends_the_node_also_when_it_is_sent_later() -> None:
    failures: list[BaseException] = []

    class Broken(Wire):
        def send(self, messages: list[Any]) -> None:
            raise ValueError("too large")

    async def main() -> None:
        node: Any = Scripted()
        node.answers = deliver
        driver = Driver(node, perform=lambda effect: None, on_failure=failures.append)
        driver.start()
        connect(driver, Broken("b", []))
        await turns()
        driver.messages("b", [Publications(())])
        await turns()
        assert [str(each) for each in failures] == ["too large"]

    asyncio.run(main())


def test_a_deadline_that_moves_on_wakes_the_node_once_it_has_come() -> None:
    async def scenario(driver: Driver, node: Scripted) -> None:
        due = node.deadline = driver.clock.now() + SECOND // 20
        driver.messages("b", [Ping()])
        await turns()
        for _ in range(5):  # signs of life, each of which moves it
            due = node.deadline = due + SECOND // 50
            driver.messages("b", [Ping()])
            await turns()
        node.batches.clear()
        while not node.batches:
            assert driver.clock.now() < due + SECOND
            await asyncio.sleep(0.001)
        assert node.batches[0] == []
        assert driver.clock.now() >= due
        node.deadline = None

    run(scenario)


def test_a_deadline_that_comes_nearer_is_kept() -> None:
    async def scenario(driver: Driver, node: Scripted) -> None:
        node.deadline = driver.clock.now() + 1000 * SECOND
        driver.messages("b", [Ping()])
        await turns()
        node.deadline = driver.clock.now() + SECOND // 50
        driver.messages("b", [Ping()])
        await turns()
        node.batches.clear()
        began = time.monotonic()
        while not node.batches:
            assert time.monotonic() - began < LIMIT
            await asyncio.sleep(0.001)
        node.deadline = None

    run(scenario)
