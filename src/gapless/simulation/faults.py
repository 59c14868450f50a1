"""Faults: what breaks, when, and that never more than so much is broken at once.

The number of concurrent failures counts brokers that are crashed or still recovering, links that are cut in
either direction, and sessions that were broken by a false suspicion until they had time to return; slow
links and crashes of clients come on top. A fault
whose turn comes while the budget is used up waits for the next free place, so that a run has as many faults
as were asked for unless it ends before.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.core.events import SuspectRequested
from gapless.core.model import MILLISECOND, SECOND, Micros, NodeId
from gapless.simulation.world import World

CLIENT_CRASHES = 0.12
"""The part of the crashes that hits clients."""
RETRY: Micros = 100 * MILLISECOND
SUSPICION: Micros = 2 * SECOND
"""How long a false suspicion counts as a failure: detection, bypass and the way back."""


@dataclass(slots=True)
class Window:
    """When faults may begin."""

    opens: Micros
    closes: Micros


class Faults:
    """Injects a number of crashes and link faults into a world."""

    def __init__(self, world: World, *, crashes: int, cuts: int, max_down: int, window: Window) -> None:
        self.injected = 0
        self._world = world
        self._rng = world.random("faults")
        self._max_down = max_down
        self._window = window
        self._broken: dict[tuple[NodeId, NodeId], None] = {}  # links that are cut or were suspected
        for inject in [self._crash] * crashes + [self._break_link] * cuts:
            world.at(self._rng.randrange(window.opens, window.closes), self._attempt, inject)

    def _attempt(self, inject: object) -> None:
        """Inject the fault if the budget allows it now, else try again a little later."""
        assert callable(inject)
        if self._world.now >= self._window.closes:
            return
        if inject():
            self.injected += 1
        else:
            self._world.at(self._world.now + RETRY, self._attempt, inject)

    def _has_room(self, *besides: NodeId) -> bool:
        doomed = [name for name, host in self._world.hosts.items() if host.crash_next]
        down = [name for name in {*self._world.down(), *doomed} if name not in besides]
        return len(down) + len(self._broken) < self._max_down

    def _span(self) -> Micros:
        """How long a failure lasts: often shorter than its detection takes, seldom much longer."""
        return int(self._rng.choice((150, 800, 2_500, 6_000)) * (0.3 + self._rng.random())) * MILLISECOND

    # -- crashes ---------------------------------------------------------------------------------------

    def _crash(self) -> bool:
        """Kill any broker, also one that is recovering; sometimes a client, which uses up no budget."""
        world, rng = self._world, self._rng
        names = world.homes if rng.random() < CLIENT_CRASHES else world.brokers()
        running = [name for name in names if world.hosts[name].is_up]
        if not running:
            return False
        victim = rng.choice(running)
        if victim not in world.homes and not self._has_room(victim):
            return False
        if rng.random() < 0.3:
            world.hosts[victim].crash_next = True  # between the halves of its next batch
        else:
            world.crash(victim, silently=rng.random() < 0.5)
        world.at(world.now + self._span(), self._restart, victim)
        return True

    def _restart(self, victim: NodeId) -> None:
        host = self._world.hosts[victim]
        host.crash_next = False
        if not host.is_up and victim not in self._world.departed:
            self._world.restart(victim)

    # -- links -----------------------------------------------------------------------------------------

    def _break_link(self) -> bool:
        """Cut a link in both directions or in one, make it slow, or let one end suspect the other."""
        rng = self._rng
        pair = self._some_session()
        if pair is None or pair in self._broken or pair[::-1] in self._broken or not self._has_room():
            return False
        kind = rng.random()
        if kind < 0.65:
            self._cut(pair, one_way=kind < 0.25)
        elif kind < 0.85:
            self._suspect(pair)
        else:
            self._slow_down(pair)
        return True

    def _some_session(self) -> tuple[NodeId, NodeId] | None:
        """Two nodes that have a session now: brokers mostly, sometimes a client and its broker."""
        world, rng = self._world, self._rng
        name = rng.choice(list(world.hosts))
        peers = list(world.hosts[name].connections)
        return (name, rng.choice(peers)) if peers else None

    def _cut(self, pair: tuple[NodeId, NodeId], *, one_way: bool) -> None:
        self._broken[pair] = None
        self._world.cut(*pair, one_way=one_way)
        self._world.at(self._world.now + self._span(), self._heal, pair)

    def _heal(self, pair: tuple[NodeId, NodeId]) -> None:
        if pair in self._broken:
            del self._broken[pair]
            self._world.heal(*pair)

    def _suspect(self, pair: tuple[NodeId, NodeId]) -> None:
        self._broken[pair] = None
        self._world.hosts[pair[0]].receive(SuspectRequested(pair[1]))
        self._world.at(self._world.now + SUSPICION, self._forget, pair)

    def _forget(self, pair: tuple[NodeId, NodeId]) -> None:
        self._broken.pop(pair, None)

    def _slow_down(self, pair: tuple[NodeId, NodeId]) -> None:
        self._world.network.slowness[pair] = self._rng.randrange(5, 40)
        self._world.at(self._world.now + self._span(), self._speed_up, pair)

    def _speed_up(self, pair: tuple[NodeId, NodeId]) -> None:
        self._world.network.slowness.pop(pair, None)

    # -- the end of the safety phase -----------------------------------------------------------------------

    def heal_all(self) -> None:
        """Repair everything: from now on the network must make progress."""
        world = self._world
        self._window.closes = world.now
        for pair in list(self._broken):
            if pair in world.network.cut or pair[::-1] in world.network.cut:
                self._heal(pair)
        for pair in list(world.network.slowness):
            self._speed_up(pair)
        for name in world.hosts:
            self._restart(name)
