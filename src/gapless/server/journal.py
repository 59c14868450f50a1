"""The journal of a broker: its records in a store, written by one thread.

A batch is one ``write``, so one sync. Addresses of the neighbourhood are kept beside the records, so that a
broker that restarts finds its neighbours wherever they were; losing one costs nothing but a question. When
there is no room in the store, the journal waits for it: meanwhile the broker makes no step, its peers go
round it, and nothing is lost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import TypeVar

import msgspec

from gapless.core.effects import LinkAdded, Record
from gapless.core.model import NodeId
from gapless.server.logs import Log
from gapless.storage import (
    Change,
    Delete,
    MemoryStore,
    Put,
    Store,
    StoreError,
    StoreFullError,
    changes,
    restored,
)
from gapless.wire.control import Address

ADDRESS = "address "
MEMBERSHIP = "membership"
ROOM_SECONDS = 1.0
"""How long to wait before looking for room again."""

T = TypeVar("T")
_encode = msgspec.msgpack.Encoder().encode
_entry = msgspec.msgpack.Decoder(tuple[NodeId, int, str])


class Membership(msgspec.Struct, frozen=True):
    """What the store of a broker says of the network that it belongs to."""

    delta: int
    founder: bool
    """It began the network, so it is a member although it joined nobody."""


_membership = msgspec.msgpack.Decoder(Membership)


class Journal:
    """Makes records durable; see :class:`gapless.server.driver.Journal`."""

    def __init__(self, store: Store, log: Log, on_sync: Callable[[float], None] | None = None) -> None:
        self._store = store
        self._log = log
        self._on_sync = on_sync
        self._thread: Executor | None = (
            None if isinstance(store, MemoryStore) else ThreadPoolExecutor(1, "gapless-store")
        )
        self._addresses: dict[NodeId, Address] = {}
        self._keeping: asyncio.Task[None] | None = None
        self._to_keep: dict[NodeId, Address] = {}
        self._closing = asyncio.Event()

    # -- at the start ------------------------------------------------------------------------------------

    @property
    def membership(self) -> Membership | None:
        """What an earlier life noted; ``None``: there was none."""
        found = self._store.state.get(MEMBERSHIP)
        return _membership.decode(found) if found is not None else None

    async def begin(self, membership: Membership) -> tuple[list[Record], dict[NodeId, Address]]:
        """Note what network this is; returns the records and the addresses of earlier lives."""
        records, addresses = await self._in_thread(self._restore)
        near = {node for each in records if isinstance(each, LinkAdded) for node in each.link}
        changes: list[Change] = [Delete(_key(node)) for node in addresses if node not in near]
        if self.membership != membership:
            changes.append(Put(MEMBERSHIP, _encode(membership)))
        await self._write(changes)
        self._addresses = {node: entry for node, entry in addresses.items() if node in near}
        return records, dict(self._addresses)

    def _restore(self) -> tuple[list[Record], dict[NodeId, Address]]:
        addresses = {}
        for key, value in self._store.state.items():
            if key.startswith(ADDRESS):
                node, incarnation, address = _entry.decode(value)
                addresses[node] = (incarnation, address)
        return list(restored(self._store)), addresses

    # -- for the driver ----------------------------------------------------------------------------------

    def select(self, records: list[Record]) -> list[Record]:
        """A broker keeps them all."""
        return records

    async def append(self, records: Iterable[Record]) -> None:
        """Return when all of them are durable, as one."""
        await self._write(list(changes(records)))

    def learned(self, book: dict[NodeId, Address]) -> None:
        """Keep addresses some time soon: what has gathered by then is one write."""
        self._to_keep |= {node: entry for node, entry in book.items() if self._addresses.get(node) != entry}
        if self._to_keep and self._keeping is None and not self._closing.is_set():
            self._keeping = asyncio.get_running_loop().create_task(self._keep())

    async def _keep(self) -> None:
        while self._to_keep:
            entries, self._to_keep = self._to_keep, {}
            self._addresses |= entries
            try:
                await self._write([Put(_key(node), _encode((node, *each))) for node, each in entries.items()])
            except (StoreError, ValueError) as error:
                self._log.warn(
                    "addresses not kept", error=error
                )  # hints: the next append finds what is wrong
        self._keeping = None

    # -- the store ---------------------------------------------------------------------------------------

    async def _write(self, changes: list[Change]) -> None:
        if not changes:
            return
        began = time.perf_counter()
        while True:
            try:
                await self._in_thread(lambda: self._store.write(changes))
                break
            except StoreFullError as error:
                if self._closing.is_set():
                    raise
                self._log.noise("no room in the store", error=error)
                await self._pause()
        if self._on_sync is not None:
            self._on_sync(time.perf_counter() - began)

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(ROOM_SECONDS):
                await self._closing.wait()
        except TimeoutError:
            pass

    async def _in_thread(self, call: Callable[[], T]) -> T:
        if self._thread is None:
            return call()
        return await asyncio.get_running_loop().run_in_executor(self._thread, call)

    def give_up(self) -> None:
        """From now on wait for nothing."""
        self._closing.set()

    async def close(self) -> None:
        """Let go of the store, after what is being written."""
        self.give_up()
        if self._keeping is not None:
            await asyncio.gather(self._keeping, return_exceptions=True)
        await self._in_thread(self._store.close)
        if self._thread is not None:
            self._thread.shutdown(wait=False)


def _key(node: NodeId) -> str:
    return ADDRESS + msgspec.json.encode(node).decode()
