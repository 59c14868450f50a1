"""Paper 003, section 4.6: joining, alone, side by side, and while things fail."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import pytest

from gapless.core.broker import Broker
from gapless.core.leaf import Leaf
from gapless.core.messages import Joined, JoinedConfirmed, JoinRequest, Message, PartialTopology, Ping
from gapless.core.model import MILLISECOND, SECOND, Link, Micros, NodeId, OrderName, Topic, link
from gapless.core.orders.best_effort import BestEffortBroker
from gapless.core.overlay.joining import JOIN_TRANSITIONS, JoinState
from gapless.simulation.network import Latency
from gapless.simulation.trees import kary_tree, random_tree
from gapless.simulation.world import World
from support import (
    BYPASSED,
    RECOVERED,
    Messages,
    all_joined,
    assert_bypass,
    assert_equation_1,
    assert_primary_only,
    chain,
    equation_1,
    join_at,
    join_one_by_one,
    joined_at,
    live,
    own_links,
    paths_from,
    start_chain,
    start_tree,
    tree_of,
)

FIGURE_4 = {(JoinState.DETACHED, JoinState.ATTACHED), (JoinState.ATTACHED, JoinState.VALID_JOINED)}
GIVEN_UP: Micros = 11 * SECOND
"""Longer than a marked link is kept that no join stands behind."""


def within(tree_links: list[Link], centre: NodeId, radius: int) -> set[NodeId]:
    return set(paths_from(tree_of(tree_links), centre, radius))


def record_states(world: World, name: NodeId, states: list[JoinState]) -> None:
    """Keep the states that a broker goes through, over all its lives."""

    def look(node: Broker | Leaf) -> None:
        state = node.overlay.joining.state
        if not states or states[-1] is not state:
            states.append(state)

    world.hosts[name].stepped = look


def finish(world: World) -> None:
    """Let everything come to rest, then it must be a tree that everybody knows and uses."""
    world.run_until(lambda: all_joined(world), within=90 * SECOND)
    world.run_for(RECOVERED)
    if any(world.broker(name).overlay.topology.links(marked=True) for name in world.brokers()):
        world.run_for(GIVEN_UP)
    assert_equation_1(world)
    assert_bypass(world, own_links(world))
    assert_primary_only(world, own_links(world))


# -- one join ------------------------------------------------------------------------------------------------


def test_d3_31_the_table_of_states_is_figure_4() -> None:
    """DETACHED, ATTACHED, VALID_JOINED, in this order.

    Our implementation lets the first broker of a network, which has nobody to ask, be joined at once.

    Reference: 003, section 4.6 and figure 4 (D3-31)
    """
    table = {(old, new) for old, following in JOIN_TRANSITIONS.items() for new in following}
    assert table == FIGURE_4 | {(JoinState.DETACHED, JoinState.VALID_JOINED)}


@pytest.mark.parametrize("delta", range(4))
def test_d3_31_a_joining_node_follows_figure_4(delta: int) -> None:
    """A node is ATTACHED when its join point has answered and VALID_JOINED when all who should know it do.

    Reference: 003, section 4.6 and figure 4 (D3-31)
    """
    world = start_chain("a", "m", "b", delta=delta)
    world.add_broker("n", join=("m",))
    states = [joined_at(world, "n")]
    record_states(world, "n", states)
    world.run_until(lambda: all_joined(world))
    assert states == [JoinState.DETACHED, JoinState.ATTACHED, JoinState.VALID_JOINED]


@pytest.mark.parametrize("delta", range(4))
@pytest.mark.parametrize("fanout", [1, 3])
def test_d3_32_equation_1_holds_after_every_join(delta: int, fanout: int) -> None:
    """A valid link is in the topology of a joined node iff both its ends lie within δ+1 of it.

    Reference: 003, section 4.6 and equation 1 (D3-32)
    """
    links = random_tree(14, fanout, Random(delta))
    for size in (2, 7, 14):
        part = [each for each in links if all(int(name[1:]) < size for name in each)]
        world = World(seed=size, delta=delta)
        join_one_by_one(world, part, "b0")
        assert_equation_1(world, part)


@pytest.mark.parametrize("delta", range(4))
def test_d3_33_phase_1_gives_the_links_within_delta_of_the_join_point(delta: int) -> None:
    """The join point adds the marked link and answers with the links whose ends lie within δ of it.

    Reference: 003, section 4.6 and algorithm 2 (D3-33)
    """
    links = random_tree(20, 3, Random(7))
    world = start_tree(links, delta=delta)
    sent = Messages(world)
    world.add_broker("n", join=("b3",))
    while joined_at(world, "n") is JoinState.DETACHED:
        world.run_for(100)
    ((source, target, answer),) = sent.of(PartialTopology)
    assert (source, target) == ("b3", "n")
    near = within(links, "b3", delta)
    assert set(answer.valid) == {each for each in links if set(each) <= near}
    assert answer.marked == (link("b3", "n"),)
    assert world.broker("b3").overlay.topology.is_marked(link("b3", "n"))


def test_x_d3_06_without_delta_a_node_still_learns_its_own_link() -> None:
    """With δ = 0 the links within δ of the join point are none; the node must know its own link all the same.

    Reference: 003, algorithm 2; X-D3-06
    """
    world = start_chain("a", "m", "b", delta=0)
    sent = Messages(world)
    world.add_broker("n", join=("m",))
    world.run_until(lambda: all_joined(world))
    assert [(each.valid, each.marked) for _, _, each in sent.of(PartialTopology)] == [((), (("m", "n"),))]
    assert world.broker("n").overlay.topology.links(marked=False) == [("m", "n")]
    assert "n" in world.broker("m").overlay.sessions.up, "the join point watches the joining node"


@pytest.mark.parametrize("delta", range(4))
def test_d3_34_exactly_the_nodes_within_delta_of_the_join_point_learn_the_link(delta: int) -> None:
    """The J message goes to the nodes within δ of the join point, and all of them confirm.

    Reference: 003, section 4.6 (D3-34)
    """
    links = random_tree(25, 3, Random(3))
    world = start_tree(links, delta=delta)
    sent = Messages(world)
    world.add_broker("n", join=("b2",))
    world.run_until(lambda: all_joined(world))
    near = within(links, "b2", delta)
    told = [target for _, target, _ in sent.of(Joined)]
    assert sorted(told) == sorted(near), "each of them once"
    asked = [(source, target) for source, target, _ in sent.of(Joined)]
    confirmed = [(target, source) for source, target, _ in sent.of(JoinedConfirmed)]
    assert sorted(confirmed) == sorted(asked)
    know = {name for name in world.brokers() if "n" in world.broker(name).overlay.topology}
    assert know == near | {"n"}


def test_d3_35_a_new_broker_knows_the_subscriptions_before_it_is_joined() -> None:
    """In phase 2 a joining broker gets the subscriptions of the network from its join point.

    Reference: 003, section 4.6 (D3-35)
    """
    topic = Topic("t", OrderName.BEST_EFFORT)
    world = start_chain("a", "m", "b", delta=2, topics={"t": topic})
    for name in ("a", "m", "b"):
        world.add_client(f"c{name}", name)
    world.run_for(SECOND)
    for name in ("a", "m", "b"):
        world.subscribe(f"c{name}", f"s{name}", "t", "")
    world.run_for(SECOND)
    known: list[set[str]] = []

    def look(node: Broker | Leaf) -> None:
        order = node.orders[OrderName.BEST_EFFORT]
        assert isinstance(order, BestEffortBroker)
        if node.overlay.is_joined:
            known.append(set(order.routes))

    world.add_broker("n", join=("m",)).stepped = look
    world.run_until(lambda: all_joined(world))
    assert known[0] == {"sa", "sm", "sb"}


@pytest.mark.parametrize("delta", range(1, 4))
def test_d3_36_a_node_makes_the_link_valid_when_all_behind_it_have_confirmed(delta: int) -> None:
    """A node marks the link when it forwards the J message and makes it valid when the whole branch behind
    it has confirmed. Recipients lie behind the node as seen from the joining one, which is none itself.

    Reference: 003, section 4.6, RCPT and update; X-D3-05 (D3-36)
    """
    links = random_tree(16, 3, Random(5))
    tree = tree_of([*links, link("b1", "n")])
    world = start_tree(links, delta=delta)
    near = within(links, "b1", delta)
    paths = paths_from(tree, "n", len(tree))
    checked: list[NodeId] = []

    def tap(source: NodeId, target: NodeId, message: Message) -> None:
        if isinstance(message, Joined) and source != "n":
            assert world.broker(source).overlay.topology.is_marked(link("b1", "n"))
            assert source in paths[target], "away from the joining node"
            assert target != "n"
        if isinstance(message, JoinedConfirmed):
            behind = [node for node in near if source in paths[node]]
            assert all(world.broker(node).overlay.topology.is_valid(link("b1", "n")) for node in behind)
            checked.append(source)

    world.network.tap = tap
    world.add_broker("n", join=("b1",))
    world.run_until(lambda: all_joined(world))
    assert sorted(checked) == sorted(near)


# -- joins side by side --------------------------------------------------------------------------------------


def schedules(count: int, *, seed: int) -> list[tuple[int, Latency, list[Micros]]]:
    """Seeds, latencies with long tails, and moments at which joins begin: at once, in both orders, apart."""
    rng = Random(seed)
    made = []
    for k in range(count):
        latency = Latency(rng.choice((1, 5, 20)) * MILLISECOND, tail_chance=rng.choice((0.0, 0.1, 0.5)))
        spread = rng.choice((1, 10, 60)) * MILLISECOND
        made.append((k, latency, [rng.randrange(spread) for _ in range(6)]))
    return made


@pytest.mark.parametrize("delta", range(4))
def test_d3_37_concurrent_joins_at_one_join_point(delta: int) -> None:
    """Nodes that join at the same point at the same time learn of each other.

    Reference: 003, lemma 6 (D3-37)
    """
    for seed, latency, moments in schedules(40, seed=delta):
        world = World(seed=seed, delta=delta, latency=latency)
        world.add_tree(chain("a", "m", "b"))
        joiners = ["n1", "n2", "n3"][: 2 + seed % 2]
        for name, moment in zip(joiners, moments, strict=False):
            join_at(world, SECOND + moment, name, "m")
        world.run(until=2 * SECOND)
        world.run_until(lambda: all_joined(world))  # noqa: B023
        assert_equation_1(world, [*chain("a", "m", "b"), *(link("m", name) for name in joiners)])


@pytest.mark.parametrize(("delta", "apart"), [(d, a) for d in range(1, 4) for a in range(1, d + 1)])
def test_d3_38_concurrent_joins_near_each_other(delta: int, apart: int) -> None:
    """Nodes that join at points at most δ apart learn of each other, whichever wave is faster.

    Reference: 003, lemma 6 (D3-38)
    """
    names = [f"b{k}" for k in range(6)]
    for seed, latency, moments in schedules(30, seed=10 * delta + apart):
        world = World(seed=seed, delta=delta, latency=latency)
        world.add_tree(chain(*names))
        joins = {"n1": "b1", "n2": names[1 + apart]}
        for name, moment in zip(joins, moments, strict=False):
            join_at(world, SECOND + moment, name, joins[name])
        world.run(until=2 * SECOND)
        world.run_until(lambda: all_joined(world))  # noqa: B023
        assert_equation_1(world, [*chain(*names), *(link(*each) for each in joins.items())])


@pytest.mark.parametrize("delta", range(4))
def test_d3_38_a_whole_network_joins_at_once(delta: int) -> None:
    """Whoever asks a node that is not joined yet asks again: in the end all are in one tree.

    Reference: 003, lemma 6 (D3-38)
    """
    for seed, latency, _ in schedules(8, seed=delta):
        world = World(seed=seed, delta=delta, latency=latency)
        rng = Random(seed)
        for k in rng.sample(range(10), 10):
            points = rng.sample(range(k), min(k, rng.choice((1, 1, 2))))
            world.add_broker(f"b{k}", join=tuple(f"b{point}" for point in points))
        finish(world)


# -- joins while things fail ---------------------------------------------------------------------------------


def join_beside_the_dead(delta: int, dead: tuple[NodeId, ...], rng: Random) -> None:
    links = kary_tree(15, 2)
    world = start_tree(links, delta=delta, seed=rng.randrange(1000))
    for name in dead:
        world.crash(name, silently=rng.random() < 0.5)
    world.run_for(rng.choice((0, BYPASSED)))
    point = rng.choice(live(world))
    world.add_broker("n", join=(point,))
    world.run_until(lambda: world.broker("n").overlay.is_joined)
    tree = tree_of([*links, link(point, "n")])
    for name in live(world):
        known = world.broker(name).overlay.topology.links(marked=False)
        assert set(known) == equation_1(tree, name, delta), (dead, point, name)
    for name in dead:
        world.restart(name)
    world.run_for(RECOVERED)
    assert_equation_1(world, [*links, link(point, "n")])
    assert_primary_only(world, [*links, link(point, "n")])


def test_d3_47_joins_succeed_beside_one_dead_broker_anywhere() -> None:
    """All operations are possible while up to δ nodes are not operational; here: joins, δ = 1.

    Reference: 003, section 5 (D3-47)
    """
    for k in range(15):
        join_beside_the_dead(1, (f"b{k}",), Random(k))


@pytest.mark.parametrize("delta", [2, 3])
def test_d3_47_joins_succeed_beside_delta_dead_brokers(delta: int) -> None:
    """All operations are possible while up to δ nodes are not operational; here: joins.

    Reference: 003, section 5 (D3-47)
    """
    for seed in range(20):
        rng = Random(100 * delta + seed)
        join_beside_the_dead(delta, tuple(f"b{k}" for k in rng.sample(range(15), delta)), rng)


def crash_in_the_middle(world: World, victim: NodeId, after: int, mode: str, downtime: Micros) -> None:
    """Kill a node right after the n-th message of a join was sent, and start it again later."""
    count = 0

    def crash(_: None) -> None:
        host = world.hosts[victim]
        if mode == "between the halves":
            host.crash_next = True
        elif host.is_up:
            world.crash(victim, silently=mode == "silently")
        world.at(world.now + downtime, restart)

    def restart(_: None) -> None:
        world.hosts[victim].crash_next = False
        if not world.hosts[victim].is_up:
            world.restart(victim)

    def tap(source: NodeId, target: NodeId, message: Message) -> None:
        nonlocal count
        if "n" in (source, target) and not isinstance(message, Ping):
            count += 1
            if count == after:
                world.at(world.now, crash)

    world.network.tap = tap


MODES = ("loudly", "silently", "between the halves")
DOWNTIMES = (30 * MILLISECOND, 3 * SECOND)


@pytest.mark.parametrize("delta", range(3))
def test_x_d3_15_the_join_point_crashes_at_any_message(delta: int) -> None:
    """A join survives the crash of the join point in phase 1 and in phase 2, and no marked link stays.

    Our implementation: a node that has no answer yet asks another join point. An ATTACHED node stays with its
    own (some may hold the link as valid) and announces itself around it or when it is back.

    Reference: 003, section 4.6; X-D3-15
    """
    for after, mode, downtime in product(range(1, 9), MODES, DOWNTIMES):
        world = start_chain("a", "m", "b", delta=delta, seed=after)
        crash_in_the_middle(world, "m", after, mode, downtime)
        world.add_broker("n", join=("m", "b"))
        finish(world)
        assert len(own_links(world)) == 3


@pytest.mark.parametrize("delta", range(3))
def test_x_d3_15_the_joining_node_crashes_at_any_message(delta: int) -> None:
    """A joining node may crash in every phase; when it returns it goes on or begins again.

    Reference: 003, section 4.6; X-D3-15
    """
    for after, mode, downtime in product(range(1, 9), MODES, DOWNTIMES):
        world = start_chain("a", "m", "b", delta=delta, seed=after)
        crash_in_the_middle(world, "n", after, mode, downtime)
        states: list[JoinState] = []
        world.add_broker("n", join=("m", "b"))
        record_states(world, "n", states)
        finish(world)
        assert states[-1] is JoinState.VALID_JOINED
        steps = set(pairwise(states))
        assert steps <= FIGURE_4, "a life begins where the store says, never further back"


def test_x_d3_15_a_join_that_is_never_finished_leaves_no_trace() -> None:
    """The marked link of a node that failed in phase 1 for good is removed, and others can join.

    Reference: 003, section 4.6; X-D3-15
    """
    for first_broker, silently in product((True, False), repeat=2):
        world = World(delta=1)
        world.add_broker("m") if first_broker else world.add_tree([("a", "m")])
        sent = Messages(world)
        world.run_for(SECOND)
        world.add_broker("n", join=("m",))
        world.run_until(lambda: bool(sent.of(JoinRequest)))  # noqa: B023
        while "n" not in world.broker("m").overlay.topology:
            world.run_for(100)
        world.crash("n", silently=silently)
        if first_broker:
            world.crash("m")
            world.restart("m")
        world.run_for(GIVEN_UP)
        assert "n" not in world.broker("m").overlay.topology
        world.add_broker("k", join=("m",))
        world.run_until(lambda: world.broker("k").overlay.is_joined)  # noqa: B023


@pytest.mark.parametrize("delta", range(1, 4))
def test_x_d3_15_a_node_that_was_away_in_phase_2_learns_what_it_missed(delta: int) -> None:
    """A node is ATTACHED and crashes before it can tell anybody; its join point forgets it, others join.
    When it returns, it is told what is new before it is joined.

    Reference: 003, section 4.6; X-D3-15
    """
    world = start_chain("a", "m", delta=delta)

    def tap(source: NodeId, target: NodeId, message: Message) -> None:
        if isinstance(message, PartialTopology) and target == "n":
            world.hosts["n"].crash_next = True  # it stores the answer and does no more

    world.network.tap = tap
    world.add_broker("n", join=("m",))
    world.run_until(lambda: not world.hosts["n"].is_up)
    world.network.tap = None
    world.run_for(GIVEN_UP)
    assert "n" not in world.broker("m").overlay.topology
    world.add_broker("k", join=("m",))
    world.run_until(lambda: world.broker("k").overlay.is_joined)
    world.restart("n")
    assert joined_at(world, "n") is JoinState.ATTACHED
    world.run_until(lambda: world.broker("n").overlay.is_joined)
    assert_equation_1(world, [("a", "m"), ("k", "m"), ("m", "n")])


def test_x_d3_15_an_attached_node_without_a_way_waits_quietly() -> None:
    """An ATTACHED node that reaches nobody for long keeps its join point and does not spin.

    Reference: 003, section 4.6; X-D3-15
    """
    world = start_chain("a", "m", delta=1)
    world.add_broker("k", join=("m",))
    world.add_broker("n", join=("m",))
    world.run_until(lambda: joined_at(world, "n") is JoinState.ATTACHED)
    for name in ("a", "m", "k"):
        world.crash(name)
    world.run_for(60 * SECOND)
    assert joined_at(world, "n") is JoinState.ATTACHED
    for name in ("a", "m", "k"):
        world.restart(name)
    finish(world)
    assert own_links(world) == {("a", "m"), ("k", "m"), ("m", "n")}


@pytest.mark.parametrize("seed", range(25))
def test_x_d3_15_joins_while_links_are_cut(seed: int) -> None:
    """Nodes join while links are cut, in one direction or both, also the one to their join point.

    Reference: 003, section 4.6; X-D3-15
    """
    rng = Random(seed)
    world = World(seed=seed, delta=rng.randrange(4))
    world.add_tree(chain("a", "m", "b", "c"))
    world.run_for(SECOND)
    joins = {"n1": ("m", "c"), "n2": ("b",), "n3": ("n1", "a")}
    for name, points in joins.items():
        moment = world.now + rng.randrange(50 * MILLISECOND)
        join_at(world, moment, name, *points)
    world.run_for(50 * MILLISECOND)
    for _ in range(4):
        pair = rng.sample(world.brokers(), 2)
        world.cut(*pair, one_way=rng.random() < 0.5)
        world.at(
            world.now + rng.choice((100, 2000, 15000)) * MILLISECOND, lambda pair: world.heal(*pair), pair
        )
        world.run_for(rng.randrange(40 * MILLISECOND))
    world.run_for(16 * SECOND)
    finish(world)
