"""The run of a seed: its world, its script, and the verdict."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict
from functools import partial
from typing import Any

from gapless.core.broker import Broker
from gapless.core.leaf import Leaf
from gapless.core.model import SECOND, NodeId, OrderName
from gapless.core.orders.publisher import PublisherBroker, PublisherLeaf
from gapless.simulation import trace
from gapless.simulation.checkers import check
from gapless.simulation.options import Outcome
from gapless.simulation.swarm.features import CALM, Features, features_of
from gapless.simulation.swarm.links import line_rate, slowest
from gapless.simulation.swarm.script import WARM_UP, Script
from gapless.simulation.swarm.stage import Stage
from gapless.simulation.trees import random_tree
from gapless.simulation.world import World


def simulate_swarm(seed: int) -> tuple[Outcome, trace.Trace]:
    """Run the seed once and judge; code that raises is what a simulation is there to find."""
    script = prepare(features_of(seed), seed)
    trouble: dict[str, int] = {}
    try:
        if not play(script):
            trouble["never at rest"] = 1
    except MemoryError:  # says nothing about the run
        raise
    except Exception as error:
        trouble[f"raised {type(error).__name__}: {error}"] = 1
    return judge(script, trouble), script.stage.world.trace


def prepare(features: Features, seed: int) -> Script:
    """The world of a seed and all that will happen in it."""
    return Script(Stage(build(features, seed), features))


def play(script: Script) -> bool:
    """The whole run; and whether it came to rest."""
    stage, features = script.stage, script.stage.features
    world = stage.world
    world.run(until=WARM_UP)
    _slow_directions(stage)
    world.run(until=script.closes)
    stage.heal_all()
    quiet = max(5 * SECOND, 2 * features.breath + features.timing.redial_most)
    world.run_for(quiet)
    if stage.ended or world.taken:
        world.run_for(features.limits.lease)  # until then the network answers for who does not come back
    script.crowd.last_words()
    return world.settle(quiet=quiet, within=120 * SECOND)


def build(features: Features, seed: int) -> World:
    """A world with its brokers, all of which have joined in an earlier life."""
    world = World(
        seed=seed,
        delta=features.delta,
        latency=features.latency,
        timing=features.timing,
        topics={each.name: each for each in features.topics},
        limits=features.limits,
    )
    world.network.proxying = features.proxying
    world.add_tree(random_tree(features.brokers, features.fanout, world.random("tree")))
    return world


def _slow_directions(stage: Stage) -> None:
    """Some directions are slow, or carry little, all the time."""
    network, rng = stage.world.network, stage.rng
    for _ in range(stage.features.slow_directions):
        pair = stage.session()
        if pair is not None:
            network.slowness[pair] = rng.randrange(1, slowest(stage) + 1)
    for _ in range(stage.features.lines):
        pair = stage.session()
        if pair is not None:
            network.us_per_message[pair] = line_rate(stage)


def judge(script: Script, trouble: dict[str, int]) -> Outcome:
    """The verdict: the checkers' on the trace, and whether anything waits for ever though all is healed."""
    stage = script.stage
    world = stage.world
    raised = any(each.startswith("raised") for each in trouble)
    report = check(world.trace, promise=OrderName.PUBLISHER, healed=not raised)
    waiting = {"counts anew untold": untold(world.trace)}
    if not raised:
        waiting |= {"never confirmed": unconfirmed(world), "never left custody": in_custody(world)}
        waiting |= {"removed and a member": sum(map(partial(_has_place, world), world.removed()))}
    counts = {str(kind): count for kind, count in report.counts.items()} | trouble
    counts |= {kind: count for kind, count in waiting.items() if count} | stage.trouble
    return Outcome(
        seed=world.seed,
        verdict="violated" if counts else "ok",
        violations=[_as_json(each) for each in report],
        counts=counts,
        published=sum(type(each) is trace.Publish for each in world.trace),
        delivered=sum(type(each) is trace.Deliver for each in world.trace),
        faults=sum(count for name, count in stage.counts.items() if name not in CALM),
        simulated_seconds=world.now / SECOND,
        digest=world.trace.digest(),
        messages=world.network.messages,
        resets=sum(type(each) is trace.Reset for each in world.trace),
        kinds=dict(sorted(stage.counts.items())),
    )


def untold(records: Iterable[trace.Record]) -> int:
    """How often a subscription got events of a publisher that counts anew, and no reset before them.

    A publisher that counts anew is another source in the trace (``p``, then ``p#1``), so no order between the
    two is judged; but a reset must lie between them. So it must after a start that names the former."""
    latest: dict[tuple[str, str], str] = {}
    found = 0
    for each in records:
        if isinstance(each, trace.Deliver):
            key = each.subscription, each.publisher.partition("#")[0]
            found += latest.get(key, each.publisher) != each.publisher
            latest[key] = each.publisher
        elif isinstance(each, trace.Live):
            for publisher in each.start:
                latest.setdefault((each.subscription, publisher.partition("#")[0]), publisher)
        elif isinstance(each, trace.Reset):
            for key in [key for key in latest if key[0] == each.subscription]:
                if not each.publishers or key[1] in each.publishers:
                    del latest[key]
        elif isinstance(each, trace.Subscribe):
            latest = {key: name for key, name in latest.items() if key[0] != each.subscription}
    return found


def _has_place(world: World, broker: NodeId) -> bool:
    """Whether the broker runs and takes itself for a member; not if it waits for somebody to join, who may be
    gone too."""
    node = world.hosts[broker].node
    return node is not None and node.overlay.has_place


def unconfirmed(world: World) -> int:
    """How many events publishers still retain, but those who know that their name is somebody else's."""
    found = 0
    for name in world.homes:
        node = world.hosts[name].node
        if node is None:
            continue  # it has ended for good
        assert isinstance(node, Leaf)
        order = node.orders[OrderName.PUBLISHER]
        assert isinstance(order, PublisherLeaf)
        publishing = order.publishing
        for (_, publisher), retained in publishing.retained.items():
            found += len(retained.events) if publisher not in publishing.fenced else 0
    return found


def in_custody(world: World) -> int:
    """How many publications brokers still answer for."""
    found = 0
    for name in world.brokers():
        node = world.hosts[name].node
        assert isinstance(node, Broker)
        order = node.orders[OrderName.PUBLISHER]
        assert isinstance(order, PublisherBroker)
        found += len(order.forwarding.custody)
    return found


def _as_json(violation: Any) -> dict[str, Any]:
    return {name: value for name, value in asdict(violation).items() if value is not None}
