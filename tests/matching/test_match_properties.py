"""The index says what evaluating every selector says, whatever is added, removed and matched in any order.

The limits of the data structures are set so low that a few subscriptions already make them deep.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.matching import MatchIndex, ladder, node, ranges, selectivity
from gapless.selectors import Selector

ATTRIBUTES = ("a", "b", "n.x", "n.y.z", '"n.x"')
NUMBERS = (
    "0", "1", "1.0", "-1", "2", "2.5", "7", "-0.0", "9007199254740991", "9007199254740992.0",
    "9007199254740993", "-9007199254740993", "18014398509481985", "1E22", "10000000000000000000001",
    "1.7976931348623157E308",
    "5E-324", "1" + "0" * 90,
)  # fmt: skip
STRINGS = ("''", "'a'", "'ab'", "'abc'", "'b'", "'ä'", "'\U0010ffff'", "'1'")
PATTERNS = ("'a%'", "'ab%'", "'%'", "'%b'", "'a_c'", "'a%c'", "'ab'", "'\U0010ffff%'", "'a!%%' ESCAPE '!'")


@pytest.fixture(autouse=True, scope="module")
def small_limits() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(node, "CHECKED_MAX", 1)
        patch.setattr(ranges, "CUTS_MAX", 3)
        patch.setattr(ranges, "LISTED_MAX", 2)
        patch.setattr(ladder, "PIECE_MAX", 4)
        patch.setattr(selectivity, "SAMPLE_MAX", 8)
        patch.setattr(selectivity, "SHARE_MAX", 1.0)
        yield


def atoms() -> st.SearchStrategy[str]:
    attribute = st.sampled_from(ATTRIBUTES)
    number, string = st.sampled_from(NUMBERS), st.sampled_from(STRINGS)
    boolean = st.sampled_from(("TRUE", "FALSE"))
    negation = st.sampled_from(("", "NOT "))
    compare = st.sampled_from(("=", "<>", "<", "<=", ">", ">="))
    values = st.lists(number | string | boolean, min_size=1, max_size=4).map(", ".join)
    return st.one_of(
        st.builds("{} {} {}".format, attribute, compare, number | string),
        st.builds("{} {} {}".format, attribute, st.sampled_from(("=", "<>")), boolean),
        st.builds("{} {}BETWEEN {} AND {}".format, attribute, negation, number, number),
        st.builds("{} {}BETWEEN {} AND {}".format, attribute, negation, string, string),
        st.builds("{} {}IN ({})".format, attribute, negation, values),
        st.builds("{} {}LIKE {}".format, attribute, negation, st.sampled_from(PATTERNS)),
        st.builds("{} IS {}NULL".format, attribute, negation),
        st.builds("{} {} {}".format, attribute, compare, attribute),
        st.builds("{} * 2 {} {}".format, attribute, compare, attribute | number),
        attribute,
        boolean,
    )


def texts() -> st.SearchStrategy[str]:
    return st.recursive(
        atoms(),
        lambda inner: st.one_of(
            st.lists(inner, min_size=2, max_size=4).map(" AND ".join).map("({})".format),
            st.lists(inner, min_size=2, max_size=3).map(" OR ".join).map("({})".format),
            inner.map("(NOT {})".format),
        ),
        max_leaves=6,
    )


def values() -> st.SearchStrategy[object]:
    numbers = st.sampled_from([float(text) if set(text) & set(".E") else int(text) for text in NUMBERS])
    odd: tuple[object, ...] = (
        None,
        True,
        False,
        math.nan,
        math.inf,
        -math.inf,
        b"a",
        [1],
        (),
        {},
        {"x": 1},
        10**400,
        -(10**400),
    )
    return st.one_of(
        numbers,
        numbers.map(lambda number: number + 1),
        st.sampled_from([text[1:-1] for text in STRINGS]),
        st.sampled_from(odd),
        st.text(alphabet="ab%\0", max_size=4),
        st.integers(-3, 10),
        st.floats(),
    )


def events() -> st.SearchStrategy[dict[str, object]]:
    y = st.fixed_dictionaries({}, optional={"z": values()}) | values()
    n = st.fixed_dictionaries({}, optional={"x": values(), "y": y}) | values()
    names = {"a": values(), "b": values(), "n": n, "n.x": values(), "unused": values()}
    return st.fixed_dictionaries({}, optional=names)


def check(index: MatchIndex[str], model: dict[str, Selector], event: Mapping[str, object]) -> None:
    assert index.match(event) == [key for key, selector in model.items() if selector.matches(event)]


@settings(max_examples=150, deadline=None)
@given(st.lists(texts(), min_size=1, max_size=30), st.lists(events(), min_size=1, max_size=6), st.data())
def test_index_is_brute_force(
    selectors: list[str], some: list[dict[str, object]], data: st.DataObject
) -> None:
    """Reference: the definition of ``selector.matches``."""
    index: MatchIndex[str] = MatchIndex()
    model: dict[str, Selector] = {}
    for number, text in enumerate(selectors):
        key = f"{number}: {text}"
        model[key] = Selector(text)
        index.add(key, model[key])
        if data.draw(st.integers(0, 3)) == 0:
            removed = data.draw(st.sampled_from(sorted(model)))
            index.remove(removed)
            del model[removed]
    assert len(index) == len(model)
    for event in some:
        check(index, model, event)
    for key in data.draw(st.permutations(sorted(model))):
        index.remove(key)
        del model[key]
        check(index, model, some[0])
    assert len(index) == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("a", "b")),
            st.sampled_from(("=", "<", "<=", ">", ">=")),
            st.integers(0, 12) | st.sampled_from((2.5, 3.0, 2**53, 2**53 + 1, 2.0**53)),
        ),
        min_size=10,
        max_size=60,
    ),
    st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12) | st.floats(0, 12)), min_size=1, max_size=10),
)
def test_many_ranges_over_the_same_attributes(
    parts: list[tuple[str, str, float]], points: list[tuple[float, float]]
) -> None:
    index: MatchIndex[str] = MatchIndex()
    model: dict[str, Selector] = {}
    tests = [f"{attribute} {op} {value!r}" for attribute, op, value in parts]
    for number, (one, two) in enumerate(pairwise(tests)):
        model[str(number)] = Selector(one if number % 4 == 0 else f"{one} AND {two}")
        index.add(str(number), model[str(number)])
        if number % 3 == 2:
            index.remove(str(number - 1))
            del model[str(number - 1)]
    for a, b in points:
        for event in ({"a": a, "b": b}, {"a": a}, {"b": b, "a": True}, {"a": 2**53 + 1, "b": 2.0**53}):
            check(index, model, event)
