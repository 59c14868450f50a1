"""Paper 003, section 6 and appendix A: brokers that return, and what they and their neighbours know then."""

from __future__ import annotations

from itertools import permutations
from random import Random

import msgspec
import pytest

from gapless.core.broker import Broker
from gapless.core.leaf import Leaf
from gapless.core.messages import (
    Log,
    Message,
    Neighbourhood,
    Publications,
    Status,
    Synced,
)
from gapless.core.messages.overlay import NodeState
from gapless.core.model import MILLISECOND, SECOND, Link, Micros, NodeId, link
from gapless.core.orders.publisher.vectors import REMEMBERED_LIVES
from gapless.core.overlay.sessions import Timing
from gapless.simulation.network import Channel, Latency
from gapless.simulation.trees import random_tree
from gapless.simulation.world import World
from support import (
    BYPASSED,
    RECOVERED,
    TOPIC,
    TOPICS,
    Messages,
    active,
    all_joined,
    assert_bypass,
    assert_equation_1,
    assert_promises,
    chain,
    confirmed,
    copies,
    delivered,
    equation_1,
    established,
    join_one_by_one,
    live,
    lives,
    paths_from,
    publish_all,
    publisher_order,
    start_network,
    subscribe_all,
    tree_of,
)

NOTICED: Micros = 300 * MILLISECOND
FORK = [link("a", "r"), link("r", "c"), link("r", "d")]
"""The recovering broker R with three sides."""
FORK_CLIENTS = {"p": "a", "s": "c", "late": "a"}


def state_of(world: World, name: NodeId) -> NodeState:
    node = world.hosts[name].node
    return NodeState.FAILED if node is None else node.overlay.state


def view(world: World, of: NodeId, at: NodeId) -> NodeState:
    session = world.broker(at).overlay.sessions.up.get(of)
    return NodeState.FAILED if session is None else session.state


def recovering(world: World, name: NodeId = "r", slow: NodeId = "d") -> None:
    """Restart a broker, and keep it RECOVERING: one of its sides takes seconds to answer."""
    world.network.slowness[slow, name] = 500
    world.restart(name)
    world.run_for(100 * MILLISECOND)
    assert state_of(world, name) is NodeState.RECOVERING


def ways(world: World, broker: NodeId) -> dict[NodeId, tuple[str, tuple[NodeId, ...]]]:
    """The subscriptions that a broker knows: by client, the selector and the way there."""
    return {
        entry.subscription.split(":")[0]: (entry.body.selector, entry.body.path)
        for entry in publisher_order(world, broker).log.after(0)
        if not entry.ended
    }


def assert_level_2(world: World, links: list[Link], selectors: dict[NodeId, str]) -> None:
    """Every running broker knows exactly these subscriptions, and the last 3δ+1 nodes of the way to each."""
    tree = tree_of(links)
    for name in live(world):
        paths = paths_from(tree, name, len(tree))
        wanted = {
            client: (
                selector,
                (client, *paths[world.homes[client]][:0:-1])[-max(1, 3 * world.delta + 1) :],
            )
            for client, selector in selectors.items()
        }
        assert ways(world, name) == wanted, name


# -- one node returns ------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", range(3))
def test_d3_62_a_node_returns_with_its_name_and_its_topology(delta: int) -> None:
    """A recovering node keeps its identifier and can restore its topology routing information.

    Reference: 003, section 6 (D3-62)
    """
    links = random_tree(10, 3, Random(62))
    world = start_network(links, {}, delta=delta)
    for name in world.brokers():
        world.crash(name)
        world.restart(name)
        overlay = world.broker(name).overlay
        assert overlay.identity.node == name
        assert overlay.identity.incarnation == 2
        assert set(overlay.topology.links()) == equation_1(tree_of(links), name, delta)
        assert state_of(world, name) is NodeState.RECOVERING
        world.run_for(RECOVERED)
        assert state_of(world, name) is NodeState.OPERATIONAL


def test_d3_63_a_recovering_node_is_told_the_ways_before_it_has_to_forward() -> None:
    """What is sent to a recovering node says how to go on: the paths from R to the recipients behind it.

    Our implementation sends no Guided messages: the log of the sender, with the ways as seen from R, comes
    before any publication on the same session.

    Reference: 003, section 6 (D3-63)
    """
    world = start_network(FORK, FORK_CLIENTS)
    subscribe_all(world, {"s": ""})
    world.crash("r", silently=True)
    publish_all(world, "p", 5)
    sent = Messages(world)
    world.restart("r")
    world.run_for(NOTICED)
    to_r = [each for _, source, target, each in sent.sent if (source, target) == ("a", "r")]
    opened = next(k for k, each in enumerate(to_r) if isinstance(each, Neighbourhood))
    first = next(k for k, each in enumerate(to_r) if k > opened and isinstance(each, Publications))
    told = {
        line.subscription.split(":")[0]: line.body.path
        for each in to_r[opened:first]
        if isinstance(each, Log)
        for line in each.entries
        if line.body is not None
    }
    assert told == {"s": ("s", "c")}, "P(R, S), and not the way from a"
    assert delivered(world, "s") == [1, 2, 3, 4, 5]


def test_d3_64_messages_that_arrive_after_the_end_of_recovery_are_like_any_other() -> None:
    """An OPERATIONAL node that gets a Guided message forwards what is in it normally.

    Our implementation has one kind of publication, so it does not matter what the receiver has become while
    it was under way. The same holds in the window between Status and the end of recovery (X-D3-08).

    Reference: 003, section 6 (D3-64)
    """
    world = start_network(FORK, FORK_CLIENTS)
    subscribe_all(world, {"s": ""})
    world.crash("r")
    world.run_for(NOTICED)
    states: dict[NodeState, int] = {}

    def look(node: Broker | Leaf) -> None:
        order = publisher_order(world, "r")
        states[node.overlay.state] = max(states.get(node.overlay.state, 0), len(order.forwarding.custody))

    world.hosts["r"].stepped = look
    world.network.slowness["d", "r"] = 20  # recovery takes a while
    publish_all(world, "p", 600, every=MILLISECOND)
    world.restart("r")
    world.run_for(2 * SECOND)
    assert states[NodeState.RECOVERING] > 0, "some came before"
    assert states[NodeState.OPERATIONAL] > 0, "and some after"
    assert delivered(world, "s") == list(range(1, 601))
    assert_promises(world)


def test_d3_65_a_recovering_node_forwards() -> None:
    """A recovering node takes part in forwarding, by what the sender knows: a publication reaches its
    subscriber through it while it recovers.

    Reference: 003, section 6.1; X-D3-11 (D3-65)
    """
    world = start_network(FORK, FORK_CLIENTS)
    subscribe_all(world, {"s": ""})
    world.crash("r")
    world.run_for(NOTICED)
    recovering(world)
    sent = Messages(world)
    publish_all(world, "p", 5)
    world.run_for(100 * MILLISECOND)
    assert state_of(world, "r") is NodeState.RECOVERING
    hops = {(source, target) for source, target, _ in copies(sent)}
    assert hops == {("p", "a"), ("a", "r"), ("r", "c"), ("c", "s")}
    assert delivered(world, "s") == confirmed(world, "p") == [1, 2, 3, 4, 5]
    world.network.slowness.clear()
    assert_promises(world)


def test_d3_65_what_enters_at_a_recovering_node_waits() -> None:
    """Only what others have decided can be forwarded by a recovering node; it cannot decide itself.

    Reference: 003, section 6.1 (D3-65)
    """
    world = start_network(FORK, {**FORK_CLIENTS, "own": "r", "far": "d"})
    subscribe_all(world, {"s": "", "far": ""})
    world.crash("r")
    recovering(world)
    world.run_until(lambda: "own" in established(world, "r"))
    publish_all(world, "own", 3)
    world.run_for(100 * MILLISECOND)
    assert state_of(world, "r") is NodeState.RECOVERING
    assert delivered(world, "s", "own") == [], "far would have missed them"
    world.network.slowness.clear()
    world.run_for(RECOVERED)
    assert delivered(world, "s", "own") == delivered(world, "far", "own") == [1, 2, 3]
    assert_promises(world)


def test_d3_66_a_node_synchronises_with_all_its_neighbours() -> None:
    """Recovery ends when all synchronisation points have told what they know, and not before.

    Reference: 003, algorithm 5, lines 2 to 10 (D3-66)
    """
    world = start_network(FORK, FORK_CLIENTS, timing=Timing(suspect_after=20 * SECOND))
    world.crash("r")
    world.run_for(NOTICED)
    synced: list[set[NodeId]] = []

    def look(node: Broker | Leaf) -> None:
        if node.overlay.state is NodeState.OPERATIONAL:
            peers = publisher_order(world, "r").peers
            synced.append({name for name, peer in peers.items() if peer.answered})

    world.hosts["r"].stepped = look
    recovering(world)
    world.run_for(SECOND)
    assert state_of(world, "r") is NodeState.RECOVERING, "d has not answered"
    assert {"a", "c"} <= {name for name, peer in publisher_order(world, "r").peers.items() if peer.answered}
    world.network.slowness.clear()
    world.run_for(RECOVERED)
    assert synced[0] == {"a", "c", "d"}


def test_d3_67_a_subscription_that_comes_during_recovery_is_there_after_it() -> None:
    """The snapshots are applied, then what came meanwhile, in order; so what R knows is the latest.

    Reference: 003, algorithm 5, lines 11 to 14 (D3-67)
    """
    world = start_network(FORK, FORK_CLIENTS)
    subscribe_all(world, {"s": "n > 0"})
    world.crash("r")
    world.run_for(NOTICED)
    recovering(world)
    world.subscribe("late", "late", TOPIC, "n > 1")
    world.run_for(100 * MILLISECOND)
    assert state_of(world, "r") is NodeState.RECOVERING
    world.network.slowness.clear()
    world.run_for(RECOVERED)
    assert state_of(world, "r") is NodeState.OPERATIONAL
    assert_level_2(world, FORK, {"s": "n > 0", "late": "n > 1"})
    assert lives(world, "late")


def test_x_d3_20_what_ends_during_recovery_is_not_brought_back() -> None:
    """A snapshot may have a subscription that ends while it is under way; removals are kept in order too.

    Reference: 003, section 6; X-D3-20
    """
    world = start_network(FORK, FORK_CLIENTS)
    subscribe_all(world, {"s": "", "late": "n > 1"})
    world.crash("r")
    world.run_for(NOTICED)
    recovering(world)
    world.unsubscribe("late", "late")
    world.run_for(100 * MILLISECOND)
    assert state_of(world, "r") is NodeState.RECOVERING
    world.network.slowness.clear()
    world.run_for(RECOVERED)
    assert_level_2(world, FORK, {"s": ""})
    assert_promises(world)


def test_x_d3_20_an_end_that_only_the_failed_broker_knew_is_not_lost() -> None:
    """The end of a subscription is on its way when the broker fails that has passed it back but not yet on.
    Those behind it still have the subscription. When all is repaired nobody must have it, and nobody may wait
    for the client that does not want it.

    Reference: 003, section 6; X-D3-20 and X-P0-19
    """
    world = start_network(chain("x", "a", "b", "c", "r", "y"), {"s": "x", "p": "y"})
    subscribe_all(world, {"s": ""})
    world.network.slowness["r", "y"] = 20
    world.unsubscribe("s", "s")
    world.run_until(lambda: publisher_order(world, "c").log.subscriptions() == [], within=SECOND)
    assert set(ways(world, "y")) == {"s"}
    world.crash("r")
    world.network.slowness.clear()
    world.restart("r")
    world.run_for(2 * RECOVERED)
    publish_all(world, "p", 3)
    world.run_for(RECOVERED)
    assert not any(ways(world, name) for name in world.brokers())
    assert confirmed(world, "p") == [1, 2, 3]
    assert_promises(world)


def test_x_d3_20_the_end_of_a_subscription_is_forgotten_everywhere() -> None:
    """A recovering broker hears of the end from one side before it hears of the subscription from the other.
    In the end nothing of either is left.

    Reference: 003, section 6; X-D3-20 and X-P0-19
    """
    for seed in range(8):
        world = start_network(chain("x", "r", "y"), {"s": "x"}, seed=seed, latency=Latency(tail_chance=0))
        subscribe_all(world, {"s": ""})
        world.unsubscribe("s", "s")
        while ways(world, "x"):
            world.run_for(100)
        world.crash("r")
        world.run_for(10 * MILLISECOND)
        world.network.slowness["y", "r"] = 4
        world.network.slowness["y", "x"] = 10
        world.restart("r")
        world.run_for(2 * SECOND)
        world.network.slowness.clear()
        world.run_for(2 * RECOVERED)
        left = {name: publisher_order(world, name).log.subscriptions() for name in world.brokers()}
        assert left == {"x": [], "r": [], "y": []}


def test_d3_68_the_end_of_recovery_is_told_to_all_peers() -> None:
    """R tells all its connections that it is OPERATIONAL; they note it.

    Reference: 003, algorithm 5, lines 15 to 18 (D3-68)
    """
    world = start_network(FORK, FORK_CLIENTS)
    world.crash("r")
    world.run_for(NOTICED)
    sent = Messages(world)
    recovering(world)
    assert sent.of(Status) == []
    world.network.slowness.clear()
    world.run_until(lambda: state_of(world, "r") is NodeState.OPERATIONAL)
    told = {target for source, target, status in sent.of(Status) if status.state is NodeState.OPERATIONAL}
    assert told == {"a", "c", "d"}
    world.run_for(SECOND)
    assert {view(world, of="r", at=name) for name in ("a", "c", "d")} == {NodeState.OPERATIONAL}


def test_d3_69_numbers_of_a_new_life_are_not_mixed_with_old_ones() -> None:
    """REJOIN updates the timestamps of R at its neighbours, so that what R sends after its return is not
    taken for old.

    Our implementation needs no message for it: the numbers begin at 1 again, in a new incarnation, and
    numbers of different lives are not compared.

    Reference: 003, algorithm 5, lines 19 to 23; X-D3-14 (D3-69)
    """
    world = start_network(chain("a", "r", "c"), {"p": "a", "s": "c"})
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 10)
    world.run_for(SECOND)
    world.crash("r")
    world.restart("r")
    world.run_for(RECOVERED)
    sent = Messages(world)
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    steps = [each.vector[-1] for source, target, each in copies(sent) if (source, target) == ("r", "c")]
    assert steps == [("r", 2, 1), ("r", 2, 2), ("r", 2, 3)]
    assert publisher_order(world, "c").forwarding.vectors.is_duplicate((("r", 1, 10),))
    assert delivered(world, "s") == list(range(1, 14))
    assert_promises(world)


def test_d3_70_what_a_synchronisation_point_sends_and_in_which_order() -> None:
    """The state and the topology, then the subscriptions; R asks by connecting.

    Reference: 003, algorithms 6 and 7 (D3-70)
    """
    world = start_network(FORK, FORK_CLIENTS)
    subscribe_all(world, {"s": "", "late": ""})
    world.crash("r", silently=True)
    publish_all(world, "p", 5)
    sent = Messages(world)
    world.restart("r")
    world.run_for(NOTICED)
    to_r = [each for _, source, target, each in sent.sent if (source, target) == ("a", "r")]
    kinds = [type(each) for each in to_r]
    opened = kinds.index(Neighbourhood)
    first = to_r[opened]
    assert isinstance(first, Neighbourhood)
    assert first.state is NodeState.OPERATIONAL
    assert set(first.valid) == {("a", "r"), ("c", "r"), ("d", "r")}
    later = [kind for kind in kinds[opened:] if kind in (Neighbourhood, Log, Synced, Publications)]
    assert later[:2] == [Neighbourhood, Log]
    assert later.index(Publications) > 1
    assert later.index(Synced) > 1


@pytest.mark.parametrize("victim", ["a", "r", "c"])
@pytest.mark.parametrize("span_ms", [1, 30, 300, 700])
def test_d3_71_undetected_failure(victim: NodeId, span_ms: int) -> None:
    """A synchronisation point may hear from R before it has noticed that R failed: it tears the old
    connection down, and what was unconfirmed on it is sent again. Nothing is lost, nothing comes twice.

    Reference: 003, algorithm 7, lines 4 to 12; X-D3-16 (D3-71)
    """
    world = start_network(chain("a", "r", "c"), {"p": "a", "s": "c"}, seed=span_ms)
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 300, every=5 * MILLISECOND)
    for _ in range(2):
        world.run_for(100 * MILLISECOND)
        world.crash(victim, silently=True)
        world.run_for(span_ms * MILLISECOND)
        neighbour = {"a": "r", "r": "a", "c": "r"}[victim]
        assert victim in established(world, neighbour), "it has not noticed"
        world.restart(victim)
    world.run_for(RECOVERED)
    assert delivered(world, "s") == confirmed(world, "p") == list(range(1, 301))
    assert_promises(world)


@pytest.mark.parametrize("delta", [1, 2])
def test_d3_72_the_topology_after_recovery_is_that_of_equation_1(delta: int) -> None:
    """PAR_TOP has the links on the neighbour's side that are within δ+1 of R; together they make up what R
    must know, also of those who joined while R was away.

    Reference: 003, algorithm 7, line 13 (D3-72)
    """
    links = [*chain("x", "a", "r", "c", "y"), link("a", "b")]
    world = start_network(links, {}, delta=delta)
    world.crash("r")
    world.run_for(NOTICED)
    world.add_broker("n", join=("c",))
    world.add_broker("m", join=("a",))
    world.run_until(lambda: all(world.broker(name).overlay.is_joined for name in live(world)))
    world.restart("r")
    world.run_for(RECOVERED)
    assert state_of(world, "r") is NodeState.OPERATIONAL
    assert_equation_1(world, [*links, link("c", "n"), link("a", "m")])


@pytest.mark.parametrize("delta", [1, 2])
def test_d3_73_the_subscriptions_after_recovery_are_level_2_consistent(delta: int) -> None:
    """PAR_SUB has the subscriptions from R's point of view; together they are what R would have had, also of
    those that began or ended while R was away.

    Reference: 003, algorithm 7, line 14 (D3-73)
    """
    links = random_tree(9, 2, Random(73))
    homes = {f"s{k}": f"b{k}" for k in range(9)}
    world = start_network(links, homes, delta=delta)
    subscribe_all(world, {f"s{k}": f"n = {k}" for k in (0, 2, 4, 6, 8)})
    left = {f"s{k}": f"n = {k}" for k in range(9) if k != 2}
    world.crash("b3")
    world.run_for(BYPASSED)
    world.unsubscribe("s2", "s2")
    for k in (1, 3, 5, 7):
        world.subscribe(f"s{k}", f"s{k}", TOPIC, f"n = {k}")
    world.run_for(SECOND)
    world.restart("b3")
    world.run_for(2 * RECOVERED)
    assert_level_2(world, links, left)
    assert all(lives(world, client) for client in left)


def recovery_latency(subscriptions: int, monkeypatch: pytest.MonkeyPatch) -> Micros:
    """The longest way of a publication while its broker's neighbour recovers, on a line of 50 kB/s."""
    world = start_network(
        chain("a", "r", "c"),
        {"p": "a", "s": "c", "many": "a"},
        timing=Timing(suspect_after=20 * SECOND),
        latency=Latency(tail_chance=0),
    )
    subscribe_all(world, {"s": ""})
    for k in range(subscriptions):
        world.subscribe("many", f"many/{k}", TOPIC, f"n = {-1 - k}")
    world.run_until(lambda: all(lives(world, f"many/{k}") for k in range(subscriptions)))
    world.crash("r")
    world.run_for(NOTICED)
    network = world.network
    transmit = network._transmit

    def paced(channel: Channel, item: Message | None) -> None:
        if (channel.source, channel.target) == ("a", "r"):
            network.us_per_message["a", "r"] = 20 * len(msgspec.msgpack.encode(item))
        transmit(channel, item)

    monkeypatch.setattr(network, "_transmit", paced)
    network.us_per_message["a", "r"] = 20
    arrived: list[Micros] = []
    world.hosts["s"].on_deliver = lambda _, event: arrived.append(world.now - event.published_at)
    world.restart("r")
    publish_all(world, "p", 200, every=10 * MILLISECOND)
    world.run_for(20 * SECOND)
    assert len(arrived) == 200
    return max(arrived)


def test_d3_74_a_large_snapshot_does_not_delay_publications(monkeypatch: pytest.MonkeyPatch) -> None:
    """The snapshot is sent with low priority, because it may be large: publications go first, so their
    latency does not depend on how many subscriptions there are.

    Reference: 003, algorithm 7, line 20 (D3-74)
    """
    assert recovery_latency(300, monkeypatch) <= 2 * recovery_latency(0, monkeypatch)


def test_d3_75_what_was_unconfirmed_is_sent_first_and_in_order() -> None:
    """PrevOut: what was sent to R before its failure and is not confirmed is sent again, in order, before
    anything new.

    Reference: 003, algorithm 7, lines 21 to 23 (D3-75)
    """
    world = start_network(chain("a", "r", "c"), {"p": "a", "s": "c"}, latency=Latency(tail_chance=0))
    subscribe_all(world, {"s": ""})
    world.network.slowness["s", "c"] = 60
    publish_all(world, "p", 10, every=2 * MILLISECOND)
    world.run_for(60 * MILLISECOND)
    assert len(publisher_order(world, "a").forwarding.custody) == 10
    world.crash("r", silently=True)
    sent = Messages(world)
    world.restart("r")
    publish_all(world, "p", 10, every=2 * MILLISECOND)
    world.run_for(SECOND)
    again = [(each.event.sequence, each.vector[-1]) for source, target, each in copies(sent) if target == "r"]
    numbers = [sequence for sequence, _ in again]
    first = numbers.index(1)
    assert set(numbers[:first]) <= set(range(11, 21)), "into the old session, and lost with it"
    assert numbers[first:] == list(range(1, 21))
    assert {step for sequence, step in again if sequence <= 10} == {("a", 1, k) for k in range(1, 11)}
    assert delivered(world, "s") == list(range(1, 21))
    assert_promises(world)


def test_d3_76_until_its_status_arrives_r_counts_as_recovering() -> None:
    """The synchronisation point waits for the Status of R, and changes its view of it only then.

    Reference: 003, algorithm 7, lines 24 and 25 (D3-76)
    """
    world = start_network(FORK, FORK_CLIENTS)
    world.crash("r")
    world.run_for(NOTICED)
    recovering(world)
    assert view(world, of="r", at="a") is view(world, of="r", at="c") is NodeState.RECOVERING
    world.network.slowness["r", "a"] = 40
    world.network.slowness.pop(("d", "r"))
    world.run_until(lambda: state_of(world, "r") is NodeState.OPERATIONAL)
    assert view(world, of="r", at="a") is NodeState.RECOVERING, "its status is under way"
    world.run_until(lambda: view(world, of="r", at="a") is NodeState.OPERATIONAL)


# -- failures during recovery ----------------------------------------------------------------------------


@pytest.mark.parametrize("after_ms", [3, 8, 12, 20, 200])
def test_d3_77_a_synchronisation_point_fails_while_r_recovers(after_ms: int) -> None:
    """R then synchronises with the nodes behind the failed one, and recovery completes.

    Reference: 003, algorithm 3, lines 13 to 18 (D3-77)
    """
    links = chain("x", "a", "r", "c")
    world = start_network(links, {"p": "x", "s": "c", "t": "x"}, delta=2, seed=after_ms)
    subscribe_all(world, {"s": "", "t": "n > 0"})
    world.crash("r")
    publish_all(world, "p", 100, every=10 * MILLISECOND)
    world.run_for(NOTICED)
    world.network.slowness["a", "r"] = 20  # its snapshot takes a while
    world.restart("r")
    world.run_for(after_ms * MILLISECOND)
    assert state_of(world, "r") is NodeState.RECOVERING or after_ms == 200
    world.crash("a", silently=True)
    world.run_until(lambda: state_of(world, "r") is NodeState.OPERATIONAL, within=BYPASSED)
    world.run_for(BYPASSED)
    assert active(world, "r") == ["x", "c"]
    assert_level_2(world, links, {"s": "", "t": "n > 0"})
    assert delivered(world, "s") == list(range(1, 101))
    world.restart("a")
    assert_promises(world)


def test_d3_78_r_fails_while_recovering_and_leaves_nothing_behind() -> None:
    """The synchronisation point drops it; nothing is left of the attempt.

    Reference: 003, section 6.1 (D3-78)
    """
    world = start_network(FORK, FORK_CLIENTS)
    subscribe_all(world, {"s": ""})

    def sizes() -> list[tuple[int, ...]]:
        found: list[tuple[int, ...]] = []
        for name in ("a", "c", "d"):
            overlay, order = world.broker(name).overlay, publisher_order(world, name)
            sessions = overlay.sessions
            own = len(overlay.partitions.own) + len(overlay.partitions.told)
            streams = len(order.forwarding.custody.streams)
            found.append(
                (len(sessions.up), len(sessions.failed), len(order.peers), own, streams, order.log.length)
            )
        return found

    publish_all(world, "p", 20, every=5 * MILLISECOND)
    world.run_for(SECOND)
    before = sizes()
    publish_all(world, "p", 400, every=10 * MILLISECOND)
    failed_while_recovering = 0
    for k in range(12):
        world.crash("r", silently=k % 2 == 0)
        world.run_for(40 * MILLISECOND)
        world.restart("r")
        world.run_for((8 + k) * MILLISECOND)
        failed_while_recovering += state_of(world, "r") is NodeState.RECOVERING
    assert failed_while_recovering > 2
    world.run_for(2 * RECOVERED)
    assert state_of(world, "r") is NodeState.OPERATIONAL
    assert sizes() == before
    for name in ("a", "c", "d"):
        vectors = publisher_order(world, name).forwarding.vectors
        assert vectors.size() <= len(world.brokers()) * REMEMBERED_LIVES
    assert delivered(world, "s") == list(range(1, 421))
    assert_promises(world)


# -- chains ----------------------------------------------------------------------------------------------

CHAIN = chain("b0", "b1", "b2", "b3", "b4")
BROKERS = {"b0", "b1", "b2", "b3", "b4"}
CHAIN_CLIENTS = {"p": "b0", "q": "b4", "s0": "b0", "s2": "b2", "s4": "b4"}
CHAIN_SELECTORS = {"s0": "n >= 0", "s2": "n < 1000", "s4": "n < 2000"}


def chain_recovery(order: tuple[NodeId, ...], pause: Micros) -> World:
    """With δ=3, three adjacent brokers are down and return one after the other, or at once."""
    world = start_network(CHAIN, CHAIN_CLIENTS, delta=3)
    subscribe_all(world, CHAIN_SELECTORS)
    publish_all(world, "p", 100, every=20 * MILLISECOND)
    publish_all(world, "q", 100, every=20 * MILLISECOND)
    for name in order:
        world.crash(name)
    world.run_for(500 * MILLISECOND)
    for name in order:
        world.restart(name)
        world.run_for(pause)
    return world


@pytest.mark.parametrize("order", list(permutations(("b1", "b2", "b3"))), ids="-".join)
@pytest.mark.parametrize("pause_ms", [0, 7, 400])
def test_d3_79_a_chain_of_nodes_recovers_together(order: tuple[NodeId, ...], pause_ms: int) -> None:
    """Recovering nodes may synchronise with others that are recovering themselves; what they need comes
    through the chain from an OPERATIONAL node.

    Reference: 003, section 6.2 and figure 7; X-D3-12 (D3-79)
    """
    world = chain_recovery(order, pause_ms * MILLISECOND)
    world.run_for(RECOVERED)
    assert {state_of(world, name) for name in world.brokers()} == {NodeState.OPERATIONAL}
    assert_equation_1(world, CHAIN)
    assert_level_2(world, CHAIN, CHAIN_SELECTORS)
    for subscriber in CHAIN_SELECTORS:
        for publisher in ("p", "q"):
            assert delivered(world, subscriber, publisher) == list(range(1, 101))
    assert_promises(world)


def test_d3_80_publications_follow_connections_not_the_chain() -> None:
    """A node that starts to recover after the chain has formed is skipped; publications go over the
    connections that there are.

    Reference: 003, section 6.2 (D3-80)
    """
    world = start_network(CHAIN, CHAIN_CLIENTS, delta=3)
    subscribe_all(world, CHAIN_SELECTORS)
    for name in ("b1", "b2", "b3"):
        world.crash(name)
    world.run_for(NOTICED)
    world.restart("b1")
    world.restart("b3")
    world.run_for(RECOVERED)
    assert active(world, "b1") == ["b0", "b3"]
    sent = Messages(world)
    publish_all(world, "p", 1)
    world.run_for(NOTICED)
    between = {(source, target) for source, target, _ in copies(sent) if {source, target} <= BROKERS}
    assert between == {("b0", "b1"), ("b1", "b3"), ("b3", "b4")}
    assert delivered(world, "s2") == delivered(world, "s4") == [1]
    world.restart("b2")
    world.run_for(20 * MILLISECOND)
    publish_all(world, "p", 1)
    world.run_for(RECOVERED)
    sent.sent.clear()
    publish_all(world, "p", 1)
    world.run_for(NOTICED)
    between = {(source, target) for source, target, _ in copies(sent) if {source, target} <= BROKERS}
    assert between == {("b0", "b1"), ("b1", "b2"), ("b2", "b3"), ("b3", "b4")}
    assert delivered(world, "s4") == [1, 2, 3]
    assert_promises(world)


# -- the lemmas ------------------------------------------------------------------------------------------


def knowledge(world: World, broker: NodeId) -> object:
    """All that a broker knows and that has a meaning for others."""
    overlay, order = world.broker(broker).overlay, publisher_order(world, broker)
    return (
        overlay.state,
        overlay.topology.links(marked=False),
        overlay.topology.links(marked=True),
        overlay.frontier,
        sorted(overlay.sessions.up),
        {session: state.state for session, state in sorted(overlay.sessions.up.items())},
        ways(world, broker),
        {name: sorted(peer.index_of) for name, peer in sorted(order.peers.items())},
        len(order.forwarding.custody),
        overlay.partitions.table(),
    )


@pytest.mark.parametrize("seed", range(4))
def test_d3_81_a_recovered_node_is_as_if_it_had_never_failed(seed: int) -> None:
    """What a recovered node knows is consistent, and nothing under way can make it otherwise: it is what a
    twin knows that did not fail.

    Reference: 003, appendix A, lemma 4 (D3-81)
    """
    links = random_tree(8, 2, Random(seed))
    homes = {"p": "b0", "s1": "b7", "s2": "b3", "s3": "b5"}
    worlds = []
    for fails in (False, True):
        world = start_network(links, homes, seed=seed)
        subscribe_all(world, {"s1": "n > 1", "s2": ""})
        publish_all(world, "p", 100, every=20 * MILLISECOND)
        for victim in ("b1", "b4", "b2"):
            if fails:
                world.crash(victim)
            world.run_for(NOTICED)
            if victim == "b4":
                world.subscribe("s3", "s3", TOPIC, "n > 2")
                world.run_for(NOTICED)
            if fails:
                world.restart(victim)
            world.run_for(RECOVERED)
        worlds.append(world)
    without, returned = worlds
    for name in without.brokers():
        assert knowledge(returned, name) == knowledge(without, name), name
    assert delivered(returned, "s2") == delivered(without, "s2") == list(range(1, 101))
    assert_promises(returned)


@pytest.mark.parametrize("delta", range(3))
def test_d3_83_a_client_knows_its_broker_and_what_is_near_it(delta: int) -> None:
    """Clients are nodes that do not route. All that a client knows is the links within δ+1 of itself, so
    that it can go round its broker as any node does.

    Reference: 003, section 4.1 (D3-83)
    """
    links = random_tree(12, 2, Random(83))
    homes = {"p": "b0", "s": "b5"}
    world = start_network(links, homes, delta=delta)
    whole = tree_of([*links, *(link(client, home) for client, home in homes.items())])
    for client, home in homes.items():
        node = world.hosts[client].node
        assert node is not None
        assert set(node.overlay.topology.links()) == equation_1(whole, client, delta)
        assert node.overlay.frontier.active == [home]
        others = {link(*each) for each in homes.items() if each[0] != client}
        assert not others & set(node.overlay.topology.links())
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 3)
    world.run_for(NOTICED)
    assert delivered(world, "s") == [1, 2, 3]


def test_d3_83_a_client_goes_round_its_broker() -> None:
    """When its broker is down, a client attaches to that broker's neighbours and is served by them.

    Reference: 003, section 4.1 (D3-83)
    """
    world = start_network(FORK, {"p": "r", "s": "c"})
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 200, every=5 * MILLISECOND)
    world.run_for(200 * MILLISECOND)
    world.crash("r", silently=True)
    world.run_for(BYPASSED)
    node = world.hosts["p"].node
    assert node is not None
    assert sorted(node.overlay.frontier.active) == ["a", "c", "d"]
    assert delivered(world, "s") == confirmed(world, "p") == list(range(1, 201))
    world.restart("r")
    world.run_for(RECOVERED)
    assert node.overlay.frontier.active == ["r"]
    assert_promises(world)


@pytest.mark.parametrize("delta", range(4))
def test_d3_84_joins_one_after_the_other_give_level_1_consistency(delta: int) -> None:
    """Lemma 5: whoever is within δ+1 of a node that joined knows it, and by which way, all along.

    Reference: 003, appendix A.5, lemma 5 (D3-84)
    """
    links = random_tree(12, 3, Random(84 + delta))
    world = World(seed=delta, delta=delta, topics=TOPICS)
    join_one_by_one(world, links, "b0")
    tree = tree_of(links)
    for name in world.brokers():
        for near, path in paths_from(tree, name, delta + 1).items():
            assert tuple(world.broker(near).overlay.topology.path(name)) == path[::-1]
    assert_equation_1(world, links)
    world.add_client("p", "b0")
    world.add_client("s", "b11")
    world.run_for(SECOND)
    subscribe_all(world, {"s": ""})
    assert_level_2(world, links, {"s": ""})
    publish_all(world, "p", 3)
    assert_promises(world)
    assert delivered(world, "s") == [1, 2, 3]


@pytest.mark.parametrize("delta", [1, 2, 3])
@pytest.mark.parametrize("seed", range(5))
def test_d3_85_subscribing_gives_level_2_consistency(seed: int, delta: int) -> None:
    """Lemma 7: when a subscription is confirmed, every non-faulty node has it as it should, with up to δ
    failures while it is on its way; and those that failed have it when they have recovered.

    Reference: 003, appendix A.6, lemma 7 (D3-85)
    """
    rng = Random(f"{seed}/{delta}")
    links = random_tree(12, 2, rng)
    names = [f"b{k}" for k in range(12)]
    world = start_network(links, {"s": rng.choice(names), "t": rng.choice(names)}, delta=delta, seed=seed)
    for client in ("s", "t"):
        world.subscribe(client, client, TOPIC, "n > 0")
    for name in rng.sample(names, delta):
        world.run_for(rng.choice((1, 5, 10)) * MILLISECOND)
        world.crash(name, silently=rng.random() < 0.5)
    world.run_until(lambda: bool(lives(world, "s") and lives(world, "t")))
    world.run_for(BYPASSED)
    assert_level_2(world, links, {"s": "n > 0", "t": "n > 0"})
    assert len(live(world)) == 12 - delta
    for name in [name for name in names if name not in live(world)]:
        world.restart(name)
    world.run_for(2 * RECOVERED)
    assert_level_2(world, links, {"s": "n > 0", "t": "n > 0"})
    assert_bypass(world, links)


def test_d3_87_join_points_come_from_outside() -> None:
    """How a node finds a join point is not the protocol's concern; a naming service may do it.

    Our implementation is given names to try, and takes the first that answers.

    Reference: 003, section 4.6, notes 5 and 6 (D3-87)
    """
    world = start_network(chain("a", "b"), {})
    registry = ("nobody", "b")
    world.add_broker("n", join=registry)
    world.run_until(lambda: all_joined(world), within=10 * SECOND)
    assert_equation_1(world, chain("a", "b", "n"))
