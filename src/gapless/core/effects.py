"""What comes out of a node, and the one rule about performing it.

**The ordering rule: every** ``Persist`` **of a batch is durable before any other effect of that batch is
performed; the other effects are performed in the order in which they stand.** A driver may join the effects
of many steps into one batch, so one fsync serves many events (group commit). A crash between the two halves
of a batch loses nothing but messages, which a crash loses anyway.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gapless.core.messages import Message, Removal
from gapless.core.model import (
    Declaration,
    Event,
    Generation,
    Incarnation,
    Link,
    Micros,
    NodeId,
    Partition,
    StartCut,
    SubscriptionId,
    Topic,
)


class IncarnationStarted(msgspec.Struct, frozen=True, tag=True):
    """Record: the node started for the n-th time."""

    incarnation: Incarnation


class LinkAdded(msgspec.Struct, frozen=True, tag=True):
    """Record: a link of the neighbourhood, valid or still marked."""

    link: Link
    marked: bool = False


class LinkRemoved(msgspec.Struct, frozen=True, tag=True):
    """Record: a link that is no longer there (its join was given up)."""

    link: Link


class LeaveWanted(msgspec.Struct, frozen=True, tag=True):
    """Record: this broker wants to leave the network for good, or does so no more."""

    is_wanted: bool


class BrokerRemoved(msgspec.Struct, frozen=True, tag=True):
    """Record: a broker was removed from the network, for good."""

    removal: Removal


class JoinedAt(msgspec.Struct, frozen=True, tag=True):
    """Record: the neighbour that the broker has joined, or that has the place of this one now. It is empty if
    the broker itself has that place. The last record holds."""

    join_point: NodeId


class PartlyKnown(msgspec.Struct, frozen=True, tag=True):
    """Record: the brokers near this one, perhaps itself, that may have links which it was not told; the last
    one holds."""

    nodes: tuple[NodeId, ...]


class Founded(msgspec.Struct, frozen=True, tag=True):
    """Record: this broker is a member of the network without any neighbour, because all others have left; or
    it is one no longer, because it has left itself."""

    alone: bool = True


class NetworkBound(msgspec.Struct, frozen=True, tag=True):
    """Record: this store belongs to the network of that id, and to no other."""

    network: str


class EventsRetained(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Record of a client: events that one of its publishers has published to a topic, each after the one
    before it, and that are not confirmed."""

    events: tuple[Event, ...]


class EventsConfirmed(msgspec.Struct, frozen=True, tag=True, gc=False):
    """Record of a client: the publisher's events of the topic up to this one are confirmed."""

    topic: str
    publisher: str
    sequence: int


class PublisherTaken(msgspec.Struct, frozen=True, tag=True):
    """Record of a client: it has adopted the publisher, and publishes for it in this incarnation's
    generations (see ``Publishing``)."""

    publisher: str
    incarnation: Incarnation


class NumberingBegun(msgspec.Struct, frozen=True, tag=True):
    """Record of a client: the publisher begins to count its events, for the first time or anew."""

    publisher: str
    numbering: int


class ConfirmedWithout(msgspec.Struct, frozen=True, tag=True):
    """Record of a client: what is confirmed of the publisher did not go to these subscriptions, which the
    network has given up; the last one of the publisher holds. None: everybody knows that by now."""

    publisher: str
    subscriptions: tuple[SubscriptionId, ...]


class TopicDeclared(msgspec.Struct, frozen=True, tag=True):
    """Record of a broker: what is declared under a name; the last one of the name holds."""

    declaration: Declaration


class SubscriptionGivenUp(msgspec.Struct, frozen=True, tag=True):
    """Record of a broker: it has ended the subscription of a client that could not be reached, and answers no
    longer for what waits for it. Others may still take the subscription to be there."""

    subscription: SubscriptionId
    client: NodeId
    topic: str


class SubscriptionPurged(msgspec.Struct, frozen=True, tag=True):
    """Record of a broker: everybody knows that the subscription has ended."""

    subscription: SubscriptionId


class ClientAway(msgspec.Struct, frozen=True, tag=True):
    """Record of a broker: a client that it looks after was away for so long while this broker ran; the last
    one of the client holds. Nothing: it is back, or is not waited for any more."""

    client: NodeId
    lasted: Micros = 0


class GuestTaken(msgspec.Struct, frozen=True, tag=True):
    """Record of a broker: it takes events of a publisher whose own broker is another one; the last record of
    the publisher holds. Without a generation: what it took is of no account any more."""

    topic: str
    publisher: str
    generation: Generation | None = None
    home: NodeId = ""


def publisher_of(record: Record) -> str | None:
    """The publisher that a record of a client is about."""
    match record:
        case EventsRetained(events=events):
            return events[0].publisher
        case EventsConfirmed() | PublisherTaken() | NumberingBegun() | ConfirmedWithout():
            return record.publisher
        case _:
            return None


Record: TypeAlias = (
    IncarnationStarted
    | LinkAdded
    | LinkRemoved
    | LeaveWanted
    | BrokerRemoved
    | JoinedAt
    | PartlyKnown
    | Founded
    | NetworkBound
    | EventsRetained
    | EventsConfirmed
    | PublisherTaken
    | NumberingBegun
    | ConfirmedWithout
    | TopicDeclared
    | SubscriptionGivenUp
    | SubscriptionPurged
    | ClientAway
    | GuestTaken
)
"""All that survives a crash of a node."""


class Persist(msgspec.Struct, frozen=True, gc=False):
    """Make the record durable, before any other effect of the batch."""

    record: Record


class Connect(msgspec.Struct, frozen=True):
    """Try to open a session; answered by ``SessionUp``, whoever dialed, or ``ConnectFailed``."""

    peer: NodeId
    via: tuple[NodeId, ...] = ()
    """If the peer does not answer, try through one of these, as through a proxy that only passes bytes on:
    such a session lives as long as both its legs and the proxy do."""


class Disconnect(msgspec.Struct, frozen=True):
    """Close the session with the peer, after what was sent on it; no ``SessionDown`` follows."""

    peer: NodeId
    reason: str


class Send(msgspec.Struct, frozen=True):
    """Send on the session with the peer.

    Messages of normal priority keep their order. A ``low`` one lets every waiting normal one go first
    (D3-10): large transfers use it, so that they do not delay what is urgent.
    """

    peer: NodeId
    message: Message
    low: bool = False


class Deliver(msgspec.Struct, frozen=True, gc=False):
    """Give the events, in this order, to the application's subscription."""

    subscription: SubscriptionId
    events: tuple[Event, ...]
    best_effort: bool = False
    numbering: int = 0
    """Under which numbering their publisher counts them."""


class Live(msgspec.Struct, frozen=True):
    """From now on the subscription's promise holds, from ``start`` on; again when more can be reached."""

    subscription: SubscriptionId
    start: StartCut
    unreachable: tuple[Partition, ...] = ()
    """What could not be told of it: publishers there are not promised until another ``Live`` says so."""


class Reset(msgspec.Struct, frozen=True):
    """The promise could not be kept and begins anew at ``start``: a gap is never silent."""

    subscription: SubscriptionId
    publishers: tuple[str, ...]
    """Whose promise it is; none named: that of all publishers. Who is unreachable stays so."""
    start: StartCut


class LeaveRefused(msgspec.Struct, frozen=True):
    """A broker was asked to leave the network and cannot, now or at all."""

    reason: str


class Stopped(msgspec.Struct, frozen=True):
    """The broker has left the network for good: stop it. Its name is used up."""

    removed: bool = False
    """It does not leave by itself just now: it was removed, or had left, in an earlier life."""


class RemovalAnswered(msgspec.Struct, frozen=True):
    """A broker was asked to remove another one: that is done, and durable; or ``error`` says why not."""

    node: NodeId
    error: str = ""


class NameTaken(msgspec.Struct, frozen=True):
    """Another client has taken this client's name: this one makes no further step."""

    reason: str


class Receipt(msgspec.Struct, frozen=True):
    """The publisher's events of the topic up to this sequence are confirmed, as far as its order confirms:
    in publisher order every reachable matching subscriber has them, in best effort they were sent."""

    topic: str
    publisher: str
    sequence: int


class PublisherFenced(msgspec.Struct, frozen=True):
    """Somebody else publishes under this name since later: this client publishes nothing more under it. What
    was not confirmed stays so."""

    publisher: str


class Answered(msgspec.Struct, frozen=True):
    """The application's request about a topic is done, and durable; or ``error`` says why not."""

    request: int
    error: str = ""


class TopicsChanged(msgspec.Struct, frozen=True):
    """The client knows other topics than before, or knows for the first time which there are."""


class TopicDeleted(msgspec.Struct, frozen=True):
    """The topic that these subscriptions were made on is no more, and they have ended with it."""

    name: str
    subscriptions: tuple[SubscriptionId, ...]
    replaced_by: Topic | None = None
    """What is declared under the name now."""


Effect: TypeAlias = (
    Persist
    | Connect
    | Disconnect
    | Send
    | Deliver
    | Live
    | Reset
    | Receipt
    | PublisherFenced
    | Answered
    | TopicsChanged
    | TopicDeleted
    | LeaveRefused
    | RemovalAnswered
    | Stopped
    | NameTaken
)
