"""Evaluation, normal form, canonical text and covering against a plain three-valued interpreter.

The interpreter below says what a condition is (true, false or unknown: ``None``) straight from SQL's rules,
without De Morgan, without compiling and without caring about time.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.selectors import SelectorError
from gapless.selectors.arithmetic import OPERAND_BITS_MAX
from gapless.selectors.covering import covers
from gapless.selectors.evaluation import compiled
from gapless.selectors.like import segments
from gapless.selectors.normal import NoneOf, NotNull, Null, OneOf, Other, Prefix, Range, Test, disjuncts
from gapless.selectors.parser import parse
from gapless.selectors.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Comparison,
    Condition,
    Expression,
    In,
    IsNull,
    Like,
    Literal,
    Negative,
    Not,
    Or,
    Path,
    Truth,
)
from gapless.selectors.writer import text_of

Event = Mapping[str, object]

# -- the interpreter ----------------------------------------------------------------------------------------

PYTHON: dict[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
}


def is_number(value: object) -> bool:
    return type(value) in (int, float, Fraction)


def is_too_large(number: int | float | Fraction) -> bool:
    limit = 1 << OPERAND_BITS_MAX
    return isinstance(number, Fraction | int) and max(abs(number.numerator), number.denominator) >= limit


def look_up(event: object, path: Path) -> object:
    for name in path:
        event = event.get(name) if isinstance(event, dict) else None
    return event


def value_of(expression: Expression, event: Event) -> Any:
    match expression:
        case Literal(value):
            return value
        case Attribute(path):
            return look_up(event, path)
        case Negative(operand):
            return value_of(Arithmetic("-", Literal(0), operand), event)
        case Arithmetic(op, left, right):
            numbers = [value_of(left, event), value_of(right, event)]
            if not all(map(is_number, numbers)):
                return None
            if not any(type(number) is float for number in numbers):
                numbers = [Fraction(number) for number in numbers]
            if any(is_too_large(number) for number in numbers):
                return None
            try:
                return PYTHON[op](*numbers)
            except (OverflowError, ZeroDivisionError):
                return None


def compared(op: str, left: Any, right: Any) -> bool | None:
    if is_number(left) and is_number(right):
        unordered = any(type(number) is float and math.isnan(number) for number in (left, right))
        return None if unordered else bool(PYTHON[op](left, right))
    if type(left) is type(right) and (type(left) is str or (type(left) is bool and op in ("=", "<>"))):
        return bool(PYTHON[op](left, right))
    return None


def negation(truth: bool | None) -> bool | None:
    return None if truth is None else not truth


def conjunction(truths: list[bool | None]) -> bool | None:
    return False if False in truths else None if None in truths else True


def disjunction(truths: list[bool | None]) -> bool | None:
    return True if True in truths else None if None in truths else False


def truth_of(condition: Condition, event: Event) -> bool | None:
    match condition:
        case Comparison(op, left, right):
            return compared(op, value_of(left, event), value_of(right, event))
        case Between(operand, low, high):
            value = value_of(operand, event)
            ends = [compared(">=", value, value_of(low, event)), compared("<=", value, value_of(high, event))]
            return conjunction(ends)
        case In(operand, values):
            return disjunction([compared("=", value_of(operand, event), value) for value in values])
        case Like(operand, pattern, escape):
            text = value_of(operand, event)
            parts = [
                "".join("." if character is None else re.escape(character) for character in segment)
                for segment in segments(pattern, escape)
            ]
            return re.fullmatch(".*".join(parts), text, re.DOTALL) is not None if type(text) is str else None
        case IsNull(operand):
            return value_of(operand, event) is None
        case Truth(operand):
            value = value_of(operand, event)
            return value if type(value) is bool else None
        case Not(inner):
            return negation(truth_of(inner, event))
        case And(operands):
            return conjunction([truth_of(operand, event) for operand in operands])
        case Or(operands):
            return disjunction([truth_of(operand, event) for operand in operands])


def holds(test: Test, event: Event) -> bool:
    """What the tests of the normal form say of themselves."""
    if isinstance(test, Other):
        return (
            truth_of(test.condition, event) is not None
            and truth_of(test.condition, event) is not test.negated
        )
    value = look_up(event, test.path)
    match test:
        case OneOf(_, values):
            return any(compared("=", value, candidate) for candidate in values)
        case NoneOf(_, values):
            return all(compared("<>", value, candidate) for candidate in values)
        case Range(_, low, high, low_included, high_included):
            above = low is None or compared(">=" if low_included else ">", value, low) is True
            return above and (high is None or compared("<=" if high_included else "<", value, high) is True)
        case Prefix(_, text):
            return type(value) is str and value.startswith(text)
        case Null():
            return value is None
        case NotNull():
            return value is not None


# -- conditions and events ----------------------------------------------------------------------------------

numbers = st.sampled_from([0, 1, 2, -1, 0.5, 1.0, -2.5, 1e300, 2**53, 2**53 + 1, float(2**53), 10**90])
words = st.text("ab%_", max_size=3)
constants = st.one_of(numbers, words, st.booleans())
attributes = st.sampled_from([("x",), ("y",), ("d",), ("d", "k"), ("d", "k", "z")]).map(Attribute)
literals = constants.map(Literal)
expressions: st.SearchStrategy[Expression] = st.recursive(
    st.one_of(attributes, literals),
    lambda inner: st.one_of(
        st.builds(Negative, inner), st.builds(Arithmetic, st.sampled_from(["+", "-", "*", "/"]), inner, inner)
    ),
    max_leaves=4,
)
operators = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
patterns = st.text("ab%_", max_size=5)
simple_atoms: st.SearchStrategy[Condition] = st.one_of(
    st.builds(Comparison, operators, attributes, literals),
    st.builds(Comparison, operators, literals, attributes),
    st.builds(Between, attributes, literals, literals),
    st.builds(In, attributes, st.lists(constants, min_size=1, max_size=3).map(tuple)),
    st.builds(Like, attributes, patterns),
    st.builds(IsNull, attributes),
    st.builds(Truth, st.one_of(attributes, st.booleans().map(Literal))),
)
atoms: st.SearchStrategy[Condition] = st.one_of(
    simple_atoms,
    st.builds(Comparison, operators, expressions, expressions),
    st.builds(Between, expressions, expressions, expressions),
    st.builds(In, expressions, st.lists(constants, min_size=1, max_size=3).map(tuple)),
    st.builds(Like, attributes, st.text("ab", max_size=2).map(lambda text: text + "!%_"), st.just("!")),
)


def combined(leaves: st.SearchStrategy[Condition], size: int) -> st.SearchStrategy[Condition]:
    def joined(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
        operands = st.lists(inner, min_size=2, max_size=3).map(tuple)
        return st.one_of(st.builds(Not, inner), st.builds(And, operands), st.builds(Or, operands))

    return st.recursive(leaves, joined, max_leaves=size)


conditions = combined(atoms, 6)
scalars = st.one_of(
    constants,
    st.sampled_from([None, math.nan, math.inf, -math.inf, 10**400, -(10**400), 1 << 5000, 5e-324]),
    st.sampled_from([b"a", [1], (), Fraction(1, 2), 1j]),
)
mappings = st.dictionaries(
    st.sampled_from(["k", "x"]), st.one_of(scalars, st.fixed_dictionaries({"z": scalars}))
)
events = st.fixed_dictionaries({}, optional={"x": scalars, "y": scalars, "d": st.one_of(scalars, mappings)})


# -- the properties -----------------------------------------------------------------------------------------


@settings(max_examples=300, deadline=None)
@given(condition=conditions, event=events)
def test_compiled_conditions_say_what_the_interpreter_says(condition: Condition, event: Event) -> None:
    truth = truth_of(condition, event)
    assert compiled(condition)(event) is (truth is True)
    assert compiled(condition, negated=True)(event) is (truth is False)


@settings(max_examples=300, deadline=None)
@given(condition=conditions, some=st.lists(events, min_size=1, max_size=5))
def test_the_normal_form_is_true_when_the_condition_is(condition: Condition, some: list[Event]) -> None:
    conjunctions = disjuncts(condition, 1000)
    assert conjunctions is not None
    for event in some:
        normal = any(all(holds(test, event) for test in conjunction) for conjunction in conjunctions)
        assert normal is (truth_of(condition, event) is True)


@settings(max_examples=150, deadline=None)
@given(condition=conditions, event=events)
def test_canonical_text_means_the_same_and_is_its_own_canonical_text(
    condition: Condition, event: Event
) -> None:
    text = text_of(condition)
    try:
        parsed = parse(text)
    except SelectorError:  # nonsense that shows in the text
        return
    assert truth_of(parsed, event) is truth_of(condition, event)
    assert parse(text_of(parsed)) == parsed
    assert text_of(parse(text_of(parsed))) == text_of(parsed)


VALUES: list[object] = [
    None,
    0,
    1,
    2,
    -1,
    0.5,
    2**53 + 1,
    10**400,
    math.nan,
    math.inf,
    "",
    "a",
    "ab%",
    True,
    [],
]
NESTED: list[object] = [1, None, {"k": 1}, {"k": "a"}, {"k": {"z": 1}}, {"k": {"z": True}}]
SAMPLES = [{"x": x, "y": y, "d": d} for x in VALUES for y in VALUES for d in NESTED]


@settings(max_examples=120, deadline=None)
@given(parts=st.lists(combined(atoms, 2), min_size=2, max_size=3), data=st.data())
def test_covering_is_never_wrong(parts: list[Condition], data: st.DataObject) -> None:
    """Two conditions over the same parts, so that covering is frequent."""
    mixed = combined(st.sampled_from(parts), 4)
    wide, narrow = data.draw(mixed), data.draw(mixed)
    if covers(wide, narrow):
        is_wide, is_narrow = compiled(wide), compiled(narrow)
        assert [event for event in SAMPLES if is_narrow(event) and not is_wide(event)] == []


# -- covering is exact where it claims to be ----------------------------------------------------------------
# With few constants, finitely many values stand for all: those constants, and one value in each gap.

NUMBER_GRID = [-1, 0, 0.5, 1, 1.5, 2, 3]  # constants 0, 1, 2
STRING_GRID = ["", "A", "a", "aa", "ab", "abz", "az", "b", "ba", "c", "d"]  # constants "", "a", "ab", "b"
GRID: list[object] = [None, True, False, math.nan, *NUMBER_GRID, *STRING_GRID]

few_attributes = st.sampled_from([Attribute(("x",)), Attribute(("y",))])
few_constants = st.sampled_from([0, 1, 2, 1.0, "", "a", "ab", "b", True, False])
few_literals = st.builds(Literal, few_constants)
exact_atoms: st.SearchStrategy[Condition] = st.one_of(
    st.builds(Comparison, operators, few_attributes, few_literals),
    st.builds(Between, few_attributes, few_literals, few_literals),
    st.builds(In, few_attributes, st.lists(few_constants, min_size=1, max_size=3).map(tuple)),
    st.builds(Like, few_attributes, st.sampled_from(["a", "ab", "a%", "ab%", "b%", "%"])),
    st.builds(IsNull, few_attributes),
    st.builds(Truth, few_attributes),
)


@settings(max_examples=250, deadline=None)
@given(wide=combined(exact_atoms, 4), narrow=combined(exact_atoms, 4))
def test_covering_is_exact_for_simple_conditions(wide: Condition, narrow: Condition) -> None:
    is_wide, is_narrow = compiled(wide), compiled(narrow)
    grid = [{"x": x, "y": y} for x in GRID for y in GRID]
    assert covers(wide, narrow) is all(is_wide(event) for event in grid if is_narrow(event))
