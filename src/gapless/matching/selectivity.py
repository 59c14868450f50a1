"""Which predicate of a conjunction to look up first: an estimate of how few events pass it.

All that is known are the subscriptions seen so far, and they tell enough: an equality passes one of the
values that others ask for, a range the share of the others' bounds that lie in it. The order that is
chosen when a clause is added is kept with the clause, so estimates may change, and removed subscriptions
may still count in them: only speed depends on it.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from operator import itemgetter

from gapless.matching.compiling import Conjunction
from gapless.matching.predicates import (
    Absent,
    Among,
    Beginning,
    Bound,
    Evaluated,
    Numbers,
    Outside,
    Predicate,
    Present,
    Strings,
)
from gapless.matching.reading import Key, Known

VALUES_MAX = 1024
"""So many distinct values of an attribute are counted."""
SAMPLE_MAX = 256
COPIES_MAX = 16
"""A clause that asks for sets of several attributes is put under at most so many combinations."""
FEW = 4
ABSENT_SHARE = 0.5
SHARE_MAX = 0.25
"""A predicate that lets more pass is not worth a second table."""


_first = itemgetter(0)


class _Sample:
    """A sorted sample of bounds: every n-th that was seen, n growing with their number."""

    __slots__ = ("_bounds", "_seen", "_stride")

    def __init__(self) -> None:
        self._bounds: list[Bound] = []
        self._seen = 0
        self._stride = 1

    def add(self, bound: Bound) -> None:
        """See one more bound."""
        self._seen += 1
        if self._seen % self._stride == 0:
            insort(self._bounds, bound)
            if len(self._bounds) > SAMPLE_MAX:
                self._bounds = self._bounds[::2]
                self._stride *= 2

    def share(self, low: Bound, high: Bound | None) -> float:
        """The share of bounds from ``low`` to ``high``; with one added, so that it is never zero."""
        end = len(self._bounds) if high is None else bisect_left(self._bounds, high)
        return (end - bisect_left(self._bounds, low) + 1) / (len(self._bounds) + 1)


class Selectivity:
    """What is known of the values and bounds that subscriptions ask for."""

    __slots__ = ("_samples", "_values")

    def __init__(self) -> None:
        self._values: dict[Key, set[Known]] = {}
        self._samples: dict[tuple[Key, type], _Sample] = {}

    def ordered(self, tests: Conjunction) -> tuple[Conjunction, int]:
        """The predicates in the order to use them, and how many of them, from the first, to look up.

        What is looked up by hash comes first, the most selective at the head; then at most one range, since
        the clauses that pass a range are few and all different. A set of several values means as many copies,
        so it must be better than the range, or small and the first. What remains is checked on the
        candidates, in the order of cost.
        """
        if len(tests) == 1:
            self.see(tests[0])
            return tests, int(not isinstance(tests[0], (Present, Outside, Evaluated)))
        ranges: list[tuple[float, Predicate]] = []
        hashed: list[tuple[float, Predicate]] = []
        rest: list[Predicate] = []
        for test in tests:
            self.see(test)
            kind = type(test)
            if kind is Numbers or kind is Strings:
                ranges.append((self.share(test), test))
            elif kind is Among or kind is Absent or kind is Beginning:
                hashed.append((self.share(test), test))
            else:
                rest.append(test)
        ranges.sort(key=_first)
        hashed.sort(key=_first)
        access: list[Predicate] = []
        checked: list[Predicate] = []
        copies = 1
        for share, test in hashed:
            more = len(test.values) if isinstance(test, Among) else 1
            if more > 1 and ranges and share > ranges[0][0]:
                use = not access and share <= SHARE_MAX and more <= FEW
            else:
                use = not access or (share <= SHARE_MAX and copies * more <= COPIES_MAX)
            if use:
                access.append(test)
                copies *= more
            else:
                checked.append(test)
        access += [test for _, test in ranges[:1]]
        checked += [test for _, test in ranges[1:]]
        return (*access, *checked, *rest), len(access)

    def forget(self, key: Key) -> None:
        """Nobody asks for this attribute any more."""
        self._values.pop(key, None)
        self._samples.pop((key, Numbers), None)
        self._samples.pop((key, Strings), None)

    def see(self, test: Predicate) -> None:
        """Some clause asks for this."""
        if isinstance(test, Among):
            values = self._values.setdefault(test.key, set())
            if len(values) < VALUES_MAX:
                values.update(test.values)
        elif isinstance(test, (Numbers, Strings)):
            sample = self._samples.setdefault((test.key, type(test)), _Sample())
            sample.add(test.low)
            if test.high is not None:
                sample.add(test.high)

    def share(self, test: Predicate) -> float:
        """The estimated share of events that pass."""
        match test:
            case Among(key, values):
                return len(values) / max(len(self._values[key]), 2)
            case Beginning(_, text):
                return 4.0 ** -len(text)
            case Numbers(key, low, high) | Strings(key, low, high):
                return self._samples[key, type(test)].share(low, high)
            case Absent():
                return ABSENT_SHARE
            case _:
                return 1.0
