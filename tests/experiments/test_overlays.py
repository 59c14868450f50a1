"""The overlay's own code, applied to whole trees: it does what running brokers do, and what is defined."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest

from experiments.definitions import connected
from gapless.core.model import SECOND
from gapless.experiments.connectivity import OverlayMismatchError, check, count
from gapless.experiments.networks import DELTAS, FANOUTS, MODELS, Network, number_of, parents_of
from gapless.experiments.overlays import active_sessions, routed_pairs, topologies
from gapless.experiments.reach import connected_pairs
from gapless.simulation.world import World
from support import active, tree_of


@pytest.mark.parametrize("delta", DELTAS)
def test_active_sessions_are_those_of_a_running_network(delta: int) -> None:
    network = Network("random", 3, 40, seed=delta)
    links, order = network.links(0), network.failures(0)
    world = World(seed=3, delta=delta)
    world.add_tree(links)
    world.run_for(SECOND)
    for name in order[:12]:
        world.crash(name)
    assert world.settle(quiet=2 * SECOND)
    expected = active_sessions(topologies(links, delta), set(order[:12]))
    assert {name: active(world, name) for name in order[12:]} == expected


@pytest.mark.parametrize("delta", DELTAS)
@pytest.mark.parametrize("seed", range(6))
def test_the_overlay_reaches_exactly_who_can_be_reached(delta: int, seed: int) -> None:
    rng = Random(f"{delta}/{seed}")
    network = Network(rng.choice(MODELS), rng.choice((2, 3, 7)), rng.randrange(20, 70), seed)
    links, dead = network.links(0), set(network.failures(0)[: rng.randrange(network.brokers // 2)])
    assert routed_pairs(topologies(links, delta), dead) == len(connected(tree_of(links), dead, delta))


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fanout", FANOUTS)
@pytest.mark.parametrize("delta", DELTAS)
def test_the_overlay_reaches_as_many_as_were_counted_among_a_thousand(
    model: str, fanout: int, delta: int
) -> None:
    network = Network(model, fanout, 1000, seed=7)
    links = network.links(1)
    sets = [network.failures(run)[:failures] for run in range(3) for failures in (0, 40, 100, 170, 300)]
    dead = np.zeros((1000, len(sets)), dtype=np.bool_)
    for column, some in enumerate(sets):
        dead[[number_of(name) for name in some], column] = True
    counted = connected_pairs(parents_of(links), dead, delta).tolist()
    known = topologies(links, delta)
    assert [routed_pairs(known, set(some)) for some in sets] == [2 * each for each in counted]


def test_a_difference_between_the_overlay_and_the_definition_is_not_passed_over() -> None:
    network, points = Network("kary", 3, 40, seed=0), (0, 5, 10)
    counted = count(network, range(1), points)[1][0].tolist()
    check(network, 0, points, 1, counted)
    counted[2] += 1
    with pytest.raises(OverlayMismatchError, match="10 failed: the overlay reaches"):
        check(network, 0, points, 1, counted)
