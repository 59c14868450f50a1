"""Clients that are given up all the time: a lease of a second, which hardly anybody who is cut off keeps.

Their promise is withdrawn by a ``Reset``, and holds again from there on. (The usual lease is a minute, and
nobody is cut off for so long in a random run.)"""

from __future__ import annotations

from dataclasses import replace

import pytest

from gapless.core.limits import Limits
from gapless.core.model import SECOND
from gapless.simulation.options import Outcome
from gapless.simulation.swarm.features import features_of
from gapless.simulation.swarm.run import judge, play, prepare
from simulation.mutants import broken

SEEDS = range(100, 124)
FAULTS = ("cut off a client", "cut off a client", "crash", "cut", "crash a client")


def outcome(seed: int) -> Outcome:
    """A run in which clients are cut off for longer than they may be."""
    features = replace(
        features_of(seed),
        delta=1 + seed % 3,
        max_down=1 + seed % 3,
        brokers=5 + seed % 4,
        faults=FAULTS,
        fault_share=0.4,
        episodes=6,
        squeezes=0.0,
        limits=Limits(lease=SECOND),
    )
    script = prepare(features, seed)
    return judge(script, {} if play(script) else {"never at rest": 1})


@pytest.mark.slow
def test_a_promise_that_is_withdrawn_begins_anew() -> None:
    outcomes = [outcome(seed) for seed in SEEDS]
    assert [each.counts for each in outcomes if not each.ok] == []
    assert sum(each.resets for each in outcomes) > 10


@pytest.mark.slow
def test_who_is_not_told_misses_events() -> None:
    with broken("silent-about-the-forgotten"):
        assert not all(outcome(seed).ok for seed in SEEDS)
