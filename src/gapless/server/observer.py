"""What a driver tells about its work to whoever wants to know: nothing of it changes what the driver does.

The methods are called once a batch, a frame or a session, never once an event."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gapless.core.messages import Message
from gapless.core.model import Identity, NodeId, Refusal
from gapless.server.connection import Connection


class Observer:
    """Wants to know nothing. Brokers have one that counts and logs (``BrokerObserver``)."""

    def session_up(self, identity: Identity, connection: Connection, *, dialed: bool) -> None:
        """A session is there."""

    def session_down(self, peer: NodeId, reason: str) -> None:
        """A session is gone, whoever ended it."""

    def connect_failed(self, peer: NodeId, reason: str, refusal: Refusal | None = None) -> None:
        """A dial found nobody, or somebody who refused."""

    def refused(self, who: str, reason: str) -> None:
        """Somebody who wanted something was sent away."""

    def received(self, peer: NodeId, messages: Sequence[Message]) -> None:
        """Messages have come on a session."""

    def sent(self, peer: NodeId, messages: Sequence[Message]) -> None:
        """Messages were sent on a session."""

    def stepped(self, inputs: int, seconds: float) -> None:
        """The node has made a step."""

    def performed(self) -> None:
        """The effects of a batch have been performed, and its records are durable."""

    def status(self) -> dict[str, Any]:
        """How the node is; see :mod:`gapless.server.status`."""
        return {}
