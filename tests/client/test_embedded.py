"""The embedded network under faults: every subscription gets every matching event once, in order."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import gapless

EVENTS = 1500
LIMIT = 60


async def collect(subscription: gapless.Subscription, count: int) -> list[int]:
    sequences: list[int] = []
    async with asyncio.timeout(LIMIT):
        while len(sequences) < count:
            item = await anext(subscription)
            assert isinstance(item, gapless.Event), item
            sequences.append(item.sequence)
    return sequences


@pytest.mark.slow
@pytest.mark.parametrize("victim", [0, 1, 3, 4])
def test_a_killed_broker_does_no_harm(victim: int) -> None:
    """The root, an inner broker, a publisher's own (3) and a subscriber's own (4), killed and restarted."""

    async def main() -> None:
        async with gapless.Network(brokers=7, fanout=2, delta=1) as network:
            source, sink = await network.connect(3), await network.connect(4)
            far = await network.connect(6)
            await source.create_topic("t")
            async with (
                sink.subscribe("t") as near,
                far.subscribe("t", "third = TRUE") as third,
                source.publisher("t") as publisher,
            ):
                readers = [
                    asyncio.create_task(collect(near, EVENTS)),
                    asyncio.create_task(collect(third, EVENTS // 3)),
                ]
                for n in range(1, EVENTS + 1):
                    await publisher.publish({"n": n, "third": n % 3 == 0})
                    if n == EVENTS // 3:
                        await network.kill(victim)
                    if n == 2 * EVENTS // 3:
                        await network.restart(victim)
                    if n % 10 == 0:
                        await asyncio.sleep(0.001)
                everything, thirds = await asyncio.gather(*readers)
                assert everything == list(range(1, EVENTS + 1))
                assert thirds == list(range(3, EVENTS + 1, 3))
                async with asyncio.timeout(LIMIT):
                    await publisher.flush()

    asyncio.run(main())


@pytest.mark.slow
def test_a_cut_link_is_gone_round_and_healed() -> None:
    async def main() -> None:
        async with gapless.Network(brokers=4, fanout=1, delta=1) as network:
            source, sink = await network.connect(0), await network.connect(3)
            await source.create_topic("t")
            async with sink.subscribe("t") as subscription, source.publisher("t") as publisher:
                reader = asyncio.create_task(collect(subscription, 900))
                for part in range(3):
                    for n in range(300):
                        await publisher.publish({"n": n})
                        await asyncio.sleep(0.001)
                    await (network.cut if part == 0 else network.heal)(1, 2)
                assert await reader == list(range(1, 901))

    asyncio.run(main())


def test_mistakes_are_named() -> None:
    with pytest.raises(ValueError, match="brokers must be at least 1"):
        gapless.Network(brokers=0)

    async def main() -> None:
        async with gapless.Network(brokers=1) as network:
            with pytest.raises(ValueError, match="no broker 1; there are 0 to 0"):
                await network.kill(1)
            with pytest.raises(ValueError, match="running"):
                await network.restart(0)
            with pytest.raises(ValueError, match="two ends"):
                await network.cut(0, 0)
            await network.kill(0)
            with pytest.raises(ValueError, match="down already"):
                await network.kill(0)

    asyncio.run(main())


@pytest.mark.slow
@pytest.mark.parametrize("beyond_delta", ["hold", "mark"])
def test_beyond_delta_a_topic_holds_or_marks(beyond_delta: str) -> None:
    """A chain with δ = 1: what has gone round one broker may not go round another, or is marked."""

    async def main() -> None:
        async with gapless.Network(brokers=5, fanout=1, delta=1) as network:
            source, sink = await network.connect(0), await network.connect(4)
            await source.create_topic("t", beyond_delta=beyond_delta)
            async with sink.subscribe("t") as subscription, source.publisher("t") as publisher:
                await publisher.publish({"n": 1})
                await publisher.flush()
                await network.kill(1)
                await network.kill(3)
                for n in (2, 3):
                    await publisher.publish({"n": n})
                items = asyncio.create_task(collect_items(subscription, 3))
                if beyond_delta == "hold":
                    await asyncio.wait([items], timeout=3)  # which it must not be within, however long
                    assert not items.done()
                    await network.restart(3)
                events = await items
                assert [each.attributes["n"] for each in events] == [1, 2, 3]
                assert [each.best_effort for each in events] == [False] + [beyond_delta == "mark"] * 2

    asyncio.run(main())


async def collect_items(subscription: gapless.Subscription, count: int) -> list[gapless.Event]:
    async with asyncio.timeout(LIMIT):
        items = [await anext(subscription) for _ in range(count)]
    assert all(isinstance(each, gapless.Event) for each in items), items
    return items  # type: ignore[return-value]


def test_named_publishers_of_one_network_do_not_meet_those_of_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.delenv("GAPLESS_PUBLISHERS", raising=False)

    async def main() -> None:
        for _ in range(2):
            async with gapless.Network(brokers=1) as network:
                for expected in (1, 2):
                    client = await network.connect()
                    if expected == 1:
                        await client.create_topic("t")
                    async with client.publisher("t", name="desk") as publisher:
                        receipt = await publisher.publish({})
                    assert receipt.sequence == expected, "the name goes on within a network"
                    await client.close()

    asyncio.run(main())
    assert list(tmp_path.iterdir()) == [], "nothing is left with the user"
