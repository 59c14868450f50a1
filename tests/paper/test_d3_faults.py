"""Paper 003, section 5 and appendix A: going round failed brokers, resending, duplicates, and the lemmas."""

from __future__ import annotations

from collections import Counter
from functools import cache
from itertools import combinations
from random import Random

import pytest

from gapless.core.events import MessageReceived
from gapless.core.limits import Limits
from gapless.core.messages import Acknowledged, Message, Publications
from gapless.core.messages.overlay import NodeState
from gapless.core.model import MILLISECOND, SECOND, Incarnation, Link, Micros, NodeId, link
from gapless.core.orders.publisher.vectors import Vectors
from gapless.core.overlay.sessions import Timing
from gapless.simulation import trace
from gapless.simulation.trees import kary_tree, random_tree
from gapless.simulation.world import World
from publications import Publication, nil, publications
from support import (
    BYPASSED,
    RECOVERED,
    Messages,
    active,
    assert_promises,
    chain,
    confirmed,
    copies,
    delivered,
    established,
    lives,
    paths_from,
    publish_all,
    publisher_order,
    runs_sent,
    start_network,
    subscribe_all,
    tree_of,
)

SEEDS = range(5)
CRASHES = 8
FIFTEEN = kary_tree(15, 2)
NAMES = [f"b{k}" for k in range(15)]
NOTICED: Micros = 300 * MILLISECOND
"""Enough for closed sessions to be noticed and the nodes behind to be dialed."""


# -- δ-fault-tolerance -----------------------------------------------------------------------------------


def with_failures(delta: int, dead: tuple[NodeId, ...]) -> World:
    """A tree of 15 in which some brokers die, and then a broker joins, a client subscribes, two publish."""
    homes = {"p": "b7", "q": "b0", "old": "b10", "new": "b12"}
    world = start_network(FIFTEEN, homes, delta=delta)
    subscribe_all(world, {"old": ""})
    for name in dead:
        world.crash(name)
    world.run_for(NOTICED)
    point = next(name for name in reversed(NAMES) if name not in dead)
    world.add_broker("n", join=(point,))
    subscribe_all(world, {"new": ""})
    publish_all(world, "p", 3)
    publish_all(world, "q", 3)
    world.run_for(500 * MILLISECOND)
    return world


def assert_all_operations_work(delta: int, dead: tuple[NodeId, ...]) -> None:
    world = with_failures(delta, dead)
    assert world.broker("n").overlay.is_joined, dead
    assert lives(world, "new"), dead
    for publisher, home in (("p", "b7"), ("q", "b0")):
        assert delivered(world, "old", publisher) == [1, 2, 3], dead
        if home not in dead:
            assert delivered(world, "new", publisher) == [1, 2, 3], dead
        assert confirmed(world, publisher) == [1, 2, 3], dead


@pytest.mark.slow
@pytest.mark.parametrize("delta", [1, 2])
def test_d3_47_all_operations_work_with_delta_failures(delta: int) -> None:
    """A system is δ-fault-tolerant if joining, subscribing and publishing work with up to δ nodes that are
    not OPERATIONAL, whichever they are.

    Reference: 003, section 5 (D3-47)
    """
    for dead in combinations(NAMES, delta):
        assert_all_operations_work(delta, dead)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(3))
def test_d3_47_all_operations_work_with_three_failures(part: int) -> None:
    """The same with δ=3, in all 455 formations of three failures among fifteen brokers.

    Reference: 003, section 5 (D3-47)
    """
    for dead in list(combinations(NAMES, 3))[part::3]:
        assert_all_operations_work(3, dead)


def test_d3_47_a_publisher_whose_broker_is_down_is_promised_when_that_is_back() -> None:
    """A subscription that is confirmed while its publisher's own broker is down.

    003 confirms it without that broker. Our implementation does so too and, as 000 has it, names the broker
    as unreachable: what its publishers publish elsewhere meanwhile is not promised, for it may have taken
    events of them without knowing the subscription. From its return on everything is.

    Reference: 003, sections 4.2 and 5; 000, section IV (D3-47)
    """
    world = with_failures(1, ("b7",))
    assert [each.unreachable for each in lives(world, "new")] == [("b7",)]
    assert delivered(world, "old", "p") == [1, 2, 3]
    assert delivered(world, "new", "p") == []
    world.restart("b7")
    world.run_until(lambda: lives(world, "new")[-1].unreachable == ())
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert delivered(world, "old", "p") == [1, 2, 3, 4, 5, 6]
    assert delivered(world, "new", "p") == [4, 5, 6]
    assert_promises(world)


@pytest.mark.parametrize("delta", [1, 2, 3])
def test_d3_48_a_chain_of_delta_failures_is_skipped(delta: int) -> None:
    """A node connects to the closest non-faulty node behind a chain of at most δ failed ones; what was not
    confirmed is sent again over the new route.

    Reference: 003, section 5 and figure 6 (D3-48)
    """
    names = [f"b{k}" for k in range(delta + 2)]
    world = start_network(chain(*names), {"p": names[0], "s": names[-1]}, delta=delta)
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 40, every=MILLISECOND)
    world.run_for(20 * MILLISECOND)
    for name in names[1:-1]:
        world.crash(name)
    world.run_for(SECOND)
    assert active(world, names[0]) == [names[-1]]
    assert delivered(world, "s") == list(range(1, 41))
    assert confirmed(world, "p") == list(range(1, 41))


def test_d3_48_more_than_delta_failures_are_not_skipped() -> None:
    """A chain that is longer cannot be skipped: what is behind it waits, and gets all when it is repaired.

    Reference: 003, section 5 (D3-48)
    """
    world = start_network(chain("a", "b", "c", "d"), {"p": "a", "s": "d"}, delta=1)
    subscribe_all(world, {"s": ""})
    world.crash("b")
    world.crash("c")
    world.run_for(BYPASSED)
    publish_all(world, "p", 5)
    world.run_for(BYPASSED)
    assert delivered(world, "s") == []
    world.restart("b")
    world.restart("c")
    world.run_for(RECOVERED)
    assert delivered(world, "s") == [1, 2, 3, 4, 5]
    assert_promises(world)


# -- algorithms 3 and 4 ----------------------------------------------------------------------------------


def test_d3_49_the_neighbours_behind_a_failed_node_are_the_new_peers() -> None:
    """NewPeers are the neighbours of M that are farther away than M; each message goes to those of them that
    lead to its recipients.

    Reference: 003, algorithm 3, lines 2 to 5 (D3-49)
    """
    links = [link("n", "m"), link("m", "x"), link("m", "y"), link("m", "z"), link("z", "w"), link("n", "k")]
    world = start_network(links, {"p": "n", "sx": "x", "sz": "z"})
    subscribe_all(world, {"sx": "", "sz": "n > 1"})
    world.crash("m")
    world.run_for(NOTICED)
    assert sorted(active(world, "n")) == ["k", "x", "y", "z"], "m is gone, w is not behind m alone"
    sent = Messages(world)
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    hops = Counter((target, each.event.sequence) for source, target, each in copies(sent) if source == "n")
    assert hops == {("x", 1): 1, ("x", 2): 1, ("x", 3): 1, ("z", 3): 1}


def test_d3_50_if_the_next_one_is_dead_too_it_is_skipped_as_well() -> None:
    """A new peer is assumed to be OPERATIONAL and watched; if it is not, the procedure goes on behind it.

    Reference: 003, algorithm 3, lines 6 to 12 (D3-50)
    """
    world = start_network(chain("a", "b", "c", "d"), {"p": "a", "s": "d"}, delta=2)
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 150, every=10 * MILLISECOND)
    world.crash("b")
    world.run_for(NOTICED)
    assert active(world, "a") == ["c"]
    world.crash("c", silently=True)
    world.run_for(BYPASSED)
    assert world.broker("a").overlay.frontier.down == ["b", "c"]
    assert active(world, "a") == ["d"]
    assert delivered(world, "s") == list(range(1, 151))


def test_d3_50_a_dead_node_behind_a_dead_node_is_found_at_once() -> None:
    """The next peer may have failed before anybody was connected to it.

    Reference: 003, algorithm 3, lines 6 to 12 (D3-50)
    """
    world = start_network(chain("a", "b", "c", "d"), {"p": "a", "s": "d"}, delta=2)
    subscribe_all(world, {"s": ""})
    world.crash("c")
    world.run_for(NOTICED)
    publish_all(world, "p", 20)
    world.crash("b")
    world.run_for(SECOND)
    assert active(world, "a") == ["d"]
    assert delivered(world, "s") == list(range(1, 21))


@pytest.mark.parametrize("silently", [False, True])
@pytest.mark.parametrize("forwarded", [0, 1, 7, 19, 20])
def test_d3_51_unconfirmed_messages_are_sent_again_in_order(forwarded: int, silently: bool) -> None:
    """When a node fails, what was sent to it and is not confirmed is sent to the new peers, in order. It had
    forwarded some of it: every message arrives once and in order nevertheless.

    Reference: 003, algorithm 3, lines 19 to 27 (D3-51)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"})
    subscribe_all(world, {"s": ""})
    passed = 0

    def tap(source: NodeId, target: NodeId, message: Message) -> None:
        nonlocal passed
        if isinstance(message, Publications) and (source, target) == ("b", "c"):
            passed += message.count

    world.network.tap = tap
    publish_all(world, "p", 20, every=2 * MILLISECOND)
    world.run_for(8 * MILLISECOND)
    while passed < forwarded:
        world.run_for(100)
    world.crash("b", silently=silently)
    sent = Messages(world)
    world.run_for(BYPASSED)
    again = [each.event.sequence for source, target, each in copies(sent) if (source, target) == ("a", "c")]
    assert again == sorted(again)
    assert forwarded == 20 or again[-1] == 20
    assert delivered(world, "s") == confirmed(world, "p") == list(range(1, 21))


def test_d3_52_a_dead_broker_that_nobody_needs_holds_up_nobody() -> None:
    """If there is no new peer, Out only loses the failed node and the message can be confirmed.

    Our implementation has no broker among the recipients at all.

    Reference: 003, algorithm 3 (D3-52)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "b"})
    subscribe_all(world, {"s": ""})
    world.crash("c", silently=True)
    publish_all(world, "p", 5)
    world.run_for(100 * MILLISECOND)
    assert confirmed(world, "p") == [1, 2, 3, 4, 5], "before the failure is even noticed"


def test_d3_52_the_client_of_a_dead_leaf_is_served_by_its_neighbour() -> None:
    """Kill the last broker before a subscriber: the confirmation completes.

    Our implementation confirms when the client has it, which attaches to the neighbour, and not before.

    Reference: 003, algorithm 3; X-P0-17 (D3-52)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"})
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 10, every=2 * MILLISECOND)
    world.run_for(12 * MILLISECOND)
    world.crash("c", silently=True)
    world.run_for(100 * MILLISECOND)
    assert confirmed(world, "p") == []
    world.run_for(BYPASSED)
    assert delivered(world, "s") == confirmed(world, "p") == list(range(1, 11))
    assert established(world, "b") >= {"a", "s"}


def test_d3_52_a_client_that_never_returns_is_given_up_in_the_end() -> None:
    """Whoever failed is not waited for. Our implementation waits for a client as long as its lease.

    Reference: 003, algorithm 3; X-P0-17 (D3-52)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"})
    subscribe_all(world, {"s": ""})
    world.crash("s", silently=True)
    publish_all(world, "p", 3)
    world.run_for(Limits().lease - 5 * SECOND)
    assert confirmed(world, "p") == []
    world.run_for(10 * SECOND)
    assert confirmed(world, "p") == [1, 2, 3]
    assert_promises(world)


def test_d3_53_whoever_is_connected_to_watches_and_uses_the_connection() -> None:
    """The receiver of a ConnectionRequest adds the connection and starts its failure detector.

    Reference: 003, algorithm 4 (D3-53)
    """
    world = start_network(chain("a", "b", "c"), {"p": "c", "s": "a"})
    subscribe_all(world, {"s": ""})
    world.crash("b")
    world.run_for(NOTICED)
    assert (active(world, "a"), active(world, "c")) == (["c"], ["a"])
    publish_all(world, "p", 3)
    world.run_for(NOTICED)
    assert delivered(world, "s") == [1, 2, 3]
    world.crash("a", silently=True)
    world.run_for(BYPASSED)
    assert "a" not in established(world, "c"), "nobody but its detector can have told it"


def test_d3_54_messages_are_sent_again_only_when_a_failure_is_detected() -> None:
    """There are as many copies as without failures, and those that were unconfirmed when the failure was
    detected: nothing is sent redundantly, before or after.

    Reference: 003, section 7 (D3-54)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"})
    subscribe_all(world, {"s": ""})
    sent = Messages(world)
    publish_all(world, "p", 10)
    world.run_for(SECOND)
    assert len(copies(sent)) == 40, "p to a, a to b, b to c, c to s"
    sent.sent.clear()
    publish_all(world, "p", 10, every=2 * MILLISECOND)
    world.run_for(16 * MILLISECOND)
    world.crash("b")
    custody = publisher_order(world, "a").forwarding.custody
    unconfirmed: list[int] = []

    def look(_: object) -> None:
        if "b" in established(world, "a"):
            unconfirmed[:] = [each.event.sequence for each in custody.in_order()]

    look(None)
    world.hosts["a"].stepped = look
    world.run_for(SECOND)
    publish_all(world, "p", 10, every=MILLISECOND)
    world.run_for(SECOND)
    hops = Counter((source, target, each.event.sequence) for source, target, each in copies(sent))
    assert set(hops.values()) == {1}
    through_b = [sequence for source, target, sequence in hops if (source, target) == ("a", "b")]
    round_b = [sequence for source, target, sequence in hops if (source, target) == ("a", "c")]
    assert unconfirmed
    assert set(unconfirmed) <= set(through_b)
    assert round_b == [*unconfirmed, *(each for each in range(11, 31) if each not in through_b)]
    assert delivered(world, "s") == list(range(1, 31))


# -- duplicates ------------------------------------------------------------------------------------------


def test_d3_55_where_it_is_cheap_the_highest_number_of_each_source_is_kept() -> None:
    """The simple way to find duplicates: keep the most recent number of each source.

    Our implementation does so at clients only, who hear few sources; a copy is confirmed and not delivered.

    Reference: 003, section 5 (D3-55)
    """
    world = start_network(chain("a", "b"), {"p": "a", "q": "a", "s": "b"})
    subscribe_all(world, {"s": ""})
    sent = Messages(world)
    for publisher in ("p", "q"):
        publish_all(world, publisher, 3)
    world.run_for(SECOND)
    again = runs_sent(sent, "s")
    assert len(again) == 6
    sent.sent.clear()
    for some in (again, again[:1], again[::-1]):
        world.hosts["s"].receive(MessageReceived("b", Publications(some)))
        world.run_for(100 * MILLISECOND)
    assert len(sent.of(Acknowledged)) == 3, "each is confirmed again"
    assert delivered(world, "s", "p") == delivered(world, "s", "q") == [1, 2, 3]


@pytest.mark.parametrize("delta", [1, 2, 3])
def test_d3_56_the_visited_list_has_nil_for_the_bypassed(delta: int) -> None:
    """A message carries the last nodes that forwarded it with their numbers, and nil for those that it went
    round. Our implementation keeps 3δ+1 instead of δ+1 of them (X-D3-13).

    Reference: 003, section 5 (D3-56)
    """
    names = [f"b{k}" for k in range(4 * delta + 3)]
    world = start_network(chain(*names), {"p": names[0], "s": names[-1]}, delta=delta)
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 1)
    world.run_for(SECOND)
    dead = names[1 : delta + 1]
    for name in dead:
        world.crash(name)
    world.run_for(NOTICED)
    sent = Messages(world)
    publish_all(world, "p", 1)
    world.run_for(SECOND)
    found = {source: each.vector for source, _, each in copies(sent) if source != "p"}
    assert list(found) == [name for name in names if name not in dead]
    for k, name in enumerate(names):
        if name not in dead:
            known_to = names[: max(k, delta) + 1]  # the first hop goes beyond the dead ones
            whole = [nil(each) if each in dead else (each, 1, 2) for each in known_to]
            assert list(found[name]) == whole[-(3 * delta + 1) :]


def test_d3_57_timestamps_are_updated_by_what_arrives() -> None:
    """The timestamps of all nodes in the list of a message are updated. Our implementation takes the maximum,
    so that an older copy does not set them back.

    Reference: 003, section 5; X-D3-03 (D3-57)
    """
    vectors = Vectors("me", 1, delta=1)
    vectors.note((("a", 1, 5), nil("b"), ("c", 1, 7)))
    assert vectors.size() == 2
    vectors.note((("a", 1, 3),))
    assert vectors.is_duplicate((("a", 1, 4),)), "5 is still the highest"
    vectors.note((("a", 1, 6),))
    assert vectors.is_duplicate((("a", 1, 6),))
    assert not vectors.is_duplicate((("a", 1, 7),))


def test_d3_58_a_duplicate_has_a_number_that_does_not_succeed() -> None:
    """A message is no duplicate iff all the numbers that it carries succeed those of the timestamps; the
    printed test is inverted, and leaves open whether all or some must.

    Reference: 003, section 5; X-D3-03 (D3-58)
    """
    vectors = Vectors("me", 1, delta=1)
    vectors.note((("a", 1, 5), ("b", 1, 5)))
    table = {
        (("a", 1, 6), ("b", 1, 6)): False,  # all newer
        (("a", 1, 6), ("b", 1, 5)): True,  # one equal
        (("a", 1, 4), ("b", 1, 6)): True,  # one lower
        (("a", 1, 6), nil("b")): False,  # nil says nothing
        (nil("a"), nil("b")): False,
        (("c", 1, 1),): False,  # never heard of
        (("a", 2, 1), ("b", 1, 6)): False,  # another life of a (X-D3-14)
        (): False,
    }
    assert {vector: vectors.is_duplicate(vector) for vector in table} == table


# -- crash-only runs: the lemmas of the appendix ---------------------------------------------------------


class Run:
    """A run in which up to δ brokers at a time crash and return, often quickly, while two clients publish."""

    def __init__(self, seed: int, delta: int) -> None:
        rng = Random(f"{seed}/{delta}")
        self.links: list[Link] = random_tree(12, 2, rng)
        names = [f"b{k}" for k in range(12)]
        self.homes = {name: rng.choice(names) for name in ("p", "q", "s0", "s1", "s2", "s3")}
        self.world = start_network(self.links, self.homes, delta=delta, seed=seed)
        self.subscribers = [name for name in self.homes if name.startswith("s")]
        subscribe_all(self.world, dict.fromkeys(self.subscribers, ""))
        self.sent: list[tuple[NodeId, NodeId, Incarnation, Publication]] = []
        self.skipped: list[str] = []
        """Operational brokers that a copy on an active session went round."""
        self.world.network.tap = self._tap
        for publisher in ("p", "q"):
            publish_all(self.world, publisher, 150, every=70 * MILLISECOND)
        self.crashes = 0
        while self.crashes < CRASHES:
            self._crash_one(rng)
            self.world.run_for(rng.choice((20, 100, 600, 1800)) * MILLISECOND)
        self.world.run_for(15 * SECOND)

    def _crash_one(self, rng: Random) -> None:
        world = self.world
        victim = rng.choice([name for name in world.brokers() if world.hosts[name].is_up])
        if len([name for name in world.down() if name != victim]) < world.delta:
            self.crashes += 1
            world.crash(victim, silently=rng.random() < 0.5)
            span = rng.choice((1, 30, 200, 1500, 3000)) * MILLISECOND
            world.at(world.now + span, world.restart, victim)

    def _tap(self, source: NodeId, target: NodeId, message: Message) -> None:
        if not isinstance(message, Publications) or source in self.homes:
            return
        overlay = self.world.broker(source).overlay
        for name in overlay.bypassed(target):
            node = self.world.hosts[name].node
            is_operational = node is not None and node.overlay.state is NodeState.OPERATIONAL
            if is_operational and target in overlay.frontier.active:
                self.skipped.append(f"{self.world.now}: {source} to {target} round {name}")
        incarnation = overlay.identity.incarnation
        self.sent += [(source, target, incarnation, each) for each in publications(message)]


@cache
def run(seed: int, delta: int) -> Run:
    """The run of a seed, which several tests look at."""
    return Run(seed, delta)


def taken_twice(made: Run) -> list[object]:
    """Messages to which one life of a broker gave two numbers: it took a duplicate for new."""
    numbers: dict[object, set[int]] = {}
    for source, _, incarnation, each in made.sent:
        own = [step[2] for step in each.vector if step[:2] == (source, incarnation)]
        key = (source, incarnation, each.event.publisher, each.generation, each.event.sequence)
        numbers.setdefault(key, set()).update(own)
    return [key for key, given in numbers.items() if len(given) > 1]


def assert_exactly_once_in_order(made: Run) -> None:
    for subscriber in made.subscribers:
        for publisher in ("p", "q"):
            assert delivered(made.world, subscriber, publisher) == list(range(1, 151))


@pytest.mark.parametrize("delta", [1, 2])
def test_d3_59_an_operational_node_is_never_skipped(delta: int) -> None:
    """Key lemma and corollary: with crashes only and detectors that make no mistake, no message goes round a
    node that is OPERATIONAL. Here: not on an active session; the others are the subject of the next test.

    Reference: 003, appendix A, lemma 1 and corollary 1 (D3-59)
    """
    runs = [run(seed, delta) for seed in SEEDS]
    steps = [step for made in runs for *_, copy in made.sent for step in copy.vector]
    assert any(step == nil(step[0]) for step in steps), "some were skipped"
    assert [each for made in runs for each in made.skipped] == []


def test_d3_59_a_session_of_earlier_failures_does_not_skip_a_recovered_node() -> None:
    """Sessions that went round two brokers are still there when both have returned. If then the nearer one
    fails, the other one, which is OPERATIONAL, must not be skipped.

    Reference: 003, appendix A, corollary 1 (D3-59)
    """
    world = start_network(chain("x", "y", "r", "z"), {"p": "x", "s": "z"}, delta=2)
    subscribe_all(world, {"s": ""})
    for name in ("y", "r"):
        world.crash(name)
    world.run_for(NOTICED)
    for name in ("y", "r"):
        world.restart(name)
    world.run_until(lambda: world.down() == [])
    world.run_until(lambda: active(world, "x") == ["y"] and active(world, "z") == ["r"])
    assert "z" in established(world, "x"), "it drains"
    world.crash("y")
    sent = Messages(world)
    publish_all(world, "p", 20, every=MILLISECOND)
    world.run_for(SECOND)
    assert delivered(world, "s") == list(range(1, 21))
    assert [each for source, target, each in copies(sent) if (source, target) == ("x", "z")] == []


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_d3_60_a_broker_takes_no_message_twice(seed: int, delta: int) -> None:
    """Duplicate Detection Lemma: the visited list suffices, also when nodes quickly oscillate between
    FAILED, RECOVERING and OPERATIONAL. Our implementation has 3δ+1 entries in it and no REJOIN.

    Reference: 003, appendix A.2 (D3-60)
    """
    made = run(seed, delta)
    assert taken_twice(made) == []
    assert_exactly_once_in_order(made)


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize("seed", SEEDS[:3])
def test_d3_60_visited_lists_of_delta_plus_1_suffice(
    seed: int, delta: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With crashes only, the δ+1 entries of the paper are enough.

    Reference: 003, appendix A.2; X-D3-13 (D3-60)
    """
    original = Vectors.__init__

    def shorter(self: Vectors, me: NodeId, incarnation: Incarnation, delta: int) -> None:
        original(self, me, incarnation, delta)
        self.length = delta + 1

    monkeypatch.setattr(Vectors, "__init__", shorter)
    made = Run(seed, delta)
    assert max(len(each.vector) for *_, each in made.sent) == delta + 1
    assert taken_twice(made) == []
    assert_exactly_once_in_order(made)


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_d3_61_messages_are_delivered_in_the_order_of_their_source(seed: int, delta: int) -> None:
    """Ordered Delivery Lemma: whatever fails, each source's messages come in its order.

    Reference: 003, appendix A.3 (D3-61)
    """
    made = run(seed, delta)
    for subscriber in made.subscribers:
        for publisher in ("p", "q"):
            got = delivered(made.world, subscriber, publisher)
            assert got == sorted(got)
    assert_promises(made.world)


def test_x_d3_22_a_recovered_nearer_node_lets_nothing_overtake() -> None:
    """The lemma assumes one route. When the route moves to a recovered nearer node, a new message could
    overtake one that is still in flight on the old one, which would then be taken for a duplicate: so what
    is unconfirmed goes over the new route first.

    Reference: 003, appendix A.3; X-D3-22 and X-P0-22
    """
    patient = Timing(suspect_after=20 * SECOND, retire_after=20 * SECOND)
    world = start_network(chain("a", "y", "x"), {"p": "a", "s": "x"}, timing=patient)
    subscribe_all(world, {"s": ""})
    world.crash("y")
    world.run_for(NOTICED)
    assert active(world, "a") == ["x"]
    world.network.slowness["a", "x"] = 600  # three seconds
    publish_all(world, "p", 1)
    world.run_for(20 * MILLISECOND)
    world.restart("y")
    world.run_until(lambda: active(world, "a") == ["y"] and active(world, "y") == ["a", "x"], within=SECOND)
    publish_all(world, "p", 1)
    world.run_for(SECOND)
    assert delivered(world, "s") == [1, 2], "the first one came over y"
    world.run_for(5 * SECOND)
    assert delivered(world, "s") == [1, 2]
    assert_promises(world)


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_d3_82_a_confirmation_is_correct_whatever_fails(seed: int, delta: int) -> None:
    """Theorem 1: when the confirmation of a message is there, all non-faulty recipients have it.

    Reference: 003, appendix A.1, theorem 1 (D3-82)
    """
    made = run(seed, delta)
    got: Counter[tuple[str, int]] = Counter()
    told = 0
    for each in made.world.trace:
        if isinstance(each, trace.Deliver):
            got[each.publisher, each.sequence] += 1
        elif isinstance(each, trace.Confirm):
            told += 1
            assert got[each.publisher, each.sequence] == len(made.subscribers), each
    assert told == 300


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_d3_86_publishing_meets_the_specification(seed: int, delta: int) -> None:
    """Lemma 8: with at most δ nodes that are not OPERATIONAL, whatever is published is delivered exactly
    once and in order to every confirmed subscriber that it matches.

    Reference: 003, appendix A.7, lemma 8 (D3-86)
    """
    made = run(seed, delta)
    assert sum(isinstance(each, trace.Crash) for each in made.world.trace) == CRASHES
    assert_exactly_once_in_order(made)
    assert not any(isinstance(each, trace.Reset) for each in made.world.trace)
    assert_promises(made.world)


def test_d3_88_nothing_goes_back_towards_its_source() -> None:
    """Multicast messages only move away from their source: with a subscriber at the publisher's own broker
    and one farther on, the broker between them sends nothing back, and nobody waits for anybody.

    Reference: 003, appendix A.2; X-P0-21 (D3-88)
    """
    world = start_network(chain("b1", "b2", "b3"), {"p": "b1", "s1": "b1", "s3": "b3"})
    subscribe_all(world, {"s1": "", "s3": ""})
    sent = Messages(world)
    publish_all(world, "p", 5)
    world.run_for(500 * MILLISECOND)
    hops = {(source, target) for source, target, _ in copies(sent)}
    assert hops == {("p", "b1"), ("b1", "s1"), ("b1", "b2"), ("b2", "b3"), ("b3", "s3")}
    assert confirmed(world, "p") == [1, 2, 3, 4, 5]
    assert_promises(world)


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize("seed", SEEDS)
def test_d3_88_nothing_goes_back_whatever_fails(seed: int, delta: int) -> None:
    """The same in runs with failures: every hop leads farther from the broker where the message entered.

    Reference: 003, appendix A.2 (D3-88)
    """
    made = run(seed, delta)
    tree = tree_of(made.links)
    distances = {name: {far: len(path) for far, path in paths_from(tree, name, 12).items()} for name in tree}
    hops = [(source, target, each) for source, target, _, each in made.sent if target in tree]
    assert hops
    for source, target, each in hops:
        away = distances[each.entry]
        assert away[source] < away[target]
