"""The tree in which an event finds its clauses.

A node of depth d holds clauses whose first d predicates are settled by the way to the node. A few clauses
are simply checked. When they become many, each is filed under its next predicate: in a hash table by value,
by prefix, or by absence, which leads to a node of depth d + 1; or among the intervals of an attribute, which
is the end of the way. What remains of a clause is checked when the event gets that far.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import Generic, TypeVar

from gapless.matching.compiling import Conjunction
from gapless.matching.intervals import Intervals
from gapless.matching.ladder import Ladder
from gapless.matching.predicates import Absent, Among, Beginning, Numbers, Strings
from gapless.matching.reading import Key, Known, Reading

K = TypeVar("K")

CHECKED_MAX = 12
"""Up to so many clauses of a node are checked one by one."""

_number = attrgetter("number")


class Clause(Generic[K]):
    """A conjunction, and who subscribed to it.

    ``tests`` are its predicates in the order of use, the first ``access`` of them to be looked up. There is
    mostly one subscriber; ``subscribers`` then is its place in the order of addition and its key.
    """

    __slots__ = ("access", "number", "subscribers", "tests")

    def __init__(self, number: int, tests: Conjunction, access: int) -> None:
        self.number = number
        self.tests = tests
        self.access = access
        self.subscribers: tuple[int, K] | dict[int, K] = {}

    def pickled(self): ...
