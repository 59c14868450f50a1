"""Best effort: content-based forwarding that promises nothing.

The tree and its active sessions, without confirmations of events, without resending and without a memory of
what was seen. As long as nothing fails it is exact, because sessions are FIFO and a subscription is live only
when every broker has confirmed it. With the first failure it loses events: it is here as the measure of what
the other orders add, and to show that the checkers catch a protocol that breaks its promise.

Subscriptions go away from their client over all active sessions and are used from their arrival on; each
broker confirms when all behind it have (000, IV-A). A branch that fails is not waited for.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from gapless.core.effects import Deliver, Effect, EventsConfirmed, Live, Persist, Receipt, Record, Send
from gapless.core.messages import (
    BestEffortEvents,
    BestEffortMessage,
    BestEffortSubscribe,
    BestEffortSubscribed,
    BestEffortUnsubscribe,
    Removal,
)
from gapless.core.model import Content, Event, Micros, NodeId, OrderName, Path, StartCut, SubscriptionId
from gapless.core.orders.base import BrokerOrder, LeafOrder, is_selector, numbered, parsed
from gapless.core.overlay.overlay import Overlay
from gapless.matching import MatchIndex

MESSAGES = (BestEffortSubscribe, BestEffortSubscribed, BestEffortUnsubscribe, BestEffortEvents)


@dataclass(slots=True)
class Route:
    """A subscription as a broker knows it."""

    message: BestEffortSubscribe
    senders: dict[NodeId, None] = field(default_factory=dict)
    waiting: dict[NodeId, None] = field(default_factory=dict)

    @property
    def path(self) -> Path:
        """The way back to the client; its last node is the direction of the subscription."""
        return self.message.path


class BestEffortBroker(BrokerOrder):
    """Forwards subscriptions away from and events towards their clients."""

    name = OrderName.BEST_EFFORT
    messages = MESSAGES

    def __init__(self, overlay: Overlay, out: list[Effect]) -> None:
        super().__init__(overlay, out)
        self.routes: dict[SubscriptionId, Route] = {}
        self._indexes: dict[str, MatchIndex[SubscriptionId]] = {}
        self._outgoing: dict[NodeId, list[Event]] = {}
        self._active: list[NodeId] = []

    def frontier_changed(self, now: Micros) -> None:
        """Teach new active peers what they may have missed; do not wait for lost ones."""
        active = self.overlay.frontier.active
        added, self._active = [peer for peer in active if peer not in self._active], active
        for route in list(self.routes.values()):
            for peer in added:
                self._forward(route, peer)
            self._confirm_if_complete(route)

    def broker_removed(self, removal: Removal, now: Micros) -> None:
        """No way leads through the broker any more."""
        for route in self.routes.values():
            route.message = replace(route.message, path=self.overlay.mended_path(route.message.path))

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """Whoever is gone confirms nothing and gets nothing."""
        self._outgoing.pop(peer, None)
        for route in list(self.routes.values()):
            route.waiting.pop(peer, None)
            route.senders.pop(peer, None)
            self._confirm_if_complete(route)

    def message(self, peer: NodeId, message: BestEffortMessage, now: Micros) -> None:
        """Handle one message of a best-effort topic."""
        match message:
            case BestEffortEvents(events=events):
                came_from = self.overlay.direction(peer)
                for event in events:
                    self._route(event, came_from)
            case BestEffortSubscribe():
                self._learn(peer, message)
            case BestEffortSubscribed(subscription=subscription):
                route = self.routes.get(subscription)
                if route is not None and peer in route.waiting:
                    del route.waiting[peer]
                    self._confirm_if_complete(route)
            case BestEffortUnsubscribe(subscription=subscription):
                self._forget(subscription)

    def _route(self, event: Event, came_from: NodeId | None) -> None:
        """One copy for each next hop, never back towards the source (X-P0-21).

        A client is no direction: it gets its own events back if it subscribed to them.
        """
        index = self._indexes.get(event.topic)
        if index is None:
            return
        hops: dict[NodeId, None] = {}
        for subscription in index.match(event.attributes):
            path = self.routes[subscription].path
            if path[-1] != came_from:
                hop = self.overlay.next_hop(path)
                if hop is not None:
                    hops[hop] = None
        for hop in hops:
            self._outgoing.setdefault(hop, []).append(event)

    def flush(self, now: Micros) -> None:
        """Send the events of this batch, one message a peer."""
        for peer, events in self._outgoing.items():
            self.out.append(Send(peer, BestEffortEvents(tuple(events))))
        self._outgoing.clear()

    def why_not_leave(self) -> str | None:
        """Its clients have subscriptions."""
        nearest = {route.path[-1] for route in self.routes.values()}
        own = sorted(each for each in nearest if self.overlay.direction(each) is None)
        return f"clients of this broker have subscriptions: {', '.join(own)}" if own else None

    # -- subscriptions -----------------------------------------------------------------------------------

    def _learn(self, peer: NodeId, message: BestEffortSubscribe) -> None:
        if not is_selector(message.selector) or not message.path:
            return
        route = self.routes.get(message.subscription)
        if route is None:
            route = self.routes[message.subscription] = Route(message)
            index = self._indexes.setdefault(message.topic, MatchIndex())
            index.add(message.subscription, parsed(message.selector))
            for active in self.overlay.frontier.active:
                self._forward(route, active)
        route.senders[peer] = None
        self._confirm_if_complete(route)

    def _forward(self, route: Route, peer: NodeId) -> None:
        if self.overlay.direction(peer) == route.path[-1]:
            return
        message = route.message
        path = self.overlay.extended(route.path, peer)
        route.waiting[peer] = None
        self._send_before_events(
            peer, BestEffortSubscribe(message.subscription, message.topic, message.selector, path)
        )

    def _confirm_if_complete(self, route: Route) -> None:
        if not route.waiting:
            for sender in route.senders:
                self._send_before_events(sender, BestEffortSubscribed(route.message.subscription))
            route.senders.clear()

    def _forget(self, subscription: SubscriptionId) -> None:
        route = self.routes.pop(subscription, None)
        if route is None:
            return
        self._indexes[route.message.topic].remove(subscription)
        for peer in self.overlay.frontier.active:
            if self.overlay.direction(peer) != route.path[-1]:
                self.out.append(Send(peer, BestEffortUnsubscribe(subscription)))

    def _send_before_events(self, peer: NodeId, message: BestEffortMessage) -> None:
        """Keep one order on the session: events handled before this message go first (P0-102)."""
        events = self._outgoing.pop(peer, None)
        if events:
            self.out.append(Send(peer, BestEffortEvents(tuple(events))))
        self.out.append(Send(peer, message))


@dataclass(slots=True)
class LeafSubscription:
    """A subscription of this client's application."""

    topic: str
    selector: str
    live: bool = False


class BestEffortLeaf(LeafOrder):
    """Publishes through the nearest broker and delivers what comes."""

    name = OrderName.BEST_EFFORT
    messages = MESSAGES

    def recover(self, records: Iterable[Record]) -> None:
        """Nothing is kept but the numbers, so that no two events have the same."""
        self._subscriptions: dict[SubscriptionId, LeafSubscription] = {}
        self._indexes: dict[str, MatchIndex[SubscriptionId]] = {}
        self._active: list[NodeId] = []
        self._sequences: dict[tuple[str, str], int] = {}
        self._go_on(records)

    def _go_on(self, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record, EventsConfirmed):
                self._sequences[record.topic, record.publisher] = record.sequence

    def adopt(self, publisher: str, records: Sequence[Record], now: Micros) -> None:
        """Go on with its numbers."""
        self._go_on(records)

    def retains(self, publisher: str) -> bool:
        """Nothing is ever retained."""
        return False

    def release(self, publisher: str) -> None:
        """Forget its numbers."""
        for source in [source for source in self._sequences if source[1] == publisher]:
            del self._sequences[source]

    def frontier_changed(self, now: Micros) -> None:
        """A client tells each broker that it attaches to what it wants."""
        active = self.overlay.frontier.active
        added, self._active = [peer for peer in active if peer not in self._active], active
        for peer in added:
            for subscription, state in self._subscriptions.items():
                self._send_subscription(peer, subscription, state)

    def publish(self, topic: str, publisher: str, contents: Sequence[Content], now: Micros) -> None:
        """Send them to one broker, if there is one, and call that enough."""
        events = numbered(topic, publisher, self._sequences.get((topic, publisher), 0) + 1, contents, now)
        last = self._sequences[topic, publisher] = events[-1].sequence
        self.out.append(Persist(EventsConfirmed(topic, publisher, last)))
        if self.overlay.frontier.active:
            self.out.append(Send(self.overlay.frontier.active[0], BestEffortEvents(events)))
        self.out.append(Receipt(topic, publisher, last))

    def subscribe(self, subscription: SubscriptionId, topic: str, selector: str, now: Micros) -> None:
        """Ask every broker that this client is attached to."""
        state = self._subscriptions[subscription] = LeafSubscription(topic, selector)
        self._indexes.setdefault(topic, MatchIndex()).add(subscription, parsed(selector))
        for peer in self.overlay.frontier.active:
            self._send_subscription(peer, subscription, state)

    def _send_subscription(self, peer: NodeId, subscription: SubscriptionId, state: LeafSubscription) -> None:
        path = tuple(self.overlay.topology.path(peer)[:-1])
        self.out.append(Send(peer, BestEffortSubscribe(subscription, state.topic, state.selector, path)))

    def unsubscribe(self, subscription: SubscriptionId, now: Micros) -> None:
        """Stop delivering at once, and tell the network."""
        state = self._subscriptions.pop(subscription)
        self._indexes[state.topic].remove(subscription)
        for peer in self.overlay.frontier.active:
            self.out.append(Send(peer, BestEffortUnsubscribe(subscription)))

    def message(self, peer: NodeId, message: BestEffortMessage, now: Micros) -> None:
        """Deliver events that match a live subscription; the rest was for another one of this client."""
        match message:
            case BestEffortEvents(events=events):
                self._deliver(events)
            case BestEffortSubscribed(subscription=subscription):
                state = self._subscriptions.get(subscription)
                if state is not None and not state.live:
                    state.live = True
                    self.out.append(Live(subscription, StartCut()))
            case BestEffortSubscribe() | BestEffortUnsubscribe():
                pass  # clients forward nothing

    def _deliver(self, events: Sequence[Event]) -> None:
        matching: dict[SubscriptionId, list[Event]] = {}
        for event in events:
            index = self._indexes.get(event.topic)
            for subscription in index.match(event.attributes) if index is not None else ():
                if self._subscriptions[subscription].live:
                    matching.setdefault(subscription, []).append(event)
        self.out += [Deliver(subscription, tuple(theirs)) for subscription, theirs in matching.items()]
