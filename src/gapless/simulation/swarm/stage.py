"""What all acts share: the world, the features, luck, the budget, and how broken things are repaired."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import TypeAlias

from gapless.core.broker import Broker
from gapless.core.model import SECOND, Micros, NodeId
from gapless.simulation.swarm.budget import Budget, Pair
from gapless.simulation.swarm.features import Features
from gapless.simulation.world import World


class Stage:
    """Where acts happen."""

    def __init__(self, world: World, features: Features) -> None:
        self.world = world
        self.features = features
        self.rng: Random = world.random("acts")
        self.budget = Budget(world, features.max_down)
        self.counts: Counter[str] = Counter()
        self.is_open = True
        """Whether things may still break."""
        self.without_store: dict[NodeId, tuple[NodeId, ...]] = {}
        """Brokers that will come back without their store, and through whom they join."""
        self.lost_stores: dict[NodeId, None] = {}
        """Clients that will come back without their store."""
        self.keeps_its_store: dict[NodeId, None] = {}
        """Clients whose store is handed on to others."""
        self.ended: dict[NodeId, None] = {}
        """Clients that do not come back."""
        self.passing: dict[NodeId, None] = {}
        """Second clients that may end before the run does."""
        self.intruders: dict[NodeId, Pair | None] = {}
        """Brokers that nobody may let in, and the link that is cut while they are there."""
        self.trouble: Counter[str] = Counter()
        """What was wrong while the run went on."""
        self.leaving: dict[NodeId, None] = {}
        self.join_points: dict[NodeId, tuple[NodeId, ...]] = {}
        """Through whom brokers join, or have joined."""
        self.doomed: dict[NodeId, None] = {}
        """Brokers that do not come back, unless all is repaired before they are removed."""
        self.focus: tuple[NodeId, ...] = ()
        """The nodes that failed last: what happens near them is more dangerous than elsewhere."""
        self._with_the_intruder: Pair | None = None

    def gap(self, longest: Micros) -> Micros:
        """Some while up to the longest: a short one as likely as one ten times as long."""
        return int(math.exp(self.rng.uniform(math.log(500), math.log(max(longest, 1_000)))))

    def span(self) -> Micros:
        """How long a failure lasts: often shorter than its detection takes, seldom much longer."""
        usual = self.features.breath * self.rng.choice((0.15, 0.5, 1.5, 4)) * (0.3 + self.rng.random())
        return int(usual * self.features.lasting)

    # -- who there is ----------------------------------------------------------------------------------

    def running(self) -> list[NodeId]:
        """The brokers that run."""
        return [name for name in self.world.brokers() if self.world.hosts[name].is_up]

    def members(self) -> list[NodeId]:
        """The brokers that run and have joined."""
        return [name for name in self.running() if self.world.broker(name).overlay.is_joined]

    def needed(self) -> set[NodeId]:
        """The brokers through which others are still to join: if they left, nobody would tell these whom to
        ask instead."""
        joined = self.members()
        return {each for name, points in self.join_points.items() if name not in joined for each in points}

    def neighbours(self, name: NodeId) -> list[NodeId]:
        """A broker's neighbours in the tree, by what the running brokers know."""
        found: dict[NodeId, None] = {}
        for other in self.running():
            if name in self.world.broker(other).overlay.topology.neighbours():
                found[other] = None
        node = self.world.hosts[name].node
        if isinstance(node, Broker):
            found |= dict.fromkeys(node.overlay.topology.neighbours())
        return [each for each in found if each in self.world.brokers()]

    def victim(self, among: Sequence[NodeId]) -> NodeId:
        """One of these brokers, often a neighbour of who failed last, or a neighbour's neighbour."""
        near = dict.fromkeys(each for name in self.focus for each in self._around(name))
        if near and self.rng.random() < 0.5:
            near |= dict.fromkeys(each for name in [*near] for each in self._around(name))
            among = [each for each in among if each in near] or among
        return self.rng.choice(among)

    def _around(self, name: NodeId) -> list[NodeId]:
        return self.neighbours(name) if name in self.world.brokers() else []

    def clients(self) -> list[NodeId]:
        """The clients that run."""
        return [name for name in self.world.homes if self.world.hosts[name].is_up]

    def session(self, *, among: Sequence[NodeId] | None = None) -> Pair | None:
        """Two nodes that have a session now."""
        hosts = self.world.hosts
        candidates = [name for name in among or hosts if hosts[name].connections]
        near = [name for name in candidates if name in self.focus]
        if near and self.rng.random() < 0.4:
            candidates = near
        if not candidates:
            return None
        name = self.rng.choice(candidates)
        pair = name, self.rng.choice(list(hosts[name].connections))
        return pair if self.rng.random() < 0.5 else pair[::-1]

    # -- breaking and repairing --------------------------------------------------------------------------

    def may_crash(self, victim: NodeId) -> bool:
        """Whether the node runs, and the budget has room for it; a client needs none."""
        host, gone = self.world.hosts[victim], self.world.departed
        if not host.is_up or victim in gone or victim in self.intruders or not self.is_open:
            return False
        return victim in self.world.homes or self.budget.has_room(victim)

    def crashed(self, victim: NodeId) -> None:
        """The node is down, or about to be: have it restarted later."""
        self.focus = (victim,)
        self.budget.note()
        self.world.at(self.world.now + self.span(), self.restart, victim)

    def restart(self, victim: NodeId) -> None:
        """Start a node that is down; one whose store is lost joins anew."""
        world = self.world
        host = world.hosts[victim]
        host.crash_next, host.keeps = False, None
        gone = (world.departed, world.taken, self.ended, self.doomed)
        if host.is_up or any(victim in each for each in gone):
            self.without_store.pop(victim, None)
            self.lost_stores.pop(victim, None)
            return
        if victim in self.lost_stores:
            del self.lost_stores[victim]
            world.lose_store(victim)
            self._set_clock(victim)
        join = self.without_store.pop(victim, None)
        if join is None:
            world.restart(victim)
        else:
            world.replace(victim, join=join, clock=self._clock())

    def _clock(self) -> Micros:
        """A broker's own clock, which may have been set forward or back; not so far back that an earlier
        life began later, which no broker without a store could notice."""
        if not self.features.clock_steps:
            return self.world.now
        return self.world.now + self.rng.choice((0, 0, 3_600_000_000))

    def _set_clock(self, client: NodeId) -> None:
        """The clock of a client whose machine is new may be wrong in either direction."""
        if self.features.clock_steps:
            back = self.rng.randrange(max(self.world.now - SECOND, 1))
            self.world.clock_offset[client] = self.rng.choice((0, -back, 3_600 * SECOND))

    def end_second(self, client: NodeId) -> None:
        """A second client gives the name up, and does not come back; unless it is the only one by now, or
        takes the name over. It cannot take it from one that began later by the clocks: that is refused, and
        the first one goes on."""
        world, first = self.world, self.world.twins[client]
        takes_over = first in self.ended
        if first in world.taken or (takes_over and not self._is_later(first, client)):
            return
        self.passing.pop(client, None)
        self.ended.pop(first, None)
        self.ended[client] = None
        if world.hosts[client].is_up:
            world.crash(client)

    def _is_later(self, first: NodeId, second: NodeId) -> bool:
        """Whether both clients run, and the first one began later than the second, which has no session."""
        a, b = self.world.hosts[first].node, self.world.hosts[second].node
        if a is None or b is None or b.overlay.sessions.up:
            return False
        return a.identity.incarnation >= b.identity.incarnation

    # -- who must not get in -----------------------------------------------------------------------------

    def break_until_the_intruder_ends(self, pair: Pair) -> None:
        """Cut a link for as long as the intruder is there that comes next."""
        self.budget.spend(pair)
        self.world.cut(*pair)
        self._with_the_intruder = pair

    def intrudes(self, machine: NodeId) -> None:
        """Nobody may let this broker in: it ends after a while, and nothing else fails until then."""
        self.intruders[machine], self._with_the_intruder = self._with_the_intruder, None
        self.budget.is_closed = True
        self.world.at(self.world.now + 3 * self.features.breath, self._end_intruder, machine)

    def _end_intruder(self, machine: NodeId) -> None:
        if machine not in self.intruders:
            return
        pair = self.intruders.pop(machine)
        self.budget.is_closed = bool(self.intruders)
        world = self.world
        node = world.hosts[machine].node
        if node is not None and node.overlay.sessions.up:
            self.trouble["let in who must not be"] += 1
        world.departed[machine] = None
        world.hosts[machine].crash()
        if pair is not None and pair in self.budget.links:
            self.budget.refund(pair)
            world.heal(*pair)

    def heal_all(self) -> None:
        """Repair everything: from now on the network must make progress."""
        self.is_open = False
        world = self.world
        world.aim = None
        for machine in [*self.intruders]:
            self._end_intruder(machine)
        for client in self.ended:
            if world.hosts[client].is_up and not world.leaf(client).overlay.sessions.has_been_up:
                world.crash(client)  # it has waited for its name, in vain
        for a, b in [*world.network.cut]:
            world.heal(a, b)
        for a, b in [*world.network.starved]:
            world.network.feed(a, b)
        self.budget.links.clear()
        world.network.slowness.clear()
        world.network.us_per_message.clear()
        self.doomed.clear()
        for name in [*world.hosts] * 2:  # with the store of one the removal of another may be forgotten
            self.restart(name)
        for client in [*self.passing]:
            self.end_second(client)
        for name in world.removed():
            if self._asks_in_vain(name):
                world.crash(name)

    def _asks_in_vain(self, removed: NodeId) -> bool:
        """Whether a removed broker that was started again knows only others that were removed."""
        node = self.world.hosts[removed].node
        if node is None:
            return False
        others = [each for each in node.overlay.topology.nodes() if each != removed]
        known = others or self.join_points.get(removed, ())
        return bool(known) and all(each in self.world.departed for each in known)


Act: TypeAlias = Callable[[Stage], bool]
"""Does something if it can be done now, and says whether it was."""
