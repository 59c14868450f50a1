"""The state of a whole small network, as a value: what its nodes know, and what is under way between them.

A *lane* is one direction of a session: what was sent on it and has not arrived, in order; messages of low
priority have a lane of their own beside it. Messages carry the number of hops that led to them (their
*stamp*), and the default schedule takes the lowest first, as if each took the same time. So the order in
which two nodes handled what does not concern each other leaves no mark on the state.
"""

from __future__ import annotations

from typing import NamedTuple

from gapless.core.model import Identity, Micros, NodeId
from gapless.simulation import trace
from gapless.simulation.explore.nodes import ItemNumber, NodeNumber

Lane = tuple[NodeId, NodeId, bool]
"""From whom, to whom, and whether for messages of low priority."""
Item = ItemNumber | Identity | None
"""What is on a lane: a message; who accepted one's dial; ``None``: the session's end."""
Pair = tuple[NodeId, NodeId]
History = tuple["History", trace.Record] | None
"""A trace, the last record first: schedules share what they have in common."""


class Repair(NamedTuple):
    """What ends a failure: a broker that starts again, a link that is healed, a suspicion that is over."""

    of: tuple[NodeId, ...]
    kind: str


class State:
    """All of a network at a moment. It is changed in place; a copy costs little."""

    __slots__ = (
        "closing",
        "cut",
        "dials",
        "error",
        "history",
        "holds",
        "lanes",
        "moves",
        "nodes",
        "now",
        "observed",
        "position",
        "repairs",
        "sequences",
        "stores",
        "until",
        "up",
        "wakes",
    )

    def __init__(self) -> None:
        self.nodes: dict[NodeId, NodeNumber | None] = {}
        """What runs, and in which state; ``None``: it is down."""
        self.wakes: dict[NodeId, Micros] = {}
        self.stores: dict[NodeId, int] = {}
        """The number of what each has made durable."""
        self.up: dict[Pair, None] = {}
        """Who has a session with whom, each end by itself."""
        self.lanes: dict[Lane, tuple[tuple[int, Item], ...]] = {}
        self.dials: dict[Pair, int] = {}
        self.cut: dict[Pair, None] = {}
        self.holds: dict[Lane, int] = {}
        """Lanes that wait, and for how many more steps of the script."""
        self.repairs: dict[Repair, int] = {}
        """Failures that end, and after how many more steps of the script."""
        self.position = 0
        self.now: Micros = 0
        self.until: Micros = 0
        """Time passes until then before anything else is done."""
        self.closing = False
        """Whether the script is done and all is being repaired."""
        self.history: History = None
        self.observed: dict[str, int] = {}
        """What each client has seen, as a fingerprint."""
        self.sequences: dict[str, int] = {}
        self.moves = 0
        self.error = ""

    def copy(self) -> State:
        """The same, independent of this one."""
        other = State.__new__(State)
        other.nodes = self.nodes.copy()
        other.wakes = self.wakes.copy()
        other.stores = self.stores.copy()
        other.up = self.up.copy()
        other.lanes = self.lanes.copy()
        other.dials = self.dials.copy()
        other.cut = self.cut.copy()
        other.holds = self.holds.copy()
        other.repairs = self.repairs.copy()
        other.position = self.position
        other.now = self.now
        other.until = self.until
        other.closing = self.closing
        other.history = self.history
        other.observed = self.observed.copy()
        other.sequences = self.sequences.copy()
        other.moves = self.moves
        other.error = self.error
        return other

    def key(self) -> int:
        """What distinguishes this state from others: not how it was come by."""
        return hash(
            (
                tuple(self.nodes.values()),
                tuple(self.stores.values()),
                frozenset(self.up),
                frozenset(self.lanes.items()),
                frozenset(self.dials.items()),
                frozenset(self.cut),
                frozenset(self.holds.items()),
                frozenset(self.repairs.items()),
                self.position,
                self.now,
                self.until,
                self.closing,
                frozenset(self.observed.items()),
            )
        )

    def record(self, observer: str, entry: trace.Record) -> None:
        """Something was seen, or asked for, by a client."""
        self.history = (self.history, entry)
        self.observed[observer] = hash((self.observed.get(observer, 0), trace.encode(entry)))

    def trace(self) -> trace.Trace:
        """What happened, in order."""
        records: list[trace.Record] = []
        history = self.history
        while history is not None:
            history, entry = history
            records.append(entry)
        return trace.Trace(reversed(records))
