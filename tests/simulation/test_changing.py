"""Networks whose membership changes at random are one tree in the end, and everybody knows it."""

from __future__ import annotations

import pytest

from simulation.changing import CHANGES, check_seed, features_of

FAULTY = (181, 482, 667, 975, 1923, 2216, 2222, 3096, 8121, 8485, 1001671, 1003679, 2005748)
"""Seeds that have shown a fault each."""


def test_half_of_the_seeds_stay_within_delta() -> None:
    drawn = [features_of(seed) for seed in range(100)]
    assert sum(each.is_beyond for each in drawn) == 50
    for change in CHANGES:
        assert 0 < sum(change in each.faults for each in drawn) < 100


@pytest.mark.slow
@pytest.mark.parametrize("seed", [*range(32), *FAULTY])
def test_whatever_happens_the_members_are_one_network(seed: int) -> None:
    check_seed(seed)
