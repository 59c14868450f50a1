"""What a broken or hostile client sends harms nobody."""

from __future__ import annotations

import pytest

from gapless.core.effects import Send
from gapless.core.messages import BestEffortSubscribe, Log, Message
from gapless.core.messages.publisher import Body, LogEntry
from gapless.core.model import SECOND, OrderName, Topic, link
from gapless.simulation.world import World

BAD = "price >"


@pytest.mark.parametrize(
    "message",
    [
        BestEffortSubscribe("bad", "t", BAD, ("evil",)),
        Log((LogEntry(0, "bad", Body("evil", "t", BAD, ("evil",)), news=True),)),
        Log((LogEntry(0, "unknown", None, ended=True),)),
    ],
)
def test_a_bad_subscription_is_left_out(message: Message) -> None:
    world = World(seed=1, delta=1, topics={"t": Topic("t", OrderName.PUBLISHER)})
    world.add_tree([link("a", "b")])
    world.add_client("evil", "a")
    world.add_client("good", "b")
    world.run_for(SECOND)
    host = world.hosts["evil"]
    world.network.send("evil", host.sessions["a"], Send("a", message))
    world.subscribe("good", "s", "t")
    world.run_for(SECOND)
    world.publish("evil", "evil", "t", {"price": 1})
    world.run_for(SECOND)
    deliveries = [each for each in world.trace if type(each).__name__ == "Deliver"]
    assert len(deliveries) == 1
