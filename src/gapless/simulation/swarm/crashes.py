"""Crashes of brokers and clients: at once, with what is under way, or in the middle of a batch."""

from __future__ import annotations

from functools import partial

from gapless.core.model import NodeId
from gapless.simulation.swarm.stage import Stage


def crash(stage: Stage, *, silently: bool = False, lossy: bool = False) -> bool:
    """Kill some broker, also one that is recovering."""
    running = stage.running()
    if not running:
        return False
    victim = stage.victim(running)
    if not stage.may_crash(victim):
        return False
    stage.world.crash(victim, silently=silently, lossy=lossy)
    stage.crashed(victim)
    return True


def crash_silently(stage: Stage) -> bool:
    """The machine goes dark: nobody is told that its sessions ended."""
    return crash(stage, silently=True)


def crash_lossily(stage: Stage) -> bool:
    """What the broker had sent, and was still under way, is lost with it."""
    return crash(stage, silently=stage.rng.random() < 0.5, lossy=True)


def crash_in_a_batch(stage: Stage, *, torn: bool = False) -> bool:
    """The next batch is synced, and nothing of it is done."""
    running = stage.running()
    if not running:
        return False
    victim = stage.victim(running)
    if not stage.may_crash(victim):
        return False
    host = stage.world.hosts[victim]
    host.crash_next = True
    host.keeps = stage.rng.randrange(3) if torn else None
    stage.crashed(victim)
    return True


def crash_in_a_write(stage: Stage) -> bool:
    """Of the next batch only some records are synced, and nothing is done."""
    return crash_in_a_batch(stage, torn=True)


def black_out(stage: Stage) -> bool:
    """A part of the network loses its power: neighbours crash together, and come back one by one."""
    running = stage.running()
    if not running:
        return False
    region = [stage.victim(running)]
    most = stage.rng.randrange(2, 8)
    for name in region:
        region += [each for each in stage.neighbours(name) if each not in region]
    silently = stage.rng.random() < 0.3
    dark = 0
    for victim in region[:most]:
        if stage.may_crash(victim):
            stage.world.crash(victim, silently=silently)
            stage.crashed(victim)
            dark += 1
    return dark > 0


def crash_a_client(stage: Stage) -> bool:
    """A client dies with its subscriptions; its publisher goes on when it is back."""
    clients = stage.clients()
    if not clients:
        return False
    victim = stage.rng.choice(clients)
    if stage.rng.random() < 0.3:
        stage.world.hosts[victim].crash_next = True
    else:
        stage.world.crash(victim, silently=stage.rng.random() < 0.5)
    stage.crashed(victim)
    return True


def wear_down(stage: Stage) -> bool:
    """A client is gone for longer than its lease, and its broker crashes again and again meanwhile."""
    clients = stage.clients()
    if not clients:
        return False
    client = stage.rng.choice(clients)
    stage.world.crash(client, silently=stage.rng.random() < 0.5)
    stage.world.at(stage.world.now + 3 * stage.features.limits.lease, stage.restart, client)
    _hit(stage, client)
    return True


def _hit(stage: Stage, client: NodeId) -> None:
    """Crash the broker of a client that is gone, for a moment, and do so again after a part of the lease."""
    world, features, home = stage.world, stage.features, stage.world.homes[client]
    if world.hosts[client].is_up or not stage.is_open:
        return
    if stage.may_crash(home):
        world.crash(home)
        stage.crashed(home)
        world.at(world.now + features.breath // 4, stage.restart, home)
    pause = features.limits.lease * stage.rng.randrange(25, 60) // 100
    world.at(world.now + pause, partial(_hit, stage), client)
