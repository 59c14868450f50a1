"""The live driver of one node: what the simulator's host is in virtual time, in real time.

Inputs that come while a batch is worked on, or while its records are being written, form the next batch. So
under load one step, one durable write and one write a socket serve many events, and without load nothing
waits: what comes after a rest is worked on at once. The ordering rule of :mod:`gapless.core.effects` is kept
here: records first, then the rest."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gapless.core.broker import Broker
from gapless.core.effects import (
    Connect,
    Deliver,
    Disconnect,
    Effect,
    LinkAdded,
    NetworkBound,
    Persist,
    Record,
    Send,
)
from gapless.core.events import (
    ConnectFailed,
    Input,
    MessageReceived,
    RemoveRequested,
    SessionDown,
    SessionUp,
)
from gapless.core.leaf import Leaf
from gapless.core.messages import BestEffortEvents, Confirmed, Log, Message, Ping, Publications
from gapless.core.model import SECOND, Identity, Micros, NodeId, Refusal
from gapless.server.addresses import AddressBook
from gapless.server.clock import Clock
from gapless.server.connection import Connection
from gapless.server.observer import Observer
from gapless.server.transport import Transport, TransportLimits
from gapless.wire.control import Address

BATCH_MAX = 1024
"""The most inputs of one batch; each may carry many events."""
INBOX_MAX = 512
"""The most frames' worth of messages that wait; beyond it nothing is read, and TCP slows the senders."""
HOLD_SECONDS = 0.1
LAST_BATCHES_MAX = 100
"""The most batches that are handled after the node was told to stop."""
LAST_SECONDS = 1.5
"""How long a node that stops goes on until nobody waits for it: long enough to suspect a broker that does not
answer, and to tell one beside it."""
REST_SECONDS = 0.0005
"""After a rest of this length a message is worked on without waiting for others that may come with it."""
LATE_SECONDS, READING_SECONDS = 0.1, 0.001
"""A node that is woken so late was held up itself: it gets so much time to read what has come meanwhile."""
REDIAL_MOST: Micros = SECOND // 2
"""The longest pause before a failed peer is dialed again. When a broker is back, what is for its clients goes
through it again: those who have not dialed it yet wait for so long."""
ALONE = (SessionUp, SessionDown)
PING = Ping()
DELIVERING = (Publications, BestEffortEvents, Log, Confirmed)
"""Messages that wait while the application is slow: events, and what speaks of them on the same session."""
log = logging.getLogger("gapless")


class Journal(Protocol):
    """Where records become durable."""

    def select(self, records: list[Record]) -> list[Record]:
        """Those of the records that are kept here."""

    async def append(self, records: list[Record]) -> None:
        """Return when all of them are durable."""

    def learned(self, book: dict[NodeId, Address]) -> None:
        """Keep addresses some time soon, so that a restart finds its neighbours."""


class Driver:
    """Runs one node over TCP."""

    def __init__(
        self,
        node: Broker | Leaf,
        *,
        journal: Journal | None = None,
        perform: Callable[[Effect], None] | None = None,
        on_failure: Callable[[BaseException], None] | None = None,
        book: AddressBook | None = None,
        limits: TransportLimits | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.node = node
        self.observer = observer or Observer()
        self.clock = Clock()
        self.transport = Transport(node.identity, node.config.delta, self, book or AddressBook(), limits)
        self.failed: BaseException | None = None
        """Why the driver stopped, when it did so by itself."""
        self._journal = journal
        self._perform_other = perform
        self._on_failure = on_failure
        self._inbox: deque[tuple[Input, Connection | None]] = deque()  # what comes from the network
        self._requests: deque[Input] = deque()  # what comes from the application
        self._removals: dict[NodeId, list[Callable[[str], None]]] = {}  # who waits for a broker's removal
        self._heard: dict[NodeId, None] = {}  # who has given a sign of life, whatever waits before it
        self._paused = False
        self._parked: deque[MessageReceived] = deque()  # what waits for the application
        self._is_holding = False
        self._sessions: dict[NodeId, Connection] = {}  # those that the node has been told of
        self._unsent: dict[NodeId, list[Message]] = {}
        self._worked_at = 0.0
        self._scheduled = False
        self._syncing: asyncio.Task[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._wakes_at = 0.0
        self._stopped = False
        self._batch_ended: asyncio.Future[None] | None = None
        self.inputs = self.batches = 0

    def start(self) -> None:
        """Begin this incarnation of the node."""
        self._loop = asyncio.get_running_loop()
        self._finish(self.node.start(self.clock.now()))

    async def stop(self, reason: str, *, at_once: bool = False) -> None:
        """End the node: orderly, or at once like a crash."""
        try:
            if not at_once:
                await self._finish_requests()
                await self._be_heard()
                self._send()
        finally:
            self._stopped = True
            if self._timer is not None:
                self._timer.cancel()
            await self.transport.close(reason, at_once=at_once)

    async def _finish_requests(self) -> None:
        """Perform what is being written, and what was asked for before the end: an unsubscription that the
        network never hears of would let others wait for this node."""
        for _ in range(LAST_BATCHES_MAX):
            if self._stopped:
                return
            if self._syncing is not None:
                await asyncio.gather(self._syncing, return_exceptions=True)
            elif self._requests:
                self._work()
            else:
                return

    async def _be_heard(self) -> None:
        """Go on while others would wait for this node after its end, but not for long."""
        self.resume()  # what it waits for comes behind what the application has not taken
        try:
            async with asyncio.timeout(LAST_SECONDS):
                while self.node.is_awaited and not self._stopped:
                    self._batch_ended = self._loop.create_future()
                    await self._batch_ended
        except TimeoutError:
            pass  # others will find out that it is gone

    # -- inputs ----------------------------------------------------------------------------------------

    def request(self, each: Input) -> None:
        """The application's next request."""
        self._requests.append(each)
        self._work_soon()

    @property
    def last_request(self) -> Input | None:
        """The request that was made last, if it waits still."""
        return self._requests[-1] if self._requests else None

    def session_up(self, identity: Identity, connection: Connection, *, dialed: bool) -> None:
        """The transport has a session."""
        self.observer.session_up(identity, connection, dialed=dialed)
        self._inbox.append((SessionUp(identity, dialed), connection))
        self._work_soon()

    def session_down(self, peer: NodeId, reason: str, *, taken: bool = False) -> None:
        """The transport has lost a session."""
        self.observer.session_down(peer, reason)
        self._inbox.append((SessionDown(peer, reason, taken), None))
        self._work_soon()

    def refused(self, who: str, reason: str) -> None:
        """The transport has sent somebody away."""
        self.observer.refused(who, reason)

    def connect_failed(self, peer: NodeId, reason: str, refusal: Refusal | None = None) -> None:
        """The transport has reached nobody, or somebody who refused."""
        self.observer.connect_failed(peer, reason, refusal)
        self._inbox.append((ConnectFailed(peer, refusal), None))
        self._work_soon()

    def messages(self, peer: NodeId, messages: Sequence[Message]) -> None:
        """The transport has messages of a session."""
        self.observer.received(peer, messages)
        self._heard[peer] = None
        for message in messages:
            if type(message) is not Ping:
                self._inbox.append((MessageReceived(peer, message), None))
        if len(self._inbox) > INBOX_MAX and not self._is_holding:
            self._hold()
        has_rested = time.perf_counter() - self._worked_at > REST_SECONDS
        if has_rested and not self._scheduled and not self._is_overdue():
            self._work()
        else:
            self._work_soon()

    def _work_soon(self) -> None:
        if not self._scheduled and self._syncing is None and not self._stopped:
            self._scheduled = True
            self._loop.call_soon(self._work)

    # -- back-pressure ---------------------------------------------------------------------------------

    def pause(self) -> None:
        """Take no events: the application is slow, and whoever sends to it waits for it. Everything else
        goes on, or an application that waits for a confirmation before it takes more would wait for ever."""
        self._paused = True

    def resume(self) -> None:
        """Take what has come meanwhile."""
        self._paused = False
        if self._parked:
            self._inbox.extendleft((each, None) for each in reversed(self._parked))
            self._parked.clear()
            self._work_soon()

    def _hold(self) -> None:
        """Read nothing until the inbox is short again."""
        self._is_holding = True
        for connection in self.transport.sessions.values():
            connection.pause_reading()
        self._loop.call_later(HOLD_SECONDS, self._hold_on)

    def _hold_on(self) -> None:
        """A peer that is not read cannot be heard: that is no reason to suspect it."""
        if self._stopped:
            return
        if len(self._inbox) <= INBOX_MAX // 2:
            self._is_holding = False
            for connection in self.transport.sessions.values():
                connection.resume_reading()
            return
        self._heard.update(dict.fromkeys(self.transport.sessions))
        self._work_soon()
        self._loop.call_later(HOLD_SECONDS, self._hold_on)

    # -- a batch ---------------------------------------------------------------------------------------

    def _work(self) -> None:
        self._scheduled = False
        if self._stopped or self._syncing is not None:
            return
        try:
            batch = self._next_batch()
            self.inputs += len(batch)
            self.batches += 1
            began = time.perf_counter()
            effects = self.node.step(batch, self.clock.now())
            seconds = time.perf_counter() - began
            self.observer.stepped(len(batch), seconds)
            self._finish(effects)
            self._worked_at = time.perf_counter()
        except Exception as error:
            self._fail(error)

    def _next_batch(self) -> list[Input]:
        """A change of a session is a batch of its own: effects are performed on the sessions that the node
        knew of when it made them."""
        inbox = self._inbox
        batch: list[Input] = [MessageReceived(peer, PING) for peer in self._heard]
        self._heard.clear()
        if inbox and type(inbox[0][0]) in ALONE:  # before requests, which might never pause
            batch.append(self._session_change(*inbox.popleft()))
            return batch
        full = len(batch) + BATCH_MAX
        while self._requests and len(batch) < full:
            batch.append(self._requests.popleft())
        while inbox and len(batch) < full and type(inbox[0][0]) not in ALONE:
            each = inbox.popleft()[0]
            if self._paused and type(each) is MessageReceived and type(each.message) in DELIVERING:
                self._parked.append(each)
            else:
                batch.append(each)
        return batch

    def _session_change(self, change: Input, connection: Connection | None) -> Input:
        self._send()  # on the sessions of before
        if type(change) is SessionUp and connection is not None:
            self._sessions[change.identity.node] = connection
        elif type(change) is SessionDown:
            self._sessions.pop(change.peer, None)
            self._parked = deque(each for each in self._parked if each.peer != change.peer)
        return change

    def _finish(self, effects: list[Effect]) -> None:
        """Records first; the rest when they are durable."""
        records = [each.record for each in effects if type(each) is Persist]
        kept = self._journal.select(records) if records and self._journal is not None else []
        if kept:
            self._syncing = self._loop.create_task(self._sync(kept, effects))
        else:
            self._perform(effects)

    async def _sync(self, records: list[Record], effects: list[Effect]) -> None:
        assert self._journal is not None
        try:
            await self._journal.append(records)
            self._syncing = None
            if not self._stopped:
                self._perform(effects)
        except Exception as error:
            self._fail(error)

    def _perform(self, effects: list[Effect]) -> None:
        links_changed = delivers = False
        for effect in effects:
            if type(effect) is Send:
                if effect.low:
                    self._send()
                    self._send_low(effect)
                else:
                    self._unsent.setdefault(effect.peer, []).append(effect.message)
            elif type(effect) is Disconnect:
                self._send()
                self._disconnect(effect)
            elif type(effect) is Connect:
                self.transport.dial(effect.peer, effect.via)
            elif type(effect) is Persist:
                links_changed = links_changed or type(effect.record) is LinkAdded
                if type(effect.record) is NetworkBound:  # it is durable, so others may be told
                    self.transport.identity = self.node.identity
            elif self._perform_other is not None:
                self._perform_other(effect)
                delivers = delivers or type(effect) is Deliver
        if delivers:
            self._loop.call_soon(self._send_later)  # the application, which was just woken, comes first
        else:
            self._send()
        if links_changed:
            self.transport.identity = self.node.identity  # a client may have another home now
            self.transport.tell(self.near())
            self._keep_addresses(self.near())
        self.observer.performed()
        if self._batch_ended is not None and not self._batch_ended.done():
            self._batch_ended.set_result(None)
        self._wake_later()
        if self._requests or self._inbox or self._heard:
            self._work_soon()

    def _send(self) -> None:
        """Send what has gathered, in the order of the effects."""
        unsent, self._unsent = self._unsent, {}
        for peer, messages in unsent.items():
            connection = self._sessions.get(peer)
            if connection is not None:
                connection.send(messages)
                self.observer.sent(peer, messages)

    def _send_later(self) -> None:
        if not self._stopped:
            try:
                self._send()
            except Exception as error:
                self._fail(error)

    def _send_low(self, effect: Send) -> None:
        connection = self._sessions.get(effect.peer)
        if connection is not None:
            connection.send_low(effect.message)

    def _disconnect(self, effect: Disconnect) -> None:
        connection = self._sessions.pop(effect.peer, None)
        if connection is not None:
            if self.transport.sessions.get(effect.peer) is connection:
                self.observer.session_down(effect.peer, effect.reason)
            self.transport.close_session(effect.peer, connection, effect.reason)

    def _wake_later(self) -> None:
        """See to it that the node is woken in time; a deadline that moves on, as most do with every sign of
        life, leaves the timer alone, which looks again when it fires."""
        moment = self.node.wake_at()
        if moment is None or self._stopped:
            return
        due = self._loop.time() + self.clock.seconds_until(moment)
        if self._timer is not None:
            if self._wakes_at <= due:
                return
            self._timer.cancel()
        self._wakes_at = due
        self._timer = self._loop.call_at(due, self._wake, due)

    def _is_overdue(self) -> bool:
        """Whether a deadline has passed, which may be because this node was held up: then it reads all that
        has come before it works."""
        moment = self.node.wake_at()
        return moment is not None and moment <= self.clock.now()

    def _wake(self, due: float) -> None:
        """Some time has come. Silence that nobody listened to is no reason to suspect a peer: a node that was
        held up reads first."""
        self._timer = None
        now = self._loop.time()
        if now - due > LATE_SECONDS:
            self._wakes_at = now
            self._timer = self._loop.call_later(READING_SECONDS, self._wake, now)
        elif not self._is_overdue():
            self._wake_later()
        elif not self._scheduled and self._syncing is None:
            self._work()

    def _fail(self, error: BaseException) -> None:
        """A node whose records cannot be written, or that is at fault itself, must not go on."""
        self.failed = error
        self._stopped = True
        log.error("%s stops: %s", self.node.overlay.me, error, exc_info=error)
        if self._on_failure is not None:
            self._on_failure(error)
        self._loop.create_task(self.transport.close(f"{self.node.overlay.me} has failed", at_once=True))

    # -- what the transport asks -------------------------------------------------------------------------

    def learned(self, book: dict[NodeId, Address]) -> None:
        """New addresses: keep them, and tell them to those who may need them."""
        near = set(self.near())
        told = [node for node in book if node in near]
        self.transport.tell(told)
        self._keep_addresses(told)

    def _keep_addresses(self, nodes: Sequence[NodeId]) -> None:
        if self._journal is not None:
            self._journal.learned(self.transport.book.of(nodes))

    def near(self) -> list[NodeId]:
        """The neighbourhood, this node included."""
        return self.node.overlay.topology.nodes()

    def status(self) -> dict[str, Any]:
        """How the node is, for ``gapless status``."""
        return self.observer.status()

    def remove(self, node: NodeId, answer: Callable[[str], None]) -> None:
        """Ask the node, and answer when it does."""
        self._removals.setdefault(node, []).append(answer)
        self.request(RemoveRequested(node))

    def removal_answered(self, node: NodeId, error: str) -> None:
        """Tell all who have asked."""
        for answer in self._removals.pop(node, ()):
            answer(error)

    @property
    def waiting(self) -> int:
        """How many inputs wait for the next batch."""
        return len(self._inbox) + len(self._requests)
