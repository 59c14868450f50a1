"""The log of subscriptions: one append-only list a broker, streamed in order on every session.

A subscription enters the log when it is first heard of, from whomever, and is used from then on. Because the
log is streamed ahead of every publication, whoever handles a publication knows every subscription that its
sender knew; and because each entry carries its index in the sender's log, a publication only needs to say how
long that log was (its *epoch*) to tell for which subscriptions its sender was aware.

Propagation, the copy to an island (000, IV-B), synchronisation after a cut and recovery after a crash (000, VII;
003, 6) are all the same thing: stream what the other end has not been told. An entry that came from the
other end is echoed without its body: the echo is the acknowledgement, and the digest of P0-80 in one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from gapless.core.messages.publisher import Body, Confirmation
from gapless.core.model import NodeId, SubscriptionId


@dataclass(slots=True)
class Entry:
    """A subscription in the log, or the end of one."""

    index: int
    subscription: SubscriptionId
    body: Body
    entered: dict[str, int]
    """Per publisher the highest sequence that entered here before the subscription was known here."""
    ended: bool = False

    @property
    def owner(self) -> NodeId:
        """The client, when the path is short enough to name it."""
        return self.body.path[0]


@dataclass(slots=True)
class PeerLog:
    """What one session has told and been told of the logs at its two ends."""

    index_of: dict[SubscriptionId, int] = field(default_factory=dict)
    """The index of each subscription in the peer's log."""
    streamed: int = 0
    """My log was sent up to this index."""
    synced: bool = False
    """The peer's log has everything that lies on its other sides."""
    sync_sent: bool = False
    confirmed: dict[SubscriptionId, Confirmation] = field(default_factory=dict)
    """What the peer confirmed."""
    confirmed_to: dict[SubscriptionId, Confirmation] = field(default_factory=dict)
    """What was last confirmed to the peer."""

    def knew(self, subscription: SubscriptionId, epoch: int) -> bool:
        """Whether the peer had the subscription when its log was that long."""
        index = self.index_of.get(subscription)
        return index is not None and index <= epoch


class SubscriptionLog:
    """The entries of one node, by subscription and by index."""

    def __init__(self) -> None:
        self.length = 0
        self._by_subscription: dict[SubscriptionId, Entry] = {}

    def append(
        self, subscription: SubscriptionId, body: Body, entered: dict[str, int], *, ended: bool = False
    ) -> Entry:
        """Add a subscription, or its end, which takes the place of the subscription."""
        self.length += 1
        self._by_subscription.pop(subscription, None)
        entry = Entry(self.length, subscription, body, entered, ended)
        self._by_subscription[subscription] = entry
        return entry

    def get(self, subscription: SubscriptionId) -> Entry | None:
        """The entry of a subscription."""
        return self._by_subscription.get(subscription)

    def __contains__(self, subscription: object) -> bool:
        return subscription in self._by_subscription

    def __getitem__(self, subscription: SubscriptionId) -> Entry:
        return self._by_subscription[subscription]

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._by_subscription.values())

    def after(self, index: int) -> list[Entry]:
        """The entries beyond an index, in order."""
        if index >= self.length:
            return []
        newest: list[Entry] = []
        for entry in reversed(self._by_subscription.values()):
            if entry.index <= index:
                break
            newest.append(entry)
        return newest[::-1]
