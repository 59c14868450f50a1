"""Paper 000, section VIII: legitimacy, life beyond δ. One test or more a row of the conformance list."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.effects import publisher_of
from gapless.core.messages.overlay import PartitionInfo
from gapless.core.model import SECOND, BeyondDelta, NodeId
from gapless.core.orders.publisher.vectors import bypassed
from gapless.simulation import trace
from gapless.simulation.checkers import check
from gapless.simulation.trees import random_tree
from gapless.simulation.world import World
from publications import nil
from support import (
    BYPASSED,
    RECOVERED,
    TOPIC,
    Messages,
    assert_promises,
    chain_with_p_and_s,
    confirmed,
    copies,
    delivered,
    held_at,
    in_custody,
    publish_some,
    publisher_order,
    start_chain,
    start_tree,
    subscribe_all,
    topic_t,
)


def held_at_c(beyond_delta: BeyondDelta = BeyondDelta.HOLD) -> World:
    """a-b-c-d-e, δ = 1, b and d dead: what a sends may not bypass d as well. Three events are published."""
    world = chain_with_p_and_s("a", "b", "c", "d", "e", beyond_delta=beyond_delta)
    world.crash("b")
    world.crash("d")
    world.run_for(BYPASSED)
    publish_some(world, 3)
    return world


# -- upholding legitimacy ----------------------------------------------------------------------------------


def test_p0_71_a_second_bypass_is_held() -> None:
    """Two separated brokers within three are dead: c may not send what bypassed b round d too. It is held,
    not dropped, and so is all that comes later for e, in order.

    Reference: 000, section VIII (P0-71)
    """
    world = held_at_c()
    assert held_at(world, "c") == {"e": [1, 2, 3]}
    publish_some(world, 2)
    assert held_at(world, "c") == {"e": [1, 2, 3, 4, 5]}
    assert delivered(world, "s") == confirmed(world, "p") == []
    assert in_custody(world) == {"a": 5, "c": 5}


def test_p0_71_what_follows_in_the_stream_waits_and_other_streams_pass() -> None:
    """What p publishes waits in order; what enters at c is legitimate by itself and does not wait for it.

    The paper holds everything that goes to the same broker, since its numbers ascend over all publishers.
    Ours may be handled out of that order, so that one stream does not stop the others.

    Reference: 000, section VIII (P0-71)
    """
    world = held_at_c()
    for name in ("q", "here"):
        world.add_client(name, "c")
    subscribe_all(world, {"here": ""})
    publish_some(world, 2, "q")
    assert held_at(world, "c") == {"e": [1, 2, 3]}
    assert delivered(world, "here", "q") == delivered(world, "s", "q") == [1, 2]
    assert delivered(world, "s", "p") == []
    world.restart("d")
    world.run_for(RECOVERED)
    assert delivered(world, "s", "p") == [1, 2, 3], "although e has seen the higher numbers of q"
    assert_promises(world)


def test_p0_71_up_to_delta_bypasses_are_no_reason_to_hold() -> None:
    """δ = 2: a and c each bypass one broker, two in five: that is still legitimate.

    Reference: 000, sections VI and VIII (P0-71)
    """
    world = chain_with_p_and_s("a", "b", "c", "d", "e", delta=2)
    sent = Messages(world)
    world.crash("b")
    world.crash("d")
    world.run_for(BYPASSED)
    publish_some(world, 3)
    assert delivered(world, "s") == [1, 2, 3]
    assert max(bypassed(each.vector) for _, _, each in copies(sent)) == 2


def test_p0_72_a_nearer_session_releases() -> None:
    """Release (i): d is back, c's session to d is nearer than that to e, and the held messages go there.

    Reference: 000, section VIII (P0-72)
    """
    world = held_at_c()
    sent = Messages(world)
    world.restart("d")
    world.run_for(RECOVERED)
    assert delivered(world, "s") == [1, 2, 3] == confirmed(world, "p")
    assert [target for source, target, _ in copies(sent) if source == "c"] == ["d"] * 3
    assert held_at(world, "c") == {}
    assert in_custody(world) == {}
    world.restart("b")
    assert_promises(world)


def test_p0_72_what_has_vanished_holds_nothing_up() -> None:
    """A client of c goes on with the publisher: c drops what it held of the older generation, and what comes
    in the new one has bypassed nobody, so it may go round d.

    Reference: 000, section VIII (P0-72)
    """
    world = held_at_c()
    world.add_client("q", "c")
    world.crash("p")
    world.adopt("q", "p", [each for each in world.hosts["p"].store if publisher_of(each) == "p"])
    world.run_for(RECOVERED)
    assert delivered(world, "s") == [1, 2, 3]
    assert held_at(world, "c") == {}
    assert_promises(world)


def test_p0_73_a_better_copy_releases() -> None:
    """Release (ii): b is back, a sends again by b, and these copies have bypassed nobody: c may bypass d.

    Our implementation lends the held publication the passage of the better copy, not its numbers: these
    would not ascend among those of the first copies.

    Reference: 000, section VIII (P0-73)
    """
    world = held_at_c()
    sent = Messages(world)
    world.restart("b")
    world.run_for(RECOVERED)
    assert delivered(world, "s") == [1, 2, 3] == confirmed(world, "p")
    assert held_at(world, "c") == {}
    assert in_custody(world) == {}
    released = [each.vector for source, target, each in copies(sent) if (source, target) == ("c", "e")]
    assert released == [(("a", 1, k), ("b", 2, 0), ("c", 1, k), nil("d")) for k in (1, 2, 3)]
    world.restart("d")
    assert_promises(world)


def test_p0_74_the_failure_of_the_edge_ends_the_hold() -> None:
    """Release (iii): e fails, so there is nothing to hold back from it any more, and nobody else waits.

    Our implementation answers for clients, not for brokers: what e's client should have stays in custody
    until it can be reached again (X-P0-17).

    Reference: 000, section VIII (P0-74)
    """
    world = held_at_c()
    world.add_client("here", "c")
    subscribe_all(world, {"here": ""})
    world.crash("e")
    world.run_for(BYPASSED)
    assert held_at(world, "c") == {}
    publish_some(world, 2)
    assert delivered(world, "here") == [4, 5]
    assert publisher_order(world, "c").forwarding.custody.unreachable() == {"s": 5}
    for name in "bde":
        world.restart(name)
    assert_promises(world)
    assert delivered(world, "s") == [1, 2, 3, 4, 5]


def test_p0_74_held_messages_of_a_dead_edge_are_confirmed() -> None:
    """Release (iii): the edge that the held messages were for is gone for good, broker and client: they are
    confirmed to the publisher and forgotten, after the lease of the client at the latest.

    Reference: 000, section VIII (P0-74)
    """
    world = chain_with_p_and_s(*"abcdefg", delta=2)
    for name in "bdf":
        world.crash(name)
    world.run_for(BYPASSED)
    publish_some(world, 3)
    assert held_at(world, "e") == {"g": [1, 2, 3]}
    world.crash("g")
    world.crash("s")
    world.run_for(50 * SECOND)
    assert confirmed(world, "p") == [], "the lease runs"
    world.run_for(20 * SECOND)
    assert confirmed(world, "p") == [1, 2, 3]
    assert in_custody(world) == {}


def test_p0_74_who_returns_to_a_dead_edge_too_late_gets_a_reset() -> None:
    """As above, but the client was only away: it is told that its promise begins anew.

    Reference: 000, section VIII (P0-74); X-P0-17
    """
    world = chain_with_p_and_s("a", "b", "c")
    world.cut("a", "c")
    world.cut("b", "c")
    world.run_for(BYPASSED)
    publish_some(world, 3)
    world.run_for(100 * SECOND)
    assert confirmed(world, "p") == [1, 2, 3]
    world.heal("a", "c")
    world.heal("b", "c")
    world.run_for(RECOVERED)
    publish_some(world, 2)
    assert [type(each) for each in world.trace if isinstance(each, trace.Reset | trace.Deliver)] == [
        trace.Reset,
        trace.Deliver,
        trace.Deliver,
    ]
    assert delivered(world, "s") == [4, 5]
    assert_promises(world)


def test_p0_74_who_returns_in_time_gets_everything() -> None:
    """The lease of a client ends when its broker is back, not when the client was lost.

    Reference: 000, section VIII (P0-74)
    """
    world = chain_with_p_and_s("a", "b", "c")
    for _ in range(3):
        world.cut("a", "c")
        world.cut("b", "c")
        world.run_for(BYPASSED)
        publish_some(world, 3)
        world.run_for(40 * SECOND)
        world.heal("a", "c")
        world.heal("b", "c")
        world.run_for(RECOVERED)
    assert delivered(world, "s") == list(range(1, 10))
    assert_promises(world)


def test_p0_74_held_messages_of_an_ended_subscription_are_confirmed() -> None:
    """Release (iii), for clients: s has unsubscribed, nobody waits for what is held, and it is confirmed.

    Reference: 000, section VIII (P0-74)
    """
    world = held_at_c()
    world.unsubscribe("s", "s")
    world.run_for(60 * SECOND)
    assert confirmed(world, "p") == [1, 2, 3]
    assert held_at(world, "c") == {}


def test_p0_75_the_rule_is_hold_or_mark() -> None:
    """The rule can be relaxed: a topic says whether what would go beyond δ is held or goes on marked.

    Reference: 000, sections IX and XI (P0-75)
    """
    world = held_at_c(BeyondDelta.MARK)
    flags = [each.best_effort for each in world.trace if isinstance(each, trace.Deliver)]
    assert delivered(world, "s") == [1, 2, 3] == confirmed(world, "p")
    assert flags == [True] * 3
    assert held_at(world, "c") == {}
    world.restart("b")
    world.run_for(RECOVERED)
    publish_some(world)
    last = [each for each in world.trace if isinstance(each, trace.Deliver)][-1]
    assert (last.sequence, last.best_effort) == (4, False), "within δ nothing is marked"
    assert delivered(held_at_c(BeyondDelta.HOLD), "s") == []


# -- beyond δ ----------------------------------------------------------------------------------------------


class Crowd:
    """100 brokers in a random tree of fanout 3, each with a client that wants everything; 17 of them die.

    The paper's network has 500 brokers and does not say how its tree was made (X-P0-20).
    """

    def __init__(self, beyond_delta: BeyondDelta, seed: int) -> None:
        rng = Random(seed)
        links = random_tree(100, 3, rng)
        self.world = start_tree(links, delta=3, seed=seed, topics=topic_t(beyond_delta))
        self.brokers = self.world.brokers()
        for name in self.brokers:
            self.world.add_client(f"at {name}", name)
        self.world.run_for(SECOND)
        subscribe_all(self.world, {f"at {name}": "" for name in self.brokers})
        self.dead = rng.sample(self.brokers, 17)
        for name in self.dead:
            self.world.crash(name)
        self.world.run_for(BYPASSED)
        self.alive = [name for name in self.brokers if name not in self.dead]
        self.publishers = [f"at {name}" for name in rng.sample(self.alive, 12)]
        for publisher in self.publishers * 2:
            self.world.publish(publisher, publisher, TOPIC, {})
        self.world.run_for(2 * SECOND)

    def part(self) -> float:
        """The part of the deliveries to clients of living brokers that has happened."""
        subscribers = {f"at {name}" for name in self.alive}
        happened = sum(
            each.subscription in subscribers for each in self.world.trace if isinstance(each, trace.Deliver)
        )
        return happened / (2 * len(self.publishers) * len(subscribers))


@pytest.mark.parametrize("seed", range(2))
def test_p0_95_beyond_delta_most_is_delivered_when_relaxed(seed: int) -> None:
    """With 17 % of the brokers dead and δ = 3, at least 97 % arrives in relaxed mode, once and in order.

    Reference: 000, section IX-B, Fig. 9 (P0-95)
    """
    crowd = Crowd(BeyondDelta.MARK, seed)
    assert crowd.part() >= 0.97
    assert list(check(crowd.world.trace, promise="publisher", healed=False)) == []
    for subscriber in crowd.brokers:
        for publisher in crowd.publishers:
            got = delivered(crowd.world, f"at {subscriber}", publisher)
            assert got == sorted(set(got))


def test_p0_95_beyond_delta_safety_is_kept_when_held() -> None:
    """In hold mode nothing wrong happens beyond δ either and nothing is marked; after the repair all arrives.

    Reference: 000, sections VIII and IX (P0-95)
    """
    crowd = Crowd(BeyondDelta.HOLD, 0)
    world = crowd.world
    assert not any(each.best_effort for each in world.trace if isinstance(each, trace.Deliver))
    assert list(check(world.trace, promise="publisher", healed=False)) == []
    for name in crowd.dead:
        world.restart(name)
    assert_promises(world)
    assert crowd.part() == 1


# -- table I -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", range(5))
def test_p0_96_parameters(delta: int) -> None:
    """Table I: Δ = δ+1, D_PT = 2δ, D_SEQ = 3δ+1, and the window of publications is 2δ+1 (X-P0-18).

    Reference: 000, section VIII, table I (P0-96)
    """
    world = start_chain("a", "b", delta=delta)
    overlay, vectors = world.broker("a").overlay, publisher_order(world, "a").forwarding.vectors
    assert overlay.topology.radius == delta + 1
    assert overlay.partitions._reach == 2 * delta
    assert vectors.length == 3 * delta + 1
    assert vectors.window == 2 * delta + 1


@pytest.mark.parametrize("delta", [1, 2])
def test_p0_96_partitions_are_known_within_two_delta(delta: int) -> None:
    """D_PT: the brokers within 2δ of the detector learn of a partition, and no others.

    Reference: 000, section VIII, table I (P0-96)
    """
    names: list[NodeId] = [f"b{k}" for k in range(2 * delta + 4)]
    world = start_chain(*names, delta=delta)
    sent = Messages(world)
    world.crash(names[-1])
    world.run_for(BYPASSED)
    detector = names[-2]
    (partition,) = world.broker(detector).overlay.partitions.own.values()
    assert partition.nodes == (names[-1],)
    knowing = [name for name in names[:-1] if partition in world.broker(name).overlay.partitions.table()]
    assert knowing == names[-2 - 2 * delta : -1]
    assert max(each.distance for _, _, each in sent.of(PartitionInfo)) == 2 * delta
