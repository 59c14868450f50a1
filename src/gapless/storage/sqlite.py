"""A store in a directory: one SQLite database in write-ahead mode, synced at every commit.

The directory has ``store.lock``, held by the process that has the store open (the operating system lets go
of it however the process ends), ``store.db``, and ``store.db-wal`` while it is open or after a crash. A new
database is made under another name and renamed when it is complete, so a ``store.db`` is never unfinished:
one that is empty has lost its contents.

Torn writes are SQLite's business and are cut by it, transaction by transaction; ``walfile`` makes sure that
nothing else is. Damage to what is stored is found by checksums and by SQLite's own check, at opening.
"""

from __future__ import annotations

import errno
import fcntl
import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from gapless.core.model import NodeId
from gapless.storage.errors import (
    StoreCorruptError,
    StoreError,
    StoreFullError,
    StoreInUseError,
    StoreUnavailableError,
)
from gapless.storage.plan import Plan
from gapless.storage.sql import SqlStore, tables
from gapless.storage.walfile import FRAME, HEADER, examine

BUSY_TIMEOUT_S = 5.0
"""How long another program, such as one that makes a copy, may hold the database."""
PAGE_BYTES = 4096
LOG_FRAMES_MAX = 2000
"""The write-ahead log does not stay larger than that because a batch once was; it ends with a whole frame."""
SETTINGS = (
    f"page_size = {PAGE_BYTES}",
    "locking_mode = EXCLUSIVE",
    "journal_mode = WAL",
    f"journal_size_limit = {HEADER.size + LOG_FRAMES_MAX * (FRAME.size + PAGE_BYTES)}",
    "synchronous = FULL",
    "trusted_schema = OFF",
)
UNAVAILABLE = ("SQLITE_IOERR", "SQLITE_READONLY", "SQLITE_CANTOPEN", "SQLITE_PERM", "SQLITE_NOMEM")


class SqliteStore(SqlStore):
    """The store of a node in a directory of its own."""

    def __init__(self, directory: Path, node: NodeId) -> None:
        super().__init__(node, str(directory))
        self._file = directory / "store.db"
        self._lock: int | None = None
        self._connection: sqlite3.Connection | None = None
        try:
            self._open()
        except OSError as error:
            self.close()
            if error.errno == errno.ENOSPC:
                raise StoreFullError(f"no room for a store in {directory}: make room on its disk") from error
            raise StoreUnavailableError(
                f"cannot keep a store in {directory}: {error.strerror}. Give the node a directory that it "
                "can write to"
            ) from error
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        _make_directory(self._file.parent)
        self._lock = _lock(self._file.parent)
        log = self._file.with_name("store.db-wal")
        if not self._file.exists():
            if log.exists():
                raise StoreCorruptError(self.place, f"{self._file.name} is missing and {log.name} is there")
            self._create()
        self.cut, damage = examine(log)
        if damage is not None:
            raise StoreCorruptError(self.place, damage)
        if self._file.stat().st_size == 0:
            raise StoreCorruptError(self.place, f"{self._file.name} is empty")
        self._connect(self._file)
        for (found,) in self._rows("PRAGMA quick_check(1)"):
            if found != "ok":
                raise StoreCorruptError(self.place, f"SQLite's check of {self._file.name} says: {found}")
        self._load()

    def _create(self) -> None:
        unfinished = self._file.with_name("store.new")
        for each in (unfinished, unfinished.with_name("store.new-wal")):
            each.unlink(missing_ok=True)
        self._connect(unfinished)
        with self._transaction():
            for statement in tables("INTEGER", "BLOB"):
                self._execute(statement, [()])
            self._claim()
        self._disconnect()
        unfinished.rename(self._file)
        _sync_directory(self._file.parent)

    def _connect(self, file: Path) -> None:
        with self._translated():
            self._connection = sqlite3.connect(
                file, isolation_level=None, timeout=BUSY_TIMEOUT_S, check_same_thread=False
            )
            # a name that has rotted must reach its checksum
            self._connection.text_factory = partial(str, encoding="utf-8", errors="replace")
            for setting in SETTINGS:
                self._connection.execute(f"PRAGMA {setting}").fetchall()

    def _disconnect(self) -> None:
        if self._connection is not None:
            connection, self._connection = self._connection, None
            with self._translated():
                connection.close()

    def _close(self) -> None:
        try:
            self._disconnect()
        finally:
            if self._lock is not None:
                os.close(self._lock)

    def _rows(self, statement: str, *arguments: object) -> Iterator[tuple[Any, ...]]:
        assert self._connection is not None
        with self._translated():
            yield from self._connection.execute(statement, arguments)

    def _execute(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        assert self._connection is not None
        self._connection.executemany(statement, rows)

    def _commit(self, wanted: Plan) -> None:
        with self._transaction():
            fresh = self._apply(wanted)
        self._numbers.update(fresh)

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        assert self._connection is not None
        with self._translated():
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """SQLite's errors in the words of the contract."""
        try:
            yield
        except sqlite3.Error as error:
            raise self._in_our_words(error) from error

    def _in_our_words(self, error: sqlite3.Error) -> StoreError:
        name = getattr(error, "sqlite_errorname", "")
        if name == "SQLITE_FULL":
            return StoreFullError(
                f"no room for the store {self.place} ({error}): make room on its disk and try again"
            )
        if name in ("SQLITE_BUSY", "SQLITE_LOCKED"):
            return StoreInUseError(
                f"another program holds {self._file} ({error}): end it, or wait until it is done"
            )
        if name.startswith(UNAVAILABLE):
            return StoreUnavailableError(
                f"the store {self.place} failed ({error}, {name}): look at its disk, then start again"
            )
        # the statements are fixed: if SQLite does not understand one, the tables are not what they were
        return StoreCorruptError(self.place, f"SQLite says of {self._file.name}: {error}")


def _make_directory(directory: Path) -> None:
    missing = [each for each in (directory, *directory.parents) if not each.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    for each in missing:
        _sync_directory(each.parent)


def _sync_directory(directory: Path) -> None:
    """Make the names in it durable."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _lock(directory: Path) -> int:
    """Take the lock of the directory; it is released with the descriptor, also when the process is killed."""
    descriptor = os.open(directory / "store.lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    except OSError as error:
        holder = os.pread(descriptor, 20, 0).decode(errors="replace").strip()
        os.close(descriptor)
        if not isinstance(error, BlockingIOError):
            raise
        raise StoreInUseError(
            f"the store {directory} is in use by process {holder}: stop that, or give this node a directory "
            "of its own"
        ) from None
    return descriptor
