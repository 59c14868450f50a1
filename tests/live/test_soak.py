"""The soak, for a short while: every kind of act on real brokers and clients, and a verdict as exit code."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from tools.soak_live import brokers, crowd
from tools.soak_live.recording import RecordedClient, Recording

import gapless
from gapless.simulation import trace

ROOT = Path(__file__).parents[2]


@contextmanager
def soaking(directory: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tools.soak_live", "--keep", str(directory), *options]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that its brokers can be ended with it
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.communicate()


def brokers_in(directory: Path) -> list[int]:
    """The processes whose command line names the directory, but the soak itself."""
    found = []
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = each.read_bytes().split(b"\0")
            if b"broker" in words and any(str(directory).encode() in word for word in words):
                found.append(int(each.parent.name))
    return found


@pytest.mark.slow
def test_a_short_soak_has_every_kind_of_act(tmp_path: Path) -> None:
    with soaking(tmp_path, "--minutes", "0.1", "--seed", "5") as process:
        output, _ = process.communicate(timeout=280)
    assert process.returncode == 0, output
    assert "verdict: every promise kept" in output
    for kind in (*brokers.ACTS, *crowd.ACTS):
        assert re.search(rf"(: |, ){kind} [1-9]", output), f"{kind}\n{output}"
    assert int(re.findall(r"resets (\d+)", output)[0]) > 0, "some stores were lost, and some leases ran out"


@pytest.mark.slow
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGINT])
def test_the_brokers_end_with_the_soak(tmp_path: Path, how: signal.Signals) -> None:
    with soaking(tmp_path, "--minutes", "5", "--seed", "7") as process:
        deadline = time.monotonic() + 60
        while not (tmp_path / "crowd").exists():
            assert time.monotonic() < deadline
            time.sleep(0.2)
        time.sleep(3)  # some are down, some are frozen, some are joining
        assert brokers_in(tmp_path)
        process.send_signal(how)
        assert process.wait(60) != 0
        assert not brokers_in(tmp_path)


# -- the record of the crowd -----------------------------------------------------------------------------


def recorded_story(place: Path) -> Recording:
    """A publisher crashes and goes on, then loses its store; a subscriber is there all the time."""
    recording = Recording()

    async def main() -> None:
        async with gapless.Network(brokers=2) as network:

            async def client(number: int) -> RecordedClient:
                made = RecordedClient(
                    network.address(number), data=str(place), timeout=10.0, recording=recording
                )
                await made.open()
                return made

            reader = await client(0)
            await reader.create_topic("t")
            subscription = reader.subscribe("t", "n > 1")
            await subscription.__aenter__()
            for life in range(3):
                writer = await client(1)
                publisher = writer.publisher("t", name="pen")
                await publisher.__aenter__()
                for _ in range(3):
                    await publisher.publish({"n": publisher.published + 1})
                await publisher.flush()
                await writer.vanish()
                if life == 1:
                    shutil.rmtree(place)
            await reader.close()

    asyncio.run(main())
    return recording


def test_the_checkers_judge_what_a_crowd_has_seen(tmp_path: Path) -> None:
    recording = recorded_story(tmp_path / "pen")
    got = [(each.publisher, each.sequence) for each in recording.trace if isinstance(each, trace.Deliver)]
    assert got == [*(("pen", n) for n in range(2, 7)), ("pen#1", 2), ("pen#1", 3)]
    counts = recording.counts()
    assert (counts["Publish"], counts["Confirm"], counts["Reset"], counts["Crash"]) == (9, 9, 1, 3)
    assert recording.judged() == []


def test_what_is_missing_twice_or_untold_is_found(tmp_path: Path) -> None:
    recording = recorded_story(tmp_path / "pen")
    records = recording.trace.records
    third = next(each for each in records if isinstance(each, trace.Deliver) and each.sequence == 3)
    where = records.index(third)

    def judged(changed: list[trace.Record]) -> str:
        recording.trace.records = changed
        return "\n".join(recording.judged())

    assert "missed pen.3" in judged([each for each in records if each is not third])
    assert "got pen.3 again" in judged([*records[:where], third, *records[where:]])
    untold: list[trace.Record] = [each for each in records if not isinstance(each, trace.Reset)]
    assert "counted anew untold" in judged(untold)
