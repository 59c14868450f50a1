"""A simulated machine that runs one node: the node is volatile, the store is not.

A node handles its inputs in batches: while it is busy with one, further inputs wait and form the next. A
crash can fall between the two halves of a batch (after its records were synced, before anything was sent),
and loses everything but the synced store.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from gapless.core.broker import Broker
from gapless.core.effects import (
    Answered,
    BrokerRemoved,
    Connect,
    Deliver,
    Disconnect,
    Effect,
    LeaveRefused,
    LinkAdded,
    Live,
    NameTaken,
    Persist,
    PublisherFenced,
    Receipt,
    Record,
    RemovalAnswered,
    Reset,
    Send,
    Stopped,
    SubscriptionGivenUp,
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
MOST_WAKES = 1_000
"""More wakes at one moment are a node that spins."""
ALONE = (SessionUp, SessionDown, UnsubscribeRequested)
"""Inputs that are a batch of their own: what came before must be performed before they happen."""


class When(Enum):
    """When a node crashes that handles a batch which somebody waited for."""

    BEFORE = "before"
    WHILE = "while"
    AFTER = "after"


class Aim(Protocol):
    """Looks at what nodes are about to do, and may crash them just then; see ``simulation.swarm.aiming``."""

    def handling(self, host: SimulatedHost, batch: list[Input]) -> When | None:
        """The node is about to handle a batch: whether, and when, it crashes with it."""

    def sending(self, host: SimulatedHost, effects: list[Effect]) -> int | None:
        """The records are synced: after how many of the effects the node crashes, if it does."""

    def stepped(self, host: SimulatedHost) -> None:
        """The node has done it all."""


@dataclass(slots=True, eq=False)
class SimulatedHost:
    """A machine that runs one node: the node itself is volatile, the store is not."""

    world: World
    name: NodeId
    """The name of the machine: that of its node, unless the node is a twin of another one."""
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
    woken_at: Micros = 0
    wakes: int = 0
    """How often it was woken at that same moment."""
    scheduled: bool = False
    crash_next: bool = False
    """Crash between the two halves of the next batch."""
    keeps: int | None = None
    """With ``crash_next``: how many of the batch's records are synced by then, if not all."""
    on_deliver: Callable[[str, Event], None] | None = None
    """The application of a client: called for each delivered event."""
    on_receipt: Callable[[Receipt], None] | None = None
    """Called for each receipt that a client is given."""
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

    @property
    def now(self) -> Micros:
        """What the clock of this machine says."""
        return self.world.now + self.world.clock_offset.get(self.name, 0)

    def knows(self, broker: NodeId) -> bool:
        """Whether the node knows where that broker is."""
        return self.node is not None and broker in self.node.overlay.topology

    def start(self) -> None:
        """Make the node from its store and let it begin."""
        assert self.node is None, f"{self.name} runs already"
        self.node = self.make(list(self.store))
        self._perform(self.node.start(self.now))
        if self.is_up:
            self._schedule_wake()

    def crash(self, *, silently: bool = False) -> None:
        """Lose everything but the store."""
        self.node = None
        self.inbox.clear()
        self.sessions.clear()
        self.crash_next, self.keeps = False, None
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
        aim = world.aim
        when = aim.handling(self, batch) if aim is not None else None
        if when is When.BEFORE:
            world.crash(self.name)
            return
        if self.is_client:
            batch = _joined(batch)
        effects = self.node.step(batch, self.now)
        if self.is_client:
            world.recorder.requested(self.name, batch, effects)
        self.crash_next |= when is When.WHILE
        self._perform(effects)
        if when is When.AFTER and self.node is not None:
            world.crash(self.name)
        if self.node is not None:
            if aim is not None:
                aim.stepped(self)
            if self.stepped is not None:
                self.stepped(self.node)
            if self.inbox and not self.scheduled:
                self._schedule_work()
            self._schedule_wake()

    def _schedule_wake(self) -> None:
        assert self.node is not None
        moment = self.node.wake_at()
        if moment is None:
            return
        moment -= self.world.clock_offset.get(self.name, 0)
        if self.wake_at is None or moment < self.wake_at:
            self.wake_at = max(moment, self.world.now)
            self.world.at(self.wake_at, self._wake, self.wake_at)

    def _wake(self, moment: Micros) -> None:
        if self.wake_at != moment or self.node is None:
            return
        self.wake_at = None
        self._note_wake(moment)
        if not self.scheduled:
            self._step(self._next_batch())

    def _note_wake(self, moment: Micros) -> None:
        """A node whose deadline never moves on would keep the world at this moment for ever."""
        self.wakes = self.wakes + 1 if moment == self.woken_at else 0
        self.woken_at = moment
        if self.wakes > MOST_WAKES:
            raise RuntimeError(f"{self.name} wakes at {moment} µs for ever")

    def _perform(self, effects: list[Effect]) -> None:
        """The ordering rule: all records are synced before anything else happens."""
        world = self.world
        records = [effect.record for effect in effects if type(effect) is Persist]
        self._keep(records[: self.keeps] if self.crash_next else records)
        if self.crash_next:
            world.crash(self.name)
            return
        last = world.aim.sending(self, effects) if world.aim is not None else None
        self._perform_all(effects[:last])
        if last is not None and self.node is not None:
            world.crash(self.name)

    def _keep(self, records: list[Record]) -> None:
        self.store += records
        for record in records:
            if type(record) is SubscriptionGivenUp:
                self.world.given_up_by.setdefault(record.subscription, self.name)
            if type(record) is LinkAdded and self.name in record.link:
                self.world.recorder.joined(self.name, *(each for each in record.link if each != self.name))
            if type(record) is BrokerRemoved and record.removal.centre == self.name:
                self.world.removal_decided(record.removal)

    def _perform_all(self, effects: list[Effect]) -> None:
        world = self.world
        for effect in effects:
            if type(effect) is Send:
                connection = self.sessions.get(effect.peer)
                if connection is not None:
                    world.network.send(self.name, connection, effect)
            elif type(effect) is not Persist:
                self._perform_one(effect)
                if self.node is None:
                    return  # it has stopped

    def _perform_one(self, effect: Effect) -> None:
        world = self.world
        match effect:
            case Deliver():
                world.recorder.delivered(self, effect)
            case Receipt():
                world.recorder.confirmed(self.name, effect)
                if self.on_receipt is not None:
                    self.on_receipt(effect)
            case Live() | Reset():
                world.recorder.promised(self.name, effect)
            case Connect(peer=peer, via=via):
                world.network.dial(self.name, peer, via)
            case Disconnect(peer=peer):
                connection = self.sessions.pop(peer, None)
                if connection is not None:
                    world.network.close(self.name, peer, connection)
            case PublisherFenced(publisher=publisher):
                world.recorder.publisher_fenced(self.name, publisher)
            case Answered() | TopicDeleted():
                world.recorder.told(self.name, effect)
            case LeaveRefused(reason=reason):
                world.refused.append((self.name, reason))
            case RemovalAnswered():
                world.removal_answered(effect)
            case Stopped():
                world.has_left(self.name)
            case NameTaken(reason=reason):
                world.name_taken(self.name, reason)
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
