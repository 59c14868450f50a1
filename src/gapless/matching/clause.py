"""A clause: one conjunction of predicates, and who subscribed to it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Generic, TypeVar

from gapless.matching.compiling import Conjunction
from gapless.matching.reading import Reading

K = TypeVar("K")


class Clause(Generic[K]):
    """A conjunction that some subscriptions have in common.

    ``tests`` are the predicates in the order of use, the first ``access`` of them to be looked up. A
    subscriber is a place in the order of addition, and a key. Mostly there is one only, so the dictionary of
    subscribers is made for the second: dictionaries of one would take more memory than all the rest.
    """

    __slots__ = ("access", "conjunction", "key", "number", "place", "subscribers", "tests")

    def __init__(
        self, number: int, conjunction: Conjunction, tests: Conjunction, access: int, *, place: int, key: K
    ) -> None:
        self.number = number
        self.conjunction = conjunction
        self.tests = tests
        self.access = access
        self.place = place
        self.key = key
        self.subscribers: dict[int, K] | None = None

    def join(self, place: int, key: K) -> None:
        """One more subscriber."""
        if self.subscribers is None:
            self.subscribers = {self.place: self.key}
        self.subscribers[place] = key

    def leave(self, place: int) -> bool:
        """One subscriber less; whether there still is one."""
        if self.subscribers is None:
            return False
        del self.subscribers[place]
        return bool(self.subscribers)


def passing(clauses: Iterable[Clause[K]], depth: int, reading: Reading, found: list[Clause[K]]) -> None:
    """Append the clauses of which all predicates from ``depth`` on hold."""
    for clause in clauses:
        for test in clause.tests[depth:]:
            if not test.holds(reading):
                break
        else:
            found.append(clause)
