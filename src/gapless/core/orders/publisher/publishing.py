"""A client's publishers: number, retain, send home, repeat.

All events go to one home session: that with the client's broker, else with the nearest that stands in for
it. Each time the home session changes a new *generation* begins: everything that is not confirmed is sent
again, in order, then new events. Only confirmations of the present generation count, and what is retained
loses only its confirmed beginning, never an event in the middle: the next home may know subscriptions that
the last one did not, and must get all of what they may have missed, or nothing.

What is retained is durable at the client, so its name makes a publisher exactly once over restarts too.

A publisher can also go on in another client: that client *adopts* it with the records that were made durable
for it. To the network this is one more move of its home, so its generations must be higher than any that it
had before. Each incarnation has its own block of generations; a record says in which one a publisher was, and
who adopts it goes on in a later one.

A name's *numbering* is made with its store. Who has lost the store begins another one: to subscribers that is
a new source, of which they are told. Of two numberings the later one holds, and who still publishes under the
earlier one is *fenced*: it is told, and publishes nothing more. A clock that was set back may make a new
numbering look earlier than the one before it. If the home refuses it before anything of it was taken, it
gives way once, by beginning after the one it was told of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from gapless.core.effects import (
    ConfirmedWithout,
    Effect,
    EventsConfirmed,
    EventsRetained,
    IncarnationStarted,
    NumberingBegun,
    Persist,
    PublisherFenced,
    PublisherTaken,
    Receipt,
    Record,
    Send,
)
from gapless.core.messages.publisher import (
    NOBODY,
    Acknowledgement,
    Attached,
    Detached,
    Header,
    Stay,
    Superseded,
)
from gapless.core.model import (
    SECOND,
    BeyondDelta,
    Content,
    Event,
    Generation,
    Identity,
    Incarnation,
    Micros,
    NodeId,
    SubscriptionId,
    Topic,
)
from gapless.core.orders.base import numbered, pieces
from gapless.core.orders.publisher.custody import Source, source_of
from gapless.core.orders.publisher.outbox import Outbox, within

GENERATIONS_PER_INCARNATION = 1 << 20
"""An incarnation may be a clock's reading in milliseconds: 64 bits hold both."""


NUMBERINGS_PER_MICROSECOND = 1 << 10
"""Clients that begin at the same moment, or give way to the same numbering, must not begin the same one."""
EARLIER = 0
"""Before all generations: in an earlier life."""
SOMEWHERE: NodeId = ""
"""Stands for brokers whose names are not remembered."""
STAYS_MAX = 16
"""How many brokers a client remembers to have published at."""
WITHOUT_MAX = 1_000
"""How many of those who were given up, the last ones, are kept in mind, and durable with a publisher."""


@dataclass(slots=True)
class Retained:
    """The events of one publisher that are not known to be confirmed."""

    published: int = 0
    events: dict[int, Event] = field(default_factory=dict)
    confirmed: set[int] = field(default_factory=set)
    """Sequences confirmed in the present generation."""

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was confirmed yet."""
        return len(self.events) == self.published


class Publishing:
    """The publishers of one client."""

    def __init__(
        self,
        identity: Identity,
        topics: Mapping[str, Topic],
        records: Iterable[Record],
        outbox: Outbox,
        out: list[Effect],
        *,
        lease: Micros,
    ) -> None:
        self.home: NodeId | None = None
        self.retained: dict[Source, Retained] = {}
        self._topics = topics
        self._outbox = outbox
        self._out = out
        self.own_broker = identity.home
        """The broker that the promise goes by; another one has its place when it was removed."""
        self._lease = lease
        self._without: dict[SubscriptionId, Micros | None] = {}
        """Subscriptions that the network gave up, as sessions had told that have ended; and when another home
        has first confirmed something without them."""
        self._told: dict[NodeId, dict[SubscriptionId, None]] = {}
        """The same by the sessions that have told and are up; or somewhere, in an earlier life."""
        self._noted: dict[str, tuple[SubscriptionId, ...]] = {}
        """By publisher those of them that are durable with it."""
        self._generation = identity.incarnation * GENERATIONS_PER_INCARNATION
        self._taken: dict[str, None] = {}
        """Publishers that were adopted."""
        self._numberings: dict[str, int] = {}
        """By publisher what its events are counted under; 0 in stores that do not say."""
        self._gave_way: dict[str, None] = {}
        """Publishers that have begun after another numbering once."""
        self._sent_in: dict[str, int] = {}
        """By publisher the generation in which its numbering was used first."""
        self._mark = crc32(identity.node.encode()) % NUMBERINGS_PER_MICROSECOND
        """What tells this client's numberings from those of others that begin in the same microsecond."""
        self.fenced: dict[str, None] = {}
        """Publishers that somebody else is since later."""
        kept = list(records)
        self._recover(kept)
        self._take(kept)
        self._stays: dict[NodeId, tuple[Micros, int]] = {}
        """The brokers other than the client's own that it has published at, when last, and in which
        generation."""
        self._in_doubt: dict[tuple[NodeId, Incarnation, tuple[NodeId, ...]], tuple[Micros, int]] = {}
        """The same of those that had started, its own broker too, with those whose knowledge they were told:
        they may have lacked what one of these did not know."""
        self._doubt: tuple[NodeId, Incarnation, tuple[NodeId, ...]] | None = None
        """Whether the home is one of them."""
        self._had_a_life = bool(self.retained)
        """Whether an earlier life of a publisher may have been anywhere until now."""

    def _recover(self, records: Iterable[Record]) -> None:
        for record in records:
            if isinstance(record, EventsRetained):
                retained = self.retained.setdefault(source_of(record.events[0]), Retained())
                self._sent_in[record.events[0].publisher] = EARLIER
                for event in record.events:
                    retained.events[event.sequence] = event
                    retained.published = max(retained.published, event.sequence)
            elif isinstance(record, EventsConfirmed):
                retained = self.retained.setdefault((record.topic, record.publisher), Retained())
                retained.published = max(retained.published, record.sequence)
                for sequence in [each for each in retained.events if each <= record.sequence]:
                    del retained.events[sequence]
            elif isinstance(record, NumberingBegun):
                self._numberings[record.publisher] = record.numbering
            elif isinstance(record, ConfirmedWithout):
                self._noted[record.publisher] = record.subscriptions
                self.without(SOMEWHERE, record.subscriptions)

    def _take(self, records: Iterable[Record]) -> None:
        """Have publishers in generations above all that they had before, and make that durable.

        Where a publisher was in an incarnation that this client has not reached, the client goes on as if it
        were in the next one, with all its publishers, and its next life begins after that.
        """
        earlier = [each for each in records if isinstance(each, PublisherTaken)]
        names = dict.fromkeys(each.publisher for each in earlier)
        self._taken |= names
        last = max((each.incarnation for each in earlier), default=0)
        incarnation = self._generation // GENERATIONS_PER_INCARNATION
        if last >= incarnation:
            incarnation, names = last + 1, self._taken
            self._generation = incarnation * GENERATIONS_PER_INCARNATION
            self._out.append(Persist(IncarnationStarted(incarnation)))
        self._out += [Persist(PublisherTaken(each, incarnation)) for each in names]

    def adopt(self, publisher: str, records: Sequence[Record], now: Micros) -> None:
        """Go on with a publisher of an earlier process: as if it had moved here with all that it retains."""
        self._recover(records)
        self._take([PublisherTaken(publisher, 0), *records])
        if records:
            self._stays[SOMEWHERE] = now, self._generation
            if self.home is not None:
                self.go_home(self.home, now, old_is_up=False)

    def retains(self, publisher: str) -> bool:
        """Whether events of the publisher are not confirmed yet."""
        return any(each.events for (_, name), each in self.retained.items() if name == publisher)

    def release(self, publisher: str) -> None:
        """Forget a publisher of which nothing is retained."""
        for source in [source for source in self.retained if source[1] == publisher]:
            del self.retained[source]
        for table in (self._taken, self._gave_way, self.fenced):
            table.pop(publisher, None)
        for numbers in (self._numberings, self._sent_in, self._noted):
            numbers.pop(publisher, None)

    def without(self, peer: NodeId, given_up: Iterable[SubscriptionId]) -> None:
        """What was confirmed lately did not go to these subscriptions, and what follows it must not either.
        At this home that is known; the next one may not have heard of it yet."""
        self._told.setdefault(peer, {}).update(dict.fromkeys(given_up))

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """What the session has told holds until another home has heard it, and for a lease from then on: who
        has told it may be down for longer, and nobody else need know."""
        self._keep_in_mind(peer)
        if peer == self.home:
            self.go_home(None, now, old_is_up=False)

    def _keep_in_mind(self, peer: NodeId) -> None:
        self._without |= dict.fromkeys(self._told.pop(peer, ()), None)

    def _note_heard(self, now: Micros) -> None:
        """The home has taken what says who was given up."""
        self._without = {each: now if at is None else at for each, at in self._without.items()}

    def _forget_without(self, now: Micros) -> None:
        kept = [(each, at) for each, at in self._without.items() if at is None or at + self._lease > now]
        self._without = dict(kept[-WITHOUT_MAX:])

    def _note_without(self, publisher: str) -> None:
        """What is confirmed now did not go to those who were given up. The publisher may go on in another
        life, or in another client, at a home that has not heard of it."""
        if not (self._told or self._without or self._noted):
            return  # nobody was given up
        told = (each for names in self._told.values() for each in names)
        without = tuple(dict.fromkeys((*self._without, *told)))[-WITHOUT_MAX:]
        if without != self._noted.get(publisher, ()):
            self._noted[publisher] = without
            self._out.append(Persist(ConfirmedWithout(publisher, without)))

    def _excluded(self) -> tuple[SubscriptionId, ...]:
        """The subscriptions that were given up elsewhere than at this home."""
        if not (self._told or self._without):
            return ()
        told = [each for peer, names in self._told.items() if peer != self.home for each in names]
        return tuple(dict.fromkeys((*self._without, *told)))

    def go_home(self, home: NodeId | None, now: Micros, *, old_is_up: bool) -> None:
        """Publish through another session from now on; ``None``: there is none."""
        self._keep_in_mind(SOMEWHERE)
        self._forget_without(now)
        if self.home is not None and old_is_up:
            self._out.append(Send(self.home, Detached()))
        self.home = home
        self._doubt = None
        if home is None:
            return
        self._outbox.drop_events(home)  # of an older generation; behind a hole, if that was refused
        if self._had_a_life:
            self._had_a_life = False
            self._stays[SOMEWHERE] = now, self._generation
        self._generation += 1
        stays = [Stay(node, now - at, last) for node, (at, last) in self._stays.items()]
        stays += [
            Stay(node, now - at, last, told_by, life)
            for (node, life, told_by), (at, last) in self._in_doubt.items()
        ]
        self._out.append(Send(home, Attached(self._generation, tuple(stays))))
        for source, retained in self.retained.items():
            retained.confirmed.clear()
            self._send(home, source, tuple(retained.events.values()), now)

    def home_may_lack(
        self, peer: NodeId, life: Incarnation, told_by: tuple[NodeId, ...], now: Micros
    ) -> None:
        """What this home takes may be promised to subscriptions that one of those has not known."""
        if peer == self.home:
            self._doubt = (peer, life, told_by)
            self._note_doubt(now)

    def _note_doubt(self, now: Micros) -> None:
        """If there are too many, one that was told nothing, and knew nobody since, stands for all."""
        if self._doubt is None:
            return
        if self._doubt not in self._in_doubt and len(self._in_doubt) == STAYS_MAX:
            self._in_doubt.clear()
            self._doubt = (self._doubt[0], 0, (NOBODY,))
        self._in_doubt[self._doubt] = now, self._generation

    def publish(self, topic: str, publisher: str, contents: Sequence[Content], now: Micros) -> None:
        """Number them, make them durable, send them home."""
        if publisher in self.fenced:
            return  # what was asked for before the application was told
        retained = self.retained.get((topic, publisher))
        if retained is None:
            retained = self.retained[topic, publisher] = Retained()
            if publisher not in self._numberings:
                self._begin_numbering(publisher, now * NUMBERINGS_PER_MICROSECOND + self._mark)
        events = numbered(topic, publisher, retained.published + 1, contents, now)
        retained.events.update((event.sequence, event) for event in events)
        retained.published += len(events)
        self._out.append(Persist(EventsRetained(events)))
        if self.home is not None:
            self._send(self.home, (topic, publisher), events, now)

    def _begin_numbering(self, publisher: str, numbering: int) -> None:
        self._sent_in.pop(publisher, None)
        self._numberings[publisher] = numbering
        self._out.append(Persist(NumberingBegun(publisher, numbering)))

    def _send(self, home: NodeId, source: Source, events: Sequence[Event], now: Micros) -> None:
        topic, publisher = source
        if publisher in self.fenced:
            return
        if events:
            self._sent_in.setdefault(publisher, self._generation)
        if events and home != self.own_broker:
            is_known = home in self._stays or len(self._stays) < STAYS_MAX
            self._stays[home if is_known else SOMEWHERE] = now, self._generation
        if events:
            self._note_doubt(now)
        declared = self._topics.get(topic)  # deleted, or not told yet: then the hard promise holds
        relaxed = declared is not None and declared.beyond_delta is BeyondDelta.MARK
        header = Header(self._generation_of(publisher), excluded=self._excluded(), relaxed=relaxed)
        for some in pieces(events, self._outbox.batch):
            self._outbox.begin(home, header, header).take(some)

    def _generation_of(self, publisher: str) -> Generation:
        return self._numberings.get(publisher, 0), self._generation

    def superseded(self, peer: NodeId, message: Superseded, now: Micros) -> None:
        """The network knows a later generation: of this client, which has moved on since, or of another."""
        publisher, known = message.publisher, message.generation
        is_mine = (message.topic, publisher) in self.retained and publisher not in self.fenced
        if peer != self.home or not is_mine or known <= self._generation_of(publisher):
            return
        if message.refused and self._may_give_way(publisher):
            self._gave_way[publisher] = None
            later = known[0] // NUMBERINGS_PER_MICROSECOND + 1 + now % SECOND  # no life does as another did
            self._begin_numbering(publisher, later * NUMBERINGS_PER_MICROSECOND + self._mark)
            self.go_home(self.home, now, old_is_up=False)
        else:
            self.fenced[publisher] = None
            self._out.append(PublisherFenced(publisher))

    def _may_give_way(self, publisher: str) -> bool:
        """Whether nobody can have taken anything under the numbering: it was used at this home only,
        which has refused it, and for one topic only, since it may be taken on another."""
        own = [each for (_, name), each in self.retained.items() if name == publisher]
        was_only_here = len(own) == 1 and self._sent_in.get(publisher) == self._generation
        return publisher not in self._gave_way and was_only_here and own[0].is_untouched

    def acknowledged(self, peer: NodeId, ack: Acknowledgement, now: Micros) -> None:
        """The network has these; what is confirmed from the beginning on need not be repeated."""
        retained = self.retained.get((ack.topic, ack.publisher))
        if retained is None or peer != self.home or ack.generation != self._generation_of(ack.publisher):
            return
        for first, last in ack.ranges:
            retained.confirmed.update(within(retained.events, first, last))
        first = following = next(iter(retained.events), 0)  # and there is no hole after it
        while following in retained.confirmed:
            retained.confirmed.discard(following)
            del retained.events[following]
            following += 1
        if following > first:
            self._note_without(ack.publisher)
            self._note_heard(now)
            self._out.append(Persist(EventsConfirmed(ack.topic, ack.publisher, following - 1)))
            self._out.append(Receipt(ack.topic, ack.publisher, following - 1))
