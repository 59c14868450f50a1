"""Brokers join, and clients with them, while events flow, brokers crash and links break."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.model import SECOND, NodeId, OrderName
from gapless.simulation.checkers import check
from gapless.simulation.faults import Faults, Window
from gapless.simulation.run import WARM_UP, Options, build
from gapless.simulation.workload import TOPIC, Plan, Workload, attributes
from gapless.simulation.world import World

NEWCOMERS = 4
CLOSES = WARM_UP + 20 * SECOND


class Newcomers:
    """Each joins at a random broker, with a client that subscribes to all and publishes."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world, self.rng = world, rng
        for number in range(NEWCOMERS):
            world.at(rng.randrange(WARM_UP, CLOSES - 6 * SECOND), self.join, number)

    def join(self, number: int) -> None:
        world, rng = self.world, self.rng
        running = [name for name in world.brokers() if world.hosts[name].is_up]
        world.add_broker(f"n{number}", join=(rng.choice(running),))
        client = f"c{number}"
        world.add_client(client, f"n{number}")
        world.at(world.now + SECOND // 2, self.subscribe, client)
        for k in range(20):
            world.at(world.now + SECOND + k * SECOND // 10, self.publish, client)

    def subscribe(self, client: NodeId) -> None:
        if self.world.hosts[client].is_up:
            self.world.subscribe(client, f"{client}/first", TOPIC)

    def publish(self, client: NodeId) -> None:
        self.world.publish(client, client, TOPIC, attributes(self.rng, depth=9))


@pytest.mark.parametrize("seed", range(6))
def test_nothing_is_lost_while_brokers_join(seed: int) -> None:
    options = Options(order=OrderName.PUBLISHER, brokers=8, delta=1 + seed % 2)
    world = build(options, seed)
    Workload(world, Plan(publishers=3, subscribers=4, events=60, opens=WARM_UP, closes=CLOSES))
    Newcomers(world, world.random("newcomers"))
    faults = Faults(world, crashes=5, cuts=3, max_down=options.delta, window=Window(WARM_UP, CLOSES))
    world.run(until=CLOSES)
    faults.heal_all()
    assert world.settle()
    assert faults.injected > 0
    assert check(world.trace, promise="publisher", healed=True) == []
    for number in range(NEWCOMERS):
        assert world.broker(f"n{number}").overlay.is_joined
