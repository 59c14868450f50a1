"""What a checker says when it found something."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gapless.core.model import Micros


class Kind(StrEnum):
    """What can be wrong; the conformance id where there is one."""

    NUMBERING = "numbering"
    """A publisher's sequences of a topic do not count from 1 without holes, each used once."""
    PHANTOM = "phantom"
    """Delivered though not published until then, or to a subscription that is not there."""
    WRONG_MATCH = "wrong-match"
    """Delivered though the topic or the selector of the subscription does not match."""
    DUPLICATE = "duplicate"
    """INV-DUP."""
    EARLY = "early"
    """Delivered before live without being flagged as best effort."""
    ORDER = "order"
    """INV-FIFO."""
    GAP = "gap"
    """INV-GAP."""
    LOST = "lost"
    """INV-LIVE."""
    CAUSAL = "causal"
    """INV-CAUSAL."""
    TOTAL = "total"
    """INV-TOTAL."""
    DURABLE = "durable"
    """INV-DUR."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Violation:
    """One broken promise and the record where it shows.

    For something missing, that is the record of the delivery before which it should have come, or its
    publication when it never came. ``index`` counts records from 0: line ``index + 1`` of a trace file.
    """

    kind: Kind
    message: str
    index: int
    t: Micros
    subscription: str | None = None
    publisher: str | None = None
    sequence: int | None = None

    def __str__(self) -> str:
        return f"line {self.index + 1}, t={self.t}: {self.kind}: {self.message}"


class Report(list[Violation]):
    """The first violations of each kind; ``counts`` has how many there are of each, ``total`` of all."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: dict[Kind, int] = {}

    @property
    def total(self) -> int:
        """The number of all violations, reported here or not."""
        return sum(self.counts.values())

    @property
    def ok(self) -> bool:
        """Whether nothing is wrong."""
        return not self.counts

    def add(self, violations: Iterable[Violation], limit: int) -> None:
        """Count all of them and keep at most ``limit`` of each kind."""
        for violation in violations:
            count = self.counts.get(violation.kind, 0)
            self.counts[violation.kind] = count + 1
            if count < limit:
                self.append(violation)
