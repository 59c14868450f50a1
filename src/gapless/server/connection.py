"""One TCP connection: frames in, frames out, two priorities, and a way to hold it up.

A connection knows nothing of sessions. Whoever owns it is told of messages and of its end, once."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections import deque
from collections.abc import Iterable
from typing import Protocol, cast

from gapless.core.model import Identity
from gapless.wire.codec import FRAME_MAX, FrameError, FrameReader, WireMessage, check_events, encode
from gapless.wire.control import VERSIONS, Goodbye

HIGH_WATER = 1 << 20
"""Low-priority messages wait while this many bytes have not been taken by the operating system."""
UNSENT_MAX = 256 << 20
"""A peer that leaves more bytes than this unread is given up; it gets later what it has not confirmed."""
LINGER_SECONDS = 2.0
"""How long a connection that was closed may take until the other end has read what is left."""
_RTT = struct.Struct("=68xI")  # where Linux keeps the round-trip time in tcp_info


class Owner(Protocol):
    """Who uses the connection."""

    def received(self, connection: Connection, messages: list[WireMessage]) -> None:
        """The next messages have come."""

    def ended(self, connection: Connection, reason: str) -> None:
        """Nothing comes any more."""


class Connection(asyncio.Protocol):
    """A connection; the transport sets its owner when it hands it on."""

    def __init__(self, owner: Owner, *, largest: int = FRAME_MAX, unsent_max: int = UNSENT_MAX) -> None:
        self.owner = owner
        self.identity: Identity | None = None
        """Who the other end is, as soon as there is a session."""
        self.is_client = False
        """Whether the other end is a client."""
        self.is_taken = False
        """Whether it ends because another client has taken this client's name."""
        self.via = ""
        """The proxy that this end dialed; empty: none."""
        self.opened = asyncio.get_running_loop().create_future()
        self.version = VERSIONS[0]
        self.frames_out = self.bytes_in = self.bytes_out = 0
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader(largest)
        self._unsent_max = unsent_max
        self._low: deque[WireMessage] = deque()
        self._is_full = False
        self._reason = ""
        self.peer_address = "?"
        """Where the other end is, for people."""
        self._held: list[bytes] | None = None  # what waits while the connection is held up
        self._relay: Connection | None = None  # the other half, where this one is half of a proxy

    # -- asyncio ---------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """TCP is there."""
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=HIGH_WATER)
        name = self._transport.get_extra_info("peername")
        if name:
            self.peer_address = f"{name[0]}:{name[1]}"
        sock = self._transport.get_extra_info("socket")
        if sock is not None and sock.family in (socket.AF_INET, socket.AF_INET6):
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.opened.done():
            self.opened.set_result(None)

    def data_received(self, data: bytes) -> None:
        """Bytes have come: hand on the messages that are complete."""
        self.bytes_in += len(data)
        if self._reason:
            return  # it is being closed, and only waits for the other end to have read why
        if self._relay is not None:
            self._relay.write(data)
            return
        try:
            messages = self._reader.feed(data)
            if self.is_client:
                check_events(messages)
        except FrameError as error:
            self.close(str(error))
            return
        if messages:
            self.owner.received(self, messages)

    def connection_lost(self, exc: Exception | None) -> None:
        """TCP is gone, or was closed from here."""
        self._transport = None
        self._low.clear()
        self.owner.ended(self, self._reason or (str(exc) if exc else "closed by the peer"))

    def pause_writing(self) -> None:
        """The operating system takes no more for now."""
        self._is_full = True
        if self._relay is not None:
            self._relay.pause_reading()

    def resume_writing(self) -> None:
        """It does again."""
        self._is_full = False
        if self._relay is not None:
            self._relay.resume_reading()
        self._send_low()

    # -- use -------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether anything can still be sent."""
        return self._transport is not None and not self._reason and not self._transport.is_closing()

    @property
    def rtt(self) -> float | None:
        """The round-trip time in seconds that the operating system measured, where it tells."""
        sock = self._transport.get_extra_info("socket") if self._transport is not None else None
        if sock is None or not hasattr(socket, "TCP_INFO"):
            return None
        try:
            info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _RTT.size)
        except OSError:
            return None
        return int(_RTT.unpack(info)[0]) / 1e6 if len(info) == _RTT.size else None

    @property
    def frames_in(self) -> int:
        """How many frames have come."""
        return self._reader.frames

    def introduce(self, identity: Identity) -> None:
        """The other end has said who it is: its frames may be as large as frames can be."""
        self.identity = identity
        self.is_client = identity.is_leaf
        self._reader.largest = FRAME_MAX

    @property
    def unsent(self) -> int:
        """How many bytes wait for the operating system."""
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def send(self, messages: Iterable[WireMessage]) -> None:
        """Send these now, in one write."""
        self.write(encode(messages, self.version))

    def send_low(self, message: WireMessage) -> None:
        """Send this when nothing else is waiting."""
        self._low.append(message)
        if len(self._low) == 1:
            asyncio.get_running_loop().call_soon(self._send_low)

    def _send_low(self) -> None:
        if self._low and self.is_open and not self._is_full:
            self.send((self._low.popleft(),))
            if self._low:
                asyncio.get_running_loop().call_soon(self._send_low)

    def write(self, data: bytes) -> None:
        """Send bytes that are frames already."""
        if self._held is not None:
            self._held.append(data)
        elif self._transport is not None and self.is_open:
            self.frames_out += 1
            self.bytes_out += len(data)
            self._transport.write(data)
            if self._is_full and self._transport.get_write_buffer_size() > self._unsent_max:
                self.abort("it does not read what it is sent")

    def close(self, reason: str, code: str = "") -> None:
        """End it after what was sent; the other end is told why, and ends it when it has read that.

        Who closes TCP while the other end still sends makes it lose what it has not read yet. So this end
        only says that nothing more comes, and goes on reading until the other end goes too."""
        if not self.is_open:
            return
        self.send((Goodbye(reason, code),))
        self._reason = reason
        transport = cast(asyncio.Transport, self._transport)
        if transport.can_write_eof():
            self.resume_reading()
            try:
                transport.write_eof()
            except OSError:  # the other end has reset it, and that was not read yet
                transport.abort()
        else:
            transport.close()
        asyncio.get_running_loop().call_later(LINGER_SECONDS, self.abort, reason)

    def abort(self, reason: str) -> None:
        """End it at once, as a crash would."""
        self._reason = self._reason or reason
        if self._transport is not None:
            self._transport.abort()

    def splice(self, other: Connection) -> None:
        """From now on pass bytes on to the other connection, unread."""
        self._relay = other
        other.write(self._reader.rest())

    # -- flow ------------------------------------------------------------------------------------------

    def pause_reading(self) -> None:
        """Let TCP hold the other end up."""
        if self._transport is not None and self._transport.is_reading():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        """Read on."""
        if self._transport is not None and self._held is None and not self._transport.is_reading():
            self._transport.resume_reading()

    def hold(self) -> None:
        """Make it an infinitely slow connection: nothing passes until ``release``."""
        if self._held is None:
            self._held = []
            self.pause_reading()

    def release(self) -> None:
        """Let pass what was held up, in order."""
        held, self._held = self._held, None
        for data in held or ():
            self.write(data)
        self.resume_reading()
