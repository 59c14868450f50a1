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

from collections.abc import Collection, Mapping, Sequence
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
    assigned,
    mended,
    source_of,
    without,
)
from gapless.core.orders.publisher.log import Missed, PeerLog, SubscriptionLog
from gapless.core.orders.publisher.outbox import Outbox, within
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
        self.present: dict[Source, tuple[NodeId, Generation]] = {}
        """The publishers that publish here now, with the client and the generation of each."""
        self.entered: dict[str, dict[str, Taken]] = {}
        """By topic and publisher the last event that this broker took from the publisher itself."""
        self._left: dict[Source, Micros] = {}
        """Publishers that publish here no longer, and since when; the first that left is the first here."""
        self._missed: dict[str, Missed] = {}
        """By topic what a subscription that comes now has missed: one copy for all that come at once."""
        self._overlay = overlay
        self._log = log
        self._peers = peers
        self._outbox = outbox
        self._idle: dict[Source, Micros] = {}
        """Streams of which nothing is held, and since when; the first that became so is the first here."""
        self._blocked: dict[tuple[NodeId, Source], dict[int, Held]] = {}
        """By peer and stream what must wait: something that may not go there now, and all that follows it in
        its stream. Other streams pass."""
        self._stranded: dict[NodeId, None] = {}
        """Targets that something in custody waits for, or did lately, and nobody can be asked to reach."""

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

    def forget(self, before: Micros) -> None:
        """Forget streams that were idle, and what entered from publishers that left, before a moment: what
        was under way of them then has arrived by now, so nobody can get it out of turn."""
        while self._idle:
            source, since = next(iter(self._idle.items()))
            if since > before:
                break
            del self._idle[source]
            if source not in self.present and not self.custody.streams[source].held:
                del self.custody.streams[source]
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

    def enter(self, leaf: NodeId, run: Run, now: Micros, *, stays: tuple[Stay, ...] = ()) -> None:
        """This broker takes events from their publisher, which has been at other brokers than its own."""
        source, generation = source_of(run.events[0]), run.header.generation
        stream = self._stream(leaf, source, generation, now)
        if stream is None:
            return
        self.present[source] = (leaf, generation)
        if self._left:
            self._left.pop(source, None)
        home = self._overlay.home_of(leaf) or ""
        if home != self._overlay.me:
            elsewhere = (each for each in stays if each.node != self._overlay.me)
            stays = (*elsewhere, Stay(self._overlay.me, 0))
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
            topic, publisher = source
            entered = self.entered.setdefault(topic, {})
            taken = Taken(generation[0], stream.highest, home, home != self._overlay.me)
            entered[publisher] = max(taken, entered.get(publisher, taken))
            self._missed.clear()

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
        them must vanish too, so the generation is remembered, whether it comes here or not."""
        stream = self.custody.streams.get(source)
        if stream is not None and stream.generation >= generation:
            return
        superseded = stream.held.values() if stream is not None else ()
        for held in superseded:
            for sender in held.senders:
                self._outbox.supersede(sender, source, generation)
        stream = self.custody.streams[source] = Stream(generation)
        self._blocked = {key: waiting for key, waiting in self._blocked.items() if key[1] != source}
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
        if matching and arrival.direction is not None:
            peer_log, epoch = self._peers[arrival.peer], arrival.header.epoch
            if not peer_log.knew_all(epoch):
                unaware = [each for each in matching if not peer_log.knew(each, epoch)]
                header = replace(header, excluded=tuple(dict.fromkeys((*header.excluded, *unaware))))
        waiting: dict[NodeId | None, dict[NodeId, Path]] = {}
        for subscription in matching:
            entry = self._log[subscription]
            path = entry.body.path
            if path[-1:] != (arrival.direction,) and subscription not in header.excluded:
                waiting.setdefault(self._overlay.next_hop(path), {})[entry.target] = path
        self._stranded |= dict.fromkeys(waiting.get(None, ()))
        return Way(header, waiting)

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
        if self._blocked or self._stranded:
            source = source_of(group[0].event)
            if (hop, source) in self._blocked or self._follows_the_pathless(hop, source, group[0]):
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

    def _follows_the_pathless(self, hop: NodeId, source: Source, held: Held) -> bool:
        """Whether something before it in its stream waits for a way that is not known, or is known as far as
        a broker that the hop lies behind: it may turn out to lead there too, and what came later would then
        be there first."""
        ends = (*self._overlay.bypassed(hop), *self._log.pathless)
        unknown = {each for each in ends if each in self._stranded}
        return bool(unknown) and any(
            each.number < held.number and not unknown.isdisjoint(each.waiting.get(None, NO_TARGETS))
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
            stream = self.custody.streams.get(source)
            for _, held in sorted(waiting.items()):
                if hop in held.waiting and stream is not None and held.event.sequence in stream.held:
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
        if not stream.held and source not in self.present:
            self._idle.pop(source, None)
            self._idle[source] = now

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
                self._note_idle(source, stream, now)

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

    def give_up(self, target: NodeId, now: Micros) -> None:
        """Nobody waits for the target any more; what waited only for it is confirmed."""
        for group in self.custody.by_route():
            self._wait_for(group, without(group[0].waiting, target), now)
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

    def path_learned(self, subscription: SubscriptionId, now: Micros) -> None:
        """What was kept for a subscription whose way was not known can go now, unless the way leads back: its
        sender knew the subscription, and answers for it. Each would wait for the other otherwise."""
        entry = self._log[subscription]
        path = entry.body.path
        for group in self.custody.by_route():
            waiting = group[0].waiting
            if subscription in waiting.get(None, ()):
                found = without(waiting, subscription)
                if path[-1] != group[0].came_from(self._overlay.topology):
                    found = {**found, None: {**found.get(None, {}), entry.target: path}}
                self._wait_for(group, found, now)

    def begin_anew(self, senders: Collection[NodeId], now: Micros) -> None:
        """Forget what came from these alone: they answer for it, and send it again, for others than before.

        What was seen of it then says nothing of those others, so no number may say that it was handled.
        """

        def is_theirs(held: Held) -> bool:
            return bool(held.senders) and all(each in senders for each in held.senders)

        for source, stream in list(self.custody.streams.items()):
            stream.held = {sequence: held for sequence, held in stream.held.items() if not is_theirs(held)}
            if source not in self.present:
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
        self._stranded = {}
        for group in self.custody.by_route():
            waiting, hops = self._reassigned(group[0].waiting)
            self._stranded |= dict.fromkeys(waiting.get(None, ()))
            moved[id(waiting)] = hops
            for held in group:
                held.waiting = waiting
        for held in self.custody.in_order():
            for hop in moved[id(held.waiting)]:
                self._send(hop, (held,))
        self._retry_blocked()

    def _reassigned(self, waiting: Waiting) -> tuple[Waiting, list[NodeId]]:
        """Every target with its next hop of now, and those hops that have got some."""
        moved: dict[NodeId, NodeId | None] = {}
        for hop, targets in waiting.items():
            for target, path in targets.items():
                nearest = self._overlay.next_hop(path)
                if nearest != hop:
                    moved[target] = nearest
        if not moved:
            return waiting, []
        return assigned(waiting, moved), [hop for hop in dict.fromkeys(moved.values()) if hop is not None]
