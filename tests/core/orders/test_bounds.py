"""What a broker remembers of publishers and their events has bounds."""

from __future__ import annotations

import pytest

from gapless.core.limits import Limits
from gapless.core.messages.publisher import Publications
from gapless.core.model import SECOND
from support import (
    TOPIC,
    Messages,
    assert_promises,
    chain,
    confirmed,
    delivered,
    lives,
    publish_all,
    publisher_order,
    start_network,
    subscribe_all,
)

LEASE = Limits().lease


def test_a_publisher_that_has_left_is_forgotten_after_a_lease() -> None:
    world = start_network(chain("a", "b"), {**{f"p{k}": "a" for k in range(5)}, "stays": "a", "s": "b"})
    subscribe_all(world, {"s": ""})
    for client in ("stays", *(f"p{k}" for k in range(5))):
        publish_all(world, client, 2)
    world.run_for(SECOND)
    forwarding = publisher_order(world, "a").forwarding
    assert len(forwarding.presence.entered[TOPIC]) == 6
    for k in range(5):
        world.crash(f"p{k}")
    world.run_for(LEASE - SECOND)
    publish_all(world, "stays", 1)
    world.run_for(SECOND // 2)
    assert len(forwarding.presence.entered[TOPIC]) == 6, "they may have been somewhere else before"
    world.run_for(SECOND)
    publish_all(world, "stays", 1)
    world.run_for(SECOND)
    assert {who: last.sequence for who, last in forwarding.presence.entered[TOPIC].items()} == {"stays": 4}
    assert_promises(world)


def test_nobody_is_forgotten_while_a_broker_is_away() -> None:
    """A subscription may come from there that is older than all that has entered here meanwhile."""
    world = start_network(chain("a", "b"), {"p": "a", "stays": "a"})
    publish_all(world, "p", 2)
    world.run_for(SECOND)
    world.crash("b")
    world.crash("p")
    world.run_for(2 * LEASE)
    publish_all(world, "stays", 1)
    world.run_for(SECOND)
    forwarding = publisher_order(world, "a").forwarding
    assert forwarding.presence.entered[TOPIC]["p"].sequence == 2
    world.restart("b")
    world.run_for(10 * SECOND)
    publish_all(world, "stays", 1)
    world.run_for(SECOND)
    assert "p" not in forwarding.presence.entered[TOPIC]


def test_subscriptions_that_come_at_once_share_what_they_have_missed() -> None:
    world = start_network(chain("a", "b"), {"p": "a", "s": "b"})
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    for k in range(50):
        world.subscribe("s", f"s/{k}", TOPIC, f"n = {k}")
    world.run_for(SECOND)
    log = publisher_order(world, "a").log
    assert len({id(log[each].missed) for each in log.subscriptions()}) == 1
    assert [each.start for k in range(50) for each in lives(world, f"s/{k}")] == [{"p": 4}] * 50


@pytest.mark.parametrize("limit", [5, 10_000])
def test_too_many_events_that_wait_for_admission_are_left_with_their_client(limit: int) -> None:
    """b has restarted and cannot settle, because what c says is slow: its own client's events wait."""
    world = start_network(chain("a", "b", "c"), {"p": "b", "s": "a"}, limits=Limits(waiting=limit))
    subscribe_all(world, {"s": ""})
    world.crash("b")
    world.network.slowness["c", "b"] = 250
    world.restart("b")
    order = publisher_order(world, "b")
    world.run_for(SECOND // 5)
    sent = Messages(world)
    publish_all(world, "p", 100, every=1000)
    waited = 0
    for _ in range(60):
        world.run_for(SECOND // 100)
        waited = max(waited, sum(len(run.events) for runs in order._waiting.values() for run in runs))
    assert limit - 5 <= waited <= limit if limit < 100 else waited == 100
    assert delivered(world, "s") == []
    world.network.slowness.clear()
    world.run_for(10 * SECOND)
    assert delivered(world, "s") == confirmed(world, "p") == list(range(1, 101))
    copies = sum(each.count for source, _, each in sent.of(Publications) if source == "p")
    assert copies == (100 if limit > 100 else 200), "all of them are repeated, once"
    assert_promises(world)
