"""A store in PostgreSQL: the tables of a node are in a schema of its own, ``gapless_`` and its name.

The process that has the store open holds an advisory lock of the database; the server lets go of it when the
connection ends, however that happens (a machine that vanishes is noticed by keep-alives after half a minute).
Connect to the server itself: a pool that gives each transaction another connection would lose the lock.

Every commit waits until the server has synced it (``synchronous_commit``), and on its synchronous standbys if
it has some. A connection that is lost is not opened again behind the caller's back, because another process
may have taken the store meanwhile: ``StoreUnavailableError``, and the caller opens it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from hashlib import sha256
from typing import Any

import psycopg
from psycopg import sql
from psycopg.conninfo import conninfo_to_dict, make_conninfo

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

CONNECTION = {
    "connect_timeout": 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
    "client_encoding": "UTF8",
}
"""How soon a lost connection is noticed, unless the URL says otherwise."""
SETTINGS = {
    "synchronous_commit": "on",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
}
COPY_RECORDS = "COPY records (id, checksum, data) FROM STDIN (FORMAT BINARY)"
IDENTIFIER_BYTES_MAX = 63
LOCK_TIMEOUT_MS = 1000
ROWS_AT_A_TIME = 2000
BROKEN = (
    psycopg.errors.UndefinedTable,
    psycopg.errors.UndefinedColumn,
    psycopg.errors.DataCorrupted,
    psycopg.errors.IndexCorrupted,
)
"""The statements are fixed: if the server does not understand one, the tables are not what they were."""


class PostgresStore(SqlStore):
    """The store of a node in a PostgreSQL database."""

    def __init__(self, url: str, node: NodeId) -> None:
        self._schema = schema_of(node)
        super().__init__(node, f"in PostgreSQL, schema {self._schema}")
        self._connection = self._connect(url)
        try:
            with self._translated():
                self._open()
            self._load()
        except BaseException:
            self.close()
            raise

    def _connect(self, url: str) -> psycopg.Connection[Any]:
        try:
            wanted: dict[str, Any] = {
                "application_name": f"gapless {self.node}",
                **CONNECTION,
                **conninfo_to_dict(url),
            }
            return psycopg.connect(make_conninfo(**wanted), autocommit=True)
        except psycopg.Error as error:
            raise StoreUnavailableError(
                f"cannot open the store {self.place}: {_one_line(error)}. Start the server, or correct "
                "the URL"
            ) from error

    def _open(self) -> None:
        info = self._connection.info
        self.place = (
            f"in PostgreSQL at {info.host}:{info.port}, database {info.dbname}, schema {self._schema}"
        )
        if info.parameter_status("server_encoding") != "UTF8":
            raise StoreUnavailableError(f"the store {self.place} needs a database with ENCODING 'UTF8'")
        path = sql.Identifier(self._schema).as_string(self._connection)
        for name, value in {**SETTINGS, "search_path": path}.items():
            self._connection.execute("SELECT set_config(%s, %s, false)", (name, value))
        self._take_lock()
        if self._one("SELECT to_regclass('owner')") is None:
            self._create()

    def _take_lock(self) -> None:
        """Wait a little: the server may be about to notice that the last process is gone."""
        key = int.from_bytes(sha256(self._schema.encode()).digest()[:8], signed=True)
        self._connection.execute("SELECT set_config('lock_timeout', %s, false)", (f"{LOCK_TIMEOUT_MS}ms",))
        try:
            self._connection.execute("SELECT pg_advisory_lock(%s)", (key,))
        except psycopg.errors.LockNotAvailable as error:
            raise StoreInUseError(
                f"the store {self.place} is in use by another process: stop that, or start this node under "
                "another name. A process on a machine that has vanished is noticed after half a minute"
            ) from error
        self._connection.execute("RESET lock_timeout")

    def _create(self) -> None:
        with self._connection.transaction():
            if self._one("SELECT to_regnamespace(%s)", sql.Identifier(self._schema).as_string(None)) is None:
                self._connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(self._schema)))
            for statement in tables("BIGINT", "BYTEA"):
                self._connection.execute(statement.encode())
            self._claim()

    def _one(self, query: str, *arguments: object) -> Any:
        row = self._connection.execute(query.encode(), arguments).fetchone()
        assert row is not None
        return row[0]

    def _close(self) -> None:
        self._connection.close()

    def _rows(self, statement: str, *arguments: object) -> Iterator[tuple[Any, ...]]:
        with self._translated(), self._connection.transaction():
            cursor = self._connection.cursor("rows", binary=True)
            cursor.itersize = ROWS_AT_A_TIME
            with cursor:
                yield from cursor.execute(_query(statement), arguments)

    def _execute(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        with self._connection.cursor() as cursor:
            cursor.executemany(_query(statement), rows)

    def _add_records(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        """By COPY, which is several times as fast as inserting."""
        with self._connection.cursor() as cursor, cursor.copy(COPY_RECORDS) as copy:
            copy.set_types(["int8", "int8", "bytea"])
            for row in rows:
                copy.write_row(row)

    def _commit(self, wanted: Plan) -> None:
        with self._translated(), self._connection.transaction():
            fresh = self._apply(wanted)
        self._numbers.update(fresh)

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """PostgreSQL's errors in the words of the contract."""
        try:
            yield
        except psycopg.Error as error:
            raise self._in_our_words(error) from error

    def _in_our_words(self, error: psycopg.Error) -> StoreError:
        said = _one_line(error)
        if isinstance(error, psycopg.errors.DiskFull):
            return StoreFullError(
                f"no room for the store {self.place} ({said}): make room on the server and try again"
            )
        if isinstance(error, psycopg.errors.InsufficientPrivilege):
            return StoreUnavailableError(
                f"the role {self._connection.info.user!r} may not use the store {self.place} ({said}): "
                f"GRANT CREATE ON DATABASE, or give it the schema {self._schema}"
            )
        if isinstance(error, BROKEN):
            return StoreCorruptError(self.place, f"PostgreSQL says: {said}")
        return StoreUnavailableError(
            f"the store {self.place} failed ({said}): look at the server, then start again"
        )


def schema_of(node: NodeId) -> str:
    """The name of the node's schema; a digest where the node's name is too long for one."""
    name = f"gapless_{node}"
    if len(name.encode()) <= IDENTIFIER_BYTES_MAX:
        return name
    return f"gapless_{sha256(node.encode()).hexdigest()[:48]}"


def _one_line(error: psycopg.Error) -> str:
    return " ".join(str(error).split())


def _query(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()
