"""Paper 000, section IV: how subscriptions propagate, without failures, over islands and over barriers."""

from __future__ import annotations

import pytest

from gapless.core.messages.publisher import Body, Confirmation, Confirmed, Log, Publications
from gapless.core.model import MILLISECOND, SECOND, Micros, NodeId, Partition
from gapless.simulation import trace
from gapless.simulation.host import BUSY
from gapless.simulation.trees import kary_tree
from gapless.simulation.world import World
from support import (
    BYPASSED,
    RECOVERED,
    TOPIC,
    TOPICS,
    Messages,
    SteadyLatency,
    Tree,
    active,
    assert_promises,
    chain,
    copies,
    delivered,
    established,
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

S = "s:1:1"
"""The first subscription of the client ``s``, on the wire."""
HOP: Micros = 5 * MILLISECOND
STEADY = SteadyLatency(HOP)


def bodies(sent: Messages, subscription: str = S) -> list[tuple[NodeId, NodeId, Body]]:
    """The copies of a subscription that were sent, in order; an echo is none."""
    return [
        (source, target, entry.body)
        for source, target, message in sent.of(Log)
        for entry in message.entries
        if entry.subscription == subscription and entry.body is not None
    ]


def confirmations(sent: Messages, subscription: str = S) -> list[tuple[NodeId, NodeId, Confirmation]]:
    """Its confirmations, in order."""
    return [
        (source, target, each)
        for source, target, message in sent.of(Confirmed)
        for each in message.confirmations
        if each.subscription == subscription
    ]


def stored(world: World, client: NodeId = "s", subscription: str = S) -> set[Partition]:
    """The partitions without which the client's subscription is confirmed."""
    order = publisher_leaf(world, client)
    overlay = order.overlay
    found = {overlay.partitions.own[node] for node in overlay.frontier.down}
    for peer in overlay.frontier.active:
        found.update(order.peers[peer].confirmed[subscription].pending)
    return found


def unreached(world: World, client: NodeId = "s", subscription: str = S) -> set[NodeId]:
    """The brokers that the client does not count on."""
    return publisher_leaf(world, client).subscribing.own[subscription].unreached


def distances(tree: Tree, start: NodeId) -> dict[NodeId, int]:
    """How far each broker is."""
    return {node: len(path) - 1 for node, path in paths_from(tree, start, len(tree)).items()}


# -- without failures --------------------------------------------------------------------------------------


@pytest.mark.parametrize("home", [f"b{k}" for k in range(7)])
def test_p0_27_a_subscriber_may_connect_to_any_broker(home: NodeId) -> None:
    """Subscribers connect to a broker of choice; the result is the same.

    Reference: 000, section IV, note 4 (P0-27)
    """
    world = start_network(kary_tree(7, 2), {"p": "b3", "q": "b2", "s": home})
    subscribe_all(world, {"s": "n < 5"})
    publish_all(world, "p", 10)
    publish_all(world, "q", 10)
    assert_promises(world)
    assert lives(world, "s")[0].unreachable == ()
    assert delivered(world, "s", "p") == delivered(world, "s", "q") == [1, 2, 3, 4, 5]


def test_p0_28_a_broker_that_has_not_accepted_does_not_route_by_it() -> None:
    """A subscription is used for forwarding only after it was accepted: while it is on its way to a broker,
    what is published there is not routed by it.

    Reference: 000, section IV (P0-28)
    """
    world = start_network(chain("a", "b", "c"), {"p": "c", "s": "a"}, latency=STEADY)
    world.network.slowness["b", "c"] = 20
    sent = Messages(world)
    world.subscribe("s", "s", TOPIC)
    world.run_for(50 * MILLISECOND)
    assert S in known_at(world, "b")
    publish_all(world, "p", 3)
    world.run_for(30 * MILLISECOND)
    assert S not in known_at(world, "c")
    world.run_for(SECOND)
    assert [copy.event.sequence for source, _, copy in copies(sent) if source == "c"] == []
    assert lives(world, "s")[0].start == {"p": 4}, "the start lies behind what was not routed"
    publish_all(world, "p", 1)
    assert_promises(world)
    assert delivered(world, "s") == [4]


def test_p0_28_nothing_is_delivered_while_confirmations_are_held() -> None:
    """Hold the confirmations and publish: p is not delivered for s before s is accepted everywhere.

    Our implementation routes by a subscription from its arrival on and delivers nothing for it before it is
    live, which is when the source accepts it in the paper.

    Reference: 000, section IV (P0-28)
    """
    world = start_network(chain("a", "b", "c"), {"p": "c", "s": "a"}, latency=STEADY)
    for held in ("b", "a"), ("c", "b"):
        world.network.slowness[held] = 40
    world.subscribe("s", "s", TOPIC)
    world.run_for(50 * MILLISECOND)
    assert S in known_at(world, "c")
    assert lives(world, "s") == []
    publish_all(world, "p", 3)
    world.run_until(lambda: bool(lives(world, "s")))
    assert delivered(world, "s") == []
    world.network.slowness.clear()
    world.run_for(SECOND)
    publish_all(world, "p", 2)
    assert_promises(world)
    assert delivered(world, "s")[-2:] == [4, 5]


@pytest.mark.parametrize("delta", [0, 1, 2])
def test_p0_29_what_a_subscription_carries(delta: int) -> None:
    """A copy has its predicates and the trailing part of the path to its source, of bounded length.

    Our implementation counts the client as the end of the path, and uses the length of a sequence vector,
    3δ+1 (X-P0-18). Order on a session is kept by the index in the sender's log instead of a SeqVec.

    Reference: 000, section IV (P0-29)
    """
    names = [f"b{k}" for k in range(9)]
    world = start_network(chain(*names), {"s": "b0"}, delta=delta)
    sent = Messages(world)
    subscribe_all(world, {"s": "x > 3"})
    whole = ("s", *names)
    seen = {source: body for source, _, body in bodies(sent)}
    assert set(seen) == {"s", *names[:-1]}
    for hop, source in enumerate(("s", *names[:-1]), start=1):
        length = min(hop, 3 * delta + 1)
        assert seen[source] == Body("s", TOPIC, "x > 3", whole[hop - length : hop], "b0")
    indexes = {entry.index for _, _, log in sent.of(Log) for entry in log.entries}
    assert indexes == {0, 1}, "the first in the log of every broker"


@pytest.mark.parametrize("home", ["b0", "b1", "b3"])
def test_p0_30_to_all_downstream_and_back(home: NodeId) -> None:
    """Without failures a broker forwards s to all its neighbours but the one it came from, and confirms it
    only when all of these have.

    Reference: 000, section IV-A (P0-30)
    """
    links = kary_tree(7, 2)
    tree, world = tree_of(links), start_network(links, {"s": home})
    sent = Messages(world)
    away = distances(tree, home)
    tapped = world.network.tap
    early: list[NodeId] = []

    def tap(source: NodeId, target: NodeId, message: object) -> None:
        assert tapped is not None
        tapped(source, target, message)  # type: ignore[arg-type]
        if isinstance(message, Confirmed):
            peers = publisher_order(world, source).peers
            downstream = [peer for peer in tree[source] if away[peer] > away[source]]
            early.extend(peer for peer in downstream if S not in peers[peer].confirmed)

    world.network.tap = tap
    subscribe_all(world, {"s": ""})
    forwarded = [(source, target) for source, target, _ in bodies(sent) if source != "s"]
    assert sorted(forwarded) == sorted((a, b) for a in tree for b in tree[a] if away[b] > away[a])
    confirmed = [(source, target) for source, target, _ in confirmations(sent) if target != "s"]
    assert sorted(confirmed) == sorted((b, a) for a, b in forwarded)
    assert early == []


def test_p0_31_an_edge_broker_confirms_at_once() -> None:
    """Where there is nobody to forward to, s is accepted and confirmed in the same breath (X-P0-11).

    Reference: 000, section IV-A (P0-31)
    """
    world = start_network(chain("a", "b", "c"), {"s": "a"}, latency=STEADY)
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    moments = {
        type(message): moment
        for moment, source, _, message in sent.sent
        if source == "c" and isinstance(message, Log | Confirmed)
    }
    began = next(each.t for each in world.trace if isinstance(each, trace.Subscribe))
    assert moments[Log] == moments[Confirmed]
    assert 0 <= moments[Log] - (began + 3 * HOP) <= 3 * BUSY


def test_p0_31_a_single_broker_confirms_at_once() -> None:
    """A network of one broker: the subscription is live after one round trip.

    Reference: 000, section IV-A (P0-31)
    """
    world = World(topics=TOPICS, latency=STEADY)
    world.add_broker("a")
    world.add_client("s", "a")
    world.run_for(SECOND)
    subscribe_all(world, {"s": ""})
    began = next(each.t for each in world.trace if isinstance(each, trace.Subscribe))
    assert 2 * HOP <= lives(world, "s")[0].t - began <= 2 * (HOP + 4 * BUSY)


def test_p0_32_nobody_confirms_before_the_last_behind_it() -> None:
    """Confirmations are aggregated: with one slow leaf, none of the brokers between it and the subscriber
    confirms before that leaf does, and the others do.

    Reference: 000, section IV-A (P0-32)
    """
    world = start_network(kary_tree(7, 2), {"s": "b3"}, latency=STEADY)
    world.network.slowness["b6", "b2"] = 30
    sent = Messages(world)
    world.subscribe("s", "s", TOPIC)
    world.run_for(30 * HOP)
    assert {source for source, _, _ in confirmations(sent)} == {"b4", "b5", "b6"}
    assert lives(world, "s") == []
    world.run_for(SECOND)
    assert [source for source, _, _ in confirmations(sent)][3:] == ["b2", "b0", "b1", "b3"]
    assert len(lives(world, "s")) == 1


def test_p0_33_subscriptions_are_processed_in_order() -> None:
    """A broker processes arrived subscriptions in order: a hundred of one source are in the same order on
    every session and in every log.

    Reference: 000, section IV-A (P0-33)
    """
    world = start_network(kary_tree(7, 2), {"s": "b3", "other": "b6"})
    sent = Messages(world)
    for k in range(100):
        world.at(world.now + k * MILLISECOND, lambda k: world.subscribe("s", f"s{k}", TOPIC, f"x = {k}"), k)
        world.at(world.now + k * MILLISECOND, lambda k: world.subscribe("other", f"o{k}", TOPIC), k)
    world.run_for(2 * SECOND)
    expected = [f"s:1:{k}" for k in range(1, 101)]
    for name in world.brokers():
        assert [each for each in known_at(world, name) if each.startswith("s:")] == expected
    streams: dict[tuple[NodeId, NodeId], list[str]] = {}
    for source, target, log in sent.of(Log):
        streams.setdefault((source, target), []).extend(each.subscription for each in log.entries)
    for (source, target), stream in streams.items():
        if source in world.brokers() and target in world.brokers():
            assert [each for each in stream if each.startswith("s:")] == expected, (source, target)
    assert len(streams) == 2 * 6 + 2 * 2


@pytest.mark.parametrize("home", ["b0", "b1", "b3"])
def test_p0_34_the_client_is_told_when_all_have_accepted(home: NodeId) -> None:
    """The client is told that its subscription is ready, and not before every broker has accepted it: after
    the way to the farthest broker and back.

    Reference: 000, section IV; 003, section 4.2 (P0-34)
    """
    links = kary_tree(7, 2)
    world = start_network(links, {"s": home}, latency=STEADY)
    world.subscribe("s", "s", TOPIC)
    accepted: dict[NodeId, Micros] = {}
    while not lives(world, "s"):
        world.run_for(HOP // 50)
        for name in world.brokers():
            if S in known_at(world, name):
                accepted.setdefault(name, world.now)
    began = next(each.t for each in world.trace if isinstance(each, trace.Subscribe))
    ready = lives(world, "s")[0].t
    assert set(accepted) == set(world.brokers())
    assert ready >= max(accepted.values())
    farthest = 1 + max(distances(tree_of(links), home).values())
    assert 2 * farthest * HOP <= ready - began <= 2 * farthest * (HOP + 4 * BUSY)


# -- islands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", range(0, 40, 4))
def test_p0_35_a_broker_that_dies_during_propagation_blocks_nothing(when: int) -> None:
    """Wait or proceed: a permanent crash of Y at any moment of the propagation does not block it.

    Reference: 000, section IV-A (P0-35)
    """
    world = start_network(chain("a", "b", "c", "d"), {"s": "a", "p": "d"}, latency=STEADY)
    world.subscribe("s", "s", TOPIC)
    world.run_for(when * MILLISECOND)
    world.crash("b", silently=True)
    world.run_for(BYPASSED)
    assert lives(world, "s")
    assert unreached(world) <= {"b"}
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert delivered(world, "s") == [1, 2, 3]
    assert in_custody(world) == {}


@pytest.mark.parametrize("when", [-5000, 8])
def test_p0_35_a_living_broker_behind_a_cut_blocks_nothing(when: int) -> None:
    """If only the link to Y is cut, the subscription becomes ready as well, before the link heals.

    Reference: 000, sections IV-A and IV-B (P0-35)
    """
    world = start_network(chain("a", "b", "c"), {"s": "a", "p": "b", "q": "c"}, latency=STEADY)
    if when < 0:
        world.cut("a", "b")
        world.run_for(-when * MILLISECOND)
    world.subscribe("s", "s", TOPIC)
    world.run_for(max(when, 0) * MILLISECOND)
    if when >= 0:
        world.cut("a", "b")
    world.run_for(BYPASSED)
    assert lives(world, "s")


@pytest.mark.parametrize("when", [-5000, 8])
def test_p0_35_a_living_broker_behind_a_cut_makes_no_gap(when: int) -> None:
    """If only the link to Y is cut, Y is not passed over in silence: once the link is back, what its
    publishers and those behind it publish comes without a gap.

    Reference: 000, sections IV-A and IV-B (P0-35)
    """
    world = start_network(chain("a", "b", "c"), {"s": "a", "p": "b", "q": "c"}, latency=STEADY)
    if when < 0:
        world.cut("a", "b")
        world.run_for(-when * MILLISECOND)
    world.subscribe("s", "s", TOPIC)
    world.run_for(max(when, 0) * MILLISECOND)
    if when >= 0:
        world.cut("a", "b")
    for _ in range(40):
        publish_all(world, "p", 1)
        publish_all(world, "q", 1)
        world.run_for(100 * MILLISECOND)
    world.heal("a", "b")
    world.run_for(RECOVERED)
    publish_all(world, "p", 2)
    publish_all(world, "q", 2)
    assert_promises(world)
    assert delivered(world, "s", "p")[-2:] == delivered(world, "s", "q")[-2:] == [41, 42]


def test_p0_36_the_bypassing_peer_takes_the_place_of_the_failed_one() -> None:
    """Y fails after s was sent to it and before it confirmed: s goes to X instead, whose confirmation is
    waited for; the subscription becomes ready, without a barrier for the side of X.

    Reference: 000, section IV-B (P0-36)
    """
    world = start_network(chain("a", "b", "c", "d"), {"s": "a", "p": "c", "q": "d"}, latency=STEADY)
    sent = Messages(world)
    world.subscribe("s", "s", TOPIC)
    world.run_for(HOP + HOP // 2)
    assert [(source, target) for source, target, _ in bodies(sent)] == [("s", "a"), ("a", "b")]
    world.crash("b", silently=True)
    world.run_for(600 * MILLISECOND)
    assert lives(world, "s") == []
    world.run_until(lambda: bool(lives(world, "s")))
    assert [(source, target) for source, target, _ in bodies(sent)][2:] == [("a", "c"), ("c", "d")]
    assert [(source, target) for source, target, _ in confirmations(sent)] == [
        ("d", "c"),
        ("c", "a"),
        ("a", "s"),
    ]
    assert lives(world, "s")[0].unreachable == ("b",)
    assert stored(world) == {Partition("a", 1, ("b",))}
    publish_all(world, "p", 2)
    publish_all(world, "q", 2)
    world.run_for(SECOND)
    assert delivered(world, "s", "p") == delivered(world, "s", "q") == [1, 2]


def test_p0_37_the_replacement_is_replaced() -> None:
    """If S(B,X) fails too before the confirmation, the next broker is used.

    Reference: 000, section IV-B (P0-37)
    """
    world = start_network(
        chain("a", "b", "c", "d", "e"), {"s": "a", "p": "d", "q": "e"}, delta=2, latency=STEADY
    )
    sent = Messages(world)
    world.subscribe("s", "s", TOPIC)
    world.run_for(HOP + HOP // 2)
    world.crash("b", silently=True)
    world.run_until(lambda: ("a", "c") in [(source, target) for source, target, _ in bodies(sent)])
    world.crash("c", silently=True)
    world.run_for(BYPASSED)
    assert [target for source, target, _ in bodies(sent) if source == "a"] == ["b", "c", "d"]
    assert lives(world, "s")[0].unreachable == ("b", "c")
    publish_all(world, "p", 2)
    publish_all(world, "q", 2)
    world.run_for(SECOND)
    assert delivered(world, "s", "p") == delivered(world, "s", "q") == [1, 2]


def island(*, late: bool = True) -> World:
    """S at a; the link of a and y is cut; x and y, and what lies behind x, can talk; y has a subscriber that
    wants everything. ``late``: the subscription of S is still to come."""
    clients = {"s": "a", "r": "y", "p": "z"}
    world = start_network(chain("a", "y", "x", "z"), clients, latency=STEADY)
    subscribe_all(world, {"r": ""})
    if not late:
        subscribe_all(world, {"s": ""})
    world.cut("a", "y")
    world.run_for(BYPASSED)
    return world


def test_p0_38_the_island_gets_a_copy_from_beyond() -> None:
    """X, beyond the island, sends s to the island's brokers that it reaches, before any publication that
    matches s.

    Reference: 000, section IV-B (P0-38)
    """
    world = island()
    sent = Messages(world)
    publish_all(world, "p", 50, every=2 * MILLISECOND)
    world.run_for(40 * MILLISECOND)
    assert S not in known_at(world, "y")
    world.subscribe("s", "s", TOPIC)
    world.run_for(SECOND)
    assert S in known_at(world, "y")
    assert [source for source, target, _ in bodies(sent) if target == "y"] == ["x"]
    told = publisher_order(world, "y").peers["x"].index_of[S]
    aware = [copy.epoch >= told for source, target, copy in copies(sent) if (source, target) == ("x", "y")]
    assert len(aware) == 50
    assert aware == sorted(aware)
    assert 0 < sum(aware) < 50
    on_session = [
        isinstance(each, Log) or each.runs[0].header.epoch >= told
        for source, target, each in sent.of(Log, Publications)
        if (source, target) == ("x", "y")
    ]
    assert on_session == sorted(on_session), "the copy stands between those without and those with it"


def test_p0_39_the_copy_stays_on_the_island() -> None:
    """The copy from beyond is accepted at once, is passed on to the other brokers of the island, and to
    nobody else.

    Reference: 000, section IV-B (P0-39)
    """
    world = start_network(chain("a", "y1", "y2", "x", "z"), {"s": "a"}, delta=2, latency=STEADY)
    for other in ("y1", "y2"):
        world.cut("a", other)
    world.run_for(BYPASSED)
    assert active(world, "a") == ["x"]
    sent = Messages(world)
    world.subscribe("s", "s", TOPIC)
    world.run_for(SECOND)
    ways = [(source, target) for source, target, _ in bodies(sent)]
    assert ways == [("s", "a"), ("a", "x"), ("x", "y2"), ("x", "z"), ("y2", "y1")]
    assert all(S in known_at(world, name) for name in world.brokers())
    moments = {
        (source, target): moment
        for moment, source, target, message in sent.sent
        if isinstance(message, Log) and source != "s"
    }
    took = moments["y2", "y1"] - moments["a", "x"]
    assert 2 * HOP <= took <= 2 * (HOP + 2 * BUSY), "at once, without waiting for anybody"


def test_p0_40_publications_do_not_overtake_the_copy() -> None:
    """On the sessions to the island s precedes every publication that was routed by s: whatever broker or
    client of the island sees one has seen s before.

    Every publication says how long its sender's log was (its epoch); when it is sent, the log was streamed
    at least that far on the same session.

    Reference: 000, section IV-B and Lemma 2 (i) (P0-40)
    """
    world = island()
    sent = Messages(world)
    publish_all(world, "p", 400, every=MILLISECOND)
    for k in range(20):
        world.at(world.now + k * 15 * MILLISECOND, lambda k: world.subscribe("s", f"s{k}", TOPIC), k)
    world.run_for(2 * SECOND)
    reached = {(a, b): 1 for a in live(world) for b in live(world)}
    checked = 0
    for source, target, message in sent.of(Log, Publications):
        if target not in world.brokers() or source not in world.brokers():
            continue
        if isinstance(message, Log):
            reached[source, target] = max(entry.index for entry in message.entries)
        else:
            assert all(run.header.epoch <= reached[source, target] for run in message.runs)
            checked += 1
    assert checked > 200
    assert reached["x", "y"] == 21
    assert delivered(world, "r") == list(range(1, 401))


def test_p0_40_the_clients_of_the_island_and_beyond_miss_nothing() -> None:
    """Publishing goes on beyond X while s propagates and the link heals: no gap, on either side.

    Reference: 000, section IV-B and Lemma 2 (i) (P0-40)
    """
    world = island()
    world.subscribe("s", "s", TOPIC)
    publish_all(world, "p", 300, every=10 * MILLISECOND)
    world.run_for(1500 * MILLISECOND)
    world.heal("a", "y")
    assert_promises(world)
    assert delivered(world, "r") == list(range(1, 301))
    assert delivered(world, "s")[-1] == 300


# -- barriers ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("when", [-4000, 8, 12, 18])
def test_p0_41_a_barrier_is_dropped_and_the_confirmation_tagged(when: int) -> None:
    """The nodes of a barrier are not waited for: s is accepted, and its confirmation is tagged with the pid.

    Reference: 000, section IV-C (P0-41)
    """
    world = start_network(chain("a", "b", "c", "d"), {"s": "a", "p": "a", "q": "d"}, latency=STEADY)
    if when >= 0:
        world.subscribe("s", "s", TOPIC)
        world.run_for(when * MILLISECOND)
    for victim in "bc":
        world.crash(victim, silently=True)
    world.run_for(BYPASSED)
    if when < 0:
        subscribe_all(world, {"s": ""})
    barrier = Partition("a", 2, ("b", "c"))
    assert barrier in stored(world)
    assert unreached(world) == {"b", "c"}
    assert lives(world, "s")[-1].unreachable == ("b", "c", "d")
    publish_all(world, "p", 2)
    publish_all(world, "q", 2)
    world.run_for(SECOND)
    assert got(world, "s") == [("p", 1), ("p", 2)]


def two_barriers() -> tuple[World, Messages]:
    """S at a; behind b the branches c–d–e and f–g–h, of which d, e and g, h have crashed."""
    links = [*chain("a", "b", "c", "d", "e"), *chain("b", "f", "g", "h")]
    world = start_network(links, {"s": "a"}, delta=1)
    for victim in "degh":
        world.crash(victim)
    world.run_for(BYPASSED)
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    return world, sent


EXPECTED_TAGS = {
    Partition("c", 1, ("d",)),
    Partition("c", 2, ("d", "e")),
    Partition("f", 1, ("g",)),
    Partition("f", 2, ("g", "h")),
}


def test_p0_42_tags_accumulate_on_the_way() -> None:
    """Upstream brokers pass the tags of confirmations on and add their own.

    Reference: 000, section IV-C (P0-42)
    """
    _, sent = two_barriers()
    tags = {(source, target): set(each.pending) for source, target, each in confirmations(sent)}
    assert tags["c", "b"] == {each for each in EXPECTED_TAGS if each.detector == "c"}
    assert tags["f", "b"] == {each for each in EXPECTED_TAGS if each.detector == "f"}
    assert tags["b", "a"] == tags["a", "s"] == EXPECTED_TAGS


def test_p0_43_the_source_stores_the_tags() -> None:
    """The source broker stores all tags of the confirmations with the subscription.

    Our implementation stores them where deliveries are decided: at the client, which is the source.

    Reference: 000, section IV-C (P0-43)
    """
    world, _ = two_barriers()
    assert stored(world) == EXPECTED_TAGS
    assert publisher_order(world, "a").peers["s"].confirmed_to[S].pending == tuple(
        publisher_leaf(world, "s").peers["a"].confirmed[S].pending
    )
    assert unreached(world) == {"d", "e", "g", "h"}
    for victim in "degh":
        world.restart(victim)
    world.run_for(2 * RECOVERED)
    assert stored(world) == set()
    assert unreached(world) == set()


# -- the algorithm, line by line -----------------------------------------------------------------------------


@pytest.mark.parametrize("delta", [1, 2])
def test_p0_44_never_back_upstream(delta: int) -> None:
    """Out_s is the active sessions without those that map to the upstream path: a broker with a session
    that bypasses its upstream neighbour does not send s back over it.

    Reference: 000, Fig. 3, lines 2–3 (P0-44)
    """
    links = [*chain("a", "b", "c", "d"), *chain("b", "e"), *chain("c", "f")]
    world = start_network(links, {"s": "a"}, delta=delta)
    world.crash("b")
    world.run_for(BYPASSED)
    assert "a" in established(world, "c")
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    away = distances(tree_of(links), "a")
    ways = [(source, target) for source, target, _ in bodies(sent) if source != "s"]
    assert {target for _, target in ways} == {"c", "d", "e", "f"}
    assert all(away[source] < away[target] or {source, target} == {"c", "e"} for source, target in ways)
    assert all(target != "a" for _, target in ways)


def test_p0_45_the_copy_over_an_island_says_so() -> None:
    """The copy that goes round an island carries its pid, the copies to other neighbours do not.

    Our implementation has no tags on subscriptions: the crossed brokers stand in the path of the copy (and
    the pid in the confirmation). The path is made for each receiver.

    Reference: 000, Fig. 3, lines 6–12 (P0-45)
    """
    links = [*chain("a", "b", "c"), *chain("a", "d")]
    world = start_network(links, {"s": "a"})
    world.crash("b")
    world.run_for(BYPASSED)
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    assert {target: body.path for source, target, body in bodies(sent) if source == "a"} == {
        "c": ("s", "a", "b"),
        "d": ("s", "a"),
    }
    assert stored(world) == {Partition("a", 1, ("b",))}


def test_p0_46_nothing_is_sent_to_an_island_without_a_session() -> None:
    """On acceptance s is sent to those brokers of the crossed islands to which there is a session: here to y2
    and not to y1, which is dead, until it returns.

    Reference: 000, Fig. 3, lines 22–23 (P0-46)
    """
    world = start_network(chain("a", "y1", "y2", "x"), {"s": "a"}, delta=2)
    world.cut("a", "y2")
    world.crash("y1")
    world.run_for(BYPASSED)
    sent = Messages(world)
    world.subscribe("s", "s", TOPIC)
    world.run_for(SECOND)
    assert [(source, target) for source, target, _ in bodies(sent)] == [("s", "a"), ("a", "x"), ("x", "y2")]
    world.restart("y1")
    world.run_for(RECOVERED)
    assert S in known_at(world, "y1")
    assert lives(world, "s")[-1].unreachable == ()


def test_p0_47_only_the_detector_tags() -> None:
    """A pid is added to a confirmation by its detector alone, though others know it as well.

    Reference: 000, Fig. 3, lines 24–26, and Lemma 1 (P0-47)
    """
    links = [*chain("a", "b", "c", "d", "e", "f"), *chain("d", "g")]
    world = start_network(links, {"s": "a"})
    world.crash("f")
    world.run_for(BYPASSED)
    pid = Partition("e", 1, ("f",))
    holders = {name for name in "abcdeg" if pid in world.broker(name).overlay.partitions.table()}
    assert holders == {"e", "d", "c", "g"}
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    tagged = {(source, target): each.pending for source, target, each in confirmations(sent)}
    assert tagged == {
        ("g", "d"): (),
        ("e", "d"): (pid,),
        ("d", "c"): (pid,),
        ("c", "b"): (pid,),
        ("b", "a"): (pid,),
        ("a", "s"): (pid,),
    }


def test_p0_47_a_partition_on_the_side_of_the_subscriber_is_not_added() -> None:
    """pid is added only if it does not lie on the upstream path: b is down for a and for c, and only a, which
    has it downstream, tags.

    Reference: 000, Fig. 3, lines 24–26 (P0-47)
    """
    world = start_network(chain("a", "b", "c", "d"), {"s": "a"})
    world.crash("b")
    world.run_for(BYPASSED)
    mine, theirs = Partition("a", 1, ("b",)), Partition("c", 1, ("b",))
    assert theirs in world.broker("d").overlay.partitions.table()
    sent = Messages(world)
    subscribe_all(world, {"s": ""})
    tagged = {(source, target): each.pending for source, target, each in confirmations(sent)}
    assert tagged == {("d", "c"): (), ("c", "a"): (), ("a", "s"): (mine,)}


def test_p0_48_all_senders_get_the_confirmation() -> None:
    """All brokers that sent a copy get a confirmation: b, whose copy came late, and a, which went round b.

    Reference: 000, Fig. 3, lines 27–28 (P0-48)
    """
    world = start_network(chain("a", "b", "c"), {"s": "a"}, latency=STEADY)
    sent = Messages(world)
    world.network.slowness["b", "c"] = 120
    world.subscribe("s", "s", TOPIC)
    world.run_for(2 * HOP + HOP // 2)
    world.cut("a", "b")
    world.run_for(BYPASSED)
    assert {source for source, target, _ in bodies(sent) if target == "c"} == {"a", "b"}
    assert {target for source, target, _ in confirmations(sent) if source == "c"} == {"a", "b"}


def test_p0_48_both_senders_get_it_in_the_end() -> None:
    """The same where the failure ends: each of the two has the confirmation, one of them after the heal.

    Reference: 000, Fig. 3, lines 27–28 (P0-48)
    """
    world = start_network(chain("a", "b", "c"), {"s": "a"}, latency=STEADY)
    sent = Messages(world)
    world.network.slowness["b", "c"] = 120
    world.subscribe("s", "s", TOPIC)
    world.run_for(2 * HOP + HOP // 2)
    world.cut("a", "b")
    world.run_for(BYPASSED)
    world.network.slowness.clear()
    world.heal("a", "b")
    world.run_for(RECOVERED)
    ways = [(source, target) for source, target, _ in confirmations(sent)]
    assert ("c", "b") in ways
    assert ("b", "a") in ways
    assert lives(world, "s")[-1].unreachable == ()
