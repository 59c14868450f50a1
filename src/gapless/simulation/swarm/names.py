"""Names that come back or are in use: clients without their store, removed brokers, second brokers, and
brokers of another network. (Second clients, and two clients that publish under one name: ``clients``.)"""

from __future__ import annotations

from gapless.simulation.swarm.stage import Stage


def lose_a_store(stage: Stage) -> bool:
    """A client dies with its disk, and comes back under its name; its clock may have been set back, or on.
    Not one whose home was removed, or is to be, or leaves: nothing would tell it where to go."""
    gone = stage.world.departed | stage.doomed | stage.leaving
    knows = [name for name in stage.clients() if stage.world.homes[name] not in gone]
    clients = [name for name in knows if name not in stage.keeps_its_store]
    if not clients:
        return False
    victim = stage.rng.choice(clients)
    stage.world.crash(victim, silently=stage.rng.random() < 0.5)
    stage.lost_stores[victim] = None
    stage.crashed(victim)
    return True


def start_a_removed_broker(stage: Stage) -> bool:
    """Somebody starts a broker that was removed, from its old store, or without one through a broker that may
    not have heard of that. When everybody has, it must have stopped; meanwhile it is no member."""
    world, rng = stage.world, stage.rng
    removed = [name for name in world.removed() if not world.hosts[name].is_up]
    members = [name for name in stage.members() if name not in stage.leaving]
    if not removed or not members:
        return False
    name = rng.choice(removed)
    if rng.random() < 0.5:
        world.restart(name)
    else:
        stage.join_points[name] = (rng.choice(members),)
        world.replace(name, join=stage.join_points[name])
    world.departed[name] = None
    return True


def double_a_broker(stage: Stage) -> bool:
    """Somebody starts a second broker of a name, with a copy of the first one's store or none.

    Nothing fails while it is there, but a link between the first one and somebody who has no session with it:
    so nobody has a reason to let the second one in.
    """
    world, rng = stage.world, stage.rng
    names = [name for name in stage.members() if f"{name}'" not in world.hosts]
    is_leaving = any(name not in world.departed for name in stage.leaving)
    if stage.intruders or not names or is_leaving or stage.budget.used():
        return False
    first = rng.choice(names)
    known = [each for each in stage.members() if first in world.broker(each).overlay.topology]
    others = [each for each in known if each != first]
    near = {*world.hosts[first].connections, *stage.neighbours(first)}
    far = [each for each in others if each not in near]
    copied = not others or rng.random() < 0.5
    join = () if copied else (rng.choice(far if far and rng.random() < 0.7 else others),)
    if copied and far:
        stage.break_until_the_intruder_ends((first, rng.choice(far)))
    machine = world.add_twin(first, join=join, copied=copied).name
    stage.intrudes(machine)
    return True


def a_foreign_broker(stage: Stage) -> bool:
    """A broker with the store of another network takes one of this one for its neighbour."""
    members = stage.members()
    if stage.intruders or not members:
        return False
    name = f"z{len(stage.world.foreign)}"
    stage.world.add_foreign_broker(name, stage.rng.choice(members))
    stage.intrudes(name)
    return True
