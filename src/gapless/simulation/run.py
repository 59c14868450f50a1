"""One simulated run: a tree, clients, faults, and the verdict of the checkers.

Two phases. In the **safety** phase clients work while brokers crash and links break, and nothing wrong may
happen. Then everything is healed, and in the **liveness** phase all that was promised must arrive. The
checkers judge by the trace alone. A protocol is judged by what its topic promises; best effort promises
nothing and is judged by the promise of publisher order, to show that the checkers notice."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

from gapless.core.limits import Limits
from gapless.core.model import MILLISECOND, SECOND, Micros, OrderName, Topic
from gapless.core.overlay.sessions import Timing
from gapless.simulation import trace
from gapless.simulation.checkers import Violation, check
from gapless.simulation.faults import Faults, Window
from gapless.simulation.network import Latency
from gapless.simulation.options import Options, Outcome
from gapless.simulation.swarm.run import simulate_swarm
from gapless.simulation.trees import random_tree
from gapless.simulation.workload import TOPIC, Plan, Workload
from gapless.simulation.world import World

__all__ = ["Options", "Outcome", "build", "judge", "simulate"]

WARM_UP: Micros = 2 * SECOND


def simulate(options: Options, seed: int) -> tuple[Outcome, trace.Trace]:
    """Run once and judge."""
    if options.swarm:
        return simulate_swarm(seed)
    world = build(options, seed)
    traffic = Plan(
        publishers=options.publishers,
        subscribers=options.subscribers,
        events=options.events,
        opens=WARM_UP,
        closes=WARM_UP + _duration(options),
    )
    Workload(world, traffic)
    faults = Faults(
        world,
        crashes=options.crashes,
        cuts=options.cuts,
        max_down=options.budget,
        window=Window(traffic.opens, traffic.closes),
    )
    world.run(until=traffic.closes)
    faults.heal_all()
    settled = world.settle()
    return judge(world, options, faults.injected, settled=settled), world.trace


def build(options: Options, seed: int, limits: Limits | None = None) -> World:
    """A world with its brokers, all of which have joined in an earlier life."""
    topic = Topic(TOPIC, options.order, options.beyond_delta, options.repositories)
    latency = Latency(int(options.latency_ms * MILLISECOND))
    world = World(
        seed=seed,
        delta=options.delta,
        latency=latency,
        timing=_timing(latency),
        topics={TOPIC: topic},
        limits=limits,
    )
    world.network.proxying = world.random("proxies").random() < 0.5
    links = random_tree(options.brokers, options.fanout, world.random("tree"))
    world.add_tree(links) if links else world.add_broker("b0")
    return world


def _timing(latency: Latency) -> Timing:
    """Patience that grows with the latency, so that a slow network is not taken for a broken one."""
    usual = Timing()
    factor = max(1, -(-latency.typical // (5 * MILLISECOND)))
    return replace(usual, ping_every=usual.ping_every * factor, suspect_after=usual.suspect_after * factor)


def _duration(options: Options) -> Micros:
    """Long enough for the faults one after the other, and for the events not to come all at once."""
    faults = -(-(options.crashes + options.cuts) // max(options.budget, 1))
    return max(3 * SECOND, 3 * SECOND * faults, options.events * 20 * MILLISECOND)


def judge(world: World, options: Options, faults: int, *, settled: bool) -> Outcome:
    """The verdict of the checkers on a finished run; one that never comes to rest is no good either."""
    promise = OrderName.PUBLISHER if options.order == OrderName.BEST_EFFORT else options.order
    violations = check(world.trace, promise=promise, healed=True, durable=options.repositories > 0)
    return Outcome(
        seed=world.seed,
        verdict="ok" if settled and not violations else "violated",
        violations=[_as_json(each) for each in violations],
        counts={
            **{str(kind): count for kind, count in violations.counts.items()},
            **({} if settled else {"never at rest": 1}),
        },
        published=sum(type(each) is trace.Publish for each in world.trace),
        delivered=sum(type(each) is trace.Deliver for each in world.trace),
        faults=faults,
        simulated_seconds=world.now / SECOND,
        digest=world.trace.digest(),
        messages=world.network.messages,
        resets=sum(type(each) is trace.Reset for each in world.trace),
    )


def _as_json(violation: Violation) -> dict[str, Any]:
    return {name: value for name, value in asdict(violation).items() if value is not None}
