"""The tree in which an event finds its clauses.

A node of depth d holds clauses whose first d predicates are settled by the way to the node. A few clauses
are simply checked. When they become many, each is filed under its next predicate: in a hash table by value,
by prefix, or by absence, which leads to a node of depth d + 1; or among the ranges of an attribute, which is
the end of the way. What remains of a clause is checked when an event gets that far.

Nodes come and go with their clauses: a clause is removed along the way on which it was added.
"""

from __future__ import annotations

from bisect import bisect_left
from operator import attrgetter
from typing import Generic, TypeVar

from gapless.matching.clause import Clause, K, passing
from gapless.matching.predicates import Absent, Among, Beginning, Numbers, Strings
from gapless.matching.ranges import Ranges
from gapless.matching.reading import Key, Known, Mark, Reading

CHECKED_MAX = 12
"""Up to so many clauses of a node are checked one by one."""

_number = attrgetter("number")

V = TypeVar("V", bound=Known)


class Node(Generic[K]):
    """Clauses that have the same way behind them."""

    __slots__ = ("_absent", "_checked", "_depth", "_tables")

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._checked: list[Clause[K]] = []  # in the order of their numbers
        self._tables: dict[Key, Table[K]] | None = None  # None until there are too many to check
        self._absent: dict[Key, Node[K]] = {}

    def __bool__(self) -> bool:
        return bool(self._checked or self._tables or self._absent)

    def add(self, clause: Clause[K]) -> None:
        """Put in a clause whose number is greater than that of all others."""
        if self._tables is not None and self._depth < clause.access:
            self._file(clause, self._tables)
            return
        self._checked.append(clause)
        if self._tables is None and len(self._checked) > CHECKED_MAX:
            clauses, self._checked, self._tables = self._checked, [], {}
            for each in clauses:
                self.add(each)

    def _file(self, clause: Clause[K], tables: dict[Key, Table[K]]) -> None:
        test = clause.tests[self._depth]
        if isinstance(test, Absent):
            node = self._absent.get(test.key)
            if node is None:
                node = self._absent[test.key] = Node(self._depth + 1)
            node.add(clause)
            return
        assert isinstance(test, (Among, Beginning, Numbers, Strings))
        table = tables.get(test.key)
        if table is None:
            table = tables[test.key] = Table(self._depth + 1)
        table.add(test, clause)

    def remove(self, clause: Clause[K]) -> None:
        """Take out a clause that is there."""
        if self._tables is None or self._depth >= clause.access:
            del self._checked[bisect_left(self._checked, clause.number, key=_number)]
            return
        test = clause.tests[self._depth]
        if isinstance(test, Absent):
            node = self._absent[test.key]
            node.remove(clause)
            if not node:
                del self._absent[test.key]
            return
        assert isinstance(test, (Among, Beginning, Numbers, Strings))
        table = self._tables[test.key]
        table.remove(test, clause)
        if not table:
            del self._tables[test.key]

    def match(self, reading: Reading, found: list[Clause[K]]) -> None:
        """Append the clauses that hold."""
        if self._checked:
            passing(self._checked, self._depth, reading, found)
        if self._tables:
            if len(self._tables) < len(reading):
                for key, table in self._tables.items():
                    value = reading.get(key)
                    if value is not None:
                        table.match(value, reading, found)
            else:
                for key, value in reading.items():
                    filed = self._tables.get(key)
                    if filed is not None:
                        filed.match(value, reading, found)
        if self._absent:
            for key, node in self._absent.items():
                if key not in reading:
                    node.match(reading, found)


class Table(Generic[K]):
    """Clauses filed under a predicate on one attribute."""

    __slots__ = ("_depth", "_equal", "_numbers", "_prefixes", "_strings")

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._equal: dict[Known, Node[K]] = {}
        self._prefixes: dict[int, dict[str, Node[K]]] = {}  # by their length
        self._numbers: Ranges[Clause[K]] | None = None
        self._strings: Ranges[Clause[K]] | None = None

    def __bool__(self) -> bool:
        return bool(self._equal or self._prefixes or self._numbers or self._strings)

    def add(self, test: Among | Beginning | Numbers | Strings, clause: Clause[K]) -> None:
        """File a clause under its predicate."""
        match test:
            case Among(_, values):
                for value in values:
                    self._child(self._equal, value).add(clause)
            case Beginning(_, text):
                self._child(self._prefixes.setdefault(len(text), {}), text).add(clause)
            case Numbers(_, low, high):
                if self._numbers is None:
                    self._numbers = Ranges()
                self._numbers.add(low, high, clause)
            case Strings(_, low, high):
                if self._strings is None:
                    self._strings = Ranges()
                self._strings.add(low, high, clause)

    def remove(self, test: Among | Beginning | Numbers | Strings, clause: Clause[K]) -> None:
        """Take out a clause that is there."""
        match test:
            case Among(_, values):
                for value in values:
                    self._remove(self._equal, value, clause)
            case Beginning(_, text):
                self._remove(self._prefixes[len(text)], text, clause)
                if not self._prefixes[len(text)]:
                    del self._prefixes[len(text)]
            case Numbers(_, low, high):
                assert self._numbers is not None
                self._numbers.remove(low, high, clause)
            case Strings(_, low, high):
                assert self._strings is not None
                self._strings.remove(low, high, clause)

    def _child(self, children: dict[V, Node[K]], value: V) -> Node[K]:
        node = children.get(value)
        if node is None:
            node = children[value] = Node(self._depth)
        return node

    @staticmethod
    def _remove(children: dict[V, Node[K]], value: V, clause: Clause[K]) -> None:
        node = children[value]
        node.remove(clause)
        if not node:
            del children[value]

    def match(self, value: Known, reading: Reading, found: list[Clause[K]]) -> None:
        """Append the clauses that hold, given the value of the attribute."""
        node = self._equal.get(value)
        if node is not None:
            if node._tables is None:
                passing(node._checked, self._depth, reading, found)
            else:
                node.match(reading, found)
        if type(value) is str:
            if self._prefixes:
                for length, nodes in self._prefixes.items():
                    node = nodes.get(value[:length])
                    if node is not None:
                        node.match(reading, found)
            ranges = self._strings
        else:
            ranges = self._numbers
        if ranges is not None and type(value) is not Mark:
            candidates = ranges.stab(value)
            if candidates:
                passing(candidates, self._depth, reading, found)
