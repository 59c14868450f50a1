"""Where the stores of the tests are: one kind of place for each implementation."""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from pathlib import Path

import psycopg
from psycopg import sql

from gapless.storage import Disk, MemoryStore, Store, open_store
from gapless.storage.postgres import schema_of


class Place(ABC):
    """A place that keeps a store while nobody has it open, and can be damaged from outside."""

    @abstractmethod
    def open(self, node: str = "b1") -> Store: ...

    @abstractmethod
    def damage_record(self, position: int) -> None:
        """Change the record, of the only log, behind the store's back; the store is closed."""

    @abstractmethod
    def lose_record(self, position: int) -> None: ...

    @abstractmethod
    def damage_value(self, key: str) -> None: ...

    @abstractmethod
    def set_format(self, version: int) -> None: ...


class MemoryPlace(Place):
    def __init__(self) -> None:
        self.disk = Disk()

    def open(self, node: str = "b1") -> Store:
        return MemoryStore(node, self.disk)

    def damage_record(self, position: int) -> None:
        (records,) = self.disk.records.values()
        stored, data = records[position]
        records[position] = (stored, b"?" + data[1:])

    def lose_record(self, position: int) -> None:
        (records,) = self.disk.records.values()
        del records[position]

    def damage_value(self, key: str) -> None:
        stored, data = self.disk.values[key]
        self.disk.values[key] = (stored, b"?" + data[1:])

    def set_format(self, version: int) -> None:
        assert self.disk.owner is not None
        self.disk.owner = (version, *self.disk.owner[1:])


class SqlPlace(Place):
    """A place whose tables can be reached with SQL; the first log has the number 1."""

    @abstractmethod
    def execute(self, statement: str) -> None: ...

    def damage_record(self, position: int) -> None:
        self.execute(f"UPDATE records SET data = 'damaged' WHERE id = {(1 << 40) + position}")

    def lose_record(self, position: int) -> None:
        self.execute(f"DELETE FROM records WHERE id = {(1 << 40) + position}")

    def damage_value(self, key: str) -> None:
        self.execute(f"UPDATE state SET data = 'damaged' WHERE key = '{key}'")

    def set_format(self, version: int) -> None:
        self.execute(f"UPDATE owner SET format = {version}")


class SqlitePlace(SqlPlace):
    def __init__(self, directory: Path) -> None:
        self.directory = directory

    def open(self, node: str = "b1") -> Store:
        return open_store(self.directory, node)

    def execute(self, statement: str) -> None:
        connection = sqlite3.connect(self.directory / "store.db")
        with connection:
            connection.execute(statement.replace("'damaged'", "CAST('damaged' AS BLOB)"))
        connection.close()


class PostgresPlace(SqlPlace):
    def __init__(self, url: str) -> None:
        self.url = url
        with psycopg.connect(url) as connection:
            found = connection.execute("SELECT nspname FROM pg_namespace WHERE nspname LIKE 'gapless%'")
            for (schema,) in found.fetchall():
                connection.execute(sql.SQL("DROP SCHEMA {} CASCADE").format(sql.Identifier(schema)))

    def open(self, node: str = "b1") -> Store:
        return open_store(self.url, node)

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.url) as connection:
            connection.execute(f'SET search_path = "{schema_of("b1")}"'.encode())
            connection.execute(statement.encode())
