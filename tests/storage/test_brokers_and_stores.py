"""Brokers as processes on stores that are full, or in a database."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

import gapless
from live.harness import LiveNetwork, until
from storage.postgres_server import Server

pytestmark = pytest.mark.slow
SCHEMA = ", ".join(f"attribute_{n} STRING" for n in range(100))


def fill(path: Path) -> None:
    """Take all the room that is left."""
    with path.open("wb", buffering=0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError as error:
            assert error.errno == errno.ENOSPC


async def create_topics(address: str, count: int) -> list[str]:
    """Declare topics until there are so many, or no answer comes; returns those that were confirmed."""
    created: list[str] = []
    try:
        async with gapless.connect(address, timeout=3) as client:
            for number in range(count):
                await client.create_topic(f"topic-{number}", schema=SCHEMA)
                created.append(f"topic-{number}")
    except gapless.NotConnectedError:
        pass
    return created


async def topics(address: str) -> set[str]:
    async with gapless.connect(address) as client:
        return set(client.topics())


async def round_trip(source: str, sink: str, topic: str, count: int) -> list[int]:
    """What a subscriber at one address gets of what is published at another."""
    async with (
        gapless.connect(source) as client,
        client.publisher(topic) as publisher,
        gapless.connect(sink) as other,
        other.subscribe(topic) as subscription,
    ):
        for number in range(count):
            await publisher.publish({"attribute_1": str(number)})
        events = [await anext(subscription) for _ in range(count)]
        return [each.sequence for each in events if isinstance(each, gapless.Event)]


def test_a_broker_waits_on_a_full_disk_and_goes_on_when_there_is_room(
    tmp_path: Path, small_disk: Path
) -> None:
    with LiveNetwork(tmp_path) as network:
        broker = network.add("b0", options=["--data", str(small_disk / "b0")])
        broker.start()
        before = asyncio.run(create_topics(broker.address, 3))
        fill(small_disk / "ballast")
        created = asyncio.run(create_topics(broker.address, 500))
        assert len(before) == 3
        assert len(created) < 500
        until("it says why it waits", lambda: "make room on its disk" in broker.log())
        (small_disk / "ballast").unlink()
        assert asyncio.run(round_trip(broker.address, broker.address, "topic-0", 20)) == list(range(1, 21))
        broker.kill()
        broker.start()
        assert asyncio.run(topics(broker.address)) >= {*before, *created}


def test_brokers_keep_what_must_survive_in_a_database(tmp_path: Path, postgres: Server) -> None:
    with LiveNetwork(tmp_path) as network:
        network.add("pg0", options=["--data", postgres.url]).start()
        network.add("pg1", join="pg0", options=["--data", postgres.url]).start()
        source, sink = network["pg0"].address, network["pg1"].address
        assert asyncio.run(create_topics(source, 3)) == ["topic-0", "topic-1", "topic-2"]
        assert asyncio.run(round_trip(source, sink, "topic-1", 20)) == list(range(1, 21))
        for broker in network.brokers.values():
            broker.kill()
        for broker in network.brokers.values():
            broker.start()
        assert asyncio.run(topics(sink)) == {"topic-0", "topic-1", "topic-2"}
        assert asyncio.run(round_trip(source, sink, "topic-2", 20)) == list(range(1, 21))
