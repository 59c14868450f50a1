"""A simulated machine that runs one node: the node is volatile, the store is not.

A node handles its inputs in batches: while it is busy with one, further inputs wait and form the next. A
crash can fall between the two halves of a batch (after its records were synced, before anything was sent),
and loses everything but the synced store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gapless.core.broker import Broker
from gapless.core.effects import (
    Answered,
    BrokerRemoved,
    Connect,
    Deliver,
    Disconnect,
    Effect,
    LeaveRefused,
    Live,
    Persist,
    Receipt,
    Record,
    RemovalAnswered,
    Reset,
    Send,
    Stopped,
    TopicDeleted,
    TopicsChanged,
)
from gapless.core.events import (
    Input,
    MessageReceived,
    PublishRequested,
    SessionDown,
    SessionUp,
    UnsubscribeRequested,
)
from gapless.core.leaf import Leaf
from gapless.core.model import Event, Identity, Micros, NodeId
from gapless.simulation.network import Connection, Dial

if TYPE_CHECKING:
    from gapless.simulation.world import World

BUSY: Micros = 20
"""How long a node works on one input."""
ALONE = (SessionUp, SessionDown, UnsubscribeRequested)
"""Inputs that are a batch of their own: what came before must be performed before they happen."""


@dataclass(slots=True, eq=False)
class SimulatedHost:
    """A machine that runs one node: the node itself is volatile, the store is not."""

    world: World
    name: NodeId
    make: Callable[[list[Record]], Broker | Leaf]
    is_client: bool = False
    store: list[Record] = field(default_factory=list)
    node: Broker | Leaf | None = None
    connections: dict[NodeId, Connection] = field(default_factory=dict)
    """The sessions that the network has."""
    sessions: dict[NodeId, Connection] = field(default_factory=dict)
    """The sessions that the node has been told of."""
    dials: dict[NodeId, Dial] = field(default_factory=dict)
    inbox: deque[tuple[Input, Connection | None]] = field(default_factory=deque)
    busy_until: Micros = 0
    wake_at: Micros | None = None
    scheduled: bool = False
    crash_next: bool = False
    """Crash between the two halves of the next batch."""
    on_deliver: Callable[[str, Event], None] | None = None
    """The application of a client: called for each delivered event."""
    on_restart: Callable[[], None] | None = None
    """The application of a client begins again after a crash."""
    stepped: Callable[[Broker | Leaf], None] | None = None
    """Called after each step; tests hang their invariants here."""

    @property
    def is_up(self) -> bool:
        """Whether the node runs."""
        return self.node is not None

    @property
    def identity(self) -> Identity:
        """What the node says of itself."""
        assert self.node is not None, f"{self.name} is down"
        return self.node.identity

    def start(self) -> None:
        """Make the node from its store and let it begin."""
        assert self.node is None, f"{self.name} runs already"
        self.node = self.make(list(self.store))
        self._perform(self.node.start(self.world.now))
        self._schedule_wake()

    def crash(self, *, silently: bool = False) -> None:
        """Lose everything but the store."""
        self.node = None
        self.inbox.clear()
        self.sessions.clear()
        self.crash_next = False
        self.wake_at = None
        self.world.network.crashed(self.name, silently=silently)

    def receive(self, each: Input, connection: Connection | None = None) -> None:
        """Handle the input now, or after the batch that is being worked on."""
        if self.node is None:
            return
        if type(each) is MessageReceived and not self.scheduled and self.busy_until <= self.world.now:
            self._step([each])
            return
        self.inbox.append((each, connection))
        if not self.scheduled:
            if self.busy_until <= self.world.now:
                self._step(self._next_batch())
            else:
                self._schedule_work()

    def _schedule_work(self) -> None:
        self.scheduled = True
        self.world.at(self.busy_until, self._work, None)

    def _work(self, _: None) -> None:
        self.scheduled = False
        if self.node is not None:
            self._step(self._next_batch())

    def _next_batch(self) -> list[Input]:
        """A change of a session is a batch of its own; so is all that waits until the next change."""
        batch: list[Input] = []
        while self.inbox:
            each, connection = self.inbox[0]
            if type(each) in ALONE:
                if batch:
                    break
                self.inbox.popleft()
                if type(each) is SessionUp:
                    assert connection is not None
                    self.sessions[each.identity.node] = connection
                elif type(each) is SessionDown:
                    self.sessions.pop(each.peer, None)
                return [each]
            self.inbox.popleft()
            batch.append(each)
        return batch

    def _step(self, batch: list[Input]) -> None:
        assert self.node is not None
        world = self.world
        self.busy_until = world.now + BUSY * max(len(batch), 1)
        if self.is_client:
            batch = _joined(batch)
            world.requested(self.name, batch)
        self._perform(self.node.step(batch, world.now))
        if self.node is not None:
            if self.stepped is not None:
                self.stepped(self.node)
            if self.inbox and not self.scheduled:
                self._schedule_work()
            self._schedule_wake()

    def _schedule_wake(self) -> None:
        assert self.node is not None
        moment = self.node.wake_at()
        if moment is not None and (self.wake_at is None or moment < self.wake_at):
            self.wake_at = max(moment, self.world.now)
            self.world.at(self.wake_at, self._wake, self.wake_at)

    def _wake(self, moment: Micros) -> None:
        if self.wake_at != moment or self.node is None:
            return
        self.wake_at = None
        if not self.scheduled:
            self._step(self._next_batch())

    def _perform(self, effects: list[Effect]) -> None:
        """The ordering rule: all records are synced before anything else happens."""
        world = self.world
        for effect in effects:
            if type(effect) is Persist:
                self.store.append(effect.record)
                if type(effect.record) is BrokerRemoved and effect.record.removal.centre == self.name:
                    world.removal_decided(effect.record.removal)
        if self.crash_next:
            world.crash(self.name)
            return
        for effect in effects:
            if type(effect) is Send:
                connection = self.sessions.get(effect.peer)
                if connection is not None:
                    world.network.send(self.name, connection, effect)
            elif type(effect) is not Persist:
                self._perform_one(effect)

    def _perform_one(self, effect: Effect) -> None:
        world = self.world
        match effect:
            case Deliver():
                world.delivered(self, effect)
            case Receipt():
                world.confirmed(effect)
            case Live() | Reset():
                world.promised(effect)
            case Connect(peer=peer, via=via):
                world.network.dial(self.name, peer, via)
            case Disconnect(peer=peer):
                connection = self.sessions.pop(peer, None)
                if connection is not None:
                    world.network.close(self.name, peer, connection)
            case Answered() | TopicDeleted():
                world.told(self.name, effect)
            case LeaveRefused(reason=reason):
                world.refused.append((self.name, reason))
            case RemovalAnswered():
                world.removal_answered(effect)
            case Stopped():
                world.has_left(self.name)
            case Send() | Persist():
                pass  # done already
            case TopicsChanged():
                pass  # for those who wait for it


def _joined(batch: list[Input]) -> list[Input]:
    """What a publisher publishes in a row is one request, as the client library makes it."""
    joined: list[Input] = []
    for each in batch:
        last = joined[-1] if joined else None
        if (
            type(each) is PublishRequested
            and type(last) is PublishRequested
            and (each.topic, each.publisher) == (last.topic, last.publisher)
        ):
            joined[-1] = PublishRequested(each.topic, each.publisher, [*last.contents, *each.contents])
        else:
            joined.append(each)
    return joined
