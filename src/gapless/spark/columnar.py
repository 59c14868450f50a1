"""Matching a batch of events at once: the clauses of subscriptions against columns.

The index of the brokers (:mod:`gapless.matching`) takes one event at a time, as they come. A table comes in
batches, and here a batch is matched column by column, with the same clauses and the same predicates:

1. The first predicate of a clause, the most selective that can be looked up, proposes *pairs* of a row and
   the clause. A value, or its beginning, is looked up once for all rows that have it. The rows are put in the
   order of the attribute once, and then every range is a slice of them.
2. The other predicates are asked of the pairs that are left: a range of all pairs at once, everything else
   once for each value that occurs. Only what is about several attributes, such as ``price * quantity > 100``,
   has to be asked of each event.

Both steps are exact: the ends of a range are moved to the nearest number of the column's own type, since
integers compared with floats would be rounded."""

from __future__ import annotations

import math
import sys
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias, cast

import numpy as np
import pyarrow as pa

from gapless.matching.compiling import Conjunction, conjunctions
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
from gapless.matching.reading import OPAQUE, Key, Known, Reading, key_of, known, path_of
from gapless.matching.selectivity import Selectivity
from gapless.selectors.tree import Condition
from gapless.spark.attributes import Branch, Leaf, uses

PAIRS_MAX = 1 << 21
"""The most pairs that are looked at together: a batch that has more is halved."""
RANGE_COST = 10
"""A range comes first where so many times fewer pass it: asked later, it costs hardly anything."""

INTEGER_MAX = 2**63 - 1
INTEGER_MIN = -(2**63)

Array: TypeAlias = np.ndarray[Any, Any]
Pairs: TypeAlias = tuple[Array, Array]
"""Rows, and what belongs to them: clauses, in the end subscriptions."""
Range: TypeAlias = Numbers | Strings
LookedUp: TypeAlias = Absent | Among | Beginning | Range
Numeric: TypeAlias = Mapping[Key, type[int | float]]
"""The columns of integers or floats of at most 64 bits."""


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

    def ranked(self, key: Key, kind: type[Range]) -> tuple[Array, list[Any]]:
        """An attribute as places in the sorted list of its texts (or numbers); -1 where it is none."""
        codes, values = self.coded(key)
        comparable = (str,) if kind is Strings else (int, float)
        ordered = sorted((value, code) for code, value in enumerate(values) if isinstance(value, comparable))
        ranks = np.full(len(values), -1, np.int64)
        ranks[[code for _, code in ordered]] = np.arange(len(ordered))
        return ranks[codes], [value for value, _ in ordered]

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

    def readings(self, rows: Array) -> list[Reading]:
        """The attributes of these rows, for conditions to be evaluated."""
        readings: list[Reading] = []
        columns = [column.take(pa.array(rows)) for column in self._columns]
        for attributes in self._tree.rows(columns, len(rows)):
            reading = Reading()
            reading.attributes = attributes
            readings.append(reading)
        return readings

    def halves(self) -> Iterator[Batch]:
        """The same in two."""
        half = self.size // 2
        for first, size in ((0, half), (half, self.size - half)):
            columns = [column.slice(first, size) for column in self._columns]
            yield Batch(columns, size, self._tree, self.first + first)


@dataclass(frozen=True, slots=True)
class Slices:
    """Pairs before they are written out: each owner has a slice of the members."""

    owners: Array
    starts: Array
    counts: Array
    members: Array

    def pairs(self) -> Pairs:
        """All of them: owners and members."""
        ends = np.cumsum(self.counts)
        places = np.arange(ends[-1] if len(ends) else 0)
        places += np.repeat(self.starts - ends + self.counts, self.counts)
        return np.repeat(self.owners, self.counts), self.members[places]


# -- how pairs are proposed ---------------------------------------------------------------------------------


class Lookup:
    """Clauses by the value of an attribute, ``None`` if they ask for null; or by its first characters."""

    def __init__(self, key: Key, length: int | None, clauses: Mapping[Known | None, Sequence[int]]) -> None:
        self._key = key
        self._length = length
        self._slices: dict[Known | None, tuple[int, int]] = {}
        members: list[int] = []
        for value, each in clauses.items():
            self._slices[value] = len(members), len(each)
            members += each
        self._members = np.array(members, np.int64)

    def propose(self, batch: Batch) -> Slices:
        """The clauses of each row."""
        codes, values = batch.coded(self._key)
        if self._length is not None:
            values = [value[: self._length] if isinstance(value, str) else None for value in values]
        slices = np.array([self._slices.get(value, (0, 0)) for value in values], np.int64)
        return Slices(np.arange(batch.size), slices[codes, 0], slices[codes, 1], self._members)


class Intervals:
    """Ranges of one attribute. As numbers of a column's own type, both ends are included."""

    def __init__(self, key: Key, tests: list[Range], kind: type[int | float] | None) -> None:
        self._key = key
        self._tests = tests if kind is None else []
        self._ends = None if kind is None else _ends(cast(list[Numbers], tests), kind)

    def propose(self, batch: Batch, clauses: Array) -> Slices:
        """The rows of each range, which is that of a clause."""
        values, there, lows, highs = self._compared(batch)
        rows = np.flatnonzero(there)
        rows = rows[np.argsort(values[rows])]
        values = values[rows]
        starts = np.searchsorted(values, lows, "left")
        counts = np.maximum(np.searchsorted(values, highs, "right") - starts, 0)
        return Slices(clauses, starts, counts, rows)

    def passed(self, batch: Batch, rows: Array, asked: Array) -> Array:
        """Whether each row is in the range that is asked for."""
        values, there, lows, highs = self._compared(batch)
        value = values[rows]
        passed: Array = there[rows] & (lows[asked] <= value) & (value <= highs[asked])
        return passed

    def _compared(self, batch: Batch) -> tuple[Array, Array, Array, Array]:
        """What to compare: values and where there are any, low ends and high ends."""
        if self._ends is not None:
            return *batch.numbers(self._key), *self._ends
        ranks, values = batch.ranked(self._key, type(self._tests[0]))
        lows = [bisect_left(values, test.low) for test in self._tests]
        after = (len(values) if test.high is None else bisect_left(values, test.high) for test in self._tests)
        return ranks, ranks >= 0, np.array(lows), np.array([end - 1 for end in after])


# -- what is asked of them ----------------------------------------------------------------------------------


class Values:
    """Predicates on one attribute, asked once of each value that occurs."""

    def __init__(self, key: Key, tests: list[tuple[Simple, ...]]) -> None:
        self._key = key
        self._tests, self._numbers = _different(tests)

    def passed(self, batch: Batch, rows: Array, asked: Array) -> Array:
        """Whether each row passes the predicates that are asked of it."""
        codes, values = batch.coded(self._key)

        def answer(test: int, code: int) -> bool:
            return _accept(self._tests[test], values[code])

        return _asked_once(self._numbers[asked], codes[rows], len(values), answer)


class Evaluations:
    """Conditions to be evaluated: for each value that occurs, if it is about one attribute, or each event."""

    def __init__(self, key: Key | None, tests: list[tuple[Evaluated, ...]]) -> None:
        self._key = key
        self._tests, self._numbers = _different(tests)

    def passed(self, batch: Batch, rows: Array, asked: Array) -> Array:
        """Whether each row passes the conditions that are asked of it."""
        examples = np.arange(batch.size)  # rows of which the others need not be asked
        if self._key is not None:
            codes, values = batch.coded(self._key)
            examples = np.zeros(len(values), np.int64)
            examples[codes] = np.arange(batch.size)
            rows = codes[rows]
        needed = _once(rows)
        readings = dict(zip(needed.tolist(), batch.readings(examples[needed]), strict=True))

        def answer(test: int, example: int) -> bool:
            return all(each.holds(readings[example]) for each in self._tests[test])

        return _asked_once(self._numbers[asked], rows, len(examples), answer)


def _different(tests: list[Any]) -> tuple[list[Any], Array]:
    """Each test once, and which of them each was: many clauses ask the same."""
    numbers = {each: number for number, each in enumerate(dict.fromkeys(tests))}
    return list(numbers), np.array([numbers[each] for each in tests], np.int64)


def _asked_once(tests: Array, places: Array, count: int, answer: Callable[[int, int], bool]) -> Array:
    """The answers for pairs of a test and a place below ``count``, each asked for once."""
    different, which = np.unique(tests * count + places, return_inverse=True)
    answers = (answer(*divmod(each, count)) for each in different.tolist())
    passed: Array = np.fromiter(answers, bool, len(different))[which]
    return passed


def _once(numbers: Array) -> Array:
    """Numbers that are not negative, each once, in order. (``np.unique`` hashes them, which is slower.)"""
    ordered = np.sort(numbers)
    different: Array = ordered[np.diff(ordered, prepend=-1) != 0]
    return different


# -- the index ----------------------------------------------------------------------------------------------


class ColumnIndex:
    """Subscriptions, each a number and a condition."""

    def __init__(self, subscriptions: Iterable[tuple[int, Condition]], numeric: Numeric) -> None:
        subscribers: dict[Conjunction, list[int]] = {}
        for number, condition in subscriptions:
            for conjunction in conjunctions(condition):
                subscribers.setdefault(conjunction, []).append(number)
        counts = [len(each) for each in subscribers.values()]
        self._subscribers = np.array([each for some in subscribers.values() for each in some], np.int64)
        self._counts = np.array(counts, np.int64)
        self._starts = np.cumsum(self._counts) - self._counts
        self._above = int(self._subscribers.max(initial=0)) + 1
        draft = _Draft(list(subscribers))
        self._anything = np.array(draft.anything, np.int64)
        self._lookups = [Lookup(*which, clauses) for which, clauses in draft.lookups.items()]
        self._ranges = [
            (Intervals(key, tests, _kind(numeric, key, kind)), np.array(clauses, np.int64))
            for (key, kind), (clauses, tests) in draft.ranges.items()
        ]
        self._checks: list[tuple[Intervals | Values | Evaluations, Array]] = []
        for (key, kind), (clauses, tests) in draft.checks.items():
            check: Intervals | Values | Evaluations
            if kind is Evaluated:
                check = Evaluations(key, tests)
            elif kind is Simple:
                check = Values(cast(Key, key), tests)
            else:
                check = Intervals(cast(Key, key), tests, _kind(numeric, cast(Key, key), kind))
            self._checks.append((check, np.array(clauses, np.int64)))

    def match(self, batch: Batch) -> Iterator[Pairs]:
        """The rows and the subscriptions that they match, in the order of both, piece by piece."""
        pairs = self._matched(batch)
        if pairs is None:
            for half in batch.halves():
                yield from self.match(half)
            return
        rows, clauses = pairs
        rows, found = Slices(rows, self._starts[clauses], self._counts[clauses], self._subscribers).pairs()
        # A subscription is there once, whichever of its clauses hold.
        rows, found = np.divmod(_once(rows * self._above + found), self._above)
        yield rows + batch.first, found

    def _matched(self, batch: Batch) -> Pairs | None:
        """The rows and the clauses that hold; ``None`` where there are too many to look at together."""
        by_row = [lookup.propose(batch) for lookup in self._lookups]
        by_row.append(self._all_of(batch))
        by_clause = [intervals.propose(batch, clauses) for intervals, clauses in self._ranges]
        if _are_too_many(sum(int(each.counts.sum()) for each in (*by_row, *by_clause)), batch):
            return None
        pairs = [each.pairs() for each in by_row] + [each.pairs()[::-1] for each in by_clause]
        rows, clauses = map(np.concatenate, zip(*pairs, strict=True))
        for check, asking in self._checks:
            asked = np.searchsorted(asking, clauses)
            concerned = np.flatnonzero(asking[np.minimum(asked, len(asking) - 1)] == clauses)
            if not len(concerned):
                continue
            passed = np.ones(len(rows), bool)
            passed[concerned] = check.passed(batch, rows[concerned], asked[concerned])
            rows, clauses = rows[passed], clauses[passed]
        return None if _are_too_many(int(self._counts[clauses].sum()), batch) else (rows, clauses)

    def _all_of(self, batch: Batch) -> Slices:
        """The clauses that have nothing to be looked up by."""
        counts = np.full(batch.size, len(self._anything))
        return Slices(np.arange(batch.size), np.zeros_like(counts), counts, self._anything)


class _Draft:
    """Clauses, divided by what proposes them and by what is asked then; all lists are in their order."""

    def __init__(self, clauses: list[Conjunction]) -> None:
        self.anything: list[int] = []
        self.lookups: dict[tuple[Key, int | None], dict[Known | None, list[int]]] = {}
        self.ranges: dict[tuple[Key, type], tuple[list[int], list[Range]]] = {}
        self.checks: dict[tuple[Key | None, Any], tuple[list[int], list[Any]]] = {}
        self._selectivity = Selectivity()
        for conjunction in clauses:
            for test in conjunction:
                self._selectivity.see(test)
        for clause, conjunction in enumerate(clauses):
            able = (test for test in conjunction if isinstance(test, LookedUp))
            first = min(able, key=self._cost, default=None)
            self._propose_by(clause, first)
            self._ask(clause, [test for test in conjunction if test is not first])

    def _cost(self, test: LookedUp) -> float:
        return self._selectivity.share(test) * (RANGE_COST if isinstance(test, Range) else 1)

    def _propose_by(self, clause: int, first: LookedUp | None) -> None:
        match first:
            case None:
                self.anything.append(clause)
            case Absent(key):
                self._look_up(clause, key, None, None)
            case Among(key, values):
                for value in values:
                    self._look_up(clause, key, None, value)
            case Beginning(key, text):
                self._look_up(clause, key, len(text), text)
            case Numbers(key) | Strings(key):
                _append(self.ranges, (key, type(first)), clause, first)

    def _look_up(self, clause: int, key: Key, length: int | None, value: Known | None) -> None:
        self.lookups.setdefault((key, length), {}).setdefault(value, []).append(clause)

    def _ask(self, clause: int, tests: list[Predicate]) -> None:
        simple: dict[Key, list[Simple]] = {}
        evaluated: dict[Key | None, list[Evaluated]] = {}
        for test in tests:
            if isinstance(test, Evaluated):
                paths = {path for path, _ in uses(test.condition)}
                evaluated.setdefault(key_of(paths.pop()) if len(paths) == 1 else None, []).append(test)
            elif isinstance(test, Range):
                _append(self.checks, (test.key, type(test)), clause, test)  # one at most: they are merged
            else:
                simple.setdefault(test.key, []).append(test)
        for key, some in simple.items():
            _append(self.checks, (key, Simple), clause, tuple(some))
        for about, conditions in evaluated.items():
            _append(self.checks, (about, Evaluated), clause, tuple(conditions))


def _append(lists: dict[Any, tuple[list[int], list[Any]]], key: Any, clause: int, what: object) -> None:
    clauses, values = lists.setdefault(key, ([], []))
    clauses.append(clause)
    values.append(what)


def _are_too_many(pairs: int, batch: Batch) -> bool:
    return pairs > PAIRS_MAX and batch.size > 1


def _kind(numeric: Numeric, key: Key, kind: type) -> type[int | float] | None:
    """As what a range is compared: numbers in a column of its own, or (``None``) by rank."""
    return numeric.get(key) if kind is Numbers else None


def _accept(tests: tuple[Simple, ...], value: Known | None) -> bool:
    if value is None:
        return all(isinstance(test, Absent) for test in tests)
    return all(test.accepts(value) for test in tests)


# -- the ends of ranges of numbers, in the type of a column -------------------------------------------------


def _ends(tests: list[Numbers], kind: type[int | float]) -> tuple[Array, Array]:
    ends = [_whole(test) if kind is int else _floating(test) for test in tests]
    lows, highs = np.array(ends, np.int64 if kind is int else np.float64).T.copy()
    return lows, highs


def _whole(test: Numbers) -> tuple[int, int]:
    """The first and the last of the 64-bit integers in a range; for none, the last comes first."""
    if test.low > INTEGER_MAX or (test.high is not None and test.high <= INTEGER_MIN):
        return 1, 0
    last = INTEGER_MAX if test.high is None or test.high > INTEGER_MAX else math.ceil(test.high) - 1
    return math.ceil(max(test.low, INTEGER_MIN)), last


def _floating(test: Numbers) -> tuple[float, float]:
    """The first and the last of the floats in a range."""
    last = math.inf if test.high is None else math.nextafter(_float_from(test.high), -math.inf)
    return _float_from(test.low), last


def _float_from(bound: int | float) -> float:
    """The least float that is not less."""
    try:
        near = float(bound)
    except OverflowError:
        return math.inf if bound > 0 else -sys.float_info.max
    return near if near >= bound else math.nextafter(near, math.inf)
