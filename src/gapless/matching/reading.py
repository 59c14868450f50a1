"""What the index needs to know of an event, taken out of its attributes once.

A *reading* maps the attributes that some subscription asks for to values that Python compares and hashes as
selectors do: ``1`` and ``1.0`` are equal, ``True`` is not ``1`` (it is read as a mark of its own), NaN and
everything that equals nothing (bytes, lists, nested attributes as a whole) is one opaque mark. What is null
or missing is not in the reading at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import isnan
from typing import TypeAlias

from gapless.selectors.evaluation import attribute
from gapless.selectors.tree import Path


class Mark:
    """A value that equals nothing but itself."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> str:
        return self.name  # pickled as the name of a global, so a copy is the same mark


TRUE = Mark("TRUE")
FALSE = Mark("FALSE")
OPAQUE = Mark("OPAQUE")

Known: TypeAlias = str | int | float | Mark

Key: TypeAlias = str | Path
"""An attribute: its name, or its path when it is nested. A string has its hash at hand, a tuple has not."""


def key_of(path: Path) -> Key:
    """The key of a path in readings."""
    return path[0] if len(path) == 1 else path


def path_of(key: Key) -> Path:
    """The path of a key."""
    return (key,) if isinstance(key, str) else key


def known(value: object) -> Known | None:
    """The value as a reading has it; ``None`` for null. Like selectors, it looks at exact types."""
    kind = type(value)
    if kind is str or kind is int:
        return value  # type: ignore[return-value]
    if kind is float:
        return OPAQUE if isnan(value) else value  # type: ignore[arg-type, return-value]
    if kind is bool:
        return TRUE if value else FALSE
    return None if value is None else OPAQUE


class Reading(dict[Key, Known]):
    """The attributes in use of one event, and the event's attributes themselves for any other condition."""

    __slots__ = ("attributes",)

    attributes: Mapping[str, object]


class Attributes:
    """Which attributes are in use, by how many clauses; so an event is only read as far as it matters."""

    __slots__ = ("_names", "_paths")

    def __init__(self) -> None:
        self._names: dict[str, int] = {}
        self._paths: dict[Path, int] = {}

    def __len__(self) -> int:
        return len(self._names) + len(self._paths)

    def __bool__(self) -> bool:
        return len(self) > 0

    def use(self, key: Key) -> None:
        """One more use of an attribute."""
        uses: dict[Key, int] = self._names if isinstance(key, str) else self._paths  # type: ignore[assignment]
        uses[key] = uses.get(key, 0) + 1

    def release(self, key: Key) -> bool:
        """One use less; whether there still is one."""
        uses: dict[Key, int] = self._names if isinstance(key, str) else self._paths  # type: ignore[assignment]
        uses[key] -= 1
        if uses[key]:
            return True
        del uses[key]
        return False

    def read(self, attributes: Mapping[str, object]) -> Reading:
        """The reading of an event."""
        reading = Reading()
        reading.attributes = attributes
        names, plain = self._names, type(attributes) is dict
        if plain:
            for name in (
                names if len(names) < len(attributes) else [each for each in attributes if each in names]
            ):
                value = attributes.get(name)
                kind = type(value)
                if kind is str or kind is int or (kind is float and not isnan(value)):  # type: ignore[arg-type]
                    reading[name] = value  # type: ignore[assignment]
                elif value is not None:
                    reading[name] = known(value)  # type: ignore[assignment]
        else:
            for name in names:
                self._note(reading, name, attribute(attributes, (name,)))
        for path in self._paths:
            if not plain or path[0] in attributes:
                self._note(reading, path, attribute(attributes, path))
        return reading

    @staticmethod
    def _note(reading: Reading, key: Key, value: object) -> None:
        what = known(value)
        if what is not None:
            reading[key] = what
