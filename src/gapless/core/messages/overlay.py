"""Messages of the overlay: joining, topology, the state of a node, and signs of life.

====================  ======================  =====================================================
message               from → to               paper
====================  ======================  =====================================================
``JoinRequest``       joining → join point    003, algorithm 2
``JoinRefused``       join point → joining    003, 4.2: only a VALID_JOINED node accepts joins
``PartialTopology``   join point → joining    003, algorithm 2: PAR_TOP
``Joined``            broker → broker         003, 4.6: the J message, forwarded to distance δ; also to leave
``JoinedConfirmed``   broker → broker         003, algorithm 1: its Confirmation
``Neighbourhood``     both ends of a session  003, 6: what the other should know of the tree
``Status``            node → its peers        003, algorithm 5: OPERATIONAL or RECOVERING
``PartitionInfo``     broker → its peers      000, III: to distance 2δ of the detector
``Ping``              node → its peers        000, II: the failure detector's sign of life
====================  ======================  =====================================================
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gapless.core.model import Link, NodeId, Partition


class NodeState(StrEnum):
    """What a node can do at the moment (003, figure 2)."""

    OPERATIONAL = "operational"
    RECOVERING = "recovering"
    FAILED = "failed"


class JoinRequest(msgspec.Struct, frozen=True, array_like=True, tag="join"):
    """Let me become your neighbour in the primary tree."""

    node: NodeId


class JoinRefused(msgspec.Struct, frozen=True, array_like=True, tag="refused"):
    """Not now: I am not joined myself. Ask again later, or ask another."""

    reason: str
    is_member: bool = False
    """A broker of the asking one's name is a member of the network already, in another place."""


class PartialTopology(msgspec.Struct, frozen=True, array_like=True, tag="partial"):
    """The links within δ of the join point; the joining node's own link among them, marked."""

    valid: tuple[Link, ...]
    marked: tuple[Link, ...]


class Joined(msgspec.Struct, frozen=True, array_like=True, tag="joined"):
    """A node has joined; told to every node within δ of the join point, away from the joining node."""

    node: NodeId
    join_point: NodeId
    incarnation: int
    left: bool = False
    """It has not joined but left, for good."""

    @property
    def rank(self) -> tuple[int, bool]:
        """Of two announcements of a link the one of the higher rank is the later one."""
        return self.incarnation, self.left

    @property
    def link(self) -> Link:
        """The new link, as the topology writes it."""
        a, b = self.node, self.join_point
        return (a, b) if a < b else (b, a)


class JoinedConfirmed(msgspec.Struct, frozen=True, array_like=True, tag="joined-ok"):
    """Everybody behind me who should know of that join, or leave, does, as far as they are alive."""

    node: NodeId
    incarnation: int
    left: bool = False


class Neighbourhood(msgspec.Struct, frozen=True, array_like=True, tag="links"):
    """All links I know that belong to your neighbourhood; the first message on every session."""

    valid: tuple[Link, ...]
    marked: tuple[Link, ...]
    state: NodeState
    fates: tuple[Joined, ...] = ()
    """What became of links that brokers have left."""
    network: str = ""
    """The id of the sender's network, if it has learned it since the session began."""


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
