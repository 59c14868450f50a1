"""From a selector to its clauses: the disjunction of conjunctions of compiled predicates.

A conjunction is a tuple of predicates without repetition, in an order that does not depend on how the
selector was written. One that can never hold is left out. Where an attribute must be one of some values,
whatever else is asked of it is asked here, of those values, and not again of every event.
"""

from __future__ import annotations

import math
from typing import TypeAlias

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
from gapless.matching.reading import TRUE, Key, Known, key_of, known, path_of
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


def conjunctions(condition: Condition) -> list[Conjunction]:
    """The conjunctions of which one must hold; none at all when the condition is never true."""
    draft = _one_conjunction(condition.operands) if isinstance(condition, And) else _plain(condition)
    if draft is not None:
        alternatives = [draft]
    else:
        found = normal.disjuncts(condition)
        alternatives = [_factors(condition)] if found is None else [_compiled(tests) for tests in found]
    merged = [_conjunction(draft) for draft in alternatives if None not in draft]
    if len(merged) == 1:
        return [] if merged[0] is None else [merged[0]]
    return list(dict.fromkeys(conjunction for conjunction in merged if conjunction is not None))


_Draft: TypeAlias = list[Predicate | None]
"""A conjunction before it is merged; ``None`` stands for what never holds."""


def _one_conjunction(parts: tuple[Condition, ...]) -> _Draft | None:
    """Conditions that all must hold, when none of them has alternatives."""
    draft: _Draft = []
    for part in parts:
        predicates = _plain(part)
        if predicates is None:
            found = normal.disjuncts(part)
            if found is None or len(found) != 1:
                return None
            predicates = _compiled(found[0])
        draft += predicates
    return draft


def _factors(condition: Condition) -> _Draft:
    """A condition with too many alternatives: the parts that have none, and the others to be evaluated."""
    draft: _Draft = []
    for part in condition.operands if isinstance(condition, And) else (condition,):
        predicates = _one_conjunction((part,))
        draft += [Evaluated(part, False)] if predicates is None else predicates
    return draft


def _plain(condition: Condition) -> _Draft | None:
    """The plainest and commonest conditions, compiled without the detour over the normal form."""
    match condition:
        case Comparison("=", Attribute(path), Literal(value)):
            return [Among(key_of(path), _known((value,)))]
        case Comparison("<" | "<=" as op, Attribute(path), Literal(value)) if type(value) is not bool:
            return [_span(key_of(path), None, value, high_included=op == "<=")]
        case Comparison(">" | ">=" as op, Attribute(path), Literal(value)) if type(value) is not bool:
            return [_span(key_of(path), value, None, low_included=op == ">=")]
        case Between(Attribute(path), Literal(low), Literal(high)):
            if bool not in (type(low), type(high)) and (type(low) is str) is (type(high) is str):
                return [_span(key_of(path), low, high)]
        case In(Attribute(path), values):
            return [Among(key_of(path), _known(values))]
        case IsNull(Attribute(path)):
            return [Absent(key_of(path))]
        case Truth(Attribute(path)):
            return [Among(key_of(path), (TRUE,))]
        case _:
            pass
    return None


def _conjunction(draft: _Draft) -> Conjunction | None:
    """A draft merged and ordered; ``None`` when its predicates contradict each other."""
    by_key: dict[Key, list[Simple]] = {}
    others: dict[Evaluated, None] = {}
    for predicate in draft:
        if isinstance(predicate, Evaluated):
            others[predicate] = None
        elif predicate is not None:
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
    if len(simple) > 1:
        simple.sort(key=_rank)
    return (*simple, *others)


def _rank(predicate: Simple) -> tuple[str, Path]:
    return type(predicate).__name__, path_of(predicate.key)


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


def _compiled(tests: normal.Conjunction) -> _Draft:
    return [_predicate(test) for test in tests]


def _predicate(test: normal.Test) -> Predicate | None:
    """One test compiled; ``None`` when it never holds."""
    match test:
        case normal.OneOf(path, values):
            return Among(key_of(path), _known(values))
        case normal.NoneOf(path, values):
            return Outside(key_of(path), isinstance(values[0], str), _known(values))
        case normal.Range(path, low, high, low_included, high_included):
            return _span(key_of(path), low, high, low_included, high_included)
        case normal.Prefix(path, text):
            return Beginning(key_of(path), text)
        case normal.Null(path):
            return Absent(key_of(path))
        case normal.NotNull(path):
            return Present(key_of(path))
        case normal.Other(condition, negated):
            return Evaluated(condition, negated)


def _known(values: tuple[Value, ...]) -> tuple[Known, ...]:
    """The values as they are in readings, in an order that does not depend on the selector's."""
    read = dict.fromkeys(map(known, values))
    return tuple(read if len(read) == 1 else sorted(read, key=repr))  # type: ignore[arg-type]


def _span(
    key: Key, low: Bound | None, high: Bound | None, low_included: bool = True, high_included: bool = True
) -> Numbers | Strings | None:
    """A range as a half-open interval; ``None`` when it is empty."""
    text = isinstance(high if low is None else low, str)
    if low is None:
        low = "" if text else -math.inf
    elif not low_included:
        low = next_above(low)
        if low is None:
            return None
    if high is not None and high_included:
        high = next_above(high)
    return _half_open(key, text, low, high)


def _half_open(key: Key, text: bool, low: Bound, high: Bound | None) -> Numbers | Strings | None:
    if high is not None and not low < high:
        return None
    return Strings(key, low, high) if text else Numbers(key, low, high)
