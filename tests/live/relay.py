"""Links that can be cut: every broker is dialed through a relay, which can hold up what passes a link.

A broker is told to ``--advertise`` the address of its relay. The relay reads the first frame of a connection
to know who dials, passes everything on unchanged, and while a link is cut lets nothing pass in that
direction, neither bytes nor the end of a connection: an infinitely slow link. What waits goes on when it is
healed, in order. Relays run in a thread of their own, so that what a test does cannot slow them."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import TracebackType
from typing import Self

from gapless.wire.codec import FrameError, FrameReader, WireMessage
from gapless.wire.control import Hello

CHUNK = 1 << 16
Link = tuple[str, str]
"""From whom, to whom."""


class Relays:
    """The relays of a network, by the name of the broker that they stand before."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="relays", daemon=True)
        self._servers: list[asyncio.Server] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._cut: set[Link] = set()
        self._healed: asyncio.Event = asyncio.Event()
        self._passed_on: dict[Link, str] = {}  # who has been asked to pass a session on, between whom

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _close(self) -> None:
        for server in self._servers:
            server.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def add(self, broker: str, port: int) -> str:
        """A relay before the broker that listens at the port; returns what to advertise."""
        return asyncio.run_coroutine_threadsafe(self._listen(broker, port), self._loop).result(10)

    async def _listen(self, broker: str, port: int) -> str:
        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.create_task(self._serve(broker, port, reader, writer))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        self._servers.append(server)
        return f"127.0.0.1:{server.sockets[0].getsockname()[1]}"

    # -- cutting -----------------------------------------------------------------------------------------

    def cut(self, *links: Link) -> None:
        """Let nothing pass in these directions."""
        self._loop.call_soon_threadsafe(self._cut.update, links)

    def heal(self) -> None:
        """Let everything pass again."""

        def heal() -> None:
            self._cut.clear()
            self._healed.set()
            self._healed = asyncio.Event()

        self._loop.call_soon_threadsafe(heal)

    async def _passes(self, link: Link) -> None:
        while link in self._cut:
            await self._healed.wait()

    # -- passing on ----------------------------------------------------------------------------------------

    async def _serve(
        self, broker: str, port: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        asked: Link | None = None
        with suppress(OSError, FrameError):
            try:
                first, hello = await _first_frame(reader)
                dialer = ""
                if isinstance(hello, Hello):
                    dialer = hello.identity.node
                    wanted = (dialer, hello.target)
                    if hello.target != broker:
                        asked = wanted
                        self._passed_on[asked] = broker
                    else:  # a session that somebody passes on begins with the dialer's own words
                        dialer = self._passed_on.pop(wanted, dialer)
                await self._connect(port, first, reader, writer, (dialer, broker))
            finally:
                if asked is not None:
                    self._passed_on.pop(asked, None)
                writer.transport.abort()

    async def _connect(
        self,
        port: int,
        first: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        link: Link,
    ) -> None:
        await self._passes(link)
        back, forth = await asyncio.open_connection("127.0.0.1", port)
        try:
            forth.write(first)
            await asyncio.gather(
                self._pump(reader, forth, link), self._pump(back, writer, (link[1], link[0]))
            )
        finally:
            forth.transport.abort()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, link: Link) -> None:
        """Pass on what comes, and then that no more comes."""
        with suppress(OSError):
            while data := await reader.read(CHUNK):
                await self._passes(link)
                writer.write(data)
                await writer.drain()
        await self._passes(link)
        writer.close()


async def _first_frame(reader: asyncio.StreamReader) -> tuple[bytes, WireMessage | None]:
    """The bytes up to the first message, and the message; ``None``: the connection ends before it."""
    frames, first = FrameReader(), b""
    while data := await reader.read(CHUNK):
        first += data
        messages = frames.feed(data)
        if messages:
            return first, messages[0]
    return first, None
