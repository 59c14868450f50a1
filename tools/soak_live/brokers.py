"""What happens to brokers: they fail and come back, join, are removed for good, and are replaced.

An act is over when the broker and its neighbours have each other again, as far as they are up. Until then
the broker counts as failed, be it down, recovering, joining or being removed. So where at most δ acts go on
at a time, there are at most δ failures.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

from gapless.server.inquiry import InquiryError, status, survey
from live.harness import READY_SECONDS, LiveNetwork
from live.traffic import check_log, peers
from tools.soak_live.deck import Deck

FEWEST, MOST = 3, 9
"""How many brokers there are, at least and at most."""
RECOVER_SECONDS = 60.0
ASK_SECONDS = 0.1
FAILURES = {"kill": 4, "stop": 1, "freeze": 2, "lose its store": 1}
"""What any broker may suffer that comes back in its place; the numbers say how often, as below."""
ENDINGS = {
    "remove at the edge": 1,
    "remove inside": 1,
    "replace by another name": 1,
    "remove and start again": 1,
}
"""What may happen to a broker that is killed for good."""
ACTS = {**FAILURES, "join": 4, **ENDINGS}


class Brokers:
    """The acts on the brokers of a network."""

    def __init__(self, network: LiveNetwork, rng: Random) -> None:
        self.network = network
        self.deck = Deck(ACTS, rng)
        self.down: dict[str, str] = {}
        """The brokers that have failed, are joining or being removed, and how."""
        self.witness = rng.choice(sorted(network.brokers))
        """It is frozen, but never ends, so that its memory tells of the whole time."""
        self._rng = rng
        self._needed: Counter[str] = Counter()  # who joins, or asks what became of it, needs these
        self._named = len(network.brokers)
        self._links: set[tuple[str, str]] = set()

    def up(self) -> list[str]:
        """The brokers that are well."""
        return [name for name in sorted(self.network.brokers) if name not in self.down]

    def check(self) -> None:
        """Raise what has gone wrong so far."""
        for name, broker in self.network.brokers.items():
            if name not in self.down and not broker.is_running:
                raise AssertionError(f"{name} has ended by itself\n{broker.log_tail()}")

    # -- choosing ----------------------------------------------------------------------------------------

    async def act(self) -> None:
        """Do something to some broker, and wait until that is over."""
        await self._look_at_tree()
        victims = self._victims()
        kind = self.deck.draw({kind for kind, names in victims.items() if names})
        if kind is None:
            return
        name = self._rng.choice(victims[kind])
        neighbours = self._neighbours(name)
        self.down[name] = kind
        seconds = self._rng.uniform(0.1, 4.0)
        if kind == "join":
            await self._join(name, self._rng.sample(self.up(), self._rng.choice((1, 1, 2))))
        elif kind in FAILURES:
            await self._fail(name, kind, neighbours, seconds)
        else:
            await self._end(name, kind, neighbours, seconds)
        self.down.pop(name, None)
        self.deck.counts[kind] += 1

    def _victims(self) -> dict[str, list[str]]:
        """By the kind of an act, to whom it may happen now."""
        up = self.up()
        mortal = [name for name in up if name != self.witness and name not in self._needed]
        degrees = {name: len(self._neighbours(name)) for name in mortal}
        found = dict.fromkeys(FAILURES, mortal)
        found["freeze"] = [name for name in up if name not in self._needed]
        found["lose its store"] = [name for name in mortal if set(up).intersection(self._neighbours(name))]
        count = len(self.network.brokers)
        if count < MOST and len(up) > 1:
            found["join"] = [self._new_name()]
        if not any(kind in ENDINGS for kind in self.down.values()):  # of two adjacent ones neither could be
            found["replace by another name"] = mortal
            if count > FEWEST:
                found["remove at the edge"] = [name for name in mortal if degrees[name] == 1]
                found["remove inside"] = [name for name in mortal if degrees[name] > 1]
                found["remove and start again"] = mortal
        return found

    async def _look_at_tree(self) -> None:
        """Whoever is well is found from everywhere, or the network has come apart."""
        await self._until("the brokers find each other", self._unfound)

    async def _unfound(self) -> str:
        found = await survey([self.network[name].address for name in self.up()])
        self._links = {(a, b) for report in found.reports.values() for a, b in report["links"]}
        missing = [name for name in self.up() if name not in found.reports]
        return f"{', '.join(found.reports)} do not know {', '.join(missing)}" if missing else ""

    def _neighbours(self, name: str) -> list[str]:
        return sorted({other for link in self._links if name in link for other in link if other != name})

    def _new_name(self) -> str:
        return f"b{self._named}"

    # -- failures ------------------------------------------------------------------------------------------

    async def _fail(self, name: str, kind: str, neighbours: list[str], seconds: float) -> None:
        broker = self.network[name]
        if kind == "freeze":
            broker.suspend()
            try:
                await asyncio.sleep(seconds)
            finally:
                broker.resume()
        elif kind == "lose its store":
            points = [each for each in neighbours if each not in self.down]
            with self._needing(points):
                broker.kill()
                shutil.rmtree(broker.data)
                await asyncio.sleep(seconds)
                await self._join(name, points)
        else:
            if kind == "kill":
                broker.kill()
            else:
                assert await asyncio.to_thread(broker.stop) == 0
            await asyncio.sleep(seconds)
            await self._start(name)
        await self._recovered(name)

    async def _start(self, name: str) -> None:
        """Start it from this thread, so that no process begins after the run has ended."""
        self.network[name].launch()
        await asyncio.to_thread(self.network[name].wait_ready, READY_SECONDS)

    # -- joining -------------------------------------------------------------------------------------------

    async def _join(self, name: str, points: Sequence[str]) -> None:
        """A broker with an empty store joins through these; its port is its own, or free."""
        if name == self._new_name():
            self._named += 1
        with self._needing(points):
            self._prepare(name, points)
            await self._start(name)
            await self._recovered(name)

    def _prepare(self, name: str, points: Sequence[str]) -> None:
        assert points, f"there is nobody whom {name} could join"
        former = self.network.brokers.get(name)
        options = [each for point in points for each in ("--join", self.network[point].address)]
        port = int(former.address.rpartition(":")[2]) if former is not None else None
        self.network.add(name, port=port, options=options)

    @contextmanager
    def _needing(self, names: Sequence[str]) -> Iterator[None]:
        """Nothing happens to these meanwhile."""
        self._needed += Counter(names)
        try:
            yield
        finally:
            self._needed -= Counter(names)

    # -- leaving for good ------------------------------------------------------------------------------------

    async def _end(self, name: str, kind: str, neighbours: list[str], seconds: float) -> None:
        """It dies for good, and somebody has it removed; perhaps there is another one in its stead."""
        broker = self.network[name]
        broker.kill()
        await asyncio.sleep(seconds)
        await self._remove(name, neighbours)
        check_log(broker)
        del self.network.brokers[name]
        if kind == "remove and start again":
            await self._start_in_vain(name, broker.data)
        elif kind == "replace by another name":
            successor = self._new_name()
            self.down[successor] = kind
            await self._join(successor, self._rng.sample(self.up(), 1))
            self.down.pop(successor)

    async def _remove(self, name: str, neighbours: list[str]) -> None:
        """Ask as often as needed: until they have noticed, and while a neighbour is down."""
        await self._until(f"{name} is removed", lambda: self._command(name))
        await self._until(f"everybody knows that {name} is removed", lambda: self._remembering(name))
        for each in neighbours:
            if each in self.network.brokers and each not in self.down:
                await self._recovered(each)

    async def _command(self, name: str) -> str:
        url = ",".join(self.network[each].address for each in self.up())
        command = [sys.executable, "-m", "gapless", "broker", "remove", name, "--broker", url]
        process = await asyncio.create_subprocess_exec(
            *command, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.PIPE
        )
        try:
            _, said = await process.communicate()
        finally:
            if process.returncode is None:
                process.kill()
        assert process.returncode == 0 or said.startswith(b"error: "), said.decode()
        return said.decode() if process.returncode else ""

    async def _remembering(self, name: str) -> str:
        await self._look_at_tree()
        return ", ".join(f"there is a link {link}" for link in self._links if name in link)

    async def _start_in_vain(self, name: str, data: Path) -> None:
        """Started again, from its old store or without one, it hears that it was removed, and ends. It asks
        whoever is well."""
        while not (near := self._rng.sample(self.up(), min(2, len(self.up())))):
            await asyncio.sleep(ASK_SECONDS)
        with self._needing(near):
            if self._rng.random() < 0.5:
                shutil.rmtree(data)
            self._prepare(name, near)
            broker = self.network[name]
            broker.launch()
            code = await asyncio.to_thread(broker.process.wait, READY_SECONDS)
            assert code == 1, f"{name} was removed and ends with {code}\n{broker.log_tail()}"
            assert "was removed from its network" in broker.log_tail(), broker.log_tail()
            del self.network.brokers[name]

    # -- recovering ----------------------------------------------------------------------------------------

    async def _recovered(self, name: str) -> None:
        """Wait until the broker and its neighbours have each other, as far as they are up."""
        await self._until(f"{name} has recovered", lambda: self._recovering(name))

    async def _recovering(self, name: str) -> str:
        report = await self._status(name)
        near = {other for link in report["links"] if name in link for other in link if other != name}
        for each in sorted(near):
            other = await self._status(each) if each not in self.down else None
            if other is not None and not (each in peers(report) and name in peers(other)):
                return f"{name} and {each} do not have each other"
        return "" if report["state"] == "operational" else f"{name} is {report['state']}"

    async def _status(self, name: str) -> dict[str, Any]:
        if name not in self.network.brokers:
            raise InquiryError(f"{name} is no more, and not everybody knows it")
        return await status(self.network[name].address)

    async def _until(self, what: str, lacking: Callable[[], Awaitable[str]]) -> None:
        """Wait until nothing is lacking, and everybody who is asked answers."""
        deadline = time.monotonic() + RECOVER_SECONDS
        while True:
            try:
                problem = await lacking()
            except InquiryError as error:
                problem = str(error)
            if not problem:
                return
            if time.monotonic() > deadline:
                logs = "\n".join(
                    f"{each.name}: {each.log_tail(10)}" for each in self.network.brokers.values()
                )
                raise AssertionError(f"not within {RECOVER_SECONDS:g} s: {what}; {problem}\n{logs}")
            await asyncio.sleep(ASK_SECONDS)
