"""Paper 003, sections 3 and 4: why confirmations, how subscriptions and publications are forwarded."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import msgspec
import pytest

from gapless.core.broker import Broker
from gapless.core.events import MessageReceived, SuspectRequested
from gapless.core.leaf import Leaf
from gapless.core.limits import Limits
from gapless.core.messages import (
    Acknowledged,
    BestEffortEvents,
    Confirmed,
    Joined,
    JoinedConfirmed,
    JoinRequest,
    Log,
    Message,
    Neighbourhood,
    PartialTopology,
    Publications,
    Status,
    Synced,
)
from gapless.core.model import MILLISECOND, SECOND, Link, NodeId, link
from gapless.core.orders.publisher.log import Entry
from gapless.core.orders.publisher.vectors import vector_of
from gapless.simulation import trace
from gapless.simulation.network import Latency
from gapless.simulation.trees import random_tree
from gapless.simulation.world import World
from support import (
    LOOSE,
    RECOVERED,
    TOPIC,
    Messages,
    active,
    all_joined,
    assert_promises,
    chain,
    confirmed,
    copies,
    delivered,
    in_custody,
    level_2,
    lives,
    paths_from,
    publish_all,
    publisher_order,
    runs_sent,
    start_network,
    subscribe_all,
    tree_of,
)

FIGURE_5 = [link("n1", "n2"), link("n1", "n3")]
FIGURE_5_CLIENTS = {"p1": "n1", "s1": "n2", "s2": "n2", "s3": "n3", "s4": "n3"}
TABLE_1: dict[NodeId, tuple[str, str, str, str]] = {
    "p1": ("n1", "n2 n3", "s1 s4", "s1 s4"),
    "n1": ("n2 n3", "s1 s4", "s1 s4", "s1 s4"),
    "n2": ("s1 n1", "s1 n3", "s1 s4", "s1 s4"),
    "n3": ("s4 n1", "s4 n2", "s1 s4", "s1 s4"),  # at δ=1 printed as S4, N1
    "s1": ("s1 n2", "s1 n1", "s1 n3", "s1 s4"),
    "s2": ("n2", "s1 n1", "s1 n3", "s1 s4"),  # at δ=0 printed as N1
    "s3": ("n3", "s4 n1", "s4 n2", "s1 s4"),
    "s4": ("s4 n3", "s4 n1", "s4 n2", "s1 s4"),
}
"""Table 1 of 003, corrected as X-D3-01 says; a column for each δ from 0 to 3."""

SLOW = 60
"""A link that takes 300 ms: slow, and far from being suspected."""


def entries(world: World, broker: NodeId) -> dict[NodeId, Entry]:
    """The log of a broker, by the client of each subscription."""
    return {each.subscription.split(":")[0]: each for each in publisher_order(world, broker).log.after(0)}


def random_network(seed: int, delta: int, brokers: int = 10) -> tuple[list[Link], World, dict[str, str]]:
    """A tree with a publisher and four subscribers somewhere, who see parts of what is published."""
    rng = Random(seed)
    links = random_tree(brokers, 3, rng)
    names = [f"b{k}" for k in range(brokers)]
    homes = {name: rng.choice(names) for name in ("p", "q", "s0", "s1", "s2", "s3")}
    world = start_network(links, homes, delta=delta, seed=seed)
    return links, world, homes


SELECTORS = {"s0": "", "s1": "n < 5", "s2": "n >= 5", "s3": "n IN (1, 3, 8)"}
MATCHING = {"s0": range(10), "s1": range(5), "s2": range(5, 10), "s3": (1, 3, 8)}
"""Whose subscription wants which of ten events, by the meaning of the selectors."""


# -- section 3: what goes wrong without confirmations ------------------------------------------------------


def unaware_broker(topic: str, *, unsubscribe: bool = False) -> tuple[World, Messages]:
    """Figure 1: s1 is under way from b1 to b2 while p1, p2 and p3 are published at b2."""
    clients = {"p": "b2", "c1": "b1", "c2": "b1"}
    world = start_network(chain("b1", "b2"), clients, latency=Latency(tail_chance=0))
    subscribe_all(world, {"c2": "" if unsubscribe else "n IN (1, 3)"}, topic)
    world.network.slowness["b1", "b2"] = 20
    sent = Messages(world)
    world.subscribe("c1", "c1", topic, "")
    world.run_for(20 * MILLISECOND)
    for n in (1, 2, 3):
        if n == 2 and unsubscribe:
            world.network.slowness.clear()
            world.unsubscribe("c2", "c2")
        if n == 3:
            world.network.slowness.clear()
            world.run_for(500 * MILLISECOND)
        world.publish("p", "p", topic, {"n": n})
        world.run_for(20 * MILLISECOND)
    publish_all(world, "p", 3, every=MILLISECOND, topic=topic)
    world.run_for(SECOND)
    return world, sent


def test_d3_01_without_evidence_a_publication_is_missing_without_any_failure() -> None:
    """Content-based routing loses p2: b2 forwards p1 for the sake of another subscription, then drops p2
    because it does not know s1 yet, then forwards p3. With the order that promises nothing this is what
    arrives at the client of s1.

    Reference: 003, section 3.1 and figure 1b; X-D3-21 (D3-01)
    """
    _, sent = unaware_broker(LOOSE)
    arrived = [
        event.sequence
        for _, target, message in sent.of(BestEffortEvents)
        if target == "c1"
        for event in message.events
    ]
    assert arrived[:2] == [1, 3]


def test_d3_01_the_promise_has_no_gap() -> None:
    """With confirmations the subscriber is served from a point on, and misses nothing after it.

    Reference: 003, section 3.1 and figure 1b (D3-01)
    """
    world, _ = unaware_broker(TOPIC)
    got = delivered(world, "c1")
    assert got == list(range(got[0], 7)), "no hole"
    assert 1 not in got, "it was forwarded by a broker that did not know s1"
    first = next(each for each in world.trace if isinstance(each, trace.Deliver) and each.client == "c1")
    assert lives(world, "c1")[0].t <= first.t
    assert delivered(world, "c2") == [1, 3, 5], "n=1, n=3, and n=1 of those after them"
    assert_promises(world)


def test_d3_02_an_unsubscription_under_way_leaves_no_gap() -> None:
    """The variant with topics: the end of another subscription makes b2 drop p2 while s1 is still under way.

    Reference: 003, section 3.2 and figure 1c (D3-02)
    """
    world, _ = unaware_broker(TOPIC, unsubscribe=True)
    got = delivered(world, "c1")
    assert got == list(range(got[0], 7))
    assert got[0] in (2, 3), "its flow starts after its confirmation"
    first = next(each for each in world.trace if isinstance(each, trace.Deliver) and each.client == "c1")
    assert lives(world, "c1")[0].t <= first.t
    assert_promises(world)


def test_d3_03_service_starts_with_the_confirmation_not_with_the_first_arrival() -> None:
    """Arrival of publications does not mean that service has started; only a confirmation does. Our
    implementation withholds what arrives before it.

    Reference: 003, section 3.2 (D3-03)
    """
    world = start_network(chain("b1", "b2", "b3"), {"p": "b1", "c": "b1"})
    world.network.slowness["b3", "b2"] = SLOW  # the confirmation of the far end takes a while
    sent = Messages(world)
    world.subscribe("c", "c", TOPIC, "")
    world.run_for(50 * MILLISECOND)
    publish_all(world, "p", 5, every=MILLISECOND)
    world.run_for(100 * MILLISECOND)
    arrived = [each.event.sequence for _, target, each in copies(sent) if target == "c"]
    assert arrived == [1, 2, 3, 4, 5]
    assert lives(world, "c") == []
    assert delivered(world, "c") == [], "they arrived and are not delivered"
    world.run_until(lambda: bool(lives(world, "c")))
    publish_all(world, "p", 5, every=MILLISECOND)
    world.run_for(SECOND)
    assert delivered(world, "c") == [6, 7, 8, 9, 10]
    assert_promises(world)


# -- sections 4.1 to 4.3: words and specification ----------------------------------------------------------


def test_d3_15_a_source_numbers_its_messages() -> None:
    """A message is known by its source and the source's number, which is totally ordered a source: on
    every link the numbers of a source ascend, and they have no hole where they enter.

    Reference: 003, section 4.1 (D3-15)
    """
    _, world, _ = random_network(seed=15, delta=1)
    subscribe_all(world, SELECTORS)
    sent = Messages(world)
    for publisher in ("p", "q"):
        publish_all(world, publisher, 10, every=3 * MILLISECOND)
    world.run_for(SECOND)
    streams: dict[tuple[str, str, str], list[int]] = {}
    for source, target, each in copies(sent):
        streams.setdefault((source, target, each.event.publisher), []).append(each.event.sequence)
    for (source, _, publisher), sequences in streams.items():
        assert all(a < b for a, b in pairwise(sequences))
        if source == publisher:
            assert sequences == list(range(1, 11))
    assert {publisher for _, _, publisher in streams} == {"p", "q"}


def test_d3_16_every_type_of_message_has_its_place() -> None:
    """J, SUB and PUB are multicast; requests, confirmations and the state are unicast.

    Our implementation sets up and closes sessions in the driver (ConnectionRequest, CloseConnection), begins
    every session with what SynRequest asks for, and needs neither Guided nor REJOIN. Whatever was sent can be
    written and read again.

    Reference: 003, section 4.1 (D3-16)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"})
    sent = Messages(world)
    world.add_broker("d", join=("c",))
    world.run_until(lambda: all_joined(world))
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    world.crash("b")
    world.restart("b")
    world.run_for(RECOVERED)
    ours: dict[str, tuple[type, ...]] = {
        "J": (Joined,),
        "SUB": (Log,),
        "PUB": (Publications,),
        "JoinRequest": (JoinRequest, PartialTopology),
        "SynRequest": (Neighbourhood, Log, Synced),
        "Confirmation": (JoinedConfirmed, Confirmed, Acknowledged),
        "Status": (Status,),
    }
    for name, kinds in ours.items():
        for kind in kinds:
            assert sent.of(kind), f"{kind.__name__} for {name}"
    for _, _, _, message in sent.sent:
        encoded = msgspec.msgpack.encode(message)
        assert msgspec.msgpack.decode(encoded, type=Message) == message


def test_d3_17_recipients_and_final_destinations() -> None:
    """Γ has whom a node must see served; a node is a final destination if it is among its own recipients.

    Our implementation has clients as recipients: a broker between them is never one.

    Reference: 003, section 4.1 (D3-17)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s1": "a", "s2": "b", "s3": "c"})
    subscribe_all(world, {"s1": "n = 0", "s2": "n = 1", "s3": ""})
    world.network.cut_link("c", "s3")  # so that the publications stay in custody
    publish_all(world, "p", 2, every=MILLISECOND)
    world.run_for(200 * MILLISECOND)
    recipients = {
        name: [
            {target: hop for hop, targets in held.waiting.items() for target, *_ in targets}
            for held in publisher_order(world, name).forwarding.custody.in_order()
        ]
        for name in ("a", "b", "c")
    }
    assert recipients == {
        "a": [{"s3": "b"}, {"s2": "b", "s3": "b"}],  # b answers for both together
        "b": [{"s3": "c"}, {"s3": "c"}],
        "c": [{"s3": "s3"}, {"s3": "s3"}],
    }
    assert (delivered(world, "s1"), delivered(world, "s2"), delivered(world, "s3")) == ([1], [2], [])
    world.network.heal_link("c", "s3")
    assert_promises(world)


@pytest.mark.parametrize("seed", range(6))
def test_d3_18_a_confirmation_comes_after_every_delivery(seed: int) -> None:
    """The confirmation of a message at a node means that all non-faulty recipients of it have it: the
    publisher's never precedes a delivery.

    Reference: 003, section 4.1 and theorem 1 (D3-18)
    """
    links, world, homes = random_network(seed, delta=1)
    subscribe_all(world, SELECTORS)
    rng = Random(seed)
    for a, b in [*rng.sample(links, 4), *homes.items()]:
        world.network.slowness[a, b] = rng.choice((1, 20, SLOW))
        world.network.slowness[b, a] = rng.choice((1, 20, SLOW))
    publish_all(world, "p", 10, every=5 * MILLISECOND)
    world.run_for(12 * SECOND)
    assert confirmed(world, "p") == list(range(1, 11))
    told = {each.sequence: k for k, each in enumerate(world.trace) if isinstance(each, trace.Confirm)}
    got = [(each.sequence, k) for k, each in enumerate(world.trace) if isinstance(each, trace.Deliver)]
    assert len(got) == sum(map(len, MATCHING.values()))
    assert all(k < told[sequence] for sequence, k in got)


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("delta", [1, 2])
def test_d3_19_the_reliability_specification(seed: int, delta: int) -> None:
    """What is issued at t is delivered exactly once, in the order of its source, to all subscribers that
    were confirmed before t and that it matches.

    Reference: 003, section 4.2 (D3-19)
    """
    _, world, _ = random_network(seed, delta)
    publish_all(world, "p", 60, every=10 * MILLISECOND)  # before, while and after they subscribe
    for client, selector in SELECTORS.items():
        world.run_for(60 * MILLISECOND)
        world.subscribe(client, client, TOPIC, selector)
    world.run_for(SECOND)
    publish_all(world, "p", 10)
    assert_promises(world)
    for client in SELECTORS:
        since = lives(world, client)[0].t
        due = [
            each.sequence
            for each in world.trace
            if isinstance(each, trace.Publish) and each.t > since and each.attributes["n"] in MATCHING[client]
        ]
        assert len(due) >= len(MATCHING[client])
        assert delivered(world, client)[-len(due) :] == due


@pytest.mark.parametrize("delta", range(4))
def test_d3_22_level_2_consistency(delta: int) -> None:
    """Whoever is within δ+1 of a subscriber names it; whoever is farther names the node at δ+1 on the way.

    Our implementation remembers 3δ+1 nodes of the way (000, table I), so it names a farther one; that at δ+1
    is among them.

    Reference: 003, section 4.3 and figure 3 (D3-22)
    """
    links, world, homes = random_network(seed=22 + delta, delta=delta, brokers=14)
    tree = tree_of(links)
    for client in SELECTORS:
        subscribe_all(world, {client: ""})
        for broker in world.brokers():
            entry = entries(world, broker)[client]
            near = level_2(tree, broker, homes[client], client, delta + 1)
            assert entry.body.path[-(delta + 1) :][0] == near
            assert entry.target == level_2(tree, broker, homes[client], client, 3 * delta + 1)


# -- section 4.4: the forwarding algorithm -----------------------------------------------------------------


def test_d3_23_a_duplicate_of_what_is_in_progress_adds_its_sender() -> None:
    """A copy of a message that is still being processed is discarded and its sender remembered: all
    senders are told when the message is confirmed.

    Reference: 003, algorithm 1, lines 1 to 9 (D3-23)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"}, latency=Latency(tail_chance=0))
    subscribe_all(world, {"s": ""})
    world.network.slowness["s", "c"] = SLOW
    publish_all(world, "p", 1)
    world.run_for(60 * MILLISECOND)
    (held,) = publisher_order(world, "c").forwarding.custody.in_order()
    assert list(held.senders) == ["b"]
    sent = Messages(world)
    world.cut("a", "b")
    world.hosts["a"].receive(SuspectRequested("b"))  # b lives, and a goes round it
    world.run_until(lambda: list(held.senders) == ["b", "a"], within=SECOND)
    assert [(source, target) for source, target, _ in copies(sent) if target == "s"] == []
    world.run_for(SECOND)
    assert {target for source, target, _ in sent.of(Acknowledged) if source == "c"} == {"a", "b"}
    assert delivered(world, "s") == [1]
    world.heal("a", "b")
    assert_promises(world)


def test_d3_23_a_duplicate_of_what_is_confirmed_is_confirmed_at_once() -> None:
    """A copy of a message that is no longer being processed is discarded and confirmed to its sender.

    Reference: 003, algorithm 1, lines 1 to 9; X-P0-10 (D3-23)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"})
    subscribe_all(world, {"s": ""})
    sent = Messages(world)
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert confirmed(world, "p") == [1, 2, 3]
    again = runs_sent(sent, "c")
    sent.sent.clear()
    world.hosts["c"].receive(MessageReceived("b", Publications(again)))
    world.run_for(100 * MILLISECOND)
    assert copies(sent) == []
    ((source, target, answer),) = sent.of(Acknowledged)
    assert (source, target) == ("c", "b")
    assert [each.ranges for each in answer.acknowledgements] == [((1, 3),)]
    assert delivered(world, "s") == [1, 2, 3]


def test_d3_24_what_a_node_notes_of_a_message() -> None:
    """A node numbers a message, updates the timestamps, notes the sender and appends it to its list.

    Reference: 003, algorithm 1, lines 10 to 13 (D3-24)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "q": "c", "s": "b"})
    subscribe_all(world, {"s": ""})
    world.network.cut_link("b", "s")
    for _ in range(5):
        publish_all(world, "p", 1)
        world.run_for(40 * MILLISECOND)
        publish_all(world, "q", 1)
        world.run_for(40 * MILLISECOND)
    forwarding = publisher_order(world, "b").forwarding
    held = list(forwarding.custody.in_order())
    assert [each.number for each in held] == list(range(1, 11)), "in the order of arrival"
    assert [each.event.publisher for each in held] == ["p", "q"] * 5
    assert [list(each.senders) for each in held] == [["a"], ["c"]] * 5
    assert all(forwarding.vectors.is_duplicate(vector_of(each.header.path, each.numbers)) for each in held)
    world.network.heal_link("b", "s")
    assert_promises(world)


def test_d3_25_recipients_depend_on_the_type() -> None:
    """The recipients of a subscription are all who can be reached, those of a publication whoever it matches.

    Reference: 003, algorithm 1, line 14 (D3-25)
    """
    links, world, homes = random_network(seed=25, delta=1)
    sent = Messages(world)
    subscribe_all(world, {"s0": "n = 3"})
    told = {target for _, target, log in sent.of(Log) if target != "s0" for each in log.entries if each.body}
    assert told == set(world.brokers()), "SUB goes everywhere"
    sent.sent.clear()
    publish_all(world, "p", 5)
    world.run_for(SECOND)
    way = paths_from(tree_of(links), homes["p"], len(links))[homes["s0"]]
    hops = [(a, b) for a, b, each in copies(sent) if each.event.attributes["n"] == 3]
    assert hops == [("p", homes["p"]), *pairwise((*way, "s0"))], "PUB goes to whom it matches"
    others = {(a, b) for a, b, each in copies(sent) if each.event.attributes["n"] != 3}
    assert others == {("p", homes["p"])}


@pytest.mark.parametrize("delta", [1, 3])
def test_d3_26_without_failures_copies_go_to_neighbours_only(delta: int) -> None:
    """A message goes to the closest connected nodes on the paths to its recipients, one copy each: with no
    failure these are neighbours in the tree, however far the recipients.

    Reference: 003, algorithm 1, line 15 and section 4.4; X-D3-07 (D3-26)
    """
    links, world, homes = random_network(seed=26, delta=delta)
    subscribe_all(world, SELECTORS)
    sent = Messages(world)
    publish_all(world, "p", 10, every=MILLISECOND)
    world.run_for(SECOND)
    allowed = {(a, b) for pair in links for a, b in (pair, pair[::-1])}
    allowed |= {(home, client) for client, home in homes.items()} | {("p", homes["p"])}
    hops = [(source, target, each.event.sequence) for source, target, each in copies(sent)]
    assert {hop[:2] for hop in hops} <= allowed
    assert len(hops) == len(set(hops)), "one copy a hop"
    paths = paths_from(tree_of(links), homes["p"], len(links))
    for n in range(10):
        wanted = {("p", homes["p"])}
        for client in (client for client in MATCHING if n in MATCHING[client]):
            wanted |= set(pairwise((*paths[homes[client]], client)))
        assert {hop[:2] for hop in hops if hop[2] == n + 1} == wanted


def test_d3_27_how_a_copy_is_made_depends_on_the_type() -> None:
    """J goes on as it is; SUB gets a new way back; PUB, as every message, is extended by who sent it.

    Reference: 003, algorithm 1, lines 16 to 18 (D3-27)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"})
    sent = Messages(world)
    world.add_broker("d", join=("c",))
    world.run_until(lambda: all_joined(world))
    assert len({each for _, _, each in sent.of(Joined)}) == 1
    subscribe_all(world, {"s": ""})
    bodies = {
        target: each.body.path
        for _, target, log in sent.of(Log)
        for each in log.entries
        if each.body is not None and target != "s"
    }
    assert bodies == {"c": ("s",), "b": ("s", "c"), "a": ("s", "c", "b"), "d": ("s", "c")}
    publish_all(world, "p", 1)
    world.run_for(SECOND)
    assert [(target, [step[0] for step in each.vector]) for _, target, each in copies(sent)] == [
        ("a", []),
        ("b", ["a"]),
        ("c", ["a", "b"]),
        ("s", ["a", "b", "c"]),
    ]


def test_d3_28_waiting_for_a_confirmation_blocks_nothing_else() -> None:
    """A node waits for the confirmations of a message; other messages go on meanwhile. A thousand wait here
    at a time.

    Reference: 003, algorithm 1, lines 19 to 24; X-D3-17 (D3-28)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s1": "b", "s2": "c"})
    subscribe_all(world, {"s1": "", "s2": ""})
    world.cut("b", "c")  # shorter than the failure detector needs
    publish_all(world, "p", 1000, every=500)
    world.run_for(600 * MILLISECOND)
    assert delivered(world, "s1") == list(range(1, 1001)), "nobody waits for s2"
    assert delivered(world, "s2") == []
    assert in_custody(world) == {"a": 1000, "b": 1000}
    assert confirmed(world, "p") == []
    world.heal("b", "c")
    world.run_for(SECOND)
    assert active(world, "b") == ["a", "c"]
    assert delivered(world, "s2") == list(range(1, 1001))
    assert confirmed(world, "p") == list(range(1, 1001))
    assert_promises(world)


def test_d3_29_nothing_is_delivered_for_an_unconfirmed_subscription() -> None:
    """Routing information is updated only after the confirmations.

    Our implementation routes by a subscription as soon as it is heard of; but until the confirmation of the
    far end is there, nothing is delivered for it, and that is all that can be observed.

    Reference: 003, algorithm 1, lines 25 and 26 (D3-29)
    """
    world = start_network(chain("a", "b", "c"), {"p": "b", "s": "a"})
    world.cut("b", "c")  # holds the confirmation up
    world.subscribe("s", "s", TOPIC, "")
    world.run_for(100 * MILLISECOND)
    assert set(entries(world, "b")) == {"s"}
    publish_all(world, "p", 5)
    world.run_for(100 * MILLISECOND)
    assert delivered(world, "s") == []
    world.heal("b", "c")
    world.run_until(lambda: bool(lives(world, "s")), within=SECOND)
    publish_all(world, "p", 5)
    world.run_for(SECOND)
    assert delivered(world, "s") == [6, 7, 8, 9, 10], "nothing of before, all of after"
    assert_promises(world)


def test_d3_30_after_the_confirmation_nothing_is_left() -> None:
    """The senders get their confirmations, and all that was noted of a message is discarded: what a node
    has does not grow with the number of messages.

    Reference: 003, algorithm 1, lines 27 to 31 (D3-30)
    """
    _, world, _ = random_network(seed=30, delta=1)
    subscribe_all(world, SELECTORS)

    def sizes() -> list[tuple[int, ...]]:
        orders = [publisher_order(world, name) for name in world.brokers()]
        return [
            (len(each.forwarding.custody.streams), each.forwarding.vectors.size(), each.log.length)
            for each in orders
        ]

    found = []
    for _ in range(3):
        publish_all(world, "p", 200, every=MILLISECOND)
        world.run_for(2 * SECOND)
        assert in_custody(world) == {}
        found.append(sizes())
    assert found[0] == found[1] == found[2]
    assert confirmed(world, "p") == list(range(1, 601))
    world.run_for(Limits().lease + SECOND)
    publish_all(world, "q", 10)  # brokers forget when they work
    world.run_for(SECOND)
    orders = [publisher_order(world, name) for name in world.brokers()]
    sources = [source for order in orders for source in order.forwarding.custody.streams]
    assert sources.count((TOPIC, "p")) == 1, "only where the publisher is"


# -- sections 4.7 and 4.8: subscriptions and publications --------------------------------------------------


@pytest.mark.parametrize("delta", range(3))
def test_d3_39_a_subscription_reaches_all_nodes(delta: int) -> None:
    """The final destinations of a subscription are all joined nodes; before it is confirmed, all have it.

    Reference: 003, section 4.7 (D3-39)
    """
    _, world, _ = random_network(seed=39, delta=delta, brokers=15)
    world.subscribe("s0", "s0", TOPIC, "n = 1")
    moments: dict[NodeId, int] = {}

    def look(node: Broker | Leaf) -> None:
        if entries(world, node.overlay.me):
            moments.setdefault(node.overlay.me, world.now)

    for name in world.brokers():
        world.hosts[name].stepped = look
    world.run_until(lambda: bool(lives(world, "s0")))
    assert set(moments) == set(world.brokers())
    assert max(moments.values()) < lives(world, "s0")[0].t


def test_d3_40_a_subscription_moves_on_through_each_node_once() -> None:
    """The recipients of a subscription at a node are those that reach its subscriber through the node.

    Reference: 003, section 4.7; X-D3-04 (D3-40)
    """
    links, world, homes = random_network(seed=40, delta=2, brokers=15)
    tree = tree_of(links)
    sent = Messages(world)
    subscribe_all(world, {"s0": ""})
    bodies: dict[NodeId, list[NodeId]] = {name: [] for name in world.brokers()}
    for source, target, log in sent.of(Log):
        if source in bodies and any(each.body is not None for each in log.entries):
            bodies[source].append(target)
    back = {name: path[-2] for name, path in paths_from(tree, homes["s0"], 15).items() if len(path) > 1}
    for name in world.brokers():
        assert sorted(bodies[name]) == sorted(each for each in tree[name] if each != back.get(name))


@pytest.mark.parametrize("delta", range(4))
def test_d3_41_the_way_back_is_rewritten_at_each_hop(delta: int) -> None:
    """A node near the subscriber gets the subscriber's name; a farther one that of the node at δ+1 on the
    connecting path. The printed index is negative.

    Our implementation sends the last 3δ+1 nodes of the path, that one among them.

    Reference: 003, section 4.7; X-D3-02 (D3-41)
    """
    names = [f"b{k}" for k in range(12)]
    world = start_network(chain(*names), {"s": "b0"}, delta=delta)
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    told = {
        target: each.body.path
        for _, target, log in sent.of(Log)
        for each in log.entries
        if each.body is not None
    }
    for k, name in enumerate(names):
        whole = ("s", *names[:k])
        assert told[name] == whole[-(3 * delta + 1) :]
        distance = k + 1
        at = "s" if distance <= delta + 1 else names[k - delta - 1]
        assert told[name][-(delta + 1) :][0] == at


def test_d3_42_an_entry_is_a_predicate_and_a_way() -> None:
    """SUBS_SET has for each subscription its predicates and the node that it comes from.

    Reference: 003, section 4.7 (D3-42)
    """
    world = start_network(FIGURE_5, FIGURE_5_CLIENTS)
    subscribe_all(world, {"s1": "price > 3", "s4": "symbol = 'IBM'"})
    dump = {
        name: {client: (each.body.selector, each.body.path) for client, each in entries(world, name).items()}
        for name in world.brokers()
    }
    assert dump == {
        "n1": {"s1": ("price > 3", ("s1", "n2")), "s4": ("symbol = 'IBM'", ("s4", "n3"))},
        "n2": {"s1": ("price > 3", ("s1",)), "s4": ("symbol = 'IBM'", ("s4", "n3", "n1"))},
        "n3": {"s1": ("price > 3", ("s1", "n2", "n1")), "s4": ("symbol = 'IBM'", ("s4",))},
    }


def test_d3_43_recipients_of_a_publication_come_from_the_subscriptions() -> None:
    """X is a recipient of a publication iff some entry of X has predicates that match it.

    Reference: 003, section 4.8 (D3-43)
    """
    world = start_network(FIGURE_5, FIGURE_5_CLIENTS)
    subscribe_all(world, {"s1": "n < 2", "s2": "n = 1", "s3": "n = 2", "s4": "n <> 0"})
    world.cut("n1", "n2")
    world.cut("n1", "n3")
    publish_all(world, "p1", 3)
    world.run_for(100 * MILLISECOND)
    recipients = [
        sorted(target for targets in held.waiting.values() for target, *_ in targets)
        for held in publisher_order(world, "n1").forwarding.custody.in_order()
    ]
    assert recipients == [["s1"], ["s1", "s2", "s4"], ["s3", "s4"]]
    world.heal("n1", "n2")
    world.heal("n1", "n3")
    assert_promises(world)


def table_1_by_definition(delta: int) -> dict[NodeId, set[NodeId]]:
    """Level-2 consistency for subscriptions of S1 and S4, by a search of the tree of figure 5."""
    tree = tree_of([*FIGURE_5, *(link(client, home) for client, home in FIGURE_5_CLIENTS.items())])
    found = {}
    for node in tree:
        paths = paths_from(tree, node, len(tree))
        found[node] = {paths[each][min(delta + 1, len(paths[each]) - 1)] for each in ("s1", "s4")}
    return found


@pytest.mark.parametrize("delta", range(4))
def test_x_d3_01_table_1_corrected_follows_from_the_definitions(delta: int) -> None:
    """Two cells of the printed table are wrong: N3 at δ=1 has S4 and N2, S2 at δ=0 has N2.

    Reference: 003, section 4.8 and table 1; X-D3-01
    """
    assert {node: set(row[delta].split()) for node, row in TABLE_1.items()} == table_1_by_definition(delta)


@pytest.mark.parametrize("delta", range(4))
def test_d3_44_table_1_at_the_brokers(delta: int) -> None:
    """The recipient sets of N1, N2 and N3 for a publication that S1 and S4 want.

    Our implementation keeps 3δ+1 nodes of a path (000, table I): the recipient of the paper is that at δ+1,
    the target that at 3δ+1.

    Reference: 003, section 4.8, figure 5 and table 1; X-D3-01 (D3-44)
    """
    world = start_network(FIGURE_5, FIGURE_5_CLIENTS, delta=delta)
    subscribe_all(world, {"s1": "n = 0", "s2": "n = 7", "s3": "n = 7", "s4": "n = 0"})
    farther = table_1_by_definition(3 * delta)
    for name in world.brokers():
        log = publisher_order(world, name).log
        matching = [each for each in log.after(0) if each.body.selector == "n = 0"]
        assert len(matching) == 2
        assert {each.body.path[-(delta + 1) :][0] for each in matching} == set(TABLE_1[name][delta].split())
        assert {each.target for each in matching} == farther[name]
    publish_all(world, "p1", 1)
    world.run_for(SECOND)
    assert [delivered(world, client) for client in ("s1", "s2", "s3", "s4")] == [[1], [], [], [1]]


@pytest.mark.parametrize("delta", range(4))
def test_d3_44_table_1_with_clients_as_nodes(delta: int) -> None:
    """All rows of the table: here the publisher and the subscribers of figure 5 are brokers themselves, each
    with a client that stands for its application, since a client of ours keeps no routing information.

    Reference: 003, section 4.8, figure 5 and table 1; X-D3-01 (D3-44)
    """
    links = [*FIGURE_5, *(link(client, home) for client, home in FIGURE_5_CLIENTS.items())]
    world = start_network(links, {f"app {name}": name for name in FIGURE_5_CLIENTS}, delta=delta)
    subscribe_all(world, {"app s1": "", "app s4": ""})
    for name in world.brokers():
        recipients = set()
        for entry in publisher_order(world, name).log.after(0):
            way = [node for node in entry.body.path[-(delta + 1) :] if not node.startswith("app")]
            recipients.add(way[0] if way else name)
        assert recipients == set(TABLE_1[name][delta].split()), name


def test_d3_44_copies_drop_the_direction_they_came_from() -> None:
    """The recipient sets have no direction (N2 has N1 at δ=0); a copy never goes back to where it came from.

    Reference: 003, section 4.8 and table 1; X-P0-21 (D3-44)
    """
    world = start_network(FIGURE_5, FIGURE_5_CLIENTS, delta=0)
    subscribe_all(world, {"s1": "", "s4": ""})
    sent = Messages(world)
    publish_all(world, "p1", 1)
    world.run_for(SECOND)
    assert sorted((source, target) for source, target, _ in copies(sent)) == [
        ("n1", "n2"),
        ("n1", "n3"),
        ("n2", "s1"),
        ("n3", "s4"),
        ("p1", "n1"),
    ]
    assert_promises(world)


def test_d3_45_a_publication_is_delivered_and_stored_nowhere() -> None:
    """Publications do not contribute to the routing information: they are handed to the subscriber.

    Reference: 003, section 4.8 (D3-45)
    """
    _, world, _ = random_network(seed=45, delta=1)
    subscribe_all(world, SELECTORS)

    def routing() -> list[object]:
        found: list[object] = []
        for name in world.brokers():
            log = publisher_order(world, name).log
            found.append((name, log.length, [(each.subscription, each.body) for each in log.after(0)]))
            found.append((world.broker(name).overlay.topology.links(), len(world.hosts[name].store)))
        return found

    before = routing()
    publish_all(world, "p", 10)
    publish_all(world, "q", 10)
    world.run_for(SECOND)
    assert routing() == before
    assert {client: delivered(world, client, "p") for client in SELECTORS} == {
        client: [n + 1 for n in wanted] for client, wanted in MATCHING.items()
    }


def test_d3_46_the_publisher_is_told_when_all_have_it() -> None:
    """The publisher gets a confirmation when its publication was delivered to all non-faulty subscribers
    that it matches; at once when there is none.

    Reference: 003, sections 1 and 4.2 (D3-46)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "near": "a", "far": "c"})
    publish_all(world, "p", 1)
    world.run_for(50 * MILLISECOND)
    assert confirmed(world, "p") == [1], "nobody wants it"
    subscribe_all(world, {"near": "", "far": ""})
    world.network.cut_link("c", "far")
    publish_all(world, "p", 1)
    world.run_for(500 * MILLISECOND)
    assert delivered(world, "near") == [2]
    assert confirmed(world, "p") == [1], "far has not got it"
    world.network.heal_link("c", "far")
    world.run_for(500 * MILLISECOND)
    assert delivered(world, "far") == [2]
    assert confirmed(world, "p") == [1, 2]
