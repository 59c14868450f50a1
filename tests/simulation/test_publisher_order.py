"""Publisher order in seeded simulations: promises kept, cost without failures, bounded state."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from gapless.core.leaf import Leaf
from gapless.core.limits import Limits
from gapless.core.messages.publisher import Publications
from gapless.core.model import MILLISECOND, SECOND, BeyondDelta, Event, NodeId, OrderName, Topic
from gapless.core.orders.publisher import PublisherLeaf
from gapless.core.orders.publisher.custody import Held
from gapless.core.orders.publisher.forwarding import Arrival, Forwarding
from gapless.core.orders.publisher.outbox import Draft
from gapless.core.orders.publisher.subscribing import Subscribing, Taker
from gapless.simulation import trace
from gapless.simulation.checkers import check
from gapless.simulation.run import Options, simulate
from gapless.simulation.trees import kary_tree
from gapless.simulation.world import World
from support import (
    BYPASSED,
    Messages,
    in_custody,
    paths_from,
    publisher_order,
    start_chain,
    start_tree,
    tree_of,
)

pytestmark = pytest.mark.slow

TOPICS = {"t": Topic("t", OrderName.PUBLISHER)}
CHUNK = 8

WITHIN_DELTA: dict[str, tuple[Options, int]] = {
    "three": (Options(brokers=3, publishers=2, subscribers=3, events=60, crashes=4, cuts=4), 24),
    "chain": (Options(brokers=6, fanout=1, publishers=2, subscribers=4, events=60, crashes=4, cuts=4), 16),
    "star": (Options(brokers=8, fanout=7, publishers=3, subscribers=4, events=50, crashes=4, cuts=4), 16),
    "crashes": (Options(brokers=5, publishers=2, subscribers=4, events=60, crashes=10), 8),
    "cuts": (Options(brokers=5, publishers=2, subscribers=4, events=80, cuts=10), 8),
    "slow": (
        Options(brokers=5, publishers=2, subscribers=4, events=60, crashes=4, cuts=4, latency_ms=40),
        16,
    ),
    "two": (Options(brokers=9, delta=2, publishers=3, subscribers=4, events=50, crashes=6, cuts=6), 24),
    "three-at-once": (
        Options(brokers=12, fanout=2, delta=3, publishers=3, subscribers=4, events=50, crashes=8, cuts=8),
        16,
    ),
    "twenty": (Options(brokers=20, delta=2, publishers=4, subscribers=6, events=40, crashes=6, cuts=6), 8),
}
"""What the tree and the faults are like, and how many seeds of it are run."""

LARGE = Options(brokers=60, fanout=5, delta=3, publishers=4, subscribers=6, events=40, crashes=6, cuts=6)

BEYOND = Options(
    brokers=9, fanout=2, publishers=3, subscribers=4, events=50, crashes=8, cuts=4, max_down=3, delta=1
)


def chunks(runs: dict[str, tuple[Options, int]]) -> list[object]:
    """The seeds in portions that take some seconds each."""
    return [
        pytest.param(options, range(first, min(first + CHUNK, count)), id=f"{name}-{first}")
        for name, (options, count) in runs.items()
        for first in range(0, count, CHUNK)
    ]


# -- the promise ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("options", "seeds"), chunks(WITHIN_DELTA))
def test_no_promise_is_broken_within_delta(options: Options, seeds: range) -> None:
    for seed in seeds:
        outcome, _ = simulate(options, seed)
        assert outcome.ok, f"seed {seed}: {outcome.violations[:3]}"
        assert outcome.delivered > 0
        assert outcome.faults > 0


@pytest.mark.parametrize("seed", range(4))
def test_no_promise_is_broken_in_a_large_tree(seed: int) -> None:
    outcome, _ = simulate(LARGE, seed)
    assert outcome.ok, outcome.violations[:3]


@pytest.mark.parametrize(("options", "seeds"), chunks({"hold": (BEYOND, 16)}))
def test_beyond_delta_what_is_held_keeps_the_promise(options: Options, seeds: range) -> None:
    for seed in seeds:
        outcome, found = simulate(options, seed)
        assert outcome.ok, f"seed {seed}: {outcome.violations[:3]}"
        assert not any(isinstance(each, trace.Deliver) and each.best_effort for each in found)


MARKING = Options(
    brokers=9,
    fanout=2,
    publishers=3,
    subscribers=4,
    events=50,
    crashes=8,
    cuts=4,
    max_down=3,
    beyond_delta=BeyondDelta.MARK,
)


@pytest.mark.parametrize(("options", "seeds"), chunks({"mark": (MARKING, 16)}))
def test_beyond_delta_what_is_not_marked_keeps_the_promise(options: Options, seeds: range) -> None:
    for seed in seeds:
        outcome, _ = simulate(options, seed)
        assert outcome.ok, f"seed {seed}: {outcome.violations[:3]}"


@pytest.mark.parametrize("beyond", BeyondDelta)
def test_more_than_delta_failures_on_one_path(beyond: BeyondDelta) -> None:
    """Two of three brokers in a row are gone, δ is 1: marked copies go on at once, others wait."""
    names = [f"b{k}" for k in range(6)]
    world = start_chain(*names, topics={"t": Topic("t", OrderName.PUBLISHER, beyond)})
    world.add_client("p", "b0")
    world.add_client("s", "b5")
    world.run_for(SECOND)
    world.subscribe("s", "s", "t")
    world.run_for(SECOND)
    _publish(world, "p", 2)
    world.run_for(SECOND)
    for name in ("b1", "b3"):
        world.crash(name)
    world.run_for(BYPASSED)
    _publish(world, "p", 3)
    world.run_for(SECOND)
    is_marking = beyond is BeyondDelta.MARK
    meanwhile = [(each.sequence, each.best_effort) for each in _delivered(world)]
    assert meanwhile == [(1, False), (2, False), *([(3, True), (4, True), (5, True)] if is_marking else [])]
    for name in ("b1", "b3"):
        world.restart(name)
    world.settle()
    _publish(world, "p", 1)
    world.settle()
    assert [each.sequence for each in _delivered(world)] == [1, 2, 3, 4, 5, 6]
    assert [each.best_effort for each in _delivered(world)][2:] == [*[is_marking] * 3, False]
    assert check(world.trace, promise=OrderName.PUBLISHER, healed=True) == []
    assert in_custody(world) == {}


def _delivered(world: World) -> list[trace.Deliver]:
    return [each for each in world.trace if isinstance(each, trace.Deliver)]


def _publish(world: World, client: NodeId, count: int, **attributes: int) -> None:
    for _ in range(count):
        world.publish(client, client, "t", attributes)


# -- determinism ---------------------------------------------------------------------------------------------


def test_events_travel_together_in_simulations_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Or most of what is done for a whole run at once would never be simulated."""
    taken, sent, delivered = Counter[tuple[int, int]](), Counter[int](), Counter[int]()
    take_over, add, give = Forwarding._take_over, Draft.add, Subscribing._give

    def taking_over(self: Forwarding, arrival: Arrival, events: Sequence[Event], numbers: Any) -> None:
        take_over(self, arrival, events, numbers)
        taken[min(len(events), 2), len(arrival.ways)] += 1

    def adding(self: Draft, group: Sequence[Held]) -> None:
        sent[min(len(group), 2)] += 1
        add(self, group)

    def giving(self: Subscribing, taker: Taker, *about: Any) -> None:
        delivered[min(len(taker.events), 2)] += 1
        give(self, taker, *about)

    monkeypatch.setattr(Forwarding, "_take_over", taking_over)
    monkeypatch.setattr(Draft, "add", adding)
    monkeypatch.setattr(Subscribing, "_give", giving)
    for seed in range(4):
        assert simulate(Options(brokers=5, events=100, crashes=4, cuts=4), seed)[0].ok
    assert sum(count for (events, ways), count in taken.items() if events > 1 and ways > 1) > 10
    assert sent[2] > 10
    assert delivered[2] > 10


def test_the_order_of_sets_has_no_influence() -> None:
    program = """
from gapless.simulation.run import Options, simulate
for seed in range(3):
    options = Options(brokers=9, delta=2, publishers=3, subscribers=4, events=30, crashes=5, cuts=5)
    outcome, _ = simulate(options, seed)
    print(outcome.digest, outcome.messages, outcome.delivered, outcome.verdict)
"""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(path for path in sys.path if path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(outputs[0].splitlines()) == 3
    assert outputs[0] == outputs[1]


# -- cost without failures -----------------------------------------------------------------------------------


def test_on_a_chain_an_event_crosses_each_link_once() -> None:
    """From one end to the other, with a subscriber in the middle too."""
    names = [f"b{k}" for k in range(6)]
    world = start_chain(*names, topics=TOPICS)
    copies = _copies(world, {"p": "b0", "middle": "b2", "end": "b5"}, events=40)
    links = [*pairwise(names), ("p", "b0"), ("b2", "middle"), ("b5", "end")]
    assert copies == dict.fromkeys(links, 40)


def test_on_a_star_an_event_goes_only_where_it_is_wanted() -> None:
    """Three of five leaves have a subscriber, one of them two; the others never see the event."""
    world = start_tree([("hub", f"b{k}") for k in range(6)], topics=TOPICS)
    clients = {"p": "b0", "s1": "b1", "s2": "b2", "s3": "b3", "s4": "b3"}
    copies = _copies(world, clients, events=40)
    links = [("p", "b0"), ("b0", "hub"), *(("hub", f"b{k}") for k in (1, 2, 3))]
    links += [(home, client) for client, home in clients.items() if client != "p"]
    assert copies == dict.fromkeys(links, 40)


def test_an_event_that_nobody_wants_stays_where_it_was_published() -> None:
    world = start_chain("b0", "b1", topics=TOPICS)
    assert _copies(world, {"p": "b0"}, events=10) == {("p", "b0"): 10}


def _copies(world: World, clients: dict[NodeId, NodeId], *, events: int) -> dict[tuple[NodeId, NodeId], int]:
    """How many copies of events each link carried, when all but ``p`` subscribe to everything."""
    for client, home in clients.items():
        world.add_client(client, home)
    world.run_for(SECOND)
    subscribers = [client for client in clients if client != "p"]
    for client in subscribers:
        world.subscribe(client, client, "t")
    world.run_for(SECOND)
    sent = Messages(world)
    for _ in range(events):
        _publish(world, "p", 1)
        world.run_for(3 * MILLISECOND)
    world.settle()
    assert len(_delivered(world)) == events * len(subscribers)
    copies: Counter[tuple[NodeId, NodeId]] = Counter()
    for source, target, message in sent.of(Publications):
        copies[source, target] += message.count
    return dict(copies)


# -- state ---------------------------------------------------------------------------------------------------


def test_state_does_not_grow_with_the_number_of_events() -> None:
    """Five thousand events in ten bursts; publishers and subscribers come and go between the bursts."""
    links = kary_tree(13, 3)
    world = start_tree(links, topics=TOPICS)
    for k in range(13):
        world.add_client(f"p{k}", f"b{k}")
        world.add_client(f"s{k}", f"b{k}")
    world.run_for(SECOND)
    for k in range(0, 13, 2):
        world.subscribe(f"s{k}", f"s{k}/stays", "t", f"n < {k + 1}")
    sizes = []
    for burst in range(10):
        world.subscribe("s1", f"s1/{burst}", "t")
        world.run_for(SECOND)
        for k in range(500):
            _publish(world, f"p{(burst + k) % 5}", 1, n=k % 13)
            world.run_for(2 * MILLISECOND)
        world.unsubscribe("s1", f"s1/{burst}")
        world.settle()
        sizes.append({name: _size(world, name) for name in world.brokers()})
    assert len(_delivered(world)) > 5_000
    assert check(world.trace, promise=OrderName.PUBLISHER, healed=True) == []
    world.run_for(Limits().lease)
    for k in range(5):
        _publish(world, f"p{k}", 1, n=0)  # brokers forget when they work
    world.settle()
    assert sizes[4] == sizes[-1], "the second half of the run left nothing behind"
    world.run_for(2 * Limits().lease)  # streams are remembered for one, in case something is still under way,
    world.subscribe("s1", "s1/last", "t")  # and forgotten when something happens next
    world.run_for(SECOND)
    world.unsubscribe("s1", "s1/last")
    world.settle()
    tree = tree_of(links)
    for name in world.brokers():
        order = publisher_order(world, name)
        assert len(order.forwarding.custody) == 0
        seen = {publisher for _, publisher in order.forwarding.custody.streams}
        assert seen <= {*(f"p{k}" for k in range(5)), f"p{name[1:]}"}, "a lease after the others were idle"
        assert {publisher for _, publisher in order.forwarding.presence.present} <= {f"p{name[1:]}"}
        assert order.forwarding.vectors.size() <= len(paths_from(tree, name, order.forwarding.vectors.length))
        assert len(order.log.subscriptions()) == 7, "those that ended are forgotten"
    for k in range(5):
        assert not _retained(world, f"p{k}")


def _size(world: World, name: NodeId) -> dict[str, int]:
    """How much a broker remembers."""
    order = publisher_order(world, name)
    return {
        "custody": len(order.forwarding.custody),
        "streams": len(order.forwarding.custody.streams),
        "numbers": order.forwarding.vectors.size(),
        "log": len(order.log.subscriptions()),
        "sessions": len(order.peers),
        "told": sum(
            len(each.index_of) + len(each.untold) + len(each.ended) + len(each.confirmed)
            for each in order.peers.values()
        ),
    }


def _retained(world: World, client: NodeId) -> int:
    node = world.hosts[client].node
    assert isinstance(node, Leaf)
    order = node.orders[OrderName.PUBLISHER]
    assert isinstance(order, PublisherLeaf)
    return sum(len(each.events) for each in order.publishing.retained.values())
