"""Paper 000, sections V and VI: how publications are forwarded, confirmed, repeated, and known again."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest

from gapless.core.events import MessageReceived, SuspectRequested
from gapless.core.messages import Message
from gapless.core.messages.publisher import (
    Acknowledged,
    Confirmed,
    Log,
    Publications,
)
from gapless.core.model import MILLISECOND, SECOND, Event, Micros, NodeId, Partition
from gapless.simulation import trace
from gapless.simulation.faults import Faults, Window
from gapless.simulation.trees import random_tree
from gapless.simulation.world import World
from publications import single
from support import (
    BYPASSED,
    RECOVERED,
    TOPIC,
    Handlings,
    Messages,
    SteadyLatency,
    assert_promises,
    chain,
    confirmed,
    copies,
    delivered,
    got,
    in_custody,
    known_at,
    live,
    lives,
    paths_from,
    publish_all,
    publisher_leaf,
    publisher_order,
    start_network,
    subscribe_all,
    tree_of,
)

HOP: Micros = 5 * MILLISECOND
STEADY = SteadyLatency(HOP)
PIDS = [Partition("a", 1, ("b",)), Partition("a", 2, ("b", "c"))]


def under_faults(seed: int, *, delta: int, crashes: int, cuts: int) -> tuple[World, Handlings]:
    """A random tree with two publishers and four subscribers, two of them late, in random trouble."""
    rng = Random(seed)
    links = random_tree(8, 2, rng)
    names = sorted({name for each in links for name in each})
    clients = {client: rng.choice(names) for client in ("p", "q", "s0", "s1", "s2", "s3")}
    world = start_network(links, clients, delta=delta, seed=seed)
    handled = Handlings(world)
    subscribe_all(world, {"s0": "", "s1": "n >= 50"})
    for source in "pq":
        publish_all(world, source, 400, every=20 * MILLISECOND)
    for k in (2, 3):
        world.at(world.now + k * SECOND, lambda k: world.subscribe(f"s{k}", f"s{k}", TOPIC), k)
    window = Window(world.now, world.now + 8 * SECOND)
    faults = Faults(world, crashes=crashes, cuts=cuts, max_down=delta, window=window)
    world.run(until=window.closes)
    faults.heal_all()
    assert_promises(world)
    assert faults.injected >= 2
    return world, handled


def acknowledged(sent: Messages, source: NodeId) -> list[tuple[NodeId, int]]:
    """The confirmations of publications that a node sent: to whom, and of which sequence."""
    return [
        (target, sequence)
        for sender, target, message in sent.of(Acknowledged)
        if sender == source
        for each in message.acknowledgements
        for first, last in each.ranges
        for sequence in range(first, last + 1)
    ]


# -- what is safe to deliver ---------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize("seed", range(4))
def test_p0_49_all_who_forwarded_had_accepted(delta: int, seed: int) -> None:
    """p is delivered for s only if it matches and its source broker and all brokers on its way had accepted s
    before they forwarded it, whatever fails.

    Reference: 000, section V (P0-49)
    """
    _, handled = under_faults(seed, delta=delta, crashes=4, cuts=4)
    assert handled.assert_all_were_aware() > 500


def test_p0_50_the_five_steps() -> None:
    """Queueing, barrier check, matching, routing, cleanup: a broker keeps p before it sends it on, and has
    discarded it when it confirms it.

    Reference: 000, section V, Fig. 4 (P0-50)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"}, latency=STEADY)
    subscribe_all(world, {"s": ""})
    handled = Handlings(world)
    steps: list[tuple[str, int, int]] = []

    def tap(source: NodeId, target: NodeId, message: Message) -> None:
        if source == "b" and isinstance(message, Publications | Acknowledged):
            queued = len(publisher_order(world, "b").forwarding.custody)
            steps.append((f"{type(message).__name__} to {target}", len(handled.of("b")), queued))

    world.network.tap = tap
    publish_all(world, "p", 1)
    world.run_for(SECOND)
    assert steps == [("Publications to c", 1, 1), ("Acknowledged to a", 1, 0)]
    copy = handled.of("c")[0].publication
    assert copy.epoch == 1, "matched against the log as it was"
    assert [(node, number) for node, _, number in copy.vector] == [("a", 1), ("b", 1)]


@pytest.mark.parametrize("seed", range(3))
def test_p0_51_the_queue_is_fifo(seed: int) -> None:
    """p is appended on its first arrival and the order is preserved: every broker meets the new publications
    of each of two interleaved sources in their order, under random session failures.

    Reference: 000, section V (P0-51)
    """
    world, handled = under_faults(seed, delta=1, crashes=0, cuts=8)
    met = 0
    for name in world.brokers():
        last: dict[str, tuple[tuple[int, int], int]] = {}
        for each in handled.of(name):
            publisher, sequence, generation = each.event
            if not each.is_duplicate and not each.in_custody:
                assert (generation, sequence) > last.get(publisher, ((0, 0), 0)), each
                last[publisher] = (generation, sequence)
                met += 1
    assert met > 1000


def test_p0_52_what_comes_out_of_a_partition_is_tagged() -> None:
    """p is tagged with the pid of the partition that it came from: the link of a and b is cut, b is alive and
    its events come round it.

    Our implementation tags by the brokers that have handled a copy (X-P0-03), while the partition is open.

    Reference: 000, section V, Fig. 4, line 9 (P0-52)
    """
    links = [*chain("a", "b"), *chain("a", "c"), *chain("c", "d")]
    world = start_network(links, {"p": "b", "s": "d"}, delta=1, latency=STEADY)
    subscribe_all(world, {"s": ""})
    world.cut("a", "b")
    world.run_for(BYPASSED)
    sent = Messages(world)
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert {(source, target) for source, target, copy in copies(sent) if copy.entry} == {
        ("b", "c"),
        ("c", "d"),
        ("d", "s"),
    }
    pid = Partition("a", 1, ("b",))
    assert pid in world.broker("c").overlay.partitions.table()
    assert {source: copy.tags for source, _, copy in copies(sent) if copy.entry} == {
        "b": (),
        "c": (pid,),
        "d": (pid,),
    }
    assert delivered(world, "s") == [1, 2, 3], "for s it was reached before, so all is safe"


def test_p0_52_what_the_source_took_unaware_is_marked_after_the_heal() -> None:
    """The example of Fig. 1: the copy of p1 that leaves the first broker on the side of the subscribers says
    that it is not safe for s2.

    Our implementation names the subscription instead of the partition, which is over by then: b2 sees from
    the epoch of the copy that b1 was not aware of s2.

    Reference: 000, section V, and section I, Fig. 1 (P0-52)
    """
    links = [*chain("b1", "b2", "b3"), *chain("b2", "b4")]
    world = start_network(links, {"p": "b1", "s": "b3", "s2": "b4"}, delta=0)
    subscribe_all(world, {"s": ""})
    world.cut("b1", "b2")
    world.run_for(BYPASSED)
    subscribe_all(world, {"s2": ""})
    publish_all(world, "p", 1)
    world.run_for(SECOND)
    sent = Messages(world)
    world.heal("b1", "b2")
    world.run_for(RECOVERED)
    publish_all(world, "p", 1)
    assert_promises(world)
    out_of_b2 = [
        (copy.event.sequence, target, copy.excluded)
        for source, target, copy in copies(sent)
        if source == "b2"
    ]
    assert out_of_b2 == [(1, "b3", ("s2:1:1",)), (2, "b3", ()), (2, "b4", ())]
    assert got(world, "s2") == [("p", 2)]


def test_p0_53_only_accepted_subscriptions_are_matched() -> None:
    """Match_p(B) comes from the subscriptions that B has accepted: q, published at b while s2 was on its way
    there, goes to s1 alone.

    Reference: 000, section V (P0-53)
    """
    world = start_network(chain("a", "b", "c"), {"q": "b", "s1": "c", "s2": "a"}, latency=STEADY)
    subscribe_all(world, {"s1": ""})
    world.network.slowness["a", "b"] = 50
    sent = Messages(world)
    world.subscribe("s2", "s2", TOPIC)
    world.run_for(20 * MILLISECOND)
    assert known_at(world, "a") == ["s1:1:1", "s2:1:1"]
    publish_all(world, "q", 2)
    world.run_for(50 * MILLISECOND)
    assert known_at(world, "b") == ["s1:1:1"]
    assert [target for source, target, _ in copies(sent) if source == "b"] == ["c", "c"]
    world.run_for(SECOND)
    publish_all(world, "q", 1)
    assert_promises(world)
    assert delivered(world, "s1") == [1, 2, 3]
    assert delivered(world, "s2") == [3]


def test_p0_54_one_copy_for_each_peer() -> None:
    """p is sent over the active session on the path of each matching subscription, once a peer: a hundred
    matching subscriptions behind one peer are one copy.

    Reference: 000, section V, Fig. 4 (P0-54)
    """
    clients = {"p": "a", **{f"s{k}": "cd"[k % 2] for k in range(20)}}
    world = start_network([*chain("a", "b", "c"), *chain("b", "d")], clients)
    for k in range(100):
        world.subscribe(f"s{k % 20}", f"s{k % 20}/{k}", TOPIC, "" if k % 3 else "n >= 0")
    world.run_for(2 * SECOND)
    sent = Messages(world)
    publish_all(world, "p", 1)
    world.run_for(SECOND)
    sessions = Counter((source, target) for source, target, _ in copies(sent))
    assert set(sessions.values()) == {1}
    assert set(sessions) == {("p", "a"), ("a", "b"), ("b", "c"), ("b", "d")} | {
        ("cd"[k % 2], f"s{k}") for k in range(20)
    }
    assert sum(isinstance(each, trace.Deliver) for each in world.trace) == 100


# -- confirmations -------------------------------------------------------------------------------------------


def test_p0_55_the_publisher_is_confirmed_after_all_deliveries() -> None:
    """A broker waits for the confirmations of all copies: the publisher's comes after the last matching
    subscriber has the event, and then the queues are empty.

    Reference: 000, section V (P0-55)
    """
    clients = {"p": "b0", "s1": "b4", "s2": "b5", "s3": "b6", "r": "b3"}
    links = [*chain("b0", "b1", "b3"), *chain("b1", "b4"), *chain("b0", "b2", "b5"), *chain("b2", "b6")]
    world = start_network(links, clients)
    subscribe_all(world, {"s1": "", "s2": "n >= 10", "s3": "", "r": "n < 0"})
    world.network.slowness["b2", "b6"] = 20
    publish_all(world, "p", 20, every=3 * MILLISECOND)
    world.run_for(50 * MILLISECOND)
    assert in_custody(world)
    assert confirmed(world, "p") == []
    world.run_for(3 * SECOND)
    assert confirmed(world, "p") == list(range(1, 21))
    assert in_custody(world) == {}
    reached: Counter[int] = Counter()
    for each in world.trace:
        if isinstance(each, trace.Deliver):
            reached[each.sequence] += 1
        elif isinstance(each, trace.Confirm):
            assert reached[each.sequence] == (3 if each.sequence > 10 else 2), each


def test_p0_55_what_nobody_wants_is_confirmed_at_once() -> None:
    """Out_p may be empty from the beginning (X-P0-11).

    Reference: 000, section V (P0-55)
    """
    world = start_network(chain("a", "b"), {"p": "a", "s": "b"})
    subscribe_all(world, {"s": "n < 0"})
    sent = Messages(world)
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert confirmed(world, "p") == [1, 2, 3]
    assert [source for source, _, _ in copies(sent)] == ["p"] * 3


def sizes(world: World) -> dict[NodeId, tuple[int, ...]]:
    """How much the nodes remember of publications."""
    found = {}
    for name in live(world):
        order = publisher_order(world, name)
        custody, vectors = order.forwarding.custody, order.forwarding.vectors
        tables = [len(table) for table in order.forwarding.presence.entered.values()]
        found[name] = (
            len(custody),
            len(custody.streams),
            vectors.size(),
            *tables,
            len(order.forwarding.presence.present),
        )
    for name in world.homes:
        retained = publisher_leaf(world, name).publishing.retained.values()
        found[name] = (sum(len(each.events) + len(each.confirmed) for each in retained),)
    return found


def test_p0_56_nothing_is_left_of_what_was_confirmed() -> None:
    """Confirmed publications are removed and their senders confirmed: what is remembered after ten thousand
    is as much as after the first hundred.

    Reference: 000, section V, Fig. 4 (P0-56)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "q": "b", "s": "c"})
    subscribe_all(world, {"s": ""})
    for count in (100, 10_000):
        for source in "pq":
            publish_all(world, source, count // 2, every=100)
        world.run_for(3 * SECOND)
        assert len(confirmed(world, "p")) == len(delivered(world, "s", "p"))
        if count == 100:
            before = sizes(world)
    assert len(got(world, "s")) == 10_100
    assert sizes(world) == before
    assert all(each[0] == 0 for each in before.values())


def test_p0_57_a_duplicate_in_the_queue_adds_its_sender() -> None:
    """A copy of what is still in the queue is not queued again: its sender is added, and both get the
    confirmation.

    Reference: 000, Fig. 4, lines 3–6 (P0-57)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"}, latency=STEADY)
    subscribe_all(world, {"s": ""})
    world.network.slowness["s", "c"] = 100
    sent, handled = Messages(world), Handlings(world)
    publish_all(world, "p", 1)
    world.run_for(6 * HOP)
    assert delivered(world, "s") == [1]
    world.cut("a", "b")
    world.hosts["a"].receive(SuspectRequested("b"))
    world.run_for(6 * HOP)
    assert [(each.peer, each.in_custody) for each in handled.of("c")] == [("b", False), ("a", True)]
    assert acknowledged(sent, "c") == []
    world.run_for(SECOND)
    assert acknowledged(sent, "c") == [("b", 1), ("a", 1)]
    assert delivered(world, "s") == [1]
    assert confirmed(world, "p") == [1], "before the heal"


def test_p0_57_a_duplicate_of_what_is_confirmed_is_confirmed_at_once() -> None:
    """A copy of what has left the queue is confirmed too, or its sender would wait for ever (X-P0-10).

    Reference: 000, Fig. 4, line 4 (P0-57)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"}, latency=STEADY)
    subscribe_all(world, {"s": ""})
    sent, handled = Messages(world), Handlings(world)
    publish_all(world, "p", 1)
    world.run_for(2 * HOP + HOP // 2)
    world.cut("b", "a", one_way=True)
    world.run_for(BYPASSED)
    assert [(each.peer, each.in_custody, each.is_duplicate) for each in handled.of("c")] == [
        ("b", False, False),
        ("a", False, True),
    ]
    assert acknowledged(sent, "c") == [("b", 1), ("a", 1)]
    assert confirmed(world, "p") == [1]
    assert in_custody(world) == {}


# -- unsafe publications -------------------------------------------------------------------------------------


def barrier_before(subscriber: NodeId) -> World:
    """A live subscription at a that was confirmed without b and c."""
    world = start_network(chain("a", "b", "c", "d"), {subscriber: "a"})
    for victim in "bc":
        world.crash(victim)
    world.run_for(BYPASSED)
    subscribe_all(world, {subscriber: ""})
    assert lives(world, subscriber)[0].unreachable == ("b", "c", "d")
    return world


def hand_over(world: World, client: NodeId, sequence: int, tags: tuple[Partition, ...], home: NodeId) -> None:
    """The client's broker sends it a publication of p, whose broker lies in the partitions or behind them."""
    event = Event(TOPIC, "p", sequence, {})
    copy = single(event, 1, entry=home, home=home, epoch=9, tags=tags)
    world.hosts[client].receive(MessageReceived("a", Publications((copy,))))
    world.run_for(100 * MILLISECOND)


@pytest.mark.parametrize(
    ("tags", "home", "is_delivered"),
    [
        ((), "z", True),
        ((Partition("x", 1, ("z",)),), "z", True),
        ((PIDS[0],), "b", False),
        ((PIDS[1],), "z", False),
        ((Partition("x", 1, ("z",)), PIDS[1]), "z", False),
    ],
    ids=["no tags", "another", "a", "b", "another and b"],
)
def test_p0_58_delivered_only_without_a_common_tag(
    tags: tuple[Partition, ...], home: NodeId, is_delivered: bool
) -> None:
    """p is delivered for s if and only if the tags of p and those of the confirmation of s are disjoint.

    Our implementation compares the brokers of the partitions, so that two detectors of one failure agree.

    Reference: 000, section V, Fig. 4, lines 31–36 (P0-58)
    """
    world = barrier_before("s")
    hand_over(world, "s", 1, tags, home)
    assert got(world, "s") == ([("p", 1)] if is_delivered else [])


def test_p0_59_what_is_unsafe_stays_outside_the_reliable_flow() -> None:
    """Unsafe publications are not delivered in the reliable stream, and the stream does not begin in their
    middle later on.

    Our implementation raises the start of the publisher behind what it has withheld.

    Reference: 000, section V, and Lemma 1 (P0-59)
    """
    world = barrier_before("s")
    own = publisher_leaf(world, "s").subscribing.own["s:1:1"]
    for sequence in (1, 2, 3):
        hand_over(world, "s", sequence, (PIDS[1],), "z")
        assert own.cut == {"p": (0, sequence)}, "withheld, and known to be"
    assert got(world, "s") == []
    hand_over(world, "s", 2, (), "z")
    assert got(world, "s") == [], "what was withheld does not come later either"
    hand_over(world, "s", 4, (), "z")
    assert got(world, "s") == [("p", 4)]


def test_p0_59_an_island_that_did_not_know_the_subscription_is_withheld() -> None:
    """b is alive and cut off from both sides: what its client published meanwhile, of which b would keep
    only what others want, does not come to s in parts (X-P0-05).

    Reference: 000, section V, Fig. 3, lines 24–26 (P0-59)
    """
    world = start_network(chain("a", "b", "c"), {"s": "a", "r": "c", "p": "b"}, delta=1)
    subscribe_all(world, {"r": "n = 1 OR n = 3"})
    for other in "ac":
        world.cut("b", other)
    world.cut("p", "a")
    world.cut("p", "c")
    world.run_for(BYPASSED)
    subscribe_all(world, {"s": ""})
    assert lives(world, "s")[-1].unreachable == ("b",)
    publish_all(world, "p", 5)
    world.run_for(SECOND)
    for pair in (("b", "a"), ("b", "c"), ("p", "a"), ("p", "c")):
        world.heal(*pair)
    world.run_for(RECOVERED)
    publish_all(world, "p", 5)
    assert_promises(world)
    assert delivered(world, "r") == [2, 4, 7, 9]
    assert delivered(world, "s") == [6, 7, 8, 9, 10]


def test_p0_59_a_reached_source_is_not_withheld_for_the_way_its_events_take() -> None:
    """Unsafe is what comes from a source that did not accept s: x was reached round y and confirmed s, so its
    events are promised, also those that go through y later, when y knows s and a still takes it for failed.

    Reference: 000, section V, Fig. 4, line 9 (P0-59)
    """
    world = start_network(chain("a0", "a", "y", "x"), {"s": "a0", "p": "x"})
    for pair in (("a", "y"), ("a0", "y"), ("x", "y")):
        world.cut(*pair)
    world.run_for(BYPASSED)
    subscribe_all(world, {"s": ""})
    assert lives(world, "s")[0].unreachable == ("y",)
    for pair in (("a0", "y"), ("x", "y")):
        world.heal(*pair)
    world.run_for(RECOVERED)
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    world.heal("a", "y")
    world.run_for(RECOVERED)
    publish_all(world, "p", 2)
    assert_promises(world)
    assert delivered(world, "s") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("source", ["x", "w"])
def test_p0_59_one_partition_can_be_an_island_and_a_barrier(source: NodeId) -> None:
    """Behind the dead y, x is reached and w is not: what comes from x flows, what comes from w is withheld
    until w is reached (X-P0-04).

    Reference: 000, section V (P0-59)
    """
    links = [*chain("a", "y", "x"), *chain("y", "w")]
    world = start_network(links, {"s": "a", "p": source, "r": "x"}, delta=1)
    subscribe_all(world, {"r": "n = 1"})
    world.crash("y")
    for other in "ax":
        world.cut("w", other)
    world.run_for(BYPASSED)
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert delivered(world, "s") == ([1, 2, 3] if source == "x" else [])
    world.restart("y")
    for other in "ax":
        world.heal("w", other)
    world.run_for(RECOVERED)
    publish_all(world, "p", 1)
    assert_promises(world)
    assert delivered(world, "s") == ([1, 2, 3, 4] if source == "x" else [4])


# -- retransmission and duplicates ---------------------------------------------------------------------------


@pytest.mark.parametrize("count", [1, 5])
def test_p0_60_unconfirmed_publications_are_sent_again(count: int) -> None:
    """When a session fails, what is not confirmed goes over the newly active one, in the order of the queue:
    b crashes after it has forwarded and before it has confirmed; c sees all twice and delivers it once.

    Reference: 000, section VI (P0-60)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"}, latency=STEADY)
    subscribe_all(world, {"s": ""})
    handled = Handlings(world)
    publish_all(world, "p", count)
    world.run_until(lambda: len(handled.of("c")) == count)
    world.crash("b", silently=True)
    world.run_for(BYPASSED)
    everything = list(range(1, count + 1))
    seen = [(each.peer, each.publication.event.sequence) for each in handled.of("c")]
    assert seen == [("b", k) for k in everything] + [("a", k) for k in everything]
    assert delivered(world, "s") == everything
    assert confirmed(world, "p") == everything


def test_p0_60_the_unconfirmed_go_before_the_new() -> None:
    """On a change of the active session to a nearer broker what is unconfirmed is sent again before anything
    new, or the new would overtake it and make it look like a duplicate (X-P0-22, X-P0-23).

    Reference: 000, section VI (P0-60)
    """
    world = start_network(chain("a", "y", "x"), {"p": "a", "s": "x"}, latency=STEADY)
    subscribe_all(world, {"s": ""})
    world.crash("y")
    world.run_for(BYPASSED)
    world.network.slowness["a", "x"] = 100
    sent = Messages(world)
    publish_all(world, "p", 1)
    world.run_for(2 * HOP)
    world.restart("y")
    world.run_until(lambda: world.broker("a").overlay.frontier.active == ["y"])
    publish_all(world, "p", 1)
    world.run_for(20 * HOP)
    assert delivered(world, "s") == [1, 2], "before the first copy has arrived"
    assert_promises(world)
    from_a = [(target, copy.event.sequence) for source, target, copy in copies(sent) if source == "a"]
    assert from_a == [("x", 1), ("y", 1), ("y", 2)]
    assert delivered(world, "s") == [1, 2]


@pytest.mark.parametrize("delta", [1, 2])
def test_p0_61_vectors_know_what_sequences_of_the_source_know(delta: int) -> None:
    """The trivial scheme, the highest sequence of each source, is the reference: while links are suspected,
    rightly or not, in the middle of the traffic, sequence vectors take the same copies for duplicates.

    Our implementation keeps the trivial scheme at the clients; here it judges the brokers.

    Reference: 000, section VI (P0-61)
    """
    names = [f"b{k}" for k in range(6)]
    world = start_network(chain(*names), {"p": "b0", "q": "b5", "s": "b5", "r": "b0"}, delta=delta)
    subscribe_all(world, {"s": "", "r": "n >= 100"})
    handled, rng = Handlings(world), Random(delta)
    for source in "pq":
        publish_all(world, source, 2000, every=4 * MILLISECOND)
    for k in range(16):
        here = rng.randrange(5)
        pair = (names[here], names[here + 1])
        world.hosts[pair[k % 2]].receive(SuspectRequested(pair[1 - k % 2]))
        if k % 4 == 3:
            world.cut(*pair)
            world.run_for(250 * MILLISECOND)
            world.heal(*pair)
        world.run_for(500 * MILLISECOND)
    assert_promises(world)
    highest: dict[tuple[NodeId, str], int] = {}
    verdicts: Counter[bool] = Counter()
    for each in handled.all:
        if each.node not in world.homes and each.peer not in world.homes:
            publisher, sequence, _ = each.event
            before = highest.get((each.node, publisher), 0)
            assert (each.is_duplicate or each.in_custody) == (sequence <= before), each
            highest[each.node, publisher] = max(before, sequence)
            verdicts[sequence <= before] += 1
    assert verdicts[False] > 10_000
    assert verdicts[True] > 50


def test_p0_62_without_fault_tolerance_the_neighbour_is_enough() -> None:
    """With δ = 0 the highest sequence of each immediate neighbour suffices: vectors have the length 1, and
    what is sent again after a cut is known.

    Reference: 000, section VI (P0-62)
    """
    names = [f"b{k}" for k in range(5)]
    world = start_network(chain(*names), {"p": "b0", "s": "b4"}, delta=0, latency=STEADY)
    subscribe_all(world, {"s": ""})
    sent, handled = Messages(world), Handlings(world)
    publish_all(world, "p", 5)
    world.run_for(4 * HOP)
    world.cut("b3", "b2", one_way=True)  # the confirmations are held up, and the session is given up
    world.run_for(BYPASSED)
    world.heal("b3", "b2")
    assert_promises(world)
    assert {len(copy.vector) for source, _, copy in copies(sent) if source in names} == {1}
    assert {(source, copy.vector[0][0]) for source, _, copy in copies(sent) if source in names} == {
        (name, name) for name in names
    }
    assert [each.is_duplicate for each in handled.of("b3")] == [False] * 5 + [True] * 5
    assert len(handled.of("b4")) == 5
    assert delivered(world, "s") == [1, 2, 3, 4, 5]


# -- properties that the proofs use --------------------------------------------------------------------------


def test_p0_102_one_order_for_all_types() -> None:
    """Subscriptions, publications and confirmations are processed in one arrival order: no publication
    overtakes a subscription, and one that follows the confirmation of s comes from a sender that knew s.

    Reference: 000, Lemma 1, property 2 (P0-102)
    """
    links = [*chain("a", "b", "c", "d"), *chain("b", "e")]
    world = start_network(links, {"p": "a", "q": "d", "s": "c", "r": "e"})
    subscribe_all(world, {"r": ""})
    sent = Messages(world)
    arrived: dict[tuple[NodeId, NodeId], list[Message]] = {}
    for name in world.brokers():
        order, host = publisher_order(world, name), world.hosts[name]
        assert host.node is not None
        handle = order.message

        def observed(
            peer: NodeId, message: Message, now: Micros, name: NodeId = name, handle: object = handle
        ) -> None:
            arrived.setdefault((peer, name), []).append(message)
            handle(peer, message, now)  # type: ignore[operator]

        order.message = observed  # type: ignore[method-assign]
    for source in "pq":
        publish_all(world, source, 1000, every=MILLISECOND)
    for k in range(50):
        world.at(world.now + k * 17 * MILLISECOND, lambda k: world.subscribe("s", f"s{k}", TOPIC), k)
    world.run_for(3 * SECOND)
    streams: dict[tuple[NodeId, NodeId], list[Message]] = {}
    for source, target, message in sent.of(*publisher_order(world, "a").messages):
        if target in world.brokers():
            streams.setdefault((source, target), []).append(message)
    assert arrived == streams
    after_confirmations = 0
    for (source, target), stream in streams.items():
        if source in world.homes or target in world.homes:
            continue
        index, streamed, floor = publisher_order(world, target).peers[source].index_of, 1, 0
        for message in stream:
            if isinstance(message, Log):
                streamed = max(entry.index for entry in message.entries)
            elif isinstance(message, Confirmed):
                floor = max(floor, *(index[each.subscription] for each in message.confirmations))
            elif isinstance(message, Publications):
                assert all(floor <= run.header.epoch <= streamed for run in message.runs)
                after_confirmations += bool(floor)
    assert after_confirmations > 500
    assert_promises(world)


def test_p0_103_publications_move_away_from_their_source() -> None:
    """A copy is never sent back towards its source: with a matching subscriber at the publisher's own broker
    b1 and another at b3, b2 sends nothing back to b1, and the queues drain (X-P0-21).

    Reference: 000, sections V and VIII; 003, appendix A.2 (P0-103)
    """
    world = start_network(chain("b1", "b2", "b3"), {"p": "b1", "s1": "b1", "s2": "b2", "s3": "b3"})
    subscribe_all(world, {"s1": "", "s2": "", "s3": "", "p": ""})
    sent = Messages(world)
    publish_all(world, "p", 3)
    assert_promises(world)
    ways = Counter((source, target) for source, target, _ in copies(sent))
    expected = [
        ("p", "b1"),
        ("b1", "p"),
        ("b1", "s1"),
        ("b1", "b2"),
        ("b2", "s2"),
        ("b2", "b3"),
        ("b3", "s3"),
    ]
    assert ways == dict.fromkeys(expected, 3)
    assert confirmed(world, "p") == [1, 2, 3]


@pytest.mark.parametrize("seed", range(3))
def test_p0_103_away_from_the_source_while_brokers_fail(seed: int) -> None:
    """The same in a random tree where brokers crash: every copy goes to a node that is farther from the
    broker that took it from its publisher.

    Reference: 000, sections V and VIII; 003, appendix A.2 (P0-103)
    """
    world, handled = under_faults(seed, delta=2, crashes=6, cuts=0)
    tree = tree_of(
        (name, other)
        for name in world.brokers()
        for other in world.broker(name).overlay.topology.neighbours()
        if name < other
    )
    away = {name: paths_from(tree, name, len(tree)) for name in tree}
    checked = 0
    for each in handled.all:
        if each.node not in world.homes and each.peer not in world.homes:
            entry = each.publication.entry
            assert len(away[entry][each.node]) > len(away[entry][each.peer]), each
            assert each.peer in away[entry][each.node], each
            checked += 1
    assert checked > 500
