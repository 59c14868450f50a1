"""Best effort is exact while nothing fails, and says so when it is not."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gapless.core.messages import (
    BestEffortEvents,
    BestEffortSubscribe,
    BestEffortSubscribed,
    BestEffortUnsubscribe,
)
from gapless.core.model import MILLISECOND, SECOND, Link, OrderName, Topic
from gapless.core.orders.best_effort import BestEffortBroker
from gapless.selectors import Selector
from gapless.simulation import trace
from gapless.simulation.trees import random_tree
from gapless.simulation.workload import attributes, selector
from gapless.simulation.world import World
from support import Messages, start_chain, start_tree

TOPICS = {"t": Topic("t", OrderName.BEST_EFFORT)}


def delivered(world: World, subscription: str) -> list[tuple[str, int]]:
    return [
        (each.publisher, each.sequence)
        for each in world.trace
        if isinstance(each, trace.Deliver) and each.subscription == subscription
    ]


def live(world: World) -> list[str]:
    return [each.subscription for each in world.trace if isinstance(each, trace.Live)]


def order(world: World, broker: str) -> BestEffortBroker:
    found = world.broker(broker).orders[OrderName.BEST_EFFORT]
    assert isinstance(found, BestEffortBroker)
    return found


@pytest.fixture
def world() -> Iterator[World]:
    """A chain b1 to b4 with a publisher at one end and a subscriber at the other."""
    made = start_chain("b1", "b2", "b3", "b4", topics=TOPICS)
    made.add_client("p", "b1")
    made.add_client("s", "b4")
    made.run_for(SECOND)
    yield made


@pytest.mark.parametrize("seed", range(4))
def test_without_failures_everybody_gets_exactly_what_matches_in_order(seed: int) -> None:
    made = World(seed=seed, delta=1, topics=TOPICS)
    rng = made.random("test")
    links: list[Link] = random_tree(12, 3, rng)
    made.add_tree(links)
    wanted = {f"s{k}": selector(rng) for k in range(8)}
    for name in ("p0", "p1", *wanted):
        made.add_client(name, rng.choice(made.brokers()))
    made.run_for(SECOND)
    for name, condition in wanted.items():
        made.subscribe(name, name, "t", condition)
    made.run_for(SECOND)
    assert sorted(live(made)) == sorted(wanted)
    events = {}
    for k in range(60):
        publisher = f"p{k % 2}"
        event = events[publisher, k // 2 + 1] = attributes(rng)
        made.publish(publisher, publisher, "t", event)
        made.run_for(rng.randrange(5) * MILLISECOND)
    made.run_for(SECOND)
    for name, condition in wanted.items():
        matching = [key for key, event in events.items() if Selector(condition).matches(event)]
        for publisher in ("p0", "p1"):
            got = [key for key in delivered(made, name) if key[0] == publisher]
            assert got == [key for key in matching if key[0] == publisher]


def test_a_subscription_is_live_only_when_every_broker_knows_it(world: World) -> None:
    sent = Messages(world)
    world.subscribe("s", "s1", "t", "x > 1")
    while not live(world):
        world.run_for(MILLISECOND)
    assert all("s1" in order(world, name).routes for name in world.brokers())
    towards = [(source, target) for source, target, _ in sent.of(BestEffortSubscribe)]
    back = [(source, target) for source, target, _ in sent.of(BestEffortSubscribed)]
    assert towards == [("s", "b4"), ("b4", "b3"), ("b3", "b2"), ("b2", "b1")]
    assert back == [(b, a) for a, b in reversed(towards)]


def test_an_event_that_nobody_wants_stays_at_its_broker(world: World) -> None:
    world.subscribe("s", "s1", "t", "x > 1")
    world.run_for(SECOND)
    sent = Messages(world)
    world.publish("p", "p", "t", {"x": 1})
    world.run_for(SECOND)
    assert [target for _, target, _ in sent.of(BestEffortEvents)] == ["b1"]


def test_an_event_goes_away_from_its_source_only(world: World) -> None:
    """P0-103 and X-P0-21: with subscribers on all sides each link carries an event once."""
    world.add_client("q", "b2")
    world.run_for(SECOND)
    for client in ("s", "q", "p"):
        world.subscribe(client, f"of {client}", "t", "")
    world.run_for(SECOND)
    sent = Messages(world)
    world.publish("q", "q", "t", {})
    world.run_for(SECOND)
    edges = [(source, target) for source, target, _ in sent.of(BestEffortEvents)]
    assert sorted(edges) == [
        ("b1", "p"),
        ("b2", "b1"),
        ("b2", "b3"),
        ("b2", "q"),
        ("b3", "b4"),
        ("b4", "s"),
        ("q", "b2"),
    ]


def test_one_batch_is_one_message_a_peer(world: World) -> None:
    world.subscribe("s", "s1", "t", "")
    world.run_for(SECOND)
    sent = Messages(world)
    for k in range(30):
        world.publish("p", "p", "t", {"k": k})
    world.run_for(SECOND)
    assert [number for _, number in delivered(world, "s1")] == list(range(1, 31))
    assert 1 <= len([1 for source, _, _ in sent.of(BestEffortEvents) if source == "b1"]) <= 30


def test_an_ended_subscription_is_forgotten_everywhere(world: World) -> None:
    world.subscribe("s", "s1", "t", "")
    world.run_for(SECOND)
    world.unsubscribe("s", "s1")
    sent = Messages(world)
    world.run_for(SECOND)
    world.publish("p", "p", "t", {})
    world.run_for(SECOND)
    assert len(sent.of(BestEffortUnsubscribe)) == 3
    assert delivered(world, "s1") == []
    assert all(order(world, name).routes == {} for name in world.brokers())


def test_an_unreachable_branch_is_not_waited_for(world: World) -> None:
    world.crash("b1", silently=True)
    world.subscribe("s", "s1", "t", "")
    world.run_for(3 * SECOND)
    assert live(world) == ["s1"]
    assert "s1" in order(world, "b2").routes


def test_a_broker_that_returns_is_taught_what_it_missed(world: World) -> None:
    world.crash("b2")
    world.subscribe("s", "s1", "t", "")
    world.run_for(3 * SECOND)
    assert "s1" in order(world, "b1").routes, "b1 is reached around b2"
    world.restart("b2")
    world.run_for(5 * SECOND)
    assert order(world, "b2").routes["s1"].path[-1] == "b3"
    world.publish("p", "p", "t", {})
    world.run_for(SECOND)
    assert delivered(world, "s1") == [("p", 1)]


def test_events_in_flight_are_lost_with_the_broker_that_had_them() -> None:
    """This is what the other orders add: best effort promises nothing once something fails."""
    made = start_tree([("b1", "b2"), ("b2", "b3")], topics=TOPICS)
    made.add_client("p", "b1")
    made.add_client("s", "b3")
    made.run_for(SECOND)
    made.subscribe("s", "s1", "t", "")
    made.run_for(SECOND)
    made.crash("b2", silently=True)
    made.publish("p", "p", "t", {})
    made.run_for(5 * SECOND)
    made.publish("p", "p", "t", {})
    made.run_for(SECOND)
    assert delivered(made, "s1") == [("p", 2)]
