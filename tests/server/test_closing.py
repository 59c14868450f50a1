"""How a connection ends: what was said last is read, however busy the other end is."""

from __future__ import annotations

import asyncio
import socket
import struct

from gapless.core.messages import Ping
from gapless.server.connection import Connection
from gapless.wire.codec import WireMessage
from gapless.wire.control import Goodbye, Refused

LIMIT = 10


class Listener:
    """Owns one end, and notes what it hears."""

    def __init__(self) -> None:
        self.heard: list[WireMessage] = []
        self.reason = ""
        self.over = asyncio.get_running_loop().create_future()

    def received(self, connection: Connection, messages: list[WireMessage]) -> None:
        self.heard += messages
        for each in messages:
            if isinstance(each, Goodbye):
                connection.abort(each.reason)

    def ended(self, connection: Connection, reason: str) -> None:
        self.reason = reason
        self.over.set_result(None)


async def pair() -> tuple[Connection, Connection, asyncio.Server]:
    loop = asyncio.get_running_loop()
    accepted: asyncio.Future[Connection] = loop.create_future()

    def accept() -> Connection:
        connection = Connection(Listener())
        connection.opened.add_done_callback(lambda _: accepted.set_result(connection))
        return connection

    server = await loop.create_server(accept, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    _, dialed = await loop.create_connection(lambda: Connection(Listener()), "127.0.0.1", port)
    return dialed, await accepted, server


def listener(connection: Connection) -> Listener:
    assert isinstance(connection.owner, Listener)
    return connection.owner


def test_last_words_are_read_by_an_end_that_is_sending() -> None:
    """The one that leaves has not read all; the other one sends before it reads."""

    async def main() -> None:
        leaving, busy, server = await pair()
        async with asyncio.timeout(LIMIT), server:
            leaving.pause_reading()
            busy.pause_reading()
            busy.send([Ping()] * 1000)
            leaving.send([Refused("last words")])
            leaving.close("enough")
            await asyncio.sleep(0.1)  # time for a connection to be closed too early
            busy.resume_reading()
            for _ in range(100):
                busy.send([Ping()] * 1000)
            await asyncio.gather(listener(leaving).over, listener(busy).over)
        assert listener(busy).heard == [Refused("last words"), Goodbye("enough")]
        assert listener(busy).reason == "enough"
        assert listener(leaving).reason == "enough"
        assert not listener(leaving).heard, "nobody listens any more"

    asyncio.run(main())


def test_an_end_that_has_reset_the_connection_is_left_at_once() -> None:
    """Nothing passes, so the reset was not noticed when this end closes too."""

    async def main() -> None:
        leaving, gone, server = await pair()
        async with asyncio.timeout(LIMIT), server:
            leaving.hold()
            transport = gone._transport
            assert transport is not None
            reset = struct.pack("ii", 1, 0)
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, reset)
            gone.abort("a crash")
            await listener(gone).over
            await asyncio.sleep(0.1)
            leaving.close("enough")
            assert not leaving.is_open
            await listener(leaving).over
        assert listener(leaving).reason == "enough"

    asyncio.run(main())


def test_an_end_that_does_not_go_is_left_after_a_while() -> None:
    async def main() -> None:
        leaving, deaf, server = await pair()
        async with asyncio.timeout(LIMIT), server:
            deaf.pause_reading()
            leaving.close("enough")
            leaving.send([Ping()])  # nothing is sent after a good-bye
            assert not leaving.is_open
            await listener(leaving).over
            deaf.resume_reading()
            await listener(deaf).over
        assert listener(deaf).heard == [Goodbye("enough")]

    asyncio.run(main())
