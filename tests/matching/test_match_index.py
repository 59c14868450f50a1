"""What the index promises, case by case."""

from __future__ import annotations

import math
from collections.abc import Mapping
from random import Random
from typing import Any

import pytest

from gapless.matching import MatchIndex
from gapless.matching.predicates import Absent, Among, Beginning, Numbers, Outside, Present, Strings
from gapless.selectors import Selector


def index_of(*texts: str) -> MatchIndex[str]:
    index: MatchIndex[str] = MatchIndex()
    for text in texts:
        index.add(text, Selector(text))
    return index


OTHERS = [Selector(f"pad = {n} AND x = {n} AND y BETWEEN {n} AND {n}.5") for n in range(100)]


def padded(*texts: str) -> MatchIndex[str]:
    """With enough others that never match to fill tables instead of lists."""
    index = index_of(*texts)
    for number, selector in enumerate(OTHERS):
        index.add(f"other-{number}", selector)
    return index


def test_a_key_is_added_once() -> None:
    index = index_of("x = 1")
    with pytest.raises(ValueError, match="'x = 1' already"):
        index.add("x = 1", Selector("x = 2"))
    assert len(index) == 1
    assert index.match({"x": 1}) == ["x = 1"]
    assert index.match({"x": 2}) == []


def test_an_unknown_key_is_not_removed() -> None:
    index = index_of("x = 1")
    with pytest.raises(KeyError):
        index.remove("x = 2")
    assert "x = 1" in index
    assert "x = 2" not in index


def test_keys_come_in_the_order_of_addition() -> None:
    index: MatchIndex[int] = MatchIndex()
    order = Random(1).sample(range(1_000), 300)
    shapes = ("x = 1", "x < 5", "x IN (1, 2)", "y IS NULL", "TRUE", "x * 1 = 1", "x = 1 OR x < 2 OR z")
    for key in order:
        index.add(key, Selector(shapes[key % len(shapes)]))
    assert index.match({"x": 1}) == order


def test_a_key_that_was_removed_can_be_added_again_and_is_then_the_last() -> None:
    index = index_of("x = 1", "x > 0", "TRUE")
    index.remove("x = 1")
    assert "x = 1" not in index
    index.add("x = 1", Selector("x = 1"))
    assert index.match({"x": 1}) == ["x > 0", "TRUE", "x = 1"]


def test_several_alternatives_that_hold_give_one_match() -> None:
    index = index_of("a = 1 OR b = 1 OR c = 1", "a = 1")
    assert index.match({"a": 1, "b": 1, "c": 1}) == ["a = 1 OR b = 1 OR c = 1", "a = 1"]


def test_never_true_costs_nothing_and_always_true_matches_all() -> None:
    index = index_of("FALSE", "x = 1 AND x = 2", "x > 2 AND x < 2", "x IS NULL AND x = 1", "TRUE", "")
    assert index.match({}) == ["TRUE", ""]
    assert len(index._clauses) == 1
    for key in ("FALSE", "x > 2 AND x < 2", "TRUE", ""):
        index.remove(key)
    assert index.match({}) == []
    assert len(index) == 2


@pytest.mark.parametrize("make", [index_of, padded])
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (1, ["x = 1", "x = 1.0", "x >= 1", "x <> 2", "x IS NOT NULL", "x IN (1, 'a')"]),
        (1.0, ["x = 1", "x = 1.0", "x >= 1", "x <> 2", "x IS NOT NULL", "x IN (1, 'a')"]),
        (True, ["x", "x <> FALSE", "x IS NOT NULL"]),
        (False, ["NOT x", "x IS NOT NULL"]),
        (math.nan, ["x IS NOT NULL"]),
        (math.inf, ["x >= 1", "x <> 2", "x IS NOT NULL"]),
        (-math.inf, ["x < 1", "x <> 2", "x IS NOT NULL"]),
        (10**400, ["x >= 1", "x <> 2", "x IS NOT NULL"]),
        (-(10**400), ["x < 1", "x <> 2", "x IS NOT NULL"]),
        ("a", ["x IN (1, 'a')", "x LIKE 'a%'", "x >= 'a'", "x IS NOT NULL"]),
        ("abc", ["x LIKE 'a%'", "x >= 'a'", "x IS NOT NULL"]),
        ("", ["x IS NOT NULL"]),
        (None, ["x IS NULL"]),
        (b"a", ["x IS NOT NULL"]),
        ([1], ["x IS NOT NULL"]),
        ({"y": 1}, ["x IS NOT NULL"]),
        ({1}, ["x IS NOT NULL"]),
        (1j, ["x IS NOT NULL"]),
    ],
)
def test_values_of_all_types(make: Any, value: object, expected: list[str]) -> None:
    texts = (
        "x", "NOT x", "x = 1", "x = 1.0", "x >= 1", "x < 1", "x <> 2", "x <> FALSE", "x IN (1, 'a')",
        "x LIKE 'a%'", "x >= 'a'", "x IS NULL", "x IS NOT NULL",
    )  # fmt: skip
    index = make(*texts)
    assert index.match({"x": value}) == sorted(expected, key=texts.index)
    assert [text for text in texts if Selector(text).matches({"x": value})] == index.match({"x": value})
    assert index.match({}) == ["x IS NULL"]


@pytest.mark.parametrize("make", [index_of, padded])
def test_nested_attributes(make: Any) -> None:
    index = make("n.x = 1", "n.y.z IS NULL", '"n.x" = 1', "n IS NOT NULL", "n.x = 1 AND n.y.z > 2")
    assert index.match({"n": {"x": 1}}) == ["n.x = 1", "n.y.z IS NULL", "n IS NOT NULL"]
    assert index.match({"n.x": 1}) == ["n.y.z IS NULL", '"n.x" = 1']
    assert index.match({"n": {"x": 1, "y": {"z": 3}}}) == [
        "n.x = 1",
        "n IS NOT NULL",
        "n.x = 1 AND n.y.z > 2",
    ]
    assert index.match({"n": 1}) == ["n.y.z IS NULL", "n IS NOT NULL"]
    assert index.match({"n": {"x": [], "y": "z"}}) == ["n.y.z IS NULL", "n IS NOT NULL"]


def test_any_mapping_is_an_event() -> None:
    class Strange(Mapping[str, object]):
        def __getitem__(self, name: str) -> object:
            if name == "x":
                return 1
            raise KeyError(name)

        def __iter__(self) -> Any:
            raise RuntimeError("not to be iterated")

        def __len__(self) -> int:
            raise RuntimeError("not to be counted")

    assert index_of("x = 1", "y IS NULL", "n.x = 1").match(Strange()) == ["x = 1", "y IS NULL"]
    assert index_of("n.x = 1").match({"n": Strange()}) == ["n.x = 1"]


def test_too_many_alternatives_are_evaluated_but_the_rest_is_looked_up() -> None:
    wide = " AND ".join(f"(a{number} = 1 OR b{number} > 2)" for number in range(8))
    index = padded(f"pad = 1000 AND {wide}", wide)
    event = {f"a{number}": 1 for number in range(8)}
    assert index.match(event) == [wide]
    assert index.match(event | {"pad": 1000}) == [f"pad = 1000 AND {wide}", wide]
    assert index.match(event | {"pad": 1000, "a3": 2}) == []


def test_equal_selectors_share_a_clause() -> None:
    index: MatchIndex[int] = MatchIndex()
    spellings = [
        Selector("x = 1 AND y > 2 AND z IN (1, 2)"),
        Selector("z IN (2, 1) AND x = 1.0 AND y > 2"),
        Selector("2 < y AND z IN (1, 2) AND 1 = x"),
    ]
    for key in range(10_000):
        index.add(key, spellings[key % 3])
    assert len(index._clauses) == 1
    event = {"x": 1, "y": 3, "z": 2}
    assert index.match(event) == list(range(10_000))
    for key in range(0, 10_000, 2):
        index.remove(key)
    assert index.match(event) == list(range(1, 10_000, 2))
    for key in range(1, 10_000, 2):
        index.remove(key)
    assert index.match(event) == []
    assert_clean(index)


def test_overlapping_ranges_removed_and_added_again() -> None:
    index: MatchIndex[int] = MatchIndex()
    selectors = {key: Selector(f"x BETWEEN {key} AND {4_000 - key} AND y <> {key}") for key in range(1_500)}
    for _ in range(2):
        for key, selector in selectors.items():
            index.add(key, selector)
        assert index.match({"x": 2_000, "y": 7}) == [key for key in selectors if key != 7]
        assert index.match({"x": 100.5, "y": 0}) == list(range(1, 101))
        for key in Random(1).sample(sorted(selectors), len(selectors)):
            index.remove(key)
        assert index.match({"x": 2_000, "y": 7}) == []
        assert_clean(index)


def test_deep_buckets() -> None:
    """Thousands with the same first predicates, which differ in the last."""
    index: MatchIndex[int] = MatchIndex()
    for key in range(2_000):
        index.add(key, Selector(f"a = 1 AND b = TRUE AND c LIKE 'x%' AND d = {key % 10} AND e = {key}"))
    event = {"a": 1, "b": True, "c": "xyz", "d": 7, "e": 1_237}
    assert index.match(event) == [1_237]
    assert index.match(event | {"b": 1}) == []
    for key in range(2_000):
        index.remove(key)
    assert_clean(index)


def test_churn_against_brute_force() -> None:
    random = Random(5)
    index: MatchIndex[int] = MatchIndex()
    model: dict[int, Selector] = {}
    for key in range(2_000):
        low = random.randint(0, 100)
        text = random.choice(
            (
                f"s = 's{random.randint(0, 30)}' AND p BETWEEN {low} AND {low + random.randint(0, 30)}",
                f"p BETWEEN {low} AND {low + random.random():.3f}",
                f"p > {low} AND q <= {random.randint(0, 100)}",
                f"s LIKE 's{random.randint(0, 3)}%' AND v IN ('a', 'b', 'c')",
                f"v IN ('a', '{random.choice('bcdef')}') OR p = {low}",
                f"t IS NULL AND s <> 's{random.randint(0, 30)}' AND p = {low}",
                f"t AND p + q > {low + 50} AND s = 's{random.randint(0, 30)}'",
            )
        )
        model[key] = Selector(text)
        index.add(key, model[key])
        if key % 2:
            gone = random.choice(list(model))
            index.remove(gone)
            del model[gone]
        if key % 100 == 0:
            for _ in range(3):
                event = {
                    "s": f"s{random.randint(0, 30)}",
                    "p": random.choice((random.randint(0, 130), random.uniform(0, 130))),
                    "q": random.randint(0, 100),
                    "v": random.choice("abcdef"),
                    "t": random.choice((None, True, False)),
                }
                assert index.match(event) == [k for k, selector in model.items() if selector.matches(event)]


def test_only_candidates_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    random = Random(3)
    index: MatchIndex[int] = MatchIndex()
    for key in range(2_500):
        low = random.uniform(0, 1_000)
        if key % 5:
            text = f"s = 's{key % 250}' AND p BETWEEN {low} AND {low + 50} AND v IN ('a', 'b', 'c')"
        else:
            text = f"p BETWEEN {low} AND {low + 1} AND v IN ('a', 'b', 'c')"
        index.add(key, Selector(text))
    asked = 0
    for kind in (Absent, Among, Beginning, Numbers, Outside, Present, Strings):
        original = kind.holds

        def holds(self: Any, reading: Any, original: Any = original) -> bool:
            nonlocal asked
            asked += 1
            return bool(original(self, reading))

        monkeypatch.setattr(kind, "holds", holds)
    for _ in range(100):
        index.match({"s": f"s{random.randint(0, 249)}", "p": random.uniform(0, 1_000), "v": "a"})
    assert asked / 100 < 25


def test_attributes_that_nobody_asks_for_any_more_are_forgotten() -> None:
    index = index_of("kept = 1")
    for number in range(50):
        text = f"a{number} = 1 AND b{number} > 2 AND c.d{number} < 'x'"
        index.add(text, Selector(text))
        index.remove(text)
    assert len(index._attributes) == 1
    assert list(index._selectivity._values) == ["kept"]
    assert not index._selectivity._samples


def assert_clean(index: MatchIndex[Any]) -> None:
    """Nothing is left of what was removed."""
    assert len(index) == 0
    assert not index._root
    assert not index._clauses
    assert not index._shared
    assert len(index._attributes) == 0
