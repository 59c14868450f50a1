"""Paper 003, sections 4.1 to 4.3: the model, its notation, and who knows whom."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.broker import Broker
from gapless.core.leaf import Leaf
from gapless.core.messages import BestEffortUnsubscribe, JoinRefused, JoinRequest, Message, PartialTopology
from gapless.core.messages.overlay import NodeState
from gapless.core.model import MILLISECOND, SECOND, link
from gapless.core.overlay.joining import JoinState
from gapless.core.overlay.overlay import STATE_TRANSITIONS
from gapless.core.overlay.sessions import Timing
from gapless.simulation.trees import random_tree
from gapless.simulation.world import World
from support import (
    BYPASSED,
    RECOVERED,
    Messages,
    Wire,
    active,
    all_joined,
    assert_bypass,
    assert_equation_1,
    assert_primary_only,
    chain,
    established,
    join_one_by_one,
    joined_at,
    paths_from,
    start_chain,
    start_tree,
    tree_of,
)

FIGURE_2 = {
    (NodeState.FAILED, NodeState.RECOVERING),
    (NodeState.RECOVERING, NodeState.OPERATIONAL),
    (NodeState.RECOVERING, NodeState.FAILED),
    (NodeState.OPERATIONAL, NodeState.FAILED),
}
TIMING = Timing()


def note(number: int) -> Message:
    """A message that can be told from others."""
    return BestEffortUnsubscribe(str(number))


def numbers(messages: list[Message]) -> list[int]:
    return [int(each.subscription) for each in messages if isinstance(each, BestEffortUnsubscribe)]


def state_of(world: World, name: str) -> NodeState:
    node = world.hosts[name].node
    return NodeState.FAILED if node is None else node.overlay.state


def view(world: World, of: str, at: str) -> NodeState:
    """α: what one broker believes of another."""
    session = world.broker(at).overlay.sessions.up.get(of)
    return NodeState.FAILED if session is None else session.state


def test_d3_04_a_node_is_addressed_by_its_name() -> None:
    """A node is a process with a communication layer and a failure detector; its globally unique id is also
    its address, so whoever knows a name can open a session.

    Reference: 003, section 4.1 (D3-04)
    """
    world = start_chain("a", "b", "c")
    for name in world.brokers():
        for peer, session in world.broker(name).overlay.sessions.up.items():
            assert session.identity == world.broker(peer).identity
            assert session.identity.node == peer
    world.crash("b", silently=True)
    world.run_for(BYPASSED)
    assert established(world, "a") == {"c"}, "a has never talked to c before"


@pytest.mark.parametrize("seed", range(3))
def test_d3_05_a_crash_loses_everything_but_the_store_any_number_of_times(seed: int) -> None:
    """The process data and the queues of a node are lost when it crashes; it may do so again and again.

    Our implementation keeps its links and the number of its incarnation (X-P0-15) in stable storage.

    Reference: 003, section 4.1 (D3-05)
    """
    links = random_tree(9, 2, Random(seed))
    world = start_tree(links, seed=seed)
    rng = Random(seed)
    lives = dict.fromkeys(world.brokers(), 1)
    for _ in range(25):
        victim = rng.choice(world.brokers())
        before = world.broker(victim)
        world.crash(victim, silently=rng.random() < 0.5)
        world.run_for(rng.choice((1, 30, 1500)) * MILLISECOND)
        world.restart(victim)
        lives[victim] += 1
        assert world.broker(victim) is not before
        assert world.broker(victim).overlay.sessions.up == {}
        world.run_for(rng.choice((1, 30, 1500)) * MILLISECOND)
    world.run_for(RECOVERED)
    assert {name: world.broker(name).identity.incarnation for name in lives} == lives
    assert_equation_1(world, links)
    assert_primary_only(world, links)


def test_x_p0_15_peers_see_which_life_they_talk_to() -> None:
    """Numbers that a node gave before a crash must not mix with later ones: each life has its own.

    Reference: 000, section VI; X-P0-15
    """
    world = start_chain("a", "b")
    for life in (1, 2, 3):
        assert world.broker("a").overlay.sessions.up["b"].incarnation == life
        world.crash("b")
        world.restart("b")
        world.run_for(RECOVERED)


def test_d3_06_the_table_of_states_is_figure_2() -> None:
    """OPERATIONAL, FAILED and RECOVERING, and the ways between them.

    Our implementation lets a new node, which has nothing to recover, be OPERATIONAL at once. A crash is not
    in the table because no node lives to take note of it.

    Reference: 003, section 4.1 and figure 2 (D3-06)
    """
    table = {(old, new) for old, following in STATE_TRANSITIONS.items() for new in following}
    crashes = {(state, NodeState.FAILED) for state in (NodeState.OPERATIONAL, NodeState.RECOVERING)}
    assert table | crashes == FIGURE_2 | {(NodeState.FAILED, NodeState.OPERATIONAL)}


@pytest.mark.parametrize("seed", range(4))
def test_d3_06_brokers_follow_figure_2(seed: int) -> None:
    """A node that returns is RECOVERING until it is OPERATIONAL again, and it may fail meanwhile.

    Reference: 003, section 4.1 and figure 2 (D3-06)
    """
    world = start_tree(random_tree(8, 2, Random(seed)), seed=seed)
    rng = Random(seed)
    last = {name: state_of(world, name) for name in world.brokers()}
    seen = set()

    def look(name: str) -> None:
        state = state_of(world, name)
        if state is not last[name]:
            seen.add((last[name], state))
            last[name] = state

    for name, host in world.hosts.items():
        host.stepped = lambda _, name=name: look(name)
    for _ in range(20):
        victim = rng.choice(world.brokers())
        world.crash(victim)
        look(victim)
        world.run_for(rng.choice((1, 100)) * MILLISECOND)
        world.restart(victim)
        look(victim)
        world.run_for(rng.choice((3, 8, 200, 900)) * MILLISECOND)
    world.run_for(RECOVERED)
    assert seen == FIGURE_2
    assert set(last.values()) == {NodeState.OPERATIONAL}


def test_d3_07_what_a_node_believes_of_another() -> None:
    """α is the view that N has of the state of M; it is FAILED if N knows nothing of M.

    Reference: 003, section 4.1 (D3-07)
    """
    world = start_chain("a", "b", "c")
    assert view(world, of="b", at="a") is NodeState.OPERATIONAL
    assert view(world, of="c", at="a") is NodeState.FAILED, "they have no session"
    world.crash("b", silently=True)
    assert view(world, of="b", at="a") is NodeState.OPERATIONAL, "views need not be accurate at all times"
    world.run_for(BYPASSED)
    assert view(world, of="b", at="a") is NodeState.FAILED
    world.network.slowness["c", "b"] = 500  # so that b waits for what c knows
    world.restart("b")
    world.run_until(lambda: view(world, of="b", at="a") is NodeState.RECOVERING)
    assert state_of(world, "b") is NodeState.RECOVERING
    world.network.slowness.clear()
    world.run_until(lambda: view(world, of="b", at="a") is NodeState.OPERATIONAL)
    assert state_of(world, "b") is NodeState.OPERATIONAL


@pytest.mark.parametrize("seed", range(5))
def test_d3_08_queues_are_fifo_and_live_as_long_as_their_connection(seed: int) -> None:
    """A node has an output queue for each connection; messages leave and arrive in order, and what is in
    the queue of a connection goes with it.

    Reference: 003, section 4.1 (D3-08)
    """
    wire = Wire("a", "b", "c", seed=seed)
    wire.connect("a", "b")
    wire.connect("c", "b")
    for k in range(200):
        wire.send("a", "b", note(k))
        wire.send("c", "b", note(1000 + k))
        wire.run_for(300)
    wire.run_for(SECOND)
    arrived = numbers(wire.hosts["b"].messages())
    assert [k for k in arrived if k < 1000] == list(range(200))
    assert [k for k in arrived if k >= 1000] == list(range(1000, 1200))
    wire.cut("a", "b")
    wire.send("a", "b", note(2000))
    wire.run_for(SECOND)
    wire.close("b", "a")
    wire.heal("a", "b")
    wire.run_for(SECOND)
    wire.connect("a", "b")
    wire.send("a", "b", note(2001))
    wire.run_for(SECOND)
    assert numbers(wire.hosts["b"].messages())[400:] == [2001]


@pytest.mark.parametrize("crash", [False, True])
def test_d3_09_links_lose_nothing_unless_the_receiver_fails(crash: bool) -> None:
    """Links keep the order and are reliable: no message is lost unless the receiving node fails.

    Reference: 003, section 4.1 (D3-09)
    """
    wire = Wire("a", "b")
    wire.connect("a", "b")
    for k in range(300):
        wire.send("a", "b", note(k))
        wire.run_for(50)
    if crash:
        wire.crash("b")
    wire.run_for(SECOND)
    arrived = numbers(wire.hosts["b"].messages())
    assert arrived == list(range(len(arrived)))
    assert (len(arrived) < 300) == crash


def test_d3_10_low_priority_lets_others_go_first() -> None:
    """Messages may have low priority: what leaves a queue is the message of the highest priority that is
    nearest to the head. So a large transfer does not delay what is urgent.

    Reference: 003, section 4.1 and algorithm 7 (D3-10)
    """
    wire = Wire("a", "b")
    wire.connect("a", "b")
    wire.network.us_per_message["a", "b"] = 10 * MILLISECOND
    for k in range(100):
        wire.send("a", "b", note(k), low=True)
    wire.run_for(95 * MILLISECOND)
    for k in range(1000, 1010):
        wire.send("a", "b", note(k))
    wire.run_for(5 * SECOND)
    arrived = numbers(wire.hosts["b"].messages())
    low = [k for k in arrived if k < 1000]
    urgent = [k for k in arrived if k >= 1000]
    assert low == list(range(100))
    assert urgent == list(range(1000, 1010))
    first = arrived.index(1000)
    assert arrived[first : first + 10] == urgent, "no low one is taken while a normal one waits"
    assert 9 <= first <= 11, "only what had left the queue is before them"


def test_d3_11_the_detector_of_a_peer_sets_its_state_to_failed() -> None:
    """A node monitors each node that it is connected to, and is told when that one has failed.

    Reference: 003, section 4.1 (D3-11)
    """
    world = start_chain("a", "b", "c")
    world.crash("b", silently=True)
    fallen = world.now
    world.run_until(lambda: view(world, of="b", at="a") is NodeState.FAILED)
    overlay = world.broker("a").overlay
    assert overlay.frontier.down == ["b"]
    span = world.now - fallen
    assert TIMING.suspect_after - TIMING.ping_every - 100 * MILLISECOND <= span
    assert span <= TIMING.suspect_after + TIMING.ping_every + 100 * MILLISECOND


def test_d3_12_sessions_are_not_topology_links() -> None:
    """A topology link has no direction and is made by a join; a communication link is made when a node
    connects, wherever the tree goes.

    Reference: 003, section 4.1 (D3-12)
    """
    assert link("x", "y") == link("y", "x")
    world = start_chain("a", "b", "c")
    world.crash("b", silently=True)
    world.run_for(BYPASSED)
    overlay = world.broker("a").overlay
    assert "c" in overlay.sessions.up
    assert not overlay.topology.is_valid(("a", "c")), "a session without a link"
    assert overlay.topology.is_valid(("a", "b"))
    assert "b" not in overlay.sessions.up, "a link without a session"


def test_d3_13_a_link_is_marked_while_its_join_is_in_progress() -> None:
    """XY* is the marked copy of XY while the join that makes it goes on; XY replaces it at the end.

    Reference: 003, sections 4.1 and 4.6 (D3-13)
    """
    world = start_chain("a", "m", "b", delta=2)
    stories: dict[str, list[str]] = {name: [] for name in ("a", "m", "b", "n")}

    def look(node: Broker | Leaf) -> None:
        topology = node.overlay.topology
        valid, marked = topology.is_valid(("m", "n")), topology.is_marked(("m", "n"))
        word = "valid" if valid else "marked" if marked else "unknown"
        story = stories[node.overlay.me]
        if not story or story[-1] != word:
            story.append(word)

    world.add_broker("n", join=("m",))
    for host in world.hosts.values():
        host.stepped = look
    world.run_until(lambda: all_joined(world))
    assert stories["m"] == stories["n"] == ["unknown", "marked", "valid"]
    for name in ("a", "b"):
        assert stories[name][-1] == "valid"
    assert not any(world.broker(name).overlay.topology.links(marked=True) for name in world.brokers())


@pytest.mark.parametrize("delta", range(4))
def test_d3_14_paths(delta: int) -> None:
    """P(A,B) lists the nodes from A to B, d(A,B) is its length; append drops the head of a list that would
    become too long.

    Our implementation bounds the paths that travel at 3δ+1 nodes (000, table I) instead of δ.

    Reference: 003, section 4.1 (D3-14)
    """
    names = [f"b{k}" for k in range(delta + 2)]
    world = start_chain(*names, delta=delta)
    overlay = world.broker("b0").overlay
    for k, name in enumerate(names):
        assert overlay.topology.path(name) == names[: k + 1]
        assert overlay.topology.distance(name) == k
    path: tuple[str, ...] = ()
    for _ in range(20):
        path = overlay.extended(path, "b1")
        assert len(path) <= 3 * delta + 1
    assert overlay.extended(("x", *["y"] * (3 * delta)), "b1") == (*["y"] * (3 * delta), "b0")


def test_d3_20_only_a_joined_node_accepts_joins() -> None:
    """Only a VALID_JOINED node may accept joins, subscribe and publish.

    Reference: 003, section 4.2 (D3-20)
    """
    world = start_chain("a", "m", delta=1)
    world.network.slowness["a", "m"] = 100  # keeps the wave of the first join going
    world.add_broker("n", join=("m",))
    world.run_until(lambda: joined_at(world, "n") is JoinState.ATTACHED)
    sent = Messages(world)
    world.add_broker("k", join=("n",))
    world.run_for(200 * MILLISECOND)
    assert joined_at(world, "n") is JoinState.ATTACHED
    assert joined_at(world, "k") is JoinState.DETACHED
    answers = sent.of(JoinRefused, PartialTopology)
    assert {(source, target, type(each)) for source, target, each in answers} == {("n", "k", JoinRefused)}
    world.run_until(lambda: all_joined(world))
    assert_equation_1(world, chain("a", "m", "n", "k"))


def test_d3_20_a_detached_node_refuses_too() -> None:
    """A node that waits for its own join point accepts nobody.

    Reference: 003, section 4.2 (D3-20)
    """
    world = World()
    world.add_broker("n", join=("m",))
    world.add_broker("k", join=("n",))
    sent = Messages(world)
    world.run_for(SECOND)
    assert joined_at(world, "k") is joined_at(world, "n") is JoinState.DETACHED
    assert len(sent.of(JoinRequest)) == len(sent.of(JoinRefused)) > 1
    world.add_broker("m")
    world.run_until(lambda: all_joined(world))
    assert_equation_1(world, chain("m", "n", "k"))


@pytest.mark.parametrize("delta", range(4))
def test_d3_21_whoever_is_near_a_node_names_it(delta: int) -> None:
    """Level-1 consistency: all nodes within δ+1 of a node know it by name, and by which way.

    Reference: 003, section 4.3 (D3-21)
    """
    links = random_tree(20, 3, Random(100 + delta))
    tree = tree_of(links)
    world = World(seed=delta, delta=delta)
    join_one_by_one(world, links, "b0")
    for name in world.brokers():
        for near, path in paths_from(tree, name, delta + 1).items():
            topology = world.broker(near).overlay.topology
            assert name in topology
            assert tuple(topology.path(name)) == path[::-1]


def test_x_d3_23_a_farther_session_is_closed_after_it_has_been_drained() -> None:
    """CloseConnection is named in the paper and never used. Our implementation closes a bypassing session a
    while after a nearer one has taken over; what was sent on it before still arrives.

    Reference: 003, section 4.1; X-D3-23
    """
    world = start_chain("a", "b", "c")
    world.crash("b")
    world.run_for(BYPASSED)
    world.restart("b")
    world.run_until(lambda: active(world, "a") == ["b"] and active(world, "c") == ["b"])
    taken_over = world.now
    assert "c" in established(world, "a"), "it drains"
    world.run_until(lambda: "c" not in established(world, "a"))
    assert world.now - taken_over >= TIMING.retire_after - 20 * MILLISECOND
    world.run_for(SECOND)
    assert_bypass(world, chain("a", "b", "c"))
    assert_primary_only(world, chain("a", "b", "c"))
