"""Topics in seeded simulations: every broker comes to the same table, and what was answered holds."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.broker import Broker
from gapless.core.model import MILLISECOND, SECOND, Declaration, NodeId, OrderName, Topic, link
from gapless.core.node import NodeConfig
from gapless.simulation.faults import Faults, Window
from gapless.simulation.run import Options, build
from gapless.simulation.trace import Unsubscribe
from gapless.simulation.world import World
from support import RECOVERED, got, start_chain

OPENS, CLOSES = 2 * SECOND, 25 * SECOND
SCHEMAS = ("", "a INT", "b STRING, c STRUCT<d: DOUBLE>")
SHARED = "shared"


def table(world: World, broker: NodeId) -> dict[str, Declaration]:
    return {each.topic.name: each for each in world.broker(broker).topics.table}


def stored_table(world: World, broker: NodeId) -> dict[str, Declaration]:
    """What a broker knows that has nothing but its store."""
    node = Broker(NodeConfig(node=broker, delta=world.delta), world.hosts[broker].store, rng=Random(0))
    return {each.topic.name: each for each in node.topics.table}


class Owner:
    """A client that creates and deletes a topic of its own, and now and then one that all share.

    It asks for the next thing when it has its answer; what it asked for when it crashed may be done or not.
    """

    def __init__(self, world: World, client: NodeId, rng: Random) -> None:
        self.expected: Topic | None = None
        self.is_certain = True
        self.answered = 0
        self.errors: list[str] = []
        self._world, self._client, self._rng = world, client, rng
        self._asked: dict[int, tuple[str, Topic | None]] = {}
        self._count = 0
        world.hosts[client].on_restart = self._restarted
        self._work(None)

    def _restarted(self) -> None:
        self.is_certain = self.is_certain and not self._asked
        self._asked.clear()

    def collect(self) -> bool:
        """Note the answers; whether all have come."""
        answers = self._world.recorder.answers.get(self._client, {})
        for number in [each for each in self._asked if each in answers]:
            name, topic = self._asked.pop(number)
            self.answered += 1
            if answers[number]:
                self.errors.append(answers[number])
            elif name == self._client:
                self.expected, self.is_certain = topic, True
        return not self._asked

    def _work(self, _: None) -> None:
        world, rng = self._world, self._rng
        if world.now > CLOSES:
            return
        world.at(world.now + rng.randrange(50, 800) * MILLISECOND, self._work, None)
        if not self.collect() or not world.hosts[self._client].is_up:
            return
        self._count += 1
        name = self._client if rng.random() < 0.7 else SHARED
        order = rng.choice((OrderName.PUBLISHER, OrderName.BEST_EFFORT))
        topic = Topic(name, order, schema=str(rng.choice(SCHEMAS))) if rng.random() < 0.6 else None
        if topic is None:
            world.delete_topic(self._client, self._count, name)
        else:
            topic = Topic(name, order, schema=topic.schema.replace(":", ""))
            world.create_topic(self._client, self._count, topic)
        self._asked[self._count] = (name, topic)


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [
        Options(brokers=5, crashes=8, cuts=8),
        Options(brokers=9, fanout=2, crashes=8, cuts=8, max_down=4),
        Options(brokers=7, fanout=1, delta=2, crashes=6, cuts=10, latency_ms=40),
    ],
    ids=["within delta", "beyond delta", "slow chain"],
)
@pytest.mark.parametrize("seed", range(5))
def test_all_come_to_the_same_topics_and_what_was_answered_holds(options: Options, seed: int) -> None:
    world = build(options, seed)
    world.topics.clear()  # so clients ask
    rng = world.random("owners")
    owners = {f"c{k}": rng.choice(world.brokers()) for k in range(5)}
    for client, home in owners.items():
        world.add_client(client, home)
    at_work = {client: Owner(world, client, world.random(client)) for client in owners}
    faults = Faults(
        world,
        crashes=options.crashes,
        cuts=options.cuts,
        max_down=options.budget,
        window=Window(OPENS, CLOSES),
    )
    world.run(until=CLOSES)
    faults.heal_all()
    assert world.settle()
    assert all(owner.collect() for owner in at_work.values()), "every request was answered"
    first, *others = world.brokers()
    agreed = table(world, first)
    assert all(table(world, each) == agreed for each in others)
    assert all(stored_table(world, each) == agreed for each in world.brokers())
    topics = {name: each.topic for name, each in agreed.items() if not each.deleted}
    assert all(world.leaf(client).topics == topics for client in owners)
    for client, owner in at_work.items():
        if owner.is_certain:
            assert topics.get(client) == owner.expected
    assert sum(owner.answered for owner in at_work.values()) > 50
    assert any(owner.is_certain for owner in at_work.values())


def ask(world: World, client: NodeId, request: int, topic: Topic | None, name: str = "") -> str:
    """Ask, and wait for the answer."""
    if topic is None:
        world.delete_topic(client, request, name)
    else:
        world.create_topic(client, request, topic)
    world.run_until(lambda: request in world.recorder.answers.get(client, {}))
    return world.recorder.answers[client][request]


def started(*names: NodeId, delta: int = 1) -> World:
    world = start_chain(*names, delta=delta)
    world.add_client("c", names[0])
    world.run_until(lambda: world.leaf("c").knows_topics)
    return world


def test_a_topic_reaches_every_broker_and_every_client_and_survives_all_of_them() -> None:
    world = started("a", "b", "d")
    world.add_client("far", "d")
    topic = Topic("trades", schema="price DOUBLE")
    assert ask(world, "c", 1, topic) == ""
    world.run_until(lambda: world.leaf("far").topics == {"trades": topic})
    for name in "abd":
        world.crash(name)
    for name in "abd":
        world.restart(name)
    world.run_for(RECOVERED)
    assert all(world.broker(name).topics.table.topics() == {"trades": topic} for name in "abd")
    world.subscribe("far", "s", "trades", "price > 1")
    world.run_for(SECOND)
    world.publish("c", "p", "trades", {"price": 2.5})
    world.run_for(SECOND)
    assert got(world, "s") == [("p", 1)]


def test_a_broker_that_joins_and_one_that_lost_its_store_are_told() -> None:
    world = started("a", "b", "d")
    ask(world, "c", 1, Topic("one"))
    ask(world, "c", 2, Topic("two"))
    ask(world, "c", 3, None, "two")
    world.add_broker("e", join=("d",))
    world.add_client("new", "e")
    world.run_until(lambda: world.leaf("new").knows_topics)
    assert world.leaf("new").topics == {"one": Topic("one")}, "a client waits until its broker knows"
    world.crash("b")
    world.run_for(SECOND)
    world.replace("b", join=("a",))
    world.run_until(lambda: table(world, "b") == table(world, "a"))
    assert sorted(stored_table(world, "b")) == ["one", "two"]


def test_a_request_survives_the_crash_of_the_broker_that_has_done_it() -> None:
    """The home does it and dies before it answers; the next home is asked again, and finds it done."""
    world = started("a", "b", "d")
    assert ask(world, "c", 1, Topic("old")) == ""
    world.run_for(SECOND)
    world.hosts["a"].crash_next = True
    world.create_topic("c", 2, Topic("new"))
    world.delete_topic("c", 3, "old")
    world.run_until(lambda: len(world.recorder.answers["c"]) == 3)
    assert not world.hosts["a"].is_up
    assert set(stored_table(world, "a")) == {"old", "new"}
    assert world.recorder.answers["c"] == {1: "", 2: "", 3: ""}
    world.restart("a")
    world.run_for(RECOVERED)
    assert all(sorted(world.broker(name).topics.table.topics()) == ["new"] for name in "abd")


def test_two_sides_of_a_partition_agree_when_they_meet() -> None:
    """One side deletes and creates anew, the other declares something else: the later one holds."""
    world = World(seed=1, delta=1)
    world.add_tree([link("a", "b")])
    for client, home in (("c", "a"), ("k", "b")):
        world.add_client(client, home)
    world.run_for(SECOND)
    assert ask(world, "c", 1, Topic("t", schema="a INT")) == ""
    world.run_for(SECOND)
    world.subscribe("c", "s", "t")
    world.run_for(SECOND)
    world.cut("a", "b")
    world.run_for(RECOVERED)
    assert ask(world, "k", 1, None, "t") == ""
    assert ask(world, "k", 2, Topic("t", schema="b INT")) == ""
    assert "it is another one" in ask(world, "c", 2, Topic("t", schema="c INT"))
    world.heal("a", "b")
    world.run_until(lambda: table(world, "a") == table(world, "b"))
    world.run_for(SECOND)
    assert world.leaf("c").topics == world.leaf("k").topics == {"t": Topic("t", schema="b INT")}
    ended = [each.subscription for each in world.trace if isinstance(each, Unsubscribe)]
    assert ended == ["s"], "its topic is another one now, and its application was told"
