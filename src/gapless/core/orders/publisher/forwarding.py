"""Forwarding publications: take over, match with evidence, route, confirm, resend (000, V; 003, 4.8, 5).

1. *Duplicate?* By the sequence vector; what is still in custody only gains a sender.
2. *Match with evidence.* A subscription that the sender did not know when it handled the publication is
   excluded, here and further on: nobody may deliver what some forwarder on the way may have lacked.
3. *Route.* One copy for each next hop, never back in the direction it came from (X-P0-21).
4. *Confirm* to all senders when every target has it.
5. *Resend first.* Whenever a next hop changes, nearer or farther, what is unconfirmed goes over the new
   session, in order, before anything new (X-P0-22).

Publications come and go in runs. What depends on the run alone (where it came from, what its sender knew, its
tags) is decided once for all its events, and so is the way of those that match the same subscriptions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from gapless.core.messages.publisher import Acknowledgement, Header, Run, Stay, Taken
from gapless.core.model import Event, Generation, Micros, NodeId, Partition, Path, SubscriptionId
from gapless.core.orders.publisher.custody import (
    Custody,
    Held,
    Source,
    Stream,
    Targets,
    Waiting,
    also,
    assigned,
    mended,
    reassigned,
    source_of,
    without,
)
from gapless.core.orders.publisher.log import PeerLog, SubscriptionLog
from gapless.core.orders.publisher.outbox import Outbox, within
from gapless.core.orders.publisher.presence import Presence
from gapless.core.orders.publisher.vectors import Numbers, Vectors, bypassed, merged, vector_of
from gapless.core.overlay.overlay import Overlay
from gapless.matching import MatchIndex

NO_TARGETS: Targets = {}


@dataclass(slots=True)
class Way:
    """What was decided for those events of a run that match the same subscriptions."""

    header: Header
    """As they are kept here."""
    waiting: Waiting


@dataclass(slots=True)
class Arrival:
    """A run that is being handled."""

    peer: NodeId
    senders: tuple[NodeId, ...]
    source: Source
    stream: Stream
    header: Header
    """As it came."""
    kept: Header
    """As it is kept here."""
    direction: NodeId | None
    """Whence it came; ``None``: from a client."""
    index: MatchIndex[SubscriptionId]
    ways: dict[tuple[SubscriptionId, ...], Way] = field(default_factory=dict)
    done: list[int] = field(default_factory=list)
    """Sequences that nobody waits for."""


class Forwarding:
    """The publications of one broker."""

    def __init__(
        self, overlay: Overlay, log: SubscriptionLog, peers: Mapping[NodeId, PeerLog], outbox: Outbox
    ) -> None:
        identity = overlay.identity
        self.custody = Custody()
        self.vectors = Vectors(identity.node, identity.incarnation, overlay.topology.delta)
        self.presence = Presence(identity.node, outbox.effects)
        self._overlay = overlay
        self._log = log
        self._peers = peers
        self._outbox = outbox
        self._idle: dict[Source, Micros] = {}
        """Streams of which nothing is held, and since when; the first that became so is the first here."""
        self._blocked: dict[tuple[NodeId, Source], dict[int, Held]] = {}
        """By peer and stream what must wait: something that may not go there now, and all that follows it in
        its stream. Other streams pass."""

    def forget(self, now: Micros, *, lease: Micros) -> None:
        """Forget streams that have been idle, and what entered from publishers that left, for a lease: what
        was under way of them then has arrived by now."""
        while self._idle:
            source, since = next(iter(self._idle.items()))
            if since > now - lease:
                break
            del self._idle[source]
            if source not in self.presence and not self.custody.streams[source].held:
                del self.custody.streams[source]
        self.presence.forget(now, lease=lease)

    # -- arriving ----------------------------------------------------------------------------------------

    def enter(
        self,
        leaf: NodeId,
        run: Run,
        now: Micros,
        *,
        stays: tuple[Stay, ...] = (),
        told_by: tuple[NodeId, ...] | None = None,
    ) -> None:
        """This broker takes events from their publisher, which has been at other brokers than its own."""
        source, generation = source_of(run.events[0]), run.header.generation
        stream = self._stream(leaf, source, generation, now)
        if stream is None:
            return
        self.presence.comes(source, leaf, generation)
        home = self._overlay.home_of(leaf) or ""
        if stream.aware_of is None:
            stream.aware_of = self._log.length
            stream.told_by = told_by
            if home != self._overlay.me:
                self.presence.guest(source, generation, home)
        came = run.header
        header = Header(
            generation, self._overlay.me, home, stays, excluded=came.excluded, relaxed=came.relaxed
        )
        arrival = self._arrival(leaf, source, stream, header)
        new: list[Event] = []
        for event in run.events:
            if event.sequence > stream.highest:
                stream.highest = event.sequence
                new.append(event)
            else:
                self._seen_again(arrival, event, ())
        self._take_over(arrival, new, ((),) * len(new))
        self._finish(arrival, now)
        if new:
            by = home if all(each.node for each in stays) else ""
            self.presence.took(
                source, Taken(generation[0], stream.highest, generation[1], by, by != self._overlay.me)
            )

    def receive(self, peer: NodeId, run: Run, now: Micros) -> None:
        """A run comes from another broker.

        Its numbers tell whether it was handled before, unless the sender had held its stream back and let
        others pass; then its sequences tell.
        """
        source = source_of(run.events[0])
        stream = self._stream(peer, source, run.header.generation, now)
        if stream is None:
            return
        arrival = self._arrival(peer, source, stream, run.header)
        handled = self.vectors.handled(run.header.path, run.numbers)
        new: list[Event] = []
        new_numbers: list[Numbers] = []
        for event, numbers, was_handled in zip(run.events, run.numbers, handled, strict=False):
            if (was_handled and event.sequence <= stream.highest) or event.sequence in stream.held:
                self._seen_again(arrival, event, numbers)
            else:
                new.append(event)
                new_numbers.append(numbers)
        stream.highest = max(stream.highest, run.events[-1].sequence)
        self._take_over(arrival, new, new_numbers)
        self._finish(arrival, now)

    def _arrival(self, peer: NodeId, source: Source, stream: Stream, header: Header) -> Arrival:
        kept = replace(header, epoch=self._log.length, tags=self._tags(header))
        direction, index = self._overlay.direction(peer), self._log.index(source[0])
        return Arrival(peer, (peer,), source, stream, header, kept, direction, index)

    def _finish(self, arrival: Arrival, now: Micros) -> None:
        if arrival.done:
            flow = (*arrival.source, arrival.header.generation)
            self._outbox.acknowledge(arrival.peer, flow, arrival.done)
            self._note_idle(arrival.source, arrival.stream, now)

    def _stream(self, peer: NodeId, source: Source, generation: Generation, now: Micros) -> Stream | None:
        """The stream of that generation; ``None`` for an older one, whose sender is told to forget it."""
        self.supersede(source, generation, now)
        stream = self.custody.streams[source]
        if stream.generation > generation:
            self._outbox.supersede(peer, source, stream.generation, refused=True)
            return None
        return stream

    def supersede(self, source: Source, generation: Generation, now: Micros) -> None:
        """Drop all that is held of older generations, and tell those who sent it. What is still under way of
        them must vanish too, so the generation is remembered, whether it comes here or not. Who published
        here in an older one has left, whether its word of that has come or not."""
        stream = self.custody.streams.get(source)
        if stream is not None and stream.generation >= generation:
            return
        superseded = stream.held.values() if stream is not None else ()
        for held in superseded:
            for sender in held.senders:
                self._outbox.supersede(sender, source, generation)
        stream = self.custody.streams[source] = Stream(generation)
        self.presence.leaves(source, now)
        self._note_idle(source, stream, now)

    def _seen_again(self, arrival: Arrival, event: Event, numbers: Numbers) -> None:
        """A copy of what was taken over: confirm it, now or with the original (X-P0-10)."""
        held = arrival.stream.held.get(event.sequence)
        if held is None:
            arrival.done.append(event.sequence)
            return
        if arrival.peer not in held.senders:
            held.senders = (*held.senders, arrival.peer)
        path = held.header.path
        if bypassed(arrival.header.path) < bypassed(path):
            better = merged(vector_of(path, held.numbers), vector_of(arrival.header.path, numbers))
            held.header = replace(held.header, path=tuple((node, life) for node, life, _ in better))
            held.numbers = tuple(number for _, _, number in better)
            self._retry_blocked()

    def _take_over(self, arrival: Arrival, events: Sequence[Event], numbers: Sequence[Numbers]) -> None:
        """Match them, keep them, and send on together those that follow each other on the same way."""
        match, ways, in_custody = arrival.index.match, arrival.ways, arrival.stream.held
        group: list[Held] = []
        last: Way | None = None
        own_numbers = self.vectors.next_numbers(len(events))
        for event, came_with, number in zip(events, numbers, own_numbers, strict=True):
            matching = tuple(match(event.attributes))
            way = ways.get(matching)
            if way is None:
                way = ways[matching] = self._way(arrival, matching)
            if not way.waiting:
                arrival.done.append(event.sequence)
                continue
            if way is not last:
                self._send_on(last, group)
                last, group = way, []
            held = Held(way.header, event, came_with, number, arrival.senders, way.waiting)
            in_custody[event.sequence] = held
            group.append(held)
        self._send_on(last, group)

    def _send_on(self, way: Way | None, group: Sequence[Held]) -> None:
        for hop in way.waiting if way is not None else ():
            if hop is not None:
                self._send(hop, group)

    def _way(self, arrival: Arrival, matching: tuple[SubscriptionId, ...]) -> Way:
        """For whom events of the run are that match these subscriptions, and who is asked to reach them."""
        header = arrival.kept
        if arrival.direction is None:
            if stays := self._stays_here(arrival, matching):
                header = replace(header, stays=(*header.stays, *stays))
        elif matching:
            peer_log, epoch = self._peers[arrival.peer], arrival.header.epoch
            if not peer_log.knew_all(epoch):
                unaware = [each for each in matching if not peer_log.knew(each, epoch)]
                header = replace(header, excluded=tuple(dict.fromkeys((*header.excluded, *unaware))))
        waiting: dict[NodeId | None, dict[Path, Path]] = {}
        for subscription in matching:
            entry = self._log[subscription]
            path = entry.body.path
            if path[-1:] != (arrival.direction,) and subscription not in header.excluded:
                waiting.setdefault(self._overlay.next_hop(path), {})[entry.destination] = path
        return Way(header, waiting)

    def _stays_here(self, arrival: Arrival, matching: tuple[SubscriptionId, ...]) -> list[Stay]:
        """What the subscriptions must be told of the publisher's stay here."""
        me, life = self._overlay.identity.node, self._overlay.identity.incarnation
        missed_some = any(self._missed_some(arrival, each) for each in matching)
        stays = [Stay(me, 0, arrival.header.generation[1])] if missed_some else []
        if arrival.stream.told_by is not None:
            missed = [self._log[each].missed.entered.get(arrival.source[1]) for each in matching]
            if taken := [each.generation for each in missed if each is not None]:
                stays.append(Stay(me, 0, max(taken), arrival.stream.told_by, life))
        return stays

    def _missed_some(self, arrival: Arrival, subscription: SubscriptionId) -> bool:
        """Whether a guest was here, in this generation, before the subscription was known: what it published
        here until then may have been promised."""
        aware_of = arrival.stream.aware_of
        is_guest = arrival.header.home != self._overlay.me
        return is_guest and aware_of is not None and self._log[subscription].index > aware_of

    def _tags(self, header: Header) -> tuple[Partition, ...]:
        """Tag what was published in a partition, or behind a barrier (000, V; X-P0-03, X-P0-04).

        By its source, not by its way: what comes from a broker that was reached is promised, whoever passes
        it on. So a client that has moved into a partition is promised with its own broker.
        """
        table = self._overlay.partitions.table()
        if not table or header.entry != header.home:
            return header.tags
        way = {node for node, _ in header.path}
        delta = self._overlay.topology.delta
        found = [
            each
            for each in table
            if header.home in each.nodes or (len(each.nodes) > delta and each.nodes[-1] in way)
        ]
        return tuple(dict.fromkeys((*header.tags, *found)))

    # -- leaving -----------------------------------------------------------------------------------------

    def _send(self, hop: NodeId, group: Sequence[Held]) -> None:
        """Send those of one way, unless they, or something before them in their stream, must wait."""
        if self._blocked or self._log.pathless or self._overlay.frontier.down:
            source = source_of(group[0].event)
            if self._is_blocked(hop, source) or self._would_overtake(hop, source, group[0]):
                self._block(hop, source, group)
                return
        draft = self._outbox.draft(hop, group)
        if draft is None:
            kept = group[0].header
            header = self._onward(hop, kept)
            if header is None:
                self._block(hop, source_of(group[0].event), group)
                return
            draft = self._outbox.begin(hop, kept, header)
        draft.add(group)

    def _block(self, hop: NodeId, source: Source, group: Sequence[Held]) -> None:
        self._blocked.setdefault((hop, source), {}).update((held.number, held) for held in group)

    def _is_blocked(self, hop: NodeId, source: Source) -> bool:
        """Whether something of the stream must wait: not what has vanished or gone another way meanwhile."""
        waiting = self._blocked.get((hop, source), {})
        if any(self._still_waits(hop, source, held) for held in waiting.values()):
            return True
        self._blocked.pop((hop, source), None)
        return False

    def _still_waits(self, hop: NodeId, source: Source, held: Held) -> bool:
        stream = self.custody.streams.get(source)
        return stream is not None and stream.held.get(held.event.sequence) is held and hop in held.waiting

    def _would_overtake(self, hop: NodeId, source: Source, held: Held) -> bool:
        """Whether something before it in its stream waits, and its way is not known, or only up to a broker
        that the next hop lies behind: it may turn out to be the same way, and what came later would then be
        there first."""
        passed = self._overlay.bypassed(hop)
        if not (passed or self._log.pathless):
            return False
        return any(
            each.number < held.number
            and any(not path or path[0] in passed for path in each.waiting.get(None, NO_TARGETS).values())
            for each in self.custody.streams[source].held.values()
        )

    def _onward(self, hop: NodeId, kept: Header) -> Header | None:
        """The header of copies for a next hop; ``None`` when they would go beyond δ failures and must not."""
        skipped = self._overlay.bypassed(hop)
        path = self.vectors.onward(kept.path, skipped)
        is_legitimate = not skipped or self.vectors.is_legitimate(path)
        if not is_legitimate and not kept.relaxed:
            return None
        return replace(kept, path=path, best_effort=kept.best_effort or not is_legitimate)

    def _retry_blocked(self) -> None:
        """Release of held copies (000, VIII): a nearer session, or a copy that bypassed fewer."""
        blocked, self._blocked = self._blocked, {}
        for (hop, source), waiting in blocked.items():
            for _, held in sorted(waiting.items()):
                if self._still_waits(hop, source, held):
                    self._send(hop, (held,))

    def acknowledged(self, peer: NodeId, ack: Acknowledgement, now: Micros) -> None:
        """The peer has reached all targets that it was given."""
        source = (ack.topic, ack.publisher)
        stream = self.custody.streams.get(source)
        if stream is None or stream.generation != ack.generation:
            return
        for first, last in ack.ranges:
            done = stream.confirmed(within(stream.held, first, last), peer)
            for senders, sequences in done.items():
                for sender in senders:
                    self._outbox.acknowledge(sender, (*source, ack.generation), sequences)
        self._note_idle(source, stream, now)

    def _note_idle(self, source: Source, stream: Stream, now: Micros) -> None:
        if not stream.held and source not in self.presence:
            self._idle.pop(source, None)
            self._idle[source] = now

    # -- sessions ----------------------------------------------------------------------------------------

    def detached(self, leaf: NodeId, now: Micros, *, before: int | None = None) -> None:
        """The client's publishers publish elsewhere from now on, or from that generation on."""
        for source in self.presence.of(leaf, before):
            self.presence.leaves(source, now)
            self._note_idle(source, self.custody.streams[source], now)

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """Nobody confirms on this session any more, and nobody is to be told on it."""
        self._blocked = {key: waiting for key, waiting in self._blocked.items() if key[0] != peer}
        self.detached(peer, now)
        for group in self.custody.by_route():
            waiting = group[0].waiting
            if peer in waiting:
                waiting = assigned(waiting, dict.fromkeys(waiting[peer]))
            for held in group:
                held.waiting = waiting
                if peer in held.senders:
                    held.senders = tuple(each for each in held.senders if each != peer)

    def give_up(self, is_gone: Callable[[Path], bool], now: Micros) -> None:
        """Nobody waits for these destinations any more; what waited only for them is confirmed."""
        for group in self.custody.by_route():
            self._wait_for(group, without(group[0].waiting, is_gone), now)
        self._retry_blocked()

    def _wait_for(self, group: Sequence[Held], waiting: Waiting, now: Micros) -> None:
        for held in group:
            held.waiting = waiting
            if not waiting:
                self._confirm(held, now)

    def _confirm(self, held: Held, now: Micros) -> None:
        source, sequence = source_of(held.event), held.event.sequence
        stream = self.custody.streams[source]
        del stream.held[sequence]
        for sender in held.senders:
            self._outbox.acknowledge(sender, (*source, held.header.generation), (sequence,))
        self._note_idle(source, stream, now)

    def paths_learned(self, former: Mapping[SubscriptionId, Path], now: Micros) -> None:
        """The way to the clients of some subscriptions is known farther than before, or not at all any more,
        and ended at these destinations: what was kept for those goes on, or what comes now would be there
        first."""
        ends = set(former.values())
        for group in self.custody.by_route():
            if not all(ends.isdisjoint(targets) for targets in group[0].waiting.values()):
                self._wait_for(group, self._led_on(group[0], former), now)
        self.resend()

    def _led_on(self, held: Held, former: Mapping[SubscriptionId, Path]) -> Waiting:
        """Whom a publication waits for on the ways of now, of those whom it was kept for; others may still be
        behind the former ends. Where a way leads back to where it came from, the sender knew the subscription
        and answers for it: each would wait for the other otherwise."""
        header, log, waiting = held.header, self._log, held.waiting
        kept_for = [
            log[each]
            for each in log.index(held.event.topic).match(held.event.attributes)
            if log[each].index <= header.epoch and each not in header.excluded
        ]
        came_from = held.came_from(self._overlay.topology)
        learned = [entry for entry in kept_for if entry.subscription in former]
        for entry in learned:
            if entry.body.path[-1:] != (came_from,):
                waiting = also(waiting, former[entry.subscription], entry.destination, entry.body.path)
        still = {entry.destination for entry in kept_for}
        left = {former[entry.subscription] for entry in learned} - still
        return without(waiting, left.__contains__)

    def begin_anew(self, senders: Collection[NodeId], now: Micros) -> None:
        """Forget what came from these alone: they answer for it, and send it again, for others than before.

        What was seen of it then says nothing of those others, so no number may say that it was handled.
        """

        def is_theirs(held: Held) -> bool:
            return bool(held.senders) and all(each in senders for each in held.senders)

        for source, stream in list(self.custody.streams.items()):
            stream.held = {sequence: held for sequence, held in stream.held.items() if not is_theirs(held)}
            if source not in self.presence:
                stream.highest = 0
            self._note_idle(source, stream, now)
        self.vectors.forget()

    def mend(self, gone: NodeId) -> None:
        """A broker was removed: what waits for targets goes to them on the new tree, on which nobody has gone
        round that broker."""
        for group in self.custody.by_route():
            waiting = mended(group[0].waiting, self._overlay.mended_path)
            for held in group:
                held.waiting = waiting
                steps = zip(held.header.path, held.numbers, strict=False)
                kept = [(step, number) for step, number in steps if step != (gone, 0)]
                if len(kept) < len(held.header.path):
                    held.header = replace(held.header, path=tuple(step for step, _ in kept))
                    held.numbers = tuple(number for _, number in kept)

    def resend(self) -> None:
        """Send again, in order, whatever has another next hop now."""
        moved: dict[int, list[NodeId]] = {}
        for group in self.custody.by_route():
            waiting, hops = reassigned(group[0].waiting, self._overlay.next_hop)
            moved[id(waiting)] = hops
            for held in group:
                held.waiting = waiting
        for held in self.custody.in_order():
            for hop in moved[id(held.waiting)]:
                self._send(hop, (held,))
        self._retry_blocked()
