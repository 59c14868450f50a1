"""Items in the order of a bound, to take all up to a value or all beyond it in one go.

A sorted list, and when it becomes long a sorted list of such lists: then adding or removing moves the items
of one list only. Among equal bounds items are in the order of their numbers, so that one of thousands with
the same bound is found by bisection too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import Generic, Protocol, TypeVar

from gapless.matching.predicates import Bound


class Numbered(Protocol):
    """An item; items are added in the order of their numbers."""

    @property
    def number(self) -> int:
        """Unique among the items of one index."""


T = TypeVar("T", bound=Numbered)

PIECE_MAX = 1024


class Ladder(Generic[T]):
    """A list of (bound, item), sorted by the bound.

    While ``pieces`` is ``None``, ``bounds`` and ``items`` are what there is. Else it is in the pieces, and
    ``bounds`` says where they start: no bound in a piece is less than its start or greater than the next.
    """

    __slots__ = ("bounds", "items", "pieces")

    def __init__(self, bounds: list[Bound] | None = None, items: list[T] | None = None) -> None:
        self.bounds: list[Bound] = bounds or []
        self.items: list[T] = items or []
        self.pieces: list[Ladder[T]] | None = None

    def __len__(self) -> int:
        return len(self.items) if self.pieces is None else sum(map(len, self.pieces))

    def __bool__(self) -> bool:
        return bool(self.bounds)

    def __iter__(self) -> Iterator[tuple[Bound, T]]:
        if self.pieces is None:
            yield from zip(self.bounds, self.items, strict=True)
        else:
            for piece in self.pieces:
                yield from piece

    def add(self, bound: Bound, item: T) -> None:
        """Put in an item whose number is greater than that of all others with its bound."""
        at = bisect_right(self.bounds, bound)
        if self.pieces is None:
            self.bounds.insert(at, bound)
            self.items.insert(at, item)
            if len(self.items) > 2 * PIECE_MAX:
                self.pieces = [Ladder(self.bounds, self.items)]
                self.bounds, self.items = self.bounds[:1], []
                self._halve(0)
            return
        at = max(at - 1, 0)
        self.pieces[at].add(bound, item)
        self.bounds[at] = min(self.bounds[at], bound)
        if len(self.pieces[at].items) > PIECE_MAX:
            self._halve(at)

    def _halve(self, at: int) -> None:
        """Make two pieces of one."""
        assert self.pieces is not None
        bounds, items = self.pieces[at].bounds, self.pieces[at].items
        half = len(items) // 2
        self.pieces[at : at + 1] = Ladder(bounds[:half], items[:half]), Ladder(bounds[half:], items[half:])
        self.bounds.insert(at + 1, bounds[half])

    def remove(self, bound: Bound, item: T) -> None:
        """Take out an item that is there."""
        sought = (bound, item.number)
        if self.pieces is None:
            at = bisect_left(range(len(self.items)), sought, key=self._rung)
            if at == len(self.items) or self.items[at] is not item:
                raise KeyError(item)
            del self.bounds[at], self.items[at]
            return
        pieces = self.pieces
        at = bisect_left(range(len(pieces) - 1), sought, key=lambda piece: pieces[piece]._rung(-1))
        pieces[at].remove(bound, item)
        if not pieces[at]:
            del pieces[at], self.bounds[at]
            self.pieces = pieces or None

    def _rung(self, at: int) -> tuple[Bound, int]:
        return self.bounds[at], self.items[at].number

    def up_to(self, value: Bound, found: list[T]) -> None:
        """Append all with a bound up to this value."""
        at = bisect_right(self.bounds, value)
        if self.pieces is None:
            found += self.items[:at]
        elif at:
            for piece in self.pieces[: at - 1]:
                found += piece.items
            self.pieces[at - 1].up_to(value, found)

    def beyond(self, value: Bound, found: list[T]) -> None:
        """Append all with a bound greater than this value."""
        at = bisect_right(self.bounds, value)
        if self.pieces is None:
            found += self.items[at:]
            return
        if at:
            self.pieces[at - 1].beyond(value, found)
        for piece in self.pieces[at:]:
            found += piece.items
