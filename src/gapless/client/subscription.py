"""A subscription: an async iterator of events, and the moment from which its promise holds.

What the application has not taken waits in a short queue. When that is full the client takes nothing more
from the network, nothing more is confirmed, and the publishers' windows close: the slowest subscriber sets
the pace, and nobody's memory grows."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from types import TracebackType
from typing import TYPE_CHECKING, Self

import msgspec

from gapless.client.errors import SubscribeError
from gapless.client.events import Event, Item, Reset, starting_cut
from gapless.core.effects import Deliver, Live
from gapless.core.effects import Reset as CoreReset
from gapless.core.model import Event as CoreEvent
from gapless.core.model import Partition

if TYPE_CHECKING:
    from gapless.client.client import Client

QUEUE_MAX = 1024
"""How many events may wait for the application before the publishers are slowed."""


class Marked(msgspec.Struct, frozen=True, gc=False):
    """An event that is delivered beyond its promise."""

    event: CoreEvent


class Subscription:
    """The events of a topic that a selector matches; made by ``client.subscribe``.

    ``async with`` waits until the subscription is live. Iterating yields :class:`Event`, and :class:`Reset`
    where a promise was lost and begins anew."""

    def __init__(self, client: Client, name: str, topic: str, selector: str) -> None:
        self.name = name
        self.topic = topic
        self.selector = selector
        self.start: dict[str, int] = {}
        """The starting cut: the first promised sequence of each publisher that was there, or is reached
        later."""
        self.latency: float | None = None
        """Seconds from subscribing to live."""
        self.covered_by: str | None = None
        """The subscription that made this one live early, on topics in causal order."""
        self.unreachable: tuple[Partition, ...] = ()
        """Partitions whose publishers are not promised for now."""
        self._client = client
        self._queue: deque[CoreEvent | Marked | Reset] = deque()
        self._waiters: set[asyncio.Future[None]] = set()
        self._live: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._asked_at = 0.0
        self._was_entered = False
        self._error: Exception | None = None
        self._is_open = False

    async def __aenter__(self) -> Self:
        if self._was_entered:
            raise SubscribeError("a subscription can be entered once; make another with `client.subscribe`")
        self._was_entered = True
        self._asked_at = time.perf_counter()
        await self._client.open_subscription(self)
        self._is_open = True
        try:
            await self._live
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Item:
        queue = self._queue
        while not queue:
            if self._error is not None:
                raise self._error
            if not self._is_open:
                raise StopAsyncIteration
            await self._next_change()
        item = queue.popleft()
        if len(queue) == QUEUE_MAX // 2:
            self._client.resume_if_room()
        if isinstance(item, CoreEvent):
            return _event(item)
        return _event(item.event, best_effort=True) if isinstance(item, Marked) else item

    async def _next_change(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)

    async def close(self) -> None:
        """End the subscription; nothing is delivered after this."""
        if self._is_open:
            self._is_open = False
            self._queue.clear()
            self._client.close_subscription(self)
            self._wake()

    # -- what the client tells -------------------------------------------------------------------------

    @property
    def is_full(self) -> bool:
        """Whether the application has enough to do."""
        return len(self._queue) >= QUEUE_MAX

    def on_live(self, live: Live) -> None:
        """The promise holds, or reaches farther than before."""
        self.unreachable = live.unreachable
        self.start = starting_cut(live.start) | self.start
        if not self._live.done():
            self.latency = time.perf_counter() - self._asked_at
            self._live.set_result(None)

    def on_deliver(self, deliver: Deliver) -> None:
        """The next events."""
        self._queue.extend(map(Marked, deliver.events) if deliver.best_effort else deliver.events)
        if self._waiters:
            self._wake()

    def on_reset(self, reset: CoreReset) -> None:
        """The promise begins anew."""
        self.start |= starting_cut(reset.start)
        self._queue.append(Reset(reset.publishers, starting_cut(reset.start)))
        self._wake()

    def fail(self, error: Exception) -> None:
        """The client is gone, or the topic is."""
        self._error = error
        if not self._live.done():
            self._live.set_exception(error)
            self._live.exception()  # nobody may be waiting
        self._wake()

    def _wake(self) -> None:
        for waiter in self._waiters:
            if not waiter.done():
                waiter.set_result(None)


def _event(event: CoreEvent, *, best_effort: bool = False) -> Event:
    return Event(
        event.topic,
        event.attributes,
        event.payload,
        event.publisher,
        event.sequence,
        event.published_at / 1e6,
        best_effort,
    )
