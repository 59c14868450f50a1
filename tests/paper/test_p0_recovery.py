"""Paper 000, section VII: recovery. One test or more a row of the conformance list."""

from __future__ import annotations

from itertools import product

import pytest

from gapless.core.broker import Broker
from gapless.core.events import SuspectRequested
from gapless.core.leaf import Leaf
from gapless.core.limits import Limits
from gapless.core.messages import Message, Neighbourhood, Ping
from gapless.core.messages.overlay import NodeState
from gapless.core.messages.publisher import Body, Confirmation, Confirmed, Log, Publications, Synced
from gapless.core.model import MILLISECOND, SECOND, NodeId, SubscriptionId
from gapless.core.overlay.joining import JoinState
from gapless.simulation import trace
from gapless.simulation.faults import Faults, Window
from gapless.simulation.run import WARM_UP, Options, build, simulate
from gapless.simulation.workload import Plan, Workload
from gapless.simulation.world import World
from support import (
    BYPASSED,
    RECOVERED,
    TOPIC,
    Handlings,
    Messages,
    active,
    assert_promises,
    chain,
    chain_with_p_and_s,
    copies,
    delivered,
    in_custody,
    known_at,
    lives,
    publish_all,
    publish_some,
    publisher_order,
    start_network,
    subscribe_all,
)

Nodes = tuple[NodeId, ...]


def divide(world: World, left: str, right: str) -> None:
    """Cut every link between two parts of the network, and let everybody notice."""
    for a, b in product(left, right):
        world.cut(a, b)
    world.run_for(BYPASSED)


def unite(world: World, left: str, right: str) -> None:
    """Heal them all, and let everybody recover."""
    for a, b in product(left, right):
        world.heal(a, b)
    world.run_for(RECOVERED)


def told(sent: Messages, source: NodeId, target: NodeId, *, with_body: bool = True) -> list[SubscriptionId]:
    """The subscriptions that one broker has sent to another, in full or only by name."""
    return [
        line.subscription
        for message in (each for s, t, each in sent.of(Log) if (s, t) == (source, target))
        for line in message.entries
        if (line.body is not None) is with_body
    ]


def confirmations(sent: Messages, subscription: SubscriptionId) -> list[tuple[NodeId, NodeId, Confirmation]]:
    return [
        (source, target, each)
        for source, target, message in sent.of(Confirmed)
        for each in message.confirmations
        if each.subscription == subscription
    ]


def unreachable(world: World, subscription: str) -> list[Nodes]:
    """What the application of a subscription was told to be unreachable, one entry for each time."""
    return [each.unreachable for each in lives(world, subscription)]


def sessions_sent(sent: Messages, source: NodeId, target: NodeId) -> list[Message]:
    """All that one node sent to another but signs of life."""
    return [each for _, s, t, each in sent.sent if (s, t) == (source, target) and not isinstance(each, Ping)]


# -- the two forms -----------------------------------------------------------------------------------------


def states_of(world: World, name: NodeId) -> list[NodeState]:
    """The states of a broker from now on, as it goes through them."""
    states: list[NodeState] = []

    def note(node: Broker | Leaf) -> None:
        if states[-1:] != [node.overlay.state]:
            states.append(node.overlay.state)

    world.hosts[name].stepped = note
    return states


def test_p0_76_partial_recovery_keeps_what_is_known() -> None:
    """A broker that was only unreachable recovers partially: it has lost nothing and stays operational.

    Reference: 000, section VII (P0-76)
    """
    world = chain_with_p_and_s("a", "b", "c", "d")
    states, before = states_of(world, "c"), known_at(world, "c")
    order = publisher_order(world, "c")
    divide(world, "ab", "cd")
    unite(world, "ab", "cd")
    assert states == [NodeState.OPERATIONAL]
    assert publisher_order(world, "c") is order
    assert known_at(world, "c") == before


def test_p0_76_full_recovery_is_partial_recovery_with_each_neighbour() -> None:
    """A broker that crashed has lost its subscriptions: it is recovering until each neighbour has told it
    all, which is a partial recovery with each of them.

    Reference: 000, section VII (P0-76)
    """
    world = chain_with_p_and_s("a", "b", "c")
    states, sent = states_of(world, "b"), Messages(world)
    world.crash("b")
    world.run_for(BYPASSED)
    world.restart("b")
    assert known_at(world, "b") == []
    world.run_for(RECOVERED)
    assert states == [NodeState.RECOVERING, NodeState.OPERATIONAL]
    assert {source for source, target, _ in sent.of(Log) if target == "b"} == {"a", "c"}
    assert {source for source, target, _ in sent.of(Synced) if target == "b"} == {"a", "c"}
    assert known_at(world, "b") == ["s:1:1"]


# -- partial recovery --------------------------------------------------------------------------------------


def test_p0_77_recovery_is_asymmetric() -> None:
    """The session of a with c is active for a, which goes round b, and not for c, which has b. Activation is
    one-sided, and recovery does not depend on it.

    Our implementation streams the log both ways on every session, so that an answer on it is complete; but
    only the end for which it is active asks, and the other answers although it has b.

    Reference: 000, section VII-A (P0-77)
    """
    world = chain_with_p_and_s("a", "b", "c")
    sent = Messages(world)
    world.cut("a", "b")
    world.crash("a")
    world.run_for(BYPASSED)
    world.restart("a")
    world.run_for(BYPASSED)
    assert (active(world, "a"), active(world, "c")) == (["c"], ["b"])
    assert publisher_order(world, "a").settled
    synced = [(source, target) for source, target, _ in sent.of(Synced) if {source, target} == {"a", "c"}]
    assert set(synced) == {("c", "a")}


def test_p0_78_the_first_message_tells_that_the_session_is_active() -> None:
    """Step (i): the first message of a new session says that it is there, and in which state its sender is.

    Reference: 000, section VII-A (P0-78)
    """
    world = chain_with_p_and_s("a", "b", "c", "d")
    divide(world, "ab", "cd")
    sent = Messages(world)
    publish_all(world, "p", 5, every=10 * MILLISECOND)
    unite(world, "ab", "cd")
    for source, target in (("b", "c"), ("c", "b")):
        first, second = sessions_sent(sent, source, target)[:2]
        assert isinstance(first, Neighbourhood)
        assert isinstance(second, Log)


def test_p0_79_the_summary_names_what_came_from_that_side() -> None:
    """Step (ii): R's summary for B is of the brokers on B's side, B included.

    Our implementation has no summary of numbers. R's log, as it is streamed to B, names what B has told
    without repeating it; these are the subscriptions of B's side.

    Reference: 000, section VII-A (P0-79)
    """
    clients = {f"at {name}": name for name in "abrc"}
    world = start_network(chain("a", "b", "r", "c"), clients)
    sent = Messages(world)
    subscribe_all(world, dict.fromkeys(clients, ""))
    world.settle()
    assert sorted(told(sent, "r", "b", with_body=False)) == ["at a:1:1", "at b:1:1"]
    assert sorted(told(sent, "r", "b")) == ["at c:1:1", "at r:1:1"]


def test_p0_80_what_is_missing_is_learned() -> None:
    """Step (iii): R missed some of the subscriptions; when the session is back it learns exactly these.

    Our implementation finds out by names, not by numbers: a subscription is accepted once, whoever tells it.

    Reference: 000, section VII-A (P0-80)
    """
    world = start_network(chain("a", "b", "c", "d"), {"x": "a", "y": "a"})
    subscribe_all(world, {"x": ""})
    divide(world, "ab", "cd")
    for k in range(3):
        world.subscribe("y", f"y{k}", TOPIC, "")
    world.run_for(SECOND)
    assert known_at(world, "c") == ["x:1:1"]
    unite(world, "ab", "cd")
    for name in "cd":
        assert known_at(world, name) == ["x:1:1", "y:1:1", "y:1:2", "y:1:3"]
        assert publisher_order(world, name).log.length == 4


@pytest.mark.parametrize("missed", [0, 2])
def test_p0_80_only_what_is_missing_is_sent(missed: int) -> None:
    """Step (iii): of n subscriptions R missed k; exactly these k are sent, none after an idle flap.

    Reference: 000, section VII-A (P0-80)
    """
    world = start_network(chain("a", "b", "c", "d"), {"x": "a", "y": "a"})
    for k in range(5):
        world.subscribe("x", f"x{k}", TOPIC, "")
    world.run_for(SECOND)
    divide(world, "ab", "cd")
    for k in range(missed):
        world.subscribe("y", f"y{k}", TOPIC, "")
    world.run_for(SECOND)
    sent = Messages(world)
    unite(world, "ab", "cd")
    assert told(sent, "b", "c") == [f"y:1:{k + 1}" for k in range(missed)]


def subscribed_while_divided() -> tuple[World, Messages]:
    """a-b-c-d-e with clients: s at a subscribes, and becomes live, while a and b cannot reach the others."""
    world = start_network(chain("a", "b", "c", "d", "e"), {"s": "a", "p": "e", "q": "b"})
    divide(world, "ab", "cde")
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    return world, sent


def test_p0_81_r_propagates_and_waits() -> None:
    """Step (iv): what was cut off behind R gets the subscription too, and R confirms after those behind it.

    Our implementation uses a subscription from its arrival on; what waits is the confirmation.

    Reference: 000, section VII-A (P0-81)
    """
    world, sent = subscribed_while_divided()
    assert [name for name in "abcde" if known_at(world, name)] == ["a", "b"]
    unite(world, "ab", "cde")
    assert all(known_at(world, name) == ["s:1:1"] for name in "cde")
    primary = [("e", "d"), ("d", "c"), ("c", "b"), ("b", "a"), ("a", "s")]
    after = [(source, target) for source, target, each in confirmations(sent, "s:1:1") if not each.pending]
    assert list(dict.fromkeys(pair for pair in after if pair in primary)) == primary


def healed_into_a_new_barrier() -> tuple[World, Messages]:
    """As before, but d and e, of a-b-c-d-e-f, are dead when c is reached again: a new barrier behind it."""
    world = start_network(chain("a", "b", "c", "d", "e", "f"), {"s": "a", "p": "f", "q": "c"})
    divide(world, "ab", "cdef")
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    world.crash("d")
    world.crash("e")
    world.run_for(BYPASSED)
    unite(world, "ab", "cdef")
    return world, sent


def test_p0_82_r_accepts_with_the_tags_of_its_confirmations() -> None:
    """Step (iv)(a): with a new barrier behind R, R's confirmation names that one and no other.

    Reference: 000, section VII-A (P0-82)
    """
    world, sent = healed_into_a_new_barrier()
    last = [each for source, target, each in confirmations(sent, "s:1:1") if (source, target) == ("c", "b")][
        -1
    ]
    assert [(each.detector, each.nodes) for each in last.pending] == [("c", ("d",)), ("c", ("d", "e"))]
    assert set(last.pending) == set(world.broker("c").overlay.partitions.own.values())


def island() -> tuple[World, Messages]:
    """a-b-y-r: b cannot reach y and goes round it to r; y can be reached from r only. s at a subscribes."""
    world = start_network(chain("a", "b", "y", "r"), {"s": "a", "p": "r"})
    divide(world, "ab", "y")
    assert [active(world, name) for name in "byr"] == [["a", "r"], ["r"], ["y"]]
    sent = Messages(world)
    world.subscribe("s", "s", TOPIC, "")
    world.run_for(SECOND)
    return world, sent


def test_p0_83_a_bypassed_broker_is_told_from_behind() -> None:
    """Step (iv)(b): Y lies between B and R and can be reached from R only: it gets the subscription from R.

    Reference: 000, section VII-A (P0-83)
    """
    world, sent = island()
    assert known_at(world, "y") == ["s:1:1"]
    assert [source for source in "abr" if told(sent, source, "y")] == ["r"]
    unite(world, "ab", "y")
    assert unreachable(world, "s")[-1] == ()
    publish_some(world, 3)
    assert_promises(world)
    assert delivered(world, "s") == [1, 2, 3]


def test_p0_83_r_confirms_to_b() -> None:
    """Step (iv)(b): R confirms to B, from whom it has the subscription, although B's session to R is active
    for B only. So the subscription becomes live while Y is bypassed.

    Reference: 000, section VII-A (P0-83)
    """
    world, sent = island()
    assert ("r", "b") in [(source, target) for source, target, _ in confirmations(sent, "s:1:1")]
    assert lives(world, "s")


def test_p0_83_one_cut_link_does_not_keep_a_subscription_from_becoming_live() -> None:
    """A single link, b-y of a-b-y-r, is cut: within δ = 1. A new subscription becomes live all the same.

    Reference: 000, sections IV and VII-A (P0-83)
    """
    world = start_network(chain("a", "b", "y", "r"), {"s": "a"})
    world.cut("b", "y")
    world.run_for(BYPASSED)
    world.subscribe("s", "s", TOPIC, "")
    world.run_for(30 * SECOND)
    assert lives(world, "s")


@pytest.mark.parametrize("fault", ["session", "crash"])
def test_p0_92_recovery_ends_next_to_a_cut_link(fault: str) -> None:
    """A link, b-y of a-b-y-r, is cut. The client of b loses its session for a moment, or b restarts: b is
    synchronised by a and r, which it can reach, and takes its client's events again.

    Reference: 000, section VII (P0-92)
    """
    world = start_network(chain("a", "b", "y", "r"), {"s": "a", "p": "b"})
    subscribe_all(world, {"s": ""})
    world.cut("b", "y")
    world.run_for(BYPASSED)
    publish_some(world)
    if fault == "session":
        world.hosts["p"].receive(SuspectRequested("b"))
    else:
        world.crash("b")
        world.run_for(BYPASSED)
        world.restart("b")
    world.run_for(RECOVERED)
    publish_some(world)
    world.run_for(30 * SECOND)
    assert world.broker("b").overlay.state is NodeState.OPERATIONAL
    assert delivered(world, "s") == [1, 2]


def test_p0_84_y_passes_it_on_to_its_branches() -> None:
    """Y treats what it gets from R as a recovery with R as synch point: its side branches get it as well.

    Reference: 000, section VII-A (P0-84)
    """
    links = [*chain("a", "b", "y", "r"), *chain("y", "x", "w")]
    world = start_network(links, {"s": "a", "p": "w"})
    divide(world, "ab", "yxw")
    divide(world, "r", "xw")
    sent = Messages(world)
    world.subscribe("s", "s", TOPIC, "")
    world.run_for(SECOND)
    assert [known_at(world, name) for name in "yxw"] == [["s:1:1"]] * 3
    assert [source for source in "abryw" if told(sent, source, "x")] == ["y"]
    unite(world, "ab", "yxw")
    unite(world, "r", "xw")
    assert unreachable(world, "s")[-1] == ()
    publish_some(world, 3)
    assert_promises(world)
    assert delivered(world, "s") == [1, 2, 3]


def test_p0_85_the_detector_replaces_the_tag() -> None:
    """B's answer for the subscription had the partition that R was on; after the recovery it has what R
    confirmed: nothing, or the barrier that is new.

    Reference: 000, section VII-A (P0-85)
    """
    for scenario, after in (
        (subscribed_while_divided, []),
        (healed_into_a_new_barrier, [("d",), ("d", "e")]),
    ):
        world, sent = scenario()
        if not after:
            unite(world, "ab", "cde")
        answers = [
            each for source, target, each in confirmations(sent, "s:1:1") if (source, target) == ("b", "a")
        ]
        assert [each.nodes for each in answers[0].pending] == [("c",), ("c", "d")]
        assert [each.nodes for each in answers[-1].pending] == after
        own = world.broker("b").overlay.partitions.own
        assert own == {}


def test_p0_86_all_sources_of_tagged_subscriptions_are_notified_once() -> None:
    """When the partition recovers, every client whose subscription was tagged hears of it exactly once, also
    the one whose way to the detector has a failed broker.

    Our implementation has no notifier of its own: the confirmation is sent again.

    Reference: 000, section VII-A (P0-86)
    """
    links = [*chain("b", "c", "d"), *chain("u", "v", "b"), *chain("w", "b")]
    world = start_network(links, {"s1": "u", "s2": "w", "s3": "b", "p": "d"})
    divide(world, "uvwb", "cd")
    subscribe_all(world, {"s1": "", "s2": "", "s3": ""})
    assert all(unreachable(world, each) == [("c", "d")] for each in ("s1", "s2", "s3"))
    world.crash("v")
    world.run_for(BYPASSED)
    unite(world, "uwb", "cd")
    assert all(unreachable(world, each).count(()) == 1 for each in ("s2", "s3"))
    assert unreachable(world, "s1").count(()) == 1
    world.restart("v")
    world.run_for(RECOVERED)
    assert all(unreachable(world, each).count(()) == 1 for each in ("s1", "s2", "s3"))
    publish_some(world, 2)
    assert_promises(world)
    assert all(delivered(world, each) == [1, 2] for each in ("s1", "s2", "s3"))


def test_p0_87_the_tag_is_removed() -> None:
    """After a full heal nothing is excepted at the source, although T' is empty (X-P0-07), and publications
    from beyond flow.

    Reference: 000, section VII-A and lemma 1 (P0-87)
    """
    world, _ = subscribed_while_divided()
    publish_some(world, 2)
    assert unreachable(world, "s") == [("c", "d", "e")]
    assert delivered(world, "s") == []
    unite(world, "ab", "cde")
    assert unreachable(world, "s")[-1] == ()
    publish_some(world, 3)
    assert delivered(world, "s")[-3:] == [3, 4, 5]
    assert_promises(world)


def test_p0_87_the_tag_is_replaced() -> None:
    """After a heal into a new barrier the source has that instead: c's publications flow, those from beyond
    d and e are withheld until these are back.

    Reference: 000, section VII-A and lemma 1 (P0-87)
    """
    world, _ = healed_into_a_new_barrier()
    assert unreachable(world, "s") == [("c", "d", "e", "f"), ("d", "e", "f")]
    publish_some(world, 2)
    publish_some(world, 2, "q")
    assert delivered(world, "s", "q") == [1, 2]
    assert delivered(world, "s", "p") == []
    world.restart("d")
    world.restart("e")
    world.run_for(RECOVERED)
    assert unreachable(world, "s")[-1] == ()
    publish_some(world, 2)
    assert delivered(world, "s", "p")[-2:] == [3, 4]
    assert_promises(world)


def test_p0_87_what_comes_out_of_a_tagged_partition_is_withheld() -> None:
    """b cannot reach y, so s is confirmed without y, but y can go round b to a. What is published at y comes
    through and is not delivered, because s has the tag; when the partition has recovered, events flow.

    Reference: 000, section VII-A and lemma 1; section V, Fig. 4, lines 34-36 (P0-87)
    """
    world = start_network(chain("a", "b", "y"), {"s": "a", "p": "y"})
    world.cut("b", "y")
    world.run_for(BYPASSED)
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    assert unreachable(world, "s") == [("y",)]
    publish_some(world, 2)
    assert [target for source, target, _ in copies(sent) if source == "a"] == ["s", "s"]
    assert delivered(world, "s") == []
    world.heal("b", "y")
    world.run_for(RECOVERED)
    assert unreachable(world, "s") == [("y",), ()]
    publish_some(world, 2)
    assert delivered(world, "s") == [3, 4]
    assert_promises(world)


def test_x_p0_08_what_was_taken_unaware_stays_out() -> None:
    """Events that the cut-off broker took before it knew the subscription are not delivered, whatever slow
    session brings them later; the confirmation names the last of them, and the promise starts behind it.

    Reference: 000, section VII-A and lemma 1
    """
    world = start_network(chain("a", "b", "c", "d"), {"s": "a", "old": "a", "p": "d"})
    subscribe_all(world, {"old": ""})
    divide(world, "ab", "cd")
    subscribe_all(world, {"s": ""})
    publish_some(world, 4)
    world.network.slowness["c", "b"] = world.network.slowness["d", "c"] = 20
    publish_all(world, "p", 60, every=50 * MILLISECOND)
    unite(world, "ab", "cd")
    assert_promises(world)
    start = lives(world, "s")[-1].start["p"]
    assert start > 4
    assert delivered(world, "old") == list(range(1, 65))
    assert delivered(world, "s") == list(range(delivered(world, "s")[0], 65))
    assert start <= delivered(world, "s")[0] < 60


def test_p0_88_partition_tables_are_emptied() -> None:
    """Step (v): the detector removes the recovered partitions and tells its peers; within bounded time after
    the heal nobody knows of any.

    Reference: 000, section VII-A (P0-88)
    """
    world = start_network(chain("a", "b", "c", "d", "e"), {})
    tables = {name: world.broker(name).overlay.partitions for name in "abcde"}
    divide(world, "ab", "cde")
    assert all(tables[name].table() for name in "abcde")
    unite(world, "ab", "cde")
    assert all(tables[name].table() == [] for name in "abcde")
    world.crash("c")
    world.run_for(BYPASSED)
    assert [name for name in "abde" if tables[name].own] == ["b", "d"]
    world.restart("c")
    world.run_for(RECOVERED)
    assert all(tables[name].table() == [] for name in "abde")


@pytest.mark.parametrize("crash", [False, True])
def test_p0_89_subscriptions_come_before_publications(crash: bool) -> None:
    """On an activated session all that was missed precedes any publication, however fast events come.

    Reference: 000, section VII, lemma 2 (ii) (P0-89)
    """
    world = start_network(chain("a", "b", "c", "d"), {"p": "a", "new": "a", "s": "d"})
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 2000, every=10 * MILLISECOND)
    if crash:
        world.crash("c")
        world.run_for(BYPASSED)
    else:
        divide(world, "ab", "cd")
    subscribe_all(world, {"new": ""})
    sent = Messages(world)
    if crash:
        world.restart("c")
        world.run_for(RECOVERED)
    else:
        unite(world, "ab", "cd")
    kinds = [
        type(each)
        for each in sessions_sent(sent, "b", "c")
        if isinstance(each, Publications)
        or (isinstance(each, Log) and any(line.subscription == "new:1:1" for line in each.entries))
    ]
    assert kinds[0] is Log
    assert kinds.count(Publications) > 100
    world.run_for(20 * SECOND)
    assert_promises(world)
    assert delivered(world, "s") == list(range(1, 2001))


def test_p0_90_two_synch_points_at_once() -> None:
    """Two neighbours recover R at the same time and tell it the same subscriptions: each is accepted once,
    and both hear that R has it.

    Reference: 000, section VII-A (iv) (P0-90)
    """
    clients = {f"at {name}": name for name in "abcd"}
    world = start_network([*chain("a", "b", "r"), *chain("r", "c", "d")], clients)
    subscribe_all(world, dict.fromkeys(clients, ""))
    world.crash("r")
    world.run_for(BYPASSED)
    sent = Messages(world)
    world.restart("r")
    world.run_for(RECOVERED)
    everything = {f"{client}:1:1" for client in clients}
    assert set(told(sent, "b", "r")) == set(told(sent, "c", "r")) == everything
    order = publisher_order(world, "r")
    assert sorted(known_at(world, "r")) == sorted(everything)
    assert order.log.length == 4
    for peer in "bc":
        assert set(publisher_order(world, peer).peers["r"].index_of) == everything
        others = {f"at {name}:1:1" for name in ("cd" if peer == "b" else "ab")}
        assert set(order.peers[peer].confirmed_to) == everything - others


def test_x_p0_13_a_subscription_in_progress_is_not_missed() -> None:
    """s1 is still waiting for the slow branch d when r becomes reachable, and s2 follows: r gets both. A
    summary by the highest number would say after s2 that s1 is there too.

    Reference: 000, section VII-A
    """
    links = [*chain("a", "c", "r"), *chain("c", "d")]
    world = start_network(links, {"s1": "a", "s2": "a", "p": "r"})
    divide(world, "ac", "r")
    world.cut("d", "r")
    world.run_for(BYPASSED)
    world.network.slowness["d", "c"] = 100
    world.subscribe("s1", "s1", TOPIC, "")
    world.run_for(100 * MILLISECOND)
    assert lives(world, "s1") == []
    for name in "acd":
        world.heal(name, "r")
    world.run_until(lambda: "r" in active(world, "c"))
    world.subscribe("s2", "s2", TOPIC, "")
    world.run_for(RECOVERED)
    assert sorted(known_at(world, "r")) == ["s1:1:1", "s2:1:1"]
    publish_some(world, 3)
    assert_promises(world)
    assert delivered(world, "s1") == delivered(world, "s2") == [1, 2, 3]


def test_x_p0_17_a_live_edge_that_cannot_be_reached_loses_nothing() -> None:
    """The destination is alive and cut off: what it should have stays in custody, and comes when it is back.

    Reference: 000, section V; 003, algorithm 3
    """
    world = chain_with_p_and_s("a", "b", "c")
    divide(world, "ab", "c")
    publish_some(world, 20)
    assert publisher_order(world, "b").forwarding.custody.unreachable() == {"s": 20}
    unite(world, "ab", "c")
    assert delivered(world, "s") == list(range(1, 21))
    assert_promises(world)


def test_x_p0_17_beyond_the_bound_the_gap_is_not_silent() -> None:
    """More waits for it than a broker bears: it is given up, the publisher gets its receipts, and when the
    client returns its application gets a reset.

    Reference: 000, section V
    """
    world = chain_with_p_and_s("a", "b", "c")
    for name in "ab":
        publisher_order(world, name)._limits = Limits(custody=10)
    divide(world, "ab", "c")
    publish_some(world, 20)
    world.run_for(5 * SECOND)
    assert in_custody(world) == {}
    unite(world, "ab", "c")
    assert [each for each in world.trace if isinstance(each, trace.Reset)]
    publish_some(world, 3)
    assert delivered(world, "s") == [21, 22, 23]
    assert_promises(world)


@pytest.mark.parametrize("brokers", ["ab", "abc"])
def test_x_p0_17_who_returns_after_its_lease_is_told_so(brokers: str) -> None:
    """The network has given the client up, and has long forgotten that it did: it subscribes anew, and its
    application gets a reset.

    Reference: 000, section V
    """
    world = start_network(chain(*brokers), {"p": brokers[0], "s": brokers[-1]})
    subscribe_all(world, {"s": ""})
    publish_some(world, 3)
    for broker in brokers:
        world.cut("s", broker)
    publish_some(world, 2)
    world.run_for(Limits().lease + 5 * SECOND)
    assert [known_at(world, name) for name in brokers] == [[]] * len(brokers)
    for broker in brokers:
        world.heal("s", broker)
    world.run_for(RECOVERED)
    publish_some(world, 2)
    assert len([each for each in world.trace if isinstance(each, trace.Reset)]) == 1
    assert delivered(world, "s") == [1, 2, 3, 6, 7]
    assert_promises(world)


def test_x_p0_19_what_has_ended_is_not_resurrected() -> None:
    """A subscription ends while a part of the network cannot be reached: the recovery tells that part of the
    end, not the others of the subscription; then all forget it.

    Reference: 000, section VII-A
    """
    world = start_network(chain("a", "b", "c", "d"), {"s": "a", "p": "d"})
    subscribe_all(world, {"s": ""})
    divide(world, "ab", "cd")
    world.unsubscribe("s", "s")
    world.run_for(SECOND)
    assert publisher_order(world, "b").log["s:1:1"].ended
    assert not publisher_order(world, "c").log["s:1:1"].ended
    unite(world, "ab", "cd")
    publish_some(world, 2)
    assert [known_at(world, name) for name in "abcd"] == [[]] * 4
    assert delivered(world, "s") == []
    assert_promises(world)


# -- full recovery -----------------------------------------------------------------------------------------


def test_p0_91_the_neighbourhood_is_restored_from_the_store() -> None:
    """A restarted broker knows its neighbourhood from stable storage before it has heard from anybody.

    Reference: 000, section VII-B (P0-91)
    """
    world = chain_with_p_and_s("a", "b", "c", "d")
    before = world.broker("b").overlay.topology.links()
    world.crash("b")
    world.run_for(BYPASSED)
    world.restart("b")
    overlay = world.broker("b").overlay
    assert overlay.topology.links() == before == [("a", "b"), ("b", "c"), ("c", "d")]
    assert overlay.sessions.up == {}


def test_p0_91_without_a_store_the_neighbourhood_is_asked_for() -> None:
    """A broker whose store is gone gets its neighbourhood from others, and nothing is lost.

    Our implementation has no registry; it joins again, in its old place, and begins its incarnations where no
    earlier one was.

    Reference: 000, section VII-B (P0-91)
    """
    world = chain_with_p_and_s("a", "b", "c")
    before = world.broker("b").overlay.topology.links()
    publish_some(world, 3)
    world.crash("b")
    world.run_for(BYPASSED)
    world.replace("b", join=("a",))
    assert world.broker("b").overlay.topology.links() == []
    world.run_for(RECOVERED)
    assert world.broker("b").overlay.topology.links() == before
    assert active(world, "a") == ["b"]
    publish_some(world, 3)
    assert delivered(world, "s") == [1, 2, 3, 4, 5, 6]
    assert_promises(world)


def test_p0_91_without_store_and_registry_it_is_no_member() -> None:
    """A broker that has neither a store nor somebody to ask is no member: as long as nobody has told it
    where it belongs, it does not confirm what its client publishes.

    Reference: 000, section VII-B (P0-91)
    """
    world = start_network(chain("a", "b", "c"), {"p": "b", "s": "c"})
    subscribe_all(world, {"s": ""})
    world.crash("b")
    divide(world, "ac", "b")
    world.replace("b", join=())
    assert world.broker("b").overlay.joining.state is not JoinState.VALID_JOINED
    publish_some(world, 3)
    unite(world, "ac", "b")
    assert_promises(world)


@pytest.mark.parametrize("delta", [1, 2])
def test_p0_92_a_recovered_broker_knows_what_a_twin_knows(delta: int) -> None:
    """After a crash and a restart the broker knows the same subscriptions, and the same ways to them, as in a
    run in which it did not crash.

    Reference: 000, section VII-B (P0-92)
    """
    tables: list[dict[SubscriptionId, Body]] = []
    for crash in (False, True):
        clients = {f"at {name}": name for name in "abrcdx"}
        links = [*chain("a", "b", "r", "c", "d"), *chain("r", "x")]
        world = start_network(links, clients, delta=delta)
        subscribe_all(world, dict.fromkeys(list(clients)[:4], "price > 1"))
        if crash:
            world.crash("r")
        world.run_for(BYPASSED)
        subscribe_all(world, dict.fromkeys(list(clients)[4:], "price > 2"))
        if crash:
            world.restart("r")
        world.run_for(RECOVERED)
        log = publisher_order(world, "r").log
        tables.append({each: log[each].body for each in log.subscriptions()})
        assert world.broker("r").overlay.state is NodeState.OPERATIONAL
    assert len(tables[0]) == 6
    assert tables[0] == tables[1]


@pytest.mark.parametrize(("delta", "length"), [(0, 4), (1, 8)])
def test_p0_92_many_neighbours_recover_at_once(delta: int, length: int) -> None:
    """All brokers between p and s restart at once, and hear from p's side first: when all is repaired every
    event arrives.

    Reference: 000, section VII-B (P0-92)
    """
    names = [f"b{k}" for k in range(length)]
    world = chain_with_p_and_s(*names, delta=delta)
    for name in names[1:-1]:
        world.crash(name)
    world.run_for(BYPASSED)
    world.network.slowness[names[-1], names[-2]] = 50
    for name in names[1:-1]:
        world.restart(name)
    world.run_for(RECOVERED)
    world.network.slowness.clear()
    publish_some(world, 3)
    assert delivered(world, "s") == [1, 2, 3]
    assert_promises(world)


# -- the proofs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("delta", "seed"), [(1, 1), (1, 2), (1, 3), (2, 4)])
def test_p0_93_the_source_broker_was_aware(delta: int, seed: int) -> None:
    """Lemma 1: the broker that took a delivered event from its publisher knew the subscription before.

    Reference: 000, section VII, lemma 1 (P0-93)
    """
    world = build(Options(brokers=10, fanout=2, delta=delta), seed)
    closes = WARM_UP + 12 * SECOND
    Workload(world, Plan(publishers=3, subscribers=4, events=150, opens=WARM_UP, closes=closes))
    handlings = Handlings(world)
    faults = Faults(world, crashes=5, cuts=8, max_down=delta, window=Window(WARM_UP, closes))
    world.run(until=closes)
    faults.heal_all()
    assert_promises(world)
    homes = world.homes
    known: dict[object, frozenset[SubscriptionId]] = {}
    for each in handlings.all:
        if each.node not in homes and each.peer in homes:
            known.setdefault((each.event, each.node), each.known)
    delivered_ones = [(each, name) for each in handlings.all if each.node in homes for name in each.known]
    for each, subscription in delivered_ones:
        assert subscription in known[each.event, each.publication.entry]
    assert len(delivered_ones) > 100


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("delta", [1, 2])
def test_p0_94_no_gap_and_in_order(delta: int, seed: int) -> None:
    """Lemma 2 and theorem 1: with up to δ crashes, cuts and false suspicions at a time, what is delivered of
    a publisher is without a gap and in its order, and when all is healed nothing is missing.

    Reference: 000, section VII, lemma 2 and theorem 1 (P0-94)
    """
    options = Options(brokers=10, fanout=2, delta=delta, events=80, crashes=5, cuts=6)
    outcome, _ = simulate(options, 9000 + seed)
    assert outcome.violations == []
    assert outcome.faults >= 8
    assert outcome.delivered > 100


def test_p0_94_a_flapping_session_loses_nothing() -> None:
    """Sessions that break and return all the time, while events flow, cost nothing but time.

    Reference: 000, section VII, theorem 1 (P0-94)
    """
    world = chain_with_p_and_s("a", "b", "c", "d")
    publish_all(world, "p", 400, every=10 * MILLISECOND)
    for k in range(12):
        world.run_for(300 * MILLISECOND)
        one, other = [("a", "b"), ("c", "b"), ("c", "d")][k % 3]
        world.hosts[one].receive(SuspectRequested(other))
    world.run_for(RECOVERED)
    assert delivered(world, "s") == list(range(1, 401))
    assert_promises(world)


@pytest.mark.parametrize("join_point", ["b", "d"])
def test_p0_97_a_dead_broker_is_replaced(join_point: NodeId) -> None:
    """A broker that has left for good is replaced by a new one at the same position, under its name.

    Reference: 000, section VIII (future work there) (P0-97)
    """
    world = chain_with_p_and_s("a", "b", "c", "d", "e")
    publish_all(world, "p", 1000, every=10 * MILLISECOND)
    world.run_for(SECOND)
    world.crash("c")
    world.run_for(BYPASSED)
    assert active(world, "b") == ["a", "d"]
    world.replace("c", join=(join_point,))
    world.run_for(RECOVERED)
    assert (active(world, "b"), active(world, "d")) == (["a", "c"], ["c", "e"])
    assert_promises(world)
    assert delivered(world, "s") == list(range(1, 1001))
