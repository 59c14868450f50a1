"""Seven broker processes with δ = 2 under traffic, and everything that may happen to brokers.

Whatever is killed, frozen, stopped or replaced: each reader gets exactly the matching events from its
starting cut on, once and in order, everything is confirmed, nobody is told of a gap, and no broker logs a
traceback."""

from __future__ import annotations

import asyncio
import itertools
import logging
import shutil
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path

import pytest

from live.harness import LiveNetwork, until
from live.traffic import Traffic, check_logs, is_whole, look

pytestmark = pytest.mark.slow

RESUME_SECONDS = 2.0
"""After a crash deliveries go on within this time, at default settings."""
Story = Callable[[Traffic], Coroutine[None, None, None]]

log = logging.getLogger(__name__)
_numbers = itertools.count()


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LiveNetwork]:
    with LiveNetwork(tmp_path_factory.mktemp("brokers"), delta=2) as started:
        started.tree(7, fanout=2)
        yield started


@pytest.fixture
def play(network: LiveNetwork, tmp_path: Path) -> Iterator[Callable[[Story], None]]:
    """Play a story under traffic, on a network that is whole before and after it."""

    async def under_traffic(story: Story) -> None:
        async with Traffic(network, tmp_path, f"topic-{next(_numbers)}") as traffic:
            await traffic.flows()
            await story(traffic)
            await traffic.whole()
            await traffic.flows()
            await traffic.finish()

    until("the network is whole", lambda: is_whole(network, asyncio.run(look(network))))
    yield lambda story: asyncio.run(under_traffic(story))
    check_logs(network)


async def restart(network: LiveNetwork, *names: str) -> None:
    for name in names:
        network[name].launch()
    for name in names:
        await asyncio.to_thread(network[name].wait_ready)


@pytest.mark.parametrize(
    "victims",
    [
        pytest.param(("b2",), id="an inner broker"),
        pytest.param(("b4",), id="a subscriber's own broker"),
        pytest.param(("b5",), id="a publisher's own broker"),
        pytest.param(("b0",), id="the root"),
        pytest.param(("b1", "b4"), id="two subscribers' own brokers, neighbours"),
        pytest.param(("b2", "b5"), id="a publisher's own broker and its neighbour"),
    ],
)
def test_killed_and_restarted(
    network: LiveNetwork, play: Callable[[Story], None], victims: tuple[str, ...]
) -> None:
    async def story(traffic: Traffic) -> None:
        for name in victims:
            network[name].kill()
        await traffic.flows()
        await restart(network, *victims)

    play(story)


@pytest.mark.parametrize("victim", ["b2", "b4"], ids=["an inner broker", "a subscriber's own broker"])
def test_deliveries_go_on_soon(network: LiveNetwork, play: Callable[[Story], None], victim: str) -> None:
    """No stream of events pauses for longer than this, from the crash until the broker is back."""

    async def story(traffic: Traffic) -> None:
        traffic.longest_stall()
        network[victim].kill()
        await traffic.flows()
        stall = traffic.longest_stall()
        await restart(network, victim)
        await traffic.whole()
        back = traffic.longest_stall()
        log.info(
            "longest stall: %.3f s after the crash of %s, %.3f s while it came back", stall, victim, back
        )
        assert max(stall, back) < RESUME_SECONDS

    play(story)


@pytest.mark.parametrize("victim", ["b1", "b5"], ids=["an inner broker", "a publisher's own broker"])
def test_frozen_for_longer_than_others_wait(
    network: LiveNetwork, play: Callable[[Story], None], victim: str
) -> None:
    """It is taken for dead, and comes back with all it had in its hands."""

    async def story(traffic: Traffic) -> None:
        network[victim].suspend()
        try:
            await bypassed(network, victim)
            await traffic.flows()
        finally:
            network[victim].resume()

    play(story)


async def bypassed(network: LiveNetwork, victim: str) -> None:
    """Wait until the neighbours go round it."""

    async def is_bypassed() -> bool:
        reports = (await look(network)).reports
        near = [
            each for each in reports.values() for link in each["links"] if {each["id"], victim} == {*link}
        ]
        return all(any(victim in each["nodes"] for each in report["partitions"]) for report in near)

    async with asyncio.timeout(30):
        while not await is_bypassed():
            await asyncio.sleep(0.05)


def test_stopped_in_order_and_restarted(network: LiveNetwork, play: Callable[[Story], None]) -> None:
    async def story(traffic: Traffic) -> None:
        for name in ("b1", "b6"):
            assert await asyncio.to_thread(network[name].stop) == 0
            await traffic.flows()
            await restart(network, name)
            await traffic.flows()

    play(story)


def test_a_broker_that_lost_its_store_takes_its_place_again(
    network: LiveNetwork, play: Callable[[Story], None]
) -> None:
    async def story(traffic: Traffic) -> None:
        for name in ("b4", "b2"):
            network[name].kill()
            shutil.rmtree(network[name].data)
            await traffic.flows()
            await restart(network, name)
            await traffic.whole()

    play(story)


def test_a_broker_joins(network: LiveNetwork, play: Callable[[Story], None]) -> None:
    """Its clients get everything from their start on, and it can fail like the others."""

    async def story(traffic: Traffic) -> None:
        await asyncio.to_thread(network.add("b7", join="b4").start)
        reader = await traffic.read("b7", "price > 30")
        assert {feed.name for feed in traffic.feeds} <= set(reader.subscription.start)
        await traffic.feed("b7")
        await traffic.flows()
        network["b7"].kill()
        network["b4"].kill()
        await traffic.flows()
        await restart(network, "b7", "b4")

    play(story)


def test_a_subscription_while_two_brokers_are_down(
    network: LiveNetwork, play: Callable[[Story], None]
) -> None:
    """It is promised what the brokers that are up publish, and is told what it is not promised."""

    async def story(traffic: Traffic) -> None:
        network["b1"].kill()
        network["b2"].kill()
        await traffic.flows()
        reader = await traffic.read("b0", "urgent")
        assert reader.unreachable == {"b1", "b2"}
        assert {feed.name for feed in traffic.feeds} <= set(reader.subscription.start)
        await traffic.flows()
        await restart(network, "b1", "b2")
        await traffic.until("all is reached", lambda: reader.reaches(traffic.feeds))

    play(story)


def test_a_subscription_while_the_brokers_of_publishers_are_down(
    network: LiveNetwork, play: Callable[[Story], None]
) -> None:
    """The flow of such a publisher begins when its broker is back."""

    async def story(traffic: Traffic) -> None:
        network["b5"].kill()
        network["b6"].kill()
        await traffic.flows()
        reader = await traffic.read("b0", "urgent")
        assert reader.unreachable == {"b5", "b6"}
        await restart(network, "b5", "b6")
        await traffic.until("all is reached", lambda: reader.reaches(traffic.feeds))
        assert {feed.name for feed in traffic.feeds} <= set(reader.subscription.start)

    play(story)


def test_best_effort_is_found_out(network: LiveNetwork, tmp_path: Path) -> None:
    """The same traffic in an order that promises nothing: what is lost is seen."""

    async def main() -> None:
        async with Traffic(network, tmp_path, "lossy", order="best-effort") as traffic:
            await traffic.flows()
            network["b4"].kill()
            await restart(network, "b4")
            await traffic.whole()
            await traffic.flows()
            await traffic.finish()

    with pytest.raises(AssertionError, match="are missing from"):
        asyncio.run(main())
