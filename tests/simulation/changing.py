"""Random changes of the membership alone: no clients, until all is repaired.

A seed draws a small network in which brokers join, leave, crash, also in the middle of a write, come back
with their stores or without, are removed and started again, and links are cut. What happens is written by the
swarm (``gapless.simulation.swarm``); here is which acts there are, and what must be true in the end, whatever
happened: the overlay says nothing of it to a client, so no trace tells.
"""

from __future__ import annotations

from functools import partial
from random import Random

from gapless.core.limits import Limits
from gapless.core.messages import (
    Joined,
    JoinedConfirmed,
    JoinRequest,
    LeaveAsked,
    Neighbourhood,
    PartialTopology,
    RemovalAsked,
    RemovalVote,
)
from gapless.core.messages.overlay import NodeState
from gapless.core.model import OrderName, Topic
from gapless.simulation.host import When
from gapless.simulation.swarm import membership
from gapless.simulation.swarm.aiming import Aims, Shot
from gapless.simulation.swarm.features import RETURNING, Features, _times
from gapless.simulation.swarm.run import play, prepare
from gapless.simulation.swarm.script import Script
from gapless.simulation.swarm.squeezes import REST
from gapless.simulation.swarm.stage import Stage
from gapless.simulation.world import World
from support import TOPIC, assert_equation_1, delivered, publish_all, subscribe_all

CHANGES = ("join", "leave", "replace", "remove", "give up", RETURNING)
FAILURES = (
    "crash",
    "crash silently",
    "crash and lose what is under way",
    "crash in a batch",
    "crash in a write",
    "black out",
    "cut",
    "cut one way",
    "cut noticed",
    "suspect",
    "slow down",
    "starve",
    "aim at a message",
)
MESSAGES = (
    Joined,
    JoinedConfirmed,
    JoinRequest,
    LeaveAsked,
    Neighbourhood,
    PartialTopology,
    RemovalAsked,
    RemovalVote,
)


def features_of(seed: int) -> Features:
    """What the seed has; every other one goes beyond δ failures at a time."""
    rng = Random(f"changing {seed}")
    delta = rng.choice((1, 1, 2, 3))
    latency, timing = _times(rng)
    share = rng.choice((0.3, 0.6, 1.0))
    changes = tuple(each for each in CHANGES if rng.random() < max(share, 0.5)) or (rng.choice(CHANGES),)
    failures = tuple(each for each in FAILURES if rng.random() < share) or ("crash",)
    return Features(
        delta=delta,
        max_down=delta + (rng.choice((1, 2, 4)) if seed % 2 else 0),
        brokers=rng.randrange(3, 8),
        fanout=rng.choice((1, 1, 2, 3)),
        clients=0,
        faults=(*changes, *failures),
        episodes=rng.randrange(2, 9),
        acts=rng.choice((4, 8)),
        fault_share=1.0,
        squeezes=rng.choice((0.2, 0.5)),
        repertoire=tuple(_squeeze(rng) for _ in range(2)),
        background=0,
        window=1_000,
        simple=True,
        topics=(Topic(TOPIC, OrderName.PUBLISHER),),
        limits=Limits(),
        timing=timing,
        latency=latency,
        lasting=rng.choice((1, 1, 3)),
        slow_directions=rng.choice((0, 1, 3)),
        lines=0,
        proxying=rng.random() < 0.3,
        clock_steps=rng.random() < 0.5,
    )


def _squeeze(rng: Random) -> tuple[str, ...]:
    slots = (*CHANGES, "grow", "grow", "aim at a message", "down", "down", "part", "hamper", "heal", REST)
    return tuple(rng.choice(slots) for _ in range(rng.randrange(4, 9)))


def give_up(stage: Stage) -> bool:
    """A broker that is down already does not come back, and somebody has it removed; as long as there are
    two others."""
    world = stage.world
    needed = {*stage.leaving, *stage.doomed, *membership._last_points(stage)}
    down = [name for name in world.brokers() if not world.hosts[name].is_up and name not in needed]
    if not down or len(world.brokers()) < 3:
        return False
    victim = stage.rng.choice(down)
    stage.doomed[victim] = None
    world.at(world.now + stage.features.breath, partial(membership._ask, stage), victim)
    return True


def aim(aims: Aims, stage: Stage) -> bool:
    """Somebody fails at the next message of some kind that changes the membership."""
    rng = stage.rng
    role = rng.choice(("sender", "receiver", "receiver", "next", "link"))
    aims._arm(Shot(role, rng.choice(list(When)), message=rng.choice(MESSAGES)))
    return True


def changed(seed: int) -> Script:
    """The run of a seed, up to the moment when all is repaired and quiet."""
    script = prepare(features_of(seed), seed)
    script.acts |= {"give up": give_up, "aim at a message": partial(aim, script.aims)}
    assert play(script), "it never gets quiet"
    script.stage.world.run_for(script.stage.features.timing.give_up_join_after)  # of joins that were given up
    return script


def check_members(world: World) -> None:
    """All members are one tree, everybody knows its part of it, and nobody waits for anything."""
    _forget_the_lonely(world)
    for name in world.brokers():
        overlay = world.broker(name).overlay
        assert overlay.is_joined, name
        assert overlay.state is NodeState.OPERATIONAL, name
        assert not overlay.topology.partly_known, name
        assert not overlay.partitions.table(), name
        assert not overlay.frontier.wanted, name
    assert_equation_1(world)
    for name in world.departed:
        node = world.hosts[name].node
        assert node is None or not node.overlay.has_place or not node.overlay.sessions.up, name


def _forget_the_lonely(world: World) -> None:
    """Who was removed, and reaches nobody who could tell it so, goes on alone: it is no member."""
    for name in world.brokers():
        overlays = [world.broker(each).overlay for each in world.brokers() if each != name]
        is_removed = any(each.joining.fates.removal(name) is not None for each in overlays)
        if is_removed and not world.broker(name).overlay.sessions.up:
            world.departed[name] = None


def check_events(world: World) -> None:
    """A subscription somewhere gets what is published somewhere."""
    rng = world.random("events")
    world.add_client("p", rng.choice(world.brokers()))
    world.add_client("s", rng.choice(world.brokers()))
    subscribe_all(world, {"s": ""})
    publish_all(world, "p", 3)
    assert world.settle()
    assert delivered(world, "s") == [1, 2, 3]


def check_seed(seed: int) -> None:
    """Run it, and look at what has come of it."""
    world = changed(seed).stage.world
    check_members(world)
    check_events(world)
