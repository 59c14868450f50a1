"""A client as a node: a leaf of the overlay that publishes and subscribes, and forwards nothing.

It runs the same sessions, frontier and failure detector as a broker (003 treats clients as nodes), so when
its broker fails it attaches to that broker's neighbours without a second reliability protocol.

What an application asks for can be wrong. ``check`` says so before it is handed over; a step takes requests
for good, and what has become wrong since (its topic was deleted meanwhile) does no harm.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from random import Random

from gapless.core.effects import PublisherTaken, Record, TopicDeleted, publisher_of
from gapless.core.events import (
    CreateTopicRequested,
    DeleteTopicRequested,
    Input,
    PublisherAdopted,
    PublisherReleased,
    PublishRequested,
    SubscribeRequested,
    UnsubscribeRequested,
)
from gapless.core.messages import CreateTopic, DeleteTopic
from gapless.core.model import Micros, SubscriptionId, Topic
from gapless.core.node import Node, NodeConfig
from gapless.core.orders.base import LeafOrder, parsed
from gapless.core.orders.best_effort import BestEffortLeaf
from gapless.core.orders.publisher import PublisherLeaf
from gapless.core.schema import Schema, SchemaError, check_attributes
from gapless.core.topics import LeafTopics
from gapless.core.topics.rules import check_name, check_topic
from gapless.selectors import SelectorError

ORDERS: tuple[type[LeafOrder], ...] = (BestEffortLeaf, PublisherLeaf)
REQUESTS_MAX = 1_024
"""Requests about topics that may wait for their answers."""


class Leaf(Node[LeafOrder]):
    """The overlay and the application's side of every order."""

    def __init__(
        self,
        config: NodeConfig,
        records: Iterable[Record],
        *,
        topics: Mapping[str, Topic] | None = None,
        rng: Random,
    ) -> None:
        if config.home is None:
            raise ValueError("a client needs a home broker")
        kept = list(records)
        taken = max((each.incarnation for each in kept if isinstance(each, PublisherTaken)), default=0)
        config = replace(config, least_incarnation=max(config.least_incarnation, taken + 1))
        self.topics: dict[str, Topic] = dict(topics or {})
        """The topics by name; unless some were given, as the brokers tell them."""
        orders = [partial(order, topics=self.topics, records=kept, limits=config.limits) for order in ORDERS]
        super().__init__(config, kept, orders=orders, rng=rng)
        self._told = self._add(
            LeafTopics(self.overlay, self._out, topics=self.topics, given=bool(topics), gone=self._topic_gone)
        )
        self._former: dict[str, Topic] = {}  # topics that were deleted
        self._subscriptions: dict[SubscriptionId, tuple[LeafOrder, str]] = {}
        self._publishers = dict.fromkeys(name for each in kept if (name := publisher_of(each)) is not None)

    @property
    def knows_topics(self) -> bool:
        """Whether this client knows which topics there are; ``TopicsChanged`` tells when it does."""
        return self._told.known

    @property
    def is_awaited(self) -> bool:
        """Whether publishers may wait for this client: the end of some subscription was not heard yet."""
        return not self._is_over and any(order.has_unheard_ends for order in self.orders.values())

    def _end_batch(self, now: Micros) -> None:
        for order in self.orders.values():
            if order.name_is_lost:
                self._name_taken(
                    f"another client named {self.overlay.me} is connected elsewhere in the network"
                )
                return

    # -- requests ----------------------------------------------------------------------------------------

    def _on_input(self, each: Input, now: Micros) -> None:
        if type(each) is PublishRequested:  # by far the most
            order = self._order(each.topic)
            self._publishers[each.publisher] = None
            order.publish(each.topic, each.publisher, each.contents, now)
            order.touched = True
        else:
            super()._on_input(each, now)

    def _on_request(self, request: Input, now: Micros) -> None:
        match request:
            case SubscribeRequested():
                self._subscribe(request, now)
            case UnsubscribeRequested(subscription=subscription):
                self._unsubscribe(subscription, now)
            case CreateTopicRequested(request=number, topic=declared):
                self._told.ask(CreateTopic(number, declared))
            case DeleteTopicRequested(request=number, name=name):
                self._told.ask(DeleteTopic(number, name))
            case PublisherAdopted():
                self._adopt(request, now)
            case PublisherReleased(publisher=publisher):
                self._release(publisher)
            case _:
                super()._on_request(request, now)

    def _order(self, topic: str) -> LeafOrder:
        """The order of a topic; what was asked for while it was being deleted goes the way it had."""
        declared = self.topics.get(topic) or self._former.get(topic)
        if declared is None:
            raise ValueError(f"there is no topic {topic!r}")
        return self.orders[declared.order]

    def _subscribe(self, request: SubscribeRequested, now: Micros) -> None:
        subscription, topic = request.subscription, request.topic
        if subscription in self._subscriptions:
            raise ValueError(f"there is a subscription {subscription!r} already")
        order = self._order(topic)
        if topic not in self.topics:
            self._out.append(TopicDeleted(topic, (subscription,)))
            return
        order.subscribe(subscription, topic, request.selector, now)
        order.touched = True
        self._subscriptions[subscription] = (order, topic)

    def _unsubscribe(self, subscription: SubscriptionId, now: Micros) -> None:
        """End it, if it has not ended with its topic."""
        order, _ = self._subscriptions.pop(subscription, (None, ""))
        if order is not None:
            order.unsubscribe(subscription, now)
            order.touched = True

    def _topic_gone(self, topic: Topic, replaced_by: Topic | None, now: Micros) -> None:
        """The topic was deleted, or is another one now: subscriptions to it end, and are told so."""
        self._former[topic.name] = topic
        ended = tuple(name for name, (_, where) in self._subscriptions.items() if where == topic.name)
        for subscription in ended:
            self._unsubscribe(subscription, now)
        if ended:
            self._out.append(TopicDeleted(topic.name, ended, replaced_by))

    def _adopt(self, request: PublisherAdopted, now: Micros) -> None:
        publisher = request.publisher
        if publisher in self._publishers:
            raise ValueError(f"publisher {publisher!r} is open already")
        self._publishers[publisher] = None
        records = [each for each in request.records if publisher_of(each) == publisher]
        for order in self.orders.values():
            order.adopt(publisher, records, now)
            order.touched = True

    def _release(self, publisher: str) -> None:
        """Forget a publisher; one that retains something stays until it does not, and is asked for again."""
        if not any(order.retains(publisher) for order in self.orders.values()):
            self._publishers.pop(publisher, None)
            for order in self.orders.values():
                order.release(publisher)

    # -- checks ------------------------------------------------------------------------------------------

    def check(self, request: Input) -> str | None:
        """What is wrong with a request of the application; ``None``: nothing."""
        match request:
            case PublishRequested():
                return self._check_publish(request)
            case SubscribeRequested(subscription=subscription, topic=topic, selector=selector):
                if subscription in self._subscriptions:
                    return f"there is a subscription {subscription!r} already"
                return (
                    check_name(subscription, "subscription")
                    or self._check_topic(topic)
                    or _check_selector(selector)
                )
            case UnsubscribeRequested(subscription=subscription):
                known = subscription in self._subscriptions
                return None if known else f"there is no subscription {subscription!r}"
            case CreateTopicRequested(request=number, topic=declared):
                return self._check_number(number) or check_topic(declared, self.orders)
            case DeleteTopicRequested(request=number, name=name):
                return self._check_number(number) or check_name(name)
            case PublisherAdopted(publisher=publisher, records=records):
                if publisher in self._publishers:
                    return f"publisher {publisher!r} is open already"
                return check_name(publisher, "publisher") or _check_records(publisher, records)
            case PublisherReleased(publisher=publisher):
                retaining = any(order.retains(publisher) for order in self.orders.values())
                return f"events of publisher {publisher!r} are not confirmed yet" if retaining else None
            case _:
                return None

    def _check_publish(self, request: PublishRequested) -> str | None:
        flaw = self._check_topic(request.topic)
        if flaw is None and any(order.is_fenced(request.publisher) for order in self.orders.values()):
            flaw = f"somebody else publishes as {request.publisher!r} since later"
        if flaw is None and request.publisher not in self._publishers:
            flaw = check_name(request.publisher, "publisher")
        if flaw is not None:
            return flaw
        schema = self.topics[request.topic].schema
        try:
            check = Schema.parse(schema).check if schema else check_attributes
            return next(filter(None, (check(attributes) for attributes, _ in request.contents)), None)
        except SchemaError as error:
            return f"the schema of topic {request.topic!r} cannot be read: {error}"

    def _check_topic(self, name: str) -> str | None:
        topic = self.topics.get(name)
        if topic is None:
            return f"topic {name!r} was deleted" if name in self._former else f"there is no topic {name!r}"
        if topic.order not in self.orders:
            return f"topic {name!r} has the order {str(topic.order)!r}, which this client does not know"
        return None

    def _check_number(self, number: int) -> str | None:
        if number in self._told.pending:
            return f"request {number} is not answered yet"
        full = len(self._told.pending) >= REQUESTS_MAX
        return f"{REQUESTS_MAX:,} requests wait for their answers already" if full else None


def _check_records(publisher: str, records: Iterable[Record]) -> str | None:
    for record in records:
        if publisher_of(record) != publisher:
            return f"{type(record).__name__} is no record of publisher {publisher!r}"
    return None


def _check_selector(selector: str) -> str | None:
    try:
        parsed(selector)
    except SelectorError as error:
        return str(error)
    return None
