"""A stream: the events of one publisher to one topic, as the client counts them.

The node numbers a stream's events in the order in which it is given them, from where an earlier process
stopped. The client counts along, so a receipt is only a number: it is confirmed once the confirmed beginning
of the stream has passed it. A stream outlives the publisher object: what was published is confirmed after
that was closed too, makes room in the window then, and a publisher of the same name goes on with it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable

from gapless.client.window import Window

EVENT_SIZE = 64
"""Bytes of the window that an event without payload takes."""


class Stream:
    """How far a stream is published, and how far it is confirmed."""

    __slots__ = ("_error", "_sizes", "_waiting", "_window", "confirmed", "published")

    def __init__(self, window: Window, confirmed: int = 0, retained: Iterable[int] = ()) -> None:
        """Begin, or go on after the confirmed events with payloads of these sizes, which are under way."""
        self.published = self.confirmed = confirmed
        self._window = window
        self._error: Exception | None = None
        self._sizes: deque[int] = deque()  # of the events that are not confirmed
        self._waiting: dict[asyncio.Future[None], int] = {}
        for size in retained:
            self.add(size)

    def add(self, payload: int) -> int:
        """An event with a payload of this size goes out; returns its sequence."""
        size = payload + EVENT_SIZE
        self._window.take(size)
        self._sizes.append(size)
        self.published += 1
        return self.published

    def on_confirmed(self, sequence: int) -> None:
        """The events up to this one are confirmed."""
        count = sequence - self.confirmed
        if count <= 0:
            return
        self.confirmed = sequence
        self._window.give_back(count, sum(self._sizes.popleft() for _ in range(count)))
        for waiter, waiting_for in self._waiting.items():
            if waiting_for <= sequence and not waiter.done():
                waiter.set_result(None)

    async def wait_confirmed(self, sequence: int) -> None:
        """Wait until the events up to this one are confirmed."""
        if sequence <= self.confirmed:
            return
        if self._error is not None:
            raise self._error
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[waiter] = sequence
        try:
            await waiter
        finally:
            del self._waiting[waiter]

    def give_up(self) -> None:
        """What is not confirmed needs no room in the window any more."""
        self._window.give_back(len(self._sizes), sum(self._sizes))
        self._sizes.clear()

    def fail(self, error: Exception) -> None:
        """Nothing more will be confirmed."""
        self._error = error
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(error)
