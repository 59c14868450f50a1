"""Faults that aim: at the next message of a kind, on either end or behind, or at a node in some phase.

An aim is armed at some moment and fires once, when what it waits for happens and the budget has room.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gapless.core.broker import Broker
from gapless.core.effects import Effect, Send
from gapless.core.events import Input, MessageReceived
from gapless.core.messages import (
    Acknowledged,
    Attached,
    AttachWanted,
    Confirmed,
    Detached,
    Joined,
    JoinedConfirmed,
    JoinRequest,
    Log,
    LogReceived,
    Neighbourhood,
    PartialTopology,
    Publications,
    Superseded,
    Synced,
    SyncWanted,
)
from gapless.core.messages.overlay import NodeState
from gapless.core.model import Micros, NodeId, OrderName
from gapless.core.orders.publisher import PublisherBroker
from gapless.simulation.host import SimulatedHost, When
from gapless.simulation.swarm.budget import Pair
from gapless.simulation.swarm.links import cut_pair
from gapless.simulation.swarm.stage import Act, Stage

MESSAGES: tuple[type, ...] = (
    Log,
    LogReceived,
    Synced,
    SyncWanted,
    Confirmed,
    Publications,
    Acknowledged,
    Superseded,
    Joined,
    JoinedConfirmed,
    JoinRequest,
    PartialTopology,
    Neighbourhood,
    Attached,
    AttachWanted,
    Detached,
)
ROLES = ("sender", "receiver", "receiver", "next", "link", "client")


@dataclass(slots=True, eq=False)
class Shot:
    """What to wait for, and what happens then."""

    role: str
    """Who fails: an end of the message, a broker behind it, its link; or a client acts just then."""
    when: When
    message: type | None = None
    phase: str | None = None
    skips: int = 0
    """How many chances it lets pass."""


def _order(node: Broker) -> PublisherBroker:
    order = node.orders[OrderName.PUBLISHER]
    assert isinstance(order, PublisherBroker)
    return order


PHASES: dict[str, Callable[[Broker], bool]] = {
    "joining": lambda node: not node.overlay.is_joined,
    "recovering": lambda node: node.overlay.state is NodeState.RECOVERING,
    "settling": lambda node: not _order(node).settled,
    "told a long log": lambda node: bool(node.overlay.held),
    "in custody": lambda node: len(_order(node).forwarding.custody) > 3,
    "gave somebody up": lambda node: bool(_order(node).subscriptions.endings.given_up),
    "lets publishers wait": lambda node: any(_order(node)._waiting.values()),
    "holds back": lambda node: bool(_order(node).forwarding._blocked),
    "knows no way": lambda node: bool(_order(node).log.pathless),
    "standing in": lambda node: any(
        each not in node.overlay.topology.neighbours() and each in node.overlay.topology
        for each in node.overlay.frontier.active
    ),
}


class Aims:
    """All that is armed."""

    def __init__(self, stage: Stage, calm: tuple[Act, ...]) -> None:
        self._stage = stage
        self._calm = calm
        self.armed: list[Shot] = []
        self.fired: list[tuple[Shot, NodeId]] = []

    # -- acts ------------------------------------------------------------------------------------------

    def at_a_message(self, stage: Stage) -> bool:
        """Wait for the next message of some kind."""
        rng = stage.rng
        self._arm(Shot(rng.choice(ROLES), rng.choice(list(When)), message=rng.choice(MESSAGES)))
        return True

    def at_a_phase(self, stage: Stage) -> bool:
        """Wait for a broker in some phase."""
        rng = stage.rng
        role = rng.choice(("receiver", "receiver", "next", "link", "client", "client"))
        self._arm(Shot(role, When.AFTER, phase=rng.choice(list(PHASES))))
        return True

    def _arm(self, shot: Shot) -> None:
        shot.skips = self._stage.rng.choice((0, 0, 0, 1, 2, 5))
        self.armed.append(shot)
        self._stage.world.aim = self

    # -- what nodes do -----------------------------------------------------------------------------------

    def handling(self, host: SimulatedHost, batch: list[Input]) -> When | None:
        """A broker is about to handle a message that somebody waits for."""
        for each in batch:
            if type(each) is not MessageReceived:
                continue
            for shot in self.armed:
                if type(each.message) is shot.message and shot.role != "sender" and not host.is_client:
                    return self._hit(shot, host, each.peer)
        return None

    def sending(self, host: SimulatedHost, effects: list[Effect]) -> int | None:
        """A broker is about to send a message that somebody waits for."""
        senders = [shot for shot in self.armed if shot.role == "sender"]
        if not senders or host.is_client or host.node is None:
            return None
        for index, effect in enumerate(effects):
            if type(effect) is not Send:
                continue
            for shot in senders:
                if type(effect.message) is shot.message:
                    if not self._take(shot, host.name):
                        return None
                    self._stage.crashed(host.name)
                    return {When.BEFORE: 0, When.WHILE: index + 1, When.AFTER: len(effects)}[shot.when]
        return None

    def stepped(self, host: SimulatedHost) -> None:
        """A broker may be in a phase that somebody waits for."""
        node = host.node
        if not isinstance(node, Broker):
            return
        for shot in self.armed:
            if shot.phase is not None and PHASES[shot.phase](node):
                peers = list(host.connections)
                peer = self._stage.rng.choice(peers) if peers else host.name
                self._hit(shot, host, peer)
                return

    # -- firing ----------------------------------------------------------------------------------------

    def _hit(self, shot: Shot, host: SimulatedHost, peer: NodeId) -> When | None:
        """What waits for this happens; the answer is when the host itself crashes."""
        stage = self._stage
        match shot.role:
            case "receiver":
                if not self._take(shot, host.name):
                    return None
                if shot.phase is not None:
                    stage.world.at(stage.world.now, self._crash, host.name)
                    return None
                if shot.when is When.WHILE and "crash in a write" in stage.features.faults:
                    host.keeps = stage.rng.randrange(3)
                stage.crashed(host.name)
                return shot.when
            case "next":
                others = [each for each in stage.running() if each in host.connections and each != peer]
                if others and self._take(shot, victim := stage.rng.choice(others)):
                    stage.world.at(stage.world.now + self._delay(shot), self._crash, victim)
            case "link":
                if peer in host.connections and self._take(shot, None):
                    stage.world.at(stage.world.now + self._delay(shot), self._cut, (host.name, peer))
            case _:
                if self._take(shot, host.name, free=True):
                    act = stage.rng.choice(self._calm)
                    stage.world.at(stage.world.now + self._delay(shot), self._act, act)
        return None

    def _delay(self, shot: Shot) -> Micros:
        return 0 if shot.when is not When.AFTER else self._stage.rng.randrange(3) * 500

    def _take(self, shot: Shot, victim: NodeId | None, *, free: bool = False) -> bool:
        """Fire, if that is possible now; the shot is used up then."""
        stage = self._stage
        if victim is not None and not free and not stage.may_crash(victim):
            return False
        if victim is None and not stage.budget.has_room():
            return False
        if shot.skips > 0:
            shot.skips -= 1
            return False
        self.armed.remove(shot)
        if not self.armed:
            stage.world.aim = None
        self.fired.append((shot, victim or ""))
        stage.counts[f"aimed: {shot.role}"] += 1
        return True

    def _crash(self, victim: NodeId) -> None:
        stage = self._stage
        if stage.may_crash(victim):
            stage.world.crash(victim, silently=stage.rng.random() < 0.3)
            stage.crashed(victim)

    def _act(self, act: Act) -> None:
        act(self._stage)

    def _cut(self, pair: Pair) -> None:
        stage = self._stage
        if stage.is_open and stage.budget.has_room() and not stage.budget.is_broken(pair):
            cut_pair(stage, pair, noticed=stage.rng.random() < 0.5)
