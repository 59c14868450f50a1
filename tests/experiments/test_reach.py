"""Counting connected pairs fast, against the plainest reading of the definition."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from experiments.definitions import connected, distances, expected_disconnected, mean_over_all_sets
from gapless.core.model import Link
from gapless.experiments.networks import DELTAS, Network, neighbours_of, number_of, parents_of
from gapless.experiments.reach import connected_pairs, within_reach
from gapless.simulation.trees import kary_tree, random_tree
from support import chain, tree_of

TREES = [kary_tree(10, 2), kary_tree(9, 7), random_tree(10, 3, Random(4)), random_tree(10, 1, Random(0))]
"""Binary, almost a star, random, a chain."""


@pytest.mark.parametrize("links", TREES)
@pytest.mark.parametrize("delta", DELTAS)
def test_every_set_of_failures_of_a_small_tree(links: list[Link], delta: int) -> None:
    brokers = len(links) + 1
    sets = np.array(list(product([False, True], repeat=brokers))).T
    counted = connected_pairs(parents_of(links), sets, delta)
    tree = tree_of(links)
    for column in range(0, sets.shape[1], 3):
        dead = {f"b{number}" for number in range(brokers) if sets[number, column]}
        assert 2 * counted[column] == len(connected(tree, dead, delta)), dead


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("delta", DELTAS)
def test_who_can_be_reached_from_one_broker(seed: int, delta: int) -> None:
    network = Network("random", 3, 60, seed)
    links, dead = network.links(0), set(network.failures(0)[:20])
    pairs = connected(tree_of(links), dead, delta)
    for start in network.names():
        if start not in dead:
            reached = within_reach(neighbours_of(links), dead, start, delta)
            assert reached == {start} | {end for begin, end in pairs if begin == start}


def test_being_connected_is_not_transitive() -> None:
    """a - x - m - y - c with b at m; x, m and y are dead and δ is 2: b reaches both, a and c do not meet."""
    neighbours = tree_of([*chain("a", "x", "m", "y", "c"), ("b", "m")])
    reach = {start: within_reach(neighbours, {"x", "m", "y"}, start, 2) for start in "abc"}
    assert reach == {"a": {"a", "b"}, "b": {"a", "b", "c"}, "c": {"b", "c"}}


@pytest.mark.parametrize("failures", [0, 1, 4, 7])
@pytest.mark.parametrize("delta", DELTAS)
def test_the_mean_over_all_sets_is_the_exact_expectation(failures: int, delta: int) -> None:
    """Three ways to the same number: enumeration by the definition, closed form, and the counting."""
    links = kary_tree(11, 3)
    exact = expected_disconnected(distances(tree_of(links)), 11, failures, delta)
    assert mean_over_all_sets(tree_of(links), failures, delta) == pytest.approx(exact, abs=1e-9)
    every = [bits for bits in product([False, True], repeat=11) if sum(bits) == failures]
    counted = connected_pairs(parents_of(links), np.array(every).T, delta)
    live = 11 - failures
    assert 100 - 100 * counted.mean() / (live * (live - 1) / 2) == pytest.approx(exact, abs=1e-9)


def test_names_are_numbers() -> None:
    assert [number_of(name) for name in Network("kary", 3, 12, 0).names()] == list(range(12))
