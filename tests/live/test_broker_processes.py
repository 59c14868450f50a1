"""Brokers as processes: a tree that starts, is seen, loses a broker and gets it back; operators' errors."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from gapless.server.inquiry import InquiryError, Survey, survey
from gapless.version import build
from live.harness import LiveNetwork, free_ports, until

STATUS = (sys.executable, "-m", "gapless", "status")


def look(network: LiveNetwork) -> Survey:
    addresses = [each.address for each in network.brokers.values() if each.is_running]
    return asyncio.run(survey(addresses, timeout=5.0))


def status_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*STATUS, *arguments], capture_output=True, text=True, timeout=60, check=False)


def whole(found: Survey, count: int) -> Survey | None:
    """The survey, if all brokers are there and reach each other."""
    is_whole = len(found.reports) == count and all(
        report["state"] == "operational" and not report["partitions"] for report in found.reports.values()
    )
    return found if is_whole else None


def links(found: Survey) -> set[tuple[str, str]]:
    return {(a, b) for report in found.reports.values() for a, b in report["links"]}


def test_seven_brokers_start_are_shown_and_survive_the_crash_of_one(tmp_path: Path) -> None:
    with LiveNetwork(tmp_path, delta=1, options=["--log", "json"]) as network:
        network.tree(7, fanout=2)
        found = until("all see each other", lambda: whole(look(network), 7))
        assert links(found) == {(f"b{(child - 1) // 2}", f"b{child}") for child in range(1, 7)}
        before = found.reports["b1"]["incarnation"]

        network["b1"].kill()
        found = until("b1 is bypassed", lambda: _detected(look(network)))
        assert set(found.unreachable) == {"b1"}
        assert found.reports["b0"]["partitions"][0]["kind"] == "island"
        shown = status_command(network["b6"].address)
        assert shown.returncode == 0
        assert "unreachable" in shown.stdout
        assert "island" in shown.stdout

        network["b1"].restart()
        until("b1 is back", lambda: whole(look(network), 7))
        after = json.loads(status_command(network["b0"].address, "--json").stdout)
        assert after["unreachable"] == {}
        assert after["brokers"]["b1"]["incarnation"] > before
        assert links(look(network)) == links(found)
        _logged_as_json(network["b0"].log())


def _detected(found: Survey) -> Survey | None:
    around = [found.reports[name]["partitions"] for name in ("b0", "b3", "b4")]
    return found if all(around) and "b1" in found.unreachable else None


def _logged_as_json(log: str) -> None:
    lines = [json.loads(line) for line in log.splitlines()]
    happened = [line["what"] for line in lines]
    for what in ("started", "joined", "session up", "session down", "partition open", "partition closed"):
        assert what in happened
    assert all(line["node"] == "b0" for line in lines)


def test_an_orderly_end(tmp_path: Path) -> None:
    with LiveNetwork(tmp_path) as network:
        metrics = f"127.0.0.1:{free_ports(1)[0]}"
        broker = network.add("b0", options=["--metrics", metrics])
        broker.start()
        assert broker.ready == {"ready": True, "id": "b0", "address": broker.address, "metrics": metrics}
        with urllib.request.urlopen(f"http://{metrics}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        assert 'gapless_sessions{kind="broker"} 0.0' in text
        assert "gapless_joined 1.0" in text
        assert f'gapless_broker_info{{broker="b0",build="{build()}",network="' in text
        _watch(broker.address)
        assert broker.stop() == 0
        assert "stopped" in broker.log()
        broker.restart()  # its store is not locked any more, and it founded this network
        assert broker.stop() == 0


def _watch(address: str) -> None:
    """``--watch`` goes on until Ctrl-C, which is no failure."""
    with subprocess.Popen(
        [*STATUS, address, "--watch", "--json"], stdout=subprocess.PIPE, text=True
    ) as watching:
        assert watching.stdout is not None
        try:
            for _ in range(2):
                assert list(json.loads(watching.stdout.readline())["brokers"]) == ["b0"]
            watching.send_signal(signal.SIGINT)
            assert watching.wait(60) == 0
        finally:
            watching.kill()


def test_a_broker_at_the_edge_leaves_for_good_and_an_inner_one_says_why_not(tmp_path: Path) -> None:
    with LiveNetwork(tmp_path, delta=1) as network:
        network.tree(3, fanout=1)
        until("all see each other", lambda: whole(look(network), 3))
        inner, edge = network["b1"], network["b2"]
        inner.process.send_signal(signal.SIGUSR1)
        until("b1 says why not", lambda: "cannot leave" in inner.log())
        assert inner.is_running
        edge.process.send_signal(signal.SIGUSR1)
        until("b2 has ended", lambda: not edge.is_running)
        assert edge.process.returncode == 0
        assert "left the network" in edge.log()
        until("the others know", lambda: links(look(network)) == {("b0", "b1")})
        assert whole(look(network), 2)
        edge.launch()
        until("b2 has ended again", lambda: not edge.is_running)
        assert edge.process.returncode == 1
        assert "start one with another --id" in edge.log()


def test_a_broker_that_was_killed_while_it_left_leaves_when_it_is_started_again(tmp_path: Path) -> None:
    with LiveNetwork(tmp_path, delta=1) as network:
        network.tree(2, fanout=1)
        until("both see each other", lambda: whole(look(network), 2))
        stayer, leaver = network["b0"], network["b1"]
        stayer.suspend()
        leaver.process.send_signal(signal.SIGUSR1)
        until("b1 has heard", lambda: "asked to leave" in leaver.log())
        leaver.kill()
        stayer.resume()
        before = leaver.log().count("joined")
        leaver.launch()
        until("it is back", lambda: not leaver.is_running or leaver.log().count("joined") > before)
        try:
            until("b1 has ended", lambda: not leaver.is_running, 10)
        except AssertionError:  # it was killed before its wish was durable
            leaver.process.send_signal(signal.SIGUSR1)
            until("b1 has ended", lambda: not leaver.is_running)
        assert leaver.process.returncode == 0
        assert "left the network" in leaver.log()
        until("b0 knows", lambda: not links(look(network)))


def test_a_broker_that_waits_for_its_network_can_be_stopped(tmp_path: Path) -> None:
    with LiveNetwork(tmp_path) as network:
        network.add("nobody", port=free_ports(1)[0])
        broker = network.add("b1", join="nobody")
        broker.launch()
        until("it has asked", lambda: "nobody answers yet" in broker.log())
        assert broker.stop() == 0


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--delta", "-1"], "--delta: -1 is not a whole number from 0 to 16"),
        (["--listen", "here"], "--listen: 'here' is not an address; write host:port"),
        (["--config", "missing.toml"], "cannot read missing.toml: No such file or directory"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_1(tmp_path: Path, options: list[str], sentence: str) -> None:
    with LiveNetwork(tmp_path) as network:
        broker = network.add("b0", options=options)
        broker.launch()
        assert broker.process.wait(60) == 1
        assert f"error: {sentence}" in broker.log()
        assert "Traceback" not in broker.log()


def test_a_store_in_use_is_named(tmp_path: Path) -> None:
    with LiveNetwork(tmp_path) as network:
        first = network.add("b0")
        first.start()
        second = network.add("b0")  # the same name, so the same directory
        network.brokers["first"] = first
        second.launch()
        assert second.process.wait(60) == 1
        assert f"is in use by process {first.process.pid}" in second.log()


def test_status_of_nobody_says_what_to_do() -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    shown = status_command(address)
    assert shown.returncode == 1
    assert f"nobody can be reached at {address}" in shown.stderr
    assert "gapless status HOST:PORT" in shown.stderr


def test_a_survey_of_nobody_names_all_addresses() -> None:
    addresses = [f"127.0.0.1:{port}" for port in free_ports(2)]
    with pytest.raises(InquiryError) as raised:
        asyncio.run(survey(addresses))
    assert all(address in str(raised.value) for address in addresses)
