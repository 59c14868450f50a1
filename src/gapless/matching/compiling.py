"""From a selector to its clauses: the disjunction of conjunctions of compiled predicates.

A conjunction is a tuple of predicates without repetition, in an order that does not depend on how the
selector was written. One that can never hold is left out. Where an attribute must be one of some values,
whatever else is asked of it is asked here, of those values, and not again of every event.
"""

from __future__ import annotations

import math
from typing import TypeAlias, assert_never

from gapless.matching.predicates import (
    Absent,
    Among,
    Beginning,
    Bound,
    Evaluated,
    Numbers,
    Outside,
    Predicate,
    Present,
    Simple,
    Strings,
    next_above,
)
from gapless.matching.reading import Key, Known, key_of, known
from gapless.selectors import normal
from gapless.selectors.tree import (
    And,
    Attribute,
    Between,
    Comparison,
    Condition,
    In,
    IsNull,
    Literal,
    Path,
    Truth,
    Value,
)

Conjunction: TypeAlias = tuple[Predicate, ...]
OneAttribute: TypeAlias = (
    normal.OneOf | normal.NoneOf | normal.Range | normal.Prefix | normal.Null | normal.NotNull
)


def conjunctions(condition: Condition) -> list[Conjunction]:
    """The conjunctions of which one must hold; none at all when the condition is never true."""
    compiled = map(_conjunction, _alternatives(condition))
    return list(dict.fromkeys(conjunction for conjunction in compiled if conjunction is not None))


def _alternatives(condition: Condition) -> tuple[normal.Conjunction, ...]:
    """The normal form. When it would have too many alternatives, the parts that have are evaluated."""
    if not isinstance(condition, And):
        plain = _plain(condition)
        alternatives = normal.disjuncts(condition) if plain is None else ((plain,),)
        return ((normal.Other(condition),),) if alternatives is None else alternatives
    tests: list[normal.Test] = []
    hard: list[Condition] = []
    for part in condition.operands:
        plain = _plain(part)
        if plain is not None:
            tests.append(plain)
            continue
        alternatives = normal.disjuncts(part)
        if alternatives is not None and len(alternatives) == 1:
            tests += alternatives[0]
        else:
            hard.append(part)
    alternatives = normal.disjuncts(condition) if hard else (tuple(tests),)
    return ((*tests, *map(normal.Other, hard)),) if alternatives is None else alternatives


def _plain(condition: Condition) -> normal.Test | None:
    """The plainest and commonest conditions as ``normal.disjuncts`` has them, but faster."""
    match condition:
        case Comparison("=", Attribute(path), Literal(value)):
            return normal.OneOf(path, (value,))
        case Comparison("<" | "<=" as op, Attribute(path), Literal(value)) if type(value) is not bool:
            return normal.Range(path, None, value, high_included=op == "<=")
        case Comparison(">" | ">=" as op, Attribute(path), Literal(value)) if type(value) is not bool:
            return normal.Range(path, value, None, low_included=op == ">=")
        case Between(Attribute(path), Literal(low), Literal(high)):
            if bool not in (type(low), type(high)) and (type(low) is str) is (type(high) is str):
                return normal.Range(path, low, high)
        case In(Attribute(path), values):
            return normal.OneOf(path, values)
        case IsNull(Attribute(path)):
            return normal.Null(path)
        case Truth(Attribute(path)):
            return normal.OneOf(path, (True,))
        case _:
            pass
    return None


def _factors(condition: Condition) -> normal.Conjunction:
    """A condition with too many alternatives: the simple parts of a top-level AND, and the rest as it is."""
    tests: list[normal.Test] = []
    for part in condition.operands if isinstance(condition, And) else (condition,):
        alternatives = normal.disjuncts(part)
        if alternatives is not None and len(alternatives) == 1:
            tests += alternatives[0]
        else:
            tests.append(normal.Other(part))
    return tuple(tests)


def _conjunction(tests: normal.Conjunction) -> Conjunction | None:
    by_key: dict[Key, list[Simple]] = {}
    others: list[Evaluated] = []
    for test in tests:
        if isinstance(test, normal.Other):
            others.append(Evaluated(test.condition, test.negated))
            continue
        predicate = _predicate(test)
        if predicate is None:
            return None
        by_key.setdefault(predicate.key, []).append(predicate)
    simple: list[Simple] = []
    for key, predicates in by_key.items():
        if len(predicates) == 1:
            simple += predicates
            continue
        merged = _merged(key, predicates)
        if merged is None:
            return None
        simple += merged
    simple.sort(key=_rank)
    return (*simple, *dict.fromkeys(others))


def _rank(predicate: Simple) -> tuple[str, Path]:
    key = predicate.key
    return type(predicate).__name__, key if isinstance(key, tuple) else (key,)


def _merged(key: Key, predicates: list[Simple]) -> list[Simple] | None:
    """Several predicates on one attribute; ``None`` when they contradict each other."""
    sets = [predicate for predicate in predicates if isinstance(predicate, Among)]
    if sets:
        values = tuple(v for v in sets[0].values if all(predicate.accepts(v) for predicate in predicates))
        return [Among(key, values)] if values else None
    if Absent(key) in predicates:
        return [Absent(key)] if set(predicates) == {Absent(key)} else None
    merged: list[Simple] = []
    for text in (False, True):
        spans = [predicate for predicate in predicates if isinstance(predicate, Strings if text else Numbers)]
        if spans:
            highs = [span.high for span in spans if span.high is not None]
            span = _half_open(key, text, max(span.low for span in spans), min(highs, default=None))
            if span is None:
                return None
            merged.append(span)
    rest = (predicate for predicate in predicates if not isinstance(predicate, (Numbers, Strings)))
    return merged + list(dict.fromkeys(rest))


def _predicate(test: OneAttribute) -> Simple | None:
    """One test compiled; ``None`` when it never holds."""
    key = key_of(test.path)
    match test:
        case normal.OneOf(_, values):
            return Among(key, _known(values))
        case normal.NoneOf(_, values):
            return Outside(key, isinstance(values[0], str), _known(values))
        case normal.Range():
            return _span(key, test)
        case normal.Prefix(_, text):
            return Beginning(key, text)
        case normal.Null():
            return Absent(key)
        case normal.NotNull():
            return Present(key)
        case _:
            assert_never(test)


def _known(values: tuple[Value, ...]) -> tuple[Known, ...]:
    """The values as they are in readings, in an order that does not depend on the selector's."""
    read = dict.fromkeys(value for value in map(known, values) if value is not None)
    return tuple(read) if len(read) == 1 else tuple(sorted(read, key=repr))


def _span(key: Key, test: normal.Range) -> Numbers | Strings | None:
    """A range as a half-open interval; ``None`` when it is empty."""
    text = isinstance(test.low if test.low is not None else test.high, str)
    low: Bound | None = test.low
    if low is None:
        low = "" if text else -math.inf
    elif not test.low_included:
        low = next_above(low)
        if low is None:
            return None
    high = next_above(test.high) if test.high is not None and test.high_included else test.high
    return _half_open(key, text, low, high)


def _half_open(key: Key, text: bool, low: Bound, high: Bound | None) -> Numbers | Strings | None:
    if high is not None and not low < high:
        return None
    return Strings(key, low, high) if text else Numbers(key, low, high)
