"""The networks that are explored, each with the situation that it is about."""

from __future__ import annotations

from gapless.core.limits import Limits
from gapless.simulation.explore.scenario import (
    Attach,
    Cut,
    Heal,
    Join,
    Publish,
    Restart,
    Crash,
    Scenario,
    Subscribe,
    Wait,
)

STAR = (("b", "y1"), ("b", "y2"))
CHAIN = (("a", "b"), ("b", "c"))

ALL = (
    Scenario(
        name="pair",
        about="two brokers, a subscription and two events",
        links=(("a", "b"),),
        clients={"p": "a", "s": "b"},
        script=(Subscribe("s"), Publish("p"), Publish("p")),
    ),
    Scenario(
        name="two-join-points",
        about="a broker joins through one of two, and a client of it publishes",
        links=(("j1", "j2"),),
        clients={"s": "j2"},
        script=(Subscribe("s"), Join("x", ("j1", "j2")), Attach("p", "x"), Publish("p"), Publish("p")),
    ),
    Scenario(
        name="first-publish",
        about="a link is cut, a client subscribes, another one publishes for the first time",
        links=STAR,
        delta=2,
        clients={"p": "b", "s": "y2"},
        script=(Cut("b", "y1"), Subscribe("s"), Publish("p"), Publish("p")),
    ),
    Scenario(
        name="unreached-entry",
        about="a subscription goes live with a broker unreached, which is then reached again",
        links=STAR,
        clients={"p": "b", "s": "y2"},
        prologue=(Publish("p"), Cut("b", "y1")),
        script=(Subscribe("s"), Heal("b", "y1"), Publish("p")),
    ),
    Scenario(
        name="long-log",
        about="a neighbour returns while the log is longer than a piece",
        links=CHAIN,
        clients={"p": "c", "s": "a", "many": "b", "more": "b"},
        limits=Limits(piece=1),
        prologue=(
            Subscribe("many", "kind = 'n'"),
            Subscribe("more", "kind = 'm'"),
            Publish("p", ("o",)),
            Cut("a", "b"),
            Wait(),
        ),
        script=(Heal("a", "b"), Subscribe("s"), Publish("p")),
    ),
    Scenario(
        name="moves-twice",
        about="a publisher moves with more than a batch unconfirmed",
        links=STAR,
        delta=3,
        clients={"p": "y1", "s": "b", "t": "y2"},
        limits=Limits(batch=1),
        prologue=(
            Subscribe("s", "kind = 'x'"),
            Subscribe("t", "kind = 'y'"),
            Publish("p"),
            Cut("p", "b"),
            Cut("s", "b"),
            Crash("t"),
        ),
        script=(Publish("p", ("y", "x")), Publish("p"), Cut("p", "y1"), Heal("s", "b")),
    ),
)

SCENARIOS = {each.name: each for each in ALL}
