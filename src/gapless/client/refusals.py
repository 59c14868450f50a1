"""How a client learns that a broker refuses it because of its name."""

from __future__ import annotations

from collections.abc import Callable

from gapless.core.model import NodeId, Refusal
from gapless.server.observer import Observer


class NameRefusals(Observer):
    """Tells a client when a broker refuses it for the first time because of its name."""

    def __init__(self, refused: Callable[[str], None]) -> None:
        self._refused = refused
        self._is_told = False

    def connect_failed(self, peer: NodeId, reason: str, refusal: Refusal | None = None) -> None:
        """A dial was not answered with a session."""
        if refusal is Refusal.NAME and not self._is_told:
            self._is_told = True
            self._refused(reason)
