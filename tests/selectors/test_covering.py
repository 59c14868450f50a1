"""Covering by example, against the z3 solver, and in bounded time."""

from __future__ import annotations

import time
from random import Random

import pytest
import z3

from gapless.selectors import Selector
from gapless.selectors.covering import covers
from gapless.selectors.parser import parse
from gapless.selectors.tree import (
    And,
    Attribute,
    Between,
    CompareOp,
    Comparison,
    Condition,
    In,
    IsNull,
    Literal,
    Not,
    Or,
)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("TRUE", "x * 2 > 5"),
        ("x = 1", "FALSE"),
        ("y", "x = 1 AND x = 2"),
        ("y", "x = 1 AND x = 'a'"),
        ("y", "x > 5 AND x < 5"),
        ("y", "x = 'a' AND x LIKE 'b%'"),
        ("y", "x IS NULL AND x = 1"),
        ("x = 1.0", "x = 1"),
        ("x > 1", "x > 2"),
        ("x > 1", "x > 1.5 AND y = 3"),
        ("x >= 1", "x BETWEEN 1 AND 2"),
        ("x IN (1, 2, 3)", "x IN (3, 1)"),
        ("x <> 1", "x = 2"),
        ("x <> 1", "x > 1"),
        ("x LIKE 'a%'", "x LIKE 'ab%'"),
        ("x LIKE 'a%'", "x LIKE 'ab_c'"),
        ("x LIKE 'a%'", "x BETWEEN 'aa' AND 'azz'"),
        ("x >= 'a'", "x LIKE 'a%'"),
        ("x LIKE '%'", "x <> 'b'"),
        ("x NOT LIKE 'a%'", "x = 'b'"),
        ("x IS NOT NULL", "x LIKE '%b'  AND x > ''"),
        ("x IS NOT NULL", "NOT x"),
        ("x = TRUE", "x"),
        ("x < 5 OR x >= 5", "x > 0"),
        ("x < 5 OR x > 5 OR x = 5", "x <> 7"),
        ("x OR NOT x", "x = TRUE"),
        ("x < 5 OR y < 5", "x < 5 AND y > 7 OR y = 0 AND x IS NULL"),
        ("x > 0 AND y > 0 OR x <= 0", "y > 0 AND x > -1"),
        ("(x = 1 OR x = 2) AND (y = 1 OR y = 2)", "x = 1 AND y = 2"),
        ("NOT (x = 1 OR y = 1)", "x = 2 AND y = 2"),
        ("x * 2 > 5", "y = 1 AND x * 2 > 5"),
        ("x * 2 > 5 OR y < 3", "x * 2 > 5 AND y >= 1"),
        ("x * 2 > 5 AND y < 3", "x * 2 > 5 AND y = 1"),
        ("d IS NOT NULL", "d.k = 1"),
        ("d.k IS NULL", "d = 5"),
        ("d.k IS NULL", "d IS NULL"),
        ("x", "d = 5 AND d.k = 1"),
    ],
)
def test_covers(wide: str, narrow: str) -> None:
    assert Selector(wide).covers(Selector(narrow))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("x = 1", "x = TRUE"),
        ("x > 2", "x > 1"),
        ("x > 1", "x >= 1"),
        ("x > 1 AND y > 1", "x > 1"),
        ("x <> 1", "x = 'a'"),
        ("x <> 1", "x IS NOT NULL"),
        ("x < 5 OR x >= 5", "x IS NOT NULL"),
        ("x < 5 OR x > 5", "x > 0"),
        ("x OR NOT x", "TRUE"),
        ("x * 2 > 5 OR NOT x * 2 > 5", "TRUE"),
        ("x LIKE 'ab%'", "x LIKE 'a%'"),
        ("x < 'b'", "x < 5"),
        ("x = 1 OR y = 1", "x = 1 AND y = 1 OR z = 1"),
        ("d.k IS NULL", "d IS NOT NULL"),
        ("NOT d.k", "d IS NULL"),
        ("FALSE", "x"),
    ],
)
def test_does_not_cover(wide: str, narrow: str) -> None:
    assert not Selector(wide).covers(Selector(narrow))


def test_known_incompleteness() -> None:
    """True, but only by what the tests mean."""
    assert not Selector("x * 2 > 4").covers(Selector("x > 3"))
    assert not Selector("x = 5").covers(Selector("x > 1 AND x < 1.0000000000000002"))


def random_condition(random: Random, depth: int) -> Condition:
    """Comparisons of two attributes with small numbers, joined."""
    attribute = Attribute((random.choice("xy"),))
    parts: list[Condition]
    value = Literal(random.choice([0, 1, 2, 3, 0.5, 1.5]))
    operators: list[CompareOp] = ["=", "<>", "<", "<=", ">", ">="]
    match random.randrange(4 if depth == 0 else 8):
        case 0 | 1:
            return Comparison(random.choice(operators), attribute, value)
        case 2:
            return Between(attribute, value, Literal(random.choice([1, 2, 3.5])))
        case 3:
            parts = [IsNull(attribute), In(attribute, (0, 2))]
            return random.choice(parts)
        case 4:
            return Not(random_condition(random, depth - 1))
        case _:
            parts = [random_condition(random, depth - 1) for _ in range(random.choice([2, 3]))]
            return And(tuple(parts)) if random.random() < 0.5 else Or(tuple(parts))


def encoded(condition: Condition, negated: bool) -> z3.BoolRef:
    """When the condition is true (negated: false), for attributes that are null or any real number."""
    match condition:
        case Comparison(op, Attribute((name,)), Literal(value)):
            number, literal = z3.Real(name), z3.RealVal(str(value))
            relations = {
                "=": number == literal,
                "<>": number != literal,
                "<": number < literal,
                "<=": number <= literal,
                ">": number > literal,
                ">=": number >= literal,
            }
            return z3.And(
                z3.Not(z3.Bool(f"{name}_null")), z3.Not(relations[op]) if negated else relations[op]
            )
        case Between(operand, low, high):
            return encoded(And((Comparison(">=", operand, low), Comparison("<=", operand, high))), negated)
        case In(operand, values):
            return encoded(Or(tuple(Comparison("=", operand, Literal(value)) for value in values)), negated)
        case IsNull(Attribute((name,))):
            return z3.Not(z3.Bool(f"{name}_null")) if negated else z3.Bool(f"{name}_null")
        case Not(operand):
            return encoded(operand, not negated)
        case And(operands) | Or(operands):
            join = z3.Or if isinstance(condition, And) is negated else z3.And
            return join([encoded(operand, negated) for operand in operands])
        case _:
            raise AssertionError(condition)


def test_covering_agrees_with_a_solver() -> None:
    """On events whose attributes are null or numbers, as the solver knows no others."""
    random = Random(7)
    agreed = {True: 0, False: 0}
    for _ in range(400):
        wide, narrow = random_condition(random, 2), random_condition(random, 2)
        solver = z3.Solver()
        typed = [
            Or((IsNull(Attribute((name,))), Comparison("<=", Attribute((name,)), Literal(9))))
            for name in "xy"
        ]
        limited = And((narrow, *typed))
        solver.add(encoded(limited, False), z3.Not(encoded(wide, False)))
        expected = solver.check() == z3.unsat
        assert covers(wide, limited) is expected, (wide, narrow)
        agreed[expected] += 1
    assert min(agreed.values()) > 40


def test_large_conditions_are_compared_literally() -> None:
    large = " AND ".join(f"(a{index} > 1 OR b{index} > 1)" for index in range(20))
    assert Selector(large).covers(Selector(large))
    assert Selector("a3 > 1 OR b3 > 1").covers(Selector(large))
    assert Selector(f"NOT (NOT ({large}) AND x)").covers(Selector(large)) is False
    assert Selector(f"NOT (NOT ({large}) AND x)").covers(Selector("x = 1 AND x = 2"))
    assert Selector(large).covers(Selector(" AND ".join(f"a{index} > 2" for index in range(20))))


def test_many_disjuncts() -> None:
    ranges = [f"x BETWEEN {low} AND {low + 1}" for low in range(60)]
    assert Selector(" OR ".join(ranges)).covers(Selector("x > 1 AND x < 55.5"))
    assert not Selector(" OR ".join(ranges[:30] + ranges[32:])).covers(Selector("x > 1 AND x < 55.5"))
    assert Selector("x >= 0").covers(Selector(" OR ".join(ranges)))


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        (
            " OR ".join(f"x{index} > 0 AND y{index} < 5" for index in range(64)),
            " AND ".join(f"x{index} <> 1 AND y{index} <> 1" for index in range(64)),
        ),
        (
            " OR ".join(f"x NOT IN ({', '.join(map(str, range(index, 1000, 64)))})" for index in range(60)),
            "x > 5",
        ),
        (
            large := " AND ".join(
                f"(a{index} > 1 OR b{index} > 1 OR NOT c{index} < 3)" for index in range(100)
            ),
            large.replace(" > 1", " > 2"),
        ),
        ("x = 1", " OR ".join(f"x = {index} AND y > {index}" for index in range(250))),
    ],
)
def test_time_is_bounded(wide: str, narrow: str) -> None:
    one, two = parse(wide), parse(narrow)
    started = time.process_time()
    covers(one, two)
    covers(two, one)
    assert time.process_time() - started < 1.0
