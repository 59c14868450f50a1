"""A broker that has lost its store joins again in its old place (P0-91, P0-97)."""

from __future__ import annotations

import itertools

import pytest

from gapless.core.model import SECOND, OrderName, Topic, link
from gapless.simulation.checkers import check
from gapless.simulation.world import World

CHAIN = [f"b{i}" for i in range(6)]


def publish(world: World, client: str, events: int) -> None:
    for _ in range(events):
        world.publish(client, client, "t", {})


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize(("lost", "join_point"), [("b2", "b1"), ("b2", "b3"), ("b1", "b0")])
def test_a_broker_without_its_store_is_replaced_and_nothing_is_lost(
    delta: int, lost: str, join_point: str
) -> None:
    world = World(seed=1, delta=delta, topics={"t": Topic("t", OrderName.PUBLISHER)})
    world.add_tree([link(a, b) for a, b in itertools.pairwise(CHAIN)])
    world.add_client("near", lost)
    world.add_client("left", "b0")
    world.add_client("right", "b5")
    world.run_for(SECOND)
    for client in ("near", "right"):
        world.subscribe(client, client, "t")
    world.run_for(SECOND)
    before = world.broker(lost).overlay.topology.links()
    publish(world, "left", 5)
    world.crash(lost)
    publish(world, "left", 5)
    publish(world, "near", 5)
    world.run_for(3 * SECOND)
    world.replace(lost, join=(join_point,))
    publish(world, "left", 5)
    publish(world, "near", 5)
    assert world.settle()
    overlay = world.broker(lost).overlay
    assert overlay.is_joined
    assert overlay.topology.links() == before
    assert overlay.identity.incarnation > 2, "numbers of the lost life are never used again"
    assert check(world.trace, promise="publisher", healed=True) == []
