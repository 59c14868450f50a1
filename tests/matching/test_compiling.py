"""Compiled predicates say what the normal form says."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gapless.matching.compiling import _compiled, _conjunction, conjunctions
from gapless.matching.predicates import (
    Absent,
    Among,
    Beginning,
    Evaluated,
    Numbers,
    Outside,
    Present,
    Strings,
    next_above,
)
from gapless.matching.reading import FALSE, OPAQUE, TRUE, Attributes
from gapless.matching.selectivity import COPIES_MAX, Selectivity
from gapless.selectors import Selector
from gapless.selectors.normal import disjuncts

numbers = st.one_of(
    st.integers(),
    st.floats(allow_nan=False),
    st.integers(-3, 3).map(lambda step: 2**53 + step),
    st.integers(-3, 3).map(lambda step: -(2**53) + step),
    st.integers(-3, 3).map(lambda step: 2.0**53 + step),
    st.sampled_from((10**400, -(10**400), 1.7976931348623157e308, 5e-324, 0.0, -0.0)),
)


def compiled(text: str) -> Any:
    return conjunctions(Selector(text).condition)


@given(numbers.filter(lambda number: number != -math.inf), numbers)
@example(2**53, 2.0**53 + 2)
@example(9007199254740991, 9007199254740992)
@example(-(2**53) - 1, -(2.0**53))
def test_next_above_is_exact(bound: float, value: float) -> None:
    following = next_above(bound)
    assert (value > bound) == (following is not None and value >= following)
    assert (value <= bound) == (following is None or value < following)


@given(st.text(alphabet="a\0\U0010ffff", max_size=4), st.text(alphabet="a\0\U0010ffff", max_size=4))
def test_next_above_of_strings_is_exact(bound: str, value: str) -> None:
    following = next_above(bound)
    assert following is not None
    assert (value > bound) == (value >= following)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", [(Among("x", (1,)),)]),
        ("x", [(Among("x", (TRUE,)),)]),
        ("x <> TRUE", [(Among("x", (FALSE,)),)]),
        ("n.x IN ('b', 'a', 'b')", [(Among(("n", "x"), ("a", "b")),)]),
        ("x <> 1", [(Outside("x", False, (1,)),)]),
        ("x NOT IN ('a')", [(Outside("x", True, ("a",)),)]),
        ("x >= 1 AND x < 3", [(Numbers("x", 1, 3),)]),
        ("x > 1 AND x > 2 AND x < 4 AND x <= 8", [(Numbers("x", math.nextafter(2, 3), 4),)]),
        ("x < 3", [(Numbers("x", -math.inf, 3),)]),
        ("x > 'a'", [(Strings("x", "a\0", None),)]),
        ("x <= 'a'", [(Strings("x", "", "a\0"),)]),
        ("x LIKE 'a%'", [(Beginning("x", "a"),)]),
        ("x IS NULL AND x IS NULL", [(Absent("x"),)]),
        ("x IS NOT NULL", [(Present("x"),)]),
        ("x = 1 OR x = 2 OR x = 2", [(Among("x", (1, 2)),)]),
        ("x IN (1, 2, 3) AND x > 1 AND x <> 3 AND x IS NOT NULL", [(Among("x", (2,)),)]),
        ("x IN (1, 2) AND x > 2", []),
        ("x IS NULL AND x > 2", []),
        ("x > 2 AND x < 2", []),
        ("x BETWEEN 3 AND 2", []),
        ("x = 1 AND FALSE", []),
        ("x = 1 AND TRUE", [(Among("x", (1,)),)]),
        ("TRUE", [()]),
        ("x = 1 OR TRUE", [()]),
    ],
)
def test_a_selector_becomes_these_predicates(text: str, expected: object) -> None:
    assert compiled(text) == expected


@pytest.mark.parametrize(
    "text",
    ["x = 1", "x = TRUE", "x < 1", "x <= 'a'", "x > 1.5", "x >= 2", "x BETWEEN 1 AND 2",
     "x BETWEEN 'a' AND 'b'", "x IN (1, 'a', TRUE, 1.0)", "x IS NULL", "x",
     "x = 1 AND y BETWEEN 1 AND 2 AND z IN ('a', 'b')"],
)  # fmt: skip
def test_the_short_way_leads_where_the_normal_form_leads(text: str) -> None:
    condition = Selector(text).condition
    assert conjunctions(condition) == [_conjunction(_compiled(tests)) for tests in disjuncts(condition) or ()]


def test_other_conditions_come_last() -> None:
    ((one, two, *others),) = compiled("a * 2 > b AND x = 1 AND y > 2")
    assert {type(one), type(two)} == {Among, Numbers}
    assert [type(other) for other in others] == [Evaluated]


def test_marks_are_no_numbers() -> None:
    reading = Attributes()
    for name in ("a", "b", "c", "d", "e", "f"):
        reading.use(name)
    event: dict[str, object] = {"a": True, "b": False, "c": math.nan, "d": None, "e": [], "f": 1, "g": 2}
    assert reading.read(event) == {"a": TRUE, "b": FALSE, "c": OPAQUE, "e": OPAQUE, "f": 1}
    for name in ("a", "b", "c", "d", "e"):
        reading.release(name)
    assert reading.read(event) == {"f": 1}


def ordered(selectivity: Selectivity, text: str) -> tuple[list[Any], int]:
    (conjunction,) = compiled(text)
    tests, access = selectivity.ordered(conjunction)
    assert sorted(map(repr, tests)) == sorted(map(repr, conjunction))
    return [getattr(test, "key", None) for test in tests], access


def test_the_most_selective_predicate_comes_first() -> None:
    selectivity = Selectivity()
    for number in range(200):
        ordered(
            selectivity,
            f"symbol = 's{number}' AND venue = 'v{number % 5}' AND price BETWEEN {number} AND {number + 1}",
        )
    assert ordered(selectivity, "price > 10 AND venue = 'v1' AND symbol = 's1'") == (
        ["symbol", "venue", "price"],
        3,
    )
    wide_set = "venue IN ('v1', 'v2', 'v3') AND price BETWEEN 50 AND 52"
    assert ordered(selectivity, wide_set) == (["price", "venue"], 1)
    wide_range = "symbol IN ('s1', 's2', 's3') AND price BETWEEN 50 AND 150"
    assert ordered(selectivity, wide_range) == (["symbol", "price"], 2)
    assert ordered(selectivity, "a + b > 1 AND c <> 1 AND c IS NOT NULL") == (["c", "c", None], 0)


def test_the_narrower_of_two_ranges_is_looked_up() -> None:
    selectivity = Selectivity()
    for number in range(1_000):
        ordered(selectivity, f"a BETWEEN {number} AND {number + 9} AND b BETWEEN {number} AND {number + 9}")
    assert ordered(selectivity, "a BETWEEN 0 AND 500 AND b BETWEEN 7 AND 9") == (["b", "a"], 1)
    assert ordered(selectivity, "a > 990 AND b BETWEEN 7 AND 900") == (["a", "b"], 1)


def test_sets_of_several_attributes_do_not_multiply_without_end() -> None:
    selectivity = Selectivity()
    values = ", ".join(map(str, range(10)))
    for attribute in "abcd":
        for number in range(0, 1_000, 100):
            ordered(selectivity, f"{attribute} IN ({', '.join(str(number + more) for more in range(100))})")
    names, access = ordered(selectivity, " AND ".join(f"{attribute} IN ({values})" for attribute in "abcd"))
    assert names == ["a", "b", "c", "d"]
    assert 10**access <= max(10, COPIES_MAX)
