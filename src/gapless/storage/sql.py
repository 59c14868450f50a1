"""What SQLite and PostgreSQL share: four tables, and how a plan becomes one transaction.

A record's key is one integer, the number of its log and its position in it, so the records of a log lie side
by side in one tree and no second index has to be kept. The number of a log is given when it is first written
to. Only a log's first position is stored: where it ends is where its records end.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from gapless.core.model import NodeId
from gapless.storage.contract import FORMAT, Store
from gapless.storage.errors import StoreCorruptError
from gapless.storage.plan import UNKNOWN, Plan, checksum

POSITION_BITS = 40

TABLES = """
CREATE TABLE owner (format {integer} NOT NULL, node TEXT NOT NULL, checksum {integer} NOT NULL);
CREATE TABLE state (key TEXT NOT NULL PRIMARY KEY, checksum {integer} NOT NULL, data {bytes} NOT NULL);
CREATE TABLE logs (
    id {integer} NOT NULL PRIMARY KEY, name TEXT NOT NULL,
    first {integer} NOT NULL, checksum {integer} NOT NULL
);
CREATE TABLE records (id {integer} NOT NULL PRIMARY KEY, checksum {integer} NOT NULL, data {bytes} NOT NULL);
"""
SET_OWNER = "INSERT INTO owner (format, node, checksum) VALUES (?, ?, ?)"
GET_OWNER = "SELECT format, node, checksum FROM owner"
SET_VALUE = """INSERT INTO state (key, checksum, data) VALUES (?, ?, ?)
    ON CONFLICT (key) DO UPDATE SET checksum = excluded.checksum, data = excluded.data"""
DELETE_VALUE = "DELETE FROM state WHERE key = ?"
GET_VALUES = "SELECT key, checksum, data FROM state"
SET_LOG = """INSERT INTO logs (id, name, first, checksum) VALUES (?, ?, ?, ?)
    ON CONFLICT (id) DO UPDATE SET first = excluded.first, checksum = excluded.checksum"""
GET_LOGS = "SELECT id, name, first, checksum FROM logs ORDER BY id"
ADD_RECORD = "INSERT INTO records (id, checksum, data) VALUES (?, ?, ?)"
DROP_RECORDS = "DELETE FROM records WHERE id >= ? AND id < ?"
GET_RECORDS = "SELECT id, checksum, data FROM records WHERE id >= ? AND id < ? ORDER BY id"
GET_ALL_RECORDS = "SELECT id, checksum, data FROM records ORDER BY id"


def tables(integer: str, data: str) -> list[str]:
    """The statements that make the tables, with the names of the types."""
    return [each for each in TABLES.format(integer=integer, bytes=data).split(";") if each.strip()]


class SqlStore(Store):
    """A store in a database that has transactions."""

    def __init__(self, node: NodeId, place: str) -> None:
        super().__init__(node, place)
        self._numbers: dict[str, int] = {}

    @abstractmethod
    def _rows(self, statement: str, *arguments: object) -> Iterator[tuple[Any, ...]]:
        """The rows of a query, without holding all of them in memory."""

    @abstractmethod
    def _execute(self, statement: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Execute the statement for every row, within the transaction."""

    def _add_records(self, rows: Sequence[tuple[int, int, bytes]]) -> None:
        self._execute(ADD_RECORD, rows)

    def _claim(self) -> None:
        """Write into new tables whose they are."""
        self._execute(SET_OWNER, [(FORMAT, self.node, checksum(self.node, FORMAT, b""))])

    def _owner(self) -> tuple[int, NodeId, int]:
        rows = list(self._rows(GET_OWNER))
        if len(rows) != 1:
            raise StoreCorruptError(self.place, f"it names {len(rows)} owners")
        version, node, stored = rows[0]
        return version, node, stored

    def _values(self) -> Iterable[tuple[str, int, bytes]]:
        return ((key, stored, data) for key, stored, data in self._rows(GET_VALUES))

    def _firsts(self) -> Iterable[tuple[str, int, int]]:
        for number, log, first, stored in self._rows(GET_LOGS):
            self._numbers[log] = number
            yield log, first, stored

    def _all_records(self) -> Iterable[tuple[str | None, int, int, bytes]]:
        names = {number: log for log, number in self._numbers.items()}
        for key, stored, data in self._rows(GET_ALL_RECORDS):
            yield names.get(key >> POSITION_BITS), key & ((1 << POSITION_BITS) - 1), stored, data

    def _records(self, log: str, positions: range) -> Iterable[tuple[int, int, bytes]]:
        base = self._numbers[log] << POSITION_BITS
        for key, stored, data in self._rows(GET_RECORDS, base + positions.start, base + positions.stop):
            yield key - base, stored, data

    def _apply(self, wanted: Plan) -> dict[str, int]:
        """Write the plan, within a transaction; the numbers of logs that are new when it is committed."""
        fresh = (log for log in wanted.spans if log not in self._numbers)
        given = {log: number for number, log in enumerate(fresh, len(self._numbers) + 1)}
        numbers = self._numbers | given if given else self._numbers
        for log, span in wanted.spans.items():
            before, base = self._spans.get(log, UNKNOWN), numbers[log] << POSITION_BITS
            if log in given or span.start > before.start:
                first = (numbers[log], log, span.start, checksum(log, span.start, b""))
                self._execute(SET_LOG, [first])
            if before and span.start > before.start:
                self._execute(DROP_RECORDS, [(base + before.start, base + span.start)])
        added = [
            ((numbers[log] << POSITION_BITS) + position, stored, data)
            for log, position, stored, data in wanted.records
        ]
        gone = [(key,) for key, data in wanted.state.items() if data is None]
        put = [(key, checksum(key, 0, data), data) for key, data in wanted.state.items() if data is not None]
        if added:
            self._add_records(added)
        if gone:
            self._execute(DELETE_VALUE, gone)
        if put:
            self._execute(SET_VALUE, put)
        return given
