"""Whoever ends a subscription knows when the network has heard of it: then nobody waits for its client."""

from __future__ import annotations

from gapless.core.model import SECOND
from support import RECOVERED, TOPIC, chain, start_network


def test_a_client_knows_whether_its_end_was_heard() -> None:
    """Its own broker is silent when it ends its subscription; the neighbour is told, and says so."""
    world = start_network(chain("a", "b"), {"s": "b"})
    world.subscribe("s", "s/1", TOPIC)
    world.run_for(SECOND)
    assert not world.leaf("s").is_awaited
    world.unsubscribe("s", "s/1")
    assert world.leaf("s").is_awaited
    world.run_for(SECOND)
    assert not world.leaf("s").is_awaited
    world.subscribe("s", "s/2", TOPIC)
    world.run_for(SECOND)
    world.crash("b", silently=True)
    world.unsubscribe("s", "s/2")
    world.run_for(SECOND // 2)
    assert world.leaf("s").is_awaited
    world.run_for(SECOND)
    assert not world.leaf("s").is_awaited


def test_an_end_is_heard_by_a_broker_that_knows_nothing_of_its_subscription() -> None:
    """Everybody who knew has crashed, and the client has no session when it ends it."""
    world = start_network(chain("a", "b"), {"s": "b"})
    world.subscribe("s", "s/1", TOPIC)
    world.run_for(SECOND)
    world.crash("a")
    world.crash("b")
    world.run_for(SECOND)
    world.unsubscribe("s", "s/1")
    world.restart("a")
    world.restart("b")
    world.run_for(RECOVERED)
    assert not world.leaf("s").is_awaited
