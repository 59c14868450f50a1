"""The matching index: which subscriptions does this event match."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Generic

from gapless.matching.clause import Clause, K
from gapless.matching.compiling import Conjunction, conjunctions
from gapless.matching.node import Node
from gapless.matching.predicates import Evaluated, Numbers, Predicate, Strings
from gapless.matching.reading import Attributes
from gapless.matching.selectivity import Selectivity
from gapless.selectors import Selector
from gapless.selectors.evaluation import Predicate as Holds

FEW_MAX = 12
"""So many subscriptions are asked one by one: that is quicker than to look them up."""
SHARED_MAX = 1 << 14
"""So many predicates are remembered to be shared."""


class MatchIndex(Generic[K]):
    """Subscriptions, each a key and a selector; ``match`` is exactly ``selector.matches`` of each of them.

    Selectors are not kept, only what the index makes of them; but for the first few, as long as there are no
    more.
    """

    __slots__ = (
        "_attributes", "_clauses", "_count", "_few", "_root", "_selectivity", "_shared", "_subscriptions",
    )  # fmt: skip

    def __init__(self) -> None:
        self._subscriptions: dict[K, tuple[int, *tuple[Clause[K], ...]]] = {}
        self._clauses: dict[Conjunction, Clause[K]] = {}
        self._root: Node[K] = Node(0)
        self._attributes = Attributes()
        self._selectivity = Selectivity()
        self._shared: dict[Predicate, Predicate] = {}
        self._few: dict[K, Holds] | None = {}  # None: there were more
        self._count = 0

    def __len__(self) -> int:
        return len(self._subscriptions)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __contains__(self, key: object) -> bool:
        return key in self._subscriptions

    def add(self, key: K, selector: Selector) -> None:
        """Add a subscription under a new key."""
        if key in self._subscriptions:
            raise ValueError(f"there is a subscription {key!r} already")
        alternatives = conjunctions(selector.condition)
        place = self._counted()
        clauses = [self._join(place, key, conjunction) for conjunction in alternatives]
        self._subscriptions[key] = (place, *clauses)
        if self._few is not None:
            self._few[key] = selector.predicate
            if len(self._few) > FEW_MAX:
                self._few = None

    def remove(self, key: K) -> None:
        """Remove a subscription."""
        place, *clauses = self._subscriptions.pop(key)
        if self._few is not None:
            del self._few[key]
        elif not self._subscriptions:
            self._few = {}
        for clause in clauses:
            if not clause.leave(place):
                self._drop(clause)

    def match(self, attributes: Mapping[str, object]) -> list[K]:
        """The keys of all subscriptions that the event matches, in the order of addition."""
        if self._few is not None and type(attributes) is dict:
            return [key for key, holds in self._few.items() if holds(attributes)]
        found: list[Clause[K]] = []
        self._root.match(self._attributes.read(attributes), found)
        if not found:
            return []
        if len(found) == 1 and found[0].subscribers is None:
            return [found[0].key]
        subscribers: dict[int, K] = {}
        for clause in found:
            if clause.subscribers is None:
                subscribers[clause.place] = clause.key
            else:
                subscribers.update(clause.subscribers)
        return [subscribers[place] for place in sorted(subscribers)]

    def _counted(self) -> int:
        """A number greater than all before."""
        self._count += 1
        return self._count

    def _join(self, place: int, key: K, conjunction: Conjunction) -> Clause[K]:
        """Subscribe to a clause, which is made when there is none yet."""
        clause = self._clauses.get(conjunction)
        if clause is not None:
            clause.join(place, key)
            return clause
        conjunction = tuple(map(self._same, conjunction))
        tests, access = self._selectivity.ordered(conjunction)
        if tests == conjunction:
            tests = conjunction
        clause = Clause(self._counted(), conjunction, tests, access, place=place, key=key)
        self._clauses[conjunction] = clause
        for test in conjunction:
            if not isinstance(test, Evaluated):
                self._attributes.use(test.key)
        self._root.add(clause)
        return clause

    def _drop(self, clause: Clause[K]) -> None:
        """Forget a clause that has no subscriber any more."""
        del self._clauses[clause.conjunction]
        for test in clause.conjunction:
            if not isinstance(test, Evaluated) and not self._attributes.release(test.key):
                self._selectivity.forget(test.key)
        self._root.remove(clause)
        if not self._root:
            self._root, self._selectivity, self._shared = Node(0), Selectivity(), {}

    def _same(self, test: Predicate) -> Predicate:
        """An equal predicate that is there already, if it is remembered: many ask for the same values."""
        if isinstance(test, (Numbers, Strings)):
            return test  # ranges are rarely the same
        if len(self._shared) >= SHARED_MAX:
            self._shared.clear()
        return self._shared.setdefault(test, test)
