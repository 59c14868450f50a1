"""Seven broker processes with δ = 2 under traffic, and links between them that let nothing pass for a while.

A link that is cut in one direction is harder than a dead one: one end goes on hearing the other. What waited
on it arrives late, when nobody expects it any more."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from live.harness import LiveNetwork, free_ports, until
from live.relay import Link, Relays
from live.traffic import Traffic, check_logs, is_whole, look

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def relays() -> Iterator[Relays]:
    with Relays() as started:
        yield started


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory, relays: Relays) -> Iterator[LiveNetwork]:
    with LiveNetwork(tmp_path_factory.mktemp("brokers"), delta=2) as started:
        for number, port in enumerate(free_ports(7)):
            join = f"b{(number - 1) // 2}" if number else None
            advertise = ["--advertise", relays.add(f"b{number}", port)]
            started.add(f"b{number}", join=join, port=port, options=advertise)
        for each in started.brokers.values():
            each.launch()
        for each in started.brokers.values():
            each.wait_ready()
        yield started


def both(a: str, b: str) -> tuple[Link, ...]:
    return ((a, b), (b, a))


async def noticed(network: LiveNetwork, link: Link) -> None:
    """Wait until an end of the link has given its direct session up."""
    async with asyncio.timeout(30):
        while True:
            reports = (await look(network)).reports
            for one, other in (link, link[::-1]):
                sessions = {each["peer"]: each["dialed_via"] for each in reports[one]["sessions"]}
                if other not in sessions or sessions[other]:
                    return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("links", "victims"),
    [
        pytest.param(both("b0", "b1"), (), id="an inner link"),
        pytest.param((("b0", "b2"),), (), id="an inner link, downwards"),
        pytest.param((("b2", "b0"),), (), id="an inner link, upwards"),
        pytest.param(both("b1", "b3"), (), id="the link of a publisher's and a subscriber's broker"),
        pytest.param((("b5", "b2"),), (), id="the link of a publisher's broker, upwards"),
        pytest.param((("b1", "b4"),), (), id="the link of a subscriber's broker, downwards"),
        pytest.param((*both("b0", "b1"), *both("b2", "b6")), (), id="two links"),
        pytest.param(both("b2", "b5"), ("b1",), id="a link, and a broker is killed"),
    ],
)
def test_cut_and_healed(
    network: LiveNetwork, relays: Relays, tmp_path: Path, links: tuple[Link, ...], victims: tuple[str, ...]
) -> None:
    async def main() -> None:
        async with Traffic(network, tmp_path, f"topic-{tmp_path.name}") as traffic:
            await traffic.flows()
            relays.cut(*links)
            for name in victims:
                network[name].kill()
            await asyncio.gather(*(noticed(network, link) for link in links))
            await traffic.flows()
            relays.heal()
            for name in victims:
                await asyncio.to_thread(network[name].restart)
            await traffic.whole()
            await traffic.flows()
            await traffic.finish()

    until("the network is whole", lambda: is_whole(network, asyncio.run(look(network))))
    try:
        asyncio.run(main())
    finally:
        relays.heal()
    check_logs(network)
