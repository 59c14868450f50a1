"""The selector as a value: canonical text, equality, pickling, size."""

from __future__ import annotations

import copy
import pickle
import sys

import pytest

from gapless.selectors import TERMS_MAX, TEXT_MAX, Selector, SelectorError
from gapless.selectors.parser import parse

TEXT = "symbol = 'IBM' AND price BETWEEN 100 AND 150 AND desk.region LIKE 'EU-%'"
EVENT = {"symbol": "IBM", "price": 131.2, "desk": {"region": "EU-W"}}


def test_the_example_of_the_documentation() -> None:
    selector = Selector(TEXT)
    assert selector.matches(EVENT)
    assert not selector.matches({**EVENT, "price": 151})
    assert not selector.matches({**EVENT, "desk": "EU-W"})
    assert selector.covers(Selector("symbol = 'IBM' AND price = 120 AND desk.region = 'EU-W'"))
    assert not selector.covers(Selector("symbol = 'IBM' AND price = 120"))
    assert selector.condition == parse(TEXT)


@pytest.mark.parametrize("text", ["", "  \n ", "true"])
def test_blank_text_matches_everything(text: str) -> None:
    selector = Selector(text)
    assert selector.matches({})
    assert selector.matches(EVENT)
    assert str(selector) == "TRUE"
    assert selector.covers(Selector("x * 2 > 1"))


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        (TEXT, TEXT),
        ("x=1 and(y<>2)", "x = 1 AND y <> 2"),
        ("a and (b or c)", "a AND (b OR c)"),
        ("(a and b) or c", "a AND b OR c"),
        ("not (a and b)", "NOT (a AND b)"),
        ("not(a) and not(x = 1)", "NOT a AND NOT x = 1"),
        ("not (x between 1 and 2)", "x NOT BETWEEN 1 AND 2"),
        ("not x is null", "x IS NOT NULL"),
        ("not (not (x in (1)))", "NOT x NOT IN (1)"),
        ("NOT x LIKE 'a' ESCAPE ''''", "x NOT LIKE 'a' ESCAPE ''''"),
        ('x = \'it\'\'s\' or "od""d"."fine" = 1', "x = 'it''s' OR \"od\"\"d\".fine = 1"),
        ('"AND" = "and"."x y"', '"AND" = "and"."x y"'),
        ("x = 7. or x = .5 or x = 1E30", "x = 7.0 OR x = 0.5 OR x = 1e+30"),
        ("x in (TRUE, -1, 'a')", "x IN (TRUE, -1, 'a')"),
        ("(x + y) * 2 - (1 - z) / -w > - - 5", "(x + y) * 2 - (1 - z) / -w > 5"),
        ("x - (y - z) - w = x * (y / z)", "x - (y - z) - w = x * (y / z)"),
        ("x + (y + z) = -(x * y)", "x + (y + z) = -(x * y)"),
        ("x - -1 = - - y", "x - -1 = - -y"),
    ],
)
def test_canonical_text(text: str, canonical: str) -> None:
    selector = Selector(text)
    assert str(selector) == canonical
    assert Selector(canonical) == selector
    assert repr(selector) == f"Selector({canonical!r})"


def test_equality_is_of_conditions() -> None:
    assert Selector("x=1 AND y") == Selector("((x = 1)) and (y)")
    assert hash(Selector("x=1 AND y")) == hash(Selector("((x = 1)) and (y)"))
    assert Selector("x = 1") != Selector("x = TRUE")
    assert Selector("x = 1") != Selector("x = 1.0")
    assert Selector("x = 1") != "x = 1"


@pytest.mark.parametrize("used", [False, True])
def test_pickle_and_copy(used: bool) -> None:
    selector = Selector(TEXT)
    if used:
        selector.matches(EVENT)
    for other in (pickle.loads(pickle.dumps(selector)), copy.copy(selector), copy.deepcopy(selector)):
        assert other == selector
        assert other.matches(EVENT)


def test_deep_and_long_selectors_can_do_everything() -> None:
    """The deepest and the longest that are allowed compile, print, pickle and compare."""
    sum_ = "(" * 30 + "x" + " + 1)" * 30 + " - (y" * 30 + ")" * 30
    deep = "(a OR b AND NOT (" * 11 + f"{sum_} > 1 OR c" + "))" * 11
    wide = " OR ".join(f"x = {index} AND y" for index in range(TERMS_MAX // 3))
    for text in (deep, wide, f"x IN ({', '.join(map(str, range(TERMS_MAX - 1)))})"):
        selector = Selector(text)
        assert isinstance(selector.matches({"x": 5, "y": True, "a": False}), bool)
        assert pickle.loads(pickle.dumps(selector)) == selector
        assert selector.covers(selector)
        assert hash(selector) == hash(Selector(str(selector)))
        assert repr(selector.condition)


def test_canonical_text_is_never_too_long_to_be_parsed() -> None:
    """A number of four characters may have eighteen in canonical text."""
    text = " OR ".join([f"{'n' * 20}=1E15"] * 500)
    assert len(text) < TEXT_MAX
    with pytest.raises(SelectorError, match="canonically"):
        Selector(text)


def test_a_selector_is_small() -> None:
    selector = Selector(TEXT)
    assert sys.getsizeof(selector) <= 64
    assert not hasattr(selector, "__dict__")


@pytest.mark.parametrize("text", [None, 5, b"x = 1", ["x"]])
def test_only_text_is_parsed(text: object) -> None:
    with pytest.raises(TypeError):
        Selector(text)  # type: ignore[arg-type]
