"""Events from publishers to subscriptions: receipts, windows, back-pressure, names."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import gapless
from gapless.client.publisher import EVENT_MAX
from gapless.client.subscription import QUEUE_MAX
from gapless.core.effects import Effect
from gapless.core.events import Input, PublishRequested
from gapless.core.leaf import Leaf
from gapless.sync import Network

LIMIT = 30


async def take(subscription: gapless.Subscription, count: int) -> list[gapless.Event]:
    async with asyncio.timeout(LIMIT):
        items = [await anext(subscription) for _ in range(count)]
    assert all(isinstance(each, gapless.Event) for each in items)
    return items  # type: ignore[return-value]


def test_an_event_arrives_as_it_was_published(network: Network, topic: Callable[..., str]) -> None:
    name = topic()
    attributes = {"symbol": "IBM", "price": 131.25, "big": 2**62, "none": None, "desk": {"region": "EU-W"}}

    async def main() -> None:
        async with (
            gapless.connect(network.address(0)) as one,
            gapless.connect(network.address(2)) as other,
            other.subscribe(name, "desk.region LIKE 'EU-%'") as subscription,
            one.publisher(name) as publisher,
        ):
            receipt = await publisher.publish(attributes, b"payload")
            assert await receipt is receipt
            assert receipt.confirmed
            (event,) = await take(subscription, 1)
            assert (event.topic, event.attributes, event.payload) == (name, attributes, b"payload")
            assert (event.publisher, event.sequence, event.best_effort) == (publisher.name, 1, False)
            assert subscription.latency is not None
            assert subscription.unreachable == ()

    asyncio.run(main())


def test_only_matching_events_arrive_in_order(network: Network, topic: Callable[..., str]) -> None:
    name = topic()

    async def main() -> None:
        async with (
            gapless.connect(network.url) as client,
            client.subscribe(name, "n >= 100 AND kind = 'a'") as some,
            client.subscribe(name) as every,
            client.publisher(name) as publisher,
        ):
            for n in range(1000):
                await publisher.publish({"n": n, "kind": "ab"[n % 2]})
            await publisher.flush()
            assert [each.attributes["n"] for each in await take(some, 450)] == list(range(100, 1000, 2))
            assert [each.sequence for each in await take(every, 1000)] == list(range(1, 1001))

    asyncio.run(main())


def test_the_starting_cut_names_the_first_promised_event(network: Network, topic: Callable[..., str]) -> None:
    name = topic()

    async def main() -> None:
        async with gapless.connect(network.url) as client, client.publisher(name) as publisher:
            for n in range(10):
                await publisher.publish({"n": n})
            await publisher.flush()
            async with client.subscribe(name) as subscription:
                assert subscription.start == {publisher.name: 11}
                await publisher.publish({"n": 10})
                (event,) = await take(subscription, 1)
                assert event.sequence == 11

    asyncio.run(main())


def test_what_may_not_be_published_is_refused_and_loses_nothing(
    network: Network, topic: Callable[..., str]
) -> None:
    name = topic(schema="n INT NOT NULL, text STRING")

    async def main() -> None:
        async with (
            gapless.connect(network.url) as client,
            client.subscribe(name) as subscription,
            client.publisher(name) as publisher,
        ):
            for bad in ({"n": "1"}, {"text": "no n"}, {"n": 1, "other": 2}, {"n": 2**40}):
                with pytest.raises(gapless.PublishError, match=name):
                    await publisher.publish(bad)
            with pytest.raises(gapless.PublishError, match="bytes"):
                await publisher.publish({"n": 1}, bytes(EVENT_MAX + 1))
            await publisher.publish({"n": 7, "text": None})
            (event,) = await take(subscription, 1)
            assert (event.sequence, event.attributes["n"]) == (1, 7)

    asyncio.run(main())


def test_large_events_pass(network: Network, topic: Callable[..., str]) -> None:
    name = topic()

    async def main() -> None:
        async with (
            gapless.connect(network.url) as client,
            client.subscribe(name) as subscription,
            client.publisher(name) as publisher,
        ):
            payloads = [bytes([n]) * EVENT_MAX for n in range(12)]
            for payload in payloads:
                await publisher.publish({}, payload)
            assert [each.payload for each in await take(subscription, 12)] == payloads

    asyncio.run(main())


def test_a_slow_subscriber_slows_the_publisher_and_loses_nothing(
    network: Network, topic: Callable[..., str]
) -> None:
    """Nothing is taken: the publisher stops with its window full, and goes on as the subscriber does."""
    name, window = topic(), 2000

    async def main() -> None:
        async with (
            gapless.connect(network.address(1), window=window) as one,
            gapless.connect(network.address(2)) as other,
            other.subscribe(name) as subscription,
            one.publisher(name) as publisher,
        ):

            async def publish() -> None:
                for n in range(4 * window):
                    await publisher.publish({"n": n})

            publishing = asyncio.create_task(publish())
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(asyncio.shield(publishing), 3)
            assert publisher.published - publisher.confirmed == window, "the window is full"
            assert publisher.confirmed < QUEUE_MAX + window, "only what the queue took is confirmed"
            events = await take(subscription, 4 * window)
            assert [each.sequence for each in events] == list(range(1, 4 * window + 1))
            await publishing

    asyncio.run(main())


def test_a_client_whose_subscription_is_full_still_publishes(
    network: Network, topic: Callable[..., str]
) -> None:
    slow, fast = topic(), topic()

    async def main() -> None:
        async with (
            gapless.connect(network.url) as stuck,
            gapless.connect(network.url) as feeder,
            stuck.subscribe(slow),
            feeder.subscribe(fast) as subscription,
            stuck.publisher(fast) as publisher,
        ):
            source = feeder.publisher(slow)
            await source.__aenter__()
            for n in range(3 * QUEUE_MAX):
                await source.publish({"n": n})
            await (await publisher.publish({"n": 1}))
            (event,) = await take(subscription, 1)
            assert event.attributes == {"n": 1}
            await source.close()

    asyncio.run(main())


def test_a_subscriber_may_wait_for_the_receipt_of_its_answer(
    network: Network, topic: Callable[..., str]
) -> None:
    """The usual loop: take an event, publish something, wait until that is confirmed. More events come
    meanwhile than the queue holds."""
    questions, answers = topic(), topic()
    count = 2 * QUEUE_MAX

    async def main() -> None:
        async with (
            gapless.connect(network.address(1)) as one,
            gapless.connect(network.address(2)) as other,
            other.subscribe(questions) as asked,
            one.publisher(questions) as asking,
            other.publisher(answers) as answering,
        ):
            for n in range(count):
                await asking.publish({"n": n})
            for event in await take(asked, 50):
                await (await answering.publish(event.attributes))
            assert answering.confirmed == 50
            assert [each.attributes["n"] for each in await take(asked, count - 50)] == list(range(50, count))

    asyncio.run(main())


def test_a_name_goes_on_counting_in_another_client(
    network: Network, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()

    async def main() -> None:
        async with gapless.connect(network.url) as reader, reader.subscribe(name) as subscription:
            for life in range(3):
                async with (
                    gapless.connect(network.address(life), data=str(tmp_path)) as client,
                    client.publisher(name, name="desk-1") as publisher,
                ):
                    assert publisher.published == 5 * life
                    for _ in range(5):
                        await publisher.publish({"life": life})
            events = await take(subscription, 15)
            assert [each.sequence for each in events] == list(range(1, 16))
            assert {each.publisher for each in events} == {"desk-1"}

    asyncio.run(main())


def test_a_name_is_used_by_one_client_at_a_time(
    network: Network, topic: Callable[..., str], tmp_path: Path
) -> None:
    name = topic()

    async def main() -> None:
        async with (
            gapless.connect(network.url, data=str(tmp_path)) as one,
            gapless.connect(network.url, data=str(tmp_path)) as other,
            one.publisher(name, name="desk-1"),
        ):
            with pytest.raises(gapless.PublishError, match="desk-1"):
                await other.publisher(name, name="desk-1").__aenter__()
            with pytest.raises(gapless.PublishError, match="already"):
                await one.publisher(name, name="desk-1").__aenter__()

    asyncio.run(main())


PROCESS = """
import asyncio, sys, gapless

async def main(url, topic, data):
    async with gapless.connect(url, data=data, window=200) as client:
        async with client.publisher(topic, name="feed") as publisher:
            while publisher.published < 6000:
                await publisher.publish({"n": publisher.published})
    print("done")

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_killed_publisher_process_goes_on_exactly_once(
    network: Network, topic: Callable[..., str], tmp_path: Path
) -> None:
    """The process is killed again and again; its name makes its stream whole."""
    name = topic()

    def start() -> subprocess.Popen[str]:
        words = [sys.executable, "-c", PROCESS, network.url, name, str(tmp_path)]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    async def main() -> None:
        async with gapless.connect(network.url) as client, client.subscribe(name) as subscription:
            taken = 0
            for victims in range(4):
                with start() as process:
                    try:
                        if victims < 3:
                            events = await take(subscription, 900)
                            os.kill(process.pid, signal.SIGKILL)
                        else:
                            events = await take(subscription, 6000 - taken)
                            output, _ = await asyncio.to_thread(process.communicate, timeout=LIMIT)
                            assert output == "done\n"
                    finally:
                        process.kill()
                expected = range(taken + 1, taken + len(events) + 1)
                assert [each.sequence for each in events] == list(expected)
                assert [each.attributes["n"] for each in events] == [n - 1 for n in expected]
                taken += len(events)

    asyncio.run(main())


def test_what_is_published_together_goes_to_the_node_together_and_in_order(
    network: Network, topic: Callable[..., str], monkeypatch: pytest.MonkeyPatch
) -> None:
    name = topic()
    requests: list[PublishRequested] = []
    step = Leaf.step

    def noting(self: Leaf, batch: list[Input], now: int) -> list[Effect]:
        requests.extend(each for each in batch if isinstance(each, PublishRequested))
        return step(self, batch, now)

    monkeypatch.setattr(Leaf, "step", noting)

    async def main() -> None:
        async with (
            gapless.connect(network.address(0), data="memory:") as client,
            client.publisher(name, name="a") as a,
            client.publisher(name, name="b") as b,
        ):
            await a.publish({"n": 0})  # after the first of a stream, others have a turn
            await b.publish({"n": 1})
            for n in range(2, 5):
                await a.publish({"n": n})
            await b.publish({"n": 5})
            await a.publish({"n": 6})
            await a.flush()
            await b.flush()
        told = [(each.publisher, [attributes["n"] for attributes, _ in each.contents]) for each in requests]
        assert told == [("a", [0]), ("b", [1]), ("a", [2, 3, 4]), ("b", [5]), ("a", [6])]

    asyncio.run(main())
