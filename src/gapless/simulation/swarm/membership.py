"""Networks that grow, shrink and lose brokers with their stores, whatever else happens."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from gapless.core.effects import LinkAdded
from gapless.core.model import NodeId
from gapless.simulation.partitioned import known_links
from gapless.simulation.swarm.stage import Stage

MOST_BROKERS = 10


def join(stage: Stage) -> bool:
    """A new broker joins through one, two or three others, which may fail before it has."""
    members = [name for name in stage.members() if name not in stage.leaving]
    if not members or not stage.budget.has_room() or len(stage.world.brokers()) >= MOST_BROKERS:
        return False
    points = stage.rng.sample(members, min(len(members), stage.rng.choice((1, 2, 2, 3))))
    name = f"n{sum(each.startswith('n') for each in stage.world.hosts)}"
    stage.world.add_broker(name, join=tuple(points))
    stage.join_points[name] = tuple(points)
    stage.budget.note()
    _follow(stage, points)
    return True


def _follow(stage: Stage, points: Sequence[NodeId]) -> None:
    """Sometimes one of the join points crashes soon, with luck just after the join."""
    if stage.rng.random() < 0.7:
        moment = stage.world.now + stage.gap(stage.features.breath)
        stage.world.at(moment, partial(_crash, stage), stage.rng.choice(points))


def _crash(stage: Stage, victim: NodeId) -> None:
    if stage.may_crash(victim):
        stage.world.crash(victim, silently=stage.rng.random() < 0.5)
        stage.crashed(victim)
        stage.counts["crash of a join point"] += 1


def leave(stage: Stage) -> bool:
    """A broker at the edge leaves for good, unless it is needed. It is not the home of a client that is away,
    nor has it the place of that: the client has not heard of removals, and may know nobody else to ask."""
    world = stage.world
    homes = {world.heir(world.home(client)) for client in world.homes if _is_away(stage, client)}
    needed = {*homes, *stage.leaving, *stage.needed()}
    members = [name for name in stage.members() if name not in needed]
    edge = [name for name in members if len(stage.neighbours(name)) == 1]
    if not edge or len(stage.world.brokers()) < 3 or stage.budget.is_closed:
        return False
    name = stage.rng.choice(edge)
    stage.leaving[name] = None
    stage.world.leave(name)
    return True


def _is_away(stage: Stage, client: NodeId) -> bool:
    """Whether the client may not hear of a removal, or has not heard yet of that of its home."""
    host = stage.world.hosts[client]
    return not host.is_up or not host.sessions or stage.world.home(client) in stage.world.departed


def replace(stage: Stage) -> bool:
    """A broker dies with its store, and joins anew in its old place, through one or more neighbours."""
    members = stage.members()
    if not members:
        return False
    victim = stage.rng.choice(members)
    points = [each for each in stage.neighbours(victim) if each in members and each not in stage.leaving]
    if not points or victim in stage.leaving or not stage.may_crash(victim):
        return False
    if not _is_remembered(stage, victim):
        return False
    chosen = stage.rng.sample(points, stage.rng.randrange(1, len(points) + 1))
    stage.world.crash(victim, silently=stage.rng.random() < 0.5, lossy=stage.rng.random() < 0.5)
    stage.without_store[victim] = stage.join_points[victim] = tuple(chosen)
    stage.crashed(victim)
    return True


def _is_remembered(stage: Stage, victim: NodeId) -> bool:
    """Whether each link that the broker knows is in another store too: what nobody knows, nobody can mend."""
    world = stage.world
    others = [each for each in world.brokers() if each != victim and each not in stage.without_store]
    known = {link for each in others for link in known_links(world.hosts[each].store)}
    return known.issuperset(known_links(world.hosts[victim].store))


def remove(stage: Stage) -> bool:
    """A broker dies for good, and somebody has it removed, asking as often as needed."""
    running = stage.running()
    needed = {*stage.leaving, *_last_points(stage)}
    victims = [name for name in stage.members() if name not in needed]
    if len(running) < 4 or not victims:
        return False
    victim = stage.victim(victims)
    if not stage.may_crash(victim):
        return False
    stage.doomed[victim] = None
    stage.world.crash(victim, silently=stage.rng.random() < 0.3)
    stage.crashed(victim)
    stage.world.at(stage.world.now + stage.features.breath, partial(_ask, stage), victim)
    return True


def _last_points(stage: Stage) -> set[NodeId]:
    """The only brokers left that can let somebody in who knows nobody else yet: were one of them removed,
    nobody could say who has its place."""
    world, found = stage.world, set[NodeId]()
    for name in [each for each in world.brokers() if each in stage.join_points]:
        knows_others = any(isinstance(each, LinkAdded) for each in world.hosts[name].store)
        if name in stage.without_store or not knows_others:
            gone = (world.departed, stage.doomed)
            left = [each for each in stage.join_points[name] if not any(each in those for those in gone)]
            found.update(left if len(left) == 1 else ())
    return found


def _ask(stage: Stage, victim: NodeId) -> None:
    """Nobody asks while a client is away: it must not lose one broker after the other that it knows."""
    world = stage.world
    if not stage.is_open or world.removals.get(victim) == "":
        return
    clients = [world.hosts[name] for name in world.homes if name not in stage.ended]
    if all(host.is_up and host.sessions for host in clients):
        world.remove(victim)
    world.at(world.now + stage.gap(stage.features.breath), partial(_ask, stage), victim)
