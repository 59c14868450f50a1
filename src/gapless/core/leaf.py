"""A client as a node: a leaf of the overlay that publishes and subscribes, and forwards nothing.

It runs the same sessions, frontier and failure detector as a broker (003 treats clients as nodes), so when
its broker fails it attaches to that broker's neighbours without a second reliability protocol.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from random import Random

from gapless.core.effects import Record
from gapless.core.events import (
    Input,
    PublishRequested,
    SubscribeRequested,
    UnsubscribeRequested,
)
from gapless.core.model import Micros, SubscriptionId, Topic
from gapless.core.node import Node, NodeConfig
from gapless.core.orders.base import LeafOrder
from gapless.core.orders.best_effort import BestEffortLeaf
from gapless.core.orders.publisher import PublisherLeaf

ORDERS: tuple[type[LeafOrder], ...] = (BestEffortLeaf, PublisherLeaf)


class Leaf(Node[LeafOrder]):
    """The overlay and the application's side of every order."""

    def __init__(
        self, config: NodeConfig, records: Iterable[Record], *, topics: Mapping[str, Topic], rng: Random
    ) -> None:
        if config.home is None:
            raise ValueError("a client needs a home broker")
        kept = list(records)
        orders = [partial(order, topics=topics, records=kept) for order in ORDERS]
        super().__init__(config, kept, orders=orders, rng=rng)
        self._topics = topics
        self._order_of_subscription: dict[SubscriptionId, LeafOrder] = {}

    def _on_request(self, request: Input, now: Micros) -> None:
        match request:
            case PublishRequested(topic=topic):
                order = self._order(topic)
                order.publish(topic, request.publisher, request.attributes, request.payload, now)
                order.touched = True
            case SubscribeRequested(topic=topic, subscription=subscription):
                if subscription in self._order_of_subscription:
                    raise ValueError(f"there is a subscription {subscription!r} already")
                order = self._order(topic)
                order.subscribe(subscription, topic, request.selector, now)
                order.touched = True
                self._order_of_subscription[subscription] = order
            case UnsubscribeRequested(subscription=subscription):
                order = self._order_of_subscription.pop(subscription)
                order.unsubscribe(subscription, now)
                order.touched = True
            case _:
                super()._on_request(request, now)

    def _order(self, topic: str) -> LeafOrder:
        declared = self._topics.get(topic)
        if declared is None:
            raise ValueError(f"there is no topic {topic!r}")
        return self.orders[declared.order]
