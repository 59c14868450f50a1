"""A long run of real broker processes under random faults: ``python -m tools.soak_live --minutes 60``.

Seven brokers with δ = 2 carry constant traffic whose every event is judged when it arrives. Meanwhile
brokers are killed, stopped, frozen and brought back, never more than δ at a time: one that is back counts as
failed until its neighbours have it again. One broker, the witness, is frozen but never killed, so that its
memory tells of the whole time. Subscribers come and go. At the end everything is confirmed, everybody has got
exactly what was theirs, no log has a traceback, and memory has not grown. The exit code is the verdict."""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import gapless
from gapless.server.inquiry import InquiryError, status
from live.harness import LiveNetwork
from live.traffic import SELECTORS, Traffic, check_logs, peers

BROKERS, DELTA = 7, 2
SAMPLE_SECONDS = 1.0
REPORT_SECONDS = 10.0
GROWTH_FACTOR, GROWTH_BYTES = 1.3, 20 << 20
"""Memory is flat when the median of the last quarter is at most this much above that of the second one."""
RECOVER_SECONDS = 60.0


@dataclass
class Memory:
    """The memory of one process, or of all lives of one broker, over time."""

    samples: list[int] = field(default_factory=list)

    def medians(self) -> tuple[float, float]:
        """Of the second and of the last quarter."""
        quarter = max(1, len(self.samples) // 4)
        return statistics.median(self.samples[quarter : 2 * quarter] or self.samples), statistics.median(
            self.samples[-quarter:]
        )

    @property
    def is_flat(self) -> bool:
        second, last = self.medians()
        return last <= GROWTH_FACTOR * second + GROWTH_BYTES

    def __str__(self) -> str:
        first, last, most = (each / 1e6 for each in (self.samples[0], self.samples[-1], max(self.samples)))
        second, fourth = (each / 1e6 for each in self.medians())
        return (
            f"first {first:6.1f} MB, last {last:6.1f}, most {most:6.1f}; "
            f"median of the second quarter {second:6.1f}, of the last {fourth:6.1f}"
        )


class Soak:
    """One run."""

    def __init__(self, network: LiveNetwork, traffic: Traffic, rng: Random) -> None:
        self.network = network
        self.traffic = traffic
        self.rng = rng
        self.down: dict[str, str] = {}
        """The brokers that have failed, and how."""
        self.faults: dict[str, int] = {}
        self.visitors = 0
        self.longest_stall = 0.0
        self.witness = rng.choice(sorted(network.brokers))
        self.memory = {name: Memory() for name in (*network.brokers, "clients")}

    async def run(self, seconds: float) -> None:
        """Cause faults until the time is over, and mend them all."""
        until = time.monotonic() + seconds
        watching = [asyncio.create_task(self._sample()), asyncio.create_task(self._report())]
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(DELTA):
                    group.create_task(self._break_and_mend(until))
                group.create_task(self._visit(until))
            await self.traffic.whole()
            await self.traffic.flows()
            await self.traffic.finish()
            check_logs(self.network)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)

    # -- faults ------------------------------------------------------------------------------------------

    async def _break_and_mend(self, until: float) -> None:
        """One fault after the other."""
        rng = self.rng
        while time.monotonic() < until:
            await asyncio.sleep(rng.uniform(0.2, 3.0))
            name = rng.choice([each for each in sorted(self.network.brokers) if each not in self.down])
            how = "freeze" if name == self.witness else rng.choice(("kill", "kill", "kill", "freeze", "stop"))
            self.down[name] = how
            self.faults[how] = self.faults.get(how, 0) + 1
            await self._fault(name, how, rng.uniform(0.1, 4.0))
            await self._recovered(name)
            del self.down[name]
            self._check()

    def _check(self) -> None:
        """Raise what has gone wrong so far."""
        self.traffic.check()
        for name, broker in self.network.brokers.items():
            assert name in self.down or broker.is_running, f"{name} has ended by itself\n{broker.log_tail()}"

    async def _fault(self, name: str, how: str, seconds: float) -> None:
        broker = self.network[name]
        if how == "freeze":
            broker.suspend()
            try:
                await asyncio.sleep(seconds)
            finally:
                broker.resume()
            return
        if how == "kill":
            broker.kill()
        else:
            assert await asyncio.to_thread(broker.stop) == 0
        await asyncio.sleep(seconds)
        await asyncio.to_thread(broker.restart)

    async def _recovered(self, name: str) -> None:
        """Wait until the broker and its neighbours have each other, as far as they are up."""
        deadline = time.monotonic() + RECOVER_SECONDS
        while not await self._has_recovered(name):
            self.traffic.check()
            assert time.monotonic() < deadline, f"{name} does not recover\n{await self.traffic.account()}"
            await asyncio.sleep(0.1)

    async def _has_recovered(self, name: str) -> bool:
        try:
            report = await self._status(name)
            near = {other for link in report["links"] if name in link for other in link if other != name}
            neighbours = [await self._status(each) for each in sorted(near) if each not in self.down]
        except InquiryError:
            return False
        return report["state"] == "operational" and all(
            each["id"] in peers(report) and name in peers(each) for each in neighbours
        )

    async def _status(self, name: str) -> dict[str, Any]:
        return await status(self.network[name].address)

    # -- subscribers that come and go --------------------------------------------------------------------

    async def _visit(self, until: float) -> None:
        rng = self.rng
        while time.monotonic() < until:
            await asyncio.sleep(rng.uniform(0.5, 3.0))
            home = rng.choice([each for each in sorted(self.network.brokers) if each not in self.down])
            with suppress(gapless.NotConnectedError):  # its broker has failed in this moment
                async with self.traffic.visitor(home, rng.choice(SELECTORS)) as reader:
                    await asyncio.sleep(rng.uniform(0.5, 5.0))
                    assert not reader.faults, "\n".join(reader.faults)
                self.visitors += 1

    # -- figures -------------------------------------------------------------------------------------------

    async def _sample(self) -> None:
        while True:
            for name, broker in self.network.brokers.items():
                if name not in self.down and broker.is_running:
                    self.memory[name].samples.append(broker.memory())
            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self.memory["clients"].samples.append(pages * os.sysconf("SC_PAGE_SIZE"))
            self.longest_stall = max(self.longest_stall, self.traffic.longest_stall())
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _report(self) -> None:
        began, published, received = time.monotonic(), 0, 0
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            traffic = self.traffic
            rates = (
                (traffic.published - published) / REPORT_SECONDS,
                (traffic.received - received) / REPORT_SECONDS,
            )
            published, received = traffic.published, traffic.received
            most = max(each.samples[-1] for each in self.memory.values() if each.samples) / 1e6
            down = ", ".join(f"{how} {name}" for name, how in self.down.items()) or "none"
            print(
                f"{time.monotonic() - began:6.0f} s  published {published:,} ({rates[0]:.0f}/s)  "
                f"unconfirmed {published - traffic.confirmed:,}  delivered {received:,} ({rates[1]:.0f}/s)  "
                f"faults {sum(self.faults.values())}  down: {down}  largest {most:.0f} MB",
                flush=True,
            )

    def conclude(self) -> bool:
        """Print what happened; returns whether memory was flat."""
        traffic = self.traffic
        print(f"published {traffic.published:,}, confirmed {traffic.confirmed:,}, got {traffic.received:,}")
        print(f"faults {self.faults}, visitors {self.visitors}, longest stall {self.longest_stall:.2f} s")
        good = True
        for name, memory in self.memory.items():
            role = " (the witness)" if name == self.witness else ""
            print(f"memory of {name}{role}: {memory}{'' if memory.is_flat else '  NOT FLAT'}")
            good = good and memory.is_flat
        return good


async def soak(network: LiveNetwork, directory: Path, seconds: float, seed: int, rate: float) -> bool:
    """Run it on the network; returns the verdict."""
    async with Traffic(network, directory, "soak", per_second=rate) as traffic:
        run = Soak(network, traffic, Random(seed))
        good = True
        try:
            await traffic.flows()
            await run.run(seconds)
        except* Exception as errors:
            good = False
            for error in errors.exceptions:
                print(f"failed: {type(error).__name__}: {error}")
        return run.conclude() and good


def main() -> int:
    parser = argparse.ArgumentParser(description="Random faults on real brokers under traffic, judged.")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rate", type=float, default=300.0, help="events a second, of all publishers")
    parser.add_argument("--keep", type=Path, help="where stores and logs stay; else they are removed")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to stop"))  # and end the brokers on the way out
    print(
        f"{options.minutes:g} minutes, seed {options.seed}, {options.rate:g} events/s, δ = {DELTA}",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as temporary:
        directory = options.keep or Path(temporary)
        directory.mkdir(parents=True, exist_ok=True)
        with LiveNetwork(directory, delta=DELTA) as network:
            network.tree(BROKERS)
            good = asyncio.run(soak(network, directory, 60 * options.minutes, options.seed, options.rate))
    print("verdict: every promise kept" if good else f"verdict: FAILED; again with --seed {options.seed}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
