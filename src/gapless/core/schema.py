"""The schema of a topic: Spark DDL, read once, and checked against every event that is published.

A schema is what Spark would call the columns of the topic, ``symbol STRING NOT NULL, price DOUBLE, desk
STRUCT<region: STRING>``, as far as attributes can hold them and selectors can ask for them. The rest (dates,
decimals, arrays, bytes) is refused where the topic is declared, with a word what to use instead.

An attribute that is missing is null; null is allowed unless the column is NOT NULL; an attribute that is no
column is an error. Tokens are read by sqlglot; a test of each column is made when the schema is, so that an
event costs a lookup and a test for each of its attributes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NoReturn, TypeAlias

from sqlglot import tokenize
from sqlglot.errors import SqlglotError

from gapless.core.attributes import COUNT_MAX, INT_MAX, INT_MIN, NAME_MAX, NESTING_MAX, check_attributes

__all__ = ["Column", "Schema", "SchemaError", "check_attributes"]

TEXT_MAX = 8_192
"""Characters of a schema."""

_SHORT = 128
"""Texts of so many characters, in all columns that a schema can have, are not too much for an event."""

Test: TypeAlias = Callable[[Any], bool]

_FLOAT_MAX = 3.4028234663852886e38
_INFINITY = float("inf")

_INTEGERS = {"TINYINT": 8, "SMALLINT": 16, "INT": 32, "BIGINT": 64}
_SYNONYMS = {"BYTE": "TINYINT", "SHORT": "SMALLINT", "INTEGER": "INT", "LONG": "BIGINT", "REAL": "FLOAT"}
_REFUSED = {
    **dict.fromkeys(
        ("DATE", "TIMESTAMP", "TIMESTAMP_NTZ", "TIMESTAMP_LTZ", "TIME"),
        "selectors compare no dates; use BIGINT (microseconds) or STRING (ISO 8601)",
    ),
    **dict.fromkeys(
        ("DECIMAL", "DEC", "NUMERIC"),
        "attributes hold no decimals; use DOUBLE, or BIGINT of the smallest unit",
    ),
    **dict.fromkeys(
        ("ARRAY", "MAP", "VARIANT"), "attributes are single values or structs; put it into the payload"
    ),
    "BINARY": "attributes hold no bytes; put them into the payload",
    **dict.fromkeys(("VARCHAR", "CHAR", "CHARACTER"), "use STRING"),
    "INTERVAL": "use BIGINT (microseconds)",
    "VOID": "a column that is always null says nothing",
}
_TYPES = ("STRING", "BOOLEAN", *_INTEGERS, "FLOAT", "DOUBLE")


class SchemaError(ValueError):
    """The text is no schema. Says what is wrong, and where: ``line`` and ``column`` from 1."""

    def __init__(self, reason: str, text: str, offset: int) -> None:
        self.reason = reason
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - (text.rfind("\n", 0, offset) + 1) + 1
        super().__init__(f"{reason} (line {self.line}, column {self.column})")


@dataclass(frozen=True, slots=True)
class Column:
    """An attribute: name, type (``kind``; ``None``: a struct of ``columns``), whether it must be there."""

    name: str
    kind: str | None
    columns: tuple[Column, ...] = ()
    required: bool = False

    def __str__(self) -> str:
        return f"{_written(self.name)} {self.described}{' NOT NULL' if self.required else ''}"

    @property
    def described(self) -> str:
        """The type, as it is written."""
        return self.kind or f"STRUCT<{', '.join(map(str, self.columns))}>"

    def kinds(self) -> frozenset[type]:
        """The types that a value may have."""
        kinds: dict[str | None, tuple[type, ...]] = {
            "STRING": (str,),
            "BOOLEAN": (bool,),
            "FLOAT": (float, int),
            "DOUBLE": (float, int),
            None: (dict,),
        }
        null = () if self.required else (type(None),)
        return frozenset((*kinds.get(self.kind, (int,)), *null))

    def holds(self) -> Test | None:
        """What a value of such a type must pass to be of the column's type; ``None``: nothing more."""
        match self.kind:
            case "STRING" | "BOOLEAN":
                return None
            case "DOUBLE":
                return _is_number
            case "FLOAT":  # of 32 bits: what is too large for them would become infinite
                return lambda value: _is_number(value) and not _FLOAT_MAX < abs(value) < _INFINITY
            case None:
                return _fitting(self.columns)
            case integer:
                bound = 1 << (_INTEGERS[integer] - 1)
                return lambda value: -bound <= value < bound

    def refusal(self, value: object, path: str) -> Iterator[str]:
        """What is wrong with a value, if anything."""
        named = path + self.name
        if value is None:
            if self.required:
                yield f"attribute {named!r} must not be null or missing ({self.described} NOT NULL)"
        elif self.kind is None and type(value) is dict:
            yield from _refusals(self.columns, value, f"{named}.")
        else:
            holds = self.holds()
            if type(value) not in self.kinds() or (holds is not None and not holds(value)):
                yield f"attribute {named!r} must be {self.described}, not {_shown(value)}"


def _is_number(value: float) -> bool:
    """Whether it is one that an event may have: integers have 64 bits, wherever they stand."""
    return type(value) is not int or INT_MIN <= value <= INT_MAX


def _fitting(columns: tuple[Column, ...]) -> Test:
    """The test of all attributes at once: each has a column and fits it, and none is missing."""
    find = {column.name: column.kinds() for column in columns}.get
    nothing = frozenset[type]()
    required = tuple(column.name for column in columns if column.required)
    further = tuple((column.name, holds) for column in columns if (holds := column.holds()) is not None)

    def fits(attributes: Mapping[str, Any]) -> bool:
        for name, value in attributes.items():
            if type(value) not in find(name, nothing):
                return False
        for name in required:
            if name not in attributes:
                return False
        for name, holds in further:
            value = attributes.get(name)
            if value is not None and not holds(value):
                return False
        return True

    return fits


def _refusals(columns: tuple[Column, ...], attributes: Mapping[str, object], path: str) -> Iterator[str]:
    by_name = {column.name: column for column in columns}
    for name in attributes:
        if name not in by_name:
            yield f"there is no attribute {path + str(name)!r} in the schema ({', '.join(by_name)[:200]})"
    for column in columns:
        yield from column.refusal(attributes.get(column.name), path)


def _shown(value: object) -> str:
    """A value and its type, for a message."""
    if type(value) is int and value.bit_length() > 128:
        return f"an integer of {value.bit_length()} bits"
    text = ascii(value) if type(value) in (str, int, float, bool) else ""
    return f"{text[:40]} of type {type(value).__name__}".strip()


class Schema:
    """What attributes the events of a topic have. ``str`` gives it in one way of writing."""

    __slots__ = ("_fits", "columns")

    def __init__(self, columns: tuple[Column, ...]) -> None:
        self.columns = columns
        self._fits = _fitting(columns)

    @staticmethod
    @lru_cache(maxsize=256)
    def parse(text: str) -> Schema:
        """Read Spark DDL; a ``SchemaError`` says what is wrong with it and where."""
        return Schema(_Reader(text).columns())

    def check(self, attributes: Mapping[str, object]) -> str | None:
        """What is wrong with the attributes of an event; ``None``: nothing."""
        if not self._fits(attributes):
            return next(_refusals(self.columns, attributes, ""))
        for value in attributes.values():
            if type(value) is str:
                if len(value) > _SHORT or not value.isascii():
                    return check_attributes(attributes)
            elif type(value) is dict:
                return check_attributes(attributes)
        return None

    def __str__(self) -> str:
        return ", ".join(map(str, self.columns))


def _written(name: str) -> str:
    plain = name.isascii() and name.isidentifier()
    return name if plain else f"`{name.replace('`', '``')}`"


@dataclass(frozen=True, slots=True)
class _Token:
    text: str
    start: int
    end: int
    quote: str = ""


class _Reader:
    """Reads ``name type [NOT NULL] [COMMENT '…'], …`` from the tokens of a text."""

    def __init__(self, text: str) -> None:
        self._text = text
        if len(text) > TEXT_MAX:
            self._fail(f"a schema has at most {TEXT_MAX:,} characters, not {len(text):,}", 0)
        if not text.isascii():
            self._check_characters()
        self._tokens = list(self._read())
        self._place = 0
        self._count = 0

    def _check_characters(self) -> None:
        """What cannot be sent cannot be declared."""
        try:
            self._text.encode()
        except UnicodeEncodeError as error:
            self._fail("half a surrogate pair is no character", error.start)

    def _read(self) -> Iterator[_Token]:
        """The tokens; between them is nothing but white space, so there are no comments."""
        text = self._text
        try:
            found = tokenize(text, read="spark")
        except SqlglotError:
            self._fail("a quote is not closed, or there is a character that means nothing here", 0)
        end = 0
        for each in found:
            self._check_gap(end, each.start)
            end = each.end + 1
            written = text[each.start : end]
            quote = written[0] if written[0] in "`'\"" else ""
            yield _Token(each.text if quote else written, each.start, end, quote)
        self._check_gap(end, len(text))

    def _check_gap(self, start: int, end: int) -> None:
        skipped = self._text[start:end].lstrip()
        if skipped:
            self._fail(f"{skipped[:20].rstrip()!r} is not part of a schema", end - len(skipped))

    def _fail(self, reason: str, offset: int | None = None) -> NoReturn:
        raise SchemaError(reason, self._text, self._next.start if offset is None else offset)

    @property
    def _next(self) -> _Token:
        size = len(self._text)
        return self._tokens[self._place] if self._place < len(self._tokens) else _Token("", size, size)

    def _found(self) -> str:
        return repr(self._next.text[:20]) if self._next.text else "the end"

    def _accept(self, word: str) -> bool:
        token = self._next
        found = not token.quote and token.text.upper() == word
        self._place += found
        return found

    def _expect(self, word: str) -> None:
        if not self._accept(word):
            self._fail(f"expected {word}, found {self._found()}")

    def columns(self, closing: str = "", level: int = 1) -> tuple[Column, ...]:
        """All columns up to the closing sign."""
        if level > NESTING_MAX:
            self._fail(f"structs are nested at most {NESTING_MAX - 1} deep")
        found: dict[str, Column] = {}
        while True:
            start = self._next.start
            column = self._column(level)
            if column.name.lower() in found:  # Spark takes them for one
                self._fail(f"there are two columns {column.name!r}", start)
            found[column.name.lower()] = column
            self._count += 1
            if self._count > COUNT_MAX:
                self._fail(f"a schema has at most {COUNT_MAX} columns, those of structs included", start)
            if not self._accept(","):
                break
        if self._next.text != closing or self._next.quote:
            self._fail(f"expected a comma or {closing or 'the end'}, found {self._found()}")
        self._place += bool(closing)
        return tuple(found.values())

    def _column(self, level: int) -> Column:
        name = self._name()
        if level > 1:
            self._accept(":")
        kind, columns = self._type(level)
        required = self._accept("NOT")
        if required:
            self._expect("NULL")
        if self._accept("COMMENT"):
            if self._next.quote not in ("'", '"'):
                self._fail("a comment is a text in quotes")
            self._place += 1
        return Column(name, kind, columns, required)

    def _name(self) -> str:
        token = self._next
        is_name = token.quote == "`" or (not token.quote and token.text.isidentifier())
        if not is_name or not 0 < len(token.text) <= NAME_MAX:
            self._fail(f"expected the name of a column, found {self._found()}")
        self._place += 1
        return token.text

    def _type(self, level: int) -> tuple[str | None, tuple[Column, ...]]:
        token, found = self._next, self._found()
        word = token.text.upper() if not token.quote else ""
        kind = _SYNONYMS.get(word, word)
        if kind in _REFUSED:
            self._fail(f"{word} cannot be the type of a column: {_REFUSED[kind]}")
        self._place += 1
        if kind == "STRUCT":
            self._expect("<")
            return None, self.columns(">", level + 1)
        if kind not in _TYPES:
            known = f"{', '.join(_TYPES)} or STRUCT<…>"
            self._fail(f"expected a type ({known}), found {found}", token.start)
        return kind, ()
