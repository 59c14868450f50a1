from __future__ import annotations

from dataclasses import dataclass
from random import Random

from gapless.core.overlay.frontier import Frontier, walk
from gapless.core.overlay.topology import Topology
from gapless.simulation.trees import random_tree
from support import Tree, active_by_definition, chain, paths_from, tree_of


@dataclass
class Case:
    """A random tree seen from one of its nodes, with random luck of the others."""

    tree: Tree
    me: str
    delta: int
    established: set[str]
    failed: set[str]

    def walk(self) -> Frontier:
        topology = Topology(self.me, self.delta)
        topology.add(tuple(sorted((a, b))) for a in self.tree for b in self.tree[a])  # type: ignore[misc]
        return walk(topology, self.established, self.failed)

    def paths(self) -> dict[str, tuple[str, ...]]:
        paths = paths_from(self.tree, self.me, self.delta + 1)
        del paths[self.me]
        return paths


def cases(count: int, *, untried: float) -> list[Case]:
    rng = Random(count)
    made = []
    for _ in range(count):
        tree = tree_of(random_tree(rng.randrange(2, 40), rng.randrange(1, 5), rng))
        me = rng.choice(sorted(tree))
        others = [node for node in sorted(tree) if node != me]
        tried = [node for node in others if rng.random() >= untried]
        up = {node for node in tried if rng.random() < rng.choice((0.2, 0.5, 0.9))}
        made.append(Case(tree, me, rng.randrange(4), up, set(tried) - up))
    return made


def test_active_is_what_the_definition_says_when_all_were_tried() -> None:
    for case in cases(300, untried=0.0):
        frontier = case.walk()
        assert len(frontier.active) == len(set(frontier.active))
        assert set(frontier.active) == active_by_definition(case.tree, case.me, case.delta, case.established)
        assert frontier.untried == []


def test_a_walk_passes_failed_nodes_only() -> None:
    for case in cases(200, untried=0.3):
        frontier = case.walk()
        met = {
            node for node, path in case.paths().items() if all(inner in case.failed for inner in path[1:-1])
        }
        assert set(frontier.active) == met & case.established
        assert set(frontier.down) == met & case.failed
        assert set(frontier.untried) == met - case.established - case.failed
        assert sorted(frontier.wanted) == sorted(met - case.established)


def test_a_barrier_is_a_run_of_failures_up_to_the_edge_of_the_view() -> None:
    for case in cases(200, untried=0.0):
        barriers = {
            node
            for node, path in case.paths().items()
            if len(path) == case.delta + 2 and all(inner in case.failed for inner in path[1:])
        }
        assert set(case.walk().barriers) == barriers


def test_the_walk_goes_by_name() -> None:
    topology = Topology("m", 1)
    topology.add([*chain("m", "b"), *chain("a", "m"), *chain("m", "c"), *chain("b", "x"), *chain("b", "d")])
    assert walk(topology, {"a", "c", "d", "x"}, {"b"}).active == ["a", "d", "x", "c"]
