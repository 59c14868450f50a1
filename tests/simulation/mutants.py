"""Deliberate faults in publisher order and in the rules about names, one rule each: what must be noticed.

Each mutant replaces one method of the protocol by a version that ignores a rule of
``docs/publisher-order.md`` or of ``gapless.core.names`` and is otherwise the original. A simulation in which
a mutant works as well as the protocol shows nothing about the rule, so each is pinned to a run or a scenario
that catches it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum, auto
from typing import Any, TypeAlias

import msgspec
import pytest

from gapless.core import names
from gapless.core.effects import ClientAway, Effect, GuestTaken, Record, SubscriptionGivenUp
from gapless.core.limits import Limits
from gapless.core.messages.publisher import (
    NOBODY,
    Attached,
    Confirmation,
    Header,
    Log,
    LogEntry,
    Run,
    Stay,
    Superseded,
    Taken,
)
from gapless.core.model import Event, Generation, Identity, Link, Micros, NodeId, Path, SubscriptionId
from gapless.core.node import Node
from gapless.core.orders.publisher.broker import PublisherBroker
from gapless.core.orders.publisher.custody import Custody, Held, Source, Stream, Waiting, source_of
from gapless.core.orders.publisher.endings import Endings
from gapless.core.orders.publisher.forwarding import Arrival, Forwarding
from gapless.core.orders.publisher.leaf import PublisherLeaf
from gapless.core.orders.publisher.log import Cut, Entry, PeerLog, SubscriptionLog, made_in
from gapless.core.orders.publisher.outbox import Outbox
from gapless.core.orders.publisher.patience import Patience
from gapless.core.orders.publisher.presence import Presence
from gapless.core.orders.publisher.publishing import Publishing
from gapless.core.orders.publisher.settling import Settling
from gapless.core.orders.publisher.subscribing import Own, Subscribing, Taker
from gapless.core.orders.publisher.subscriptions import Sides, Subscriptions
from gapless.core.orders.publisher.vectors import Numbers, Vectors
from gapless.core.overlay.overlay import Overlay
from gapless.core.overlay.sessions import Sessions
from gapless.core.overlay.telling import Telling
from gapless.core.overlay.topology import Topology
from gapless.simulation.network import Network

Original: TypeAlias = Callable[..., Any]
"""The method that a mutant replaces."""


class Shows(Enum):
    """How it is seen, while the protocol runs as it should, that the fault would have made a difference."""

    ANSWER = auto()
    """The method changes nothing: ask both versions."""
    ARGUMENTS = auto()
    """The fault is to call the original with other arguments, or not at all."""
    CALL = auto()
    """It may, whenever the method is called."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A protocol with one fault."""

    name: str
    owner: Any
    method: str
    faulty: Callable[..., Any]
    shows: Shows | Callable[..., bool] = Shows.CALL
    """How that is seen; or a function that tells it of the arguments, before the call."""

    def install(self, patch: pytest.MonkeyPatch) -> None:
        """Break the protocol until the patch is undone."""
        original = getattr(self.owner, self.method)

        def method(*args: Any, **kwargs: Any) -> Any:
            return self.faulty(original, *args, **kwargs)

        patch.setattr(self.owner, self.method, method)

    def differs(self, original: Original, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
        """Whether this call may have another effect than the original."""
        if self.shows is Shows.ANSWER:
            return bool(self.faulty(original, *args, **kwargs) != original(*args, **kwargs))
        if self.shows is Shows.ARGUMENTS:
            asked: list[tuple[tuple[Any, ...], dict[str, Any]]] = []
            self.faulty(lambda *args, **kwargs: asked.append((args, kwargs)), *args, **kwargs)
            return asked != [(args, kwargs)]
        return self.shows is Shows.CALL or bool(self.shows(*args, **kwargs))


MUTANTS: dict[str, Mutant] = {}


def breaks(
    owner: Any, method: str, shows: Shows | Callable[..., bool] = Shows.CALL
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The decorated function takes the place of the method; its first argument is the original."""

    def register(faulty: Callable[..., Any]) -> Callable[..., Any]:
        name = faulty.__name__.strip("_").replace("_", "-")
        MUTANTS[name] = Mutant(name, owner, method, faulty, shows)
        return faulty

    return register


@contextmanager
def broken(name: str) -> Iterator[None]:
    """The protocol with the fault of that name."""
    with pytest.MonkeyPatch.context() as patch:
        MUTANTS[name].install(patch)
        yield


@contextmanager
def noting(names: Collection[str]) -> Iterator[set[str]]:
    """The protocol as it is; and which of the faults might have made a difference to what runs meanwhile. The
    others would not: as each of their calls has the same effect, all that follows is the same."""
    found: set[str] = set()
    by_place: dict[tuple[Any, str], list[Mutant]] = {}
    for each in (MUTANTS[name] for name in names):
        by_place.setdefault((each.owner, each.method), []).append(each)
    with pytest.MonkeyPatch.context() as patch:
        for (owner, method), mutants in by_place.items():
            patch.setattr(owner, method, _noting(getattr(owner, method), mutants, found))
        yield found


def _noting(original: Original, mutants: Sequence[Mutant], found: set[str]) -> Original:
    def method(*args: Any, **kwargs: Any) -> Any:
        found.update(
            each.name for each in mutants if each.name not in found and each.differs(original, args, kwargs)
        )
        return original(*args, **kwargs)

    return method


def _has(kind: type[Record]) -> Callable[[Any, Sequence[Record]], bool]:
    """Whether the store of the node has such a record."""
    return lambda self, records: any(isinstance(each, kind) for each in records)


# -- the log (rules 1 to 3) --------------------------------------------------------------------------------


@breaks(PublisherBroker, "flush")
def publications_before_log(original: Original, self: PublisherBroker, now: Micros) -> None:
    """Rule 2: what was waiting for a session leaves ahead of the log."""
    self._outbox.flush()
    original(self, now)


@breaks(Subscriptions, "stream")
def log_on_active_sessions_only(original: Original, self: Subscriptions) -> None:
    """Rule 2: a session that nobody is routed over now is told nothing."""
    active = set(self._overlay.frontier.active) | set(self._overlay.leaves())
    everybody, self._has_news = self._peers, True
    self._peers = {peer: peer_log for peer, peer_log in everybody.items() if peer in active}
    original(self)
    self._peers = everybody


@breaks(Subscriptions, "_confirm", Shows.ARGUMENTS)
def confirm_without_the_others(
    original: Original,
    self: Subscriptions,
    entry: Entry,
    sides: Sides,
    outgoing: dict[NodeId, list[Confirmation]],
) -> None:
    """Rule 3: a broker confirms before its other sides did."""
    original(self, entry, replace(sides, others=[]), outgoing)


@breaks(Subscriptions, "_confirm", Shows.ARGUMENTS)
def untried_counts_as_reached(
    original: Original,
    self: Subscriptions,
    entry: Entry,
    sides: Sides,
    outgoing: dict[NodeId, list[Confirmation]],
) -> None:
    """Rule 3: a restarted broker confirms before it has tried its neighbours."""
    original(self, entry, replace(sides, all_tried=True), outgoing)


@breaks(Subscriptions, "_confirm", Shows.ARGUMENTS)
def partitions_not_reported(
    original: Original,
    self: Subscriptions,
    entry: Entry,
    sides: Sides,
    outgoing: dict[NodeId, list[Confirmation]],
) -> None:
    """Rule 3: nobody is told which brokers could not be reached."""
    original(self, entry, replace(sides, partitions=[]), outgoing)


# -- being live (rule 4) -----------------------------------------------------------------------------------


@breaks(Subscribing, "_is_too_early", Shows.ANSWER)
def deliver_before_live(original: Original, self: Subscribing, own: Own, *about: object) -> bool:
    """Rule 4: events are delivered before all sides have confirmed."""
    return own.live and bool(original(self, own, *about))


@breaks(Subscribing, "_is_too_early", Shows.ANSWER)
def flow_begins_unreached(original: Original, self: Subscribing, own: Own, *about: object) -> bool:
    """Rule 4: the flow of a publisher begins although its broker was not reached."""
    return not own.live


@breaks(Subscribing, "on_confirmed", Shows.ARGUMENTS)
def no_cut(
    original: Original, self: Subscribing, peer: NodeId, confirmations: tuple[Confirmation, ...]
) -> None:
    """Rule 3: what some broker took unaware is not left out."""
    cutless = tuple(msgspec.structs.replace(each, cut={}, present=()) for each in confirmations)
    original(self, peer, cutless)


# -- duplicates (rule 5) -----------------------------------------------------------------------------------


@breaks(Subscribing, "_taker")
def no_duplicate_check_at_the_client(
    original: Original, self: Subscribing, unique: SubscriptionId, *about: object
) -> object:
    """Rule 10: a new generation repeats what was delivered."""
    own = self.own[unique]
    last, own.last = own.last, {}
    taker = original(self, unique, *about)
    own.last = last
    return taker


# -- matching and routing (rules 6 to 8) -------------------------------------------------------------------


@breaks(PeerLog, "knew", Shows.ANSWER)
def no_evidence(original: Original, self: PeerLog, subscription: str, epoch: int) -> bool:
    """Rule 6: what a forwarder was not aware for is delivered nevertheless."""
    return True


@breaks(Forwarding, "receive")
def no_direction(original: Original, self: Forwarding, peer: NodeId, run: Run, now: Micros) -> None:
    """Rule 7: events go back where they came from."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(self._overlay, "direction", lambda _: "nowhere")
        original(self, peer, run, now)


@breaks(Forwarding, "enter")
def client_in_the_direction_of_its_broker(
    original: Original, self: Forwarding, peer: NodeId, run: Run, now: Micros, **about: Any
) -> None:
    """Rule 7: what a client publishes elsewhere counts as coming from its own broker."""
    home = self._overlay.sessions.up[peer].identity.home
    with pytest.MonkeyPatch.context() as patch:
        if home is not None and home != self._overlay.me:
            towards = self._overlay.direction(home)
            patch.setattr(self._overlay, "direction", lambda _: towards)
            patch.setattr(self, "_peers", {**self._peers, peer: _Omniscient()})
        original(self, peer, run, now, **about)


class _Omniscient(PeerLog):
    """A peer that knew everything, as a publisher's client is taken to."""

    def knew_all(self, epoch: int) -> bool:
        return True


@breaks(Forwarding, "_take_over")
def confirm_on_take_over(
    original: Original,
    self: Forwarding,
    arrival: Arrival,
    events: Sequence[Event],
    numbers: Sequence[Numbers],
) -> None:
    """Rule 7: the sender may forget an event before its targets have it."""
    original(self, arrival, events, numbers)
    arrival.done += [event.sequence for event in events]


@breaks(Forwarding, "resend")
def no_resend(original: Original, self: Forwarding) -> None:
    """Rule 8: what was lost with a session is not sent again."""


@breaks(Forwarding, "resend")
def no_resend_to_a_nearer_node(original: Original, self: Forwarding) -> None:
    """Rule 8: what is under way to a far node stays so when a nearer one is back."""
    kept = {id(held): dict(held.waiting) for held in self.custody.in_order()}
    for held in self.custody.in_order():
        held.waiting = {hop: targets for hop, targets in held.waiting.items() if hop is None}
    original(self)
    for held in self.custody.in_order():
        for hop, targets in kept[id(held)].items():
            if hop is not None:
                held.waiting = {**held.waiting, hop: {**held.waiting.get(hop, {}), **targets}}


@breaks(Custody, "in_order")
def resend_in_reverse_order(original: Original, self: Custody) -> Iterator[Held]:
    """Rule 8: the newest is sent again first."""
    return iter(list(original(self))[::-1])


@breaks(Forwarding, "resend")
def match_again_on_resend(original: Original, self: Forwarding) -> None:
    """Rule 8: what is sent again goes to those too who have subscribed since."""
    for held in self.custody.in_order():
        directions = {self._overlay.direction(sender) for sender in held.senders}
        waiting = {target for targets in held.waiting.values() for target in targets}
        for subscription in self._log.index(held.event.topic).match(held.event.attributes):
            entry = self._log[subscription]
            if entry.destination not in waiting and not directions.intersection(entry.body.path[-1:]):
                more = {**held.waiting.get(None, {}), entry.destination: entry.body.path}
                held.waiting = {**held.waiting, None: more}
        held.header = msgspec.structs.replace(held.header, epoch=self._log.length)
    original(self)


# -- beyond δ (rule 9) -------------------------------------------------------------------------------------


@breaks(Vectors, "is_legitimate", Shows.ANSWER)
def no_legitimacy(original: Original, self: Vectors, path: object) -> bool:
    """Rule 9: copies go on, unmarked, whatever they have bypassed."""
    return True


@breaks(Forwarding, "_send")
def one_held_stream_holds_all(
    original: Original, self: Forwarding, hop: NodeId, group: Sequence[Held]
) -> None:
    """Rule 9: what must wait on the way to a peer holds up all other streams that go there."""
    if any(peer == hop for peer, _ in self._blocked):
        self._block(hop, source_of(group[0].event), group)
    else:
        original(self, hop, group)


@breaks(Forwarding, "_still_waits", Shows.ANSWER)
def the_vanished_hold_up(
    original: Original, self: Forwarding, hop: NodeId, source: Source, held: Held
) -> bool:
    """Rule 9: what is no more in custody, since a newer generation came, holds that up, or goes with it."""
    return hop in held.waiting and held.event.sequence in self.custody.streams[source].held


@breaks(Forwarding, "receive")
def numbers_alone_tell_duplicates(
    original: Original, self: Forwarding, peer: NodeId, run: Run, now: Micros
) -> None:
    """Rule 5: what was held back while other streams passed is taken for a duplicate."""
    stream = self._stream(peer, source_of(run.events[0]), run.header.generation, now)
    if stream is not None:
        stream.highest = sys.maxsize
    original(self, peer, run, now)


@breaks(Forwarding, "_would_overtake", Shows.ANSWER)
def the_pathless_is_overtaken(
    original: Original, self: Forwarding, hop: NodeId, source: Source, held: Held
) -> bool:
    """Rule 8: what came later goes on while something before it in its stream waits for its way."""
    return False


@breaks(Held, "came_from", Shows.ANSWER)
def ways_lead_back(original: Original, self: Held, topology: Topology) -> None:
    """Rule 7: what was kept until its way is known goes back where it came from."""


@breaks(Forwarding, "_would_overtake", Shows.ANSWER)
def who_waits_where_a_way_ends_is_overtaken(
    original: Original, self: Forwarding, hop: NodeId, source: Source, held: Held
) -> bool:
    """Rule 8: what came later goes round a broker beyond which the way of what came first is not known."""
    return any(
        each.number < held.number and not all(each.waiting.get(None, {}).values())
        for each in self.custody.streams[source].held.values()
    )


# -- publishers (rule 10) ----------------------------------------------------------------------------------


@breaks(Publishing, "go_home")
def no_generations(
    original: Original, self: Publishing, home: NodeId | None, now: Micros, *, old_is_up: bool
) -> None:
    """Rule 10: a new home session goes on with the generation of the old one."""
    if home is not None:
        self._generation -= 1
    original(self, home, now, old_is_up=old_is_up)


@breaks(Publishing, "go_home")
def nothing_repeated_at_a_new_home(
    original: Original, self: Publishing, home: NodeId | None, now: Micros, *, old_is_up: bool
) -> None:
    """Rule 10: a new home session gets new events only."""
    retained, self.retained = self.retained, {}
    original(self, home, now, old_is_up=old_is_up)
    self.retained = retained


@breaks(Publishing, "go_home")
def old_confirmations_count(
    original: Original, self: Publishing, home: NodeId | None, now: Micros, *, old_is_up: bool
) -> None:
    """Rule 10: what an older generation confirmed is dropped when it becomes the beginning."""
    confirmed = {source: set(each.confirmed) for source, each in self.retained.items()}
    original(self, home, now, old_is_up=old_is_up)
    for source, each in self.retained.items():
        each.confirmed |= confirmed[source]


@breaks(Publishing, "acknowledged")
def retain_with_holes(original: Original, self: Publishing, *about: Any) -> None:
    """Rule 10: what is confirmed in the middle is not retained."""
    original(self, *about)
    for retained in self.retained.values():
        for sequence in retained.confirmed:
            retained.events.pop(sequence, None)


@breaks(Forwarding, "_stream")
def old_generations_are_confirmed(
    original: Original, self: Forwarding, peer: NodeId, source: Source, *about: Any
) -> Stream | None:
    """Rule 10: an older generation is confirmed where it meets a newer one, and its rest stays elsewhere."""
    generation, _ = about
    stream = self.custody.streams.get(source)
    if stream is not None and stream.generation > generation:
        return Stream(generation, highest=sys.maxsize, held=_AllConfirmed())
    if stream is not None and stream.generation < generation:
        for held in stream.held.values():
            held.senders = ()
    found: Stream | None = original(self, peer, source, *about)
    return found


class _AllConfirmed(dict[int, Held]):
    """A stream of which everything was handled."""

    def __contains__(self, sequence: object) -> bool:
        return True

    def __bool__(self) -> bool:
        return True


@breaks(Forwarding, "supersede")
def superseded_and_forgotten(
    original: Original, self: Forwarding, source: Source, generation: Generation, now: Micros
) -> None:
    """Rule 10: where a generation was dropped, the rest of it comes as a stream with a hole."""
    known = source in self.custody.streams
    original(self, source, generation, now)
    if known and not self.custody.streams[source].held and not self.custody.streams[source].highest:
        self.custody.streams[source].generation = (0, 0)


@breaks(Forwarding, "supersede", lambda self, source, *_: source in self.presence.present)
def who_has_moved_is_still_here(original: Original, self: Forwarding, source: Source, *about: Any) -> None:
    """Rule 3: a publisher is taken to publish here still, although a later generation came by."""
    here = self.presence.present.get(source)
    original(self, source, *about)
    if here is not None:
        self.presence.present[source] = here
        self.presence._left.pop(source, None)


@breaks(Cut, "add")
def who_was_there_is_there(
    original: Original, self: Cut, taken: Mapping[str, Taken], present: Iterable[str]
) -> None:
    """Rule 3: a publisher that is somewhere is taken to be where its last event was taken."""
    before = dict(self.present)
    original(self, taken, present)
    self.present |= before | dict.fromkeys(present)


@breaks(Forwarding, "_note_idle")
def idle_and_forgotten(
    original: Original, self: Forwarding, source: Source, stream: Stream, now: Micros
) -> None:
    """Rule 10: a newer generation is forgotten as soon as nothing is held of it, while the older comes."""
    original(self, source, stream, now)
    if not stream.held and source not in self.presence:
        stream.generation, stream.highest = (0, 0), 0


# -- recovery (rule 11) ------------------------------------------------------------------------------------


@breaks(Node, "_keep")
def strangers_are_not_heard(original: Original, self: Node[Any], stranger: NodeId, message: object) -> None:
    """Rule 2: what a broker says before it is known as a neighbour is lost, and not said again."""


@breaks(PublisherBroker, "_maybe_admit")
def admit_at_once(original: Original, self: PublisherBroker, leaf: NodeId, now: Micros) -> None:
    """Rule 11: a broker takes events before it knows the subscriptions."""
    self._take(leaf, self._waiting.pop(leaf), now)


@breaks(PublisherBroker, "_is_guest", Shows.ANSWER)
def admit_whoever_moved(original: Original, self: PublisherBroker, leaf: NodeId) -> bool:
    """Rule 11: a client that has published elsewhere is taken like any other."""
    return False


@breaks(PublisherBroker, "_is_guest", Shows.ANSWER)
def admit_who_publishes_for_the_first_time(original: Original, self: PublisherBroker, leaf: NodeId) -> bool:
    """Rule 11: a client of another broker that has not published before is taken like one's own."""
    return bool(self._attached[leaf].stays)


@breaks(Settling, "want")
def settled_once_is_settled(original: Original, self: Settling, purpose: Hashable, *about: object) -> None:
    """Rule 11: who has settled once is taken to know everything ever after."""
    self._needs.setdefault(purpose, 0)


@breaks(Settling, "want", Shows.ARGUMENTS)
def guests_are_not_named(original: Original, self: Settling, purpose: Hashable, *about: object) -> None:
    """Rule 11: a broker that has not noticed that a client is gone takes it to publish there still."""
    original(self, purpose)


@breaks(Settling, "_sides", Shows.ANSWER)
def the_held_are_left_out(original: Original, self: Settling) -> list[NodeId]:
    """Rule 11: a peer whose long log is under way need not say what it knows."""
    return self._overlay.frontier.active


@breaks(Settling, "_can_answer", Shows.ANSWER)
def synced_at_once(original: Original, self: Settling, needed: int, besides: NodeId | None) -> bool:
    """Rule 11: a broker says that it knows everything before it does."""
    return True


@breaks(Subscribing, "_breaks_the_promise", Shows.ANSWER)
def guests_are_not_missed(
    original: Original, self: Subscribing, own: Own, publisher: str, taken: Taken
) -> bool:
    """Rule 12: what a publisher of a reached broker published at an unreached one is missed silently."""
    return not (own.unreached and taken.guest) and bool(original(self, own, publisher, taken))


@breaks(Taken, "joined", Shows.ANSWER)
def the_last_home_hides_the_others(original: Original, self: Taken, other: Taken) -> Taken:
    """Rule 12: who took a name last hides what was missed of those who had it before, at other homes."""
    return max(self, other)


@breaks(Subscribing, "_may_have_missed", Shows.ANSWER)
def guests_begin_silently(original: Original, self: Subscribing, *about: object) -> bool:
    """Rule 12: the flow of a publisher that was at an unreached broker begins as if nothing lay before."""
    return False


@breaks(Subscriptions, "_end", Shows.ARGUMENTS)
def denied_and_forgotten(
    original: Original, self: Subscriptions, subscription: SubscriptionId, *about: Any, **why: Any
) -> None:
    """Rule 12: what an earlier client of a name denies ends like what its own client ends."""
    original(self, subscription, *about, **(why | {"given_up": False} if why.get("rival") else why))


@breaks(Subscriptions, "_is_denied", Shows.ANSWER)
def the_earlier_one_is_gone(
    original: Original, self: Subscriptions, peer: NodeId, line: LogEntry, mine: Entry
) -> bool:
    """Rule 12: what a later client of a name denies ends as if nobody had it any more."""
    return made_in(line.subscription) > line.rival > 0


@breaks(Endings, "_is_known", Shows.ANSWER)
def forget_the_given_up_when_neighbours_know(
    original: Original, self: Endings, subscription: SubscriptionId, session: PeerLog
) -> bool:
    """Rule 12: that a subscription was given up is forgotten when the neighbours know it, though some broker
    behind them does not."""
    return subscription in session.ended


@breaks(Publishing, "home_may_lack")
def whoever_has_settled_knows_all(original: Original, self: Publishing, *about: object) -> None:
    """Rule 12: a broker that could not ask everybody is taken to know all that it knew before it started."""


@breaks(Settling, "_is_whole", Shows.ANSWER)
def neighbours_are_all(original: Original, self: Settling, besides: NodeId | None) -> bool:
    """Rule 12: a broker that could ask all its sides is taken to have asked everybody behind them."""
    direction = self._overlay.direction
    return all(direction(node) == besides for node in self._overlay.frontier.down)


@breaks(Settling, "_heard", Shows.ANSWER)
def there_are_no_witnesses(original: Original, self: Settling, besides: NodeId | None) -> tuple[NodeId, ...]:
    """Rule 12: what somebody has told that has forgotten nothing counts for nothing."""
    return ()


@breaks(Own, "may_lack", Shows.ANSWER)
def a_witness_knows_all(original: Original, self: Own, stay: Stay) -> bool:
    """Rule 12: whoever has forgotten nothing is taken to know all that others know."""
    may_lack: bool = original(self, stay)
    return may_lack and (stay.told_by is None or NOBODY in stay.told_by)


@breaks(Own, "may_lack", Shows.ANSWER)
def who_could_not_ask_knows_nothing(original: Original, self: Own, stay: Stay) -> bool:
    """Rule 12: what a broker that had started says of a subscription since then counts for nothing."""
    return bool(original(replace(self, aware=set()), stay))


@breaks(Forwarding, "_stays_here", Shows.ANSWER)
def own_publishers_leave_nothing(
    original: Original, self: Forwarding, arrival: Arrival, matching: tuple[SubscriptionId, ...]
) -> list[Stay]:
    """Rule 12: a broker that had started says only of guests that it took events before it knew a
    subscription."""
    return [each for each in original(self, arrival, matching) if each.told_by is None]


@breaks(Forwarding, "_missed_some", Shows.ANSWER)
def who_is_known_now_was_known_then(original: Original, self: Forwarding, *about: object) -> bool:
    """Rule 12: a guest's broker does not say that it took events before it knew a subscription."""
    return False


@breaks(Presence, "recover", _has(GuestTaken))
def guests_are_forgotten(original: Original, self: Presence, records: Iterable[Record]) -> None:
    """Rule 12: a broker that restarts does not know that it took events of guests."""


@breaks(Subscribing, "_may_have_missed", Shows.ANSWER)
def every_stay_counts_for_ever(original: Original, self: Subscribing, own: Own, *about: Any) -> bool:
    """Rule 12: where a publisher was before its last event that came is held against it again and again."""
    known_in, own.known_in = own.known_in, {}
    found = bool(original(self, own, *about))
    own.known_in = known_in
    return found


@breaks(Subscribing, "_renew")
def who_knew_what_was_lost_knows_what_is_new(
    original: Original, self: Subscribing, unique: SubscriptionId, *about: Any
) -> None:
    """Rule 12: the broker of the last event that came is taken to know a subscription that begins anew."""
    lost = self.own[unique]
    original(self, unique, *about)
    again = self.own[self._ids[lost.name]]
    again.known_in = {publisher: last for publisher, (_, last) in lost.flowing.items()}


@breaks(Subscribing, "_may_have_missed", Shows.ANSWER)
def starts_lie_at_live(original: Original, self: Subscribing, own: Own, *about: Any) -> bool:
    """Rule 12: what a publisher left elsewhere before the subscription was live is missed silently, though
    the start that was told lies before it."""
    started, own.started = own.started, set()
    found = bool(original(self, own, *about))
    own.started = started
    return found


@breaks(Subscribing, "_is_too_early", Shows.ANSWER)
def all_of_a_partition_are_unreached(
    original: Original, self: Subscribing, own: Own, header: Header, *about: Any
) -> bool:
    """Rule 4: a broker that was reached is held for unreached when a partition names it beside others."""
    is_named = any(tag in own.partitions and header.home in tag.nodes for tag in header.tags)
    return is_named or bool(original(self, own, header, *about))


@breaks(Own, "may_lack", Shows.ANSWER)
def who_is_reached_now_was_reached_then(original: Original, self: Own, stay: Stay) -> bool:
    """Rule 12: what a publisher left at a broker that was reached later, and had forgotten it, is missed
    silently."""
    return stay.node in self.unreached if stay.node else bool(self.unreached)


@breaks(PublisherLeaf, "message", lambda self, *_: self.subscribing.name_is_lost)
def who_has_lost_its_name_goes_on(
    original: Original, self: PublisherLeaf, peer: NodeId, message: Any, now: Micros
) -> None:
    """Rule 2: what comes after the word that another client keeps the name is still delivered."""
    is_lost, self.subscribing.name_is_lost = self.subscribing.name_is_lost, False
    original(self, peer, message, now)
    self.subscribing.name_is_lost |= is_lost


@breaks(Subscribing, "_begin_generation")
def new_numberings_are_not_told(
    original: Original, self: Subscribing, taker: Taker, header: Header, publisher: str, _: Micros
) -> None:
    """Rule 13: a publisher that counts anew is followed without a word."""
    taker.own.flowing[publisher] = header.generation


@breaks(
    Subscribing,
    "_give",
    lambda self, taker, header, publisher, now: taker.own.numberings.get(publisher) != header.generation[0],
)
def what_is_too_early_is_known(
    original: Original, self: Subscribing, taker: Taker, header: Header, publisher: str, *about: object
) -> None:
    """Rule 13: a publisher that counts anew is taken for known once something of it has come too early."""
    original(self, taker, header, publisher, *about)
    taker.own.numberings[publisher] = header.generation[0]


@breaks(Publishing, "superseded")
def every_life_gives_way_alike(
    original: Original, self: Publishing, peer: NodeId, message: Superseded, now: Micros
) -> None:
    """Rule 13: a client that has lost its store gives way as it did before, by the same numbering."""
    original(self, peer, message, 0)


@breaks(Publishing, "_begin_numbering", Shows.ARGUMENTS)
def numberings_are_all_alike(original: Original, self: Publishing, publisher: str, numbering: int) -> None:
    """Rule 13: a publisher that has lost its store is taken for its former self."""
    original(self, publisher, 0)


@breaks(Publishing, "superseded")
def the_older_holder_is_not_told(original: Original, self: Publishing, *about: object) -> None:
    """Rule 13: who publishes under a name that is somebody else's waits for ever."""


@breaks(Publishing, "superseded", lambda self, *_: bool(self.fenced))
def the_fenced_begin_anew(original: Original, self: Publishing, *about: object) -> None:
    """Rule 13: who was told that its name is somebody else's gives way to that when it is refused later."""
    fenced, self.fenced = self.fenced, {}
    original(self, *about)
    self.fenced = fenced | self.fenced


@breaks(Publishing, "_recover", lambda self, records: bool(records))
def earlier_lives_have_sent_nothing(original: Original, self: Publishing, records: Iterable[Record]) -> None:
    """Rule 13: what an earlier life has published, and is not confirmed, counts as not published yet."""
    original(self, records)
    self._sent_in.clear()


@breaks(Publishing, "without", lambda self, peer, given_up: bool(given_up))
def publishers_forget_the_given_up(original: Original, self: Publishing, *about: object) -> None:
    """Rule 12: a publisher that moves brings events to who was given up, and has missed some in between."""


@breaks(Subscriptions, "_tell_given_up", Shows.ARGUMENTS)
def only_the_last_given_up_is_told(
    original: Original, self: Subscriptions, client: NodeId, given_up: Sequence[SubscriptionId]
) -> None:
    """Rule 12: of those who were given up, publishers are told as many as a message may have."""
    original(self, client, given_up[-self._limits.piece :])


@breaks(Subscriptions, "tell_given_up", lambda self: bool(self._given_up_now))
def who_is_there_is_not_told_of_the_given_up(original: Original, self: Subscriptions) -> None:
    """Rule 12: only a client that comes is told who was given up and is not forgotten yet."""
    self._given_up_now.clear()


@breaks(Subscriptions, "hear_of_given_up")
def publishers_know_of_the_given_up_alone(original: Original, self: Subscriptions, *about: object) -> None:
    """Rule 12: who was given up by a broker that has lost its store is left out, and never told."""


@breaks(Overlay, "_find_next_hop", Shows.ANSWER)
def strangers_are_next_hops(original: Original, self: Overlay, path: Path) -> NodeId | None:
    """Rule 2: publications go to a broker that is no neighbour yet, and has not been told the log."""
    nearest = path[-1] if path else ""
    if nearest in self.sessions.up and nearest not in self.topology:
        return nearest
    found: NodeId | None = original(self, path)
    return found


@breaks(Overlay, "extended", Shows.ANSWER)
def ways_end_at_the_last_that_is_known(original: Original, self: Overlay, path: Path, peer: NodeId) -> Path:
    """Rule 2: what lies beyond the known part of a way is looked for where that part ends."""
    found: Path = original(self, path, peer)
    return found or (path[:1] if peer in self.topology else ())


@breaks(Telling, "leaves", lambda self, new: bool(self._overlay.leaves()))
def clients_do_not_hear_of_joins(original: Original, self: Telling, new: Link) -> None:
    """Rule 15: a client knows of its broker's neighbours what there was to know when it came."""


@breaks(Endings, "recover", _has(SubscriptionGivenUp))
def given_up_and_forgotten(original: Original, self: Endings, records: Iterable[Record]) -> None:
    """Rule 12: a broker that has given a client up, and acknowledged what waited for it, forgets that."""


@breaks(
    Patience,
    "__init__",
    lambda self, limits, out, records=(): any(isinstance(each, ClientAway) for each in records),
)
def leases_begin_anew(
    original: Original, self: Patience, limits: Limits, out: list[Effect], records: Iterable[Record] = ()
) -> None:
    """Rule 12: a broker that restarts waits a whole lease for a client, however long it has waited before."""
    original(self, limits, out)


@breaks(Patience, "back", lambda self, client: client in self._away)
def leases_never_begin_anew(original: Original, self: Patience, client: NodeId) -> None:
    """Rule 12: a client that was away, and is back, has only the rest of its lease the next time."""
    self._away.pop(client, None)


@breaks(Subscriptions, "on_log", Shows.ARGUMENTS)
def claims_are_believed(original: Original, self: Subscriptions, peer: NodeId, log: Log, now: Micros) -> None:
    """Rule 12: a subscription that nobody knows any more goes on as if it had always been known."""
    entries = tuple(msgspec.structs.replace(each, news=True) for each in log.entries)
    original(self, peer, msgspec.structs.replace(log, entries=entries), now)


@breaks(Subscriptions, "accept_claims", lambda self, now: bool(self._claimed))
def claims_are_believed_the_second_time(original: Original, self: Subscriptions, now: Micros) -> None:
    """Rule 12: a client is told once that nobody knows its subscription, whether it hears that or not."""
    claimed = {peer: list(lines) for peer, lines in self._claimed.items()}
    original(self, now)
    for peer in claimed.keys() - self._claimed.keys():
        for line in claimed[peer]:
            self._on_line(peer, line, now)


@breaks(Forwarding, "_led_on", lambda self, held, former: len(former) > 1)
def who_is_led_on_first_leaves_the_others(
    original: Original, self: Forwarding, held: Held, former: Mapping[SubscriptionId, Path]
) -> Waiting:
    """Rule 8: of several whose way went on from the same broker, only one gets what was kept there."""
    for subscription, end in former.items():
        held.waiting = original(self, held, {subscription: end})
    return held.waiting


@breaks(Forwarding, "paths_learned", Shows.ARGUMENTS)
def only_the_pathless_go_on(
    original: Original, self: Forwarding, former: Mapping[SubscriptionId, Path], now: Micros
) -> None:
    """Rule 8: what waits where a way was known to end waits there although it is known farther by now."""
    original(self, {name: end for name, end in former.items() if end == (name,)}, now)


@breaks(Subscriptions, "_lose_way")
def a_way_ends_at_whoever_is_removed(
    original: Original, self: Subscriptions, entry: Entry, former: Path
) -> None:
    """Rule 8: what waits where a way was known to end waits there although that broker was removed."""


@breaks(Subscribing, "_is_too_early", Shows.ANSWER)
def islands_are_barriers(original: Original, self: Subscribing, own: Own, *about: Any) -> bool:
    """Rule 4: what is behind a broker that was not reached counts as not reached, whether it was or not."""
    whole = replace(own, barriers=own.unreached)
    too_early: bool = original(self, whole, *about)
    return too_early


@breaks(Subscribing, "_begin", lambda self, own: bool(own.cut))
def renewed_from_the_cut_alone(original: Original, self: Subscribing, own: Own) -> None:
    """Rule 12: who subscribes anew may be promised what lies before events that it has got."""
    own.cut.clear()
    original(self, own)


@breaks(Publishing, "_note_without", lambda self, publisher: bool(self._told or self._without or self._noted))
def the_next_life_forgets_the_given_up(original: Original, self: Publishing, publisher: str) -> None:
    """Rule 12: a publisher that restarts elsewhere brings events to who was given up, and has missed some."""


@breaks(Own, "still_counting", Shows.ANSWER)
def every_holder_counts_alike(original: Original, self: Own, cut: Cut) -> list[str]:
    """Rule 3: an earlier holder of a name that is still there makes the start of the later one exact."""
    return sorted(cut.present)


@breaks(Subscribing, "_may_hide", Shows.ANSWER)
def what_is_not_seen_is_reached(original: Original, self: Subscribing, *about: object) -> bool:
    """Rule 4: who is named no more has been reached, though others hide it, or are named behind it."""
    return False


@breaks(PublisherBroker, "_on_attached")
def wait_again_after_repeating(
    original: Original, self: PublisherBroker, leaf: NodeId, attached: Attached, now: Micros
) -> None:
    """Rule 11: a client that was asked to repeat what could not wait has to wait again, for ever."""
    self._refused.pop(leaf, None)
    original(self, leaf, attached, now)


@breaks(
    PublisherBroker, "_on_detached", lambda self, leaf, now: leaf in self._attached and leaf in self._waiting
)
def wait_for_who_has_left(original: Original, self: PublisherBroker, leaf: NodeId, now: Micros) -> None:
    """Rule 11: what waits for the admission of a client is taken over although the client has left."""
    attached, waiting = self._attached.get(leaf), self._waiting.get(leaf)
    original(self, leaf, now)
    if attached is not None and waiting is not None:
        self._attached[leaf], self._waiting[leaf] = attached, waiting


@breaks(Subscribing, "_is_too_early", Shows.ANSWER)
def the_adopted_are_too_early(
    original: Original, self: Subscribing, own: Own, header: Header, *about: Any
) -> bool:
    """Rule 12: what was promised is missed silently when a client of an unreached broker repeats it."""
    known = tuple(stay for stay in header.stays if stay.node)
    return bool(original(self, own, msgspec.structs.replace(header, stays=known), *about))


@breaks(Forwarding, "enter", Shows.ARGUMENTS)
def the_adopted_are_taken_for_ones_own(
    original: Original, self: Forwarding, *about: Any, stays: tuple[Stay, ...], **more: Any
) -> None:
    """Rule 12: that a publisher had another client before is forgotten where it enters."""
    original(self, *about, stays=tuple(stay for stay in stays if stay.node), **more)


@breaks(Subscribing, "_is_too_early", Shows.ANSWER)
def too_early_with_others(
    original: Original, self: Subscribing, own: Own, header: Header, *about: Any
) -> bool:
    """X-P0-03: what comes from a broker that was reached waits for those it was once missed together with."""
    last = {tag.nodes[-1] for tag in header.tags}
    waits = own.live and about[0] not in own.flowing and not own.unreached.isdisjoint(last)
    return waits or original(self, own, header, *about)


@breaks(Subscriptions, "_answer_forgotten", Shows.ARGUMENTS)
def silent_about_the_forgotten(
    original: Original, self: Subscriptions, peer: NodeId, entry: LogEntry
) -> None:
    """X-P0-17: a client that was given up and is back is not told so, since what it says has no index."""
    if entry.index:
        original(self, peer, entry)


@breaks(SubscriptionLog, "is_wanted", Shows.ANSWER)
def names_alone_tell_clients(original: Original, self: SubscriptionLog, destination: Path) -> bool:
    """What waits for a client that has died waits on while another one of its name is elsewhere."""
    return any(each.target == destination[0] and not each.ended for each in self.after(0))


# -- who has lost its store (rule 11) ----------------------------------------------------------------------


@breaks(Topology, "doubt", lambda self, nodes: not self.partly_known.issuperset(nodes))
def what_is_told_is_all(original: Original, self: Topology, nodes: Iterable[NodeId]) -> None:
    """Rule 11: a broker that has lost its store takes the links that it is told for all that there are."""


@breaks(Telling, "_vouched", Shows.ANSWER)
def who_is_far_off_vouches(original: Original, self: Telling, peer: Identity) -> list[NodeId]:
    """Rule 11: a broker says that it knows all links of others, however far they are from it."""
    topology = self._overlay.topology
    return sorted(topology.ball(peer.node, topology.delta))


@breaks(
    Overlay,
    "_doubt_what_is_missing",
    lambda self, founder: self.me in self._noted or not (founder or self.topology.neighbours()),
)
def own_links_are_never_lost(original: Original, self: Overlay, *, founder: bool) -> None:
    """Rule 11: a broker that has lost its store takes the neighbours that it is told for all that it has."""
    original(self, founder=founder)
    self.topology.partly_known.discard(self.me)


@breaks(Overlay, "_note_partly_known", lambda self: bool(self.topology.partly_known or self._noted))
def doubts_are_forgotten(original: Original, self: Overlay) -> None:
    """Rule 11: a broker that starts again takes the links in its store for all that there are."""


@breaks(Topology, "rebuild", lambda self, links: len(self.nodes()) > 1)
def who_comes_nearer_is_known(original: Original, self: Topology, links: Mapping[Link, bool]) -> None:
    """Rule 11: a broker takes one that a removal has brought nearer for the end of the tree."""
    original(self, links)
    self.partly_known.clear()


@breaks(Subscriptions, "_sides", Shows.ANSWER)
def nobody_is_behind_the_blind(original: Original, self: Subscriptions, direction: NodeId | None) -> Sides:
    """Rule 3: a broker confirms though it does not know who may be behind one that is down."""
    frontier = self._overlay.frontier
    blind, frontier.blind = frontier.blind, []
    sides: Sides = original(self, direction)
    frontier.blind = blind
    return sides


@breaks(Subscribing, "_is_too_early", Shows.ANSWER)
def who_was_told_a_start_waits(original: Original, self: Subscribing, own: Own, *about: Any) -> bool:
    """Rule 4: what a client has adopted comes too early, though the start of its publisher was told."""
    started, own.started = own.started, set()
    is_too_early: bool = original(self, own, *about)
    own.started = started
    return is_too_early


@breaks(Subscriptions, "_tell_again")
def who_forgets_an_end_is_not_told_again(
    original: Original, self: Subscriptions, peer: NodeId, mine: Entry
) -> None:
    """Rule 12: a broker that has forgotten that a subscription was given up is not told again."""


@breaks(Outbox, "drop_events", lambda self, peer: peer in self._drafts)
def what_was_written_comes_first(original: Original, self: Outbox, peer: NodeId) -> None:
    """Rule 10: what was written before everything is repeated is sent too, ahead of it."""


@breaks(Publishing, "session_down", lambda self, peer, now: bool(self._told.get(peer)))
def the_given_up_are_forgotten_after_a_lease(
    original: Original, self: Publishing, peer: NodeId, now: Micros
) -> None:
    """Rule 12: a client forgets who was given up a lease after the session that has told it."""
    original(self, peer, now)
    self._note_heard(now)


def _is_forgotten_here(self: Subscriptions, entry: Entry) -> bool:
    return not entry.body.path and entry.body.home == self._overlay.me


@breaks(Subscriptions, "_know_own", _is_forgotten_here)
def own_clients_are_strangers(original: Original, self: Subscriptions, entry: Entry) -> None:
    """Rule 2: a broker does not know its own clients when nobody tells it the way to them."""


@breaks(Subscriptions, "_know_own", _is_forgotten_here)
def own_clients_are_a_secret(original: Original, self: Subscriptions, entry: Entry) -> None:
    """Rule 2: a broker that finds that a client is its own does not tell the others the way."""
    if _is_forgotten_here(self, entry):
        self._log.learn_path(entry.subscription, (entry.body.client,))
        self.has_absent = True


# -- names and networks (``gapless.core.names``) -----------------------------------------------------------


@breaks(names, "is_same_life", Shows.ANSWER)
def any_life_replaces_a_session(original: Original, holder: Identity, newcomer: Identity) -> bool:
    """A later life of a node replaces the session of an earlier one, be that alive or not."""
    return holder.is_leaf == newcomer.is_leaf and holder.incarnation <= newcomer.incarnation


@breaks(names, "are_apart", Shows.ANSWER)
def networks_mix(original: Original, a: Identity, b: Identity) -> bool:
    """Nodes of different networks talk to each other."""
    return False


@breaks(names, "takes_over", Shows.ANSWER)
def names_are_never_taken(original: Original, holder: Identity, newcomer: Identity) -> bool:
    """A client that asks for a name gets it as little as any other."""
    return False


@breaks(Sessions, "dial_refused")
def go_round_who_refuses(original: Original, self: Sessions, peer: NodeId, now: Micros) -> None:
    """A peer that takes this node for a second one of its name counts as failed."""
    self.dial_failed(peer, now)


@breaks(Network, "_first", Shows.ANSWER)
def nobody_is_asked_first(original: Original, self: Network, *_: object) -> None:
    """A broker that has no session with the holder of a name does not ask whether it is alive."""


@breaks(Node, "_name_taken")
def taken_clients_go_on(original: Original, self: Node[Any], reason: str) -> None:
    """A client whose name was taken goes on as if its session had broken."""


@breaks(Subscribing, "on_log", Shows.ARGUMENTS)
def rivals_never_yield(
    original: Original, self: Subscribing, peer: NodeId, entries: Sequence[LogEntry]
) -> None:
    """A client whose subscription another one of its name has ended makes it anew, as if it were lost."""
    alone = (msgspec.structs.replace(each, rival=0) if each.ended else each for each in entries)
    original(self, peer, tuple(alone))


@breaks(Subscribing, "_deny", Shows.ARGUMENTS)
def rivals_do_not_hear_of_each_other(
    original: Original, self: Subscribing, peer: NodeId, line: LogEntry
) -> None:
    """A client ends the subscriptions of another one of its name again and again."""
    original(self, peer, msgspec.structs.replace(line, rival=0))
