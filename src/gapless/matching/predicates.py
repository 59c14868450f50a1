"""The tests of a conjunction, compiled: small values that answer on a reading.

They say the same as the tests of the normal form (``gapless.selectors.normal``), in the form that is
cheapest to check: attributes are keys of a reading, booleans are marks, and every range is half-open. Equal
predicates accept the same events, so subscriptions that mean the same share one clause.

``holds`` asks about an event, ``accepts`` about one value of the attribute. ``holds`` is where the index
spends its time on candidates, so it is written out in each class.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from gapless.matching.reading import Key, Known, Reading
from gapless.selectors.evaluation import Predicate as Evaluation
from gapless.selectors.evaluation import compiled
from gapless.selectors.tree import Condition

Bound: TypeAlias = Any
"""A number or a string; the bounds in one place are all numbers or all strings."""

EXACT_MAX = 2**53
"""Up to it every integer is a float; beyond it every float is an integer."""


def next_above(value: Bound) -> Bound | None:
    """The least value greater than this one; ``None`` when there is none (above infinity).

    With it every range becomes "from low, and below high", exactly. No string is between a text and that
    text followed by the code point 0. No float is between a float and its neighbour, and no integer either,
    unless the two are so large that all floats are integers.
    """
    if isinstance(value, str):
        return value + "\0"
    if -EXACT_MAX < value < EXACT_MAX:
        return math.nextafter(value, math.inf)
    if value == math.inf:
        return None
    return int(value) + 1


@dataclass(frozen=True, slots=True)
class Among:
    """The value is one of these."""

    key: Key
    values: tuple[Known, ...]

    def holds(self, reading: Reading) -> bool:
        """Whether the event passes."""
        return reading.get(self.key) in self.values

    def accepts(self, value: Known) -> bool:
        """Whether this value passes."""
        return value in self.values


@dataclass(frozen=True, slots=True)
class Numbers:
    """The value is a number, at least ``low`` and below ``high`` (``None``: no bound)."""

    key: Key
    low: int | float
    high: int | float | None

    def holds(self, reading: Reading) -> bool:
        """Whether the event passes."""
        value = reading.get(self.key)
        kind = type(value)
        if kind is not float and kind is not int:
            return False
        return self.low <= value and (self.high is None or value < self.high)  # type: ignore[operator]

    def accepts(self, value: Known) -> bool:
        """Whether this value passes."""
        if not isinstance(value, (int, float)):
            return False
        return self.low <= value and (self.high is None or value < self.high)


@dataclass(frozen=True, slots=True)
class Strings:
    """The value is a string, at least ``low`` and below ``high`` (``None``: no bound)."""

    key: Key
    low: str
    high: str | None

    def holds(self, reading: Reading) -> bool:
        """Whether the event passes."""
        value = reading.get(self.key)
        return type(value) is str and self.low <= value and (self.high is None or value < self.high)

    def accepts(self, value: Known) -> bool:
        """Whether this value passes."""
        return isinstance(value, str) and self.low <= value and (self.high is None or value < self.high)


@dataclass(frozen=True, slots=True)
class Beginning:
    """The value is a string that begins with ``text``."""

    key: Key
    text: str

    def holds(self, reading: Reading) -> bool:
        """Whether the event passes."""
        value = reading.get(self.key)
        return type(value) is str and value.startswith(self.text)

    def accepts(self, value: Known) -> bool:
        """Whether this value passes."""
        return isinstance(value, str) and value.startswith(self.text)


@dataclass(frozen=True, slots=True)
class Absent:
    """The attribute is missing or null."""

    key: Key

    def holds(self, reading: Reading) -> bool:
        """Whether the event passes."""
        return self.key not in reading

    def accepts(self, value: Known) -> bool:
        """Whether this value passes: none does."""
        return False


@dataclass(frozen=True, slots=True)
class Present:
    """The attribute is there and not null."""

    key: Key

    def holds(self, reading: Reading) -> bool:
        """Whether the event passes."""
        return self.key in reading

    def accepts(self, value: Known) -> bool:
        """Whether this value passes: each does."""
        return True


@dataclass(frozen=True, slots=True)
class Outside:
    """The value is a number (``text``: a string), and none of these."""

    key: Key
    text: bool
    values: tuple[Known, ...]

    def holds(self, reading: Reading) -> bool:
        """Whether the event passes."""
        value = reading.get(self.key)
        return value is not None and self.accepts(value)

    def accepts(self, value: Known) -> bool:
        """Whether this value passes."""
        return isinstance(value, str if self.text else (int, float)) and value not in self.values


@dataclass(frozen=True, slots=True)
class Evaluated:
    """Any other condition, evaluated as it stands: true, or (``negated``) false."""

    condition: Condition
    negated: bool
    _evaluation: Evaluation = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_evaluation", compiled(self.condition, self.negated))

    def __reduce__(self) -> tuple[type[Evaluated], tuple[Condition, bool]]:
        return Evaluated, (self.condition, self.negated)  # a compiled function cannot be pickled

    def holds(self, reading: Reading) -> bool:
        """Whether the event passes."""
        return self._evaluation(reading.attributes)


Simple: TypeAlias = Among | Numbers | Strings | Beginning | Absent | Present | Outside
"""About one attribute."""
Predicate: TypeAlias = Simple | Evaluated
