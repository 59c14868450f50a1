"""Which of many ranges contain a value: a tree of slabs.

A node cuts the line at some ends of its intervals into *slabs*. An interval over several slabs is kept at
the node: in the slab where it starts, in the order of the starts; in the slab where it ends, in the order of
the ends; and in a plain list of each slab that it covers. An interval inside one slab goes down to the
slab's own list, which becomes a node when it grows. So for one value, a node takes one bisection and at
most three runs of sorted lists, and no interval is looked at in vain but a few in the last list. (This is
the external interval tree of Arge and Vitter, in memory.)

Nodes are not balanced while intervals come and go; a node that has grown to four times or shrunk to a
quarter of what it was built with is built anew, which costs O(log n) per change when averaged over many.

All intervals are half-open, ``low <= value < high``, and not empty. Ranges without a high end need no tree,
only the order of their low ends.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter, itemgetter
from typing import Generic, TypeAlias

from gapless.matching.ladder import Ladder, T
from gapless.matching.predicates import Bound

CUTS_MAX = 63
LISTED_MAX = 16
"""Up to so many intervals inside a slab are checked one by one."""

Triple: TypeAlias = tuple[Bound, Bound, T]
"""Low end, high end, item."""

_number = attrgetter("number")


class _List(Generic[T]):
    """A few intervals, in the order of their low ends."""

    __slots__ = ("highs", "items", "lows")

    def __init__(self, triples: list[Triple[T]]) -> None:
        triples = sorted(triples, key=itemgetter(0))
        self.lows: list[Bound] = [low for low, _, _ in triples]
        self.highs: list[Bound] = [high for _, high, _ in triples]
        self.items: list[T] = [item for _, _, item in triples]

    def __len__(self) -> int:
        return len(self.items)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[Triple[T]]:
        return zip(self.lows, self.highs, self.items, strict=True)

    def add(self, low: Bound, high: Bound, item: T) -> None:
        at = bisect_right(self.lows, low)
        self.lows.insert(at, low)
        self.highs.insert(at, high)
        self.items.insert(at, item)

    def remove(self, low: Bound, item: T) -> None:
        at = self.items.index(item, bisect_left(self.lows, low))
        del self.lows[at], self.highs[at], self.items[at]


class _Slab(Generic[T]):
    """What is kept for the values from one cut to the next."""

    __slots__ = ("covering", "ending", "inside", "starting")

    def __init__(self) -> None:
        self.covering: list[T] | None = None
        self.starting: Ladder[T] | None = None
        self.ending: Ladder[T] | None = None
        self.inside: _List[T] | _Node[T] | None = None


class _Node(Generic[T]):
    """Intervals over a number of slabs."""

    __slots__ = ("built", "cuts", "size", "slabs")

    def __init__(self, triples: list[Triple[T]]) -> None:
        """Build the node and all below it, from intervals in the order of their items' numbers."""
        ends = sorted({end for low, high, _ in triples for end in (low, high)})
        if len(ends) > CUTS_MAX:
            # Each slab has a fraction of the ends. With all of them, none would be left inside a slab.
            count = max(min(len(triples) // 8, CUTS_MAX), 2)
            ends = [ends[len(ends) * at // (count + 1)] for at in range(1, count + 1)]
        self.cuts: list[Bound] = ends
        self.slabs: list[_Slab[T] | None] = [None] * (len(ends) + 1)
        self.size = self.built = len(triples)
        inside: dict[_Slab[T], list[Triple[T]]] = {}
        for low, high, item in triples:
            slab = self.keep(low, high, item)
            if slab is not None:
                inside.setdefault(slab, []).append((low, high, item))
        for slab, within in inside.items():
            slab.inside = _inside(within)

    def __len__(self) -> int:
        return self.size

    def __bool__(self) -> bool:
        return len(self) > 0

    def slab(self, at: int) -> _Slab[T]:
        """A slab, made when it is first needed."""
        slab = self.slabs[at]
        if slab is None:
            slab = self.slabs[at] = _Slab()
        return slab

    def place(self, low: Bound, high: Bound) -> tuple[int, int, bool]:
        """The first and last slab of an interval; and whether it is in the inside of one."""
        first, last = bisect_right(self.cuts, low), bisect_left(self.cuts, high)
        if first != last:
            return first, last, False
        covers = 0 < last < len(self.cuts) and self.cuts[first - 1] == low and self.cuts[last] == high
        return first, last, not covers

    def keep(self, low: Bound, high: Bound, item: T) -> _Slab[T] | None:
        """Keep an interval at this node, or say in the inside of which slab it belongs."""
        first, last, inside = self.place(low, high)
        if inside:
            return self.slab(first)
        covered = range(first + 1, last) if first != last else (first,)
        for between in covered:
            slab = self.slab(between)
            if slab.covering is None:
                slab.covering = []
            slab.covering.append(item)
        if first == last:
            return None
        start, end = self.slab(first), self.slab(last)
        if start.starting is None:
            start.starting = Ladder()
        start.starting.add(low, item)
        if end.ending is None:
            end.ending = Ladder()
        end.ending.add(high, item)
        return None

    def drop(self, low: Bound, high: Bound, item: T) -> _Slab[T] | None:
        """Take an interval out of this node, or say in the inside of which slab it is."""
        first, last, inside = self.place(low, high)
        if inside:
            return self.slab(first)
        covered = range(first + 1, last) if first != last else (first,)
        for between in covered:
            slab = self.slab(between)
            assert slab.covering is not None
            _remove(slab.covering, item)
            slab.covering = slab.covering or None
        if first != last:
            start, end = self.slab(first), self.slab(last)
            assert start.starting is not None and end.ending is not None
            start.starting.remove(low, item)
            end.ending.remove(high, item)
            start.starting, end.ending = start.starting or None, end.ending or None
        return None

    def __iter__(self) -> Iterator[Triple[T]]:
        """All intervals, each once."""
        lows: dict[int, Bound] = {}
        for slab in self.slabs:
            if slab is not None and slab.starting is not None:
                lows |= {item.number: low for low, item in slab.starting}
        for at, slab in enumerate(self.slabs):
            if slab is None:
                continue
            yield from slab.inside or ()
            for high, item in slab.ending or ():
                yield lows[item.number], high, item
            for item in slab.covering or ():
                if item.number not in lows:  # it is this slab exactly
                    yield self.cuts[at - 1], self.cuts[at], item


def _remove(items: list[T], item: T) -> None:
    """Take an item out of a list in the order of the numbers."""
    at = bisect_left(items, item.number, key=_number)
    if items[at] is not item:
        raise KeyError(item)
    del items[at]


def _inside(triples: list[Triple[T]]) -> _List[T] | _Node[T] | None:
    """What holds these intervals, which are in the order of their items' numbers."""
    if len(triples) > LISTED_MAX:
        return _Node(triples)
    return _List(triples) if triples else None


def _rebuild(slab: _Slab[T] | Ranges[T]) -> None:
    slab.inside = _inside(sorted(slab.inside or (), key=lambda triple: triple[2].number))


class Ranges(Generic[T]):
    """A collection of items, each with a range."""

    __slots__ = ("_endless", "inside")

    def __init__(self) -> None:
        self._endless: Ladder[T] | None = None
        self.inside: _List[T] | _Node[T] | None = None

    def __len__(self) -> int:
        return len(self._endless or ()) + len(self.inside or ())

    def __bool__(self) -> bool:
        return len(self) > 0

    def add(self, low: Bound, high: Bound | None, item: T) -> None:
        """Put in an item whose number is greater than that of all others."""
        if high is None:
            if self._endless is None:
                self._endless = Ladder()
            self._endless.add(low, item)
            return
        slab: _Slab[T] | Ranges[T] | None = self
        outgrown: _Slab[T] | Ranges[T] | None = None
        while slab is not None:
            inside = slab.inside
            if isinstance(inside, _Node):
                inside.size += 1
                if outgrown is None and inside.size > 4 * inside.built:
                    outgrown = slab
                slab = inside.keep(low, high, item)
                continue
            if inside is None:
                slab.inside = inside = _List([])
            inside.add(low, high, item)
            if outgrown is None and len(inside) > LISTED_MAX:
                outgrown = slab
            break
        if outgrown is not None:
            _rebuild(outgrown)

    def remove(self, low: Bound, high: Bound | None, item: T) -> None:
        """Take out an item that is there."""
        if high is None:
            if self._endless is None:
                raise KeyError(item)
            self._endless.remove(low, item)
            self._endless = self._endless or None
            return
        slab: _Slab[T] | Ranges[T] | None = self
        outgrown: _Slab[T] | Ranges[T] | None = None
        while slab is not None:
            inside = slab.inside
            if isinstance(inside, _Node):
                inside.size -= 1
                if outgrown is None and 4 * inside.size < inside.built:
                    outgrown = slab
                slab = inside.drop(low, high, item)
                continue
            if inside is None:
                raise KeyError(item)
            inside.remove(low, item)
            if not inside:
                slab.inside = None
            break
        if outgrown is not None:
            _rebuild(outgrown)

    def stab(self, value: Bound) -> list[T]:
        """The items whose range contains the value."""
        found: list[T] = []
        if self._endless is not None:
            self._endless.up_to(value, found)
        inside = self.inside
        while isinstance(inside, _Node):
            slab = inside.slabs[bisect_right(inside.cuts, value)]
            if slab is None:
                return found
            if slab.covering is not None:
                found += slab.covering
            if slab.starting is not None:
                slab.starting.up_to(value, found)
            if slab.ending is not None:
                slab.ending.beyond(value, found)
            inside = slab.inside
        if inside is not None:
            highs, items = inside.highs[: bisect_right(inside.lows, value)], inside.items
            found += [items[at] for at, high in enumerate(highs) if value < high]
        return found
