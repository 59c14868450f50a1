"""The window of a client: how much it may have published that is not confirmed.

It bounds what the client, every broker on the way and a slow subscriber have to keep. A confirmation makes
room, and a subscriber confirms what its application has room for: so a slow subscriber slows its
publishers, and nobody's memory grows."""

from __future__ import annotations

import asyncio


class Window:
    """Room for unconfirmed events, in events and in bytes."""

    def __init__(self, events: int, size: int) -> None:
        self._events = events
        self._size = size
        self._used_events = 0
        self._used_size = 0
        self._changed: asyncio.Future[None] | None = None

    @property
    def has_room(self) -> bool:
        """Whether one more event may go; one always may when nothing is under way."""
        return self._used_events == 0 or (self._used_events < self._events and self._used_size < self._size)

    def take(self, size: int) -> None:
        """An event goes out."""
        self._used_events += 1
        self._used_size += size

    def give_back(self, events: int, size: int) -> None:
        """Events are confirmed."""
        self._used_events -= events
        self._used_size -= size
        if self._changed is not None and self.has_room:
            self._changed.set_result(None)
            self._changed = None

    async def room(self) -> None:
        """Wait until there is room."""
        while not self.has_room:
            if self._changed is None:
                self._changed = asyncio.get_running_loop().create_future()
            await asyncio.shield(self._changed)

    def fail(self, error: Exception) -> None:
        """Nobody will ever make room."""
        if self._changed is not None:
            self._changed.set_exception(error)
            self._changed.exception()  # nobody may be waiting
            self._changed = None
