"""Primary trees for simulations and experiments."""

from __future__ import annotations

from random import Random

from gapless.core.model import Link, NodeId, link
from gapless.core.overlay.topology import Topology


def kary_tree(brokers: int, fanout: int) -> list[Link]:
    """A complete tree in which every inner broker has ``fanout`` children; the last level may be short."""
    return [link(_name((i - 1) // fanout), _name(i)) for i in range(1, brokers)]


def random_tree(brokers: int, fanout: int, rng: Random) -> list[Link]:
    """Each broker joins at a random one that has fewer than ``fanout`` children."""
    open_places = [0]
    children = [0] * brokers
    links = []
    for i in range(1, brokers):
        place = rng.randrange(len(open_places))
        parent = open_places[place]
        links.append(link(_name(parent), _name(i)))
        children[parent] += 1
        if children[parent] == fanout:
            open_places[place] = open_places[-1]
            open_places.pop()
        open_places.append(i)
    return links


def _name(number: int) -> str:
    return f"b{number}"


def neighbourhood(name: NodeId, links: list[Link], delta: int) -> list[Link]:
    """The links of a whole tree that belong to one node's neighbourhood."""
    adjacent: dict[NodeId, list[NodeId]] = {}
    for a, b in links:
        adjacent.setdefault(a, []).append(b)
        adjacent.setdefault(b, []).append(a)
    topology = Topology(name, delta)
    frontier, seen = [name], {name}
    for _ in range(delta + 1):
        reached = {other: node for node in frontier for other in adjacent.get(node, ()) if other not in seen}
        topology.add(link(node, other) for other, node in reached.items())
        frontier = list(reached)
        seen.update(frontier)
    return topology.links()


def parents_in(links: list[Link]) -> dict[NodeId, NodeId]:
    """By each broker of a tree but the first the one that it has joined, if they came one after the other."""
    parents: dict[NodeId, NodeId] = {}
    members = [min(name for each in links for name in each)] if links else []
    for name in members:  # it grows
        joining = [a if b == name else b for a, b in links if name in (a, b)]
        found = [each for each in joining if each != parents.get(name)]
        parents |= dict.fromkeys(found, name)
        members += found
    return parents
