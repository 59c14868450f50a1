"""Brokers that are gone for good are removed, wherever they were, while events flow and things break."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gapless.core.effects import BrokerRemoved
from gapless.core.events import RemoveRequested
from gapless.core.messages import Removal
from gapless.core.model import SECOND, Link, OrderName, link
from gapless.simulation import trace
from gapless.simulation.checkers import check
from gapless.simulation.faults import Faults, Window
from gapless.simulation.run import WARM_UP, Options, build
from gapless.simulation.workload import Plan, Workload
from gapless.simulation.world import World
from support import (
    BYPASSED,
    RECOVERED,
    TOPIC,
    assert_bypass,
    assert_equation_1,
    assert_primary_only,
    assert_promises,
    chain,
    delivered,
    lives,
    own_links,
    publish_all,
    publisher_order,
    start_network,
    subscribe_all,
)

CLOSES = WARM_UP + 20 * SECOND
STAR = [*chain("a", "b", "x", "c", "d"), *chain("x", "e", "f")]
"""x has three neighbours, and each of them another one."""


def without(links: Iterable[Link], gone: str) -> list[Link]:
    """The tree after the removal, by its definition."""
    links = list(links)
    near = sorted(a if b == gone else b for a, b in links if gone in (a, b))
    return [each for each in links if gone not in each] + [link(near[0], each) for each in near[1:]]


def remove(world: World, name: str) -> None:
    world.remove(name)
    world.run_until(lambda: world.removals.get(name) is not None)
    assert world.removals[name] == ""


def crash_for_good(world: World, *names: str) -> None:
    for name in names:
        world.crash(name)
    world.run_for(BYPASSED)


@pytest.mark.parametrize("delta", [1, 2, 3])
@pytest.mark.parametrize("gone", ["x", "b", "d", "a"])
def test_the_tree_is_one_again_and_everybody_knows_its_neighbourhood(gone: str, delta: int) -> None:
    world = start_network(STAR, {}, delta=delta)
    crash_for_good(world, gone)
    remove(world, gone)
    world.run_for(RECOVERED)
    left = without(STAR, gone)
    assert_equation_1(world, left)
    assert_primary_only(world, left)
    for name in world.brokers():
        overlay = world.broker(name).overlay
        assert overlay.frontier.wanted == []
        assert overlay.partitions.table() == []


@pytest.mark.parametrize("delta", [1, 2])
def test_the_next_failure_is_the_first_again(delta: int) -> None:
    """A broker that is gone costs one of the δ failures; once it is removed, it does not."""
    world = start_network(STAR, {"p": "a", "s": "d", "t": "f"}, delta=delta)
    subscribe_all(world, {"s": "", "t": ""})
    crash_for_good(world, "x")
    remove(world, "x")
    world.run_for(RECOVERED)
    crash_for_good(world, *"bc"[:delta])
    assert_bypass(world, without(STAR, "x"))
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert delivered(world, "s") == delivered(world, "t") == [1, 2, 3]
    assert_promises(world)


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize("gone", ["x", "d"])
def test_clients_of_the_broker_get_another_home_and_lose_nothing(gone: str, delta: int) -> None:
    world = start_network(STAR, {"p": gone, "s": gone, "q": "a", "r": "f"}, delta=delta)
    subscribe_all(world, {"s": "", "r": ""})
    for client in "pq":
        publish_all(world, client, 3)
    world.crash(gone)
    for client in "pq":
        publish_all(world, client, 3)
    world.run_for(BYPASSED)
    for client in "pq":
        publish_all(world, client, 3)
    remove(world, gone)
    for client in "pq":
        publish_all(world, client, 3)
    world.run_for(RECOVERED)
    centre = "b" if gone == "x" else "c"
    for client in "ps":
        assert world.leaf(client).identity.home == centre
        assert world.leaf(client).overlay.frontier.active == [centre]
    for name in world.brokers():
        log = publisher_order(world, name).log
        for entry in map(log.__getitem__, log.subscriptions()):
            assert gone not in entry.body.path[-delta - 1 :], "farther away it is but a name"
    world.crash("p")
    world.restart("p")
    for client in "pq":
        publish_all(world, client, 3)
    world.run_for(RECOVERED)
    crash_for_good(world, centre)
    for client in "pq":
        publish_all(world, client, 3)
    world.run_for(RECOVERED)
    for subscription, client in ("rp", "rq", "sp", "sq"):
        assert delivered(world, subscription, client) == list(range(1, 19))
    assert [each for each in world.trace if isinstance(each, trace.Reset)] == []
    world.restart(centre)
    world.run_for(RECOVERED)
    assert_promises(world)


@pytest.mark.parametrize("away", ["c", "e", "d", "a"])
def test_who_was_away_learns_it_on_its_return(away: str) -> None:
    """It was cut off, or its machine was down, when the others changed: they have no reason to wait."""
    world = start_network(STAR, {"p": "a", "s": "f", "q": away}, delta=2)
    subscribe_all(world, {"s": ""})
    crash_for_good(world, "x")
    commit(world, "x", crashing=away)
    publish_all(world, "p", 3)
    world.run_for(BYPASSED)
    publish_all(world, "q", 3)
    world.run_for(SECOND)
    world.restart(away)
    world.run_for(2 * RECOVERED)
    assert_equation_1(world, without(STAR, "x"))
    assert delivered(world, "s", "p") == delivered(world, "s", "q") == [1, 2, 3]
    assert_promises(world)


def commit(world: World, name: str, *, crashing: str) -> None:
    """A broker crashes at the very moment at which the centre has changed and nobody else."""
    centre = world.centre(name)
    assert centre is not None
    host, done = world.hosts[centre], list[str]()

    def crash(_: object) -> None:
        if BrokerRemoved in map(type, host.store) and not done:
            done.append(crashing)
            world.at(world.now, lambda _: world.crash(crashing))

    host.stepped = crash
    remove(world, name)
    world.run_for(0)
    assert done == [crashing]


@pytest.mark.parametrize("delta", [1, 2])
def test_a_centre_that_crashes_goes_on_when_it_returns(delta: int) -> None:
    """It has made the removal durable, and told nobody."""
    world = start_network(STAR, {"p": "a", "s": "f"}, delta=delta)
    subscribe_all(world, {"s": ""})
    crash_for_good(world, "x")
    host, removing = world.hosts["b"], world.broker("b").overlay.removing
    mend = removing.mend

    def crash_after_it(removal: Removal, now: int) -> None:
        mend(removal, now)
        host.crash_next = True

    removing.mend = crash_after_it  # type: ignore[method-assign]
    world.remove("x")
    world.run_for(BYPASSED)
    assert world.removals == {}
    assert BrokerRemoved in map(type, world.hosts["b"].store)
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    world.restart("b")
    world.run_for(RECOVERED)
    remove(world, "x")
    assert_equation_1(world, without(STAR, "x"))
    assert delivered(world, "s") == [1, 2, 3]
    assert_promises(world)


def test_the_operator_is_told_when_a_second_broker_has_it() -> None:
    """Only a knows that c is removed as long as b is away; also for those who ask again."""
    world = start_network(chain("b", "a", "c"), {"s": "c"}, delta=2)
    crash_for_good(world, "b", "c")
    for _ in range(2):
        world.remove("c")
        world.run_for(SECOND)
        assert world.removals == {}
        assert world.leaf("s").identity.home == "c"
    world.restart("b")
    world.run_for(RECOVERED)
    assert world.removals == {"c": ""}
    assert world.leaf("s").identity.home == "a"
    assert_equation_1(world, [link("a", "b")])


def test_a_centre_that_crashes_before_it_has_decided_has_done_nothing() -> None:
    world = start_network(STAR, {})
    crash_for_good(world, "x")
    world.remove("x")
    world.crash("b")
    world.run_for(BYPASSED)
    world.restart("b")
    world.run_for(RECOVERED)
    assert world.removals == {}
    assert set(STAR) == own_links(world)
    remove(world, "x")
    world.run_for(RECOVERED)
    assert_equation_1(world, without(STAR, "x"))


def test_a_broker_that_lives_is_not_removed_even_if_one_neighbour_sees_it() -> None:
    world = start_network(STAR, {})
    world.remove("x")
    world.run_for(SECOND)
    assert world.removals["x"].startswith("x is alive: b has a session with it")
    for name in "abcdf":
        world.cut(name, "x")
    world.network.proxying = False
    world.run_for(BYPASSED)
    world.remove("x")
    world.run_for(SECOND)
    assert world.removals["x"].startswith("x is alive: e has a session with it")
    assert set(STAR) == own_links(world)


def test_why_a_broker_cannot_be_removed_now() -> None:
    world = start_network(STAR, {}, delta=2)
    ask = RemoveRequested

    def answer(broker: str, node: str) -> str:
        world.removals.clear()
        world.hosts[broker].receive(ask(node))
        world.run_for(SECOND // 2)
        return world.removals[node]

    assert "this is it" in answer("b", "b")
    assert answer("b", "nobody").startswith("b has no neighbour nobody")
    crash_for_good(world, "x")
    assert answer("c", "x") == "b is to have the place of x: ask that broker"
    crash_for_good(world, "e")
    assert answer("b", "x").startswith("e, a neighbour of x, cannot be reached")
    assert "start e first" in answer("b", "x")
    world.restart("e")
    world.run_for(RECOVERED)
    assert answer("b", "x") == ""
    assert answer("b", "x") == "", "to ask again is no mistake"
    small = start_network(chain("a", "b"), {}, delta=0)
    small.crash("b")
    small.run_for(BYPASSED)
    small.remove("b")
    small.run_for(SECOND)
    assert small.removals["b"].startswith("with delta = 0 nobody knows the neighbours of b")


def test_who_has_lost_its_store_removes_nobody_whose_neighbours_it_may_not_know() -> None:
    """b is told of c by a, which does not know that d is behind c. Once d has told b, c can be removed."""
    links = chain("a", "b", "c", "d")
    world = start_network(links, {})
    world.cut("b", "d")
    crash_for_good(world, "c", "b")
    world.replace("b", join=("a",))
    world.run_for(RECOVERED)
    assert world.broker("b").overlay.topology.neighbours() == ["a", "c"]
    world.remove("c")
    world.run_for(SECOND)
    assert world.removals["c"].startswith("b may not know all neighbours of c")
    assert own_links(world) == {*links}
    world.heal("b", "d")
    world.run_for(RECOVERED)
    remove(world, "c")
    world.run_for(RECOVERED)
    assert_equation_1(world, without(links, "c"))


@pytest.mark.parametrize("gone", ["x", "d"])
def test_a_removed_broker_that_starts_again_stops_with_and_without_its_store(gone: str) -> None:
    world = start_network(STAR, {"p": gone, "s": "f"}, delta=1)
    subscribe_all(world, {"s": ""})
    crash_for_good(world, gone)
    remove(world, gone)
    world.run_for(SECOND)
    left = without(STAR, gone)
    for again in range(2):
        world.restart(gone)
        publish_all(world, "p", 3)
        world.run_until(lambda: gone in world.departed)
        assert not world.hosts[gone].is_up
        world.run_for(RECOVERED)
        assert_equation_1(world, left)
        assert delivered(world, "s") == list(range(1, 3 * again + 4))
    for place in ("c", "a"):
        world.replace(gone, join=(place,))
        world.run_until(lambda: gone in world.departed)
        world.run_for(RECOVERED)
        assert_equation_1(world, left)
    assert_promises(world)


def test_a_removed_broker_that_knows_it_stops_though_there_is_somebody_to_join() -> None:
    """b has no store, asks a, and hears that it was removed. When it starts once more it knows that."""
    world = start_network(chain("a", "b", "c"), {}, delta=1)
    crash_for_good(world, "b")
    remove(world, "b")
    world.replace("b", join=("a",))
    world.run_until(lambda: "b" in world.departed)
    world.restart("b")
    world.run_for(SECOND)
    assert not world.hosts["b"].is_up


def test_a_broker_that_is_removed_while_it_is_cut_off_stops_when_it_hears_of_it() -> None:
    """Nobody can see that it lives. To its clients and to the others it is a crash."""
    world = start_network(STAR, {"p": "x", "s": "f", "q": "a"}, delta=1)
    subscribe_all(world, {"s": ""})
    others = [*world.brokers(), "q", "s"]
    for name in others:
        if name != "x":
            world.cut("x", name)
    world.run_for(BYPASSED)
    remove(world, "x")
    for client in "pq":
        publish_all(world, client, 3)
    world.run_for(BYPASSED)
    for name in others:
        if name != "x":
            world.heal("x", name)
    world.run_until(lambda: "x" in world.departed)
    world.run_for(RECOVERED)
    assert_equation_1(world, without(STAR, "x"))
    assert world.leaf("p").identity.home == "b"
    assert delivered(world, "s", "p") == delivered(world, "s", "q") == [1, 2, 3]
    assert_promises(world)


def test_a_client_that_was_away_hears_of_two_removals_at_once() -> None:
    """First of another one's, then of that of its home."""
    world = start_network([*chain("a", "b", "x"), ("a", "y")], {"p": "b", "s": "x"}, delta=2)
    subscribe_all(world, {"s": ""})
    crash_for_good(world, "x", "y")
    for name in "ab":
        world.cut("s", name)
    world.run_for(BYPASSED)
    remove(world, "y")
    remove(world, "x")
    publish_all(world, "p", 3)
    for name in "ab":
        world.heal("s", name)
    world.run_for(RECOVERED)
    assert world.leaf("s").identity.home == "b"
    assert delivered(world, "s") == [1, 2, 3]
    assert_promises(world)


def test_ended_subscriptions_are_forgotten_once_the_broker_is_removed() -> None:
    world = start_network(STAR, {"s": "b"}, delta=1)
    crash_for_good(world, "x")
    for k in range(5):
        world.subscribe("s", f"s/{k}", TOPIC)
    world.run_until(lambda: all(lives(world, f"s/{k}") for k in range(5)))
    assert all(each.unreachable == ("x",) for k in range(5) for each in lives(world, f"s/{k}"))
    for k in range(4):
        world.unsubscribe("s", f"s/{k}")
    world.run_for(SECOND)
    assert len(publisher_order(world, "c").log.subscriptions()) == 5
    remove(world, "x")
    world.run_for(RECOVERED)
    for name in world.brokers():
        assert len(publisher_order(world, name).log.subscriptions()) == 1
    assert lives(world, "s/4")[-1].unreachable == (), "there is nobody any more that was not reached"


def test_a_publisher_whose_home_was_removed_is_promised_to_who_could_not_reach_that_home() -> None:
    world = start_network(STAR, {"p": "x", "s": "f"}, delta=1)
    crash_for_good(world, "x")
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert delivered(world, "s") == []
    remove(world, "x")
    world.run_for(RECOVERED)
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert delivered(world, "s") == [4, 5, 6]
    assert_promises(world)


def test_one_removal_after_another() -> None:
    """Also for those who were away all the time, and whatever they hear of first."""
    world = start_network(STAR, {"p": "f", "s": "a"}, delta=2)
    subscribe_all(world, {"s": ""})
    crash_for_good(world, "x", "d")
    remove(world, "x")
    world.run_for(RECOVERED)
    crash_for_good(world, "b")
    remove(world, "b")
    world.run_for(RECOVERED)
    left = without(without(STAR, "x"), "b")
    world.restart("d")
    world.run_for(RECOVERED)
    assert_equation_1(world, left)
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert delivered(world, "s") == [1, 2, 3]
    assert_promises(world)


def test_the_last_broker_is_a_network_by_itself() -> None:
    world = start_network(chain("a", "b"), {"p": "b", "s": "b"})
    subscribe_all(world, {"s": ""})
    crash_for_good(world, "b")
    publish_all(world, "p", 3)
    remove(world, "b")
    world.run_for(RECOVERED)
    assert delivered(world, "s") == [1, 2, 3]
    world.crash("a")
    world.run_for(SECOND)
    world.restart("a")
    world.run_for(RECOVERED)
    assert world.broker("a").overlay.is_joined


class Farewells:
    """Brokers die for good, again and again, with clients or without, and an operator has them removed."""

    def __init__(self, world: World, faults: Faults, count: int) -> None:
        self.world, self.faults, self.rng = world, faults, world.random("farewells")
        for _ in range(count):
            world.at(self.rng.randrange(WARM_UP, CLOSES), self.strike)

    def strike(self, _: None) -> None:
        running = [name for name in self.world.brokers() if self.world.hosts[name].is_up]
        victim = self.rng.choice(running)
        if len(running) > 3 and self.faults._has_room(victim):
            self.world.crash(victim, silently=self.rng.random() < 0.3)
            self.world.at(self.world.now + SECOND, self.ask, victim)

    def ask(self, victim: str) -> None:
        """As often as needed; whoever died before it could answer is asked again.

        A client that is away must not lose one broker after the other that it knows: it has nobody to ask.
        """
        if self.world.now < CLOSES and victim not in self.world.departed:
            if all(self.world.hosts[client].is_up for client in self.world.homes):
                self.world.remove(victim)
            self.world.at(self.world.now + self.rng.randrange(SECOND // 10, SECOND), self.ask, victim)


def run_with_farewells(seed: int, *, brokers: int = 14, changes: type[Farewells] = Farewells) -> World:
    options = Options(order=OrderName.PUBLISHER, brokers=brokers, fanout=3, delta=1 + seed % 2)
    world = build(options, seed)
    Workload(world, Plan(publishers=3, subscribers=4, events=60, opens=WARM_UP, closes=CLOSES))
    faults = Faults(world, crashes=6, cuts=4, max_down=options.delta, window=Window(WARM_UP, CLOSES))
    changes(world, faults, 12)
    world.run(until=CLOSES)
    faults.heal_all()
    assert world.settle()
    assert faults.injected > 0
    return world


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_while_brokers_are_removed(seed: int) -> None:
    world = run_with_farewells(seed)
    assert len(world.departed) > 0
    assert check(world.trace, promise="publisher", healed=True) == []
    assert_equation_1(world)


class Changes(Farewells):
    """And others join and leave meanwhile."""

    def __init__(self, world: World, faults: Faults, count: int) -> None:
        super().__init__(world, faults, count)
        self.joined = 0
        for _ in range(6):
            world.at(self.rng.randrange(WARM_UP, CLOSES), self.join)
            world.at(self.rng.randrange(WARM_UP, CLOSES), self.leave)

    def members(self) -> list[str]:
        up = [name for name in self.world.brokers() if self.world.hosts[name].is_up]
        return [name for name in up if self.world.broker(name).overlay.is_joined]

    def join(self, _: None) -> None:
        self.joined += 1
        points = self.rng.sample(self.members(), 2)
        self.world.add_broker(f"n{self.joined}", join=tuple(points))

    def leave(self, _: None) -> None:
        homes = {self.world.home(client) for client in self.world.homes}
        self.world.leave(self.rng.choice([name for name in self.members() if name not in homes] or ["b0"]))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
def test_nothing_is_lost_while_brokers_join_leave_and_are_removed(seed: int) -> None:
    world = run_with_farewells(seed, brokers=9, changes=Changes)
    assert check(world.trace, promise="publisher", healed=True) == []
    assert_equation_1(world)
