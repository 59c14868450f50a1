"""The interface of an order: what a node tells it, and what it may ask of the overlay.

An order has two sides. ``BrokerOrder`` forwards; ``LeafOrder`` serves the application of a client. Both are
told of sessions and messages in the order in which they happened, never nested, and answer with effects in
the node's common list. ``docs/architecture.md`` shows how publisher, causal and total order and durability
sit behind this interface.

The duties of the node that calls an order:

- ``session_up`` comes after the overlay's own first message on that session, before any message from it;
- ``frontier_changed`` comes before anything that happened later, so an order can repeat what is unconfirmed
  before it sends anything new (X-P0-22);
- a message is handed to exactly one order, the one that named its class in ``messages``;
- ``flush`` ends every batch that concerned the order: confirmations of a batch become ranges, events one
  message a peer.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, TypeVar

from gapless.core.effects import Effect, Record
from gapless.core.limits import Limits
from gapless.core.messages.overlay import Removal
from gapless.core.model import Content, Event, Micros, NodeId, OrderName, SubscriptionId, Topic
from gapless.core.overlay.overlay import Overlay
from gapless.selectors import Selector, SelectorError

T = TypeVar("T")


@lru_cache(maxsize=4096)
def parsed(selector: str) -> Selector:
    """The selector of a text. Selectors are immutable, so nodes of one process may share them."""
    return Selector(selector)


def is_selector(text: str) -> bool:
    """Whether the text is a selector. Clients check their own; only a hostile peer sends others."""
    try:
        parsed(text)
    except SelectorError:
        return False
    return True


def pieces(items: Sequence[T], most: int) -> Iterator[tuple[T, ...]]:
    """The items in order, in pieces that are not longer than so much."""
    for first in range(0, len(items), most):
        yield tuple(items[first : first + most])


def numbered(
    topic: str, publisher: str, first: int, contents: Iterable[Content], now: Micros
) -> tuple[Event, ...]:
    """The events that an application publishes now, from this sequence on."""
    return tuple(
        Event(topic, publisher, sequence, attributes, payload, now)
        for sequence, (attributes, payload) in enumerate(contents, first)
    )


class Part(ABC):
    """What a node is made of beside its overlay: an order, or its topics."""

    messages: ClassVar[tuple[type, ...]]
    """The message classes that belong to this part."""

    def __init__(self, overlay: Overlay, out: list[Effect]) -> None:
        self.overlay = overlay
        self.out = out
        self.touched = True
        """Whether the batch concerns this part, so that it must be flushed."""

    def session_up(self, peer: NodeId, now: Micros) -> None:
        """A session with the peer is established."""

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """The session with the peer is gone."""

    def frontier_changed(self, now: Micros) -> None:
        """Other sessions are active, or other nodes are down, in some branch."""

    def broker_removed(self, removal: Removal, now: Micros) -> None:
        """The centre has taken the place of a broker that is gone for good; ``frontier_changed`` follows."""

    @abstractmethod
    def message(self, peer: NodeId, message: Any, now: Micros) -> None:
        """Handle one of the part's own messages."""

    def deadline(self, now: Micros) -> None:
        """Do what is due."""

    def wake_at(self) -> Micros | None:
        """The earliest moment at which something will be due."""
        return None

    def flush(self, now: Micros) -> None:
        """Send what was gathered during the batch."""


class Order(Part):
    """What both sides of an order have in common."""

    name: ClassVar[OrderName]


class BrokerOrder(Order):
    """The forwarding side of an order."""

    @property
    def settled(self) -> bool:
        """Whether this broker, after a restart, knows what it must to be operational again."""
        return True

    @abstractmethod
    def why_not_leave(self) -> str | None:
        """What this broker still has to do for others, so that it cannot leave for good."""


class LeafOrder(Order):
    """The application's side of an order.

    ``topics`` are those that the client knows, ``records`` what an earlier incarnation of it made durable.
    """

    def __init__(
        self,
        overlay: Overlay,
        out: list[Effect],
        *,
        topics: Mapping[str, Topic],
        records: Iterable[Record],
        limits: Limits,
    ) -> None:
        super().__init__(overlay, out)
        self.topics = topics
        self.limits = limits
        self.recover(records)

    def recover(self, records: Iterable[Record]) -> None:
        """Go on where the earlier incarnation stopped."""

    @abstractmethod
    def publish(self, topic: str, publisher: str, contents: Sequence[Content], now: Micros) -> None:
        """The application publishes events."""

    @abstractmethod
    def adopt(self, publisher: str, records: Sequence[Record], now: Micros) -> None:
        """Go on with a publisher where an earlier process, perhaps of another client, stopped."""

    @abstractmethod
    def retains(self, publisher: str) -> bool:
        """Whether events of the publisher are not confirmed yet."""

    @property
    def name_is_lost(self) -> bool:
        """Whether another client, at another broker, keeps the name of this one."""
        return False

    def is_fenced(self, publisher: str) -> bool:
        """Whether somebody else publishes under this name since later."""
        return False

    @abstractmethod
    def release(self, publisher: str) -> None:
        """Forget a publisher of which nothing is retained."""

    @property
    def has_unheard_ends(self) -> bool:
        """Whether somebody may wait for this client because no broker knows that a subscription has ended."""
        return False

    @abstractmethod
    def subscribe(self, subscription: SubscriptionId, topic: str, selector: str, now: Micros) -> None:
        """The application subscribes; ``Live`` follows."""

    @abstractmethod
    def unsubscribe(self, subscription: SubscriptionId, now: Micros) -> None:
        """The application has enough; nothing is delivered after this."""
