"""Paper 000, section II: the system model. One test or more a row of the conformance list."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.broker import Broker
from gapless.core.events import SuspectRequested
from gapless.core.leaf import Leaf
from gapless.core.messages import BestEffortEvents, BestEffortSubscribe, BestEffortSubscribed
from gapless.core.model import MILLISECOND, SECOND, Micros, NodeId, OrderName, Topic
from gapless.core.overlay.sessions import Timing
from gapless.simulation import trace
from gapless.simulation.faults import Faults, Window
from gapless.simulation.trees import kary_tree, random_tree
from gapless.simulation.world import World
from support import (
    BYPASSED,
    RECOVERED,
    Messages,
    active,
    active_by_definition,
    all_joined,
    assert_bypass,
    assert_primary_only,
    chain,
    established,
    is_tree,
    join_one_by_one,
    own_links,
    paths_from,
    start_chain,
    start_tree,
    tree_of,
)

TOPICS = {"t": Topic("t", OrderName.BEST_EFFORT)}
TIMING = Timing()
DETECTED: Micros = TIMING.suspect_after + TIMING.ping_every + 200 * MILLISECOND


def with_clients(world: World, publisher_at: NodeId, subscriber_at: NodeId) -> World:
    """A publisher ``p`` and a subscriber ``s`` that wants everything."""
    world.add_client("p", publisher_at)
    world.add_client("s", subscriber_at)
    world.run_for(SECOND)
    world.subscribe("s", "s1", "t", "")
    world.run_for(SECOND)
    return world


def delivered(world: World) -> list[int]:
    return [each.sequence for each in world.trace if isinstance(each, trace.Deliver)]


def test_p0_06_a_slow_link_loses_nothing_and_keeps_the_order() -> None:
    """Links are asynchronous: there is no bound on the delay, and slow is not failed.

    Reference: 000, section II (P0-06)
    """
    patient = Timing(ping_every=SECOND, suspect_after=60 * SECOND)
    world = with_clients(start_chain("a", "b", "c", topics=TOPICS, timing=patient), "a", "c")
    before = world.broker("b").overlay.sessions.up["a"]
    world.network.slowness["a", "b"] = 100
    for _ in range(50):
        world.publish("p", "p", "t", {})
        world.run_for(7 * MILLISECOND)
    world.run_for(200 * MILLISECOND)
    assert len(delivered(world)) < 50, "the link is slow indeed"
    world.run_for(30 * SECOND)
    assert delivered(world) == list(range(1, 51))
    assert world.broker("b").overlay.sessions.up["a"] is before


def test_p0_06_a_cut_link_is_an_infinitely_slow_one() -> None:
    """A failed link delays; what was sent arrives, in order, if the failure ends before it is detected.

    Reference: 000, section II (P0-06)
    """
    world = with_clients(start_chain("a", "b", "c", topics=TOPICS), "a", "c")
    world.cut("a", "b")
    for _ in range(20):
        world.publish("p", "p", "t", {})
        world.run_for(10 * MILLISECOND)
    assert delivered(world) == []
    world.heal("a", "b")
    for _ in range(20):
        world.publish("p", "p", "t", {})
        world.run_for(MILLISECOND)
    world.run_for(SECOND)
    assert delivered(world) == list(range(1, 41))


@pytest.mark.parametrize("delta", [1, 2])
def test_p0_07_a_false_suspicion_is_survived(delta: int) -> None:
    """Detectors may be wrong: a broker that suspects a living neighbour closes the session, goes round it,
    and takes it back as soon as they have found each other again.

    Reference: 000, section II (P0-07)
    """
    world = start_chain("a", "b", "c", "d", delta=delta)
    moments: list[list[NodeId]] = []
    world.hosts["a"].stepped = lambda node: moments.append(list(node.overlay.frontier.active))
    world.hosts["a"].receive(SuspectRequested("b"))
    assert "b" not in established(world, "a")
    assert active(world, "a") == []
    world.cut("a", "b")  # so that the mistake lasts
    world.run_for(SECOND)
    assert active(world, "a") == ["c"]
    world.heal("a", "b")
    world.run_for(RECOVERED)
    assert moments[-1] == ["b"]
    assert_primary_only(world, chain("a", "b", "c", "d"))


def test_p0_07_a_crash_and_a_cut_link_look_the_same() -> None:
    """A cannot tell whether B has crashed or the link to it failed: it reacts in the same way.

    Reference: 000, section II (P0-07)
    """
    outcomes = []
    for crash in (True, False):
        world = start_chain("a", "b", "c", delta=1)
        world.crash("b", silently=True) if crash else world.cut("a", "b")
        world.run_for(BYPASSED)
        overlay = world.broker("a").overlay
        outcomes.append((active(world, "a"), sorted(overlay.sessions.up), overlay.frontier.down))
    assert outcomes[0] == outcomes[1] == (["c"], ["c"], ["b"])


@pytest.mark.parametrize("silently", [True, False])
def test_p0_08_a_session_is_established_until_the_detector_speaks(silently: bool) -> None:
    """A maintains an established session to B during the interval in which its detector does not indicate
    a failure of B.

    Reference: 000, section II (P0-08)
    """
    world = start_chain("a", "b", "c")
    assert established(world, "a") == {"b"}
    assert active(world, "a") == ["b"]
    world.crash("b", silently=silently)
    if silently:
        world.run_for(TIMING.suspect_after - TIMING.ping_every - 100 * MILLISECOND)
        assert "b" in established(world, "a"), "nothing has indicated a failure yet"
    world.run_for(DETECTED if silently else 200 * MILLISECOND)
    assert "b" not in established(world, "a")


@pytest.mark.parametrize("seed", range(5))
def test_p0_09_nothing_of_a_session_arrives_after_something_was_lost_in_it(seed: int) -> None:
    """Messages of one session arrive in order or never, and then the failure is detected.

    Reference: 000, section II (P0-09)
    """
    world = with_clients(start_chain("a", "b", "c", topics=TOPICS, seed=seed), "a", "c")
    sent = Messages(world)
    session = world.broker("a").overlay.sessions.up["b"]
    ended: list[Micros] = []

    def note_the_end(node: Broker | Leaf) -> None:
        if node.overlay.sessions.up.get("b") is not session:
            ended.append(world.now)

    world.hosts["a"].stepped = note_the_end
    for k in range(300):
        if k == 50:
            broken = world.now
            world.network.break_session("a", "b")
        world.publish("p", "p", "t", {})
        world.run_for(10 * MILLISECOND)
    world.run_for(SECOND)
    entered = [
        (event.sequence, target == "b" and broken <= moment < ended[0])
        for moment, source, target, message in sent.sent
        if source == "a" and isinstance(message, BestEffortEvents)
        for event in message.events
    ]
    assert sum(lost for _, lost in entered) > 50, "the failure takes a while to be detected"
    assert delivered(world) == [sequence for sequence, lost in entered if not lost]
    assert delivered(world)[-1] == 300


@pytest.mark.parametrize("delta", range(4))
def test_p0_10_joins_make_a_tree(delta: int) -> None:
    """Brokers join and form a tree; its edges are the primary links.

    Our implementation is told the join points by its configuration; there is no registry.

    Reference: 000, section II (P0-10)
    """
    world = World(seed=delta, delta=delta)
    rng = Random(delta)
    world.add_broker("b0")
    for k in range(1, 12):
        world.add_broker(f"b{k}", join=tuple(f"b{j}" for j in rng.sample(range(k), min(k, 2))))
    world.run_until(lambda: all_joined(world))
    world.run_for(RECOVERED)
    links = own_links(world)
    assert len(links) == 11
    assert is_tree(links, world.brokers())
    assert_primary_only(world, links)


@pytest.mark.parametrize("delta", range(4))
def test_p0_11_a_broker_knows_its_neighbourhood(delta: int) -> None:
    """Brokers know all brokers within Δ = δ+1, and how these are connected.

    Reference: 000, section II and table I (P0-11)
    """
    links = random_tree(25, 3, Random(delta))
    world = World(delta=delta)
    join_one_by_one(world, links, "b0")
    tree = tree_of(links)
    for name in world.brokers():
        topology = world.broker(name).overlay.topology
        ball = paths_from(tree, name, delta + 1)
        assert set(topology.nodes()) == set(ball)
        assert all(tuple(topology.path(node)) == path for node, path in ball.items())


@pytest.mark.parametrize("seed", range(3))
def test_p0_12_without_failures_only_primary_links_are_used(seed: int) -> None:
    """In the absence of failures publications and subscriptions travel over primary links only.

    Reference: 000, section II (P0-12)
    """
    links = random_tree(15, 3, Random(seed))
    world = start_tree(links, delta=2, seed=seed, topics=TOPICS)
    rng = world.random("test")
    for k in range(6):
        world.add_client(f"c{k}", rng.choice(world.brokers()))
    sent = Messages(world)
    world.run_for(SECOND)
    for k in range(6):
        world.subscribe(f"c{k}", f"s{k}", "t", "")
    world.run_for(SECOND)
    for k in range(60):
        world.publish(f"c{k % 6}", f"c{k % 6}", "t", {"k": k})
        world.run_for(5 * MILLISECOND)
    world.run_for(SECOND)
    assert len(delivered(world)) == 6 * 60
    homes = {tuple(sorted(pair)) for pair in world.homes.items()}
    used = {
        tuple(sorted((s, t)))
        for s, t, _ in sent.of(BestEffortEvents, BestEffortSubscribe, BestEffortSubscribed)
    }
    assert used <= set(links) | homes
    assert_primary_only(world, [*links, *homes])  # type: ignore[list-item]


@pytest.mark.parametrize("delta", range(4))
@pytest.mark.parametrize("failures", range(1, 5))
def test_p0_13_bypass_of_up_to_delta_adjacent_failures(delta: int, failures: int) -> None:
    """A broker goes round up to δ adjacent unreachable brokers by sessions to the next ones, and not round
    more.

    Reference: 000, section II (P0-13)
    """
    names = [f"b{k}" for k in range(failures + 2)]
    world = start_chain(*names, delta=delta)
    for name in names[1:-1]:
        world.crash(name, silently=True)
    world.run_for(BYPASSED)
    reached = failures <= delta
    for here, there in ((names[0], names[-1]), (names[-1], names[0])):
        overlay = world.broker(here).overlay
        assert (there in overlay.sessions.up) == reached
        assert overlay.frontier.active == ([there] if reached else [])
        assert bool(overlay.frontier.barriers) == (not reached)


def test_p0_13_all_branches_behind_a_failure_are_reached() -> None:
    """The bypassing sessions go to all neighbours of the unreachable broker.

    Reference: 000, section II (P0-13)
    """
    world = start_tree([*chain("a", "b", "c"), ("b", "d"), ("b", "e"), *chain("e", "f")])
    world.crash("b")
    world.run_for(BYPASSED)
    for name in "acde":
        assert set(active(world, name)) - {"f"} == set("acde") - {name}


@pytest.mark.parametrize("delta", range(4))
def test_p0_14_at_every_step_active_is_the_nearest_established(delta: int) -> None:
    """S(A,B) is active iff it is established and A has no established session to a C inside P(A,B): so a
    path has at most one active session.

    Our implementation in addition waits at a broker that it has not tried yet: until the attempt is decided,
    a session that the other end has opened from behind it is not used.

    Reference: 000, section II (P0-14)
    """
    links = random_tree(14, 3, Random(delta))
    tree = tree_of(links)
    world = start_tree(links, delta=delta, seed=delta)
    checked = [0, 0]

    def check(node: Broker | Leaf) -> None:
        overlay = node.overlay
        paths = paths_from(tree, overlay.me, delta + 1)
        up = {peer for peer in overlay.sessions.up if peer in paths}
        expected = active_by_definition(tree, overlay.me, delta, up)
        behind_untried = {peer for peer in expected if set(paths[peer][1:-1]) & set(overlay.frontier.untried)}
        assert len(overlay.frontier.active) == len(set(overlay.frontier.active))
        assert set(overlay.frontier.active) == expected - behind_untried
        for peer in overlay.frontier.active:
            assert not set(paths[peer][1:-1]) & set(overlay.frontier.active)
        checked[0] += 1
        checked[1] += any(len(paths[peer]) > 2 for peer in expected)

    for host in world.hosts.values():
        host.stepped = check
    opens, closes = world.now, world.now + 20 * SECOND
    faults = Faults(world, crashes=24, cuts=12, max_down=4, window=Window(opens, closes))
    world.run(until=closes)
    faults.heal_all()
    world.run_for(RECOVERED)
    assert faults.injected >= 6
    assert checked[0] > 1000
    assert delta == 0 or checked[1] > 0, "bypasses were among what was checked"
    assert_bypass(world, links)


@pytest.mark.parametrize("one_way", [True, False])
@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("b", "a")])
def test_p0_15_activation_is_one_sided(one_way: bool, source: NodeId, target: NodeId) -> None:
    """That S(A,C) is active does not imply that S(C,A) is.

    Reference: 000, section II (P0-15)
    """
    world = start_chain("a", "b", "c", "d", delta=1)
    world.cut(source, target, one_way=one_way)
    world.run_for(BYPASSED)
    assert active(world, "a") == ["c"]
    assert "a" in established(world, "c")
    assert active(world, "c") == ["b", "d"], "c reaches b, which is nearer on the path to a"
    world.heal("a", "b")
    world.run_for(RECOVERED)
    assert_primary_only(world, chain("a", "b", "c", "d"))


@pytest.mark.parametrize("silently", [True, False])
def test_p0_16_a_nearer_session_that_returns_takes_over(silently: bool) -> None:
    """When a nearer session is established again, the farther one is active no longer.

    Reference: 000, sections II and VIII (P0-16)
    """
    world = with_clients(start_chain("a", "b", "c", topics=TOPICS), "a", "c")
    world.publish("p", "p", "t", {})
    world.run_for(SECOND)
    world.crash("b", silently=silently)
    world.run_for(BYPASSED)
    assert active(world, "a") == ["c"]
    world.publish("p", "p", "t", {})
    world.run_for(SECOND)
    world.restart("b")
    world.run_until(lambda: "b" in established(world, "a") and "b" in established(world, "c"))
    assert active(world, "a") == ["b"]
    assert active(world, "c") == ["b"]
    world.run_for(RECOVERED)
    world.publish("p", "p", "t", {})
    world.run_for(SECOND)
    assert delivered(world) == [1, 2, 3]
    assert_primary_only(world, [*chain("p", "a", "b", "c"), ("c", "s")])


@pytest.mark.parametrize("delta", range(5))
def test_p0_96_the_constants_of_table_1(delta: int) -> None:
    """Δ = δ+1, and a path that travels with a message names at most 3δ+1 brokers.

    The size of the partition tables (2δ) belongs to publisher order and is tested there.

    Reference: 000, section VIII and table I (P0-96)
    """
    world = start_chain("a", "b", delta=delta)
    overlay = world.broker("a").overlay
    assert overlay.topology.radius == delta + 1
    path = tuple(f"n{k}" for k in range(20))
    assert overlay.extended(path, "b") == (*path, "a")[-(3 * delta + 1) :]
    assert overlay.extended((), "b") == (), "who does not know the way cannot tell it"


def test_p0_96_a_path_over_a_bypass_names_the_brokers_between() -> None:
    """The path of a message stays a path of the primary tree when the message goes round a failure.

    Reference: 000, section VIII (P0-96)
    """
    world = start_tree(kary_tree(5, 1), delta=3)
    assert world.broker("b0").overlay.extended(("x",), "b3") == ("x", "b0", "b1", "b2")
