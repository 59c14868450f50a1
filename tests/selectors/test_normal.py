"""The disjunctions that conditions become; that they are true together is a property in test_properties."""

from __future__ import annotations

import pytest

from gapless.selectors.normal import (
    Conjunction,
    NoneOf,
    NotNull,
    Null,
    OneOf,
    Other,
    Prefix,
    Range,
    disjuncts,
    successor,
)
from gapless.selectors.parser import parse
from gapless.selectors.tree import And, Attribute, Between, Comparison, Condition, Literal, Not, Or, Truth

X, Y, Z = ("x",), ("y",), ("z",)
ABOVE_1, BELOW_9 = Range(X, 1, None, low_included=False), Range(X, None, 9, high_included=False)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("TRUE", ((),)),
        ("FALSE", ()),
        ("x = 1", ((OneOf(X, (1,)),),)),
        ("1 = x", ((OneOf(X, (1,)),),)),
        ("x <> 1", ((NoneOf(X, (1,)),),)),
        ("NOT x = 1", ((NoneOf(X, (1,)),),)),
        ("x > 1", ((ABOVE_1,),)),
        ("1 < x", ((ABOVE_1,),)),
        ("NOT x <= 1", ((ABOVE_1,),)),
        ("x > 3 - 2", ((ABOVE_1,),)),
        ("x > 1 AND x < 9", ((Range(X, 1, 9, False, False),),)),
        ("x > 1 AND x >= 1", ((ABOVE_1,),)),
        ("x >= 1 AND x > 1", ((ABOVE_1,),)),
        ("x < 9 AND x <= 9", ((BELOW_9,),)),
        ("x <= 9 AND x < 9", ((BELOW_9,),)),
        ("x < 9 AND x < 10", ((BELOW_9,),)),
        ("x BETWEEN 1 AND 9", ((Range(X, 1, 9),),)),
        ("x BETWEEN 1 AND 9 AND x <= 5.5", ((Range(X, 1, 5.5),),)),
        ("x BETWEEN 9 AND 1", ()),
        ("x >= 1 AND x < 1", ()),
        ("x > 1 AND x <= 1", ()),
        ("x >= 1 AND x <= 1", ((Range(X, 1, 1),),)),
        ("x > 1 AND x < 'a'", ((ABOVE_1, Range(X, None, "a", high_included=False)),)),
        ("x NOT BETWEEN 1 AND 9", ((Range(X, None, 1, True, False),), (Range(X, 9, None, False),))),
        ("5 BETWEEN x AND y", ((Range(X, None, 5), Range(Y, 5, None)),)),
        ("x IN (1, 'a', 1.0, TRUE)", ((OneOf(X, (1, "a", True)),),)),
        ("x NOT IN (1, 2)", ((NoneOf(X, (1, 2)),),)),
        ("x NOT IN (1, 'a')", ()),
        ("x NOT IN (TRUE, FALSE)", ()),
        ("x = 1 OR x = 2 OR x IN (2, 'a')", ((OneOf(X, (1, 2, "a")),),)),
        ("x", ((OneOf(X, (True,)),),)),
        ("NOT x", ((OneOf(X, (False,)),),)),
        ("x <> TRUE", ((OneOf(X, (False,)),),)),
        ("x IS NULL", ((Null(X),),)),
        ("x IS NOT NULL", ((NotNull(X),),)),
        ("x LIKE 'ab'", ((OneOf(X, ("ab",)),),)),
        ("x NOT LIKE 'ab'", ((NoneOf(X, ("ab",)),),)),
        ("x LIKE 'a!%' ESCAPE '!'", ((OneOf(X, ("a%",)),),)),
        ("x LIKE 'ab%'", ((Prefix(X, "ab"),),)),
        ("x NOT LIKE 'ab%'", ((Range(X, None, "ab", True, False),), (Range(X, "ac", None),))),
        ("x LIKE '%%'", ((Range(X, "", None),),)),
        ("x NOT LIKE '%'", ()),
        ("x LIKE 'a_%b'", ((Prefix(X, "a"), Other(parse("x LIKE 'a_%b'"))),)),
        ("x LIKE '%b'", ((Other(parse("x LIKE '%b'")),),)),
        ("x NOT LIKE 'a%b'", ((Other(parse("x LIKE 'a%b'"), negated=True),),)),
        ("x = y", ((Other(parse("x = y")),),)),
        ("NOT x < y", ((Other(parse("x >= y")),),)),
        ("x + 1 > 2", ((Other(parse("x + 1 > 2")),),)),
        ("x = 7 / 2", ((Other(parse("x = 7 / 2")),),)),
        ("1 < 2 AND x = 1", ((OneOf(X, (1,)),),)),
        ("1 > 2 OR x = 1", ((OneOf(X, (1,)),),)),
        ("x = 1 OR TRUE", ((),)),
        ("x = 1 AND FALSE", ()),
        (
            "(x = 1 OR y = 1) AND z > 1",
            ((OneOf(X, (1,)), Range(Z, 1, None, False)), (OneOf(Y, (1,)), Range(Z, 1, None, False))),
        ),
        ("NOT (x = 1 OR y IS NULL)", ((NoneOf(X, (1,)), NotNull(Y)),)),
        ("NOT (x <> 1 AND y)", ((OneOf(X, (1,)),), (OneOf(Y, (False,)),))),
    ],
)
def test_disjuncts(text: str, expected: tuple[Conjunction, ...]) -> None:
    assert disjuncts(parse(text)) == expected


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (Comparison("<", Attribute(X), Literal(True)), ()),
        (Not(Comparison("<", Attribute(X), Literal(True))), ()),
        (Between(Attribute(X), Literal(1), Literal("z")), ((Range(X, 1, None), Range(X, None, "z")),)),
        (Comparison("=", Literal(1), Literal(True)), ()),
    ],
)
def test_nonsense_that_the_parser_would_refuse(
    condition: Condition, expected: tuple[Conjunction, ...]
) -> None:
    assert disjuncts(condition) == expected


def test_limit_is_exact() -> None:
    pairs = " AND ".join(f"(a{index} > 1 OR b{index} > 1)" for index in range(6))
    found = disjuncts(parse(pairs), 64)
    assert found is not None
    assert len(found) == 64
    assert disjuncts(parse(pairs), 63) is None


def test_what_is_too_large_is_not_built() -> None:
    pair = Or((Truth(Attribute(X)), Truth(Attribute(Y))))
    assert disjuncts(And((pair,) * 1000)) is None
    assert disjuncts(And((*(pair,) * 1000, Truth(Literal(False))))) == ()


def test_many_equalities_are_one_disjunct() -> None:
    text = " OR ".join(f"x = {value}" for value in range(500))
    assert disjuncts(parse(text)) == ((OneOf(X, tuple(range(500))),),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("a", "b"), ("az", "a{"), ("a\U0010ffff", "b"), ("\U0010ffff", None), ("\ud7ff", "\ud800")],
)
def test_successor(text: str, expected: str | None) -> None:
    assert successor(text) == expected


def test_tests_on_equal_values_of_unlike_types_differ() -> None:
    assert OneOf(X, (1,)) != OneOf(X, (True,))
    assert len({OneOf(X, (1,)), OneOf(X, (1.0,)), OneOf(X, (True,)), OneOf(X, (1,))}) == 3
