"""What the attributes of an event may be.

What a selector can ask for and what every language and store can hold: text, booleans, integers of 64 bits,
floats, null, and structs of these, a few levels deep. Everything else belongs into the payload. An event is
checked where it is published, and by the type ``Attributes`` wherever it is decoded: what can just be decoded
at one depth of the stack may be too deep to be encoded again at another, and would harm every broker.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import msgspec

NESTING_MAX = 8
"""Levels, the attributes of the event themselves included."""
COUNT_MAX = 256
"""Attributes of an event, and of each struct."""
NAME_MAX = 255
SIZE_MAX = 65_536
"""Bytes of all names and texts of an event; every other value counts for eight."""

INT_MIN, INT_MAX = -(1 << 63), (1 << 63) - 1

_VALUE_SIZE = 8

if TYPE_CHECKING:
    Attributes: TypeAlias = dict[str, Any]
else:  # a type of so many levels can only be written by a loop
    _Plain = str | Annotated[int, msgspec.Meta(ge=INT_MIN, le=INT_MAX)] | float | bool | None
    Attributes = dict[str, _Plain]
    for _ in range(NESTING_MAX - 1):
        Attributes = dict[str, _Plain | Attributes]


def check_attributes(attributes: Mapping[str, object]) -> str | None:
    """What is wrong with the attributes of an event; ``None``: nothing."""
    if type(attributes) is not dict:
        return f"attributes are a dict, not {_described(attributes)}"
    if 0 <= _plain_size(attributes, 1) <= SIZE_MAX:
        return None
    return next(_flaws(attributes, "", 1), None) or _oversize(attributes)


def _plain_size(struct: dict[str, Any], level: int) -> int:
    """The size of attributes without a flaw, if that can be told fast; -1 otherwise."""
    if len(struct) > COUNT_MAX or level > NESTING_MAX:
        return -1
    size = _names_size(tuple(struct))
    if size < 0:
        return -1
    for value in struct.values():
        kind = type(value)
        if kind is str:
            if not value.isascii():
                return -1
            size += len(value)
        elif kind is float or kind is bool or value is None or (kind is int and INT_MIN <= value <= INT_MAX):
            size += _VALUE_SIZE
        elif kind is dict:
            inner = _plain_size(value, level + 1)
            if inner < 0:
                return -1
            size += inner
        else:
            return -1
    return size


@lru_cache(maxsize=1024)
def _names_size(names: tuple[object, ...]) -> int:
    """The same of names alone: a publisher's events mostly have the same ones."""
    size = 0
    for name in names:
        if type(name) is not str or not name.isascii() or not 0 < len(name) <= NAME_MAX:
            return -1
        size += len(name)
    return size


def _flaws(struct: dict[Any, Any], path: str, level: int) -> Iterator[str]:
    """What is wrong, in words."""
    if level > NESTING_MAX:
        yield f"attribute {path[:-1]!r} is nested more than {NESTING_MAX} levels deep"
        return
    if len(struct) > COUNT_MAX:
        yield f"an event or a struct has at most {COUNT_MAX} attributes, not {len(struct)}"
    for name, value in struct.items():
        if _text_size(name) is None or not 0 < len(name) <= NAME_MAX:
            yield f"{_shown(name)} is no name of an attribute: that is a text of 1 to {NAME_MAX} characters"
        elif type(value) is dict:
            yield from _flaws(value, f"{path}{name}.", level + 1)
        elif not _is_value(value):
            yield f"attribute {path + name!r} {_refusal(value)}"


def _oversize(attributes: dict[str, Any]) -> str | None:
    size = _size(attributes)
    if size <= SIZE_MAX:
        return None
    return f"the attributes of an event have at most {SIZE_MAX:,} bytes, not {size:,}; use the payload"


def _size(struct: dict[str, Any]) -> int:
    """The size of attributes without a flaw."""
    size = 0
    for name, value in struct.items():
        size += len(name.encode())
        if type(value) is dict:
            size += _size(value)
        else:
            size += len(value.encode()) if type(value) is str else _VALUE_SIZE
    return size


def _text_size(text: object) -> int | None:
    """In bytes; ``None`` for what is no text, and for text that cannot be sent."""
    if type(text) is not str:
        return None
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        return None


def _is_value(value: object) -> bool:
    kind = type(value)
    if kind is int:
        return INT_MIN <= value <= INT_MAX  # type: ignore[operator]
    return kind is float or kind is bool or value is None or _text_size(value) is not None


def _refusal(value: object) -> str:
    if type(value) is int:
        return f"is an integer of more than 64 bits: {_shown(value)}"
    if type(value) is str:
        return "has half a surrogate pair, which is no character"
    return f"is {_described(value)}, not a text, a boolean, a number, null or a dict of these"


def _described(value: object) -> str:
    return f"of type {type(value).__name__}"


def _shown(value: object) -> str:
    """A value for a message, short and printable."""
    if type(value) is int:
        return str(value) if value.bit_length() <= 128 else f"{value.bit_length()} bits"
    return ascii(value)[:60] if type(value) is str else _described(value)
