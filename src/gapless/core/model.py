"""The words of the whole system as values: who, what, and from where on a promise holds.

Everything here is an immutable value that can go over the wire. Time is integer microseconds, so that
traces print exactly and no rounding differs between machines.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import TypeAlias

import msgspec

from gapless.core.attributes import Attributes

Micros: TypeAlias = int
"""Microseconds: a moment of the driver's clock, or a span of time."""

NodeId: TypeAlias = str
"""The name of a broker or a client; it stays the same over all its incarnations."""

Incarnation: TypeAlias = int
"""How often a node has started. Numbers a node gave before a crash never mix with later ones (X-P0-15)."""

Link: TypeAlias = tuple[NodeId, NodeId]
"""An edge of the primary tree; the two ends in sorted order, because topology links have no direction."""

Path: TypeAlias = tuple[NodeId, ...]
"""Nodes of a primary path that lead *to* a node: the farthest known first, the nearest last."""

SubscriptionId: TypeAlias = str

MILLISECOND: Micros = 1_000
SECOND: Micros = 1_000_000


def link(a: NodeId, b: NodeId) -> Link:
    """The topology link between two nodes."""
    if a == b:
        raise ValueError(f"a node cannot be linked to itself: {a!r}")
    return (a, b) if a < b else (b, a)


class OrderName(StrEnum):
    """The orders that a topic can promise."""

    BEST_EFFORT = "best-effort"
    PUBLISHER = "publisher"
    CAUSAL = "causal"
    TOTAL = "total"


class BeyondDelta(StrEnum):
    """What a topic does when more than δ failures stand in the way."""

    HOLD = "hold"
    MARK = "mark"


class Topic(msgspec.Struct, frozen=True):
    """What is declared once and known to every broker."""

    name: str
    order: OrderName = OrderName.PUBLISHER
    beyond_delta: BeyondDelta = BeyondDelta.HOLD
    repositories: int = 0
    schema: str = ""
    """What attributes its events have, as Spark DDL; empty: anything."""


class Declaration(msgspec.Struct, frozen=True, array_like=True):
    """What is said of a topic's name: that it is this topic, or that it is one no longer."""

    topic: Topic
    version: int
    deleted: bool = False

    @property
    def rank(self) -> tuple[int, bool, str, str, int, str]:
        """Of two declarations of a name that of higher rank holds, everywhere and in whatever order they
        come: the later version, and of two that were made at once in different places always the same."""
        topic = self.topic
        return (
            self.version,
            self.deleted,
            topic.order,
            topic.beyond_delta,
            topic.repositories,
            topic.schema,
        )


class Event(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What is published; its identity is (topic, publisher, sequence)."""

    topic: str
    publisher: str
    sequence: int
    attributes: Attributes
    payload: bytes = b""
    published_at: Micros = 0


Generation: TypeAlias = tuple[int, int]
"""A publisher's numbering, and how often it has changed its home under it; of two the greater one is later.

A numbering is made with the store of a publisher's name, and told apart from others by when: who has lost the
store begins to count anew, and must not be taken for its former self."""

Content: TypeAlias = tuple[Attributes, bytes]
"""What an application gives to be published: attributes and payload."""


class StartCut(msgspec.Struct, frozen=True):
    """The first promised position of each source: where a promise begins.

    A source that is not named is promised from the first event that it publishes after the subscription is
    live. Confirmations, markers, start ticks and durable registrations all carry this one type; users see it
    as ``subscription.start``.
    """

    first: dict[str, int] = {}
    numberings: dict[str, int] = {}
    """Of sources that may begin to count anew: the numbering that the position belongs to."""

    def promises(self, source: str, position: int) -> bool:
        """Whether the position of that source lies at or after the cut."""
        return position >= self.first.get(source, 0)

    def raised(self, other: Mapping[str, int]) -> StartCut:
        """The later of two cuts, source by source: a promise that both can keep."""
        later = {source: max(position, self.first.get(source, 0)) for source, position in other.items()}
        return StartCut({**self.first, **later}, self.numberings)


class Partition(msgspec.Struct, frozen=True, array_like=True):
    """A run of brokers that a broker cannot reach: pid of paper 000.

    ``nodes`` is a primary path, from the detector's neighbour on. What lies behind it is unreachable too when
    the run is a barrier.
    """

    detector: NodeId
    number: int
    nodes: tuple[NodeId, ...]


class Identity(msgspec.Struct, frozen=True, array_like=True):
    """What both ends of a session say of themselves when it is set up."""

    node: NodeId
    incarnation: Incarnation
    home: NodeId | None = None
    """The broker of a client; ``None`` for a broker."""

    @property
    def is_leaf(self) -> bool:
        """Whether this is a client: it publishes and subscribes, and forwards nothing."""
        return self.home is not None
