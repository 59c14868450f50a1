"""One run: rounds of acts on brokers and clients, each ended by mending everything and judging."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from random import Random

from live.harness import LiveNetwork
from live.traffic import LIMIT, Traffic, check_logs, look
from tools.soak_live.brokers import Brokers
from tools.soak_live.crowd import Crowd
from tools.soak_live.figures import Memory, listed, own_memory

DELTA = 2
ROUND_SECONDS = 60.0
SAMPLE_SECONDS = 1.0
REPORT_SECONDS = 10.0


class Soak:
    """The acts, the judges and the figures."""

    def __init__(self, network: LiveNetwork, traffic: Traffic, directory: Path, seed: int) -> None:
        self.network = network
        self.traffic = traffic
        self.brokers = Brokers(network, Random(f"brokers {seed}"))
        self.crowd = Crowd(network, directory, Random(f"crowd {seed}"), self.brokers.up)
        self.rounds = 0
        self.longest_stall = 0.0
        self.memory: dict[str, Memory] = {}
        self._pauses = Random(f"pauses {seed}")

    async def run(self, seconds: float) -> None:
        """Rounds until the time is over; a short run goes on until there was an act of every kind."""
        until = time.monotonic() + seconds
        watching = [asyncio.create_task(self._sample()), asyncio.create_task(self._report())]
        try:
            while time.monotonic() < until or not self._is_through():
                await self._round(min(until, time.monotonic() + ROUND_SECONDS))
            await self.traffic.finish()
            check_logs(self.network)
        finally:
            for task in watching:
                task.cancel()
            await asyncio.gather(*watching, return_exceptions=True)
            await self.crowd.leave()

    def _is_through(self) -> bool:
        return self.brokers.deck.is_through and self.crowd.deck.is_through

    async def _round(self, until: float) -> None:
        await self.crowd.begin()
        async with asyncio.TaskGroup() as group:
            for _ in range(DELTA):
                group.create_task(
                    self._repeat(self.brokers.act, 2.0, until, lambda: self.brokers.deck.is_through)
                )
            group.create_task(self._repeat(self.crowd.act, 1.5, until, lambda: self.crowd.deck.is_through))
        await self.traffic.whole()
        await self.crowd.finish()
        await self.traffic.flows()
        await self._nothing_is_stalled()
        self.rounds += 1
        gc.collect()  # what is left of the crowd is no growth

    async def _repeat(
        self, act: Callable[[], Awaitable[None]], pause: float, until: float, is_through: Callable[[], bool]
    ) -> None:
        while time.monotonic() < until or not is_through():
            await asyncio.sleep(self._pauses.uniform(0.1, pause))
            await act()
            self.traffic.check()
            self.crowd.check()
            self.brokers.check()

    async def _nothing_is_stalled(self) -> None:
        """Whoever has gone is forgotten: no broker holds anything for it any more."""
        deadline = time.monotonic() + LIMIT
        while True:
            reports = (await look(self.network)).reports
            stalled = {name: report["stalled"] for name, report in reports.items() if report["stalled"]}
            if not stalled:
                return
            assert time.monotonic() < deadline, f"this still waits: {stalled}"
            await asyncio.sleep(0.5)

    # -- figures -------------------------------------------------------------------------------------------

    @property
    def published(self) -> int:
        return self.traffic.published + self._crowd("Publish")

    @property
    def confirmed(self) -> int:
        return self.traffic.confirmed + self._crowd("Confirm")

    @property
    def delivered(self) -> int:
        return self.traffic.received + self._crowd("Deliver")

    def _crowd(self, kind: str) -> int:
        return self.crowd.totals[kind]

    @property
    def acts(self) -> int:
        return self.brokers.deck.counts.total() + self.crowd.deck.counts.total()

    async def _sample(self) -> None:
        while True:
            for name in self.brokers.up():
                if self.network[name].is_running:
                    self.memory.setdefault(name, Memory()).samples.append(self.network[name].memory())
            self.memory.setdefault("clients", Memory()).samples.append(own_memory())
            self.longest_stall = max(self.longest_stall, self.traffic.longest_stall())
            await asyncio.sleep(SAMPLE_SECONDS)

    async def _report(self) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            most = max(each.samples[-1] for each in self.memory.values()) / 1e6
            down = ", ".join(f"{name} ({how})" for name, how in self.brokers.down.items()) or "none"
            traffic = self.traffic
            print(
                f"{time.monotonic() - began:6.0f} s  rounds {self.rounds}  acts {self.acts}  "
                f"residents: published {traffic.published:,}, "
                f"unconfirmed {traffic.published - traffic.confirmed:,}, delivered {traffic.received:,}  "
                f"brokers {len(self.network.brokers)}, not well: {down}  largest {most:.0f} MB",
                flush=True,
            )

    def conclude(self) -> bool:
        """Print what happened; returns whether memory was flat."""
        print(f"rounds that were judged: {self.rounds}")
        print(f"acts on brokers: {listed(self.brokers.deck.counts)}")
        print(f"acts of clients: {listed(self.crowd.deck.counts)}")
        print(f"published {self.published:,}, confirmed {self.confirmed:,}, delivered {self.delivered:,}")
        print(
            f"of the crowd: subscriptions {self._crowd('Subscribe'):,}, "
            f"published {self._crowd('Publish'):,}, delivered {self._crowd('Deliver'):,}, "
            f"resets {self._crowd('Reset'):,}"
        )
        print(f"longest stall of a resident {self.longest_stall:.2f} s")
        for name, memory in self.memory.items():
            role = " (the witness)" if name == self.brokers.witness else ""
            print(f"memory of {name}{role}: {memory}{'' if memory.is_flat else '  NOT FLAT'}")
        return all(memory.is_flat for memory in self.memory.values())
