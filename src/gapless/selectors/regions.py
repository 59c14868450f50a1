"""Sets of values of one attribute, exact under intersection and difference.

An attribute is null, a boolean, a number, a string, or something *opaque* that compares with nothing (a
mapping, a list, NaN). Numbers and strings are ordered; sets of them are sorted tuples of disjoint intervals.
An end of an interval is a *cut*, a place just before or just after a value, so that no case distinction
between open and closed ends is needed: ``x >= 5`` begins before 5, ``x > 5`` after 5. A prefix is an
interval too, from itself up to its successor.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from gapless.selectors.evaluation import kind
from gapless.selectors.normal import NoneOf, NotNull, Null, OneOf, Prefix, Range, successor
from gapless.selectors.tree import Value

Cut: TypeAlias = tuple[int, int | float | str, bool]
"""(-1, …) before everything, (1, …) after everything, (0, value, False) before a value, True after it."""
Interval: TypeAlias = tuple[Cut, Cut]
Intervals: TypeAlias = tuple[Interval, ...]

_BOTTOM: Cut = (-1, 0, False)
_TOP: Cut = (1, 0, False)
_LINE: Intervals = ((_BOTTOM, _TOP),)
_BOTH = frozenset((False, True))


@dataclass(frozen=True, slots=True)
class Region:
    """A set of values of one attribute."""

    null: bool = False
    opaque: bool = False
    booleans: frozenset[bool] = frozenset()
    numbers: Intervals = ()
    strings: Intervals = ()

    def __bool__(self) -> bool:
        return self.null or self.opaque or bool(self.booleans or self.numbers or self.strings)

    def __and__(self, other: Region) -> Region:
        return Region(
            self.null and other.null,
            self.opaque and other.opaque,
            self.booleans & other.booleans,
            _meet(self.numbers, other.numbers),
            _meet(self.strings, other.strings),
        )

    def __sub__(self, other: Region) -> Region:
        return Region(
            self.null and not other.null,
            self.opaque and not other.opaque,
            self.booleans - other.booleans,
            _meet(self.numbers, _complement(other.numbers)),
            _meet(self.strings, _complement(other.strings)),
        )


NULL = Region(null=True)
OPAQUE = Region(opaque=True)
NOT_NULL = Region(opaque=True, booleans=_BOTH, numbers=_LINE, strings=_LINE)
EVERYTHING = Region(null=True, opaque=True, booleans=_BOTH, numbers=_LINE, strings=_LINE)


def region(test: OneOf | NoneOf | Range | Prefix | Null | NotNull) -> Region:
    """The values for which a test holds."""
    match test:
        case OneOf(_, values):
            return _points(values)
        case NoneOf(_, values):
            whole = Region(strings=_LINE) if kind(values[0]) is str else Region(numbers=_LINE)
            return whole - _points(values)
        case Range(_, low, high, low_included, high_included):
            start = _BOTTOM if low is None else _cut(low, not low_included)
            end = _TOP if high is None else _cut(high, high_included)
            intervals = ((start, end),) if start < end else ()
            of_strings = isinstance(high if low is None else low, str)
            return Region(strings=intervals) if of_strings else Region(numbers=intervals)
        case Prefix(_, text):
            after = successor(text)
            return Region(strings=((_cut(text, False), _TOP if after is None else _cut(after, False)),))
        case Null():
            return NULL
        case NotNull():
            return NOT_NULL


def _cut(value: int | float | str, after: bool) -> Cut:
    """Just before or after a value; nothing is before the empty string."""
    return _BOTTOM if value == "" and not after else (0, value, after)


def _points(values: Iterable[Value]) -> Region:
    """Single values."""
    booleans, numbers, strings = set(), set(), set()
    for value in values:
        if isinstance(value, bool):
            booleans.add(value)
        elif isinstance(value, str):
            strings.add(value)
        else:
            numbers.add(value)
    return Region(
        booleans=frozenset(booleans),
        numbers=tuple((_cut(value, False), _cut(value, True)) for value in sorted(numbers)),
        strings=tuple((_cut(value, False), _cut(value, True)) for value in sorted(strings)),
    )


def _meet(left: Intervals, right: Intervals) -> Intervals:
    """What is in both, by one walk along both."""
    if left is right or right is _LINE:
        return left
    result: list[Interval] = []
    one = two = 0
    while one < len(left) and two < len(right):
        start = max(left[one][0], right[two][0])
        end = min(left[one][1], right[two][1])
        if start < end:
            result.append((start, end))
        if left[one][1] < right[two][1]:
            one += 1
        else:
            two += 1
    return tuple(result)


def _complement(intervals: Intervals) -> Intervals:
    """The gaps between the intervals, and before and after them."""
    starts = [_BOTTOM, *(end for _, end in intervals)]
    ends = [*(start for start, _ in intervals), _TOP]
    return tuple((start, end) for start, end in zip(starts, ends, strict=True) if start < end)
