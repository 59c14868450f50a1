"""The log of subscriptions: one append-only list a broker, streamed in order on every session.

A subscription enters the log when it is first heard of, from whomever, and is used from then on. Because the
log is streamed ahead of every publication, whoever handles a publication knows every subscription that its
sender knew; and because each entry carries its index in the sender's log, a publication only needs to say
how long that log was (its *epoch*) to tell for which subscriptions its sender was aware.

Propagation, the copy to an island (000, IV-B), synchronisation after a cut and recovery after a crash
(000, VII; 003, 6) are all the same thing: stream what the other end has not been told. An entry that came
from the other end is echoed without its body: the echo is the acknowledgement, and the digest of P0-80.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec.structs import replace

from gapless.core.messages.publisher import Body, Confirmation, Taken
from gapless.core.model import Generation, Identity, Incarnation, NodeId, Path, SubscriptionId
from gapless.core.orders.base import parsed
from gapless.matching import MatchIndex


def subscription_id(maker: Identity, count: int) -> SubscriptionId:
    """The id on the wire of a client's next subscription; no life of the client has used it before."""
    return f"{maker.node}:{maker.incarnation}:{count}"


def made_in(subscription: SubscriptionId) -> Incarnation:
    """The life of its client in which a subscription was made; 0 if its id does not tell."""
    _, _, rest = subscription.rpartition(":")[0].rpartition(":")
    return int(rest) if rest.isdecimal() and len(rest) < 20 else 0


class Missed(NamedTuple):
    """What had entered at a broker at some moment; never changed, and shared by all who came then."""

    entered: Mapping[str, Taken]
    """Per publisher the last event that entered."""
    present: Mapping[str, tuple[NodeId, Generation]]
    """The publishers that published there, with client and generation."""


NOTHING_MISSED = Missed({}, {})


class Cut:
    """What the brokers of several sides took before they knew a subscription."""

    def __init__(self, taken: Mapping[str, Taken], present: Iterable[str]) -> None:
        self.taken = dict(taken)
        """Per publisher the last of it."""
        self.present = dict.fromkeys(present)
        """The publishers that are still where that was taken. Where they were before says nothing."""

    def add(self, taken: Mapping[str, Taken], present: Iterable[str]) -> None:
        """What another side says."""
        there = frozenset(present)
        for publisher, last in taken.items():
            known = self.taken.setdefault(publisher, last)
            if last.moment > known.moment:
                self.present.pop(publisher, None)
            if last.moment >= known.moment and publisher in there:
                self.present[publisher] = None
            self.taken[publisher] = last.joined(known)


NO_SUBSCRIPTIONS: MatchIndex[SubscriptionId] = MatchIndex()


@dataclass(slots=True)
class Entry:
    """A subscription in the log, or the end of one."""

    index: int
    subscription: SubscriptionId
    body: Body
    missed: Missed
    """What entered here before the subscription was known here."""
    ended: bool = False
    given_up: bool = False
    """It has ended because its client could not be reached."""
    rival: Incarnation = 0
    """Another life under the client's name: that which has ended it, or in spite of which it goes on."""

    @property
    def target(self) -> NodeId:
        """The node that events must reach: the first of the path, or nobody as long as there is none."""
        return self.body.path[0] if self.body.path else self.subscription

    @property
    def destination(self) -> Path:
        """The target and who stands before it: a client may be another one than that of the same name at
        another broker, which is alive or has left something to do."""
        return self.body.path[:2] or (self.subscription,)


@dataclass(slots=True)
class PeerLog:
    """What one session has told and been told of the logs at its two ends."""

    incarnation: Incarnation = 0
    """Which life of the peer the session is with."""
    index_of: dict[SubscriptionId, int] = field(default_factory=dict)
    """The index of each subscription in the peer's log."""
    last_index: int = 0
    """The highest of them."""
    untold: dict[SubscriptionId, None] = field(default_factory=dict)
    """Subscriptions that are known here and the peer has not told of yet."""
    ended: dict[SubscriptionId, None] = field(default_factory=dict)
    """Subscriptions that the peer knows to have ended."""
    streamed: int = 0
    """My log was sent up to this index."""
    awaited: bool = False
    """A long part of it is under way at low priority, and nothing may follow before the peer has it."""
    asked: int = 0
    """The round in which the peer was asked last to say when its log lacks nothing (see ``Settling``)."""
    answered: int = 0
    """The last round that it has answered."""
    witnesses: tuple[NodeId, ...] = ()
    """What all of these have known was told with that answer; empty: nobody can say that."""
    is_whole: bool = False
    """Whether all behind it have answered with it."""
    confirmed: dict[SubscriptionId, Confirmation] = field(default_factory=dict)
    """What the peer confirmed."""
    confirmed_to: dict[SubscriptionId, Confirmation] = field(default_factory=dict)
    """What was last confirmed to the peer."""

    def told(self, subscription: SubscriptionId, index: int) -> None:
        """The peer has the subscription, at this index of its log."""
        self.index_of[subscription] = index
        self.last_index = max(self.last_index, index)
        self.untold.pop(subscription, None)

    def forget(self, subscription: SubscriptionId) -> None:
        """Both ends have forgotten that the subscription ended."""
        for table in (self.index_of, self.confirmed, self.confirmed_to):
            table.pop(subscription, None)
        for names in (self.untold, self.ended):
            names.pop(subscription, None)

    def forget_end(self, subscription: SubscriptionId) -> None:
        """The peer does not know any more that the subscription has ended."""
        del self.ended[subscription]
        self.confirmed.pop(subscription, None)
        self.confirmed_to.pop(subscription, None)

    def knew(self, subscription: SubscriptionId, epoch: int) -> bool:
        """Whether the peer had the subscription when its log was that long."""
        index = self.index_of.get(subscription)
        return index is not None and index <= epoch

    def knew_all(self, epoch: int) -> bool:
        """Whether the peer had everything that is known here when its log was that long."""
        return epoch >= self.last_index and not self.untold


class SubscriptionLog:
    """The entries of one broker, by subscription and by index, and which of them an event matches."""

    def __init__(self) -> None:
        self.length = 0
        self.pathless: dict[SubscriptionId, None] = {}
        """Subscriptions to whose clients the way is not known."""
        self._entries: dict[SubscriptionId, Entry] = {}
        self._indexes: dict[str, MatchIndex[SubscriptionId]] = {}

    def append(
        self,
        subscription: SubscriptionId,
        body: Body,
        missed: Missed,
        rival: Incarnation = 0,
    ) -> Entry:
        """Add a subscription."""
        self.length += 1
        entry = Entry(self.length, subscription, body, missed, rival=rival)
        self._entries[subscription] = entry
        self._indexes.setdefault(body.topic, MatchIndex()).add(subscription, parsed(body.selector))
        if not body.path:
            self.pathless[subscription] = None
        return entry

    def learn_path(self, subscription: SubscriptionId, path: Path) -> Path | None:
        """Take a longer path to the same node; returns where it ended before, ``None`` if it is no news.

        A broker that restarted may hear of a subscription first from a broker that is farther from the
        client than itself, and knows little or nothing of the way ahead.
        """
        entry = self._entries[subscription]
        known, ended_at = entry.body.path, entry.destination
        if len(path) <= len(known) or path[len(path) - len(known) :] != known:
            return None
        entry.body = replace(entry.body, path=path)
        self.pathless.pop(subscription, None)
        return ended_at

    def end(self, subscription: SubscriptionId, *, given_up: bool = False, rival: Incarnation = 0) -> None:
        """The end of a subscription is an entry too, in its place, so that it is streamed like it."""
        old = self._entries.pop(subscription)
        self.pathless.pop(subscription, None)
        self._indexes[old.body.topic].remove(subscription)
        self.length += 1
        self._entries[subscription] = Entry(
            self.length, subscription, old.body, NOTHING_MISSED, ended=True, given_up=given_up, rival=rival
        )

    def purge(self, subscription: SubscriptionId) -> None:
        """Forget that a subscription has ended."""
        assert self._entries.pop(subscription).ended, "only what has ended is forgotten"

    def is_wanted(self, destination: Path) -> bool:
        """Whether some subscription leads there."""
        return any(entry.destination == destination and not entry.ended for entry in self._entries.values())

    def index(self, topic: str) -> MatchIndex[SubscriptionId]:
        """Which subscriptions an event of the topic matches."""
        return self._indexes.get(topic) or NO_SUBSCRIPTIONS

    def get(self, subscription: SubscriptionId) -> Entry | None:
        """The entry of a subscription."""
        return self._entries.get(subscription)

    def __getitem__(self, subscription: SubscriptionId) -> Entry:
        return self._entries[subscription]

    def subscriptions(self) -> list[SubscriptionId]:
        """All that the log has, ended ones too."""
        return list(self._entries)

    def after(self, index: int) -> list[Entry]:
        """The entries beyond an index, in order."""
        if index >= self.length:
            return []
        newest: list[Entry] = []
        for entry in reversed(self._entries.values()):
            if entry.index <= index:
                break
            newest.append(entry)
        return newest[::-1]
