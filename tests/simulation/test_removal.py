"""Brokers that are gone for good are removed, wherever they were, while events flow and things break."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from gapless.core.model import SECOND, Link, link
from gapless.simulation import trace
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
    publish_all,
    publisher_order,
    start_network,
    subscribe_all,
)

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
        order = publisher_order(world, name)
        assert all(gone not in order.log[each].body.path for each in order.log.subscriptions())
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


def test_who_was_away_learns_it_on_its_return() -> None:
    """b and e are neighbours of x, away when it is removed: e crashed just after, f knows e only."""
    world = start_network(STAR, {"p": "a", "s": "f"}, delta=2)
    subscribe_all(world, {"s": ""})
    crash_for_good(world, "x")
    world.crash("f")
    world.run_for(BYPASSED)
    for name in "abcd":
        world.cut(name, "e")  # it votes, but hears no more than that
    world.run_for(SECOND // 2)
    remove_at_once(world, "x")
    world.crash("e")
    publish_all(world, "p", 3)
    world.run_for(BYPASSED)
    for name in "abcd":
        world.heal(name, "e")
    world.restart("f")
    world.restart("e")
    world.run_for(2 * RECOVERED)
    assert_equation_1(world, without(STAR, "x"))
    assert delivered(world, "s") == [1, 2, 3]
    assert_promises(world)


def remove_at_once(world: World, name: str) -> None:
    """As an operator, but without any vote: what the centre does when all have agreed."""
    centre = world.centre(name)
    assert centre is not None
    overlay = world.broker(centre).overlay
    removing = overlay.removing
    others = [each for each in overlay.topology.neighbours(name) if each != centre]
    removing._poll = Poll(name, {each: RemovalVote(name) for each in others})
    world.hosts[centre].receive(RemoveRequested(name))
    world.run_until(lambda: name in world.removals)
