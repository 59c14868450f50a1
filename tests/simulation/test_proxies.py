"""A client whose link to its own broker is cut reaches it through one of that broker's neighbours.

Without that, what others send to the client would wait at its broker, which they see alive, until the link
is healed or the client's lease ends.
"""

from __future__ import annotations

import pytest

from gapless.core.model import SECOND, OrderName, Topic, link
from gapless.simulation import trace
from gapless.simulation.checkers import check
from gapless.simulation.world import World


def chain() -> World:
    world = World(seed=3, delta=1, topics={"t": Topic("t", OrderName.PUBLISHER)})
    world.add_tree([link("b1", "b2"), link("b2", "b3")])
    world.add_client("publisher", "b1")
    world.add_client("neighbour", "b2")
    world.add_client("client", "b2")
    world.run_for(SECOND)
    world.subscribe("client", "s", "t")
    world.run_for(SECOND)
    return world


def delivered(world: World) -> list[tuple[str, int]]:
    return [(each.publisher, each.sequence) for each in world.trace if isinstance(each, trace.Deliver)]


@pytest.mark.parametrize("one_way", [False, True])
def test_events_reach_a_client_that_is_cut_off_from_its_own_broker(one_way: bool) -> None:
    world = chain()
    world.cut("client", "b2", one_way=one_way)
    world.publish("publisher", "publisher", "t", {})
    world.publish("neighbour", "neighbour", "t", {})
    world.publish("client", "client", "t", {})
    world.run_for(5 * SECOND)  # the detector, a dial in vain, a dial through a neighbour
    assert sorted(delivered(world)) == [("client", 1), ("neighbour", 1), ("publisher", 1)]


def test_when_the_proxy_dies_another_one_is_used() -> None:
    world = chain()
    world.cut("client", "b2")
    world.run_for(5 * SECOND)
    world.crash("b1")
    world.run_for(5 * SECOND)
    world.publish("neighbour", "neighbour", "t", {})
    world.run_for(2 * SECOND)
    assert delivered(world) == [("neighbour", 1)]
    world.restart("b1")
    world.heal("client", "b2")
    assert world.settle()
    assert check(world.trace, promise="publisher", healed=True) == []
