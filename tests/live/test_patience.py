"""Who is suspected: a peer that is silent, and not one that nobody listened to; and who is given up."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
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


@contextmanager
def _subscribed(directory: Path, *options: str) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    """The address of a broker that waits for two seconds, and a process that subscribes there."""
    with LiveNetwork(directory) as network:
        broker = network.add("b0", environ={"GAPLESS_LEASE": "2"})
        broker.start()
        command = [sys.executable, "-m", "gapless"]
        subprocess.run([*command, "topic", "create", "t", "-b", broker.address], check=True)
        words = [*command, "subscribe", "t", "-b", broker.address, *options]
        with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as subscriber:
            try:
                yield broker.address, subscriber
            finally:
                subscriber.kill()


@pytest.mark.slow
def test_a_subscriber_that_has_vanished_is_waited_for_no_longer_than_its_lease(tmp_path: Path) -> None:
    """Publishers fill their windows and wait for it, then they go on."""
    with _subscribed(tmp_path) as (address, subscriber):
        assert subscriber.stderr is not None
        assert "live" in subscriber.stderr.readline()
        subscriber.kill()
        subscriber.wait()
        began = time.monotonic()
        assert asyncio.run(asyncio.wait_for(_publish(address, range(100)), 30)) == 100
        assert time.monotonic() - began > 0.5, "it was waited for"


@pytest.mark.slow
def test_a_subscriber_that_was_given_up_is_told_so(tmp_path: Path) -> None:
    """It is frozen for longer than its lease. What it missed is a gap, but not a silent one."""
    with _subscribed(tmp_path, "--json") as (address, subscriber):

        def publish(numbers: range) -> None:
            asyncio.run(asyncio.wait_for(_publish(address, numbers), 30))

        assert subscriber.stdout is not None
        said = (json.loads(line) for line in subscriber.stdout)
        assert next(said)["kind"] == "live"
        publish(range(3))
        assert [next(said)["attributes"]["n"] for _ in range(3)] == [0, 1, 2]
        subscriber.send_signal(signal.SIGSTOP)
        publish(range(3, 6))  # on their way to it when it is given up
        publish(range(6, 9))
        subscriber.send_signal(signal.SIGCONT)
        before = [each["attributes"]["n"] for each in takewhile(lambda item: item["kind"] == "event", said)]
        assert before == [3, 4, 5][: len(before)]
        publish(range(9, 11))
        assert [next(said)["attributes"]["n"] for _ in range(2)] == [9, 10]
