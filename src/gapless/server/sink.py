"""Who uses the sessions of a transport, as the transport sees it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from gapless.core.messages import Message
from gapless.core.model import Identity, NodeId, Refusal
from gapless.server.connection import Connection
from gapless.wire.control import Address


class Sink(Protocol):
    """Who uses the sessions: the driver of a node."""

    def session_up(self, identity: Identity, connection: Connection, *, dialed: bool) -> None:
        """A session is there."""

    def session_down(self, peer: NodeId, reason: str, *, taken: bool = False) -> None:
        """The session with the peer is gone; ``taken``: another client has taken this one's name."""

    def connect_failed(self, peer: NodeId, reason: str, refusal: Refusal | None = None) -> None:
        """A dial found nobody, or somebody who refused."""

    def refused(self, who: str, reason: str) -> None:
        """Somebody who wanted something was sent away."""

    def messages(self, peer: NodeId, messages: Sequence[Message]) -> None:
        """The next messages of the session with the peer."""

    def learned(self, book: dict[NodeId, Address]) -> None:
        """Addresses that were not known before."""

    def near(self) -> list[NodeId]:
        """Nodes whose addresses a peer may need."""

    def status(self) -> dict[str, Any]:
        """How the node is."""

    def remove(self, node: NodeId, answer: Callable[[str], None]) -> None:
        """An operator wants a broker to be removed; answer with what stands against it, or nothing."""
