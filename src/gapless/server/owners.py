"""Who a connection of the transport belongs to: one that has not said who it is, a session, or nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gapless.core.model import NodeId
from gapless.server.connection import Connection
from gapless.wire.codec import WireMessage

if TYPE_CHECKING:
    from gapless.server.transport import Transport


class FirstMessage:
    """Owns a connection until its first message has come."""

    def __init__(
        self, then: Callable[[Connection, WireMessage], None], ended: Callable[[Connection, str], None]
    ) -> None:
        self._then = then
        self.ended = ended

    def received(self, connection: Connection, messages: list[WireMessage]) -> None:
        """Hand the first message on; whatever follows belongs to the new owner."""
        self._then(connection, messages[0])
        if len(messages) > 1 and connection.owner is not self:
            connection.owner.received(connection, messages[1:])


class Session:
    """Owns the connection of a session."""

    def __init__(self, transport: Transport, peer: NodeId) -> None:
        self._transport = transport
        self._peer = peer

    def received(self, connection: Connection, messages: list[WireMessage]) -> None:
        """Hand them to the transport."""
        self._transport.received(self._peer, connection, messages)

    def ended(self, connection: Connection, reason: str) -> None:
        """Tell the transport."""
        self._transport.session_ended(self._peer, connection, reason)


class Nobody:
    """Owns a connection that nobody listens to any more."""

    def __init__(self, ended: Callable[[Connection, str], None]) -> None:
        self.ended = ended

    def received(self, connection: Connection, messages: list[WireMessage]) -> None:
        """Ignore them."""
