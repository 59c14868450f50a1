"""Items in the order of a bound, to take all up to a value or all beyond it in one go.

A sorted list cut into pieces: adding or removing moves at most one piece's items, and a query copies whole
pieces. Among equal bounds items are in the order of their numbers, so that one of thousands with the same
bound is found by bisection too.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator
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
    """A list of (bound, item), sorted by the bound."""

    __slots__ = ("_bounds", "_items", "_starts")

    def __init__(self, pairs: Iterable[tuple[Bound, T]] = ()) -> None:
        ordered = sorted(pairs, key=lambda pair: (pair[0], pair[1].number))
        pieces = [ordered[at : at + PIECE_MAX // 2] for at in range(0, len(ordered), PIECE_MAX // 2)]
        self._bounds: list[list[Bound]] = [[bound for bound, _ in piece] for piece in pieces]
        self._items: list[list[T]] = [[item for _, item in piece] for piece in pieces]
        # No bound of a piece is less than the start of its piece or greater than the start of the next.
        self._starts: list[Bound] = [bounds[0] for bounds in self._bounds]

    def __len__(self) -> int:
        return sum(map(len, self._items))

    def __bool__(self) -> bool:
        return bool(self._items)

    def __iter__(self) -> Iterator[tuple[Bound, T]]:
        for bounds, items in zip(self._bounds, self._items, strict=True):
            yield from zip(bounds, items, strict=True)

    def add(self, bound: Bound, item: T) -> None:
        """Put in an item whose number is greater than that of all others with its bound."""
        if not self._starts:
            self._starts, self._bounds, self._items = [bound], [[bound]], [[item]]
            return
        at = max(bisect_right(self._starts, bound) - 1, 0)
        bounds, items = self._bounds[at], self._items[at]
        place = bisect_right(bounds, bound)
        bounds.insert(place, bound)
        items.insert(place, item)
        self._starts[at] = min(self._starts[at], bound)
        if len(bounds) > PIECE_MAX:
            half = len(bounds) // 2
            self._starts.insert(at + 1, bounds[half])
            self._bounds[at : at + 1] = bounds[:half], bounds[half:]
            self._items[at : at + 1] = items[:half], items[half:]

    def remove(self, bound: Bound, item: T) -> None:
        """Take out an item that is there."""
        sought = (bound, item.number)
        at = bisect_left(
            range(len(self._items)),
            sought,
            key=lambda piece: (self._bounds[piece][-1], self._items[piece][-1].number),
        )
        bounds, items = self._bounds[at], self._items[at]
        place = bisect_left(range(len(items)), sought, key=lambda place: (bounds[place], items[place].number))
        if items[place] is not item:
            raise KeyError(item)
        del bounds[place], items[place]
        if not items:
            del self._bounds[at], self._items[at], self._starts[at]

    def up_to(self, value: Bound, found: list[T]) -> None:
        """Append all with a bound up to this value."""
        if not self._starts or value < self._starts[0]:
            return
        at = bisect_right(self._starts, value) - 1
        if at:
            for piece in self._items[:at]:
                found += piece
        found += self._items[at][: bisect_right(self._bounds[at], value)]

    def beyond(self, value: Bound, found: list[T]) -> None:
        """Append all with a bound greater than this value."""
        at = bisect_right(self._starts, value) - 1
        if at >= 0:
            found += self._items[at][bisect_right(self._bounds[at], value) :]
        for piece in self._items[at + 1 :]:
            found += piece
