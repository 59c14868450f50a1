"""Who is suspected: a peer that is silent, and not one that nobody listened to; and who is given up."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from itertools import takewhile
from pathlib import Path

import pytest

import gapless
from live.harness import LiveNetwork, until
from live.traffic import is_whole, look


@pytest.mark.slow
def test_a_broker_that_was_frozen_hears_what_came_meanwhile(tmp_path: Path) -> None:
    """The other one waits for longer, and has given signs of life all the time."""
    with LiveNetwork(tmp_path) as network:
        network.add("b0").start()
        network.add("b1", join="b0", environ={"GAPLESS_SUSPECT_AFTER": "20"}).start()
        until("both have each other", lambda: is_whole(network, asyncio.run(look(network))))
        for _ in range(3):
            network["b0"].suspend()
            time.sleep(1.5)  # the fault itself
            network["b0"].resume()
            assert asyncio.run(look(network)).reports["b0"]["partitions"] == []
        assert "suspected" not in network["b0"].log()


async def _publish(address: str, numbers: range) -> int:
    async with gapless.connect(address, window=10) as client, client.publisher("t") as publisher:
        for number in numbers:
            await publisher.publish({"n": number})
        await publisher.flush()
        return publisher.confirmed


@pytest.mark.slow
def test_a_subscriber_that_has_vanished_is_waited_for_no_longer_than_its_lease(tmp_path: Path) -> None:
    """Publishers fill their windows and wait for it, then they go on."""
    with LiveNetwork(tmp_path) as network:
        broker = network.add("b0", environ={"GAPLESS_LEASE": "2"})
        broker.start()
        command = [sys.executable, "-m", "gapless"]
        subprocess.run([*command, "topic", "create", "t", "-b", broker.address], check=True)
        words = [*command, "subscribe", "t", "-b", broker.address]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as subscriber:
            try:
                assert subscriber.stderr is not None
                assert "live" in subscriber.stderr.readline()
            finally:
                subscriber.kill()
        began = time.monotonic()
        assert asyncio.run(asyncio.wait_for(_publish(broker.address, range(100)), 30)) == 100
        assert time.monotonic() - began > 0.5, "it was waited for"


@pytest.mark.slow
def test_a_subscriber_that_was_given_up_is_told_so(tmp_path: Path) -> None:
    """It is frozen for longer than its lease. What it missed is a gap, but not a silent one."""
    with LiveNetwork(tmp_path) as network:
        broker = network.add("b0", environ={"GAPLESS_LEASE": "2"})
        broker.start()
        command = [sys.executable, "-m", "gapless"]
        subprocess.run([*command, "topic", "create", "t", "-b", broker.address], check=True)
        words = [*command, "subscribe", "t", "--json", "-b", broker.address]

        def publish(numbers: range) -> None:
            asyncio.run(asyncio.wait_for(_publish(broker.address, numbers), 30))

        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as subscriber:
            assert subscriber.stdout is not None
            said = (json.loads(line) for line in subscriber.stdout)
            try:
                assert next(said)["kind"] == "live"
                publish(range(3))
                assert [next(said)["attributes"]["n"] for _ in range(3)] == [0, 1, 2]
                subscriber.send_signal(signal.SIGSTOP)
                publish(range(3, 6))  # on their way to it when it is given up
                publish(range(6, 9))
                subscriber.send_signal(signal.SIGCONT)
                before = [
                    each["attributes"]["n"] for each in takewhile(lambda item: item["kind"] == "event", said)
                ]
                assert before == [3, 4, 5][: len(before)]
                publish(range(9, 11))
                assert [next(said)["attributes"]["n"] for _ in range(2)] == [9, 10]
            finally:
                subscriber.kill()
