"""When a selector is true for an event.

A condition is true, false or unknown, but an event matches only when it is true, and negation can be moved
inwards (Kleene's logic keeps De Morgan's laws) to the comparisons, which have negations of their own: ``x <
5`` is false exactly when ``x >= 5`` is true. So the third value never has to be calculated: the whole tree
becomes one Python expression of tests that hold or do not hold.

The expression is compiled into a Python function. Its source has no character of the selector's text in
it: names and constants are bound as variables, so nothing can be injected and selectors of one shape share
their compiled code. Matching takes about a quarter less time than by nested closures.

Values are exactly ``str``, ``int``, ``float`` and ``bool``, which is what travels in an event; a value of
any other type, also of a subclass of these, is there (not null) but like nothing. No type of value can make
the evaluation fail: foreign objects are never asked for anything, except mappings for their items.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any, TypeAlias

from gapless.selectors.arithmetic import OPERATIONS, negative
from gapless.selectors.like import matcher
from gapless.selectors.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    CompareOp,
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
    Value,
)

Predicate: TypeAlias = Callable[[Mapping[str, object]], bool]

_KINDS: dict[type, type] = {str: str, bool: bool, int: int, float: int, Fraction: int}

COMPLEMENT: dict[CompareOp, CompareOp] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
"""The operator that is true exactly when this one is false (both are unknown together)."""

MIRROR: dict[CompareOp, CompareOp] = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
"""The operator that says the same with the operands exchanged."""


def kind(value: object) -> type | None:
    """What a value compares with: ``str``, ``bool`` or ``int`` (any number); ``None``: with nothing."""
    return _KINDS.get(type(value))


def compare(op: CompareOp, left: object, right: object) -> bool:
    """Whether ``left op right`` is true; for values of any type, and never an error."""
    return _COMPARERS[op](left, right)


def _comparer(holds: Callable[[Any, Any], bool], kinds: dict[type, type]) -> Callable[[object, object], bool]:
    def comparer(left: object, right: object) -> bool:
        common = kinds.get(type(left))
        return common is not None and common is kinds.get(type(right)) and holds(left, right)

    return comparer


_ORDERED = {type_: common for type_, common in _KINDS.items() if type_ is not bool}
_COMPARERS: dict[CompareOp, Callable[[object, object], bool]] = {
    "=": _comparer(operator.eq, _KINDS),
    "<>": _comparer(lambda left, right: left < right or left > right, _KINDS),  # unlike !=, not for NaN
    "<": _comparer(operator.lt, _ORDERED),
    "<=": _comparer(operator.le, _ORDERED),
    ">": _comparer(operator.gt, _ORDERED),
    ">=": _comparer(operator.ge, _ORDERED),
}


def attribute(attributes: object, path: Path) -> object:
    """The value at ``path``; ``None`` where there is none, also on a way through what is no mapping."""
    value = attributes
    for name in path:
        value = value.get(name) if type(value) is dict else _item(value, name)
    return value


def _item(mapping: object, name: str) -> object:
    """An item of something that is no plain dictionary; a mapping that fails has no items."""
    try:
        return mapping.get(name) if isinstance(mapping, Mapping) else None
    except Exception:
        return None


def _items(attributes: object) -> dict[object, object]:
    """All items of something that is no plain dictionary."""
    try:
        return dict(attributes) if isinstance(attributes, Mapping) else {}
    except Exception:
        return {}


def compiled(condition: Condition, negated: bool = False) -> Predicate:
    """A fast function that says whether the condition is true (``negated``: is false) for attributes."""
    writer = _Writer()
    holds = writer.condition(condition, negated)
    parameters = ", ".join(f"c{index}" for index in range(len(writer.constants)))
    source = _SOURCE.format(parameters=parameters, holds=holds)
    bind = _shared_binder(source) if len(source) <= _SHARED_SOURCE_MAX else _binder(source)
    return bind(*writer.constants)


_SHARED_SOURCE_MAX = 4096
_SOURCE = """
def bind({parameters}):
    def holds(event):
        if type(event) is not dict:
            event = items(event)
        return {holds}
    return holds
"""


def _binder(source: str) -> Callable[..., Predicate]:
    """The function that binds names and constants to compiled code."""
    scope: dict[str, Any] = {"__builtins__": {}, "type": type, **_HELPERS}
    exec(source, scope)  # noqa: S102 (the source is made of fixed words and numbered variables only)
    bind: Callable[..., Predicate] = scope["bind"]
    return bind


_shared_binder = lru_cache(maxsize=1024)(_binder)

_TYPES = {"str": str, "int": int, "float": float, "bool": bool, "dict": dict, "Fraction": Fraction}
_ARITHMETIC = {"+": "add", "-": "subtract", "*": "multiply", "/": "divide"}
_COMPARING = {"=": "equal", "<>": "unequal", "<": "less", "<=": "at_most", ">": "greater", ">=": "at_least"}
_HELPERS: dict[str, object] = {
    **_TYPES,
    **{_ARITHMETIC[op]: function for op, function in OPERATIONS.items()},
    **{_COMPARING[op]: function for op, function in _COMPARERS.items()},
    "negative": negative,
    "item": _item,
    "items": _items,
}
_CHECKS: dict[type | None, str] = {
    str: "type(v := {}) is str",
    bool: "type(v := {}) is bool",
    int: "(type(v := {}) is float or type(v) is int or type(v) is Fraction)",
}


class _Writer:
    """Writes the Python expression for a condition and collects the constants bound in it."""

    def __init__(self) -> None:
        self.constants: list[object] = []

    def bound(self, constant: object) -> str:
        """The variable of a name or constant."""
        self.constants.append(constant)
        return f"c{len(self.constants) - 1}"

    def condition(self, condition: Condition, negated: bool) -> str:
        """The test that holds when the condition is true, or, ``negated``, when it is false."""
        match condition:
            case Not(operand):
                return self.condition(operand, not negated)
            case And(operands) | Or(operands):
                word = " or " if isinstance(condition, And) is negated else " and "
                return f"({word.join(self.condition(operand, negated) for operand in operands)})"
            case Comparison(op, left, right):
                return self.comparison(COMPLEMENT[op] if negated else op, left, right)
            case Between(operand, low, high):
                return self.between(operand, low, high, negated)
            case In(operand, values):
                return self.membership(operand, values, negated)
            case Like(operand, pattern, escape):
                like = self.bound(matcher(pattern, escape))
                return f"({self.typed(str, operand)} and {'not ' if negated else ''}{like}(v))"
            case IsNull(operand):
                return f"({self.expression(operand)} is {'not ' if negated else ''}None)"
            case Truth(operand):
                return f"({self.expression(operand)} is {not negated})"

    def comparison(self, op: CompareOp, left: Expression, right: Expression) -> str:
        """``left op right``; shorter code where one side is a constant, whose type is known."""
        if isinstance(left, Literal):
            op, left, right = MIRROR[op], right, left
        if not isinstance(right, Literal) or isinstance(left, Literal):
            return f"{_COMPARING[op]}({self.expression(left)}, {self.expression(right)})"
        if isinstance(right.value, bool) and op not in ("=", "<>"):
            return "False"
        value = self.bound(right.value)
        python = {"=": f"v == {value}", "<>": f"(v < {value} or v > {value})"}.get(op, f"v {op} {value}")
        return f"({self.typed(kind(right.value), left)} and {python})"

    def between(self, operand: Expression, low: Expression, high: Expression, negated: bool) -> str:
        """Both ends at once where they are constants of one ordered type, else two comparisons."""
        if isinstance(low, Literal) and isinstance(high, Literal):
            common = kind(low.value)
            if common is kind(high.value) and common is not bool:
                start, end = self.bound(low.value), self.bound(high.value)
                inside = f"(v < {start} or v > {end})" if negated else f"{start} <= v <= {end}"
                return f"({self.typed(common, operand)} and {inside})"
        ends = And((Comparison(">=", operand, low), Comparison("<=", operand, high)))
        return self.condition(ends, negated)

    def membership(self, operand: Expression, values: tuple[Value, ...], negated: bool) -> str:
        """One test per type among the values; to be none of the values is to have the type of all."""
        by_kind: dict[type | None, set[Value]] = {}
        for value in values:
            by_kind.setdefault(kind(value), set()).add(value)
        tests = []
        for common, members in by_kind.items():
            within = f"v in {self.bound(frozenset(members))}"
            if negated:
                within = f"not {within} and v == v"  # NaN is of no type
            tests.append(f"{self.typed(common, operand)} and {within}")
        return f"({(' and ' if negated else ' or ').join(tests)})"

    def typed(self, common: type | None, operand: Expression) -> str:
        """The test whether the operand, which becomes ``v``, is of a kind."""
        return _CHECKS[common].format(self.expression(operand))

    def expression(self, expression: Expression) -> str:
        """The value of an expression, ``None`` where it is unknown."""
        match expression:
            case Literal(value):
                return self.bound(value)
            case Attribute(path):
                first, *rest = map(self.bound, path)
                found = f"event.get({first})"
                for name in rest:
                    found = f"(m.get({name}) if type(m := {found}) is dict else item(m, {name}))"
                return found
            case Negative(operand):
                return f"negative({self.expression(operand)})"
            case Arithmetic(op, left, right):
                return f"{_ARITHMETIC[op]}({self.expression(left)}, {self.expression(right)})"
