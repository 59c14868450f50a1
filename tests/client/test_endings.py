"""What is closed, cancelled, deleted or opened again leaves nothing behind and takes nothing along."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import gapless
from gapless.client.stream import Stream
from gapless.client.subscription import QUEUE_MAX
from gapless.server import driver
from gapless.server.inquiry import status
from gapless.sync import Network, connect

LIMIT = 30


async def sequences(subscription: gapless.Subscription, count: int) -> list[int]:
    async with asyncio.timeout(LIMIT):
        items = [await anext(subscription) for _ in range(count)]
    assert all(isinstance(each, gapless.Event) for each in items), items
    return [each.sequence for each in items if isinstance(each, gapless.Event)]


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(LIMIT):
        while not condition():
            await asyncio.sleep(0.01)


# -- publishers -------------------------------------------------------------------------------------------


def test_a_publisher_that_is_opened_again_goes_on_counting(
    network: Network, topic: Callable[..., str], tmp_path: Path
) -> None:
    where = topic()

    async def main() -> None:
        async with (
            gapless.connect(network.url, data=str(tmp_path)) as client,
            client.subscribe(where) as subscription,
        ):
            for life in range(3):
                async with client.publisher(where, name="desk") as publisher:
                    assert publisher.published == 4 * life
                    receipts = [await publisher.publish({"life": life}) for _ in range(4)]
                    assert [each.sequence for each in receipts] == list(range(4 * life + 1, 4 * life + 5))
            assert await sequences(subscription, 12) == list(range(1, 13))

    asyncio.run(main())


def test_a_publisher_without_a_name_ends_when_it_is_closed(
    network: Network, topic: Callable[..., str]
) -> None:
    where = topic()

    async def main() -> None:
        async with gapless.connect(network.url) as client:
            publisher = client.publisher(where)
            async with publisher:
                await publisher.publish({})
            with pytest.raises(gapless.PublishError, match="another one"):
                await publisher.__aenter__()

    asyncio.run(main())


def test_the_publisher_of_a_deleted_topic_is_told(network: Network, topic: Callable[..., str]) -> None:
    where = topic()

    async def main() -> None:
        async with gapless.connect(network.url) as client:
            publisher = await client.publisher(where).__aenter__()
            await publisher.publish({})
            await client.delete_topic(where)
            with pytest.raises(gapless.TopicError, match="deleted"):
                await publisher.publish({})
            await asyncio.wait_for(publisher.flush(), LIMIT)

    asyncio.run(main())


def test_receipts_and_window_outlive_the_publisher(network: Network, topic: Callable[..., str]) -> None:
    """A publisher is closed with its window full; what it has published is confirmed, and makes room."""
    where, elsewhere, window = topic(), topic(), 500

    async def main() -> None:
        async with (
            gapless.connect(network.url) as reader,
            gapless.connect(network.url, window=window) as client,
            reader.subscribe(where) as subscription,
        ):
            publisher = client.publisher(where)
            await publisher.__aenter__()
            receipts = [await publisher.publish({"n": n}) for n in range(window)]
            await publisher.close()
            await asyncio.wait_for(receipts[-1], LIMIT)
            assert await sequences(subscription, window) == list(range(1, window + 1))
            async with asyncio.timeout(LIMIT), client.publisher(elsewhere) as other:
                for n in range(2 * window):
                    await other.publish({"n": n})

    asyncio.run(main())


def test_what_an_earlier_process_left_is_confirmed_before_its_topic_is_opened(
    network: Network, topic: Callable[..., str], tmp_path: Path
) -> None:
    """A name has retained events of two topics; those of the second one are confirmed before it is opened."""
    topics = [topic(), topic()]
    count = QUEUE_MAX + 100

    async def main() -> None:
        reader = await gapless.connect(network.url)
        subscriptions = [reader.subscribe(each) for each in topics]
        for each in subscriptions:
            await each.__aenter__()
        async with gapless.connect(network.url, data=str(tmp_path)) as client:
            for where in topics:
                publisher = client.publisher(where, name="feed")
                await publisher.__aenter__()
                for n in range(count):  # more than the reader takes: the rest is not confirmed
                    await publisher.publish({"n": n})
        async with gapless.connect(network.url, data=str(tmp_path), window=10) as client:
            first = await client.publisher(topics[0], name="feed").__aenter__()
            assert await sequences(subscriptions[0], count) == list(range(1, count + 1))
            assert await sequences(subscriptions[1], count) == list(range(1, count + 1))
            async with asyncio.timeout(LIMIT):
                await first.flush()
                second = await client.publisher(topics[1], name="feed").__aenter__()
                await second.flush()
                assert second.published == second.confirmed == count
                for _ in range(30):
                    await second.publish({})
                await second.flush()
            assert second.confirmed == count + 30
        await reader.close()

    asyncio.run(main())


def test_a_name_can_be_opened_for_two_topics_at_once(
    network: Network, topic: Callable[..., str], tmp_path: Path
) -> None:
    one, other = topic(), topic()

    async def main() -> None:
        async with gapless.connect(network.url, data=str(tmp_path)) as client:
            publishers = [client.publisher(each, name="feed") for each in (one, other)]
            await asyncio.gather(*(each.__aenter__() for each in publishers))
            for each in publishers:
                await (await each.publish({"n": 1}))

    asyncio.run(main())


def test_a_name_whose_opening_was_given_up_can_be_opened(
    network: Network, topic: Callable[..., str], tmp_path: Path
) -> None:
    where = topic()

    async def main() -> None:
        async with gapless.connect(network.url, data=str(tmp_path)) as client:
            for steps in range(8):
                opening = asyncio.create_task(client.publisher(where, name="feed").__aenter__())
                for _ in range(steps):
                    await asyncio.sleep(0)
                opening.cancel()
                await asyncio.gather(opening, return_exceptions=True)
            async with client.publisher(where, name="feed") as publisher:
                assert (await publisher.publish({"n": 1})).sequence == 1

    asyncio.run(main())


def test_names_that_are_odd_as_directories(
    network: Network, topic: Callable[..., str], tmp_path: Path
) -> None:
    where = topic()
    names = ["..", ".", "a/b", "é" * 255, "a b", "x" * 255]

    async def main() -> None:
        async with (
            gapless.connect(network.url, data=str(tmp_path / "data")) as client,
            client.subscribe(where) as subscription,
        ):
            for name in names:
                async with client.publisher(where, name=name) as publisher:
                    await publisher.publish({})
                event = await anext(subscription)
                assert isinstance(event, gapless.Event)
                assert event.publisher == name
            with pytest.raises(gapless.PublishError, match="printable"):
                await client.publisher(where, name="a\nb").__aenter__()

    asyncio.run(main())
    assert [each.name for each in tmp_path.iterdir()] == ["data"]
    assert [each.name for each in (tmp_path / "data").iterdir()] == ["publishers"]
    assert len(list((tmp_path / "data" / "publishers").iterdir())) == len(names)


def test_names_can_be_kept_in_memory(
    network: Network, topic: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = topic()
    monkeypatch.chdir(tmp_path)

    async def main() -> None:
        async with gapless.connect(network.url, data="memory:") as client:
            async with client.publisher(where, name="feed") as publisher:
                await publisher.publish({})
            async with client.publisher(where, name="feed") as publisher:
                assert (await publisher.publish({})).sequence == 2

    asyncio.run(main())
    assert not list(tmp_path.iterdir())


def test_what_the_application_changes_later_is_not_published(
    network: Network, topic: Callable[..., str]
) -> None:
    """One dict, filled anew for each event: the usual loop."""
    where = topic()

    async def main() -> None:
        async with (
            gapless.connect(network.url) as client,
            client.subscribe(where) as subscription,
            client.publisher(where) as publisher,
        ):
            attributes = {"n": 0, "desk": {"n": 0}}
            for n in range(100):
                attributes["n"] = attributes["desk"]["n"] = n  # type: ignore[index]
                await publisher.publish(attributes)
            for n in range(100):
                event = await anext(subscription)
                assert isinstance(event, gapless.Event)
                assert event.attributes == {"n": n, "desk": {"n": n}}

    asyncio.run(main())


def test_a_payload_that_is_no_bytes_is_refused_and_not_counted(
    network: Network, topic: Callable[..., str]
) -> None:
    where = topic()

    async def main() -> None:
        async with gapless.connect(network.url) as client, client.publisher(where) as publisher:
            for bad in ("text", 5, None):
                with pytest.raises((TypeError, gapless.PublishError), match="bytes"):
                    await publisher.publish({}, bad)  # type: ignore[arg-type]
            assert publisher.published == 0
            receipt = await publisher.publish({}, bytearray(b"x"))  # type: ignore[arg-type]
            await asyncio.wait_for(receipt, LIMIT)
            assert receipt.sequence == 1

    asyncio.run(main())


def test_a_client_that_is_closed_ends_those_who_wait(network: Network, topic: Callable[..., str]) -> None:
    where = topic()

    async def main() -> None:
        async with gapless.connect(network.url) as reader, reader.subscribe(where):
            client = await gapless.connect(network.url, window=100)
            publisher = await client.publisher(where).__aenter__()

            async def flood() -> None:
                while True:
                    await publisher.publish({})

            subscription = await client.subscribe(topic_of_silence).__aenter__()
            waiting = [
                asyncio.create_task(flood()),
                asyncio.create_task(flood()),
                asyncio.create_task(subscription.__anext__()),
                asyncio.create_task(client.publisher("nowhere").__aenter__()),
            ]
            await until(lambda: publisher.published - publisher.confirmed >= 100)
            waiting.append(asyncio.create_task(publisher.flush()))
            await asyncio.sleep(0)
            await client.close()
            async with asyncio.timeout(0.5):
                ended = await asyncio.gather(*waiting, return_exceptions=True)
            assert [type(each) for each in ended] == 5 * [gapless.NotConnectedError], ended
            with pytest.raises(gapless.NotConnectedError, match="closed"):
                await client.create_topic("x")
            with pytest.raises(gapless.NotConnectedError, match="closed"):
                await client.open()

    topic_of_silence = topic()
    asyncio.run(main())


@pytest.mark.parametrize("name", ["feed", None])
def test_a_fault_of_the_client_ends_those_who_wait(
    network: Network,
    topic: Callable[..., str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str | None,
) -> None:
    """Also one that comes after a record was written: nobody waits for ever."""
    where = topic()

    def fail(*_: object) -> None:
        raise RuntimeError("a fault")

    monkeypatch.setattr(Stream, "on_confirmed", fail)

    async def main() -> None:
        async with gapless.connect(network.url, data=str(tmp_path)) as client:
            publisher = await client.publisher(where, name=name).__aenter__()
            receipt = await publisher.publish({})
            with pytest.raises(gapless.NotConnectedError, match="has stopped: a fault"):
                await asyncio.wait_for(receipt, 5)
            with pytest.raises(gapless.NotConnectedError, match="has stopped: a fault"):
                await publisher.publish({})

    asyncio.run(main())


# -- subscriptions ----------------------------------------------------------------------------------------


def test_nobody_waits_for_a_client_that_was_closed(network: Network, topic: Callable[..., str]) -> None:
    """Its subscription was not closed, or was given up while it was being opened."""
    where = topic()

    async def main() -> None:
        async with gapless.connect(network.address(1)) as client, client.publisher(where) as publisher:
            for _ in range(3):
                other = await gapless.connect(network.address(2))
                await other.subscribe(where).__aenter__()
                await other.close()
            async with gapless.connect(network.address(2)) as other:
                for steps in range(12):
                    opening = asyncio.create_task(other.subscribe(where).__aenter__())
                    for _ in range(steps):
                        await asyncio.sleep(0)
                    opening.cancel()
                    await asyncio.gather(opening, return_exceptions=True)
                async with asyncio.timeout(2):
                    await (await publisher.publish({}))

    asyncio.run(main())


async def _publish_beside_a_frozen_broker(network: gapless.Network) -> float:
    """A client is closed whose broker does not hear of it; returns how long its end holds a publisher up."""
    source, sink = await network.connect(0), await network.connect(1)
    await source.create_topic("t")
    async with source.publisher("t") as publisher:
        await sink.subscribe("t").__aenter__()
        network._servers[1].driver.transport.cut_link(sink.name)
        await sink.close()
        began = time.monotonic()
        async with asyncio.timeout(LIMIT):
            await (await publisher.publish({}))
    return time.monotonic() - began


def test_who_ends_beside_a_frozen_broker_tells_another_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "LAST_SECONDS", 20.0)  # on a busy machine too

    async def main() -> None:
        async with gapless.Network(brokers=2) as network:
            assert await _publish_beside_a_frozen_broker(network) < 10, "nobody waits for the lease"

    asyncio.run(main())


async def _subscriber_of_a_dead_broker(network: gapless.Network) -> gapless.Client:
    client = await network.connect()
    await client.create_topic("t")
    await client.subscribe("t").__aenter__()
    await network.kill(0)
    return client


def test_who_is_not_heard_ends_nevertheless() -> None:
    async def main() -> None:
        async with gapless.Network(brokers=1) as network:
            client = await _subscriber_of_a_dead_broker(network)
            began = time.monotonic()
            await client.close()
            assert time.monotonic() - began < 10

    asyncio.run(main())


def test_a_client_whose_closing_is_cancelled_is_closed() -> None:
    async def main() -> None:
        async with gapless.Network(brokers=1) as network:
            client = await _subscriber_of_a_dead_broker(network)
            closing = asyncio.create_task(client.close())
            await asyncio.sleep(0.1)
            assert not closing.done(), "nobody hears of it"
            closing.cancel()
            assert isinstance((await asyncio.gather(closing, return_exceptions=True))[0], BaseException)
            mine = {asyncio.current_task()}
            await until(lambda: asyncio.all_tasks() == mine)

    asyncio.run(main())


def test_a_full_subscription_whose_topic_is_deleted_holds_nobody_up(
    network: Network, topic: Callable[..., str]
) -> None:
    doomed, kept = topic(), topic()

    async def main() -> None:
        async with (
            gapless.connect(network.url) as client,
            gapless.connect(network.url) as feeder,
            client.subscribe(doomed) as full,
            client.subscribe(kept) as subscription,
            feeder.publisher(kept) as publisher,
        ):
            source = await feeder.publisher(doomed).__aenter__()
            for n in range(3 * QUEUE_MAX):
                await source.publish({"n": n})
            await until(lambda: full.is_full)
            await feeder.delete_topic(doomed)
            await publisher.publish({})
            assert await sequences(subscription, 1) == [1]

    asyncio.run(main())


def test_several_tasks_may_read_one_subscription(network: Network, topic: Callable[..., str]) -> None:
    where = topic()

    async def main() -> None:
        async with (
            gapless.connect(network.url) as client,
            client.subscribe(where) as subscription,
            client.publisher(where) as publisher,
        ):
            got: list[int] = []

            async def read() -> None:
                async for item in subscription:
                    assert isinstance(item, gapless.Event)
                    got.append(item.sequence)

            readers = [asyncio.create_task(read()) for _ in range(3)]
            for n in range(20):
                await publisher.publish({"n": n})
                await until(lambda: len(got) == publisher.published)
            assert got == list(range(1, 21))
            await subscription.close()
            await asyncio.wait_for(asyncio.gather(*readers), LIMIT)

    asyncio.run(main())


def test_a_subscription_is_entered_once(network: Network, topic: Callable[..., str]) -> None:
    where = topic()

    async def main() -> None:
        async with gapless.connect(network.url) as client:
            subscription = client.subscribe(where)
            async with subscription:
                with pytest.raises(gapless.SubscribeError, match="once"):
                    await subscription.__aenter__()
            with pytest.raises(gapless.SubscribeError, match="once"):
                await subscription.__aenter__()

    asyncio.run(main())


# -- clients ----------------------------------------------------------------------------------------------


async def until_clients(network: Network, prefix: str, expected: list[str]) -> None:
    """Wait until the first broker has sessions with these clients; its report may be a moment old."""
    async with asyncio.timeout(5):
        while True:
            report = await status(network.address(0))
            if [each["peer"] for each in report["sessions"] if each["peer"].startswith(prefix)] == expected:
                return
            await asyncio.sleep(0.05)


def test_a_connection_that_is_given_up_leaves_no_session(network: Network) -> None:
    async def main() -> None:
        for steps in range(0, 60, 3):
            opening = asyncio.create_task(gapless.connect(network.url, name=f"given-up-{steps}").open())
            for _ in range(steps):
                await asyncio.sleep(0.0005)
            opening.cancel()
            for client in await asyncio.gather(opening, return_exceptions=True):
                if isinstance(client, gapless.Client):
                    await client.close()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        async with gapless.connect(network.url, name="given-up-not"):
            await until_clients(network, "given-up", ["given-up-not"])

    asyncio.run(main())


def test_an_open_client_can_be_entered(network: Network) -> None:
    async def main() -> None:
        async with await gapless.connect(network.url, name="entered-twice") as client:
            assert await client is client
            await until_clients(network, "entered", ["entered-twice"])
        await until_clients(network, "entered", [])

    asyncio.run(main())


def test_a_bad_name_of_a_client_is_refused_at_once() -> None:
    for name in ("x" * 201, "a\nb"):
        with pytest.raises(ValueError, match="name of a client"):
            gapless.connect("127.0.0.1:1", name=name)


# -- blocking ---------------------------------------------------------------------------------------------


def test_a_blocking_client_has_one_thread_until_it_is_closed(network: Network) -> None:
    before = threading.active_count()
    client = network.connect()
    with client:
        assert threading.active_count() == before + 1
    client.close()
    assert threading.active_count() == before


def test_what_belongs_to_a_closed_blocking_client_can_be_closed(
    network: Network, topic: Callable[..., str]
) -> None:
    where = topic()
    client = network.connect()
    publisher, subscription = client.publisher(where), client.subscribe(where)
    with pytest.raises(gapless.NotConnectedError, match="closed"), publisher, subscription:
        client.close()
        client.close()
        subscription.next()
    publisher.close()
    with pytest.raises(gapless.NotConnectedError, match="closed"):
        publisher.publish({})
    with pytest.raises(gapless.NotConnectedError, match="open"):
        client.topics()


def test_a_thread_that_waits_is_told_that_the_client_is_closed(
    network: Network, topic: Callable[..., str]
) -> None:
    client, where = network.connect(), topic()
    with client.subscribe(where) as subscription:
        ended: list[BaseException] = []

        def wait() -> None:
            try:
                subscription.next()
            except BaseException as error:
                ended.append(error)

        thread = threading.Thread(target=wait)
        thread.start()
        client.close()
        thread.join(LIMIT)
        assert [type(each) for each in ended] == [gapless.NotConnectedError]


def test_short_timeouts_lose_nothing(network: Network, topic: Callable[..., str]) -> None:
    where, count = topic(), 300
    got: list[int] = []
    with connect(network.url) as client, client.subscribe(where) as subscription:

        def publish() -> None:
            with connect(network.url) as other, other.publisher(where) as publisher:
                for n in range(count):
                    publisher.publish({"n": n})

        thread = threading.Thread(target=publish)
        thread.start()
        while len(got) < count:
            try:
                item = subscription.next(0.0004)
            except TimeoutError:
                assert thread.is_alive() or subscription.next(LIMIT).sequence == len(got) + 1  # type: ignore[union-attr]
                if not thread.is_alive():
                    got.append(len(got) + 1)
                continue
            assert isinstance(item, gapless.Event)
            got.append(item.sequence)
        thread.join(LIMIT)
    assert got == list(range(1, count + 1))
