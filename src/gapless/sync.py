"""The same API, blocking, for scripts: ``from gapless.sync import connect``.

A thread runs the event loop; every call hands its work to it and waits for the outcome."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from concurrent.futures import CancelledError
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

import gapless.client.client as asynchronous
from gapless.client.errors import NotConnectedError
from gapless.client.events import Item
from gapless.client.network import Network as AsyncNetwork
from gapless.client.publisher import Publisher as AsyncPublisher
from gapless.client.publisher import Receipt as AsyncReceipt
from gapless.client.subscription import Subscription as AsyncSubscription
from gapless.core.model import Partition, Topic

T = TypeVar("T")


class _Loop:
    """An event loop in a thread of its own."""

    def __init__(self) -> None:
        self._running = threading.Event()
        self._thread = threading.Thread(
            target=lambda: asyncio.run(self._serve()), name="gapless", daemon=True
        )
        self._thread.start()
        self._running.wait()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._closing = asyncio.Event()
        self._running.set()
        await self._closing.wait()

    def run(self, work: Coroutine[Any, Any, T], timeout: float | None = None) -> T:
        """Wait for the outcome; ``TimeoutError`` gives the work up."""
        if not self._running.is_set():
            work.close()
            raise NotConnectedError("the client is closed")
        future = asyncio.run_coroutine_threadsafe(_within(timeout, work), self._loop)
        try:
            return future.result()
        except CancelledError:
            raise NotConnectedError("the client is closed") from None
        except BaseException:
            future.cancel()
            raise

    def call(self, work: Callable[[], T]) -> T:
        """Do something there that takes no time."""

        async def done() -> T:
            return work()

        return self.run(done())

    def close(self) -> None:
        """End the thread; who waits for something is told."""
        self._running.clear()
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join()

    def close_after(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this, and end the thread whatever comes of it."""
        try:
            self.run(work)
        finally:
            self.close()

    def finish(self, work: Coroutine[Any, Any, None]) -> None:
        """Do this, unless it is too late."""
        with suppress(NotConnectedError):
            self.run(work)


async def _within(timeout: float | None, work: Coroutine[Any, Any, T]) -> T:
    """In the loop, so that work is either done or given up, never both."""
    async with asyncio.timeout(timeout):
        return await work


class _EndedError(Exception):
    """There is no next event; a coroutine cannot raise ``StopAsyncIteration`` itself."""


class _Managed:
    """Something with a beginning and an end, used with ``with``."""

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def open(self) -> None:
        """Begin."""
        raise NotImplementedError

    def close(self) -> None:
        """End."""
        raise NotImplementedError


def connect(url: str, **options: Any) -> Client:
    """A client of the network; options are those of ``gapless.connect``. Use it with ``with``."""
    return Client(lambda: asynchronous.connect(url, **options))


class Client(_Managed):
    """See :class:`gapless.client.client.Client`."""

    def __init__(self, make: Callable[[], asynchronous.Client]) -> None:
        self._make = make
        self._loop: _Loop | None = None
        self._client: asynchronous.Client | None = None

    def open(self) -> None:
        """Find a broker and attach to it, unless that was done already."""
        if self._loop is not None:
            return
        self._loop = loop = _Loop()
        try:
            self._client = loop.call(self._make)
            loop.run(self._client.open())
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the network."""
        loop, self._loop = self._loop, None
        if loop is not None:
            client, self._client = self._client, None
            loop.close_after(client.close()) if client is not None else loop.close()

    def _opened(self) -> tuple[asynchronous.Client, _Loop]:
        if self._client is None or self._loop is None:
            raise NotConnectedError("the client is not open; use it in `with`")
        return self._client, self._loop

    @property
    def name(self) -> str:
        """The name under which the network knows it."""
        return self._opened()[0].name

    @property
    def network(self) -> str:
        """The id of the network; empty where no broker knows it."""
        client, loop = self._opened()
        return loop.call(lambda: client.network)

    def create_topic(self, name: str, **declaration: Any) -> Topic:
        """Declare a topic to the whole network."""
        client, loop = self._opened()
        return loop.run(client.create_topic(name, **declaration))

    def delete_topic(self, name: str) -> None:
        """Delete a topic; its subscriptions end."""
        client, loop = self._opened()
        loop.run(client.delete_topic(name))

    def topics(self) -> dict[str, Topic]:
        """The topics that there are."""
        client, loop = self._opened()
        return loop.call(client.topics)

    def publisher(self, topic: str, *, name: str | None = None) -> Publisher:
        """A publisher of the topic; use it with ``with``."""
        client, loop = self._opened()
        return Publisher(loop, client.publisher(topic, name=name))

    def subscribe(
        self, topic: str, selector: str = "", *, durable: str | None = None, ack: str = "auto"
    ) -> Subscription:
        """The events that the selector matches; use it with ``with``, which waits until it is live."""
        client, loop = self._opened()
        return Subscription(
            loop, loop.call(lambda: client.subscribe(topic, selector, durable=durable, ack=ack))
        )


class Receipt:
    """One published event."""

    def __init__(self, loop: _Loop, receipt: AsyncReceipt) -> None:
        self._loop = loop
        self._receipt = receipt
        self.sequence = receipt.sequence
        """The number of the event among its publisher's events of the topic."""

    @property
    def confirmed(self) -> bool:
        """Whether every reachable matching subscriber has it."""
        return self._receipt.confirmed

    def wait(self, timeout: float | None = None) -> Receipt:
        """Wait until it is confirmed."""

        async def confirmed() -> None:
            await self._receipt

        self._loop.run(confirmed(), timeout)
        return self


class Publisher(_Managed):
    """See :class:`gapless.client.publisher.Publisher`."""

    def __init__(self, loop: _Loop, publisher: AsyncPublisher) -> None:
        self._loop = loop
        self._publisher = publisher
        self.topic = publisher.topic
        self.name = publisher.name

    @property
    def published(self) -> int:
        """The sequence of the last event that was published."""
        return self._publisher.published

    @property
    def confirmed(self) -> int:
        """All events up to this sequence are confirmed."""
        return self._publisher.confirmed

    def open(self) -> None:
        """Begin, or go on where an earlier publisher of the name stopped."""
        self._loop.run(self._publisher.__aenter__())

    def close(self) -> None:
        """Publish no more."""
        self._loop.finish(self._publisher.close())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self.flush()
        finally:
            self.close()

    def publish(self, attributes: Mapping[str, Any], payload: bytes = b"") -> Receipt:
        """Publish an event; waits only for room in the window."""
        return Receipt(self._loop, self._loop.run(self._publisher.publish(attributes, payload)))

    def flush(self, timeout: float | None = None) -> None:
        """Wait until everything that was published is confirmed."""
        self._loop.run(self._publisher.flush(), timeout)


class Subscription(_Managed):
    """See :class:`gapless.client.subscription.Subscription`."""

    def __init__(self, loop: _Loop, subscription: AsyncSubscription) -> None:
        self._loop = loop
        self._subscription = subscription
        self.name = subscription.name
        self.topic = subscription.topic
        self.selector = subscription.selector

    def open(self) -> None:
        """Wait until the subscription is live."""
        self._loop.run(self._subscription.__aenter__())

    def close(self) -> None:
        """End the subscription."""
        self._loop.finish(self._subscription.close())

    @property
    def start(self) -> dict[str, int]:
        """The starting cut: the first promised sequence of each publisher that was there."""
        return self._subscription.start

    @property
    def latency(self) -> float | None:
        """Seconds from subscribing to live."""
        return self._subscription.latency

    @property
    def covered_by(self) -> str | None:
        """The subscription that made this one live early."""
        return self._subscription.covered_by

    @property
    def unreachable(self) -> tuple[Partition, ...]:
        """Partitions whose publishers are not promised for now."""
        return self._subscription.unreachable

    def next(self, timeout: float | None = None) -> Item:
        """The next event, or reset; ``TimeoutError`` when none comes in time, and nothing is lost by it."""

        async def following() -> Item:
            try:
                return await anext(self._subscription)
            except StopAsyncIteration:
                raise _EndedError("the subscription is closed") from None

        return self._loop.run(following(), timeout)

    def __iter__(self) -> Iterator[Item]:
        while True:
            try:
                item = self.next()
            except _EndedError:
                return
            yield item


class Network(_Managed):
    """See :class:`gapless.client.network.Network`: a broker network in a thread of this process."""

    def __init__(
        self, brokers: int = 3, fanout: int = 2, delta: int = 1, *, data: str | Path | None = None
    ) -> None:
        self._network = AsyncNetwork(brokers, fanout, delta, data=data)
        self._loop: _Loop | None = None
        self._clients: list[Client] = []

    def open(self) -> None:
        """Start the brokers."""
        self._loop = _Loop()
        try:
            self._loop.run(self._network.start())
        except BaseException:
            self._loop.close()
            raise

    def close(self) -> None:
        """Close the clients that were connected here and stop the brokers."""
        loop, self._loop = self._loop, None
        if loop is not None:
            try:
                for client in self._clients:
                    client.close()
            finally:
                loop.close_after(self._network.stop())

    @property
    def url(self) -> str:
        """What to connect to, blocking or not, from this process or another one."""
        return self._network.url

    def address(self, broker: int) -> str:
        """Where a broker listens, also while it is down."""
        return self._network.address(broker)

    def connect(
        self, broker: int = 0, *, name: str | None = None, data: str | None = None, take_over: bool = False
    ) -> Client:
        """A blocking client whose home is that broker."""
        url, place = f"gapless://{self._network.address(broker)}", data or self._network.publishers
        client = connect(url, name=name, data=place, take_over=take_over)
        client.open()
        self._clients.append(client)
        return client

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        if self._loop is None:
            work.close()
            raise RuntimeError("the network is not running; use it in `with`")
        self._loop.run(work)

    def kill(self, broker: int) -> None:
        """Crash a broker."""
        self._run(self._network.kill(broker))

    def restart(self, broker: int) -> None:
        """Start a broker again from its store."""
        self._run(self._network.restart(broker))

    def cut(self, a: int, b: int) -> None:
        """Let nothing pass between two brokers."""
        self._run(self._network.cut(a, b))

    def heal(self, a: int, b: int) -> None:
        """Let everything pass again."""
        self._run(self._network.heal(a, b))
