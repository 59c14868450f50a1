"""The blocking API, and the fixture for applications' own tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

import gapless
from gapless.sync import Network, connect


def test_a_script_publishes_and_subscribes(network: Network, topic: Callable[..., str]) -> None:
    name = topic()
    with (
        connect(network.url) as client,
        client.subscribe(name, "n > 1") as subscription,
        client.publisher(name) as publisher,
    ):
        receipts = [publisher.publish({"n": n}) for n in range(4)]
        assert receipts[-1].wait(30).confirmed
        assert publisher.published == publisher.confirmed == 4
        assert client.name and subscription.name
        events = [subscription.next(30), subscription.next(30)]
        assert [each.sequence for each in events if isinstance(each, gapless.Event)] == [3, 4]
        assert subscription.start == {}
        assert (subscription.latency or 0) > 0
        with pytest.raises(TimeoutError):
            subscription.next(0.05)
        publisher.publish({"n": 5})
        event = subscription.next(30)
        assert isinstance(event, gapless.Event)
        assert event.attributes == {"n": 5}, "nothing is lost by a timeout"


def test_iteration_ends_with_the_subscription(network: Network, topic: Callable[..., str]) -> None:
    name = topic()
    with connect(network.url) as client, client.publisher(name) as publisher:
        subscription = client.subscribe(name)
        with subscription:
            publisher.publish({"n": 1})
            for item in subscription:
                assert isinstance(item, gapless.Event)
                subscription.close()


def test_a_client_that_is_not_open_says_so(network: Network) -> None:
    with pytest.raises(gapless.NotConnectedError, match="with"):
        connect(network.url).topics()


def test_the_fixture_serves_blocking_and_asynchronous_tests(
    gapless_network: Callable[..., Network],
) -> None:
    network = gapless_network(brokers=2, fanout=1)
    with network.connect(1) as client:
        client.create_topic("t")
        with client.subscribe("t") as subscription:
            network.kill(0)

            async def main() -> None:
                async with gapless.connect(network.url) as other, other.publisher("t") as publisher:
                    await publisher.publish({"n": 1})

            asyncio.run(main())
            event = subscription.next(30)
            assert isinstance(event, gapless.Event)
            assert event.attributes == {"n": 1}
