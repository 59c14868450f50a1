"""The ranges that clauses ask of one attribute: intervals, and those that have no end."""

from __future__ import annotations

from typing import Generic

from gapless.matching.intervals import Intervals
from gapless.matching.ladder import Ladder, T
from gapless.matching.predicates import Bound


class Ranges(Generic[T]):
    """Items, each with a half-open range."""

    __slots__ = ("_endless", "_intervals")

    def __init__(self) -> None:
        self._endless: Ladder[T] = Ladder()
        self._intervals: Intervals[T] = Intervals()

    def __bool__(self) -> bool:
        return bool(self._endless or self._intervals)

    def add(self, low: Bound, high: Bound | None, item: T) -> None:
        """Put in an item whose number is greater than that of all others."""
        if high is None:
            self._endless.add(low, item)
        else:
            self._intervals.add(low, high, item)

    def remove(self, low: Bound, high: Bound | None, item: T) -> None:
        """Take out an item that is there."""
        if high is None:
            self._endless.remove(low, item)
        else:
            self._intervals.remove(low, high, item)

    def stab(self, value: Bound) -> list[T]:
        """The items whose range contains the value."""
        found: list[T] = []
        self._intervals.stab(value, found)
        self._endless.up_to(value, found)
        return found
