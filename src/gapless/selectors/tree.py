"""The syntax tree of a selector: what the parser builds and everything else reads.

A *condition* is true, false or unknown for an event (three-valued logic of SQL-92); an event matches only
when the condition is true. An *expression* is a value or unknown. All nodes are frozen values, so two
selectors that mean the same text compare equal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal as OneOfThese
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool
Path: TypeAlias = tuple[str, ...]
"""The way to an attribute: ``desk.region`` is ``("desk", "region")``."""

CompareOp: TypeAlias = OneOfThese["=", "<>", "<", "<=", ">", ">="]
ArithmeticOp: TypeAlias = OneOfThese["+", "-", "*", "/"]


class Exact:
    """Equality that tells ``TRUE``, ``1`` and ``1.0`` apart: Python takes them for equal, selectors do not.

    For frozen dataclasses with ``eq=False``; a field is a value, a tuple of values, or anything else that
    has a sound equality of its own.
    """

    __slots__ = ()

    def _key(self) -> tuple[object, ...]:
        """The fields, each value with its type."""
        fields = [getattr(self, field) for field in self.__dataclass_fields__]  # type: ignore[attr-defined]
        types = [tuple(map(type, field)) if type(field) is tuple else type(field) for field in fields]
        return (*types, *fields)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self is other or self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())


@dataclass(frozen=True, slots=True, eq=False)
class Literal(Exact):
    """A constant of the selector's text."""

    value: Value


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of the event; unknown where the event has none or it is null."""

    path: Path


@dataclass(frozen=True, slots=True)
class Negative:
    """``-operand``."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """``left op right`` on numbers; unknown for anything else, and for a division by zero."""

    op: ArithmeticOp
    left: Expression
    right: Expression


Expression: TypeAlias = Literal | Attribute | Negative | Arithmetic


@dataclass(frozen=True, slots=True)
class Comparison:
    """``left op right``; unknown when the two are of unlike types."""

    op: CompareOp
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Between:
    """``operand BETWEEN low AND high``, both ends included."""

    operand: Expression
    low: Expression
    high: Expression


@dataclass(frozen=True, slots=True, eq=False)
class In(Exact):
    """``operand IN (values)``."""

    operand: Expression
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Like:
    """``operand LIKE pattern ESCAPE escape``; ``%`` any run, ``_`` any one character."""

    operand: Attribute
    pattern: str
    escape: str | None = None


@dataclass(frozen=True, slots=True)
class IsNull:
    """``operand IS NULL``: never unknown."""

    operand: Attribute


@dataclass(frozen=True, slots=True)
class Truth:
    """A boolean attribute, or ``TRUE`` or ``FALSE``, standing as a condition by itself."""

    operand: Attribute | Literal


@dataclass(frozen=True, slots=True)
class Not:
    """``NOT operand``; unknown stays unknown."""

    operand: Condition


@dataclass(frozen=True, slots=True)
class And:
    """All of two or more operands."""

    operands: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Any of two or more operands."""

    operands: tuple[Condition, ...]


Condition: TypeAlias = Comparison | Between | In | Like | IsNull | Truth | Not | And | Or
