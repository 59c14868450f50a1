"""The forwarding side of publisher order."""

from __future__ import annotations

from collections.abc import Sequence

from gapless.core.effects import Effect, Send
from gapless.core.messages import PublisherMessage
from gapless.core.messages.publisher import (
    Acknowledged,
    Acknowledgement,
    Attached,
    Body,
    Confirmation,
    Confirmed,
    Log,
    LogEntry,
    Publication,
    Publications,
    Superseded,
    Synced,
)
from gapless.core.model import Micros, NodeId, OrderName, Path, SubscriptionId
from gapless.core.orders.base import BrokerOrder, parsed
from gapless.core.orders.publisher.custody import Custody, Held, Source, Stream, source_of
from gapless.core.orders.publisher.log import Entry, PeerLog, SubscriptionLog
from gapless.core.overlay.overlay import Overlay
from gapless.matching import MatchIndex

MESSAGES = (Log, Synced, Confirmed, Attached, Publications, Acknowledged, Superseded)


class PublisherBroker(BrokerOrder):
    """Takes subscriptions and publications over and answers for them until they are confirmed."""

    name = OrderName.PUBLISHER
    messages = MESSAGES

    def __init__(self, overlay: Overlay, out: list[Effect]) -> None:
        super().__init__(overlay, out)
        self.log = SubscriptionLog()
        self.custody = Custody()
        self.peers: dict[NodeId, PeerLog] = {}
        self._indexes: dict[str, MatchIndex[SubscriptionId]] = {}
        self._entered: dict[str, dict[str, int]] = {}  # topic -> publisher -> highest sequence
        self._attached: dict[NodeId, Attached] = {}
        self._present: dict[Source, NodeId] = {}  # publishers and the client through which they publish here
        self._admitted: dict[NodeId, list[Publication] | None] = {}  # leaf -> held back; None: admitted
        self._outgoing: dict[NodeId, list[Publication]] = {}
        self._acks: dict[NodeId, dict[tuple[str, str, int], list[int]]] = {}
        self._touched: dict[SubscriptionId, None] = {}  # confirmations to look at again
        self._confirmations: dict[NodeId, list[Confirmation]] = {}
        self._recovered = False

    @property
    def settled(self) -> bool:
        """Whether this broker has been told, since it started, all that lies on its sides."""
        return self._recovered

    # -- sessions ----------------------------------------------------------------------------------------

    def session_up(self, peer: NodeId, now: Micros) -> None:
        """Stream the whole log first of all, then what was waiting for this session."""
        self.peers[peer] = PeerLog()
        self._sessions_changed()

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """Forget what the session was told; what was sent on it is sent again elsewhere."""
        self.peers.pop(peer, None)
        self._outgoing.pop(peer, None)
        self._acks.pop(peer, None)
        self._confirmations.pop(peer, None)
        self._attached.pop(peer, None)
        self._admitted.pop(peer, None)
        for source in [source for source, leaf in self._present.items() if leaf == peer]:
            del self._present[source]
        for held in self.custody.all_held():
            held.senders.pop(peer, None)
            lost = held.waiting.pop(peer, None)
            if lost:
                held.waiting.setdefault(None, {}).update(lost)
        self._sessions_changed()

    def active_changed(self, added: Sequence[NodeId], removed: Sequence[NodeId], now: Micros) -> None:
        """The sides of the subscriptions have changed, and with them whom to wait for."""
        self._sessions_changed()

    def _sessions_changed(self) -> None:
        """Resend first: whatever now has another next hop, in order, before anything new (X-P0-22)."""
        self._resend()
        self._touched |= dict.fromkeys(entry.subscription for entry in self.log)

    def _resend(self) -> None:
        for held in list(self.custody.all_held()):
            moved: dict[NodeId | None, dict[NodeId, Path]] = {}
            for hop, targets in list(held.waiting.items()):
                for target, path in list(targets.items()):
                    nearest = self.overlay.next_hop(path)
                    if nearest != hop:
                        del targets[target]
                        moved.setdefault(nearest, {})[target] = path
                if not targets:
                    del held.waiting[hop]
            for hop, targets in moved.items():
                held.waiting.setdefault(hop, {}).update(targets)
                if hop is not None:
                    self._outgoing.setdefault(hop, []).append(held.publication)

    # -- messages ----------------------------------------------------------------------------------------

    def message(self, peer: NodeId, message: PublisherMessage, now: Micros) -> None:
        """Handle one message of publisher order."""
        match message:
            case Publications(batch=batch):
                self._on_publications(peer, batch)
            case Acknowledged(acknowledgements=acknowledgements):
                for each in acknowledgements:
                    self._on_acknowledgement(peer, each)
            case Log(entries=entries):
                self._on_log(peer, entries)
            case Confirmed(confirmations=confirmations):
                for confirmation in confirmations:
                    self.peers[peer].confirmed[confirmation.subscription] = confirmation
                    self._touched[confirmation.subscription] = None
            case Synced():
                self.peers[peer].synced = True
            case Attached():
                self._attached[peer] = message
                self._admitted[peer] = []
            case Superseded(topic=topic, publisher=publisher, generation=generation):
                self._generation((topic, publisher), generation)

    # -- subscriptions -----------------------------------------------------------------------------------

    def _on_log(self, peer: NodeId, entries: Sequence[LogEntry]) -> None:
        """Accept on arrival, whoever sent it."""
        peer_log = self.peers[peer]
        for each in entries:
            peer_log.index_of[each.subscription] = each.index
            mine = self.log.get(each.subscription)
            if mine is None:
                if each.body is None:
                    continue  # the peer thought it had it from me: the sender of the echo is mistaken
                if each.ended:
                    continue
                self._append(each.subscription, each.body, ended=False)
            elif each.ended and not mine.ended:
                self._append(each.subscription, mine.body, ended=True)
            self._touched[each.subscription] = None

    def _append(self, subscription: SubscriptionId, body: Body, *, ended: bool) -> None:
        known = self.log.get(subscription)
        self.log.append(subscription, body, dict(self._entered.get(body.topic, ())), ended=ended)
        index = self._indexes.setdefault(body.topic, MatchIndex())
        if ended:
            if known is not None and not known.ended:
                index.remove(subscription)
        else:
            index.add(subscription, parsed(body.selector))

    def _stream(self, peer: NodeId) -> None:
        """Send the entries that the session has not carried yet; a client gets only its own."""
        peer_log = self.peers[peer]
        entries = self.log.after(peer_log.streamed)
        peer_log.streamed = self.log.length
        is_leaf = self.overlay.sessions.up[peer].identity.is_leaf
        lines = [self._line(entry, peer, peer_log) for entry in entries if not is_leaf or entry.owner == peer]
        if lines:
            self.out.append(Send(peer, Log(tuple(lines))))

    def _line(self, entry: Entry, peer: NodeId, peer_log: PeerLog) -> LogEntry:
        body = None
        if entry.subscription not in peer_log.index_of:
            path = self.overlay.extended(entry.body.path, peer)
            body = Body(entry.body.topic, entry.body.selector, path)
        return LogEntry(entry.index, entry.subscription, body, entry.ended)

    def _confirm(self, entry: Entry) -> None:
        """Confirm towards the client once all other sides have: aggregated, and again when it changes."""
        overlay, frontier = self.overlay, self.overlay.frontier
        towards = entry.body.path[-1]
        direction = overlay.direction(towards)

        def elsewhere(node: NodeId) -> bool:
            return overlay.direction(node) != direction or direction is None

        if any(elsewhere(node) for node in [*frontier.untried, *frontier.barriers]):
            return
        pending = {node for node in frontier.down if elsewhere(node)}
        cut = dict(entry.entered)
        topic = entry.body.topic
        present = {publisher for publisher in cut if (topic, publisher) in self._present}
        for peer in frontier.active:
            if elsewhere(peer):
                answer = self.peers[peer].confirmed.get(entry.subscription)
                if answer is None:
                    return
                pending.update(answer.pending)
                present.update(answer.present)
                for publisher, sequence in answer.cut.items():
                    cut[publisher] = max(sequence, cut.get(publisher, 0))
        confirmation = Confirmation(
            entry.subscription, tuple(sorted(pending)), cut, tuple(sorted(present))
        )
        receivers = [peer for peer in frontier.active if not elsewhere(peer)]
        if entry.owner in self.peers:
            receivers.append(entry.owner)
        for peer in receivers:
            peer_log = self.peers[peer]
            if not confirmation.says_as(peer_log.confirmed_to.get(entry.subscription)):
                peer_log.confirmed_to[entry.subscription] = confirmation
                self._confirmations.setdefault(peer, []).append(confirmation)

    # -- publications ------------------------------------------------------------------------------------

    def _on_publications(self, peer: NodeId, batch: Sequence[Publication]) -> None:
        if self.overlay.sessions.up[peer].identity.is_leaf:
            waiting = self._admitted.get(peer)
            if waiting is not None:
                waiting.extend(batch)
                self._admit(peer)
                return
            for publication in batch:
                self._enter(peer, publication)
        else:
            for publication in batch:
                self._handle(peer, publication)

    def _admit(self, leaf: NodeId) -> None:
        """Events of a client wait while this broker may not know all that a broker before it knew."""
        waiting = self._admitted.get(leaf)
        attached = self._attached[leaf]
        if waiting is None or not (self._is_settled() or (self._recovered and not attached.moved)):
            return
        self._admitted[leaf] = None
        for publication in waiting:
            self._enter(leaf, publication)

    def _enter(self, leaf: NodeId, publication: Publication) -> None:
        """This broker takes the event from its publisher."""
        event = publication.event
        home = self.overlay.sessions.up[leaf].identity.home or ""
        self._handle(leaf, Publication(event, publication.generation, self.overlay.me, home))
        self._present[source_of(event)] = leaf
        entered = self._entered.setdefault(event.topic, {})
        entered[event.publisher] = max(event.sequence, entered.get(event.publisher, 0))

    def _handle(self, peer: NodeId, publication: Publication) -> None:
        event = publication.event
        stream = self._generation(source_of(event), publication.generation)
        if stream is None:
            known = self.custody.streams[source_of(event)].generation
            self.out.append(Send(peer, Superseded(event.topic, event.publisher, known)))
            return
        if event.sequence <= stream.highest:
            held = stream.held.get(event.sequence)
            if held is not None:
                held.senders[peer] = None
            else:
                self._acknowledge(peer, publication)
            return
        stream.highest = event.sequence
        held = self._take_over(peer, publication)
        if held is None:
            self._acknowledge(peer, publication)
            return
        stream.held[event.sequence] = held
        for hop in held.waiting:
            if hop is not None:
                self._outgoing.setdefault(hop, []).append(held.publication)

    def _generation(self, source: Source, generation: int) -> Stream | None:
        """The stream of that generation; anything of an older one is dropped, and its senders are told."""
        stream, dropped = self.custody.stream(source, generation)
        senders: dict[NodeId, None] = {}
        for held in dropped:
            senders |= held.senders
        for sender in senders:
            if sender in self.peers:
                self.out.append(Send(sender, Superseded(*source, generation)))
        return stream

    def _take_over(self, peer: NodeId, publication: Publication) -> Held | None:
        """Match with evidence, assign each target to its next hop; ``None`` when nobody wants it."""
        event = publication.event
        index = self._indexes.get(event.topic)
        matching = index.match(event.attributes) if index is not None else []
        if not matching:
            return None
        came_from = self.overlay.direction(peer)
        excluded = list(publication.excluded)
        if came_from is not None:
            peer_log, epoch = self.peers[peer], publication.epoch
            excluded += [each for each in matching if each not in excluded and not peer_log.knew(each, epoch)]
        waiting: dict[NodeId | None, dict[NodeId, Path]] = {}
        for subscription in matching:
            path = self.log[subscription].body.path
            if path[-1] != came_from and subscription not in excluded:
                hop = self.overlay.next_hop(path)
                waiting.setdefault(hop, {})[path[0]] = path
        if not waiting:
            return None
        kept = Publication(
            event,
            publication.generation,
            publication.entry,
            publication.home,
            self.log.length,
            tuple(excluded),
        )
        return Held(kept, {peer: None}, waiting)

    def _on_acknowledgement(self, peer: NodeId, ack: Acknowledgement) -> None:
        for sequence in ack.sequences:
            held = self.custody.confirmed((ack.topic, ack.publisher), ack.generation, sequence, peer)
            if held is not None:
                for sender in held.senders:
                    self._acknowledge(sender, held.publication)

    def _acknowledge(self, peer: NodeId, publication: Publication) -> None:
        event = publication.event
        acks = self._acks.setdefault(peer, {})
        acks.setdefault((event.topic, event.publisher, publication.generation), []).append(event.sequence)

    # -- the end of a batch ------------------------------------------------------------------------------

    def _is_settled(self, besides: NodeId | None = None) -> bool:
        """Whether all sides (but one) have told what they know (003, 6.2: also through down nodes)."""
        frontier, direction = self.overlay.frontier, self.overlay.direction
        sides = [peer for peer in frontier.active if direction(peer) != besides]
        open_ends = [*frontier.untried, *frontier.barriers]
        return all(self.peers[peer].synced for peer in sides) and all(
            direction(node) == besides for node in open_ends
        )

    def _maybe_settle(self) -> None:
        frontier = self.overlay.frontier
        alone = not self.overlay.topology.neighbours()
        if not self._recovered and (alone or (bool(frontier.active) and self._is_settled())):
            self._recovered = True
        for leaf in list(self._admitted):
            self._admit(leaf)
        for peer in frontier.active:
            peer_log = self.peers[peer]
            if not peer_log.sync_sent and self._is_settled(besides=self.overlay.direction(peer)):
                peer_log.sync_sent = True
                self.out.append(Send(peer, Synced()))

    def flush(self, now: Micros) -> None:
        """Logs before publications, publications before what speaks of them."""
        for peer in self.peers:
            self._stream(peer)
        self._maybe_settle()
        for peer, batch in self._outgoing.items():
            self.out.append(Send(peer, Publications(tuple(batch))))
        self._outgoing.clear()
        for peer, acks in self._acks.items():
            self.out.append(
                Send(peer, Acknowledged(tuple(Acknowledgement(*key, tuple(n)) for key, n in acks.items())))
            )
        self._acks.clear()
        for subscription in self._touched:
            entry = self.log.get(subscription)
            if entry is not None and not entry.ended:
                self._confirm(entry)
        self._touched.clear()
        for peer, confirmations in self._confirmations.items():
            self.out.append(Send(peer, Confirmed(tuple(confirmations))))
        self._confirmations.clear()
