"""The networks of the experiments follow from their numbers and the seed."""

from __future__ import annotations

import pytest

from gapless.experiments.networks import FANOUTS, MODELS, RUNS_A_TREE, Network, neighbours_of, parents_of
from support import is_tree


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fanout", FANOUTS)
def test_a_network_is_a_tree_whose_inner_brokers_have_no_more_children_than_the_fanout(
    model: str, fanout: int
) -> None:
    network = Network(model, fanout, 200, seed=1)
    links = network.links(0)
    assert is_tree(links, network.names())
    parents = parents_of(links)
    assert all(parent < child for child, parent in enumerate(parents) if child)
    children = [parents[1:].count(node) for node in range(200)]
    assert max(children) == fanout
    if model == "kary":
        assert sorted(children)[-(199 // fanout) :] == [fanout] * (199 // fanout)


def test_random_trees_differ_by_number_and_seed_and_complete_ones_do_not() -> None:
    one, other = Network("random", 3, 100, seed=1), Network("random", 3, 100, seed=2)
    assert one.links(0) == one.links(0)
    assert one.links(0) != one.links(1) != other.links(1)
    assert Network("kary", 3, 100, seed=1).links(0) == Network("kary", 3, 100, seed=2).links(5)


def test_all_brokers_fail_some_time_in_an_order_of_the_run() -> None:
    network = Network("kary", 3, 100, seed=1)
    orders = [network.failures(run) for run in range(3)]
    assert all(sorted(order) == sorted(network.names()) for order in orders)
    assert orders[0] != orders[1] != orders[2]
    assert orders == [Network("kary", 3, 100, seed=1).failures(run) for run in range(3)]
    first = [Network("kary", 3, 100, seed=0).failures(run)[0] for run in range(400)]
    assert len(set(first)) > 90, "any broker may be the first to fail"


def test_a_model_that_does_not_exist_is_refused() -> None:
    with pytest.raises(ValueError, match="the models are kary, random, not star"):
        Network("star", 3, 100, seed=0)


def test_neighbours_are_the_links_of_both_ends() -> None:
    assert neighbours_of([("b0", "b1"), ("b0", "b2")]) == {"b0": ["b1", "b2"], "b1": ["b0"], "b2": ["b0"]}
    assert RUNS_A_TREE > 0
