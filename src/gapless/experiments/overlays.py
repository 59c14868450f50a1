"""Who reaches whom by the code that brokers run: neighbourhoods, frontiers and directions of the overlay.

Each broker has its :class:`Topology` (its neighbourhood, 003 equation 1), walks it to find its active
sessions (:func:`gapless.core.overlay.frontier.walk`, which goes round failed brokers), and passes a
publication on to every active session that does not lead back where it came from (X-P0-21).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import cache

from gapless.core.model import Link, NodeId
from gapless.core.overlay.frontier import walk
from gapless.core.overlay.topology import Topology
from gapless.simulation.trees import neighbourhood


def topologies(links: list[Link], delta: int) -> dict[NodeId, Topology]:
    """What each broker of a tree knows of it."""
    known = {}
    for name in sorted({name for each in links for name in each}):
        known[name] = Topology(name, delta)
        known[name].add(neighbourhood(name, links, delta))
    return known


def active_sessions(known: Mapping[NodeId, Topology], dead: Collection[NodeId]) -> dict[NodeId, list[NodeId]]:
    """The active sessions of each live broker, once every failure was noticed."""
    live = known.keys() - dead
    return {name: walk(topology, live, dead).active for name, topology in known.items() if name in live}


def routed_pairs(known: Mapping[NodeId, Topology], dead: Collection[NodeId]) -> int:
    """How many ordered pairs of live brokers there are of which the first reaches the second."""
    active = active_sessions(known, dead)

    @cache
    def reached(node: NodeId, came_from: NodeId) -> int:
        """How many brokers get what the node gets from one direction."""
        direction = known[node].direction
        return 1 + sum(handed_on(node, peer) for peer in active[node] if direction(peer) != came_from)

    def handed_on(node: NodeId, peer: NodeId) -> int:
        return reached(peer, known[peer].direction(node))

    return sum(handed_on(node, peer) for node in active for peer in active[node])
