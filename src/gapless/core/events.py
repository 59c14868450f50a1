"""What goes into a node. Drivers make these, in the order in which things happened.

A session is one FIFO connection to one peer. The driver opens it, exchanges identities and promises:
messages of a session arrive in order or not at all (P0-09); at most one session with a peer exists at a
time; a new one is reported only after the old one was reported down; nothing of an old session is
reported after that. ``SessionUp`` and ``SessionDown`` are batches of their own, and effects are performed on
the sessions that the node knew of when it made them, so no message strays into a later session. When two
nodes dial each other at once, the dial of the smaller id wins and answers both. A live session is replaced
only by one of the same incarnation, or by a client that takes over; :mod:`gapless.core.names` has the rule.
"""

from __future__ import annotations

from typing import TypeAlias

import msgspec

from gapless.core.effects import Record
from gapless.core.messages import Message
from gapless.core.model import Content, Identity, NodeId, Refusal, SubscriptionId, Topic


class SessionUp(msgspec.Struct, frozen=True):
    """A session with the peer is there; ``dialed`` when this side asked for it with ``Connect``."""

    identity: Identity
    dialed: bool


class SessionDown(msgspec.Struct, frozen=True):
    """The session broke, or the peer closed it."""

    peer: NodeId
    reason: str = ""
    taken: bool = False
    """Whether another client has taken this client's name."""


class ConnectFailed(msgspec.Struct, frozen=True):
    """An attempt to connect found nobody, or somebody who refused."""

    peer: NodeId
    refusal: Refusal | None = None


class MessageReceived(msgspec.Struct, frozen=True):
    """The next message of the session with the peer."""

    peer: NodeId
    message: Message


class PublishRequested(msgspec.Struct, frozen=True):
    """The application publishes events, in this order; only clients get this."""

    topic: str
    publisher: str
    contents: list[Content]
    """A list, so that what is published while the request waits can go with it."""


class SubscribeRequested(msgspec.Struct, frozen=True):
    """The application subscribes; only clients get this."""

    subscription: SubscriptionId
    topic: str
    selector: str


class UnsubscribeRequested(msgspec.Struct, frozen=True):
    """The application ends a subscription; only clients get this."""

    subscription: SubscriptionId


class CreateTopicRequested(msgspec.Struct, frozen=True):
    """The application declares a topic; ``Answered`` follows. Only clients get this."""

    request: int
    """A number that the application gives, another one for each request."""
    topic: Topic


class DeleteTopicRequested(msgspec.Struct, frozen=True):
    """The application deletes a topic; ``Answered`` follows. Only clients get this."""

    request: int
    name: str


class PublisherAdopted(msgspec.Struct, frozen=True):
    """The application opens a publisher that an earlier process may have left; only clients get this."""

    publisher: str
    records: tuple[Record, ...] = ()
    """What was made durable for the publisher: its events, what is confirmed, who had it last."""


class PublisherReleased(msgspec.Struct, frozen=True):
    """The application is done with a publisher; only clients get this."""

    publisher: str


class SuspectRequested(msgspec.Struct, frozen=True):
    """Believe that the peer has failed, rightly or not: the detector's mistakes, made on purpose (P0-07)."""

    peer: NodeId


class LeaveRequested(msgspec.Struct, frozen=True):
    """Leave the network for good; ``Stopped`` or ``LeaveRefused`` follows. Only brokers get this."""


class RemoveRequested(msgspec.Struct, frozen=True):
    """Remove a broker that is gone for good; ``RemovalAnswered`` follows. Only brokers get this."""

    node: NodeId


Input: TypeAlias = (
    SessionUp
    | SessionDown
    | ConnectFailed
    | MessageReceived
    | PublishRequested
    | SubscribeRequested
    | UnsubscribeRequested
    | CreateTopicRequested
    | DeleteTopicRequested
    | PublisherAdopted
    | PublisherReleased
    | SuspectRequested
    | LeaveRequested
    | RemoveRequested
)
