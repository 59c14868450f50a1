"""The data structures for ranges, against looking at every range."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.matching import ladder, ranges
from gapless.matching.ladder import Ladder
from gapless.matching.ranges import Ranges


@dataclass(eq=False)
class Item:
    number: int


@pytest.fixture
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "CUTS_MAX", 3)
        patch.setattr(ranges, "LISTED_MAX", 2)
        patch.setattr(ladder, "PIECE_MAX", 4)
        yield


def numbers_of(items: list[Item]) -> list[int]:
    return sorted(item.number for item in items)


def depth_of(inside: Any) -> int:
    if not isinstance(inside, ranges._Node):
        return 1
    return 1 + max(depth_of(slab.inside) for slab in inside.slabs if slab is not None)


bounds = st.integers(0, 20) | st.sampled_from((0.5, 3.5, float("inf"), -float("inf"), 2**53 + 1, 10**400))
words = st.text(alphabet="ab\0", max_size=3)


@pytest.mark.usefixtures("small_limits")
@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(bounds, bounds | st.none(), st.booleans()), max_size=60)
    | st.lists(st.tuples(words, words | st.none(), st.booleans()), max_size=60),
    st.randoms(use_true_random=False),
)
def test_ranges_are_what_each_range_says(triples: list[tuple[Any, Any, bool]], random: Random) -> None:
    tree: Ranges[Item] = Ranges()
    model: dict[int, tuple[Any, Any, Item]] = {}
    values = {end for low, high, _ in triples for end in (low, high) if end is not None}
    for number, (one, two, removes) in enumerate(triples):
        low, high = (one, two) if two is None else sorted((one, two))
        if low == high:
            continue
        item = Item(number)
        model[number] = (low, high, item)
        tree.add(low, high, item)
        if removes:
            gone = random.choice(list(model))
            tree.remove(*model.pop(gone))
        assert len(tree) == len(model)
    for value in values:
        expected = [
            n for n, (low, high, _) in model.items() if low <= value and (high is None or value < high)
        ]
        assert numbers_of(tree.stab(value)) == expected
    for gone in random.sample(list(model), len(model)):
        tree.remove(*model.pop(gone))
    assert not tree
    assert all(tree.stab(value) == [] for value in values)


@pytest.mark.parametrize("order", ["ascending", "descending", "nested", "shuffled", "same start"])
def test_no_order_of_addition_makes_the_tree_deep(order: str) -> None:
    count = 4_000
    starts = list(range(count))
    if order == "descending":
        starts.reverse()
    if order == "shuffled":
        Random(1).shuffle(starts)
    tree: Ranges[Item] = Ranges()
    spans = [(start, start + 3) for start in starts]
    if order == "nested":
        spans = [(start, 3 * count - start) for start in starts]
    if order == "same start":
        spans = [(0, start + 1) for start in starts]
    items = [(low, high, Item(number)) for number, (low, high) in enumerate(spans)]
    for low, high, item in items:
        tree.add(low, high, item)
    assert depth_of(tree.inside) <= 12
    for value in (0, 1, 2_000, 3_999, 4_001, 6_000):
        assert numbers_of(tree.stab(value)) == [
            n for n, (low, high) in enumerate(spans) if low <= value < high
        ]
    for low, high, item in items[: count - 10]:
        tree.remove(low, high, item)
    assert len(tree) == 10
    assert depth_of(tree.inside) <= 2


def test_removing_what_is_not_there_is_an_error() -> None:
    tree: Ranges[Item] = Ranges()
    with pytest.raises(KeyError):
        tree.remove(1, 2, Item(1))
    with pytest.raises(KeyError):
        tree.remove(1, None, Item(1))


@pytest.mark.usefixtures("small_limits")
@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 6), st.booleans()), max_size=60), st.randoms(use_true_random=False))
def test_a_ladder_is_a_sorted_list(steps: list[tuple[int, bool]], random: Random) -> None:
    rungs: Ladder[Item] = Ladder()
    model: list[tuple[int, int, Item]] = []
    for number, (bound, removes) in enumerate(steps):
        item = Item(number)
        rungs.add(bound, item)
        model.append((bound, number, item))
        if removes:
            gone, _, removed = model.pop(random.randrange(len(model)))
            rungs.remove(gone, removed)
    model.sort(key=lambda rung: rung[:2])
    assert list(rungs) == [(bound, item) for bound, _, item in model]
    assert len(rungs) == len(model)
    for value in (-1, 0, 2.5, 3, 6, 7):
        found: list[Item] = []
        rungs.up_to(value, found)
        assert found == [item for bound, _, item in model if bound <= value]
        found = []
        rungs.beyond(value, found)
        assert found == [item for bound, _, item in model if bound > value]
