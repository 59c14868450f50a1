"""Storage: what a node must remember when its process is killed.

One contract (``contract``), three implementations: ``memory``, ``sqlite`` in a directory (the default), and
``postgres``. A batch of changes (``plan``) is durable as a whole when ``write`` returns::

    with open_store("/var/lib/gapless/b1", "b1") as store:
        node = Broker(config, restored(store), rng=rng)
        store.write(changes(records))

``records`` says how the records of a node are kept, ``walfile`` what a crash has done to SQLite's log.
"""

from __future__ import annotations

from pathlib import Path

from gapless.core.model import NodeId
from gapless.storage.contract import Store
from gapless.storage.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreInUseError,
    StoreOwnerError,
    StoreUnavailableError,
    StoreVersionError,
)
from gapless.storage.memory import Disk, MemoryStore
from gapless.storage.plan import Append, Change, Delete, Put, Truncate
from gapless.storage.records import changes, restored
from gapless.storage.sqlite import SqliteStore

__all__ = [
    "Append",
    "Change",
    "Delete",
    "Disk",
    "MemoryStore",
    "Put",
    "SqliteStore",
    "Store",
    "StoreCorruptError",
    "StoreError",
    "StoreFullError",
    "StoreInUseError",
    "StoreOwnerError",
    "StoreUnavailableError",
    "StoreVersionError",
    "Truncate",
    "changes",
    "open_store",
    "restored",
]


def open_store(place: str | Path, node: NodeId) -> Store:
    """The store of the node: in a directory, at a ``postgresql://`` URL, or ``memory:`` while it is open.

    A new one is made where there is none. ``StoreError`` says why a store cannot be opened and what to do.
    """
    if not node or "\0" in node:
        raise ValueError(f"a store needs the name of its node, not {node!r}")
    if isinstance(place, str):
        if place == "memory:":
            return MemoryStore(node)
        if place.startswith(("postgresql://", "postgres://")):
            return _open_postgres(place, node)
        if not place or "://" in place:
            raise ValueError(f"a store is a directory, postgresql://… or memory:, not {place!r}")
    return SqliteStore(Path(place), node)


def _open_postgres(url: str, node: NodeId) -> Store:
    try:
        from gapless.storage.postgres import PostgresStore  # noqa: PLC0415 (psycopg is optional)
    except ImportError as error:
        raise StoreUnavailableError(
            f"PostgreSQL needs the extra package: pip install 'gapless[postgres]' ({error})"
        ) from error
    return PostgresStore(url, node)
