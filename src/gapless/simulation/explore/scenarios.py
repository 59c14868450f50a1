"""The networks that are explored, each with the situation that it is about.

Some scripts and prologues have failures of their own, so that two deviations more are enough to come where it
becomes interesting; which message is late and who crashes when is left to the exploration.
"""

from __future__ import annotations

from gapless.core.limits import Limits
from gapless.simulation.explore.scenario import (
    Attach,
    Crash,
    Cut,
    Heal,
    Join,
    Publish,
    Restart,
    Scenario,
    Subscribe,
    Wait,
)

PAIR = (("a", "b"),)
CHAIN = (("a", "b"), ("b", "c"))
STAR = (("b", "y1"), ("b", "y2"))
FOUR = (("a", "b"), ("b", "c"), ("c", "d"))

ALL = (
    Scenario(
        name="pair",
        about="two brokers: a subscription and two events",
        links=PAIR,
        clients={"p": "a", "s": "b"},
        script=(Subscribe("s"), Publish("p"), Publish("p")),
    ),
    Scenario(
        name="small-batches",
        about="two brokers whose messages carry one thing each",
        links=PAIR,
        clients={"p": "a", "s": "b"},
        limits=Limits(batch=1, piece=1),
        prologue=(Subscribe("s"),),
        script=(Publish("p", ("x", "x")), Publish("p")),
    ),
    Scenario(
        name="chain",
        about="three brokers: a subscription and an event, and one in between that both need",
        links=CHAIN,
        clients={"p": "c", "s": "a"},
        script=(Subscribe("s"), Publish("p")),
    ),
    Scenario(
        name="restart",
        about="the broker in between is away while an event is published",
        links=CHAIN,
        clients={"p": "c", "s": "a"},
        prologue=(Subscribe("s"), Crash("b")),
        script=(Publish("p"), Restart("b"), Publish("p")),
    ),
    Scenario(
        name="two-publishers",
        about="two publishers at different brokers",
        links=STAR,
        clients={"p": "b", "q": "y1", "s": "y2"},
        script=(Subscribe("s"), Publish("p"), Publish("q")),
    ),
    Scenario(
        name="join",
        about="a broker joins, and a client of it subscribes while another one publishes",
        links=PAIR,
        clients={"p": "a"},
        prologue=(Publish("p"),),
        script=(Join("x", ("b",)), Attach("s", "x"), Subscribe("s"), Publish("p")),
    ),
    Scenario(
        name="two-join-points",
        about="a broker joins through one of two, and a client of it publishes",
        links=(("j1", "j2"),),
        clients={"s": "j2"},
        prologue=(Subscribe("s"),),
        script=(Join("x", ("j1", "j2")), Attach("p", "x"), Publish("p")),
    ),
    Scenario(
        name="first-publish",
        about="a subscription goes live with a broker unreached; then a client publishes for the first time",
        links=STAR,
        clients={"p": "b", "s": "y2"},
        prologue=(Cut("b", "y1"),),
        script=(Subscribe("s"), Heal("b", "y1"), Publish("p")),
    ),
    Scenario(
        name="unreached-entry",
        about="a subscription goes live with a broker unreached; then a client publishes again",
        links=STAR,
        clients={"p": "b", "s": "y2"},
        prologue=(Publish("p", ("n",)), Cut("b", "y1")),
        script=(Subscribe("s", "kind = 'x'"), Heal("b", "y1"), Publish("p")),
    ),
    Scenario(
        name="away-from-home",
        about="δ = 2, a publisher cannot reach its home and publishes elsewhere",
        links=STAR,
        delta=2,
        resets=True,
        clients={"p": "b", "s": "y2"},
        prologue=(Cut("b", "p"), Publish("p", ("n",))),
        script=(Subscribe("s", "kind = 'x'"), Publish("p")),
    ),
    Scenario(
        name="long-log",
        about="a neighbour returns while the log is longer than a piece",
        links=CHAIN,
        clients={"p": "c", "s": "a", "t": "b"},
        limits=Limits(piece=1),
        prologue=(
            Subscribe("t", "kind = 'm'"),
            Subscribe("s", "kind = 'n'", "s0"),
            Publish("p", ("o",)),
            Cut("a", "b"),
            Wait(),
        ),
        script=(Heal("a", "b"), Subscribe("s"), Publish("p")),
    ),
    Scenario(
        name="moves-twice",
        about="δ = 3, a publisher moves on with more than a batch unconfirmed",
        links=STAR,
        delta=3,
        clients={"p": "y1", "s": "b", "t": "y2"},
        limits=Limits(batch=1),
        prologue=(
            Subscribe("s", "kind = 'x'"),
            Subscribe("t", "kind = 'y'"),
            Publish("p"),
            Cut("b", "p"),
            Cut("b", "s"),
            Crash("t"),
        ),
        script=(Publish("p", ("y", "x")), Publish("p"), Cut("p", "y1"), Heal("b", "s")),
    ),
    Scenario(
        name="four",
        about="δ = 2, four brokers in a row: an event on a long way",
        links=FOUR,
        delta=2,
        clients={"p": "d", "s": "a"},
        prologue=(Subscribe("s"),),
        script=(Publish("p"),),
    ),
)

SCENARIOS: dict[str, Scenario] = {each.name: each for each in ALL}
