"""Deviations: what can be done otherwise than by default, right before a move.

* **hold** a lane: what is on it waits until all else is quiet, or through further steps of the script;
* **slow** down a link between brokers: both directions wait, to the end of the script;
* **crash** a broker, with what it had under way; it comes back when all is quiet, or a step later;
* **cut** a link; both ends notice at once, or only one does; it is healed when all is quiet, or a step later;
* **suspect** a peer that is well;
* **hurry**: the next step of the script comes now, while messages are under way.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.core.model import NodeId

ALWAYS = 99
"""More steps than any script has."""
SPANS = (0, ALWAYS, 1)
"""How long a lane is held: until all else is quiet, through the next step, or to the end of the script."""
FAILURE_SPANS = (0, 1)
"""How long a failure lasts, likewise."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """What is done instead of the default, before the move of that number."""

    at: int
    kind: str
    who: tuple[NodeId, ...] = ()
    span: int = 0

    def __str__(self) -> str:
        """As one word, from which it can be read again."""
        span = {0: "", ALWAYS: "*"}.get(self.span, f"*{self.span}")
        return ":".join((str(self.at), self.kind, ">".join(self.who) + span))

    @classmethod
    def parse(cls, text: str) -> Deviation:
        """A deviation from its word."""
        try:
            at, kind, rest = text.split(":", 2)
            who, star, span = rest.partition("*")
            names = tuple(who.split(">")) if who else ()
            return cls(int(at), kind, names, (int(span) if span else ALWAYS) if star else 0)
        except ValueError as error:
            raise ValueError(f"{text!r} is no deviation, such as 17:crash:b1*1") from error
