"""The forwarding side of publisher order: subscriptions, publications, recovery and admission together."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from gapless.core.effects import Effect, Record, Send
from gapless.core.limits import Limits
from gapless.core.messages import PublisherMessage, Removal
from gapless.core.messages.publisher import (
    Acknowledged,
    Attached,
    AttachWanted,
    Confirmed,
    Detached,
    Guest,
    Log,
    LogReceived,
    Publications,
    Run,
    Superseded,
    Synced,
    SyncWanted,
)
from gapless.core.model import Micros, NodeId, OrderName
from gapless.core.orders.base import BrokerOrder
from gapless.core.orders.publisher.forwarding import Forwarding
from gapless.core.orders.publisher.log import PeerLog, SubscriptionLog
from gapless.core.orders.publisher.outbox import Outbox
from gapless.core.orders.publisher.patience import Patience
from gapless.core.orders.publisher.settling import Settling
from gapless.core.orders.publisher.subscriptions import Subscriptions
from gapless.core.overlay.overlay import Overlay

MESSAGES = (
    Log,
    LogReceived,
    SyncWanted,
    Synced,
    Confirmed,
    Attached,
    AttachWanted,
    Detached,
    Publications,
    Acknowledged,
    Superseded,
)


class PublisherBroker(BrokerOrder):
    """Takes subscriptions and publications over and answers for them until they are confirmed."""

    name = OrderName.PUBLISHER
    messages = MESSAGES

    def __init__(
        self, overlay: Overlay, out: list[Effect], limits: Limits, records: Iterable[Record] = ()
    ) -> None:
        super().__init__(overlay, out)
        self._limits = limits
        self.log = SubscriptionLog()
        self.peers: dict[NodeId, PeerLog] = {}
        self._outbox = Outbox(out, limits.batch)
        self.forwarding = Forwarding(overlay, self.log, self.peers, self._outbox)
        self.settling = Settling(overlay, self.peers, out, piece=limits.piece)
        self.subscriptions = Subscriptions(
            overlay, self.log, self.peers, self.forwarding, out, settling=self.settling, limits=limits
        )
        self.subscriptions.endings.recover(records)
        self.forwarding.presence.recover(records)
        self._attached: dict[NodeId, Attached] = {}
        self._attached_at: dict[NodeId, Micros] = {}
        self._waiting: dict[NodeId, list[Run]] = {}
        """Events of clients that are not admitted yet."""
        self._refused: dict[NodeId, None] = {}
        """Clients of whom too much came: nothing was kept, nor is anything taken until they attach anew."""
        self._patience = Patience(limits, out, records)
        self._sessions_have_changed = False

    @property
    def settled(self) -> bool:
        """Whether this broker was told, at some time since it started, all that its sides know."""
        return self.settling.has_settled

    def why_not_leave(self) -> str | None:
        """Its clients have subscriptions, or it answers for events that have not reached everybody."""
        own = self.subscriptions.own_clients()
        if own:
            return f"clients of this broker have subscriptions: {', '.join(own)}"
        count = len(self.forwarding.custody)
        return f"{count} events are not confirmed yet" if count else None

    # -- sessions ----------------------------------------------------------------------------------------

    def session_up(self, peer: NodeId, now: Micros) -> None:
        """The log goes first on it, then what was waiting for it."""
        self._patience.back(peer)
        self.subscriptions.session_up(peer)
        self._sessions_changed()

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """Forget what the session was told; what was sent on it is sent again elsewhere."""
        self.subscriptions.session_down(peer)
        self.settling.session_down(peer)
        self._forget_waiting(peer)
        self._outbox.forget(peer)
        self.forwarding.session_down(peer, now)
        self._sessions_changed()

    def frontier_changed(self, now: Micros) -> None:
        """The sides of the subscriptions have changed, and with them whom to wait for; after a removal the
        ways to their clients too."""
        self.subscriptions.use_other_ways(now)
        self._sessions_changed()

    def broker_removed(self, removal: Removal, now: Micros) -> None:
        """No way leads through the broker any more; who has its place begins anew with those behind it."""
        self.subscriptions.mend()
        if self.overlay.me == removal.centre:
            behind = [each for each in self.peers if self.overlay.removing.is_outdated(each)]
            self.forwarding.begin_anew(behind, now)
        self.forwarding.mend(removal.node)

    def _sessions_changed(self) -> None:
        self.forwarding.resend()
        self.subscriptions.sides_changed()
        self._sessions_have_changed = True

    # -- messages ----------------------------------------------------------------------------------------

    def message(self, peer: NodeId, message: PublisherMessage, now: Micros) -> None:
        """Handle one message of publisher order."""
        match message:
            case Publications(runs=runs):
                self._on_publications(peer, runs, now)
            case Acknowledged(acknowledgements=acknowledgements):
                for each in acknowledgements:
                    self.forwarding.acknowledged(peer, each, now)
            case Log():
                self.subscriptions.on_log(peer, message, now)
            case LogReceived():
                self.subscriptions.on_log_received(peer)
            case Confirmed(confirmations=confirmations):
                self.subscriptions.on_confirmed(peer, confirmations)
            case SyncWanted():
                self._on_sync_wanted(peer, message, now)
            case Synced():
                self.settling.on_synced(peer, message)
            case Attached():
                self._on_attached(peer, message, now)
            case Detached():
                self._on_detached(peer, now)
            case AttachWanted():
                pass  # to clients
            case Superseded(topic=topic, publisher=publisher, generation=generation):
                self.forwarding.supersede((topic, publisher), generation, now)

    def _on_sync_wanted(self, peer: NodeId, wanted: SyncWanted, now: Micros) -> None:
        """Another broker asks, and says who publishes there now; clients do not ask."""
        if not self.overlay.sessions.up[peer].identity.is_leaf:
            for guest in wanted.guests:
                self.forwarding.detached(guest.client, now, before=guest.generation)
            self.settling.on_wanted(peer, wanted)

    def _on_publications(self, peer: NodeId, runs: Sequence[Run], now: Micros) -> None:
        if not self.overlay.sessions.up[peer].identity.is_leaf:
            for run in runs:
                self.forwarding.receive(peer, run, now)
            return
        if peer not in self._attached or peer in self._refused:
            return  # a client that does as it should publishes where it is attached
        if peer in self._waiting:
            if self._is_guest(peer):
                self.settling.want(("events", peer), Guest(peer, self._attached[peer].generation))
            self._maybe_admit(peer, now)
        if peer in self._waiting:
            self._wait(peer, runs)
        else:
            self._take(peer, runs, now)

    def _take(self, leaf: NodeId, runs: Sequence[Run], now: Micros) -> None:
        since = now - self._attached_at[leaf]
        here = (self.overlay.me, self.overlay.identity.incarnation)
        stays = tuple(
            replace(each, ago=each.ago + since)
            for each in self._attached[leaf].stays
            if (each.node, each.life) != here  # what was taken in this life is known
        )
        for run in runs:
            self.subscriptions.hear_of_given_up(run.header.excluded, now)
            self.forwarding.enter(leaf, run, now, stays=stays, told_by=self.settling.told_by)

    def _on_attached(self, leaf: NodeId, attached: Attached, now: Micros) -> None:
        is_admitted = leaf in self._refused and leaf not in self._waiting  # and was asked to repeat
        self._forget_waiting(leaf)
        self._attached[leaf] = attached
        self._attached_at[leaf] = now
        if not is_admitted:
            self._waiting[leaf] = []

    def _on_detached(self, leaf: NodeId, now: Micros) -> None:
        """The client publishes elsewhere, and repeats there what still waits here: if that were taken over
        later, the client would seem to be here."""
        self._forget_waiting(leaf)
        self.forwarding.detached(leaf, now)

    def _is_guest(self, leaf: NodeId) -> bool:
        """Whether its events are promised to subscriptions that this broker may lack: it is the client of
        another broker, or has published at one, and the promise goes by the broker that is its own."""
        home = self.overlay.sessions.up[leaf].identity.home
        stays = self._attached[leaf].stays
        return home != self.overlay.me or any(each.node != self.overlay.me for each in stays)

    def _forget_waiting(self, leaf: NodeId) -> None:
        self.settling.forget(("events", leaf))
        self._attached.pop(leaf, None)
        self._attached_at.pop(leaf, None)
        self._waiting.pop(leaf, None)
        self._refused.pop(leaf, None)

    def _wait(self, leaf: NodeId, runs: Sequence[Run]) -> None:
        """Keep them until the client is admitted, but not without bound: the client has them too."""
        waiting = self._waiting[leaf]
        count = sum(len(run.events) for run in (*waiting, *runs))
        if count <= self._limits.waiting:
            waiting += runs
        else:
            waiting.clear()
            self._refused[leaf] = None

    def _maybe_admit(self, leaf: NodeId, now: Micros) -> None:
        """Take a client's events only when this broker knows what a broker before it may have known.

        That is: once it has settled since it started, and again for a guest. Once admitted, a session stays
        so. Of whom too much had come, everything is asked for again.
        """
        if not self.settling.has_settled:
            return
        if self._is_guest(leaf) and not self.settling.is_settled(("events", leaf)):
            return
        self.settling.forget(("events", leaf))
        if self.settling.told_by is not None:
            self.out.append(Send(leaf, Acknowledged((), told_by=self.settling.told_by)))
        self._take(leaf, self._waiting.pop(leaf), now)
        if leaf in self._refused:
            self.out.append(Send(leaf, AttachWanted()))

    def flush(self, now: Micros) -> None:
        """Logs before publications, publications before what speaks of them."""
        self.settling.look()
        self.subscriptions.accept_claims(now)
        self.subscriptions.stream()
        for leaf in [*self._waiting]:
            self._maybe_admit(leaf, now)
        self.settling.flush()
        self.subscriptions.tell_given_up()
        self._outbox.flush()
        self.subscriptions.confirm()
        self.subscriptions.purge()
        if not self.overlay.frontier.wanted:
            self.forwarding.forget(now, lease=self._limits.lease)
        if self._sessions_have_changed or self.subscriptions.has_absent:
            self._sessions_have_changed = False
            absent = self.subscriptions.absent_clients()
            self._patience.away(absent, now, are_all=self.settling.has_settled)
            self._patience.plan(now, something_waits=bool(self.overlay.frontier.down))

    # -- the end of patience -------------------------------------------------------------------------------

    def deadline(self, now: Micros) -> None:
        """Give up who was away too long, and whoever has too much waiting."""
        moment = self._patience.wake_at
        if moment is None or now < moment:
            return
        waiting = self.forwarding.custody.unreachable()
        too_much = [each for each, count in waiting.items() if count > self._limits.custody]
        gone = [*self._patience.exhausted(now), *too_much]
        for target in gone:
            self.subscriptions.give_up(target, now)
        if gone:
            self.forwarding.give_up(lambda destination: destination[0] in gone, now)
        self._patience.note(now)
        self._patience.plan(now, something_waits=bool(waiting or self.overlay.frontier.down))

    def wake_at(self) -> Micros | None:
        """When to look after those who are away."""
        return self._patience.wake_at
