"""A broker process that is gone for good is removed by an operator's command."""

from __future__ import annotations

import asyncio
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import gapless
from gapless.server.inquiry import Survey, remove, survey
from live.harness import LiveNetwork, until

pytestmark = pytest.mark.slow


def command(*arguments: str) -> subprocess.CompletedProcess[str]:
    line = [sys.executable, "-m", "gapless", "broker", "remove", *arguments]
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def look(network: LiveNetwork) -> Survey:
    addresses = [each.address for each in network.brokers.values() if each.is_running]
    return asyncio.run(survey(addresses, timeout=5.0))


def is_whole(found: Survey, *names: str) -> bool:
    return set(found.reports) == set(names) and all(
        report["state"] == "operational" and not report["partitions"] for report in found.reports.values()
    )


def test_an_inner_broker_is_removed_and_the_next_failure_is_the_first_again(tmp_path: Path) -> None:
    with LiveNetwork(tmp_path, delta=1) as network:
        network.tree(5, fanout=2)
        assert asyncio.run(_story(network)) == [n for n in range(12) for _ in range(2)]
        _it_cannot_come_back_by_itself(network)


async def _story(network: LiveNetwork) -> list[int]:
    """Events of a client of b1 and of one of b3, to subscribers at b1 and b4, before, during and after."""
    got: dict[str, list[tuple[str, int]]] = {"b1": [], "b4": []}

    async def listen(home: str, subscription: gapless.Subscription) -> None:
        async for event in subscription:
            assert isinstance(event, gapless.Event), "nothing may be lost, and nobody told so"
            got[home].append((event.publisher, event.attributes["n"]))

    clients = {
        name: await gapless.connect(f"gapless://{network[name].address}") for name in ("b1", "b3", "b4")
    }
    await clients["b3"].create_topic("t")
    subscriptions = {name: clients[name].subscribe("t") for name in got}
    publishers = [clients[name].publisher("t") for name in ("b1", "b3")]
    for subscription in subscriptions.values():
        await subscription.__aenter__()
    for publisher in publishers:
        await publisher.__aenter__()
    listening = [asyncio.create_task(listen(name, each)) for name, each in subscriptions.items()]

    async def publish(first: int) -> None:
        for n in range(first, first + 3):
            for publisher in publishers:
                await publisher.publish({"n": n})

    await publish(0)
    await asyncio.to_thread(network["b1"].kill)
    await publish(3)
    await asyncio.to_thread(_is_removed_by_a_command, network)
    await publish(6)
    await asyncio.to_thread(network["b0"].kill)  # it has the place of b1: δ = 1 holds again
    await publish(9)
    for publisher in publishers:
        await asyncio.wait_for(publisher.flush(), 60)
    for theirs in got.values():
        for publisher in publishers:
            assert [n for who, n in theirs if who == publisher.name] == list(range(12))
    for task in listening:
        task.cancel()
    for client in clients.values():
        await client.close()
    return sorted(n for _, n in got["b1"])


def _is_removed_by_a_command(network: LiveNetwork) -> None:
    url = ",".join(network[name].address for name in ("b4", "b0"))
    alive = command("b2", "--broker", url)
    assert alive.returncode == 1
    assert alive.stderr.startswith(f"error: b2 is alive: it answers at {network['b2'].address}")
    unknown = command("b9", "--broker", url)
    assert (unknown.returncode, unknown.stderr[:28]) == (1, "error: there is no broker b9")
    done = until("b1 can be removed", lambda: _done(command("b1", "--broker", url, "--json")))
    assert json.loads(done) == {"removed": "b1"}
    again = command("b1", "--broker", url)
    assert (again.returncode, again.stdout) == (0, "broker b1 is removed\n")
    until("all live in the new tree", lambda: is_whole(look(network), "b0", "b2", "b3", "b4"))
    links = {(a, b) for report in look(network).reports.values() for a, b in report["links"]}
    assert links == {("b0", "b2"), ("b0", "b3"), ("b0", "b4")}


def _done(ran: subprocess.CompletedProcess[str]) -> str:
    """Until the neighbours have found out that it is gone, they say so."""
    assert ran.returncode == 0 or "b1" in ran.stderr
    return ran.stdout


def _it_cannot_come_back_by_itself(network: LiveNetwork) -> None:
    """With its old store it is told that it was removed, and ends; and so it does without."""
    network["b0"].restart()
    until("b0 is back", lambda: is_whole(look(network), "b0", "b2", "b3", "b4"))
    for has_store in (True, True, False):
        if not has_store:
            shutil.rmtree(network["b1"].data)
        network["b1"].launch()
        assert network["b1"].process.wait(30) == 1
        assert (
            "b1 was removed from its network, or has left it, and its name is used up"
            in network["b1"].log_tail()
        )
    reports = look(network).reports
    assert is_whole(look(network), "b0", "b2", "b3", "b4")
    assert [report["subscriptions"] for report in reports.values()] == [0] * 4, "the ended are forgotten"
    assert asyncio.run(remove(network["b0"].address, "b1")) == "", "to ask again is no mistake"
