"""Forwarding publications: take over, match with evidence, route, confirm, resend (000, V; 003, 4.8, 5).

1. *Duplicate?* By the sequence vector; what is still in custody only gains a sender.
2. *Match with evidence.* A subscription that the sender did not know when it handled the publication is
   excluded, here and further on: nobody may deliver what some forwarder on the way may have lacked.
3. *Route.* One copy for each next hop, never back in the direction it came from (X-P0-21).
4. *Confirm* to all senders when every target has it.
5. *Resend first.* Whenever a next hop changes, nearer or farther, what is unconfirmed goes over the new
   session, in order, before anything new (X-P0-22).
"""

from __future__ import annotations

from collections.abc import Mapping

from gapless.core.messages.publisher import Acknowledgement, Publication
from gapless.core.model import Micros, NodeId, Partition, SubscriptionId
from gapless.core.orders.publisher.custody import Custody, Held, Source, Stream, Targets, source_of
from gapless.core.orders.publisher.log import Missed, PeerLog, SubscriptionLog
from gapless.core.orders.publisher.outbox import Outbox, within
from gapless.core.orders.publisher.vectors import Vector, Vectors, bypassed, merged
from gapless.core.overlay.overlay import Overlay


class Forwarding:
    """The publications of one broker."""

    def __init__(
        self, overlay: Overlay, log: SubscriptionLog, peers: Mapping[NodeId, PeerLog], outbox: Outbox
    ) -> None:
        identity = overlay.identity
        self.custody = Custody()
        self.vectors = Vectors(identity.node, identity.incarnation, overlay.topology.delta)
        self.present: dict[Source, tuple[NodeId, int]] = {}
        """The publishers that publish here now, with the client and the generation of each."""
        self.entered: dict[str, dict[str, int]] = {}
        """By topic and publisher the highest sequence that this broker took from the publisher itself."""
        self._left: dict[Source, Micros] = {}
        """Publishers that publish here no longer, and since when; the first that left is the first here."""
        self._missed: dict[str, Missed] = {}
        """By topic what a subscription that comes now has missed: one copy for all that come at once."""
        self._overlay = overlay
        self._log = log
        self._peers = peers
        self._outbox = outbox
        self._blocked: dict[NodeId, list[Held]] = {}
        """Peers to whom a copy would not be legitimate, and all that waits for it, in order."""

    def missed(self, topic: str) -> Missed:
        """What a subscription that comes now has missed here, and who publishes here at this moment."""
        found = self._missed.get(topic)
        if found is None:
            here = {publisher: who for (where, publisher), who in self.present.items() if where == topic}
            found = self._missed[topic] = Missed(dict(self.entered.get(topic, ())), here)
        return found

    def still_present(self, topic: str, missed: Missed) -> list[str]:
        """Which publishers have published here, and nowhere else, since that moment."""
        return [each for each, who in missed.present.items() if self.present.get((topic, each)) == who]

    def forget_those_who_left(self, before: Micros) -> None:
        """Forget what entered from publishers that left before a moment: whatever they had sent elsewhere
        earlier has arrived by now, so no subscription to come can get it out of turn."""
        while self._left:
            source, since = next(iter(self._left.items()))
            if since > before:
                break
            del self._left[source]
            table = self.entered[source[0]]
            del table[source[1]]
            if not table:
                del self.entered[source[0]]
            self._missed.clear()

    # -- arriving ----------------------------------------------------------------------------------------

    def enter(self, leaf: NodeId, publication: Publication) -> None:
        """This broker takes the event from its publisher."""
        event, source = publication.event, source_of(publication.event)
        self.present[source] = (leaf, publication.generation)
        if self._left:
            self._left.pop(source, None)
        stream = self._stream(leaf, source, publication.generation)
        if stream is None:
            return
        if event.sequence > stream.entered:
            stream.entered = event.sequence
            entered = self.entered.setdefault(event.topic, {})
            if self._missed:
                self._missed.clear()
            home = self._overlay.sessions.up[leaf].identity.home or ""
            taken = Publication(
                event, publication.generation, self._overlay.me, home, relaxed=publication.relaxed
            )
            self._take_over(leaf, stream, taken)
            entered[event.publisher] = max(event.sequence, entered.get(event.publisher, 0))
        else:
            self._seen_again(leaf, stream, publication)

    def receive(self, peer: NodeId, publication: Publication) -> None:
        """A publication comes from another broker."""
        event = publication.event
        stream = self._stream(peer, source_of(event), publication.generation)
        if stream is None:
            return
        if event.sequence in stream.held or self.vectors.is_duplicate(publication.vector):
            self.vectors.note(publication.vector)
            self._seen_again(peer, stream, publication)
        else:
            self.vectors.note(publication.vector)
            self._take_over(peer, stream, publication)

    def _stream(self, peer: NodeId, source: Source, generation: int) -> Stream | None:
        """The stream of that generation; ``None`` for an older one, whose sender is told to forget it."""
        stream = self.custody.streams.get(source)
        if stream is None or stream.generation < generation:
            self.supersede(source, generation)
            stream = self.custody.streams[source] = Stream(generation)
        elif stream.generation > generation:
            self._outbox.supersede(peer, source, stream.generation)
            return None
        return stream

    def supersede(self, source: Source, generation: int) -> None:
        """Drop all that is held of older generations, and tell those who sent it."""
        stream = self.custody.streams.get(source)
        if stream is not None and stream.generation < generation:
            del self.custody.streams[source]
            for held in stream.held.values():
                for sender in held.senders:
                    self._outbox.supersede(sender, source, generation)

    def _seen_again(self, peer: NodeId, stream: Stream, publication: Publication) -> None:
        """A copy of what was taken over: confirm it, now or with the original (X-P0-10)."""
        held = stream.held.get(publication.event.sequence)
        if held is None:
            self._outbox.acknowledge(peer, publication)
            self._forget_if_idle(source_of(publication.event), stream)
            return
        held.senders[peer] = None
        first = held.publication.vector
        if bypassed(publication.vector) < bypassed(first):
            held.publication = _with_vector(held.publication, merged(first, publication.vector))
            self._retry_blocked()

    def _take_over(self, peer: NodeId, stream: Stream, publication: Publication) -> None:
        event = publication.event
        matching = self._log.matching(event)
        came_from = self._overlay.direction(peer)
        excluded = publication.excluded
        if matching and came_from is not None:
            peer_log, epoch = self._peers[peer], publication.epoch
            if not peer_log.knew_all(epoch):
                unaware = [each for each in matching if not peer_log.knew(each, epoch)]
                excluded = tuple(dict.fromkeys((*excluded, *unaware)))
        waiting: dict[NodeId | None, Targets] = {}
        for subscription in matching:
            entry = self._log[subscription]
            path = entry.body.path
            if path[-1:] != (came_from,) and subscription not in excluded:
                waiting.setdefault(self._overlay.next_hop(path), {})[entry.target] = path
        number = self.vectors.next_number()
        if not waiting:
            self._outbox.acknowledge(peer, publication)
            self._forget_if_idle(source_of(event), stream)
            return
        kept = Publication(
            event,
            publication.generation,
            publication.entry,
            publication.home,
            self._log.length,
            excluded,
            publication.vector,
            self._tags(publication),
            publication.relaxed,
            publication.best_effort,
        )
        held = stream.held[event.sequence] = Held(kept, number, {peer: None}, waiting)
        for hop in waiting:
            if hop is not None:
                self._send(hop, held)

    def _tags(self, publication: Publication) -> tuple[Partition, ...]:
        """Tag what was published in a partition, or behind a barrier (000, V; X-P0-03, X-P0-04).

        By its source, not by its way: what comes from a broker that was reached is promised, whoever passes
        it on. So a client that has moved into a partition is promised with its own broker.
        """
        table = self._overlay.partitions.table()
        if not table or publication.entry != publication.home:
            return publication.tags
        way = {node for node, _, _ in publication.vector}
        delta = self._overlay.topology.delta
        found = [
            each
            for each in table
            if publication.home in each.nodes or (len(each.nodes) > delta and each.nodes[-1] in way)
        ]
        return tuple(dict.fromkeys((*publication.tags, *found)))

    # -- leaving -----------------------------------------------------------------------------------------

    def _send(self, hop: NodeId, held: Held) -> None:
        """Send it, unless it or something before it may not go there now."""
        blocked = self._blocked.get(hop)
        if blocked is not None:
            blocked.append(held)
            return
        copy = self._copy(hop, held)
        if copy is None:
            self._blocked[hop] = [held]
        else:
            self._outbox.publish(hop, copy)

    def _copy(self, hop: NodeId, held: Held) -> Publication | None:
        """The copy for a next hop; ``None`` when it would go beyond δ failures and must not."""
        kept = held.publication
        skipped = self._overlay.bypassed(hop)
        vector = self.vectors.extended(kept.vector, held.number, skipped)
        is_legitimate = not skipped or self.vectors.is_legitimate(vector)
        if not is_legitimate and not kept.relaxed:
            return None
        return _with_vector(kept, vector, best_effort=kept.best_effort or not is_legitimate)

    def _retry_blocked(self) -> None:
        """Release of held copies (000, VIII): a nearer session, or a copy that bypassed fewer."""
        blocked, self._blocked = self._blocked, {}
        for hop, waiting in blocked.items():
            for held in waiting:
                if hop in held.waiting:
                    self._send(hop, held)

    def acknowledged(self, peer: NodeId, ack: Acknowledgement) -> None:
        """The peer has reached all targets that it was given."""
        source = (ack.topic, ack.publisher)
        stream = self.custody.streams.get(source)
        if stream is None:
            return
        for first, last in ack.ranges:
            for sequence in within(stream.held, first, last):
                held = self.custody.confirmed(source, ack.generation, sequence, peer)
                if held is not None:
                    for sender in held.senders:
                        self._outbox.acknowledge(sender, held.publication)
        self._forget_if_idle(source, stream)

    def _forget_if_idle(self, source: Source, stream: Stream) -> None:
        if not stream.held and source not in self.present:
            self.custody.streams.pop(source, None)

    # -- sessions ----------------------------------------------------------------------------------------

    def detached(self, leaf: NodeId, now: Micros) -> None:
        """The client's publishers publish elsewhere from now on."""
        for source in [source for source, (client, _) in self.present.items() if client == leaf]:
            del self.present[source]
            self._missed.clear()
            if source[1] in self.entered.get(source[0], ()):
                self._left[source] = now
            stream = self.custody.streams.get(source)
            if stream is not None:
                self._forget_if_idle(source, stream)

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """Nobody confirms on this session any more, and nobody is to be told on it."""
        self._blocked.pop(peer, None)
        self.detached(peer, now)
        for source, stream in list(self.custody.streams.items()):
            for held in stream.held.values():
                held.senders.pop(peer, None)
                lost = held.waiting.pop(peer, None)
                if lost:
                    held.waiting.setdefault(None, {}).update(lost)
            self._forget_if_idle(source, stream)

    def give_up(self, target: NodeId) -> None:
        """Nobody waits for the target any more; what waited only for it is confirmed."""
        for source, stream in list(self.custody.streams.items()):
            for sequence, held in list(stream.held.items()):
                for hop, targets in list(held.waiting.items()):
                    if targets.pop(target, None) is not None and not targets:
                        del held.waiting[hop]
                if not held.waiting:
                    del stream.held[sequence]
                    for sender in held.senders:
                        self._outbox.acknowledge(sender, held.publication)
            self._forget_if_idle(source, stream)
        self._retry_blocked()

    def path_learned(self, subscription: SubscriptionId) -> None:
        """What was kept for a subscription whose way was not known can go now."""
        entry = self._log[subscription]
        for held in self.custody.in_order():
            if held.waiting.get(None, {}).pop(subscription, None) is not None:
                held.waiting[None][entry.target] = entry.body.path

    def resend(self) -> None:
        """Send again, in order, whatever has another next hop now."""
        for held in self.custody.in_order():
            moved: dict[NodeId | None, Targets] = {}
            for hop, targets in list(held.waiting.items()):
                for target, path in list(targets.items()):
                    nearest = self._overlay.next_hop(path)
                    if nearest != hop:
                        del targets[target]
                        moved.setdefault(nearest, {})[target] = path
                if not targets:
                    del held.waiting[hop]
            for hop, targets in moved.items():
                held.waiting.setdefault(hop, {}).update(targets)
                if hop is not None:
                    self._send(hop, held)
        self._retry_blocked()


def _with_vector(publication: Publication, vector: Vector, *, best_effort: bool | None = None) -> Publication:
    return Publication(
        publication.event,
        publication.generation,
        publication.entry,
        publication.home,
        publication.epoch,
        publication.excluded,
        vector,
        publication.tags,
        publication.relaxed,
        publication.best_effort if best_effort is None else best_effort,
    )
