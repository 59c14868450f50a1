"""The application's side of publisher order: a client's publishers and subscriptions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gapless.core.effects import Record
from gapless.core.messages import PublisherMessage
from gapless.core.messages.overlay import Removal
from gapless.core.messages.publisher import (
    Acknowledged,
    Attached,
    AttachWanted,
    Confirmed,
    Detached,
    Log,
    LogReceived,
    Publications,
    Run,
    Superseded,
    Synced,
    SyncWanted,
)
from gapless.core.model import Content, Micros, NodeId, OrderName, SubscriptionId
from gapless.core.orders.base import LeafOrder
from gapless.core.orders.publisher.broker import MESSAGES
from gapless.core.orders.publisher.custody import source_of
from gapless.core.orders.publisher.log import PeerLog
from gapless.core.orders.publisher.outbox import Outbox
from gapless.core.orders.publisher.publishing import Publishing
from gapless.core.orders.publisher.subscribing import Subscribing


class PublisherLeaf(LeafOrder):
    """Serves one client."""

    name = OrderName.PUBLISHER
    messages = MESSAGES

    def recover(self, records: Iterable[Record]) -> None:
        """Publishers go on with what they retained; subscriptions ended with the earlier incarnation."""
        self.peers: dict[NodeId, PeerLog] = {}
        self._outbox = Outbox(self.out, self.limits.batch)
        self.publishing = Publishing(
            self.overlay.identity, self.topics, records, self._outbox, self.out, lease=self.limits.lease
        )
        self.subscribing = Subscribing(self.overlay, self.peers, self.out)

    def publish(self, topic: str, publisher: str, contents: Sequence[Content], now: Micros) -> None:
        """The application publishes events."""
        self.publishing.publish(topic, publisher, contents, now)

    def adopt(self, publisher: str, records: Sequence[Record], now: Micros) -> None:
        """Go on with its numbers, and repeat what it retains."""
        self.publishing.adopt(publisher, records, now)

    def is_fenced(self, publisher: str) -> bool:
        """Whether somebody else publishes under this name since later."""
        return publisher in self.publishing.fenced

    @property
    def name_is_lost(self) -> bool:
        """Whether another client, at another broker, keeps the name of this one."""
        return self.subscribing.name_is_lost

    def retains(self, publisher: str) -> bool:
        """Whether events of the publisher are not confirmed yet."""
        return self.publishing.retains(publisher)

    def release(self, publisher: str) -> None:
        """Forget a publisher of which nothing is retained."""
        self.publishing.release(publisher)

    @property
    def has_unheard_ends(self) -> bool:
        """Whether no broker has said yet that it knows of the end of some subscription."""
        return bool(self.subscribing.unheard)

    def subscribe(self, subscription: SubscriptionId, topic: str, selector: str, now: Micros) -> None:
        """The application subscribes; ``Live`` follows."""
        self.subscribing.subscribe(subscription, topic, selector)

    def unsubscribe(self, subscription: SubscriptionId, now: Micros) -> None:
        """The application has enough; nothing is delivered after this."""
        self.subscribing.unsubscribe(subscription)

    def session_up(self, peer: NodeId, now: Micros) -> None:
        """A broker must know the subscriptions."""
        self.subscribing.session_up(peer)

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """Forget what the session said."""
        self.peers.pop(peer, None)
        self._outbox.forget(peer)
        self.publishing.session_down(peer, now)

    def broker_removed(self, removal: Removal, now: Micros) -> None:
        """It may have been the client's own."""
        self.publishing.own_broker = self.overlay.identity.home

    def frontier_changed(self, now: Micros) -> None:
        """Choose the home: the client's own broker when it is there, since the walk stops at it."""
        self.subscribing.sides_changed()
        active = self.overlay.frontier.active
        home = active[0] if active else None
        if home != self.publishing.home:
            self.publishing.go_home(home, now, old_is_up=self.publishing.home in self.peers)

    def message(self, peer: NodeId, message: PublisherMessage, now: Micros) -> None:
        """Handle one message of publisher order, unless another client keeps the name: that one has ended the
        subscriptions of this one, and what still comes here may follow something that went past it."""
        if self.name_is_lost:
            return
        match message:
            case Publications(runs=runs):
                for run in runs:
                    self._on_run(peer, run, now)
            case Acknowledged(acknowledgements=acknowledgements, given_up=given_up, told_by=told_by):
                if told_by is not None:
                    life = self.overlay.sessions.up[peer].incarnation
                    self.publishing.home_may_lack(peer, life, told_by, now)
                if given_up:
                    self.publishing.without(peer, given_up)
                for each in acknowledgements:
                    self.publishing.acknowledged(peer, each, now)
            case Log(entries=entries):
                self.subscribing.on_log(peer, entries)
            case Confirmed(confirmations=confirmations):
                self.subscribing.on_confirmed(peer, confirmations)
            case AttachWanted():
                if peer == self.publishing.home:
                    self.publishing.go_home(peer, now, old_is_up=False)
            case Superseded():
                self.publishing.superseded(peer, message, now)
            case LogReceived() | SyncWanted() | Synced() | Attached() | Detached():
                pass  # between brokers, and to them

    def _on_run(self, peer: NodeId, run: Run, now: Micros) -> None:
        """What an earlier numbering says is no more to be taken, and must not be acknowledged either: its
        publisher has to be told."""
        source = source_of(run.events[0])
        known = self.subscribing.numbering_of(source)
        if run.header.generation[0] < known:
            self._outbox.supersede(peer, source, (known, 0))
        else:
            flow = (*source, run.header.generation)
            self._outbox.acknowledge(peer, flow, [event.sequence for event in run.events])
            self.subscribing.receive(peer, run, now)

    def flush(self, now: Micros) -> None:
        """Send what was gathered during the batch."""
        self._outbox.flush()
        self.subscribing.confirm(now)
