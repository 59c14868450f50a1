"""Paper 000, abstract and sections I and II, for publisher order: what is promised, and in what world."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest

from gapless.core.model import MILLISECOND, SECOND, NodeId
from gapless.core.overlay.sessions import Timing
from gapless.matching import MatchIndex
from gapless.selectors import Selector
from gapless.simulation.run import Options, simulate
from gapless.simulation.world import World
from support import (
    BYPASSED,
    RECOVERED,
    TOPIC,
    Handlings,
    assert_promises,
    chain,
    delivered,
    in_custody,
    known_at,
    lives,
    publish_all,
    start_network,
    subscribe_all,
)

CHAIN = [f"b{k}" for k in range(8)]

SELECTORS = {
    "s1": "prov = 'bbc' AND loc = 'nAmerica'",
    "s2": "prov = 'bbc' AND type = 'video' AND extra = 'mostViewed'",
}
DESCRIPTORS = {
    "p1": {
        "prov": "bbc",
        "loc": "nAmerica",
        "type": "video",
        "subj": "oilSlick",
        "extra": "mostViewed",
    },
    "p2": {"prov": "bbc", "loc": "nAmerica", "type": "HTML", "extra": "frontPage"},
}


def figure_1(delta: int) -> World:
    """P at b1; behind b2 the servers S1 at b3, which subscribes before, and S2 at b4, during the failure."""
    links = [*chain("b1", "b2", "b3"), *chain("b2", "b4")]
    world = start_network(links, {"p": "b1", "S1": "b3", "S2": "b4"}, delta=delta)
    subscribe_all(world, {"S1": "early"})
    return world


def cut_figure_1(world: World, action: str) -> None:
    """The link of b1 and b2; with δ > 0 also those around it, or b1 goes round b2."""
    for other in ("b2", "b3", "b4") if world.delta else ("b2",):
        world.cut("b1", other) if action == "cut" else world.heal("b1", other)


@pytest.mark.parametrize("delta", range(4))
def test_p0_01_any_delta_brokers_between_two_ends_may_fail(delta: int) -> None:
    """One parameter, δ, says how many concurrent failures are tolerated, in any formation.

    Every subset of at most δ inner brokers of a chain of eight crashes in the middle of the traffic: all is
    delivered between the ends while they stay dead, once and in order.

    Reference: 000, abstract and section I (P0-01)
    """
    inner = CHAIN[1:-1]
    for victims in (each for size in range(delta + 1) for each in combinations(inner, size)):
        world = start_network(chain(*CHAIN), {"p": "b0", "s": "b7"}, delta=delta)
        subscribe_all(world, {"s": ""})
        publish_all(world, "p", 12, every=5 * MILLISECOND)
        world.run_for(30 * MILLISECOND)
        for victim in victims:
            world.crash(victim, silently=True)
        world.run_for(BYPASSED)
        publish_all(world, "p", 3)
        world.run_for(SECOND)
        assert delivered(world, "s") == list(range(1, 16)), victims
        assert in_custody(world) == {}, victims


def test_p0_01_one_more_failure_than_delta_delays_and_loses_nothing() -> None:
    """What is more than δ is not tolerated: it waits, and comes when the failure is over.

    Reference: 000, abstract and section I (P0-01)
    """
    world = start_network(chain(*CHAIN), {"p": "b0", "s": "b7"}, delta=1)
    subscribe_all(world, {"s": ""})
    world.crash("b3")
    world.crash("b4")
    world.run_for(BYPASSED)
    publish_all(world, "p", 5)
    world.run_for(5 * SECOND)
    assert delivered(world, "s") == []
    world.restart("b3")
    world.restart("b4")
    assert_promises(world)
    assert delivered(world, "s") == [1, 2, 3, 4, 5]


def test_p0_01_a_cut_link_is_one_failure_as_well() -> None:
    """δ counts links as well as brokers: one cut link is gone round with δ = 1.

    c hands the events to b, which is nearer and alive, and b cannot hand them on to a: the papers leave them
    there until the link is healed. Our implementation lets b and a reach each other through c.

    Reference: 000, abstract and section I (P0-01)
    """
    world = start_network(chain("a", "b", "c"), {"p": "c", "s": "a"}, delta=1)
    world.network.proxying = True
    subscribe_all(world, {"s": ""})
    world.cut("a", "b")
    world.run_for(BYPASSED)
    publish_all(world, "p", 5)
    world.run_for(5 * SECOND)
    assert delivered(world, "s") == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("delta", [1, 2])
@pytest.mark.parametrize("seed", range(6))
def test_p0_02_exactly_once_in_order_without_a_gap(delta: int, seed: int) -> None:
    """Per source, the matching sequence arrives exactly once, in order and without a gap, whatever fails
    within the budget of δ.

    Reference: 000, section I (P0-02)
    """
    options = Options(delta=delta, brokers=10, crashes=4, cuts=4, events=30, publishers=3, subscribers=4)
    outcome, _ = simulate(options, seed)
    assert outcome.ok, outcome.violations
    assert outcome.faults > 0
    assert outcome.delivered > 0


@pytest.mark.slow
@pytest.mark.parametrize("block", range(5))
def test_p0_02_exactly_once_in_order_without_a_gap_on_many_seeds(block: int) -> None:
    """The same on 250 random runs; `make soak` goes on from there.

    Reference: 000, section I (P0-02)
    """
    for seed in range(50 * block, 50 * block + 50):
        options = Options(
            delta=1 + seed % 3, brokers=10, crashes=4, cuts=4, events=30, publishers=3, subscribers=4
        )
        outcome, _ = simulate(options, seed)
        assert outcome.ok, (seed, outcome.violations)


@pytest.mark.parametrize("delta", [0, 1])
def test_p0_03_the_motivating_example(delta: int) -> None:
    """s1 is issued before and s2 during the failure between b1 and b2. p1 matches both, p2 only s2, and b1
    knows only s1: S2 must not receive p1 and miss p2.

    The predicates are made consistent (X-P0-01): an event has the flags that the subscriptions ask for.

    Reference: 000, section I, Fig. 1 (P0-03)
    """
    world = figure_1(delta)
    cut_figure_1(world, "cut")
    world.run_for(BYPASSED)
    world.subscribe("S2", "S2", TOPIC, "late")
    world.run_until(lambda: bool(lives(world, "S2")))
    assert lives(world, "S2")[0].unreachable == ("b1",)
    world.publish("p", "p", TOPIC, {"early": True, "late": True})  # p1
    world.publish("p", "p", TOPIC, {"late": True})  # p2
    world.run_for(SECOND)
    assert len(known_at(world, "b1")) == 1
    cut_figure_1(world, "heal")
    world.run_for(RECOVERED)
    world.publish("p", "p", TOPIC, {"early": True, "late": True})  # p3
    assert_promises(world)
    assert delivered(world, "S1") == [1, 3]
    assert delivered(world, "S2") in ([3], [1, 2, 3])
    assert lives(world, "S2")[-1].unreachable == ()


@pytest.mark.parametrize("delta", [0, 1])
def test_p0_03_without_the_failure_both_get_everything(delta: int) -> None:
    """The same without the failure: S2 gets p1 and p2.

    Reference: 000, section I, Fig. 1 (P0-03)
    """
    world = figure_1(delta)
    subscribe_all(world, {"S2": "late"})
    world.publish("p", "p", TOPIC, {"early": True, "late": True})
    world.publish("p", "p", TOPIC, {"late": True})
    assert_promises(world)
    assert delivered(world, "S1") == [1]
    assert delivered(world, "S2") == [1, 2]


def test_p0_04_every_forwarder_was_aware_of_the_subscription() -> None:
    """A publication is delivered for s only if every broker that forwarded it had accepted s before.

    Subscriptions come and a link fails in the middle of the traffic of two sources; the way of each delivered
    copy is followed back, and each broker on it knew the subscription when it handled the publication.

    Reference: 000, sections I (overview) and V (P0-04)
    """
    clients = {"p": "a", "q": "c", "s0": "e", "s1": "d", "s2": "a", "s3": "c"}
    world = start_network(chain("a", "b", "c", "d", "e"), clients)
    handled = Handlings(world)
    for source in "pq":
        publish_all(world, source, 300, every=10 * MILLISECOND)
    for k in range(4):
        world.at(world.now + k * 200 * MILLISECOND, lambda k: world.subscribe(f"s{k}", f"s{k}", TOPIC), k)
    world.run_for(350 * MILLISECOND)
    world.crash("b", silently=True)
    world.run_for(BYPASSED)
    world.restart("b")
    assert_promises(world)
    assert handled.assert_all_were_aware() > 1000
    assert all(lives(world, f"s{k}") for k in range(4))


@pytest.mark.parametrize(
    ("subscription", "publication", "matches"),
    [("s1", "p1", True), ("s2", "p1", True), ("s1", "p2", True), ("s2", "p2", False)],
)
def test_p0_05_the_content_of_the_example(subscription: str, publication: str, matches: bool) -> None:
    """A subscription is a conjunction of predicates on attributes.

    The descriptors are those of the paper: in spite of its text p2 does not match s2 (X-P0-01).

    Reference: 000, section I (P0-05)
    """
    selector, attributes = Selector(SELECTORS[subscription]), DESCRIPTORS[publication]
    assert selector.matches(attributes) is matches
    index: MatchIndex[str] = MatchIndex()
    for name, text in SELECTORS.items():
        index.add(name, Selector(text))
    assert (subscription in index.match(attributes)) is matches


def test_p0_05_every_predicate_counts() -> None:
    """An event that lacks one attribute of the conjunction, or has another value there, does not match.

    Reference: 000, section I (P0-05)
    """
    selector = Selector(SELECTORS["s2"])
    full: dict[str, Any] = DESCRIPTORS["p1"]
    assert selector.matches(full)
    for name in ("prov", "type", "extra"):
        assert not selector.matches({key: value for key, value in full.items() if key != name})
        assert not selector.matches({**full, name: "other"})
    assert selector.matches({**full, "loc": "elsewhere"})


@pytest.mark.parametrize(("slow_from", "slow_to"), [("a", "b"), ("b", "a"), ("b", "c")])
def test_p0_06_a_slow_link_loses_nothing_of_publisher_order(slow_from: NodeId, slow_to: NodeId) -> None:
    """There is no bound on delays: a link that is a hundred times slower, without a word of the failure
    detector, loses nothing and keeps the order.

    Reference: 000, section II (P0-06)
    """
    patient = Timing(ping_every=SECOND, suspect_after=60 * SECOND)
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"}, timing=patient)
    subscribe_all(world, {"s": ""})
    before = world.broker("b").overlay.sessions.up["a"]
    world.network.slowness[slow_from, slow_to] = 100
    publish_all(world, "p", 50, every=7 * MILLISECOND)
    world.run_for(550 * MILLISECOND)
    assert in_custody(world), "the link is slow indeed"
    assert_promises(world)
    assert delivered(world, "s") == list(range(1, 51))
    assert world.broker("b").overlay.sessions.up["a"] is before


def test_p0_06_a_link_that_is_slower_than_the_detector_is_a_failed_one() -> None:
    """A failed link is an infinitely slow link: the detector may take the slow for the failed, and nothing is
    lost, repeated or out of order by its mistake.

    Reference: 000, section II (P0-06)
    """
    world = start_network(chain("a", "b", "c"), {"p": "a", "s": "c"})
    subscribe_all(world, {"s": ""})
    before = world.broker("b").overlay.sessions.up["a"]
    world.network.slowness["a", "b"] = 1000
    publish_all(world, "p", 400, every=10 * MILLISECOND)
    world.run_for(4 * SECOND)
    assert world.broker("b").overlay.sessions.up.get("a") is not before, "it was taken for failed"
    world.network.slowness.clear()
    assert_promises(world)
    assert delivered(world, "s") == list(range(1, 401))
