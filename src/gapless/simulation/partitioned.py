"""Which brokers a partition cuts off: what the world knows and no broker does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gapless.core.effects import LinkAdded, LinkRemoved, Record
from gapless.core.model import Link, NodeId, Partition

if TYPE_CHECKING:
    from gapless.simulation.world import World


def brokers_in(world: World, partitions: Sequence[Partition], told: NodeId) -> tuple[NodeId, ...]:
    """The brokers of partitions, and those behind that their detector does not know of: what lies
    behind a barrier, or has joined behind a partition. Only the world knows them.

    ``told`` is the machine of the client that they are told. Those that it has detected itself go by its
    name, and another client of that name, elsewhere, knows other brokers."""
    me = world.twins.get(told, told)
    found: dict[NodeId, None] = {}
    tree = adjacent(world) if partitions else {}
    for partition in partitions:
        found |= dict.fromkeys(partition.nodes)
        detector = world.hosts[told if partition.detector == me else partition.detector].node
        known = detector.overlay.topology if detector is not None else ()
        seen = dict.fromkeys((partition.detector, *partition.nodes)[-2:])
        behind = [partition.nodes[-1]]
        while behind:  # a join that has only begun may close a circle
            node = behind.pop()
            if node not in known:
                found[node] = None
            if node not in known or node == partition.nodes[-1]:
                new = [each for each in tree.get(node, ()) if each not in seen]
                seen |= dict.fromkeys(new)
                behind += new
    return tuple(sorted(found))


def known_links(store: Sequence[Record]) -> list[Link]:
    """The links that a store has."""
    found: dict[Link, None] = {}
    for record in store:
        if isinstance(record, LinkAdded):
            found[record.link] = None
        elif isinstance(record, LinkRemoved):
            found.pop(record.link, None)
    return list(found)


def adjacent(world: World) -> dict[NodeId, list[NodeId]]:
    """The whole primary tree, as the stores of its brokers have it."""
    links: dict[Link, None] = {}
    for host in world.hosts.values():
        if not host.is_client and host.name not in world.departed:
            links |= dict.fromkeys(each for each in known_links(host.store) if host.name in each)
    found: dict[NodeId, list[NodeId]] = {}
    for a, b in sorted(links):
        found.setdefault(a, []).append(b)
        found.setdefault(b, []).append(a)
    return found
