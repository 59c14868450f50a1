"""Clients that are given up all the time: a lease of a second, which hardly anybody who is cut off keeps.

Their promise is withdrawn by a ``Reset``, and holds again from there on. (The usual lease is a minute, and
nobody is cut off for so long in a random run.)"""

from __future__ import annotations

from typing import Any

import pytest

from gapless.core.model import SECOND, NodeId
from gapless.core.node import NodeConfig
from gapless.simulation import trace
from gapless.simulation.faults import Faults, Window
from gapless.simulation.run import Options, simulate
from gapless.simulation.world import World
from simulation.mutants import broken

SEEDS = (*range(100, 107), 1244)
"""The last was broken once: what came from a broker that was reached was taken for too early."""
CUT_OFF = 8
"""How often a client is cut off."""


class CutOff(Faults):
    """Cuts clients off from everybody, too."""

    def __init__(self, world: World, *, window: Window, **others: Any) -> None:
        super().__init__(world, window=window, **others)
        self._luck = world.random("cut off")
        for _ in range(CUT_OFF):
            world.at(self._luck.randrange(window.opens, window.closes), self._cut_off)

    def _cut_off(self, _: None) -> None:
        client = self._luck.choice(sorted(self._world.homes))
        for broker in self._world.brokers():
            self._world.cut(client, broker)
        back = self._world.now + self._luck.randrange(1, 6) * SECOND
        self._world.at(min(back, self._window.closes), self._let_back, client)

    def _let_back(self, client: NodeId) -> None:
        for broker in self._world.brokers():
            self._world.heal(client, broker)


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NodeConfig.__init__.__kwdefaults__ or {}, "lease", SECOND)
    monkeypatch.setattr("gapless.simulation.run.Faults", CutOff)


def options(seed: int) -> Options:
    return Options(
        brokers=7 + seed % 9, delta=1 + seed % 3, publishers=3, subscribers=5, events=120, crashes=8, cuts=6
    )


def resets(seed: int) -> int:
    """How many promises were withdrawn in a run that kept all the others."""
    outcome, happened = simulate(options(seed), seed)
    assert outcome.ok, outcome.violations[:3]
    return sum(isinstance(each, trace.Reset) for each in happened)


@pytest.mark.slow
def test_a_promise_that_is_withdrawn_begins_anew() -> None:
    assert sum(map(resets, SEEDS)) > 10


@pytest.mark.slow
def test_who_is_not_told_misses_events() -> None:
    with broken("silent-about-the-forgotten"):
        assert not all(simulate(options(seed), seed)[0].ok for seed in SEEDS)
