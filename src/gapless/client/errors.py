"""What can go wrong for an application, and what to do about it."""

from __future__ import annotations


class GaplessError(Exception):
    """Base of all errors of the client."""


class NotConnectedError(GaplessError):
    """No broker could be reached, or the client is closed."""


class NameInUseError(NotConnectedError):
    """Another client of this name is connected. Choose another name, or take it over
    (``connect(…, take_over=True)``)."""


class NameTakenError(NotConnectedError):
    """Another client has taken this client's name: this one has ended."""


class WrongNetworkError(GaplessError):
    """What a publisher's name has stored belongs to another network. Nothing of it was published."""


class PublisherFenced(GaplessError):  # noqa: N818 - a name that programs rely on
    """Another client publishes under this publisher's name since later, with a store of its own. What was not
    confirmed stays in this one's store; use another name, or only one of the two."""


class TopicError(GaplessError):
    """The topic is not there, is there already, or cannot be had as asked."""


class PublishError(GaplessError):
    """The event cannot be published: its attributes or its size are not allowed. Nothing was published."""


class SubscribeError(GaplessError):
    """The subscription cannot be had as asked."""
