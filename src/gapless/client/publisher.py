"""A publisher: events out, receipts back."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import msgspec

from gapless.client.errors import NotConnectedError, PublishError, TopicError
from gapless.client.stream import Stream
from gapless.client.window import Window
from gapless.core.model import Topic
from gapless.core.schema import Schema, check_attributes

if TYPE_CHECKING:
    from gapless.client.client import Client

EVENT_MAX = 1 << 20
"""The most bytes that a payload may have."""
YIELD_EVERY = 256
"""So many events may be published without anybody else having a turn."""


class Receipt(msgspec.Struct, frozen=True, eq=False, gc=False):
    """One published event: ``await`` it to know that the network has it and will not lose it."""

    sequence: int
    """The number of the event among its publisher's events of the topic."""
    _stream: Stream

    @property
    def confirmed(self) -> bool:
        """Whether every reachable matching subscriber has it."""
        return self.sequence <= self._stream.confirmed

    def __await__(self) -> Generator[Any, None, Receipt]:
        if not self.confirmed:
            yield from self._stream.wait_confirmed(self.sequence).__await__()
        return self


class Publisher:
    """Publishes to one topic under one name; made by ``client.publisher``."""

    def __init__(self, client: Client, topic: str, name: str, window: Window, *, is_named: bool) -> None:
        self.topic = topic
        self.name = name
        self.is_named = is_named
        """Whether the name was chosen by the application, and outlives the process."""
        self.stream = Stream(window)
        self._check: Callable[[Mapping[str, Any]], str | None] = check_attributes
        self._declared: Topic | None = None
        self._client = client
        self._window = window
        self._is_open = False
        self._error: Exception | None = None

    @property
    def published(self) -> int:
        """The sequence of the last event."""
        return self.stream.published

    @property
    def confirmed(self) -> int:
        """All events up to this sequence are confirmed."""
        return self.stream.confirmed

    async def __aenter__(self) -> Self:
        await self._client.open_publisher(self)
        self._is_open = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self.flush()
        finally:
            await self.close()

    async def publish(self, attributes: Mapping[str, Any], payload: bytes = b"") -> Receipt:
        """Publish an event; waits only for room in the window."""
        self._check_open()
        problem = self._check(attributes) or _check_payload(payload)
        if problem is not None:
            raise PublishError(f"{self.topic}: {problem}")
        content = (_copied(attributes), bytes(payload))
        stream = self.stream
        if not self._window.has_room or stream.published % YIELD_EVERY == 0:
            await self._turn()
        self._client.hand_over(self.topic, self.name, content)
        return Receipt(stream.add(len(content[1])), stream)

    async def _turn(self) -> None:
        """Let others have a turn, and wait for room."""
        await asyncio.sleep(0)
        await self._window.room()
        self._check_open()

    def _check_open(self) -> None:
        if self._error is not None:
            raise self._error
        if not self._is_open:
            self._client.check_usable()
            raise NotConnectedError(f"the publisher {self.name} is not open; use it in `async with`")

    async def flush(self) -> None:
        """Wait until everything that was published is confirmed."""
        if self.published > self.confirmed:
            await self.stream.wait_confirmed(self.published)

    async def close(self) -> None:
        """Publish no more; what is not confirmed goes on, or is sent again by the next of this name."""
        if self._is_open:
            self._is_open = False
            self._client.close_publisher(self)

    # -- what the client tells -------------------------------------------------------------------------

    def begin(self, declared: Topic, stream: Stream) -> None:
        """Publish to the topic as it is declared now, from where the stream is."""
        self._error = None
        self._declared = declared
        self._check = Schema.parse(declared.schema).check if declared.schema else check_attributes
        self.stream = stream

    def fail(self, error: Exception) -> None:
        """The client has ended."""
        self._error = error

    def on_topic(self, declared: Topic | None) -> None:
        """This is declared under the topic's name now."""
        if declared != self._declared:
            self._error = TopicError(f"the topic {self.topic!r} was deleted")


def _check_payload(payload: object) -> str | None:
    if type(payload) is bytes and len(payload) <= EVENT_MAX:
        return None
    if not isinstance(payload, bytes | bytearray | memoryview):
        return f"a payload is bytes, not of type {type(payload).__name__}"
    if memoryview(payload).nbytes > EVENT_MAX:
        return f"a payload may have {EVENT_MAX:,} bytes, not {memoryview(payload).nbytes:,}"
    return None


def _copied(struct: Mapping[str, Any]) -> dict[str, Any]:
    """The application may change its dict as soon as ``publish`` has returned, and what is nested in it."""
    if dict not in map(type, struct.values()):
        return dict(struct)
    return {name: _copied(value) if type(value) is dict else value for name, value in struct.items()}
