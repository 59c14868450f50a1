"""A publisher's numbering is made with its store: a name without its store is announced, never swallowed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import gapless
from gapless.client.events import Item

SECONDS = 20.0


async def take(subscription: AsyncIterator[Item], count: int) -> list[int | str]:
    """The next sequences; a reset shows as the publishers that it names."""
    found: list[int | str] = []
    async with asyncio.timeout(SECONDS):
        while len(found) < count:
            item = await anext(subscription)
            found.append(item.sequence if isinstance(item, gapless.Event) else f"reset {item.publishers}")
    return found


async def publish(address: str, name: str, data: Path, count: int) -> None:
    """A process of that name publishes, with its store in a directory."""
    async with (
        gapless.connect(address, data=str(data)) as client,
        client.publisher("t", name=name) as publisher,
    ):
        for _ in range(count):
            await publisher.publish({})


def test_a_name_whose_store_is_lost_is_a_new_source(tmp_path: Path) -> None:
    """Three events with one store, then four with an empty one, as after a container's restart: all seven are
    confirmed, and all seven come, with a reset between them."""

    async def main() -> None:
        async with gapless.Network(brokers=2) as network:
            client = await network.connect(broker=0)
            await client.create_topic("t")
            async with client.subscribe("t") as subscription:
                address = network.address(1)
                await publish(address, "ctr", tmp_path / "one", 2)
                await publish(address, "ctr", tmp_path / "one", 1)
                assert await take(subscription, 3) == [1, 2, 3]
                await publish(address, "ctr", tmp_path / "two", 4)
                assert await take(subscription, 5) == ["reset ('ctr',)", 1, 2, 3, 4]

    asyncio.run(main())


def test_a_publisher_without_a_name_counts_anew_in_each_life_of_its_client() -> None:
    async def main() -> None:
        async with gapless.Network(brokers=1) as network:
            client = await network.connect(broker=0)
            await client.create_topic("t")
            async with client.subscribe("t") as subscription:
                for _ in range(3):
                    async with (
                        gapless.connect(network.address(0), name="desk") as desk,
                        desk.publisher("t") as publisher,
                    ):
                        for _ in range(5):
                            await publisher.publish({})
                found = await take(subscription, 17)
        assert [each for each in found if isinstance(each, int)] == [1, 2, 3, 4, 5] * 3
        assert len(set(found) - {1, 2, 3, 4, 5}) == 1, "the two resets name the same publisher"

    asyncio.run(main())


def test_the_older_holder_of_a_name_is_fenced(tmp_path: Path) -> None:
    """Two hosts use one name: the events of both that were confirmed come, and the older holder is told."""

    async def main() -> None:
        async with gapless.Network(brokers=2) as network:
            reader = await network.connect(broker=0)
            await reader.create_topic("t")
            one = await gapless.connect(network.address(0), data=str(tmp_path / "one"))
            two = await gapless.connect(network.address(1), data=str(tmp_path / "two"))
            async with reader.subscribe("t") as subscription:
                older = await one.publisher("t", name="ctr").__aenter__()
                await (await older.publish({}))
                async with two.publisher("t", name="ctr") as newer:
                    await (await newer.publish({}))
                    receipt = await older.publish({})
                    with pytest.raises(gapless.PublisherFenced, match="another client publishes as 'ctr'"):
                        async with asyncio.timeout(SECONDS):
                            await receipt
                    with pytest.raises(gapless.PublisherFenced):
                        await older.publish({})
                    await older.close()
                    await (await newer.publish({}))
                assert await take(subscription, 4) == [1, "reset ('ctr',)", 1, 2]
            for client in (one, two):
                await client.close()

    asyncio.run(main())
