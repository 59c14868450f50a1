"""Brokers that leave the network for good, alone and while events flow and things break (X-D3-19)."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.effects import BrokerRemoved, LinkAdded, LinkRemoved
from gapless.core.limits import Limits
from gapless.core.messages.overlay import Removal
from gapless.core.model import MILLISECOND, SECOND, OrderName, link
from gapless.simulation.checkers import check
from gapless.simulation.faults import Faults, Window
from gapless.simulation.run import WARM_UP, Options, build
from gapless.simulation.workload import Plan, Workload
from gapless.simulation.world import World
from support import (
    BYPASSED,
    RECOVERED,
    TOPIC,
    assert_equation_1,
    assert_promises,
    chain,
    delivered,
    lives,
    publish_all,
    publisher_order,
    start_network,
    subscribe_all,
)

CLOSES = WARM_UP + 20 * SECOND
LINKS = [*chain("a", "b", "c", "d"), link("b", "x")]


def leave(world: World, name: str) -> None:
    world.leave(name)
    world.run_until(lambda: name in world.departed)


@pytest.mark.parametrize("delta", [0, 1, 2])
def test_a_broker_at_the_edge_is_taken_out_of_every_neighbourhood(delta: int) -> None:
    world = start_network(LINKS, {"p": "a", "s": "c"}, delta=delta)
    subscribe_all(world, {"s": ""})
    leave(world, "d")
    world.run_for(SECOND)
    assert "d" not in world.brokers()
    assert_equation_1(world, [each for each in LINKS if "d" not in each])
    for name in world.brokers():
        overlay = world.broker(name).overlay
        assert overlay.frontier.wanted == []
        assert overlay.partitions.table() == []
        assert "d" not in overlay.sessions.up
    leave(world, "x")
    world.run_for(SECOND)
    assert_equation_1(world, chain("a", "b", "c"))
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert delivered(world, "s") == [1, 2, 3]
    assert_promises(world)


def test_a_leave_is_durable() -> None:
    world = start_network(LINKS, {}, delta=1)
    leave(world, "d")
    for name in "bc":
        assert LinkRemoved(("c", "d")) in world.hosts[name].store
        assert BrokerRemoved(Removal("d", 0, "c", (("c", 1),), 1)) in world.hosts[name].store
        world.crash(name)
    world.run_for(BYPASSED)
    for name in "bc":
        world.restart(name)
    world.run_for(RECOVERED)
    assert_equation_1(world, [each for each in LINKS if "d" not in each])


@pytest.mark.parametrize(
    ("name", "reason"),
    [("b", "has 3: a, c, x"), ("x", "clients are attached to x: idle"), ("d", "have subscriptions: s")],
)
def test_who_is_needed_refuses_and_goes_on(name: str, reason: str) -> None:
    world = start_network(LINKS, {"p": "a", "s": "d", "idle": "x"})
    subscribe_all(world, {"s": ""})
    if name == "d":
        world.crash("s")
        world.run_for(SECOND)
    world.leave(name)
    world.run_for(SECOND)
    assert world.departed == {}
    assert [(who, reason in why) for who, why in world.refused] == [(name, True)]
    assert world.broker(name).overlay.is_joined


def test_a_broker_without_its_store_stays_until_it_knows_its_clients() -> None:
    assert a_broker_without_its_store_stays()


def a_broker_without_its_store_stays() -> bool:
    """s is at c when d, its own broker, is back without its store. d is told its place at once, and the
    subscriptions of s a little later."""
    world = start_network(chain("a", "b", "c", "d"), {"p": "a", "s": "d"}, limits=Limits(piece=1))
    for number in range(3):
        world.subscribe("s", f"s{number}", TOPIC, "")
    world.run_for(SECOND)
    world.crash("d")
    world.run_for(BYPASSED)
    world.network.us_per_message["c", "d"] = 50 * MILLISECOND
    world.replace("d", join=("c",))
    world.run_until(lambda: world.broker("d").overlay.has_heard("c"))
    world.leave("d")
    world.run_for(RECOVERED)
    return "d" not in world.departed and [who for who, _ in world.refused] == ["d"]


def test_whoever_was_away_cannot_bring_it_back() -> None:
    """b and x were down when d left: they have its link in their stores, and tell it when they return."""
    links = [*chain("a", "b", "c", "d"), *chain("b", "x")]
    world = start_network(links, {}, delta=2)
    for name in "bx":
        world.crash(name)
    world.run_for(BYPASSED)
    leave(world, "d")
    for name in "bx":
        assert LinkAdded(("c", "d")) in world.hosts[name].store
        world.restart(name)
    world.run_for(RECOVERED)
    assert_equation_1(world, [each for each in links if "d" not in each])


def test_a_leave_waits_for_the_neighbour() -> None:
    world = start_network(chain("a", "b", "c", "d"), {}, delta=1)
    world.leave("d")
    world.crash("c", lossy=True)
    world.run_for(BYPASSED)
    assert world.departed == {}
    world.restart("c")
    world.run_until(lambda: "d" in world.departed)
    world.run_for(RECOVERED)
    assert_equation_1(world, chain("a", "b", "c"))
    assert world.broker("c").overlay.frontier.wanted == []


def test_who_does_not_hear_its_neighbour_does_not_begin_to_leave() -> None:
    world = start_network(chain("a", "b", "c"), {}, delta=1)
    world.crash("b")
    world.run_for(BYPASSED)
    world.leave("c")
    world.run_for(BYPASSED)
    assert world.refused == [("c", "c does not reach its neighbour b: ask again when it does")]


def test_the_last_broker_is_a_network_by_itself_also_after_a_restart() -> None:
    world = start_network(chain("a", "b"), {"p": "b", "s": "b"})
    leave(world, "a")
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 2)
    world.run_for(SECOND)
    world.crash("b")
    world.run_for(SECOND)
    world.restart("b")
    publish_all(world, "p", 2)
    world.run_for(RECOVERED)
    assert world.broker("b").overlay.is_joined
    assert delivered(world, "s") == [1, 2, 3, 4]


@pytest.mark.parametrize("keeps_its_store", [True, False])
def test_the_name_of_who_has_left_is_used_up(keeps_its_store: bool) -> None:
    world = start_network(chain("a", "b", "c", "d"), {"p": "a", "s": "b"}, delta=2)
    leave(world, "d")
    if keeps_its_store:
        world.restart("d")
        assert "d" in world.departed, "it knows, and stops at once"
    else:
        world.replace("d", join=("a",))
        world.run_until(lambda: "d" in world.departed)
    world.run_for(SECOND)
    assert_equation_1(world, chain("a", "b", "c"))


def test_the_last_two_do_not_both_leave() -> None:
    world = start_network(chain("a", "b"), {})
    world.leave("a")
    world.leave("b")
    world.run_until(lambda: "b" in world.departed)
    world.run_for(SECOND)
    assert world.refused == [
        ("a", "only a broker with one neighbour can leave, and a has 0: it is the last one; it stays")
    ]
    assert world.broker("a").overlay.is_joined


def test_ended_subscriptions_are_not_remembered_for_who_has_left() -> None:
    """While d is down its neighbour remembers what has ended; once d has left, nobody does."""
    world = start_network(chain("a", "b", "c", "d"), {"s": "b"}, delta=1)
    world.crash("d")
    world.run_for(BYPASSED)
    for k in range(5):
        world.subscribe("s", f"s/{k}", TOPIC)
    world.run_until(lambda: all(lives(world, f"s/{k}") for k in range(5)))
    for k in range(5):
        world.unsubscribe("s", f"s/{k}")
    world.run_for(SECOND)
    assert len(publisher_order(world, "c").log.subscriptions()) == 5
    world.restart("d")
    world.run_until(lambda: world.down() == [])
    leave(world, "d")
    world.run_for(SECOND)
    for name in "abc":
        order = publisher_order(world, name)
        assert order.log.subscriptions() == []
        assert "d" not in order.subscriptions._remembered


class Goodbyes:
    """Brokers without clients are asked to leave, again and again, while there are more than a few."""

    def __init__(self, world: World, rng: Random) -> None:
        self.world, self.rng = world, rng
        for _ in range(30):
            world.at(rng.randrange(WARM_UP, CLOSES), self.ask)

    def ask(self, _: None) -> None:
        idle = [name for name in self.world.brokers() if name not in self.world.homes.values()]
        running = [name for name in idle if self.world.hosts[name].is_up]
        if running:
            self.world.leave(self.rng.choice(running))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_while_brokers_leave(seed: int) -> None:
    options = Options(order=OrderName.PUBLISHER, brokers=14, fanout=3, delta=1 + seed % 2)
    world = build(options, seed)
    Workload(world, Plan(publishers=3, subscribers=4, events=60, opens=WARM_UP, closes=CLOSES))
    Goodbyes(world, world.random("goodbyes"))
    faults = Faults(world, crashes=5, cuts=3, max_down=options.delta, window=Window(WARM_UP, CLOSES))
    world.run(until=CLOSES)
    faults.heal_all()
    assert world.settle()
    assert faults.injected > 0
    assert len(world.departed) > 0
    assert check(world.trace, promise="publisher", healed=True) == []
    assert_equation_1(world)
