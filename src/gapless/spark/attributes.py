"""The columns of a table as the attributes of events: only those that selectors ask for, at their own types.

Spark takes the attributes out of the columns, nested ones included, so that a file format that can will not
even read the rest; Python makes dictionaries of what is left, the ones that ``Selector.matches`` would get.

- A struct is an attribute with attributes in it, and so is a map with texts as keys.
- Texts, booleans, integers (of any size) and floats (with NaN, which compares with nothing) are what they
  are. A decimal is an integer if it is whole, else the nearest float: what an event would carry.
- NULL, and a column that is not there, is an attribute that is missing.
- Everything else (dates, timestamps, bytes, arrays, a struct as a whole) compares with nothing. Selectors may
  ask whether it is null; one that compares it would never match, and is refused with a word what to do.

Names are case-sensitive, as attributes are, whatever Spark's setting says."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from decimal import Decimal
from itertools import repeat
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import Column
from pyspark.sql import functions as f
from pyspark.sql.types import (
    BooleanType,
    DataType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NullType,
    NumericType,
    StringType,
    StructType,
)

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

COMPARED = (StringType, BooleanType, NumericType)


def uses(node: Condition | Expression) -> Iterator[tuple[Path, bool]]:
    """The attributes that a condition names, each with whether it is compared or only asked to be there."""
    match node:
        case Attribute(path):
            yield path, True
        case IsNull(Attribute(path)):
            yield path, False
        case And(operands) | Or(operands):
            for each in operands:
                yield from uses(each)
        case Comparison(_, left, right) | Arithmetic(_, left, right):
            yield from uses(left)
            yield from uses(right)
        case Between(operand, low, high):
            for part in (operand, low, high):
                yield from uses(part)
        case In(operand, _) | Like(operand, _, _) | Truth(operand) | Negative(operand) | Not(operand):
            yield from uses(operand)
        case Literal():
            pass


class Columns:
    """The attributes that a table with this schema has."""

    def __init__(self, schema: StructType) -> None:
        self._schema = schema

    def find(self, path: Path) -> tuple[Column, DataType] | None:
        """The attribute at ``path`` and its type; ``None`` where the table has none."""
        column: Column | None = None
        kind: DataType = self._schema
        for name in path:
            inner = _inside(kind, name)
            if inner is None:
                return None
            column = f.col(quoted(name)) if column is None else column[name]
            kind = inner
        return None if column is None or isinstance(kind, NullType) else (column, kind)

    def refusal(self, path: Path) -> str | None:
        """Why an attribute cannot be compared, if it is there and cannot."""
        found = self.find(path)
        if found is None or isinstance(found[1], COMPARED):
            return None
        kind = found[1].simpleString()
        return f"{'.'.join(path)} is of type {kind[:60]}, which selectors do not compare: {_advice(kind)}"

    def number(self, path: Path) -> type[int | float] | None:
        """Whether an attribute is an integer or a float, of at most 64 bits, or neither."""
        found = self.find(path)
        if found is None or not isinstance(found[1], (IntegralType, FloatType, DoubleType)):
            return None
        return int if isinstance(found[1], IntegralType) else float


def _inside(kind: DataType, name: str) -> DataType | None:
    """The type of an attribute inside one of this type."""
    if isinstance(kind, StructType):
        return next((each.dataType for each in kind.fields if each.name == name), None)
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return kind.valueType
    return None


def _advice(kind: str) -> str:
    if kind.startswith(("date", "time")):
        return "make it a number (unix_micros) or a text (date_format) first"
    return "make it a text, a number or a boolean first"


def quoted(name: str) -> str:
    """The name of a column, whatever characters it has."""
    return f"`{name.replace('`', '``')}`"


@dataclass(slots=True)
class Leaf:
    """A value in a column of the batch, counted from the first attribute."""

    column: int
    is_decimal: bool

    def read(self, columns: list[pa.Array], size: int) -> list[object]:
        """The value in each row."""
        return self.values(columns[self.column])

    def values(self, column: pa.Array) -> list[object]:
        """The values of its column, or of a part of it."""
        values: list[object] = column.to_pylist()
        return list(map(_number, values)) if self.is_decimal else values


@dataclass(slots=True)
class Branch:
    """An attribute with attributes in it, or with nothing that could be compared.

    ``present`` is the column that says whether it is there at all; ``None``: nobody asks.
    """

    present: int | None = None
    inner: dict[str, Tree] = field(default_factory=dict)

    def find(self, path: Path) -> Tree | None:
        """The attribute at ``path`` in it; ``None`` where the table has none."""
        inner = self.inner.get(path[0])
        if len(path) == 1 or inner is None:
            return inner
        return inner.find(path[1:]) if isinstance(inner, Branch) else None

    def rows(self, columns: list[pa.Array], size: int) -> list[dict[str, object]]:
        """The attributes in it, of each row."""
        if not self.inner:
            return [{}] * size
        values = [each.read(columns, size) for each in self.inner.values()]
        return list(map(dict, map(zip, repeat(tuple(self.inner)), zip(*values, strict=True))))

    def read(self, columns: list[pa.Array], size: int) -> list[object]:
        """The same, but ``None`` where it is not there."""
        rows = self.rows(columns, size)
        if self.present is None:
            return list(rows)
        there = columns[self.present].to_pylist()
        return [row if is_there else None for row, is_there in zip(rows, there, strict=True)]


Tree: TypeAlias = Leaf | Branch


def _number(value: object) -> object:
    """A decimal as an event would carry it."""
    if not isinstance(value, Decimal):
        return value
    whole = int(value)
    return whole if whole == value else float(value)


def select(columns: Columns, paths: set[Path]) -> tuple[list[Column], Branch]:
    """What to select for these attributes, and the tree that reads them out of batches of it."""
    selected: list[Column] = []
    root = Branch()
    for path in sorted(paths):  # so that what lies around an attribute comes before it
        found = columns.find(path)
        if found is None:
            continue
        column, kind = found
        branch = root
        for name in path[:-1]:
            inner = branch.inner.setdefault(name, Branch())
            assert isinstance(inner, Branch)
            branch = inner
        if isinstance(kind, COMPARED):
            branch.inner[path[-1]] = Leaf(len(selected), isinstance(kind, DecimalType))
            selected.append(column)
        else:
            branch.inner[path[-1]] = Branch(present=len(selected))
            selected.append(column.isNotNull())
    return selected, root
