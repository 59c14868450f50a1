"""Neighbourhoods and bypass in large networks, against what a search of the whole tree says."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.model import MILLISECOND, SECOND
from gapless.simulation.trees import kary_tree, random_tree
from gapless.simulation.world import World
from support import (
    BYPASSED,
    RECOVERED,
    all_joined,
    assert_bypass,
    assert_equation_1,
    assert_primary_only,
    join_one_by_one,
    start_tree,
)

DELTAS = pytest.mark.parametrize("delta", range(4))


def fail_and_return(world: World, links: list[tuple[str, str]], victims: list[str], rng: Random) -> None:
    """Kill brokers in all manners, compare; start them again, compare again."""
    for name in victims:
        world.crash(name, silently=rng.random() < 0.5)
    world.run_for(BYPASSED)
    assert_bypass(world, links)
    for name in victims:
        world.restart(name)
    world.run_for(RECOVERED)
    assert_equation_1(world, links)
    assert_bypass(world, links)
    assert_primary_only(world, links)


@DELTAS
def test_joins_one_after_the_other(delta: int) -> None:
    links = random_tree(60, 4, Random(delta))
    world = World(seed=delta, delta=delta)
    join_one_by_one(world, links, "b0")
    world.run_for(2 * SECOND)
    assert_equation_1(world, links)
    assert_primary_only(world, links)


@DELTAS
def test_joins_all_at_once(delta: int) -> None:
    rng = Random(delta)
    links = random_tree(120, 3, rng)
    world = World(seed=delta, delta=delta)
    world.add_broker("b0")
    parents = {max(each, key=lambda name: int(name[1:])): each for each in links}
    for name in rng.sample(sorted(parents), len(parents)):
        (parent,) = set(parents[name]) - {name}
        world.add_broker(name, join=(parent,))
    world.run_until(lambda: all_joined(world))
    world.run_for(2 * SECOND)
    assert_equation_1(world, links)
    assert_bypass(world, links)
    assert_primary_only(world, links)


@DELTAS
@pytest.mark.parametrize("fanout", [1, 2, 5])
def test_bypass_of_random_failures(delta: int, fanout: int) -> None:
    rng = Random(10 * delta + fanout)
    links = random_tree(40, fanout, rng)
    world = start_tree(links, delta=delta, seed=delta)
    for share in (0.05, 0.2, 0.5):
        fail_and_return(world, links, rng.sample(world.brokers(), int(40 * share)), rng)


@DELTAS
def test_failures_one_by_one_while_others_return(delta: int) -> None:
    rng = Random(delta)
    links = random_tree(30, 3, rng)
    world = start_tree(links, delta=delta, seed=delta)
    down: list[str] = []
    for _ in range(12):
        if down and rng.random() < 0.5:
            world.restart(down.pop(rng.randrange(len(down))))
        else:
            down.append(rng.choice([name for name in world.brokers() if name not in down]))
            world.crash(down[-1], silently=rng.random() < 0.5)
        world.run_for(rng.choice((50, 400, 2000)) * MILLISECOND)
    world.run_for(RECOVERED)
    assert_bypass(world, links)
    for name in down:
        world.restart(name)
    world.run_for(RECOVERED)
    assert_equation_1(world, links)
    assert_primary_only(world, links)


def test_bypass_among_a_thousand_brokers() -> None:
    rng = Random(0)
    links = random_tree(1000, 4, rng)
    world = start_tree(links, delta=2)
    victims = rng.sample(world.brokers(), 60)
    for name in victims:
        world.crash(name, silently=rng.random() < 0.5)
    world.run_for(BYPASSED)
    assert_bypass(world, links)


@pytest.mark.slow
@DELTAS
def test_bypass_and_return_among_a_thousand_brokers(delta: int) -> None:
    rng = Random(delta)
    links = random_tree(1000, 3, rng)
    world = start_tree(links, delta=delta, seed=delta)
    fail_and_return(world, links, rng.sample(world.brokers(), 100), rng)


@pytest.mark.slow
@DELTAS
def test_a_thousand_real_joins(delta: int) -> None:
    links = kary_tree(1000, 3)
    world = World(seed=delta, delta=delta)
    for k in range(1000):
        world.add_broker(f"b{k}", join=(f"b{(k - 1) // 3}",) if k else ())
    world.run_until(lambda: all_joined(world))
    world.run_for(2 * SECOND)
    assert_equation_1(world, links)
    assert_primary_only(world, links)
