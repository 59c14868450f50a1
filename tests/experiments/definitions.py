"""What the figures should show, computed from the definitions alone, in the plainest way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from itertools import combinations
from math import comb

from gapless.core.model import NodeId
from support import Tree, paths_from


def longest_run(path: Sequence[NodeId], dead: Collection[NodeId]) -> int:
    """The most failed brokers in a row on a path."""
    longest = run = 0
    for node in path:
        run = run + 1 if node in dead else 0
        longest = max(longest, run)
    return longest


def connected(tree: Tree, dead: Collection[NodeId], delta: int) -> set[tuple[NodeId, NodeId]]:
    """The ordered pairs of different live brokers with no more than δ failed ones in a row between them."""
    return {
        (start, end)
        for start in tree
        if start not in dead
        for end, path in paths_from(tree, start, len(tree)).items()
        if end != start and end not in dead and longest_run(path, dead) <= delta
    }


def mean_over_all_sets(tree: Tree, failures: int, delta: int) -> float:
    """The disconnected share of the live pairs, in %, as the mean over every set of so many failures."""
    live = len(tree) - failures
    counts = [len(connected(tree, set(dead), delta)) for dead in combinations(tree, failures)]
    return 100 - 100 * sum(counts) / (len(counts) * live * (live - 1))


def distances(tree: Tree) -> Counter[int]:
    """How many ordered pairs of brokers lie so far apart."""
    far = len(tree)
    return Counter(
        len(path) - 1 for start in tree for path in paths_from(tree, start, far).values()
    ) - Counter({0: far})


def expected_disconnected(distances: Counter[int], brokers: int, failures: int, delta: int) -> float:
    """The same in closed form, for trees of any size.

    A pair at distance d has d - 1 brokers between its ends. Given that both ends live, the failed ones are
    a random set among all others; count those that leave no run of more than δ between the two.
    """
    others = brokers - 2
    pairs = sum(distances.values())
    open_sets = {
        distance: sum(
            without_long_run(distance - 1, between, delta) * comb(others - (distance - 1), failures - between)
            for between in range(min(distance - 1, failures) + 1)
        )
        for distance in distances
    }
    still_connected = sum(count * open_sets[distance] for distance, count in distances.items())
    return 100 - 100 * (still_connected / (pairs * comb(others, failures)))


@cache
def without_long_run(places: int, failures: int, delta: int, run: int = 0) -> int:
    """In how many ways so many failures fall on places in a row, none of more than δ beside each other."""
    if failures > places or failures < 0:
        return 0
    if places == 0:
        return 1
    lives = without_long_run(places - 1, failures, delta)
    dies = without_long_run(places - 1, failures - 1, delta, run + 1) if run < delta else 0
    return lives + dies
