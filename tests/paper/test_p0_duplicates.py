"""Paper 000, section VI: duplicate detection. One test or more a row of the conformance list."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gapless.core.messages.publisher import Acknowledged, Header, Log
from gapless.core.model import MILLISECOND, SECOND, BeyondDelta, Event, NodeId
from gapless.core.orders.publisher.custody import Held
from gapless.core.orders.publisher.outbox import Draft
from gapless.core.orders.publisher.vectors import Step, Vector, Vectors, bypassed, vector_of
from gapless.core.overlay.sessions import Timing
from gapless.simulation.faults import Faults, Window
from gapless.simulation.run import WARM_UP, Options, build
from gapless.simulation.workload import Plan, Workload
from gapless.simulation.world import World
from publications import Publication, nil
from support import (
    BYPASSED,
    RECOVERED,
    TOPICS,
    Messages,
    assert_promises,
    chain_with_p_and_s,
    confirmed,
    copies,
    delivered,
    held_at,
    own_links,
    paths_from,
    publish_some,
    publisher_order,
    start_chain,
    subscribe_all,
    tree_of,
)

Bits = tuple[int, ...]
"""A stretch of a primary path as one copy saw it, in the order of travel: 1 forwarded it, 0 was bypassed."""

TEN = [f"b{k}" for k in range(10)]
ODD, EVEN = TEN[1:8:2], TEN[2:9:2]


def visited(vector: Vector) -> list[NodeId]:
    """The brokers that handled the copy."""
    return [node for node, incarnation, _ in vector if incarnation]


# -- the definitions, enumerated ---------------------------------------------------------------------------


def propagations(length: int, delta: int, window: int) -> Iterator[Bits]:
    """All propagations over a stretch that bypass at most δ brokers in each window of it (000, VI)."""
    for bits in product((0, 1), repeat=length):
        stretches = [bits[k : k + window] for k in range(max(1, length - window + 1))]
        if all(stretch.count(0) <= delta for stretch in stretches):
            yield bits


def share_a_broker(one: Bits, other: Bits) -> bool:
    return any(a and b for a, b in zip(one, other, strict=True))


def are_distinguished(length: int, delta: int, window: int) -> bool:
    """Whether any two legitimate copies have a common forwarder among the last ``length`` brokers."""
    legitimate = list(propagations(length, delta, window))
    return all(share_a_broker(one, other) for one in legitimate for other in legitimate)


def missed_by_recovery(vector: int, delta: int, window: int, hops: int) -> list[tuple[Bits, Bits]]:
    """Figure 7: pairs s1, s2 that have no common forwarder in the vectors, ``hops`` behind R.

    s1 was propagated normally, past R if there are hops behind it. s2 was legitimate up to the synch point S,
    then bypassed the δ brokers between S and R, and went on from R without bypassing any.
    """
    tail = (1, *[0] * delta, *[1] * hops)  # S, those between, R and on
    length = max(vector, len(tail))
    before = length - len(tail)
    s2s = [
        (*start, *tail)
        for start in product((0, 1), repeat=before)
        if (*start, 1) in set(propagations(before + 1, delta, window))
    ]
    return [
        (s1, s2)
        for s1 in propagations(length, delta, window)
        for s2 in s2s
        if not share_a_broker(s1[-vector:], s2[-vector:])
    ]


@pytest.mark.parametrize(("delta", "least"), [(1, 3), (2, 5), (3, 7)])
def test_p0_64_window_is_the_exact_minimum(delta: int, least: int) -> None:
    """At most δ bypassed brokers in each 2δ+1 of a path leave two copies one forwarder in common; with any
    shorter window there are two legitimate copies without one.

    Reference: 000, section VI (P0-64)
    """
    enough = [window for window in range(1, least + 1) if are_distinguished(window, delta, window)]
    assert enough == [least]
    assert Vectors("b", 1, delta).window == least


@pytest.mark.parametrize("delta", [1, 2, 3])
def test_x_d3_13_visited_list_of_delta_plus_one_is_too_short(delta: int) -> None:
    """δ+1 entries suffice for crashes that everybody sees alike; copies that bypass different brokers, as cut
    links and wrong detectors make them, need the 2δ+1 of 000.

    Reference: 003, section 5; 000, section VI
    """
    assert not are_distinguished(delta + 1, delta, 2 * delta + 1)
    assert are_distinguished(2 * delta + 1, delta, 2 * delta + 1)


@pytest.mark.parametrize("delta", [1, 2, 3])
def test_p0_70_vector_of_three_delta_plus_one_is_exact_at_r(delta: int) -> None:
    """A copy that comes by the synch point may bypass δ brokers more: 2δ+1 entries and those δ are needed.

    Reference: 000, section VII-A, Fig. 7 (P0-70)
    """
    window = 2 * delta + 1
    assert missed_by_recovery(3 * delta + 1, delta, window, 0) == []
    assert missed_by_recovery(3 * delta, delta, window, 0) != []
    assert Vectors("r", 1, delta).length == 3 * delta + 1


@pytest.mark.parametrize("delta", [1, 2, 3])
def test_x_p0_14_behind_r_the_window_must_be_longer_too(delta: int) -> None:
    """One hop behind R a longer vector is not enough for δ ≥ 2: the window must be 3δ+1 as well.

    Our implementation needs neither for subscriptions, because a log is a set: a copy that is not recognised
    as one costs nothing. Publications do not come by a synch point and keep the window of 2δ+1.

    Reference: 000, section VII-A, Fig. 7
    """
    length = 3 * delta + 1
    missed = missed_by_recovery(length, delta, 2 * delta + 1, 1)
    assert bool(missed) is (delta >= 2)
    assert missed_by_recovery(length, delta, length, 1) == []
    if delta == 2:
        assert ((1, 0, 1, 0, 1, 1, 0), (0, 1, 0, 1, 0, 0, 1)) in missed


# -- vectors as a table ------------------------------------------------------------------------------------


def seen(*vectors: Vector, delta: int = 1) -> Vectors:
    """The state of a broker that has seen these."""
    state = Vectors("me", 1, delta)
    for vector in vectors:
        state.note(vector)
    return state


A5_B3: Vector = (("a", 1, 5), ("b", 1, 3))


@pytest.mark.parametrize(
    ("vector", "is_duplicate"),
    [
        ((("a", 1, 6), ("b", 1, 4)), False),
        ((("a", 1, 6), ("c", 1, 1)), False),
        ((("c", 1, 1),), False),
        ((("a", 1, 5), ("b", 1, 4)), True),
        ((("a", 1, 6), ("b", 1, 3)), True),
        ((("a", 1, 4), ("b", 1, 4)), True),
        ((("a", 1, 1),), True),
        ((nil("a"), ("b", 1, 4)), False),
        ((nil("a"), ("b", 1, 2)), True),
        ((nil("a"), nil("b")), False),
        ((), False),
        ((("a", 2, 1), ("b", 1, 4)), False),
        ((("a", 2, 1), ("b", 1, 3)), True),
        ((("a", 1, 0), ("b", 1, 4)), False),
    ],
)
def test_p0_68_is_duplicate_table(vector: Vector, is_duplicate: bool) -> None:
    """A copy is a duplicate iff at least one number in it does not succeed the highest of that broker. All
    newer: new; one equal or lower: duplicate; only nil: new (X-D3-03: not "different", but "not higher").

    Our implementation compares only numbers of the same incarnation, and a broker that a better copy passed
    stands in the vector without a number.

    Reference: 000, section VI, Fig. 6, lines 1-10; 003, section 5 (P0-68)
    """
    assert seen(A5_B3).is_duplicate(vector) is is_duplicate


def test_p0_68_asking_changes_nothing() -> None:
    """Whether a copy is a duplicate is decided once, when it arrives; in the paper the question has a side
    effect and is asked twice, so that nothing would ever be delivered (X-P0-09).

    Reference: 000, section VI, Fig. 6, and section V, Fig. 4 (P0-68)
    """
    state = seen()
    assert [state.is_duplicate(A5_B3) for _ in range(3)] == [False, False, False]
    state.note(A5_B3)
    assert state.is_duplicate(A5_B3)


STEPS = st.tuples(
    st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 9)
)  # incarnation 0 is nil and has no number
VECTORS = st.lists(STEPS, max_size=4).map(
    lambda steps: tuple((node, life, number if life else 0) for node, life, number in steps)
)


@given(st.lists(VECTORS, max_size=12))
def test_p0_69_highest_is_a_monotone_maximum(vectors: list[Vector]) -> None:
    """The highest number of each broker is the maximum of all that were seen, of duplicates too, and never
    decreases.

    Reference: 000, section VI, Fig. 6, lines 11-15 (P0-69)
    """
    state = Vectors("me", 1, 1)
    highest: dict[tuple[NodeId, int], int] = {}
    for vector in vectors:
        state.note(vector)
        for node, life, number in vector:
            highest[node, life] = max(number, highest.get((node, life), 0))
        for node, life in product("abc", (1, 2)):
            passed = [number for number in range(1, 11) if state.is_duplicate(((node, life, number),))]
            assert passed == list(range(1, highest.get((node, life), 0) + 1))


@pytest.mark.parametrize("delta", [0, 1, 2, 3])
def test_p0_66_vector_keeps_the_last_brokers(delta: int) -> None:
    """A vector has the last 3δ+1 brokers of the path; the oldest entry is dropped first.

    Reference: 000, section VI and table I (P0-66)
    """
    path: tuple[Step, ...] = ()
    for k in range(4 * delta + 5):
        path = Vectors(f"b{k}", 1, delta).onward(path, [])
        assert path == tuple((f"b{j}", 1) for j in range(max(0, k - 3 * delta), k + 1))


def test_p0_67_bypassed_brokers_have_empty_entries() -> None:
    """Every broker between sender and receiver gets an empty entry: A:n, B:nil, C:nil.

    Reference: 000, section VI, Fig. 6, lines 16-22 (P0-67)
    """
    path = Vectors("a", 1, 2).onward((("z", 1),), ["b", "c"])
    draft = Draft(Header((0, 1)), Header((0, 1), path=path))
    draft.add([Held(Header((0, 1)), Event("t", "p", 1, {}), (9,), 4, (), {})])
    vector = vector_of(path, draft.run().numbers[0])
    assert vector == (("z", 1, 9), ("a", 1, 4), nil("b"), nil("c"))
    assert (visited(vector), bypassed(vector)) == (["z", "a"], 2)


def test_x_p0_15_numbers_belong_to_an_incarnation() -> None:
    """A restarted broker counts from one again; its numbers are not old, and those of its earlier life that
    are still under way are neither new nor forgotten.

    Reference: 000, section VI; 003, section 5 (X-D3-14)
    """
    state = seen((("a", 1, 7),), (("a", 2, 1),))
    assert not state.is_duplicate((("a", 2, 2),))
    assert state.is_duplicate((("a", 1, 7),))
    assert not state.is_duplicate((("a", 1, 8),))


# -- vectors on the wire -----------------------------------------------------------------------------------


class Observed:
    """A run with faults, also beyond δ, and every publication that was sent in it."""

    def __init__(self, delta: int, seed: int, max_down: int) -> None:
        options = Options(brokers=12, fanout=2, delta=delta, events=150, crashes=6, cuts=8, max_down=max_down)
        self.world: World = build(options, seed)
        self.sent = Messages(self.world)
        closes = WARM_UP + 12 * SECOND
        Workload(self.world, Plan(publishers=3, subscribers=4, events=150, opens=WARM_UP, closes=closes))
        faults = Faults(self.world, crashes=6, cuts=8, max_down=max_down, window=Window(WARM_UP, closes))
        self.world.run(until=closes)
        faults.heal_all()
        self.world.settle()
        self._tree = tree_of(own_links(self.world))

    def between_brokers(self) -> list[tuple[NodeId, NodeId, Publication]]:
        homes = self.world.homes
        return [each for each in copies(self.sent) if each[0] not in homes and each[1] not in homes]

    def from_brokers(self) -> list[tuple[NodeId, NodeId, Publication]]:
        return [each for each in copies(self.sent) if each[0] not in self.world.homes]

    def path(self, source: NodeId, target: NodeId) -> tuple[NodeId, ...]:
        """The primary path; that to a client leads through its home."""
        world = self.world
        goal = world.homes.get(target, target)
        path = paths_from(self._tree, source, len(world.hosts))[goal]
        return path if goal == target else (*path, target)


RUNS = [(1, 1, 3), (1, 2, 3), (2, 3, 4)]


@pytest.fixture(scope="module", params=RUNS, ids=lambda run: "δ={} seed={} down={}".format(*run))
def observed(request: pytest.FixtureRequest) -> Observed:
    return Observed(*request.param)


def test_p0_64_copies_on_the_wire_are_legitimate(observed: Observed) -> None:
    """No copy that is sent has more than δ bypassed brokers in any 2δ+1 of its vector, even when more than δ
    brokers have failed: what would is held.

    Reference: 000, sections VI and VIII (P0-64)
    """
    delta = observed.world.delta
    window = 2 * delta + 1
    vectors = [each.vector for _, _, each in observed.from_brokers()]
    assert any(bypassed(vector) for vector in vectors), "brokers were bypassed indeed"
    for vector in vectors:
        for k in range(len(vector)):
            assert bypassed(vector[k : k + window]) <= delta, vector
    assert_promises(observed.world)


def test_p0_65_each_broker_numbers_what_it_takes_over(observed: Observed) -> None:
    """A broker gives a publication one number, when its first copy arrives, and the numbers increase: on each
    session what is sent for the first time has a higher number than all before.

    Reference: 000, section VI (P0-65)
    """
    numbered: dict[tuple[NodeId, int, int], tuple[str, int, tuple[int, int]]] = {}
    last: dict[tuple[NodeId, int, NodeId], list[int]] = {}
    for source, target, each in observed.between_brokers():
        _, life, number = next(step for step in reversed(each.vector) if step[0] == source)
        event = (each.event.publisher, each.event.sequence, each.generation)
        assert number > 0
        assert numbered.setdefault((source, life, number), event) == event, "one number, one publication"
        before = last.setdefault((source, life, target), [])
        assert number in before or not before or number > max(before)
        before.append(number)
    assert len(set(numbered.values())) > 100


def test_p0_66_copies_on_the_wire_have_at_most_three_delta_plus_one_entries(observed: Observed) -> None:
    """A vector never has more than 3δ+1 entries, and these are the end of the primary path.

    Reference: 000, section VI and table I (P0-66)
    """
    limit = 3 * observed.world.delta + 1
    lengths = {len(each.vector) for _, _, each in observed.from_brokers()}
    assert max(lengths) == limit
    for _, _, each in observed.from_brokers():
        nodes = [step[0] for step in each.vector]
        assert observed.path(nodes[0], nodes[-1]) == tuple(nodes)


def test_p0_67_copies_on_the_wire_name_who_was_bypassed(observed: Observed) -> None:
    """The vector ends with the sender and an empty entry for each broker between it and the receiver.

    Reference: 000, section VI, Fig. 6, lines 16-22 (P0-67)
    """
    for source, target, each in observed.from_brokers():
        inner = observed.path(source, target)[1:-1]
        own, *skipped = each.vector[-len(inner) - 1 :]
        assert own[0] == source
        assert skipped == [nil(node) for node in inner]


def test_p0_67_a_sends_to_d_over_dead_b_and_c() -> None:
    """A sends to D over dead B and C: the vector is A:n, B:nil, C:nil.

    Reference: 000, section VI, Fig. 6, lines 16-22 (P0-67)
    """
    world = chain_with_p_and_s("a", "b", "c", "d", delta=2)
    world.crash("b")
    world.crash("c")
    world.run_for(BYPASSED)
    sent = Messages(world)
    publish_some(world)
    (vector,) = [each.vector for source, target, each in copies(sent) if (source, target) == ("a", "d")]
    assert vector == (("a", 1, 1), nil("b"), nil("c"))
    assert delivered(world, "s") == [1]


# -- duplicates in a network -------------------------------------------------------------------------------


def test_p0_65_duplicates_get_no_number() -> None:
    """Numbers are given to first copies only: C gets each publication from B and, when B fails before its
    confirmations are through, from A, and numbers it once. Confirmed at once, it blocks nobody (X-P0-10).

    Reference: 000, section VI, Fig. 6, line 9; section V, Fig. 4, line 4 (P0-65)
    """
    world = chain_with_p_and_s("a", "b", "c")
    sent = Messages(world)
    publish_some(world, 3)
    world.hosts["s"].on_deliver = lambda *_: world.crash("b")
    publish_some(world)
    world.run_for(BYPASSED)
    to_c = [(source, each.event.sequence) for source, target, each in copies(sent) if target == "c"]
    assert to_c == [("b", 1), ("b", 2), ("b", 3), ("b", 4), ("a", 4)]
    assert publisher_order(world, "c").forwarding.vectors.next_numbers(1) == range(5, 6)
    assert delivered(world, "s") == [1, 2, 3, 4] == confirmed(world, "p")


def test_x_p0_11_what_nobody_wants_is_confirmed_at_once() -> None:
    """A publication with nowhere to go is confirmed when it arrives, not by a confirmation that never comes.

    Reference: 000, section V, Fig. 4
    """
    world = start_chain("a", "b", topics=TOPICS)
    world.add_client("p", "a")
    world.run_for(SECOND)
    for _ in range(3):
        world.publish("p", "p", "t", {})
    world.run_for(100 * MILLISECOND)
    assert confirmed(world, "p") == [1, 2, 3]
    assert len(publisher_order(world, "a").forwarding.custody) == 0


def test_x_p0_21_nothing_goes_back_where_it_came_from() -> None:
    """With matching subscribers on both sides, B sends A's publication on and nothing back; sending back as
    Fig. 4 says would make both wait for each other for ever.

    Reference: 000, section V, Fig. 4
    """
    world = chain_with_p_and_s("a", "b", "c")
    world.add_client("s2", "a")
    subscribe_all(world, {"s2": ""})
    sent = Messages(world)
    publish_some(world, 5)
    assert not any((source, target) == ("b", "a") for source, target, _ in copies(sent))
    assert delivered(world, "s") == delivered(world, "s2") == [1, 2, 3, 4, 5] == confirmed(world, "p")
    assert all(len(publisher_order(world, name).forwarding.custody) == 0 for name in "abc")


PATIENT = Timing(ping_every=SECOND, suspect_after=60 * SECOND)


def test_x_p0_22_a_nearer_session_does_not_overtake() -> None:
    """When the active session moves from C to the recovered B, m1 that is still under way to C is sent again
    before m2: C delivers m1, m2. Otherwise m2 would overtake m1, which would be taken for a duplicate. The
    confirmation of the late copy, which comes by the old session, is ignored (X-P0-23).

    Reference: 000, section V; 003, section 6 (X-D3-22)
    """
    world = chain_with_p_and_s("a", "b", "c", timing=PATIENT)
    world.crash("b")
    world.run_for(SECOND)
    sent = Messages(world)
    world.network.slowness["a", "c"] = 400  # about two seconds
    world.publish("p", "p", "t", {})
    world.restart("b")
    world.run_until(lambda: ("a", "b", 1) in [(a, b, each.event.sequence) for a, b, each in copies(sent)])
    assert delivered(world, "s") == []
    publish_some(world)
    assert delivered(world, "s") == [1, 2] == confirmed(world, "p")
    world.run_for(30 * SECOND)
    answers = [(source, target) for source, target, _ in sent.of(Acknowledged)]
    assert delivered(world, "s") == [1, 2]
    assert ("b", "a") in answers
    assert all(len(publisher_order(world, name).forwarding.custody) == 0 for name in "abc")
    assert_promises(world)


# -- the figures -------------------------------------------------------------------------------------------


def test_p0_63_disjoint_copies_are_held() -> None:
    """δ = 1: failures move so that one copy would go by 1, 3, 5, 7 and another by 2, 4, 6, 8. Each is held at
    its second bypass within three brokers, and p is delivered once after one more broker recovers.

    Reference: 000, section VI, Fig. 5 (P0-63)
    """
    world = chain_with_p_and_s(*TEN)
    sent = Messages(world)
    for name in EVEN:
        world.crash(name)
    world.run_for(BYPASSED)
    publish_some(world)
    assert held_at(world, "b3") == {"b5": [1]}
    for name in ODD:
        world.crash(name)
    for name in EVEN:
        world.restart(name)
    world.run_for(RECOVERED)
    assert held_at(world, "b2") == {"b4": [1]}
    between = [(source, target) for source, target, _ in copies(sent) if source != "p"]
    assert between == [("b0", "b1"), ("b1", "b3"), ("b0", "b2")]
    assert delivered(world, "s") == []
    for name in ODD:
        world.restart(name)
        world.run_for(RECOVERED)
    assert delivered(world, "s") == [1] == confirmed(world, "p")
    assert_promises(world)


def test_p0_63_without_legitimacy_vectors_have_nothing_in_common() -> None:
    """The hazard: without the rule both copies reach the destination, no entry of their vectors is common,
    and only the publisher's own sequence, compared at the client, stops the second.

    Reference: 000, section VI, Fig. 5 (P0-63)
    """
    world = chain_with_p_and_s(*TEN, beyond_delta=BeyondDelta.MARK)
    sent = Messages(world)
    for name in EVEN:
        world.crash(name)
    world.run_for(BYPASSED)
    world.publish("p", "p", "t", {})
    world.run_until(lambda: delivered(world, "s") == [1])
    for name in ODD:
        world.crash(name)
    for name in reversed(EVEN):
        world.restart(name)
        world.run_for(SECOND)
    world.run_for(RECOVERED)
    vectors = [(source, each.vector) for source, target, each in copies(sent) if target == "b9"]
    assert [source for source, _ in vectors] == ["b7", "b8"]
    assert not set(visited(vectors[0][1])) & set(visited(vectors[1][1]))
    assert delivered(world, "s") == [1] == confirmed(world, "p")


def test_p0_70_a_subscription_from_the_synch_point_is_recognised() -> None:
    """R has s by normal propagation and gets it again from the synch point S, when S activates a session that
    bypasses Y: R recognises it, tells nobody behind it anew, and events come once.

    Our implementation recognises a subscription by its name, since the log is a set.

    Reference: 000, section VII-A, Fig. 7 (P0-70)
    """
    names = ("q", "R", "y", "S", "b", "a")
    world = chain_with_p_and_s(*names)
    before = publisher_order(world, "R").log.length
    sent = Messages(world)
    world.crash("y")
    world.run_for(BYPASSED)
    told = [
        (source, target, line.subscription)
        for source, target, message in sent.of(Log)
        for line in message.entries
        if line.body is not None
    ]
    assert ("S", "R", "s:1:1") in told, "R got another copy"
    assert not [copy for copy in told if copy[:2] == ("R", "q")]
    log = publisher_order(world, "R").log
    assert (log.length, log.subscriptions()) == (before, ["s:1:1"])
    publish_some(world, 3)
    assert delivered(world, "s") == [1, 2, 3] == confirmed(world, "p")
