"""Messages of the overlay: joining, topology, the state of a node, and signs of life.

====================  ======================  =====================================================
message               from → to               paper
====================  ======================  =====================================================
``JoinRequest``       joining → join point    003, algorithm 2
``JoinRefused``       join point → joining    003, 4.2: only a VALID_JOINED node accepts joins
``PartialTopology``   join point → joining    003, algorithm 2: PAR_TOP
``Joined``            broker → broker         003, 4.6: the J message, forwarded to distance δ
``JoinedConfirmed``   broker → broker         003, algorithm 1: its Confirmation
``Neighbourhood``     both ends of a session  003, 6: what the other should know of the tree
``LinksWanted``       broker → broker         tell me again what I should know of the tree
``LeaveAsked``        broker → neighbour      remove me: I leave for good
``RemovalAsked``      centre → neighbours     is that broker gone, as you see it?
``RemovalVote``       neighbour → centre      the answer
``Status``            node → its peers        003, algorithm 5: OPERATIONAL or RECOVERING
``PartitionInfo``     broker → its peers      000, III: to distance 2δ of the detector
``Ping``              node → its peers        000, II: the failure detector's sign of life
====================  ======================  =====================================================
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from itertools import pairwise

import msgspec

from gapless.core.model import Incarnation, Link, NodeId, Partition, link


class NodeState(StrEnum):
    """What a node can do at the moment (003, figure 2)."""

    OPERATIONAL = "operational"
    RECOVERING = "recovering"
    FAILED = "failed"


class JoinRequest(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """Let me become your neighbour in the primary tree."""

    node: NodeId


class JoinRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """Not now, or not here: ``reason`` says why. Ask again later, or ask another."""

    reason: str
    is_member: bool = False
    """A broker of the asking one's name is a member of the network already, in another place."""


class PartialTopology(msgspec.Struct, frozen=True, array_like=True, tag="partial"):
    """The links within δ of the join point; the joining node's own link among them, marked."""

    valid: tuple[Link, ...]
    marked: tuple[Link, ...]
    partly_known: tuple[NodeId, ...] = ()
    """Brokers that may have links which the join point does not know."""


class Joined(msgspec.Struct, frozen=True, array_like=True, tag="joined"):
    """A node has joined; told to every node within δ of the join point, away from the joining node."""

    node: NodeId
    join_point: NodeId
    incarnation: int

    @property
    def link(self) -> Link:
        """The new link, as the topology writes it."""
        a, b = self.node, self.join_point
        return (a, b) if a < b else (b, a)


class JoinedConfirmed(msgspec.Struct, frozen=True, array_like=True, tag="joined-ok"):
    """Everybody behind me who should know of that join does, as far as they are alive."""

    node: NodeId
    incarnation: int


class LeaveAsked(msgspec.Struct, frozen=True, array_like=True, tag="leave"):
    """You are my only neighbour, and I leave for good: remove me."""


class Removal(msgspec.Struct, frozen=True, array_like=True):
    """A broker was removed from the network, and one of its neighbours, the *centre*, has taken its place."""

    node: NodeId
    incarnation: Incarnation
    """The last of its lives that was over then, as far as its neighbours could know."""
    centre: NodeId
    neighbours: tuple[tuple[NodeId, Incarnation], ...] = ()
    """The neighbours that it had, the centre too, and in which of their lives they were then."""
    number: int = 0
    """Later than those of all removals that the centre knew."""

    @property
    def rank(self) -> tuple[Incarnation, int]:
        """Of two removals of a broker the one of the higher rank holds."""
        return self.incarnation, self.number

    @property
    def made(self) -> list[Link]:
        """The links that replace those of the broker."""
        return [link(self.centre, each) for each, _ in self.neighbours if each != self.centre]

    def is_between(self, way: Sequence[NodeId]) -> bool:
        """Whether the way leads to or from the centre over a link that this removal made."""
        return any(link(*step) in self.made for step in pairwise(way) if self.centre in step)

    def had(self, neighbour: NodeId) -> bool:
        """Whether the broker lost its link to that neighbour by this."""
        return any(neighbour == each for each, _ in self.neighbours)


class RemovalAsked(msgspec.Struct, frozen=True, array_like=True, tag="gone?"):
    """Somebody wants to remove a neighbour of ours: do you see it?"""

    node: NodeId


class RemovalVote(msgspec.Struct, frozen=True, array_like=True, tag="gone!"):
    """Whether the broker is gone as far as the sender can see."""

    node: NodeId
    why_not: str = ""
    """Empty: it may be removed."""
    incarnation: Incarnation = 0
    """The last life of it that the sender had a session with; 0: none."""


class Neighbourhood(msgspec.Struct, frozen=True, array_like=True, tag="links"):
    """All links I know that belong to your neighbourhood; the first message on every session."""

    valid: tuple[Link, ...]
    marked: tuple[Link, ...]
    state: NodeState
    network: str = ""
    """The id of the sender's network, if it has learned it since the session began."""
    removals: tuple[Removal, ...] = ()
    """Brokers that were removed, and who has taken their places."""
    known: tuple[NodeId, ...] = ()
    """Brokers near you all of whose links I know, and have told you."""


class LinksWanted(msgspec.Struct, frozen=True, array_like=True, tag="links?"):
    """Tell me again all links of my neighbourhood: I have heard of a broker that may have more."""


class Status(msgspec.Struct, frozen=True, array_like=True, tag="status"):
    """My state has changed."""

    state: NodeState


class PartitionInfo(msgspec.Struct, frozen=True, array_like=True, tag="partition"):
    """A partition is there, or is no longer; ``distance`` is that of the receiver from the detector."""

    partition: Partition
    distance: int
    is_open: bool


class Ping(msgspec.Struct, frozen=True, array_like=True, tag="ping"):
    """I am alive, and had nothing else to say for a while."""
