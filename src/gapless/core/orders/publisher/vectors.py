"""Sequence vectors: duplicate detection whose state does not grow with the number of publishers (000, VI).

Every broker numbers the publications that it takes over, in the order of their first arrival. A copy carries
the numbers of the last 3δ+1 brokers of its path; a broker that the copy bypassed stands there without a
number (*nil*). A copy is a duplicate iff some number in it is not higher than the highest number seen of that
broker (Fig. 6; X-D3-03): since unconfirmed publications are sent again first, and in order, on every switch
of a session, a broker's numbers arrive ascending, and a number that was passed is one that was handled.

Numbers belong to an incarnation of a broker (X-P0-15), and numbers of different incarnations are not
compared: a copy that passed the earlier life of a broker may arrive after one that passed its later life.

*Legitimacy* (000, VI and VIII). With at most δ bypassed brokers in any 2δ+1 of a path, two copies of a
publication share a broker that numbered both. A copy with more of them shows that more than δ brokers
failed: it is held until a nearer session or a better copy comes, or, on a topic that says so, it goes on
marked as best effort. A wrong "new" does no harm but traffic, because clients compare sequences; a
wrong "duplicate" would lose an event, and is what the rules of resending exclude.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gapless.core.model import Incarnation, NodeId

Step: TypeAlias = tuple[NodeId, Incarnation]
"""A broker of a path; incarnation 0: bypassed."""
Numbers: TypeAlias = tuple[int, ...]
"""What the brokers of a path numbered a publication; 0: it has no number."""
Vector: TypeAlias = tuple[tuple[NodeId, Incarnation, int], ...]
"""Both together. The copies of a run share their path, so most of what follows is decided for all at once."""

REMEMBERED_LIVES = 3
"""Earlier incarnations of a broker whose copies may still be under way."""


def vector_of(path: Sequence[Step], numbers: Numbers) -> Vector:
    """The vector of one copy."""
    return tuple((*step, number) for step, number in zip(path, numbers, strict=False))


def bypassed(path: Sequence[tuple[NodeId, Incarnation, *tuple[int, ...]]]) -> int:
    """How many brokers of the path, or vector, the copy went round."""
    return sum(not step[1] for step in path)


def merged(first: Vector, better: Vector) -> Vector:
    """The vector of a publication of which a copy came that bypassed fewer brokers (000, VIII, release ii).

    Brokers that only the later copy passed count as passed, but without its numbers: the place of the
    publication in the order of this broker is that of the first copy, and numbers from another order
    would not ascend.
    """
    numbered = {step[0]: step for step in first if step[1]}
    return tuple(numbered.get(node, (node, incarnation, 0)) for node, incarnation, _ in better)


class Vectors:
    """The numbers that one broker gives and has seen."""

    def __init__(self, me: NodeId, incarnation: Incarnation, delta: int) -> None:
        self.length = 3 * delta + 1  # DSEQ of 000, table I
        self.window = 2 * delta + 1
        self._delta = delta
        self._me = me
        self._incarnation = incarnation
        self._count = 0
        self._highest: dict[NodeId, dict[Incarnation, int]] = {}

    def next_numbers(self, count: int) -> range:
        """The numbers of so many publications that are taken over now."""
        first = self._count + 1
        self._count += count
        return range(first, first + count)

    def is_duplicate(self, vector: Vector) -> bool:
        """Whether a copy of this publication was handled before."""
        for node, incarnation, number in vector:
            if number:
                seen = self._highest.get(node)
                if seen is not None and number <= seen.get(incarnation, 0):
                    return True
        return False

    def note(self, vector: Vector) -> None:
        """Remember the numbers of a copy: a monotone maximum, of duplicates too."""
        for node, incarnation, number in vector:
            if number:
                seen = self._highest.setdefault(node, {})
                if number > seen.get(incarnation, 0):
                    seen[incarnation] = number
                    if len(seen) > REMEMBERED_LIVES:
                        del seen[min(seen)]

    def forget(self) -> None:
        """Take whatever comes for new."""
        self._highest.clear()

    def handled(self, path: Sequence[Step], rows: Sequence[Numbers]) -> list[bool]:
        """Which copies of a run were handled before; remembers the numbers of all.

        Those of one run are different publications: where its lowest numbers are new, all are."""
        columns = list(zip(*rows, strict=False))
        lowest, highest = tuple(map(min, columns)), tuple(map(max, columns))
        are_numbered_alike = [low > 0 for low in lowest] == [high > 0 for high in highest]
        if are_numbered_alike and not self.is_duplicate(vector_of(path, lowest)):
            self.note(vector_of(path, highest))
            return [False] * len(rows)
        found = []
        for numbers in rows:
            vector = vector_of(path, numbers)
            found.append(self.is_duplicate(vector))
            self.note(vector)
        return found

    def onward(self, path: Sequence[Step], skipped: Sequence[NodeId]) -> tuple[Step, ...]:
        """The path of copies that go on: this broker, and those that the session bypasses."""
        longer = (*path, (self._me, self._incarnation), *((node, 0) for node in skipped))
        return longer[-self.length :]

    def is_legitimate(self, path: Sequence[tuple[NodeId, Incarnation, *tuple[int, ...]]]) -> bool:
        """Whether at most δ of the last 2δ+1 brokers were bypassed."""
        return bypassed(path[-self.window :]) <= self._delta

    def size(self) -> int:
        """How many numbers are remembered."""
        return sum(map(len, self._highest.values()))
