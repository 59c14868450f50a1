"""A client's subscriptions: when they are live, and which events are theirs.

A subscription is *live* when every side has confirmed it. From then on every event that is published at a
broker that could be reached is delivered, once and in order, whatever generations and ways bring it here.

- Events that come before it is live are not promised: the start of their publisher lies behind them.
- The flow of a publisher does not begin while its own broker has not been reached: that broker may have
  taken events of it without knowing the subscription.
- Never delivered: what the cut says a broker took unaware, and what some forwarder was not aware for.

When the network has lost the subscription (all brokers that knew it crashed, or it gave a silent client
up), the client subscribes anew under the same name, and the application is told by a ``Reset``.

A client ends the subscriptions of its name that it does not have: an earlier life has left them. If they are
those of another live client of the name, at another broker, that one leaves the name to this one if this one
is the later; else it subscribes anew in spite of this one, which hears that, and leaves the name to it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from gapless.core.effects import Deliver, Effect, Live, Reset, Send
from gapless.core.messages.publisher import (
    NOBODY,
    Body,
    Confirmation,
    Header,
    Log,
    LogEntry,
    Run,
    Stay,
    Taken,
)
from gapless.core.model import (
    Event,
    Generation,
    Incarnation,
    Micros,
    NodeId,
    Partition,
    StartCut,
    SubscriptionId,
)
from gapless.core.orders.base import parsed
from gapless.core.orders.publisher.custody import Source, source_of
from gapless.core.orders.publisher.log import NO_SUBSCRIPTIONS, Cut, PeerLog, subscription_id
from gapless.core.overlay.overlay import Overlay
from gapless.matching import MatchIndex

Position: TypeAlias = tuple[int, int]
"""Of a publisher's event: numbering and sequence."""
NOWHERE: Position = (-1, 0)
"""Before all positions."""
NEVER: Generation = (-1, 0)
"""Before all generations."""


class Verdict(Enum):
    """What a run is to a subscription."""

    TOO_EARLY = auto()
    """Not promised yet."""
    UNAWARE = auto()
    """Some forwarder did not know the subscription."""
    PROMISED = auto()


@dataclass(slots=True)
class Own:
    """A subscription of this client's application."""

    name: SubscriptionId
    topic: str
    selector: str
    live: bool = False
    live_at: Micros = 0
    renewed: bool = False
    """The promise was lost and begins anew."""
    rival: Incarnation = 0
    """The other life under this client's name that had ended it."""
    unreached: set[NodeId] = field(default_factory=set)
    """Brokers that have not known it at any time since it became live."""
    reached_later: set[NodeId] = field(default_factory=set)
    """Brokers that have come to know it since it became live. They may have lost what they took before, so
    that no cut tells it."""
    barriers: set[NodeId] = field(default_factory=set)
    """Those of the unreached that others lie behind, whose names are not known."""
    aware: set[tuple[NodeId, Incarnation]] = field(default_factory=set)
    """Brokers that could not ask everybody what they had known before they started, and have known it since,
    with the life of each."""
    partitions: tuple[Partition, ...] = ()
    """What was said to be unreachable when that was said last."""
    started: set[str] = field(default_factory=set)
    """Publishers whose start was told: it may lie before the moment when it became live."""
    cut: dict[str, Position] = field(default_factory=dict)
    """Per publisher the last position that is not promised."""
    flowing: dict[str, Generation] = field(default_factory=dict)
    """Publishers whose flow has begun, and the generation of the last event."""
    last: dict[str, Position] = field(default_factory=dict)
    """Per publisher the last position that was delivered."""
    known_in: dict[str, int] = field(default_factory=dict)
    """Per publisher the last generation whose events were all taken before the position that is ``known``, or
    by a broker that knew this subscription."""
    numberings: dict[str, int] = field(default_factory=dict)
    """Per publisher the numbering that the application knows of: it was live, reset or delivered with it."""

    def is_flowing(self, publisher: str, numbering: int) -> bool:
        """Whether the publisher's flow has begun under this numbering."""
        return self.flowing.get(publisher, NEVER)[0] == numbering

    def known(self, publisher: str) -> Position:
        """The last position of the publisher that was delivered, or is known not to be promised."""
        return max(self.cut.get(publisher, NOWHERE), self.last.get(publisher, NOWHERE))

    def is_news(self, publisher: str, taken: Taken) -> bool:
        """Whether a broker took events of the publisher beyond all that came, or were known to be taken."""
        last = self.last.get(publisher, NOWHERE)
        return taken.position > self.cut.get(publisher, NOWHERE) and taken.position >= last

    def may_have_missed(self, publisher: str, numbering: int, stays: Iterable[Stay]) -> bool:
        """Whether the publisher, counting under this numbering, has left something that nobody remembers: at
        a broker that may have lacked this subscription, since the position that is known."""
        return any(map(self.may_lack, self.later_than_known(publisher, numbering, stays)))

    def later_than_known(self, publisher: str, numbering: int, stays: Iterable[Stay]) -> list[Stay]:
        """The stays of the publisher since the position that is known."""
        known_in = self.known_in.get(publisher, 0) if self.known(publisher)[0] == numbering else 0
        return [stay for stay in stays if stay.generation > known_in]

    def may_lack(self, stay: Stay) -> bool:
        """Whether the broker of a stay, or, without a name, any broker, has not known it for some time since
        it became live: what was taken there until then is not known yet, or never will be. One that had
        started has forgotten it, unless somebody who knew it has told it."""
        lacking = self.unreached | self.reached_later
        if stay.told_by is not None:
            is_aware = (stay.node, stay.life) in self.aware
            return not is_aware and (NOBODY in stay.told_by or not lacking.isdisjoint(stay.told_by))
        return stay.node in lacking if stay.node else bool(lacking)

    def still_counting(self, cut: Cut) -> list[str]:
        """The publishers that are still where a cut was taken, and count as those did that came here. Who is
        seen there under an earlier numbering says nothing of where the later one has left off."""
        return [each for each in sorted(cut.present) if self.cut[each][0] == cut.taken[each].numbering]


@dataclass(slots=True)
class Taker:
    """A subscription that events of a run match."""

    own: Own
    verdict: Verdict
    after: Position
    """Up to this position the publisher's events are not promised, or were delivered before."""
    events: list[Event] = field(default_factory=list)


class Subscribing:
    """The subscriptions of one client; on the wire each has an id that is never used again."""

    def __init__(self, overlay: Overlay, peers: dict[NodeId, PeerLog], out: list[Effect]) -> None:
        self.own: dict[SubscriptionId, Own] = {}  # by the id on the wire
        self.name_is_lost = False
        """Whether another client, at another broker, keeps the name of this one."""
        self.unheard: dict[SubscriptionId, None] = {}
        """Those that have ended, as long as no broker has echoed it."""
        self._ids: dict[SubscriptionId, SubscriptionId] = {}  # by the application's name
        self._overlay = overlay
        self._peers = peers
        self._out = out
        self._count = 0
        self._indexes: dict[str, MatchIndex[SubscriptionId]] = {}
        self._highest: dict[Source, tuple[Generation, int]] = {}
        self._taken: dict[Source, int] = {}
        """By stream the latest numbering that some broker has taken events of, as confirmations tell."""
        self._touched = False

    # -- asking ------------------------------------------------------------------------------------------

    def subscribe(self, name: SubscriptionId, topic: str, selector: str) -> None:
        """Tell every session."""
        self._begin(Own(name, topic, selector))

    def unsubscribe(self, name: SubscriptionId) -> None:
        """Stop delivering at once, and tell every session."""
        self._end(self._ids.pop(name))

    def _begin(self, own: Own) -> None:
        self._count += 1
        identity = self._overlay.identity
        unique = subscription_id(identity, self._count)
        self._indexes.setdefault(own.topic, MatchIndex()).add(unique, parsed(own.selector))
        self.own[unique] = own
        self._ids[own.name] = unique
        for peer in self._peers:
            if peer in self._overlay.topology:  # who has left the network is not told
                self._out.append(Send(peer, Log((self._line(peer, unique, own),))))

    def _end(self, unique: SubscriptionId) -> None:
        own = self.own.pop(unique)
        self.unheard[unique] = None
        self._indexes[own.topic].remove(unique)
        for peer, peer_log in self._peers.items():
            peer_log.forget(unique)
            self._out.append(Send(peer, Log((LogEntry(0, unique, None, ended=True),))))

    def _line(self, peer: NodeId, unique: SubscriptionId, own: Own) -> LogEntry:
        path = tuple(self._overlay.topology.path(peer)[:-1])
        identity = self._overlay.identity
        body = Body(identity.node, own.topic, own.selector, path, identity.home or "")
        return LogEntry(0, unique, body, news=not own.live, rival=own.rival)

    def _renew(self, unique: SubscriptionId, rival: Incarnation) -> None:
        """The network has lost it: ask again; what was delivered stays so, and its start lies behind that."""
        lost = self.own[unique]
        self._end(unique)
        again = Own(
            lost.name,
            lost.topic,
            lost.selector,
            renewed=True,
            cut=dict(lost.last),
            last=lost.last,
            known_in={publisher: last - 1 for publisher, (_, last) in lost.flowing.items()},
        )
        again.rival = rival or lost.rival
        self._begin(again)

    # -- what the brokers say ------------------------------------------------------------------------------

    def session_up(self, peer: NodeId) -> None:
        """Tell a new session all subscriptions, and ends that nobody may have heard of; what is live must be
        no news there."""
        self._peers[peer] = PeerLog()
        lines = [self._line(peer, unique, own) for unique, own in self.own.items()]
        lines += [LogEntry(0, unique, None, ended=True) for unique in self.unheard]
        if lines:
            self._out.append(Send(peer, Log(tuple(lines))))

    def sides_changed(self) -> None:
        """Other sessions must confirm now."""
        self._touched = True

    def on_log(self, peer: NodeId, entries: Sequence[LogEntry]) -> None:
        """The broker has these; it should not have what is not asked for, and know what is."""
        for each in entries:
            if each.subscription not in self.own:
                if each.ended:
                    self.unheard.pop(each.subscription, None)
                else:
                    self._deny(peer, each)
            elif each.ended and each.rival > self._overlay.identity.incarnation:
                self.name_is_lost = True
            elif each.ended:
                self._renew(each.subscription, each.rival)
                del self.unheard[each.subscription]
            else:
                self._peers[peer].told(each.subscription, each.index)

    def _deny(self, peer: NodeId, line: LogEntry) -> None:
        """A subscription of this name that this client does not have: it ends, unless it was made by another
        client that knows of this one and keeps the name."""
        me = self._overlay.identity.incarnation
        if line.rival == me:
            self.name_is_lost = True
        else:
            denied = LogEntry(0, line.subscription, None, ended=True, rival=me)
            self._out.append(Send(peer, Log((denied,))))

    def on_confirmed(self, peer: NodeId, confirmations: Sequence[Confirmation]) -> None:
        """A side has confirmed."""
        for confirmation in confirmations:
            self._peers[peer].confirmed[confirmation.subscription] = confirmation
        self._touched = True

    def confirm(self, now: Micros) -> None:
        """Look at the confirmations that the batch brought."""
        frontier = self._overlay.frontier
        if self._touched and not frontier.untried and frontier.active:
            for unique, own in self.own.items():
                self._evaluate(unique, own, now)
        self._touched = False

    def _evaluate(self, unique: SubscriptionId, own: Own, now: Micros) -> None:
        """Live when every side has confirmed; what is confirmed later makes the unreached fewer."""
        frontier = self._overlay.frontier
        pending = dict.fromkeys(self._overlay.partitions.own[node] for node in frontier.down)
        cut = Cut({}, ())
        for peer in frontier.active:
            answer = self._peers[peer].confirmed.get(unique)
            if answer is None:
                return
            pending |= dict.fromkeys(answer.pending)
            own.aware |= set(answer.aware)
            cut.add(answer.cut, answer.present)
        raised = [each for each, last in cut.taken.items() if self._breaks_the_promise(own, each, last)]
        told = [each for each in raised if own.is_news(each, cut.taken[each])]
        for publisher, last in cut.taken.items():
            forgotten = max((stay.generation for stay in last.forgotten), default=0)
            known_in = last.generation if last.position > own.known(publisher) else forgotten
            own.known_in[publisher] = max(known_in, own.known_in.get(publisher, 0))
            own.cut[publisher] = max(last.position, own.cut.get(publisher, NOWHERE))
            own.numberings.setdefault(publisher, own.cut[publisher][0])
            source = (own.topic, publisher)
            self._taken[source] = max(last.numbering, self._taken.get(source, 0))
        present = own.still_counting(cut)
        start = _start(own, present)
        if not own.live:
            own.live_at = now
        self._announce(own, start, list(pending), now)
        if raised:
            known = [each for each in sorted(told) if each in own.flowing and each in present]
            self._out.append(Reset(own.name, tuple(sorted(raised)), _start(own, known)))
            own.started.update(known)
            for publisher in raised:
                own.flowing.pop(publisher, None)
                own.numberings[publisher] = own.cut[publisher][0]

    def _breaks_the_promise(self, own: Own, publisher: str, taken: Taken) -> bool:
        """Whether events may have been promised that some broker took unaware: their flow has begun, or their
        publisher's own broker had been reached; it has lost what it knew, or another one took them."""
        if not own.is_news(publisher, taken) and not own.may_have_missed(
            publisher, taken.numbering, taken.forgotten
        ):
            return False
        if publisher in own.flowing:
            return True
        may_lie_behind = bool(own.barriers) and not taken.guest
        return own.live and taken.home not in own.unreached and not may_lie_behind

    def _announce(self, own: Own, start: StartCut, pending: list[Partition], now: Micros) -> None:
        unreached = {node for partition in pending for node in partition.nodes}
        barriers = [each for each in pending if self._is_barrier(each)]
        if own.live:
            unreached &= own.unreached
            if unreached == own.unreached or self._may_hide(own, pending):
                return
            barriers = [each for each in barriers if not own.barriers.isdisjoint(each.nodes)]
        if own.renewed:
            self._out.append(Reset(own.name, (), start))
        own.reached_later |= own.unreached - unreached
        own.live, own.renewed, own.unreached = True, False, unreached
        own.barriers = {each.nodes[-1] for each in barriers}
        own.partitions = tuple(each for each in pending if not unreached.isdisjoint(each.nodes))
        own.started |= start.first.keys()
        self._out.append(Live(own.name, start, own.partitions))

    def _is_barrier(self, partition: Partition) -> bool:
        return len(partition.nodes) > self._overlay.topology.delta

    def _may_hide(self, own: Own, pending: Sequence[Partition]) -> bool:
        """Whether a confirmation cannot tell who was reached, because it names a new partition elsewhere.

        A new barrier may hide brokers that were not reached. And where there was a barrier, brokers appear
        whose names were not known: a partition that only such brokers see may have been behind it."""
        elsewhere = [each for each in pending if own.unreached.isdisjoint(each.nodes)]
        if any(map(self._is_barrier, elsewhere)):
            return True
        heard_of = {each.detector for each in own.partitions}
        heard_of |= {self._overlay.me, self._overlay.identity.home or ""}
        seen = {node for each in elsewhere if each.detector in heard_of for node in each.nodes}
        return bool(own.barriers) and any(not seen.issuperset(each.nodes) for each in elsewhere)

    # -- events ------------------------------------------------------------------------------------------

    def numbering_of(self, source: Source) -> int:
        """The latest numbering of a stream that has come here, or that somebody took before it was known."""
        came = self._highest.get(source, (NEVER, 0))[0][0]
        return max(came, self._taken.get(source, 0))

    def receive(self, peer: NodeId, run: Run, now: Micros) -> None:
        """Deliver what is new, promised, and known to all who forwarded it."""
        header, source = run.header, source_of(run.events[0])
        newest, seen = self._highest.get(source, (NEVER, 0))
        if header.generation < newest:
            return
        if header.generation > newest:
            seen = 0
        index = self._indexes.get(source[0]) or NO_SUBSCRIPTIONS
        takers: dict[SubscriptionId, Taker] = {}
        for event in run.events:
            if event.sequence <= seen:
                continue
            seen = event.sequence
            for unique in index.match(event.attributes):
                taker = takers.get(unique)
                if taker is None:
                    taker = takers[unique] = self._taker(unique, peer, header, source[1], now)
                if (header.generation[0], seen) > taker.after:
                    taker.events.append(event)
        self._highest[source] = (header.generation, seen)
        for taker in takers.values():
            self._give(taker, header, source[1], now)

    def _taker(
        self, unique: SubscriptionId, peer: NodeId, header: Header, publisher: str, now: Micros
    ) -> Taker:
        own = self.own[unique]
        verdict = self._judge(unique, peer, header, publisher, now)
        after = own.cut.get(publisher, NOWHERE)
        if verdict is Verdict.PROMISED:
            after = max(after, own.last.get(publisher, NOWHERE))
        return Taker(own, verdict, after)

    def _give(self, taker: Taker, header: Header, publisher: str, now: Micros) -> None:
        """Deliver what is promised; of what comes too early, remember that the start lies behind it."""
        if not taker.events:
            return
        own, numbering = taker.own, header.generation[0]
        last = (numbering, taker.events[-1].sequence)
        if taker.verdict is Verdict.PROMISED:
            if own.flowing.get(publisher) != header.generation:
                self._begin_generation(taker, header, publisher, now)
            own.last[publisher] = last
            self._out.append(Deliver(own.name, tuple(taker.events), header.best_effort, numbering))
        elif taker.verdict is Verdict.TOO_EARLY:
            own.cut[publisher] = last
            own.known_in[publisher] = header.generation[1] - 1

    def _may_have_missed(self, own: Own, header: Header, publisher: str, now: Micros) -> bool:
        """Whether the publisher was at a broker that may have lacked the subscription, since it is live. If
        its start was told, also before that: it had left where that was taken, and nobody had noticed."""
        before = [stay for stay in header.stays if now - stay.ago <= own.live_at]
        since = [stay for stay in header.stays if now - stay.ago > own.live_at]
        numbering = header.generation[0]
        if publisher in own.started and own.later_than_known(publisher, numbering, before):
            return True
        return own.may_have_missed(publisher, numbering, since)

    def _begin_generation(self, taker: Taker, header: Header, publisher: str, now: Micros) -> None:
        """The first event of a publisher, or since it moved: is there anything before it to be told of?"""
        own, sequence = taker.own, taker.events[0].sequence
        numbering = header.generation[0]
        counts_anew = own.numberings.get(publisher, numbering) != numbering
        has_hole = sequence > 1 and own.known(publisher) < (numbering, sequence - 1)
        if counts_anew or (has_hole and self._may_have_missed(own, header, publisher, now)):
            start = StartCut({publisher: sequence}, {publisher: numbering})
            self._out.append(Reset(own.name, (publisher,), start))
        own.flowing[publisher] = header.generation
        own.known_in[publisher] = header.generation[1]
        own.numberings[publisher] = numbering

    def _judge(
        self, unique: SubscriptionId, peer: NodeId, header: Header, publisher: str, now: Micros
    ) -> Verdict:
        """What holds for all events of a run."""
        if self._is_too_early(self.own[unique], header, publisher, now):
            return Verdict.TOO_EARLY
        is_aware = unique not in header.excluded and self._peers[peer].knew(unique, header.epoch)
        return Verdict.PROMISED if is_aware else Verdict.UNAWARE

    def _is_too_early(self, own: Own, header: Header, publisher: str, now: Micros) -> bool:
        """Whether nothing of the publisher is promised yet. What a client has adopted is repeated by it, and
        may be promised by the broker of the client that had the publisher before: by a start that was told,
        or because it was adopted later."""
        if not own.live:
            return True
        if own.is_flowing(publisher, header.generation[0]) or not own.unreached:
            return False
        adopted = [now - stay.ago for stay in header.stays if not stay.node]
        if adopted and (publisher in own.started or max(adopted) > own.live_at):
            return False
        if header.home in own.unreached:
            return True
        behind = {tag.nodes[-1] for tag in header.tags if header.home not in tag.nodes}
        return not own.barriers.isdisjoint(behind)


def _start(own: Own, publishers: Sequence[str]) -> StartCut:
    """The positions after the cut."""
    return StartCut(
        {publisher: own.cut[publisher][1] + 1 for publisher in publishers},
        {publisher: own.cut[publisher][0] for publisher in publishers},
    )
