"""Selectors as disjunctions of conjunctions of simple tests, for covering and for the matching index.

A *test* says when a condition is **true**; there is no third value left. Kleene's logic keeps De Morgan's
laws, so negation moves inwards without changing when the whole is true: ``NOT (x = 5)`` is true exactly
when ``x`` is a number other than 5.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from itertools import takewhile
from typing import TypeAlias

from gapless.selectors.arithmetic import OPERATIONS, negative
from gapless.selectors.evaluation import COMPLEMENT, MIRROR, compare, kind
from gapless.selectors.like import Segment, literal, segments
from gapless.selectors.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    CompareOp,
    Comparison,
    Condition,
    Exact,
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
    Value,
)


@dataclass(frozen=True, slots=True, eq=False)
class OneOf(Exact):
    """The attribute equals one of ``values`` (one value: equality). Never empty."""

    path: Path
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class NoneOf(Exact):
    """The attribute has the type of ``values`` (all of one type) and is none of them. NaN has no type."""

    path: Path
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Range(Exact):
    """The attribute is a number (or a string: the type of the bounds) between ``low`` and ``high``.

    ``None`` is no bound on that side; at least one side is bounded.
    """

    path: Path
    low: int | float | str | None
    high: int | float | str | None
    low_included: bool = True
    high_included: bool = True


@dataclass(frozen=True, slots=True)
class Prefix:
    """The attribute is a string that begins with ``text`` (never empty)."""

    path: Path
    text: str


@dataclass(frozen=True, slots=True)
class Null:
    """The attribute is missing or null."""

    path: Path


@dataclass(frozen=True, slots=True)
class NotNull:
    """The attribute is there and not null, whatever its type."""

    path: Path


@dataclass(frozen=True, slots=True)
class Other:
    """Any other condition: true when evaluating it says true (when ``negated``: says false)."""

    condition: Condition
    negated: bool = False


Test: TypeAlias = OneOf | NoneOf | Range | Prefix | Null | NotNull | Other
Conjunction: TypeAlias = tuple[Test, ...]
"""All of these; the empty one is always true."""


def disjuncts(condition: Condition, limit: int = 64) -> tuple[Conjunction, ...] | None:
    """The condition as a disjunction of at most ``limit`` conjunctions; ``None`` when it takes more.

    The condition is true exactly when all tests of one of the conjunctions hold. No conjunction at all:
    never true. A constant part is calculated, ranges of one attribute in a conjunction are one range.
    """
    found = _disjuncts(condition, False, limit)
    return None if found is None else tuple(tuple(conjunction.values()) for conjunction in found)


_Draft: TypeAlias = dict[object, Test]
"""A conjunction in the making; a key for all that is merged: the ranges over one attribute and type."""
_ALWAYS: list[_Draft] = [{}]
_NEVER: list[_Draft] = []


def _disjuncts(condition: Condition, negated: bool, limit: int) -> list[_Draft] | None:
    match condition:
        case Not(operand):
            return _disjuncts(operand, not negated, limit)
        case And(operands) | Or(operands):
            parts = (_disjuncts(operand, negated, limit) for operand in operands)
            return (_any_of if isinstance(condition, And) is negated else _all_of)(parts, limit)
        case Between(operand, low, high):
            ends = (Comparison(">=", operand, low), Comparison("<=", operand, high))
            return _disjuncts(And(ends), negated, limit)
        case _:
            return _any_of([_atom(condition, negated)], limit)


def _any_of(parts: Iterable[list[_Draft] | None], limit: int) -> list[_Draft] | None:
    """The disjunction of the parts; the ones that only ask for values of one attribute become one."""
    together: list[_Draft] = []
    values: dict[Path, tuple[Value, ...]] = {}
    for part in parts:
        if part is None:
            return None
        if part == _ALWAYS:
            return _ALWAYS
        for draft in part:
            test = next(iter(draft.values()))
            if len(draft) == 1 and isinstance(test, OneOf):
                values[test.path] = values.get(test.path, ()) + test.values
            else:
                together.append(draft)
        if len(together) + len(values) > limit:
            return None
    for path, alternatives in values.items():
        together += _drafts(OneOf(path, _distinct(alternatives)))
    return together


def _all_of(parts: Iterable[list[_Draft] | None], limit: int) -> list[_Draft] | None:
    """The conjunction of the parts, multiplied out; a part that is never true settles it."""
    product: list[_Draft] | None = _ALWAYS
    for part in parts:
        if part == _NEVER:
            return _NEVER
        if product is None or part is None or len(product) * len(part) > limit:
            product = None
        else:
            merged = [_both(left, right) for left in product for right in part]
            product = [draft for draft in merged if draft is not None]
            if not product:
                return _NEVER
    return product


def _both(left: _Draft, right: _Draft) -> _Draft | None:
    """Both conjunctions, or ``None`` where two ranges have nothing in common."""
    both = dict(left)
    for key, test in right.items():
        other = both.get(key)
        if isinstance(test, Range) and isinstance(other, Range):
            meeting = _meet(other, test)
            if meeting is None:
                return None
            both[key] = meeting
        else:
            both[key] = test
    return both


def _meet(one: Range, two: Range) -> Range | None:
    """The values in both ranges, which have bounds of the same type; ``None`` when there are none."""
    low, low_included = one.low, one.low_included
    if two.low is not None and (low is None or (two.low, not two.low_included) > (low, not low_included)):
        low, low_included = two.low, two.low_included
    high, high_included = one.high, one.high_included
    if two.high is not None and (high is None or (two.high, two.high_included) < (high, high_included)):
        high, high_included = two.high, two.high_included
    if low is not None and high is not None and (low, not low_included) >= (high, high_included):
        return None
    return Range(one.path, low, high, low_included, high_included)


def _atom(condition: Comparison | In | Like | IsNull | Truth, negated: bool) -> list[_Draft]:
    """The disjunction of one condition without AND, OR and NOT."""
    match condition:
        case Comparison(op, left, right):
            if negated:
                return _atom(Comparison(COMPLEMENT[op], left, right), False)
            if isinstance(right, Attribute) and not isinstance(left, Attribute):
                op, left, right = MIRROR[op], right, left
            value = constant(right)
            if value is None:
                return _drafts(Other(condition))
            if isinstance(left, Attribute):
                return _comparison(op, left.path, value)
            known = constant(left)
            if known is None:
                return _drafts(Other(condition))
            return _ALWAYS if compare(op, known, value) else _NEVER
        case In(Attribute(path), values):
            return _none_of(path, values) if negated else _drafts(OneOf(path, _distinct(values)))
        case Like(Attribute(path), pattern, escape):
            return _like(condition, path, segments(pattern, escape), negated)
        case IsNull(Attribute(path)):
            return _drafts(NotNull(path) if negated else Null(path))
        case Truth(Literal(value)):
            return _NEVER if value is negated else _ALWAYS
        case Truth(Attribute(path)):
            return _drafts(OneOf(path, (not negated,)))
        case _:
            return _drafts(Other(condition, negated))


def _drafts(*tests: Test) -> list[_Draft]:
    """The conjunction of these tests, each by itself."""
    return [{_key(test): test for test in tests}]


def _key(test: Test) -> object:
    """Tests with the same key are merged."""
    if isinstance(test, Range):
        return test.path, isinstance(test.low if test.low is not None else test.high, str)
    return test


def _comparison(op: CompareOp, path: Path, value: Value) -> list[_Draft]:
    """``path op value``. Booleans have no order, so comparing their order is never true."""
    if op == "=":
        return _drafts(OneOf(path, (value,)))
    if op == "<>":
        return _none_of(path, (value,))
    if isinstance(value, bool):
        return _NEVER
    if op in ("<", "<="):
        return _drafts(Range(path, None, value, high_included=op == "<="))
    return _drafts(Range(path, value, None, low_included=op == ">="))


def _none_of(path: Path, values: tuple[Value, ...]) -> list[_Draft]:
    """Unlike each of the values, hence of the type of each of them: never, when their types differ."""
    distinct = _distinct(values)
    kinds = {kind(value) for value in distinct}
    if len(kinds) > 1:
        return _NEVER
    if kinds == {bool}:
        return _NEVER if len(distinct) > 1 else _drafts(OneOf(path, (not distinct[0],)))
    return _drafts(NoneOf(path, distinct))


def _like(condition: Like, path: Path, parts: tuple[Segment, ...], negated: bool) -> list[_Draft]:
    """A pattern without wildcards is an equality, one that ends in its only ``%`` a prefix."""
    text = literal(parts[0])
    if len(parts) == 1 and text is not None:
        return _none_of(path, (text,)) if negated else _drafts(OneOf(path, (text,)))
    if not any(parts):
        return _NEVER if negated else _drafts(Range(path, "", None))
    if len(parts) == 2 and text and not parts[1]:
        if not negated:
            return _drafts(Prefix(path, text))
        after = successor(text)
        beyond = [] if after is None else _drafts(Range(path, after, None))
        return _drafts(Range(path, None, text, high_included=False)) + beyond
    if negated:
        return _drafts(Other(condition, negated))
    start = "".join(takewhile(lambda character: character is not None, parts[0]))  # type: ignore[arg-type]
    return _drafts(Prefix(path, start), Other(condition)) if start else _drafts(Other(condition))


def successor(text: str) -> str | None:
    """The least string above all that begin with ``text``; ``None`` when there is no such string.

    A string begins with ``text`` exactly when it is in ``[text, successor(text))``.
    """
    stem = text.rstrip(chr(sys.maxunicode))
    return stem[:-1] + chr(ord(stem[-1]) + 1) if stem else None


def _distinct(values: tuple[Value, ...]) -> tuple[Value, ...]:
    """Without the values that equal an earlier one; ``TRUE`` does not equal 1."""
    first: dict[tuple[type | None, Value], Value] = {}
    for value in values:
        first.setdefault((kind(value), value), value)
    return tuple(first.values())


def constant(expression: Expression) -> Value | None:
    """The value of an expression without attributes, if it is one that a literal could have."""
    value = _calculated(expression)
    if isinstance(value, Fraction) or (isinstance(value, float) and not math.isfinite(value)):
        return None
    return value


def _calculated(expression: Expression) -> Value | Fraction | None:
    match expression:
        case Literal(value):
            return value
        case Attribute():
            return None
        case Negative(operand):
            return negative(_calculated(operand))
        case Arithmetic(op, left, right):
            return OPERATIONS[op](_calculated(left), _calculated(right))
