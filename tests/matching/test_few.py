"""A few subscriptions are asked one by one, more are looked up: nobody can tell the difference."""

from __future__ import annotations

from random import Random

import pytest

from gapless.matching import MatchIndex
from gapless.matching.index import FEW_MAX
from gapless.selectors import Selector

TEXTS = ["", "x = 1", "x > 2", "y LIKE 'a%'", "x IS NULL", "n.z <> 3", "x = 1 OR y = 'b'", "NOT x < 2"]
EVENTS: list[dict[str, object]] = [
    {},
    {"x": 1, "y": "ab"},
    {"x": 3.5},
    {"x": "1", "n": {"z": 3}},
    {"x": None, "y": "b", "n": {"z": 4}},
    {"x": True, "y": b"a"},
]


def test_there_are_few_and_many() -> None:
    assert 1 < FEW_MAX < 30


@pytest.mark.parametrize("seed", range(20))
def test_coming_and_going_over_the_boundary(seed: int) -> None:
    rng = Random(seed)
    index: MatchIndex[int] = MatchIndex()
    there: dict[int, Selector] = {}
    for number in range(300):
        growing = rng.random() < (0.75 if number % 100 < 50 else 0.2)
        if growing or not there:
            there[number] = Selector(rng.choice(TEXTS))
            index.add(number, there[number])
        else:
            gone = rng.choice(list(there))
            del there[gone]
            index.remove(gone)
        event = rng.choice(EVENTS)
        assert index.match(event) == [key for key, each in there.items() if each.matches(event)]
        assert len(index) == len(there)
