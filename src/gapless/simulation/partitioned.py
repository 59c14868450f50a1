"""Which brokers a partition cuts off: what the world knows and no broker does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from gapless.core.effects import LinkAdded
from gapless.core.model import NodeId, Partition

if TYPE_CHECKING:
    from gapless.simulation.world import World


def brokers_in(world: World, partitions: Sequence[Partition]) -> tuple[NodeId, ...]:
    """The brokers of partitions, and those behind that their detector does not know of: what lies
    behind a barrier, or has joined behind a partition. Only the world knows them."""
    found: dict[NodeId, None] = {}
    adjacent = _adjacent(world) if partitions else {}
    for partition in partitions:
        found |= dict.fromkeys(partition.nodes)
        detector = world.hosts[partition.detector].node
        known = detector.overlay.topology if detector is not None else ()
        behind = [(partition.nodes[-1], (partition.detector, *partition.nodes)[-2])]
        while behind:
            node, came_from = behind.pop()
            if node not in known:
                found[node] = None
            if node not in known or node == partition.nodes[-1]:
                behind += [(each, node) for each in adjacent.get(node, ()) if each != came_from]
    return tuple(sorted(found))


def _adjacent(world: World) -> dict[NodeId, list[NodeId]]:
    """The whole primary tree, as the stores of its brokers have it."""
    links = {
        record.link
        for host in world.hosts.values()
        for record in host.store
        if isinstance(record, LinkAdded) and host.name in record.link
    }
    adjacent: dict[NodeId, list[NodeId]] = {}
    for a, b in sorted(links):
        adjacent.setdefault(a, []).append(b)
        adjacent.setdefault(b, []).append(a)
    return adjacent
