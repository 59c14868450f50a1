"""Which of many intervals contain a value: a tree of slabs.

A node cuts the line at some ends of its intervals into *slabs*. An interval over several slabs is kept at
the node: in the slab where it starts, in the order of the starts; in the slab where it ends, in the order of
the ends; and in a plain list of each slab that it covers. An interval inside one slab goes down to the
slab's own list, which becomes a node when it grows. So for one value, a node takes one bisection and at
most three runs of sorted lists, and no interval is looked at in vain but a few in the last list. (This is
the external interval tree of Arge and Vitter, in memory.)

Nodes are not balanced while intervals come and go; a node that has doubled or has lost three quarters
since it was built is built anew, which costs O(log n) per change when averaged over many.

All intervals are half-open, ``low <= value < high``, and not empty.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import attrgetter
from typing import Generic, TypeAlias

from gapless.matching.ladder import Ladder, T
from gapless.matching.predicates import Bound

CUTS_MAX = 31
LISTED_MAX = 16
"""Up to so many intervals inside a slab are checked one by one."""

Triple: TypeAlias = tuple[Bound, Bound, T]
"""Low end, high end, item."""

_number = attrgetter("number")


class _Slab(Generic[T]):
    """What is kept for the values from one cut to the next."""

    __slots__ = ("covering", "ending", "inside", "starting")

    def __init__(self) -> None:
        self.covering: list[T] = []
        self.starting: Ladder[T] | None = None
        self.ending: Ladder[T] | None = None
        self.inside: list[Triple[T]] | _Node[T] = []


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
        for low, high, item in triples:
            slab = self.keep(low, high, item)
            if slab is not None:
                assert isinstance(slab.inside, list)
                slab.inside.append((low, high, item))
        for slab in self.slabs:
            if slab is not None and isinstance(slab.inside, list) and len(slab.inside) > LISTED_MAX:
                slab.inside = _Node(slab.inside)

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
        if first == last:
            self.slab(first).covering.append(item)
            return None
        start, end = self.slab(first), self.slab(last)
        if start.starting is None:
            start.starting = Ladder()
        start.starting.add(low, item)
        for between in range(first + 1, last):
            self.slab(between).covering.append(item)
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
            _remove(self.slab(between).covering, item)
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
            yield from slab.inside
            for high, item in slab.ending or ():
                yield lows[item.number], high, item
            for item in slab.covering:
                if item.number not in lows:  # it is this slab exactly
                    yield self.cuts[at - 1], self.cuts[at], item


def _remove(items: list[T], item: T) -> None:
    """Take an item out of a list in the order of the numbers."""
    at = bisect_left(items, item.number, key=_number)
    if items[at] is not item:
        raise KeyError(item)
    del items[at]


class Intervals(Generic[T]):
    """A collection of items, each with an interval."""

    __slots__ = ("_root",)

    def __init__(self) -> None:
        self._root: _Slab[T] = _Slab()  # of which only the inside is used

    def __len__(self) -> int:
        inside = self._root.inside
        return len(inside) if isinstance(inside, list) else inside.size

    def __iter__(self) -> Iterator[Triple[T]]:
        return iter(self._root.inside)

    def add(self, low: Bound, high: Bound, item: T) -> None:
        """Put in an item whose number is greater than that of all others."""
        slab: _Slab[T] | None = self._root
        outgrown: _Slab[T] | None = None
        while slab is not None:
            node = slab.inside
            if isinstance(node, list):
                node.append((low, high, item))
                if len(node) > LISTED_MAX:
                    slab.inside = _Node(node)
                break
            node.size += 1
            if node.size > 2 * node.built and outgrown is None:
                outgrown = slab
            slab = node.keep(low, high, item)
        if outgrown is not None:
            _rebuild(outgrown)

    def remove(self, low: Bound, high: Bound, item: T) -> None:
        """Take out an item that is there."""
        slab: _Slab[T] | None = self._root
        outgrown: _Slab[T] | None = None
        while slab is not None:
            node = slab.inside
            if isinstance(node, list):
                node.remove((low, high, item))
                break
            node.size -= 1
            if 4 * node.size < node.built and outgrown is None:
                outgrown = slab
            slab = node.drop(low, high, item)
        if outgrown is not None:
            _rebuild(outgrown)

    def stab(self, value: Bound) -> list[T]:
        """The items whose interval contains the value."""
        found: list[T] = []
        inside = self._root.inside
        while type(inside) is _Node:
            slab = inside.slabs[bisect_right(inside.cuts, value)]
            if slab is None:
                return found
            if slab.covering:
                found += slab.covering
            if slab.starting is not None:
                slab.starting.up_to(value, found)
            if slab.ending is not None:
                slab.ending.beyond(value, found)
            inside = slab.inside
        if inside:
            found += [item for low, high, item in inside if low <= value < high]
        return found


def _rebuild(slab: _Slab[T]) -> None:
    triples = sorted(slab.inside, key=lambda triple: triple[2].number)
    slab.inside = _Node(triples) if len(triples) > LISTED_MAX else triples
