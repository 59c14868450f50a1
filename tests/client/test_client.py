"""Connecting, topics, and what goes wrong there."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable

import pytest

import gapless
from gapless.client.client import addresses_of
from gapless.sync import Network


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port: int = sock.getsockname()[1]
        return port


def test_an_address_may_leave_out_scheme_and_port() -> None:
    assert addresses_of("gapless://a:1,b") == ["a:1", "b:7400"]
    assert addresses_of("[::1]:7401") == ["[::1]:7401"]


@pytest.mark.parametrize("url", ["", "gapless://", "http://a:1", "a:99999", "gapless://a:x"])
def test_a_bad_address_says_what_to_write(url: str) -> None:
    with pytest.raises(ValueError, match=r"host:port|write"):
        gapless.connect(url)


def test_no_broker_answers() -> None:
    async def main() -> None:
        await gapless.connect(f"127.0.0.1:{free_port()}", timeout=1)

    with pytest.raises(gapless.NotConnectedError, match="no broker answers: nobody can be reached at 127"):
        asyncio.run(main())


def test_the_next_address_is_tried(network: Network, topic: Callable[..., str]) -> None:
    name = topic()

    async def main() -> None:
        alive = network.url.removeprefix("gapless://")
        async with gapless.connect(f"127.0.0.1:{free_port()},{alive}", timeout=5) as client:
            assert name in client.topics()

    asyncio.run(main())


def test_topics_reach_every_broker(network: Network, topic: Callable[..., str]) -> None:
    name = topic(schema="price DOUBLE", beyond_delta="mark")

    async def main() -> None:
        for broker in range(3):
            async with gapless.connect(network.address(broker)) as client:
                async with client.publisher(name) as publisher:  # waits until the topic is known there
                    assert publisher.topic == name
                declared = client.topics()[name]
                assert (declared.schema, declared.beyond_delta) == ("price DOUBLE", "mark")

    asyncio.run(main())


def test_a_topic_can_be_declared_again_but_not_otherwise(network: Network, topic: Callable[..., str]) -> None:
    name = topic(schema="price DOUBLE")
    with network.connect() as client:
        client.create_topic(name, schema="price DOUBLE")
        with pytest.raises(gapless.TopicError, match="schema"):
            client.create_topic(name, schema="price BIGINT")


@pytest.mark.parametrize(
    ("declaration", "problem"),
    [
        ({"order": "alphabetical"}, "alphabetical"),
        ({"order": "causal"}, "causal"),
        ({"repositories": 2}, "durable|repositories"),
        ({"schema": "price NUMBERS"}, "NUMBERS"),
        ({"beyond_delta": "explode"}, "explode"),
    ],
)
def test_a_bad_declaration_is_refused(network: Network, declaration: dict[str, object], problem: str) -> None:
    with network.connect() as client:
        with pytest.raises(gapless.TopicError, match=problem):
            client.create_topic("bad", **declaration)
        assert "bad" not in client.topics()


def test_a_deleted_topic_is_gone_and_ends_its_subscriptions(
    network: Network, topic: Callable[..., str]
) -> None:
    name = topic()

    async def main() -> None:
        async with gapless.connect(network.url) as client, client.subscribe(name) as subscription:
            await client.delete_topic(name)
            with pytest.raises(gapless.TopicError, match="deleted"):
                await asyncio.wait_for(anext(subscription), 10)
            assert name not in client.topics()
            with pytest.raises(gapless.TopicError, match="no topic"):
                await client.delete_topic(name)

    asyncio.run(main())


def test_an_unknown_topic_names_those_that_there_are(network: Network, topic: Callable[..., str]) -> None:
    name = topic()
    with network.connect() as client:
        with pytest.raises(gapless.TopicError, match=f"no topic 'nowhere'; there are: .*{name}"):
            client.subscribe("nowhere").open()
        with pytest.raises(gapless.TopicError, match="no topic 'nowhere'"):
            client.publisher("nowhere").open()


def test_a_closed_client_says_so(network: Network, topic: Callable[..., str]) -> None:
    name = topic()

    async def main() -> None:
        client = await gapless.connect(network.url)
        publisher = client.publisher(name)
        await publisher.__aenter__()
        subscription = client.subscribe(name)
        await subscription.__aenter__()
        await client.close()
        with pytest.raises(gapless.NotConnectedError, match="closed"):
            await publisher.publish({"a": 1})
        with pytest.raises(gapless.NotConnectedError, match="closed"):
            await anext(subscription)
        await client.close()

    asyncio.run(main())


def test_bad_selectors_are_refused_at_once(network: Network, topic: Callable[..., str]) -> None:
    name = topic()
    with network.connect() as client:
        with pytest.raises(gapless.SelectorError, match=r"column|line"):
            client.subscribe(name, "price >")
        with pytest.raises(gapless.SubscribeError, match="durable"):
            client.subscribe(name, durable="billing")
