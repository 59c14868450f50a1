from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.core.model import Link, link
from gapless.core.overlay.topology import Topology
from support import Tree, chain, equation_1, paths_from, tree_of


@st.composite
def trees(draw: st.DrawFn) -> list[Link]:
    """Links of a tree of 2 to 25 nodes, in any order."""
    parents = [draw(st.integers(0, i)) for i in range(draw(st.integers(1, 24)))]
    links = [link(f"n{parent}", f"n{i + 1}") for i, parent in enumerate(parents)]
    return draw(st.permutations(links))


deltas = st.integers(0, 3)


def known(links: list[Link], delta: int, me: str = "n0") -> tuple[Topology, Tree]:
    topology = Topology(me, delta)
    topology.add(links)
    return topology, tree_of(links)


@settings(deadline=None)
@given(trees(), deltas)
def test_the_neighbourhood_is_equation_1_in_whatever_order_links_come(links: list[Link], delta: int) -> None:
    topology, tree = known(links, delta)
    assert set(topology.links()) == equation_1(tree, "n0", delta)
    one_by_one = Topology("n0", delta)
    for path in paths_from(tree, "n0", len(tree)).values():
        one_by_one.add(chain(*path[-2:]))
    assert one_by_one.links() == topology.links()


@settings(deadline=None)
@given(trees(), deltas)
def test_all_answers_agree_with_a_search_of_the_whole_tree(links: list[Link], delta: int) -> None:
    topology, tree = known(links, delta)
    paths = paths_from(tree, "n0", delta + 1)
    assert topology.nodes() == sorted(paths, key=lambda node: (len(paths[node]), node))
    for node, path in paths.items():
        assert node in topology
        assert tuple(topology.path(node)) == path
        assert topology.distance(node) == len(path) - 1
        assert set(topology.behind(node)) == {n for n, p in paths.items() if node in p[:-1]}
        assert topology.children(node) == sorted(n for n, p in paths.items() if p[-2:-1] == (node,))
        if node != "n0":
            assert topology.direction(node) == path[1]
    assert "elsewhere" not in topology


@settings(deadline=None)
@given(trees(), deltas, st.integers(0, 24), deltas)
def test_what_a_node_tells_another_is_within_both_views(
    links: list[Link], delta: int, other: int, radius: int
) -> None:
    topology, tree = known(links, delta)
    centre = f"n{other % len(tree)}"
    valid, marked = topology.links_within(centre, radius)
    mine = tree_of(topology.links())
    near = paths_from(mine, centre, radius)
    assert marked == []
    assert valid == sorted({link(a, b) for a in near for b in mine.get(a, ()) if b in near})
    if centre in topology:
        assert topology.ball(centre, radius) == {node: len(path) - 1 for node, path in near.items()}


@settings(deadline=None)
@given(trees(), deltas, st.randoms(use_true_random=False))
def test_removing_a_link_forgets_all_behind_it(links: list[Link], delta: int, rng: Random) -> None:
    topology, tree = known(links, delta)
    gone = rng.choice(links)
    topology.remove(gone)
    reached = paths_from(tree_of([each for each in links if each != gone]), "n0", delta + 1)
    assert set(topology.nodes()) == set(reached)
    assert set(topology.links()) == {
        each for each in equation_1(tree, "n0", delta) if set(each) <= set(reached)
    }
    topology.add(links)
    assert set(topology.links()) == equation_1(tree, "n0", delta)


def test_a_marked_link_becomes_valid_and_never_marked_again() -> None:
    topology = Topology("a", 1)
    assert topology.add(marked=[("a", "b")]).marked == [("a", "b")]
    assert topology.is_marked(("a", "b"))
    assert not topology.is_valid(("a", "b"))
    assert topology.links_within("a", 1) == ([], [("a", "b")])
    assert topology.add([("a", "b")]).valid == [("a", "b")]
    assert topology.is_valid(("a", "b"))
    assert topology.add(marked=[("a", "b")]) == ([], [], [])
    assert topology.add([("a", "b")]) == ([], [], [])
    assert topology.links(marked=True) == []


def test_an_unknown_link_is_neither_valid_nor_marked() -> None:
    topology = Topology("a", 1)
    assert not topology.is_valid(("a", "b"))
    assert not topology.is_marked(("a", "b"))
    topology.remove(("a", "b"))
    assert topology.nodes() == ["a"]


def test_a_valid_link_that_would_close_a_cycle_is_refused() -> None:
    topology = Topology("a", 2)
    topology.add(chain("a", "b", "c"))
    assert topology.add([("a", "c")]) == ([], [], [])
    assert topology.links() == chain("a", "b", "c")


def test_a_valid_link_replaces_the_marked_one_of_a_join_that_was_given_up() -> None:
    topology = Topology("a", 2)
    topology.add(chain("a", "b", "c"), marked=[("a", "n")])
    assert topology.rivals(("c", "n")) == [("a", "n")]
    assert topology.add([("c", "n")]) == ([("c", "n")], [], [("a", "n")])
    assert topology.links() == [*chain("a", "b", "c"), ("c", "n")]


def test_of_two_marked_links_that_exclude_each_other_the_first_stays() -> None:
    topology = Topology("a", 2)
    topology.add(chain("a", "b", "c"), marked=[("a", "n")])
    assert topology.add(marked=[("c", "n")]) == ([], [], [])
    assert topology.links(marked=True) == [("a", "n")]


def test_joins_of_other_nodes_are_no_rivals() -> None:
    topology = Topology("a", 2)
    topology.add(chain("a", "b", "c"), marked=[("a", "n"), ("c", "m")])
    assert topology.rivals(("b", "x")) == []
    assert topology.add([("b", "x")]) == ([("b", "x")], [], [])
    assert topology.links(marked=True) == [("a", "n"), ("c", "m")]
