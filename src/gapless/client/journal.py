"""The stores of a client's named publishers: what was published and is not confirmed, over restarts.

Each name has a store of its own, so that a name can be used by another process later, and by one at a time
only. A store belongs to the network in which its name was used first: an event that was meant for one network
is never published in another. Publishers without a name need none: their events end with the process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from gapless.client.errors import WrongNetworkError
from gapless.core.effects import EventsConfirmed, EventsRetained, NetworkBound, Record, publisher_of
from gapless.core.model import NodeId
from gapless.core.names import short
from gapless.storage import Store, changes, open_store, restored
from gapless.wire.control import Address

FILE_NAME_MAX = 200


def default_place() -> Path:
    """Where named publishers keep what is not confirmed, unless the application says so."""
    named = os.environ.get("GAPLESS_PUBLISHERS")
    if named:
        return Path(named)
    state = os.environ.get("XDG_STATE_HOME")
    return (Path(state) if state else Path.home() / ".local" / "state") / "gapless"


class PublisherStores:
    """The stores that are open; the journal of a client's driver."""

    def __init__(self, place: str | None) -> None:
        self._place = place
        self._stores: dict[str, Store] = {}
        self._thread: ThreadPoolExecutor | None = None

    async def open(self, publisher: str, network: str) -> tuple[Record, ...]:
        """Open the store of a name in this network, unless it is open; returns what an earlier process left
        there."""
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, "gapless-store")
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._open, publisher, network)

    def _open(self, publisher: str, network: str) -> tuple[Record, ...]:
        """In the thread, so that it is closed in the end also when nobody waits for it any more."""
        if publisher not in self._stores:
            node = f"publisher {publisher}"  # a broker of that name may use the same database
            store = open_store(self._place_of(publisher), node)
            try:
                _bind(store, publisher, network)
            except BaseException:
                store.close()
                raise
            self._stores[publisher] = store
        kept = restored(self._stores[publisher])
        return tuple(each for each in kept if not isinstance(each, NetworkBound))

    def _place_of(self, publisher: str) -> str | Path:
        if self._place is not None and (self._place == "memory:" or "://" in self._place):
            return self._place
        base = Path(self._place) if self._place is not None else default_place()
        return base / "publishers" / file_name(publisher)

    async def close(self) -> None:
        """Let others have the names, after what is being opened or written."""
        thread, self._thread = self._thread, None
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._close)
            thread.shutdown(wait=False)

    def _close(self) -> None:
        for store in self._stores.values():
            store.close()
        self._stores.clear()

    # -- the journal of the driver -----------------------------------------------------------------------

    def select(self, records: list[Record]) -> list[Record]:
        """What concerns a named publisher; a client's own incarnation and links end with the process."""
        return [each for each in records if publisher_of(each) in self._stores] if self._stores else []

    async def append(self, records: list[Record]) -> None:
        """Make them durable, a batch a store."""
        by_store: dict[str, list[Record]] = {}
        for record in records:
            by_store.setdefault(publisher_of(record) or "", []).append(record)
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._thread, self._write, by_store)

    def _write(self, by_store: dict[str, list[Record]]) -> None:
        for publisher, records in by_store.items():
            store = self._stores.get(publisher)
            if store is not None:
                store.write(changes(records))

    def learned(self, book: dict[NodeId, Address]) -> None:
        """A client finds the network by the addresses that the application gives it."""


def _bind(store: Store, publisher: str, network: str) -> None:
    """Let the store belong to the network, unless it belongs to another one."""
    bound = next((each.network for each in restored(store) if isinstance(each, NetworkBound)), "")
    if not bound and network:
        store.write(changes([NetworkBound(network)]))
    elif bound != network:
        raise WrongNetworkError(
            f"the name {publisher!r} belongs to network {short(bound)} in {store.place}, and this network is "
            f"{short(network)}: choose another place with `data` (--data), or another name; or remove that "
            "store, and what it has not published is lost"
        )


def positions(records: Iterable[Record]) -> dict[str, tuple[int, list[int]]]:
    """Of each topic of a publisher: how far it is confirmed, and the payload sizes of what is not."""
    found: dict[str, tuple[int, list[int]]] = {}
    for record in records:
        if isinstance(record, EventsConfirmed):
            found[record.topic] = (record.sequence, [])
        elif isinstance(record, EventsRetained):
            sizes = found.setdefault(record.events[0].topic, (0, []))[1]
            sizes += [len(event.payload) for event in record.events]
    return found


def file_name(publisher: str) -> str:
    """A name for the directory of a publisher that is no path, and no longer than file systems allow."""
    quoted = quote(publisher, safe=" ").replace(".", "%2E")
    if len(quoted) <= FILE_NAME_MAX:
        return quoted
    return f"{quoted[: FILE_NAME_MAX // 2]}-{sha256(publisher.encode()).hexdigest()}"
