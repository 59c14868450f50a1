"""What a node bears: every queue, table and message has a bound."""

from __future__ import annotations

from dataclasses import dataclass, fields

from gapless.core.model import SECOND, Micros


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The bounds of one node; simulations also draw tiny ones, to see what happens beyond them."""

    lease: Micros = 60 * SECOND
    """How long a client may be away before the network gives it up."""
    custody: int = 50_000
    """How many publications may wait for one target that cannot be reached."""
    waiting: int = 10_000
    """How many events of one client may wait until a broker can take them."""
    look_every: Micros = 1 * SECOND
    """How often a broker looks whether more than ``custody`` waits."""
    piece: int = 256
    """How many subscriptions a message has at most: a frame on the wire has a limit."""
    batch: int = 512
    """How many events a message has at most."""
    tombstones: int = 10_000
    """How many ended subscriptions a broker recognises after it has forgotten what they were."""
    strangers: int = 4_096
    """How many messages of a broker that is joining may wait until it is known where it joins."""

    def __post_init__(self) -> None:
        for each in fields(self):
            if getattr(self, each.name) < 1:
                raise ValueError(f"{each.name} must be at least 1, not {getattr(self, each.name)}")
