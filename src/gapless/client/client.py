"""A client of the network: ``gapless.connect`` and what can be done with it.

The first broker that answers becomes the client's home; from it the client learns who is near, so that it can
go on with that broker's neighbours when it fails."""

from __future__ import annotations

import asyncio
import itertools
import secrets
import time
from collections.abc import Generator
from random import Random
from types import TracebackType
from typing import Any, Self

from gapless.client.errors import (
    NameInUseError,
    NameTakenError,
    NotConnectedError,
    PublisherFenced,
    PublishError,
    SubscribeError,
    TopicError,
)
from gapless.client.journal import PublisherStores, positions
from gapless.client.publisher import Publisher
from gapless.client.refusals import NameRefusals
from gapless.client.stream import Stream
from gapless.client.subscription import Subscription
from gapless.client.window import Window
from gapless.core.effects import (
    Answered,
    Deliver,
    Effect,
    Live,
    NameTaken,
    Receipt,
    Reset,
    TopicDeleted,
    TopicsChanged,
)
from gapless.core.effects import PublisherFenced as Fenced
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
from gapless.core.leaf import Leaf
from gapless.core.model import BeyondDelta, Content, OrderName, Topic
from gapless.core.node import NodeConfig
from gapless.core.overlay.sessions import Timing
from gapless.core.topics.rules import check_name
from gapless.selectors import Selector
from gapless.server.addresses import AddressBook, parse_address
from gapless.server.driver import REDIAL_MOST, Driver
from gapless.server.inquiry import InquiryError, who
from gapless.server.transport import NAME_MAX
from gapless.storage import StoreError
from gapless.wire.control import Here

DEFAULT_PORT = 7400
TOPIC_SECONDS = 1.0
"""How long to wait for a topic that is not known yet."""
PUBLISH_MAX = 1024
"""The most events that are handed to the node in one request."""
NAME_SECONDS = 3.0
"""How long a client whose name is in use goes on trying: the other one may have died without a word, and is
suspected in less."""
WINDOW_EVENTS = 8192
WINDOW_BYTES = 32 << 20


def connect(
    url: str,
    *,
    name: str | None = None,
    data: str | None = None,
    window: int = WINDOW_EVENTS,
    timeout: float = 10.0,
    take_over: bool = False,
) -> Client:
    """A client of the network whose brokers listen at ``gapless://host:port,host:port…``.

    Use it with ``async with``, or ``await`` it and ``close`` it later. ``name`` is the name of the client
    (else a unique one is made), ``data`` the directory in which named publishers keep what is not confirmed
    (or ``postgresql://…``, or ``memory:`` to keep it no longer than the client; else
    ``$GAPLESS_PUBLISHERS``, else the user's state directory), ``window`` the most unconfirmed events.

    While another client of the name is connected to the same broker, ``NameInUseError`` is raised; with
    ``take_over`` that client ends instead, with ``NameTakenError``."""
    return Client(
        addresses_of(url), name=name, data=data, window=window, timeout=timeout, take_over=take_over
    )


def addresses_of(url: str) -> list[str]:
    """The addresses in ``gapless://host:port,host:port``; the port may be left out."""
    scheme, found, rest = url.partition("://")
    if found and scheme != "gapless":
        raise ValueError(f"{url!r} is no address of a gapless network; write gapless://host:port,host:port")
    addresses = [each.strip() for each in (rest if found else url).rstrip("/").split(",") if each.strip()]
    if not addresses:
        raise ValueError("which broker? write gapless://host:port, or several with commas between them")
    full = [each if ":" in each.rpartition("]")[2] else f"{each}:{DEFAULT_PORT}" for each in addresses]
    for each in full:
        parse_address(each)
    return full


class Client:
    """A connection to the network, whichever of its brokers carries it."""

    def __init__(
        self,
        addresses: list[str],
        *,
        name: str | None,
        data: str | None,
        window: int,
        timeout: float,
        take_over: bool = False,
    ) -> None:
        if window < 1:
            raise ValueError(f"the window must have room for one event at least, not {window}")
        self.name = name or f"client-{secrets.token_hex(6)}"
        problem = check_name(self.name, "client")
        if problem is not None or len(self.name) > NAME_MAX:
            raise ValueError(problem or f"the name of a client has at most {NAME_MAX} characters")
        self._addresses = addresses
        self._timeout = timeout
        self._take_over = take_over
        self._window = Window(window, WINDOW_BYTES)
        self._stores = PublisherStores(data)
        self._adopting = asyncio.Lock()
        self._adopted: set[str] = set()
        self._streams: dict[tuple[str, str], Stream] = {}
        self._publishers: dict[tuple[str, str], Publisher] = {}  # those that are open
        self._subscriptions: dict[str, Subscription] = {}
        self._requests: dict[int, asyncio.Future[str]] = {}
        self._numbers = itertools.count(1)
        self._driver: Driver | None = None
        self._leaf: Leaf | None = None
        self._topics_changed: asyncio.Future[None] | None = None
        self._error: Exception | None = None
        self._closing: asyncio.Task[None] | None = None  # another client has taken the name

    # -- opening and closing -----------------------------------------------------------------------------

    def __await__(self) -> Generator[Any, None, Client]:
        return self.open().__await__()

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def open(self) -> Client:
        """Find a broker and attach to it, unless that was done already."""
        self.check_usable()
        if self._driver is not None:
            return self
        here, address = await self._find_home()
        config = NodeConfig(
            node=self.name,
            delta=here.delta,
            home=here.node,
            least_incarnation=time.time_ns() // 1_000_000,
            take_over=self._take_over,
            timing=Timing(redial_most=REDIAL_MOST),
        )
        self._leaf = Leaf(config, (), topics={}, rng=Random(secrets.randbits(64)))
        book = AddressBook(here.book)
        book.learn(here.node, 0, address)
        self._driver = Driver(
            self._leaf,
            journal=self._stores,
            perform=self._perform,
            on_failure=self._fail,
            book=book,
            observer=NameRefusals(self._on_name_refused),
        )
        self._driver.start()
        try:
            async with asyncio.timeout(self._timeout):
                while not self._leaf.knows_topics:
                    await self._next_topics_change()
        except TimeoutError:
            await self.close()
            raise NotConnectedError(f"{here.node} at {address} does not let this client in") from None
        except BaseException:
            await self.close()
            raise
        return self

    async def _find_home(self) -> tuple[Here, str]:
        """The first broker that answers."""
        problems = []
        for address in self._addresses:
            try:
                return await who(address, self._timeout / len(self._addresses)), address
            except InquiryError as error:
                problems.append(str(error))
        raise NotConnectedError("no broker answers: " + "; ".join(problems))

    def _on_name_refused(self, reason: str) -> None:
        """Another client of this name is connected, or was until a moment ago."""
        asyncio.get_running_loop().call_later(NAME_SECONDS, self._give_up_name, reason)

    def _give_up_name(self, reason: str) -> None:
        if self._driver is not None and not self._node.knows_topics:
            self._end(NameInUseError(reason))

    async def close(self) -> None:
        """Leave the network: at once, if a broker hears of it, else after 1.5 seconds. Events that are not
        confirmed go on only from a named publisher."""
        if (driver := self._driver) is None:
            return
        for name in self._subscriptions:
            driver.request(UnsubscribeRequested(name))  # or publishers would wait for this client
        self._driver = None
        self._end(self._error or NotConnectedError(f"{self.name} is closed"))
        try:
            await driver.stop(f"{self.name} is closed")
        finally:
            await self._stores.close()

    def _fail(self, error: BaseException) -> None:
        self._end(NotConnectedError(f"{self.name} has stopped: {error}"))

    def _end(self, error: Exception) -> None:
        self._error = self._error or error
        self._window.fail(error)
        self._on_topics_changed()
        for publisher in self._publishers.values():
            publisher.fail(error)
        for stream in self._streams.values():
            stream.fail(error)
        for subscription in self._subscriptions.values():
            subscription.fail(error)
        for waiting in self._requests.values():
            if not waiting.done():
                waiting.set_exception(error)

    def check_usable(self) -> None:
        """Raise what ended the client, if something did."""
        if self._error is not None:
            raise self._error

    # -- topics ------------------------------------------------------------------------------------------

    async def create_topic(
        self,
        name: str,
        *,
        order: str = "publisher",
        repositories: int = 0,
        schema: str = "",
        beyond_delta: str = "hold",
    ) -> Topic:
        """Declare a topic to the whole network; a topic that is declared like this already is fine."""
        try:
            topic = Topic(name, OrderName(order), BeyondDelta(beyond_delta), repositories, schema)
        except ValueError as error:
            raise TopicError(str(error)) from None
        await self._ask(CreateTopicRequested(next(self._numbers), topic))
        return topic

    async def delete_topic(self, name: str) -> None:
        """Delete a topic; its subscriptions end."""
        await self._ask(DeleteTopicRequested(next(self._numbers), name))

    def topics(self) -> dict[str, Topic]:
        """The topics that there are, as far as the brokers have told."""
        return dict(self._node.topics)

    async def _ask(self, request: CreateTopicRequested | DeleteTopicRequested) -> None:
        self.check_usable()
        problem = self._node.check(request)
        if problem is not None:
            raise TopicError(problem)
        answer: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._requests[request.request] = answer
        self.request(request)
        try:
            async with asyncio.timeout(self._timeout):
                error = await answer
        except TimeoutError:
            raise NotConnectedError("no broker has answered; it may still be done") from None
        finally:
            del self._requests[request.request]
        if error:
            raise TopicError(error)

    async def _topic(self, name: str) -> Topic:
        """A topic that was declared at another broker may take a moment to be known here."""
        try:
            async with asyncio.timeout(min(TOPIC_SECONDS, self._timeout)):
                while name not in self._node.topics:
                    await self._next_topics_change()
        except TimeoutError:
            known = ", ".join(sorted(self._node.topics)) or "none"
            raise TopicError(f"there is no topic {name!r}; there are: {known}") from None
        return self._node.topics[name]

    async def _next_topics_change(self) -> None:
        if self._topics_changed is None:
            self._topics_changed = asyncio.get_running_loop().create_future()
        await asyncio.shield(self._topics_changed)
        self.check_usable()

    def _on_topics_changed(self) -> None:
        """Wake those who wait for a topic, or for the client's end."""
        if self._topics_changed is not None:
            self._topics_changed.set_result(None)
            self._topics_changed = None

    # -- publishing --------------------------------------------------------------------------------------

    def publisher(self, topic: str, *, name: str | None = None) -> Publisher:
        """A publisher of the topic; use it with ``async with``.

        A ``name`` survives reconnects and restarts: what an earlier process of this name had not confirmed is
        published first, exactly once. Only one client at a time may use a name. A publisher without a name
        ends when it is closed."""
        chosen = name if name is not None else f"{self.name}-{next(self._numbers)}"
        return Publisher(self, topic, chosen, self._window, is_named=name is not None)

    async def open_publisher(self, publisher: Publisher) -> None:
        """Let a publisher begin, or go on where an earlier one of its name stopped."""
        self.check_usable()
        declared = await self._topic(publisher.topic)
        if publisher.is_named:
            await self._adopt(publisher.name)
        elif publisher.published:
            raise PublishError("a publisher without a name ends when it is closed; make another one")
        key = (publisher.topic, publisher.name)
        if key in self._publishers:
            raise PublishError(f"this client has a publisher {publisher.name!r} of {publisher.topic} already")
        publisher.begin(declared, self._streams.setdefault(key, publisher.stream))
        self._publishers[key] = publisher

    async def _adopt(self, name: str) -> None:
        """A name has a store; the node goes on with what an earlier process left in it, of any topic."""
        async with self._adopting:
            if name in self._adopted:
                return
            problem = self._node.check(PublisherAdopted(name))
            if problem is not None:
                raise PublishError(problem)
            try:
                records = await self._stores.open(name, self.network)
            except StoreError as error:
                raise PublishError(f"the name {name!r} cannot be used: {error}") from error
            self.request(PublisherAdopted(name, records))
            self._adopted.add(name)
            for topic, (confirmed, retained) in positions(records).items():
                self._streams[topic, name] = Stream(self._window, confirmed, retained)

    def _on_fenced(self, name: str) -> None:
        """Somebody else is this publisher now, on all its topics."""
        error = PublisherFenced(
            f"another client publishes as {name!r} since later, with another store, and this one has ended:"
            " use another name, or only one client at a time"
        )
        for key, stream in self._streams.items():
            if key[1] == name:
                stream.fail(error)
                stream.give_up()
        for key, publisher in self._publishers.items():
            if key[1] == name:
                publisher.fail(error)

    def close_publisher(self, publisher: Publisher) -> None:
        """Let a publisher end; a name stays with this client until that is closed."""
        key = (publisher.topic, publisher.name)
        del self._publishers[key]
        self._forget_if_over(key, publisher.stream)

    def _forget_if_over(self, key: tuple[str, str], stream: Stream) -> None:
        """Nobody can go on with a stream without a name that is closed and confirmed."""
        is_over = key not in self._publishers and key[1] not in self._adopted
        if is_over and stream.confirmed == stream.published and self._error is None:
            del self._streams[key]
            self.request(PublisherReleased(key[1]))

    # -- subscribing -------------------------------------------------------------------------------------

    def subscribe(
        self, topic: str, selector: str = "", *, durable: str | None = None, ack: str = "auto"
    ) -> Subscription:
        """The events of the topic that the selector matches (all, when it is empty); use it with
        ``async with``, which waits until it is live."""
        if selector:
            Selector(selector)  # a bad one is the caller's mistake, here and now
        if durable is not None or ack != "auto":
            raise SubscribeError("durable topics are not built yet; leave `durable` and `ack` out")
        return Subscription(self, f"{self.name}/{next(self._numbers)}", topic, selector)

    async def open_subscription(self, subscription: Subscription) -> None:
        """Ask the network for it."""
        self.check_usable()
        await self._topic(subscription.topic)
        request = SubscribeRequested(subscription.name, subscription.topic, subscription.selector)
        problem = self._node.check(request)
        if problem is not None:
            raise SubscribeError(problem)
        self._subscriptions[subscription.name] = subscription
        self.request(request)

    def close_subscription(self, subscription: Subscription) -> None:
        """Let the network forget it."""
        if self._subscriptions.pop(subscription.name, None) is not None and self._error is None:
            self.request(UnsubscribeRequested(subscription.name))
        self.resume_if_room()

    # -- the node ----------------------------------------------------------------------------------------

    @property
    def network(self) -> str:
        """The id of the network; empty where no broker knows it."""
        return self._node.identity.network

    @property
    def _node(self) -> Leaf:
        if self._leaf is None:
            raise NotConnectedError("the client is not open; use it in `async with`, or await it")
        return self._leaf

    def request(self, each: Input) -> None:
        """Hand a request to the node."""
        if self._driver is None:
            raise NotConnectedError(f"{self.name} is closed")
        self._driver.request(each)

    def hand_over(self, topic: str, publisher: str, content: Content) -> None:
        """Hand an event to the node, with those of its publisher that wait to be handed over already."""
        last = self._driver.last_request if self._driver is not None else None
        if (
            type(last) is PublishRequested
            and last.publisher == publisher
            and last.topic == topic
            and len(last.contents) < PUBLISH_MAX
        ):
            last.contents.append(content)
        else:
            self.request(PublishRequested(topic, publisher, [content]))

    def resume_if_room(self) -> None:
        """Take more from the network when no subscription is full."""
        if self._driver is not None and not any(each.is_full for each in self._subscriptions.values()):
            self._driver.resume()

    def _perform(self, effect: Effect) -> None:
        if type(effect) is Deliver:  # by far the most
            subscription = self._subscriptions.get(effect.subscription)
            if subscription is not None:
                subscription.on_deliver(effect)
                if subscription.is_full and self._driver is not None:
                    self._driver.pause()
            return
        match effect:
            case Receipt(topic=topic, publisher=name, sequence=sequence):
                stream = self._streams[topic, name]
                stream.on_confirmed(sequence)
                self._forget_if_over((topic, name), stream)
            case Live(subscription=name):
                if name in self._subscriptions:
                    self._subscriptions[name].on_live(effect)
            case Reset(subscription=name):
                if name in self._subscriptions:
                    self._subscriptions[name].on_reset(effect)
            case Answered(request=number, error=error):
                if number in self._requests and not self._requests[number].done():
                    self._requests[number].set_result(error)
            case Fenced(publisher=name):
                self._on_fenced(name)
            case NameTaken(reason=reason):
                self._end(NameTakenError(f"{self.name} has ended: {reason}"))
                self._closing = asyncio.get_running_loop().create_task(self.close())
            case TopicsChanged():
                self._on_topics_changed()
                for publisher in self._publishers.values():
                    publisher.on_topic(self._node.topics.get(publisher.topic))
            case TopicDeleted(name=name, subscriptions=ended):
                for each in ended:
                    if each in self._subscriptions:
                        self._subscriptions.pop(each).fail(TopicError(f"the topic {name!r} was deleted"))
                self.resume_if_room()
            case _:
                raise TypeError(f"a client does not perform {type(effect).__name__}")
