"""Matching a batch of events at once: the clauses of subscriptions against columns.

The index of the brokers (:mod:`gapless.matching`) takes one event at a time, as they come. A table comes in
batches, and here a batch is matched column by column, with the same clauses and the same predicates:

1. The first predicate of a clause, the most selective that can be looked up, proposes *pairs* of a row and
   the clause. A value is looked up once for all rows that have it. Numbers are sorted once, and then every
   range of numbers is a slice of the rows.
2. The other predicates are asked of the pairs that are left. A range of numbers is asked of all pairs at
   once, anything else about one attribute once for each value that occurs. Conditions that are more than
   that, such as ``price * quantity > 1000``, come last, and are evaluated for each pair.

Both steps are exact: ends of ranges are moved to the nearest number of the column's own type, since a column
of integers compared with floats would be rounded."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from gapless.matching.clause import Clause
from gapless.matching.compiling import Conjunction, conjunctions
from gapless.matching.node import Table
from gapless.matching.predicates import (
    Absent,
    Among,
    Beginning,
    Evaluated,
    Numbers,
    Predicate,
    Simple,
    Strings,
)
from gapless.matching.reading import OPAQUE, Key, Known, Reading, known, path_of
from gapless.matching.selectivity import Selectivity
from gapless.selectors.tree import Condition
from gapless.spark.attributes import Branch, Leaf

PAIRS_MAX = 1 << 21
"""The most pairs that are looked at together: a batch that proposes more is halved."""

RANGE_COST = 10
"""A range of numbers comes first where so many times fewer pass it: asked later, it costs hardly anything."""

LookedUp: TypeAlias = Absent | Among | Beginning | Numbers | Strings
LOOKED_UP = (Absent, Among, Beginning, Numbers, Strings)

INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)

Array: TypeAlias = np.ndarray[Any, Any]
Pairs: TypeAlias = tuple[Array, Array]
"""Rows, and what belongs to them: clauses, in the end subscriptions."""


class Batch:
    """The attributes of some events, in columns; ``first`` is the number of the first row."""

    def __init__(self, columns: list[pa.Array], size: int, tree: Branch, first: int = 0) -> None:
        self.size = size
        self.first = first
        self._columns = columns
        self._tree = tree
        self._coded: dict[Key, tuple[Array, list[Known | None]]] = {}
        self._numbers: dict[Key, tuple[Array, Array]] = {}

    def coded(self, key: Key) -> tuple[Array, list[Known | None]]:
        """An attribute as places in a list of the values that occur, of which the last is ``None``, null."""
        coded = self._coded.get(key)
        if coded is None:
            coded = self._coded[key] = self._code(self._tree.find(path_of(key)))
        return coded

    def _code(self, attribute: Leaf | Branch | None) -> tuple[Array, list[Known | None]]:
        if attribute is None:
            return np.zeros(self.size, np.int64), [None]
        if isinstance(attribute, Branch):
            assert attribute.present is not None  # or nobody would ask
            there = self._columns[attribute.present].to_numpy(zero_copy_only=False)
            return np.where(there, 0, 1), [OPAQUE, None]
        encoded = self._columns[attribute.column].dictionary_encode()
        values = list(map(known, attribute.values(encoded.dictionary)))
        codes = encoded.indices.fill_null(len(values)).to_numpy(zero_copy_only=False)
        return codes.astype(np.int64), [*values, None]

    def numbers(self, key: Key) -> tuple[Array, Array]:
        """The values of a numeric attribute, and in which rows there is one."""
        numbers = self._numbers.get(key)
        if numbers is None:
            leaf = self._tree.find(path_of(key))
            assert isinstance(leaf, Leaf)
            column = self._columns[leaf.column]
            values = column.fill_null(0).to_numpy(zero_copy_only=False)
            values = values.astype(np.int64 if values.dtype.kind == "i" else np.float64, copy=False)
            there = column.is_valid().to_numpy(zero_copy_only=False) & ~np.isnan(values)
            numbers = self._numbers[key] = values, there
        return numbers

    def events(self, rows: Array) -> list[dict[str, object]]:
        """The attributes of these rows, as an event has them."""
        return self._tree.rows([column.take(pa.array(rows)) for column in self._columns], len(rows))

    def halves(self) -> Iterator[Batch]:
        """The same in two."""
        half = self.size // 2
        for first, size in ((0, half), (half, self.size - half)):
            columns = [column.slice(first, size) for column in self._columns]
            yield Batch(columns, size, self._tree, self.first + first)


@dataclass(frozen=True, slots=True)
class Slices:
    """Proposed pairs, before they are written out: each owner has a slice of the members."""

    owners: Array
    starts: Array
    counts: Array
    members: Array
    by_row: bool
    """Whether the owners are rows and the members clauses, or the other way round."""

    def pairs(self) -> Pairs:
        """All of them."""
        ends = np.cumsum(self.counts)
        places = np.arange(ends[-1] if len(ends) else 0)
        places += np.repeat(self.starts - ends + self.counts, self.counts)
        owners, members = np.repeat(self.owners, self.counts), self.members[places]
        return (owners, members) if self.by_row else (members, owners)


class Ranges:
    """Ranges of numbers of one attribute, both ends included, in the type of its column."""

    def __init__(self, key: Key, tests: list[Numbers], kind: type[int | float]) -> None:
        self._key = key
        ends = [_whole(test) if kind is int else _floating(test) for test in tests]
        self._lows, self._highs = np.array(ends, np.int64 if kind is int else np.float64).T.copy()

    def propose(self, batch: Batch, clauses: Array) -> Slices:
        """The rows in each range, which is that of a clause."""
        values, there = batch.numbers(self._key)
        rows = np.flatnonzero(there)
        rows = rows[np.argsort(values[rows])]
        values = values[rows]
        starts = np.searchsorted(values, self._lows, "left")
        counts = np.maximum(np.searchsorted(values, self._highs, "right") - starts, 0)
        return Slices(clauses, starts, counts, rows, by_row=False)

    def passed(self, batch: Batch, rows: Array, asked: Array) -> Array:
        """Whether the number in each row is in the range that is asked for."""
        values, there = batch.numbers(self._key)
        numbers = values[rows]
        passed: Array = there[rows] & (self._lows[asked] <= numbers) & (numbers <= self._highs[asked])
        return passed


class Questions:
    """Predicates on one attribute, asked once of each value that occurs; many clauses have the same."""

    def __init__(self, key: Key, tests: list[tuple[Simple, ...]]) -> None:
        self._key = key
        numbers = {each: number for number, each in enumerate(dict.fromkeys(tests))}
        self._tests = list(numbers)
        self._numbers = np.array([numbers[each] for each in tests], np.int64)

    def passed(self, batch: Batch, rows: Array, asked: Array) -> Array:
        """Whether the value in each row passes the predicates that are asked of it."""
        codes, values = batch.coded(self._key)
        count = len(values)
        different, which = np.unique(self._numbers[asked] * count + codes[rows], return_inverse=True)
        answers = (_accept(self._tests[each // count], values[each % count]) for each in different.tolist())
        passed: Array = np.fromiter(answers, bool, len(different))[which]
        return passed


class Evaluations:
    """Conditions about more than one attribute, asked of each event."""

    def __init__(self, tests: list[list[Evaluated]]) -> None:
        self._tests = tests

    def passed(self, batch: Batch, rows: Array, asked: Array) -> Array:
        """Whether each row passes the conditions that are asked of it."""
        different, which = np.unique(rows, return_inverse=True)
        readings: list[Reading] = []
        for attributes in batch.events(different):
            reading = Reading()
            reading.attributes = attributes
            readings.append(reading)
        pairs = zip(which.tolist(), asked.tolist(), strict=True)
        answers = (all(test.holds(readings[row]) for test in self._tests[each]) for row, each in pairs)
        return np.fromiter(answers, bool, len(rows))


class ColumnIndex:
    """Subscriptions, each a number and a condition; ``numeric`` are the columns of integers or floats."""

    def __init__(
        self, subscriptions: Iterable[tuple[int, Condition]], numeric: Mapping[Key, type[int | float]]
    ) -> None:
        draft = _Draft(numeric)
        draft.fill(
            [(number, each) for number, condition in subscriptions for each in conjunctions(condition)]
        )
        count = len(draft.subscriptions)
        self._subscriptions = np.array(draft.subscriptions, np.int64)
        self._anything = np.array(draft.anything, np.int64)
        self._absent, self._tables = draft.absent, draft.tables
        self._first = [
            (Ranges(key, tests, numeric[key]), np.array(clauses, np.int64))
            for key, (clauses, tests) in draft.first.items()
        ]
        self._checks: list[tuple[Ranges | Questions | Evaluations, Array]] = [
            *(
                (Ranges(key, tests, numeric[key]), _places(at, count))
                for key, (at, tests) in draft.ranges.items()
            ),
            *((Questions(key, tests), _places(at, count)) for key, (at, tests) in draft.tests.items()),
        ]
        if draft.evaluated:
            places = _places(list(draft.evaluated), count)
            self._checks.append((Evaluations(list(draft.evaluated.values())), places))

    def match(self, batch: Batch) -> Iterator[Pairs]:
        """The rows and the subscriptions that they match, in the order of both, piece by piece."""
        proposed = list(self._proposed(batch))
        if sum(int(each.counts.sum()) for each in proposed) > PAIRS_MAX and batch.size > 1:
            for half in batch.halves():
                yield from self.match(half)
            return
        rows, clauses = map(np.concatenate, zip(*(each.pairs() for each in proposed), strict=True))
        for check, places in self._checks:
            asked = places[clauses]
            concerned = np.flatnonzero(asked >= 0)
            passed = np.ones(len(rows), bool)
            passed[concerned] = check.passed(batch, rows[concerned], asked[concerned])
            rows, clauses = rows[passed], clauses[passed]
        # In order, and a subscription once, whichever of its clauses hold.
        count = int(self._subscriptions.max(initial=0)) + 1
        rows, found = np.divmod(np.unique(rows * count + self._subscriptions[clauses]), count)
        yield rows + batch.first, found

    def _proposed(self, batch: Batch) -> Iterator[Slices]:
        everyone = np.arange(batch.size)
        nought, all_of_it = np.zeros_like(everyone), np.full_like(everyone, len(self._anything))
        yield Slices(everyone, nought, all_of_it, self._anything, by_row=True)
        for key in dict.fromkeys((*self._tables, *self._absent)):
            codes, values = batch.coded(key)
            found = [self._looked_up(key, value) for value in values]
            counts = np.array([len(each) for each in found], np.int64)
            members = np.array([clause for each in found for clause in each], np.int64)
            yield Slices(everyone, (np.cumsum(counts) - counts)[codes], counts[codes], members, by_row=True)
        for ranges, clauses in self._first:
            yield ranges.propose(batch, clauses)

    def _looked_up(self, key: Key, value: Known | None) -> list[int]:
        """The clauses whose first predicate holds for this value."""
        if value is None:
            return self._absent.get(key, [])
        found: list[Clause[int]] = []
        table = self._tables.get(key)
        if table is not None:
            table.match(value, _NOTHING, found)
        return [clause.key for clause in found]


class _Draft:
    """An index while clauses are added: lists that become arrays."""

    def __init__(self, numeric: Mapping[Key, type[int | float]]) -> None:
        self._numeric = numeric
        self.subscriptions: list[int] = []
        self.anything: list[int] = []
        self.absent: dict[Key, list[int]] = {}
        self.tables: dict[Key, Table[int]] = {}
        self.first: dict[Key, tuple[list[int], list[Numbers]]] = {}
        self.ranges: dict[Key, tuple[list[int], list[Numbers]]] = {}
        self.tests: dict[Key, tuple[list[int], list[tuple[Simple, ...]]]] = {}
        self.evaluated: dict[int, list[Evaluated]] = {}

    def fill(self, clauses: list[tuple[int, Conjunction]]) -> None:
        """All clauses, each with its subscription."""
        selectivity = Selectivity()
        for _, conjunction in clauses:
            for test in conjunction:
                selectivity.see(test)

        def cost(test: LookedUp) -> float:
            return selectivity.share(test) * (RANGE_COST if isinstance(test, Numbers) else 1)

        for subscription, conjunction in clauses:
            first = min((test for test in conjunction if isinstance(test, LOOKED_UP)), key=cost, default=None)
            self._add(subscription, first, [test for test in conjunction if test is not first])

    def _add(self, subscription: int, first: LookedUp | None, others: list[Predicate]) -> None:
        clause = len(self.subscriptions)
        self.subscriptions.append(subscription)
        if first is None:
            self.anything.append(clause)
        else:
            self._look_up(clause, first)
        by_key: dict[Key, list[Simple]] = {}
        for test in others:
            if isinstance(test, Evaluated):
                self.evaluated.setdefault(clause, []).append(test)
            elif isinstance(test, Numbers) and test.key in self._numeric:
                _append(self.ranges, test.key, clause, test)  # there is one at most: ranges are merged
            else:
                by_key.setdefault(test.key, []).append(test)
        for key, simple in by_key.items():
            _append(self.tests, key, clause, tuple(simple))

    def _look_up(self, clause: int, test: LookedUp) -> None:
        if isinstance(test, Absent):
            self.absent.setdefault(test.key, []).append(clause)
        elif isinstance(test, Numbers) and test.key in self._numeric:
            _append(self.first, test.key, clause, test)
        else:
            table = self.tables.setdefault(test.key, Table(1))
            table.add(test, Clause(clause, (test,), (test,), 1, place=0, key=clause))


_NOTHING = Reading()


def _append(lists: dict[Key, tuple[list[int], list[Any]]], key: Key, clause: int, what: object) -> None:
    clauses, values = lists.setdefault(key, ([], []))
    clauses.append(clause)
    values.append(what)


def _places(clauses: list[int], count: int) -> Array:
    """Where each clause is among these; -1 for one that is not."""
    places = np.full(count, -1, np.int32)
    places[clauses] = np.arange(len(clauses))
    return places


def _accept(tests: tuple[Simple, ...], value: Known | None) -> bool:
    if value is None:
        return all(isinstance(test, Absent) for test in tests)
    return all(test.accepts(value) for test in tests)


def _whole(test: Numbers) -> tuple[int, int]:
    """The first and the last of the 64-bit integers in a range; for none, the last comes first."""
    if test.low > INTEGER_MAX or (test.high is not None and test.high <= INTEGER_MIN):
        return 1, 0
    endless = test.high is None or test.high > INTEGER_MAX
    last = INTEGER_MAX if endless else math.ceil(test.high) - 1  # type: ignore[arg-type]
    return math.ceil(max(test.low, INTEGER_MIN)), last


def _floating(test: Numbers) -> tuple[float, float]:
    """The first and the last of the floats in a range."""
    return _float_from(test.low), math.inf if test.high is None else math.nextafter(
        _float_from(test.high), -math.inf
    )


def _float_from(bound: int | float) -> float:
    """The least float that is not less."""
    try:
        near = float(bound)
    except OverflowError:
        return math.inf if bound > 0 else -sys.float_info.max
    return near if near >= bound else math.nextafter(near, math.inf)
