"""What is done next, at random: every kind of act comes as often as it should, also in a short run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping
from random import Random


class Deck:
    """Cards with kinds of acts; all are drawn before any comes again, as far as they are possible."""

    def __init__(self, kinds: Mapping[str, int], rng: Random) -> None:
        self._kinds = dict(kinds)
        self._rng = rng
        self._cards: list[str] = []
        self.counts: Counter[str] = Counter(dict.fromkeys(kinds, 0))
        """How many acts of each kind were done."""

    def draw(self, possible: Container[str]) -> str | None:
        """The next kind of those that are possible now."""
        for _ in range(2):
            for place, kind in enumerate(self._cards):
                if kind in possible:
                    return self._cards.pop(place)
            fresh = [kind for kind, count in self._kinds.items() for _ in range(count)]
            self._rng.shuffle(fresh)
            self._cards += fresh
        return None

    @property
    def is_through(self) -> bool:
        """Whether there was an act of every kind."""
        return all(self.counts.values())
