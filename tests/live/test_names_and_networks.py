"""Names and networks with real processes: one live node per name, and nothing passes between networks."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import gapless
from gapless.client.events import Event, Reset
from gapless.core.names import short
from gapless.server.inquiry import status, survey
from live.harness import BrokerProcess, LiveNetwork, free_ports, until

SECONDS = 30.0


def report(broker: BrokerProcess) -> dict[str, Any]:
    return asyncio.run(status(broker.address, timeout=5.0))


def ends(broker: BrokerProcess, *, may_be_ready: bool = False) -> str:
    """Start a broker that must end by itself with exit code 1, and not be ready before; returns its error."""
    broker.launch()
    stdout = broker.process.stdout
    assert stdout is not None
    try:
        assert broker.process.wait(SECONDS) == 1, broker.log_tail()
        assert may_be_ready or stdout.read() == "", "it was ready"
    finally:
        broker.kill()
    return broker.log().splitlines()[-1]


@pytest.fixture
def network(tmp_path: Path) -> Iterator[LiveNetwork]:
    """A chain b0, b1, b2, b3."""
    with LiveNetwork(tmp_path / "network") as started:
        (tmp_path / "network").mkdir()
        started.tree(4, fanout=1)
        yield started


def test_every_broker_of_a_network_has_its_id(network: LiveNetwork) -> None:
    found = asyncio.run(survey([network["b0"].address], timeout=5.0))
    (name,) = {each["network"] for each in found.reports.values()}
    assert len(name) == 16
    network["b0"].kill()
    network["b0"].restart()
    assert report(network["b0"])["network"] == name


# -- two brokers of one name -------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["beside", "far", "copied"])
def test_a_second_broker_of_a_name_is_refused_and_changes_nothing(
    network: LiveNetwork, tmp_path: Path, where: str
) -> None:
    """b1 is a neighbour of b2, and known to b3, which has no session with it."""
    directory = tmp_path / "second"
    directory.mkdir()
    first = network["b1"]
    if where == "copied":
        first.stop()
        shutil.copytree(first.data, directory / "b1")
        first.restart()
    joins = {"beside": ["--join", network["b2"].address], "far": ["--join", network["b3"].address]}
    twin = BrokerProcess(
        directory, "b1", port=free_ports(1)[0], options=["--delta", "1", *joins.get(where, [])]
    )

    async def traffic() -> str:
        url = f"gapless://{network['b0'].address}"
        home = f"gapless://{first.address}"
        async with gapless.connect(url) as client, gapless.connect(home) as other:
            await client.create_topic("t")
            async with client.publisher("t") as publisher, other.subscribe("t") as subscription:
                before = await status(first.address)
                ending = asyncio.create_task(asyncio.to_thread(ends, twin))
                count = 0
                while not ending.done():
                    await publisher.publish({"n": count})
                    count += 1
                    await asyncio.sleep(0.02)
                await publisher.flush()
                for number in range(count):
                    item = await anext(subscription)
                    assert isinstance(item, Event), item
                    assert item.attributes == {"n": number}
                after = await status(first.address)
                lost = {each["peer"] for each in before["sessions"]}
                lost -= {each["peer"] for each in after["sessions"]}
                assert lost == set()
                return await ending

    error = asyncio.run(asyncio.wait_for(traffic(), 3 * SECONDS))
    assert f"a broker named b1 is running already, at {first.address}" in error
    assert "give this one another --id" in error
    found = asyncio.run(survey([network["b0"].address], timeout=5.0))
    assert set(found.reports) == {"b0", "b1", "b2", "b3"}
    assert {each["addresses"].get("b1", first.address) for each in found.reports.values()} == {first.address}


def test_a_broker_that_has_died_has_a_successor_at_another_address(network: LiveNetwork) -> None:
    first = network["b1"]
    first.kill()
    moved = network.add("b1", join="b2")
    assert moved.address != first.address
    moved.start()

    def is_known() -> bool:
        found = asyncio.run(survey([network["b0"].address], timeout=5.0))
        addresses = {each["addresses"].get("b1", moved.address) for each in found.reports.values()}
        return not found.unreachable and addresses == {moved.address}

    until("everybody knows where b1 is now", is_known)


# -- two networks ------------------------------------------------------------------------------------------


def test_a_data_directory_of_another_network_is_refused(network: LiveNetwork, tmp_path: Path) -> None:
    mine = report(network["b0"])["network"]
    (tmp_path / "other").mkdir()
    with LiveNetwork(tmp_path / "other") as other:
        other.tree(1)
        theirs = report(other["b0"])["network"]
        assert theirs != mine
        network["b3"].stop()
        moved = BrokerProcess(
            tmp_path / "network",
            "b3",
            port=free_ports(1)[0],
            options=["--delta", "1", "--join", other["b0"].address],
        )
        error = ends(moved, may_be_ready=True)  # in its own network
        assert f"is of network {short(theirs)}" in error
        assert f"belongs to network {short(mine)}" in error
        assert "--data" in error


def test_a_broker_whose_neighbour_has_founded_another_network_says_so(tmp_path: Path) -> None:
    with LiveNetwork(tmp_path) as network:
        founder, second = network.tree(2)
        mine = report(founder)["network"]
        second.stop()
        founder.stop()
        shutil.rmtree(founder.data)
        founder.restart()
        theirs = report(founder)["network"]
        assert theirs != mine
        error = ends(BrokerProcess(tmp_path, "b1", port=free_ports(1)[0], options=["--delta", "1"]))
        assert f"this is network {short(theirs)}, the broker b1 belongs to network {short(mine)}" in error
        assert "its data directory belongs to another network" in error
        assert report(founder)["links"] == []


def test_an_event_for_one_network_is_never_published_in_another(tmp_path: Path) -> None:
    data = str(tmp_path / "publishers")
    for name in ("one", "two"):
        (tmp_path / name).mkdir()

    async def main(one: LiveNetwork, two: LiveNetwork) -> None:
        for each in (one, two):
            async with gapless.connect(each.url) as client:
                await client.create_topic("t")
        with suppress(InterruptedError):
            async with (
                gapless.connect(one.url, data=data) as client,
                client.publisher("t", name="ctr") as publisher,
            ):
                await (await publisher.publish({"n": 1}))
                one["b0"].suspend()
                await publisher.publish({"n": 2})
                await asyncio.sleep(0.3)
                raise InterruptedError
        one["b0"].kill()
        async with gapless.connect(two.url, data=data) as client, client.subscribe("t") as there:
            with pytest.raises(gapless.WrongNetworkError) as wrong:
                async with client.publisher("t", name="ctr"):
                    pass
            assert short(client.network) in str(wrong.value)
            assert "--data" in str(wrong.value)
            async with client.publisher("t", name="another") as publisher:
                await (await publisher.publish({"n": 3}))
            item = await anext(there)
            assert isinstance(item, Event)
            assert item.attributes == {"n": 3}
        await asyncio.to_thread(one["b0"].restart)
        async with gapless.connect(one.url, data=data) as client, client.subscribe("t") as here:
            async with client.publisher("t", name="ctr") as publisher:
                await (await publisher.publish({"n": 4}))
            numbers = [(await anext(here)) for _ in range(2)]
            assert [each.attributes["n"] for each in numbers if isinstance(each, Event)] == [2, 4]

    with LiveNetwork(tmp_path / "one") as one, LiveNetwork(tmp_path / "two") as two:
        one.tree(1)
        two.tree(1)
        asyncio.run(asyncio.wait_for(main(one, two), 2 * SECONDS))


# -- two clients of one name -------------------------------------------------------------------------------


def test_a_second_client_of_a_name_is_refused(network: LiveNetwork) -> None:
    async def main() -> None:
        url = f"gapless://{network['b0'].address}"
        async with gapless.connect(url, name="worker") as first:
            await first.create_topic("t")
            async with first.subscribe("t") as subscription, first.publisher("t") as publisher:
                with pytest.raises(
                    gapless.NameInUseError, match="a client named worker is connected already"
                ):
                    await gapless.connect(url, name="worker")
                await (await publisher.publish({"n": 1}))
                item = await anext(subscription)
                assert isinstance(item, Event)
        async with gapless.connect(url, name="worker"):
            pass  # the name is free again

    asyncio.run(asyncio.wait_for(main(), SECONDS))


def test_a_client_takes_over_the_name_of_another(network: LiveNetwork) -> None:
    async def main() -> None:
        url = f"gapless://{network['b0'].address}"
        first = await gapless.connect(url, name="worker")
        await first.create_topic("t")
        async with first.subscribe("t") as old, gapless.connect(url) as client:
            second = await gapless.connect(url, name="worker", take_over=True)
            with pytest.raises(gapless.NameTakenError, match="has taken over the name worker"):
                await anext(old)
            with pytest.raises(gapless.NameTakenError):
                await first.create_topic("another")
            async with second, second.subscribe("t") as new, client.publisher("t") as publisher:
                for number in range(3):
                    await (await publisher.publish({"n": number}))
                items = [await anext(new) for _ in range(3)]
                assert [each.attributes["n"] for each in items if not isinstance(each, Reset)] == [0, 1, 2]
        await first.close()

    asyncio.run(asyncio.wait_for(main(), SECONDS))
