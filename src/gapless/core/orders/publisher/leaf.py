"""The application's side of publisher order.

*Publishing.* All events go to one home: the client's broker, else the nearest that stands in for it. Each time
the home session changes a new generation begins: everything that is not confirmed in this generation is sent
again, in order, then new events. Only confirmations of the present generation count, and what is retained loses
only its confirmed beginning, never an event in the middle.

*Subscribing.* A subscription is live when all sides have confirmed it. Events are delivered from its cut on;
each once and in order, whatever generations brought it here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gapless.core.effects import Deliver, Effect, Live, Receipt, Reset, Send
from gapless.core.messages import PublisherMessage
from gapless.core.messages.publisher import (
    Acknowledged,
    Acknowledgement,
    Attached,
    Body,
    Confirmed,
    Log,
    LogEntry,
    Publication,
    Publications,
    Superseded,
    Synced,
)
from gapless.core.model import BeyondDelta, Event, Micros, NodeId, OrderName, StartCut, SubscriptionId, Topic
from gapless.core.orders.base import LeafOrder, parsed
from gapless.core.orders.publisher.broker import MESSAGES
from gapless.core.orders.publisher.custody import Source, source_of
from gapless.core.orders.publisher.log import PeerLog
from gapless.core.orders.publisher.outbox import Outbox
from gapless.core.overlay.overlay import Overlay
from gapless.matching import MatchIndex

GENERATIONS_PER_INCARNATION = 1 << 32


@dataclass(slots=True)
class Retained:
    """The events of one publisher that are not known to be confirmed."""

    published: int = 0
    events: dict[int, Event] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    """Sequences confirmed in the present generation."""


@dataclass(slots=True)
class Subscription:
    """A subscription of this client's application."""

    topic: str
    selector: str
    live: bool = False
    unreached: set[NodeId] = field(default_factory=set)
    """Brokers that have not known it at any time since it became live."""
    cut: dict[str, int] = field(default_factory=dict)
    last: dict[str, int] = field(default_factory=dict)


class PublisherLeaf(LeafOrder):
    """A client's publishers and subscriptions."""

    name = OrderName.PUBLISHER
    messages = MESSAGES

    def __init__(self, overlay: Overlay, out: list[Effect], topics: Mapping[str, Topic]) -> None:
        super().__init__(overlay, out, topics)
        self.subscriptions: dict[SubscriptionId, Subscription] = {}
        self.peers: dict[NodeId, PeerLog] = {}
        self.retained: dict[Source, Retained] = {}
        self.home: NodeId | None = None
        self._generation = overlay.identity.incarnation * GENERATIONS_PER_INCARNATION
        self._has_published = False
        self._indexes: dict[str, MatchIndex[SubscriptionId]] = {}
        self._highest: dict[Source, tuple[int, int]] = {}
        self._outbox = Outbox(out)
        self._touched = False

    # -- sessions ----------------------------------------------------------------------------------------

    def session_up(self, peer: NodeId, now: Micros) -> None:
        """Tell the new session the own subscriptions."""
        self.peers[peer] = PeerLog()
        entries = [self._line(peer, subscription) for subscription in self.subscriptions]
        if entries:
            self.out.append(Send(peer, Log(tuple(entries))))

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """Forget what the session said."""
        self.peers.pop(peer, None)
        self._outbox.forget(peer)
        if peer == self.home:
            self.home = None

    def active_changed(self, added: Sequence[NodeId], removed: Sequence[NodeId], now: Micros) -> None:
        """Choose the home; a new home session begins a new generation."""
        self._touched = True
        active = self.overlay.frontier.active
        wished = active[0] if active else None
        if wished == self.home:
            return
        self.home = wished
        if wished is not None:
            self._begin_generation(wished)

    def _begin_generation(self, home: NodeId) -> None:
        self._generation += 1
        self.out.append(Send(home, Attached(self._generation, self._has_published)))
        self._outbox.forget(home)
        for retained in self.retained.values():
            retained.confirmed.clear()
            for event in retained.events.values():
                self._send_home(home, event)

    # -- publishing --------------------------------------------------------------------------------------

    def publish(
        self, topic: str, publisher: str, attributes: dict[str, Any], payload: bytes, now: Micros
    ) -> None:
        """Number it, keep it until it is confirmed, send it home."""
        retained = self.retained.setdefault((topic, publisher), Retained())
        retained.published += 1
        event = Event(topic, publisher, retained.published, attributes, payload, now)
        retained.events[event.sequence] = event
        self._has_published = True
        if self.home is not None:
            self._send_home(self.home, event)

    def _send_home(self, home: NodeId, event: Event) -> None:
        relaxed = self.topics[event.topic].beyond_delta is BeyondDelta.MARK
        self._outbox.publish(home, Publication(event, self._generation, relaxed=relaxed))

    def _on_acknowledgement(self, ack: Acknowledgement) -> None:
        retained = self.retained.get((ack.topic, ack.publisher))
        if retained is None or ack.generation != self._generation:
            return
        for first, last in ack.ranges:
            retained.confirmed.update(range(first, last + 1))
        done = 0
        for sequence in list(retained.events):
            if sequence not in retained.confirmed:
                break
            retained.confirmed.discard(sequence)
            del retained.events[sequence]
            done = sequence
        if done:
            self.out.append(Receipt(ack.topic, ack.publisher, done))

    # -- subscribing -------------------------------------------------------------------------------------

    def subscribe(self, subscription: SubscriptionId, topic: str, selector: str, now: Micros) -> None:
        """Tell every session."""
        self._indexes.setdefault(topic, MatchIndex()).add(subscription, parsed(selector))
        self.subscriptions[subscription] = Subscription(topic, selector)
        for peer in self.peers:
            self.out.append(Send(peer, Log((self._line(peer, subscription),))))

    def _line(self, peer: NodeId, subscription: SubscriptionId, *, ended: bool = False) -> LogEntry:
        state = self.subscriptions[subscription]
        path = tuple(self.overlay.topology.path(peer)[:-1])
        return LogEntry(0, subscription, Body(state.topic, state.selector, path), ended)

    def unsubscribe(self, subscription: SubscriptionId, now: Micros) -> None:
        """Stop delivering at once, and tell every session."""
        for peer in self.peers:
            self.out.append(Send(peer, Log((self._line(peer, subscription, ended=True),))))
        state = self.subscriptions.pop(subscription)
        self._indexes[state.topic].remove(subscription)

    def _evaluate(self, subscription: SubscriptionId, state: Subscription) -> None:
        """Live when every side has confirmed; what is confirmed later makes the unreached fewer."""
        frontier = self.overlay.frontier
        if frontier.untried or not frontier.active:
            return
        pending = dict.fromkeys(self.overlay.partitions.own[node] for node in frontier.down)
        cut, present = dict(state.cut), set[str]()
        for peer in frontier.active:
            answer = self.peers[peer].confirmed.get(subscription)
            if answer is None:
                return
            pending |= dict.fromkeys(answer.pending)
            present.update(answer.present)
            for publisher, sequence in answer.cut.items():
                cut[publisher] = max(sequence, cut.get(publisher, 0))
        raised = {
            publisher: sequence + 1
            for publisher, sequence in cut.items()
            if sequence > state.cut.get(publisher, 0) and 0 < state.last.get(publisher, 0) <= sequence
        }
        state.cut = cut
        unreached = {node for partition in pending for node in partition.nodes}
        if state.live:
            unreached &= state.unreached
        if not state.live or unreached != state.unreached:
            state.live, state.unreached = True, unreached
            start = StartCut({publisher: cut[publisher] + 1 for publisher in sorted(present)})
            unreachable = tuple(each for each in pending if not unreached.isdisjoint(each.nodes))
            self.out.append(Live(subscription, start, unreachable))
        if raised:
            self.out.append(Reset(subscription, tuple(sorted(raised)), StartCut(raised)))

    # -- messages ----------------------------------------------------------------------------------------

    def message(self, peer: NodeId, message: PublisherMessage, now: Micros) -> None:
        """Handle one message of publisher order."""
        match message:
            case Publications(batch=batch):
                for publication in batch:
                    self._on_publication(peer, publication)
            case Acknowledged(acknowledgements=acknowledgements):
                if peer == self.home:
                    for each in acknowledgements:
                        self._on_acknowledgement(each)
            case Log(entries=entries):
                self._on_log(peer, entries)
            case Confirmed(confirmations=confirmations):
                for confirmation in confirmations:
                    self.peers[peer].confirmed[confirmation.subscription] = confirmation
                self._touched = True
            case Synced() | Attached():
                pass  # between brokers, and to them
            case Superseded():
                pass  # of a generation that this client has left behind

    def _on_log(self, peer: NodeId, entries: Sequence[LogEntry]) -> None:
        for each in entries:
            self.peers[peer].told(each.subscription, each.index)

    def _on_publication(self, peer: NodeId, publication: Publication) -> None:
        """Confirm always; deliver what is new, promised, and known to all who forwarded it."""
        event, position = publication.event, (publication.generation, publication.event.sequence)
        self._outbox.acknowledge(peer, publication)
        source = source_of(event)
        if position <= self._highest.get(source, (0, 0)):
            return
        self._highest[source] = position
        index = self._indexes.get(event.topic)
        for subscription in index.match(event.attributes) if index is not None else ():
            state = self.subscriptions[subscription]
            if self._is_too_early(state, publication):  # not promised: the start lies behind it
                state.cut[event.publisher] = max(event.sequence, state.cut.get(event.publisher, 0))
            elif self._is_due(subscription, state, peer, publication):
                state.last[event.publisher] = event.sequence
                self.out.append(Deliver(subscription, event, publication.best_effort))

    def _is_too_early(self, state: Subscription, publication: Publication) -> bool:
        """Before it is live; and no flow begins while a broker that may have taken events of the publisher
        without knowing the subscription has not been reached."""
        if not state.live:
            return True
        if publication.event.publisher in state.last or not state.unreached:
            return False
        origins = {publication.entry, publication.home}
        origins.update(node for tag in publication.tags for node in tag.nodes)
        return not origins.isdisjoint(state.unreached)

    def _is_due(
        self, subscription: SubscriptionId, state: Subscription, peer: NodeId, publication: Publication
    ) -> bool:
        """New, promised, and known to all who forwarded it."""
        publisher, sequence = publication.event.publisher, publication.event.sequence
        return (
            sequence > state.last.get(publisher, 0)
            and sequence > state.cut.get(publisher, 0)
            and subscription not in publication.excluded
            and self.peers[peer].knew(subscription, publication.epoch)
        )

    def flush(self, now: Micros) -> None:
        """Send what was gathered during the batch."""
        self._outbox.flush()
        if self._touched:
            self._touched = False
            for subscription, state in self.subscriptions.items():
                self._evaluate(subscription, state)
