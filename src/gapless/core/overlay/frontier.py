"""Which sessions carry messages now: the frontier of a node (000, II).

Walk outwards from the node over the primary tree. In each branch the walk stops at the first node with an
established session: that session is *active*. Nodes that could not be reached are passed and counted as
*down*, so the walk goes round up to δ adjacent failures. Where it meets a node that was not tried yet, it
waits there. At distance δ+1 it ends: a down node there is a *barrier* (what lies behind it is cut off for
now); a run of down nodes with an active session behind it is an *island*. A down node that may have links
which nobody has told this one is a barrier too, however near; and so is the node itself, as long as it may
have neighbours that it does not know.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field

from gapless.core.model import NodeId
from gapless.core.overlay.topology import Topology


@dataclass(slots=True)
class Frontier:
    """The outcome of one walk; every list is in the order of the walk, nearest branches first by name."""

    active: list[NodeId] = field(default_factory=list)
    down: list[NodeId] = field(default_factory=list)
    untried: list[NodeId] = field(default_factory=list)
    barriers: list[NodeId] = field(default_factory=list)
    """Down nodes at distance δ+1, and the blind ones: what lies behind them cannot be reached from here."""
    blind: list[NodeId] = field(default_factory=list)
    """Down nodes, and perhaps this one, that may have neighbours which it does not know: who is behind them
    may be anybody."""

    @property
    def wanted(self) -> list[NodeId]:
        """The nodes that should be dialed: all that were met and have no session."""
        return [*self.down, *self.untried]


def walk(topology: Topology, established: Container[NodeId], failed: Container[NodeId]) -> Frontier:
    """Walk from the topology's own node; ``failed`` are the nodes that were tried and not reached."""
    frontier = Frontier()
    if topology.me in topology.partly_known:
        frontier.blind.append(topology.me)
    waiting = topology.neighbours()[::-1]
    while waiting:
        node = waiting.pop()
        if node in established:
            frontier.active.append(node)
        elif node not in failed:
            frontier.untried.append(node)
        else:
            frontier.down.append(node)
            if topology.distance(node) == topology.radius:
                frontier.barriers.append(node)
            elif node in topology.partly_known:
                frontier.blind.append(node)
            waiting += topology.children(node)[::-1]
    frontier.barriers += frontier.blind
    return frontier


def proxies(topology: Topology, frontier: Frontier) -> dict[NodeId, tuple[NodeId, ...]]:
    """Through whom a neighbour can be reached when only the link to it is cut.

    Others see it alive and send to it what is meant for this side, and the other way round: all that would
    wait until the link is healed.
    """
    near = topology.neighbours()
    found = {}
    for node in frontier.wanted:
        if node in near:
            others = (*topology.neighbours(node), *near)
            found[node] = tuple(dict.fromkeys(each for each in others if each not in (topology.me, node)))
    return found
