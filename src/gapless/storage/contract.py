"""What every store promises.

A store belongs to one node, a broker or a named client, and is open in one process at a time. It has two
parts: **state**, small values by key (the incarnation, the links of the neighbourhood, declarations), which
is also held in memory, and **logs**, records at dense positions from 1 on, from which only a beginning is
dropped (the events that a publisher retains until they are confirmed; the events of durable topics).

- ``write`` makes a batch of changes durable, whole or not at all, at the cost of one sync: the group commit
  of the ordering rule (``gapless.core.effects``). When it returns, a crash loses nothing of it.
- Every value and record has a checksum over what it is and where it belongs. Opening checks all of them, and
  that no record is missing: what is damaged is refused and named, never skipped, because a gap would be
  silent. The end of a batch that was cut short by a crash was never acknowledged: it is cut, and ``cut``
  says so.
- A failed ``write`` has changed nothing if there was no room (``StoreFullError``) or the batch was wrong
  (``ValueError``). After any other failure the store can only be closed and opened again, as after a crash;
  when to try is up to the caller.

Calls block. A store may be used from any thread, but only from one at a time, reading included: a driver
gives it an executor with one thread.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Self

from gapless.core.model import NodeId
from gapless.storage.errors import (
    StoreCorruptError,
    StoreFullError,
    StoreOwnerError,
    StoreUnavailableError,
    StoreVersionError,
)
from gapless.storage.plan import UNKNOWN, Change, Plan, checksum, plan

FORMAT = 1
"""Of what is stored. A program reads its own format and refuses a newer one."""
CLOSED = "it was closed"


class Store(ABC):
    """The durable memory of one node. An implementation loads, commits plans and reads records."""

    def __init__(self, node: NodeId, place: str) -> None:
        self.node = node
        self.place = place
        """Where it is, for people."""
        self.cut: str | None = None
        """What was cut off when the store was opened; ``None``: nothing."""
        self._state: dict[str, bytes] = {}
        self._spans: dict[str, range] = {}
        self._unusable: str | None = None

    @property
    def state(self) -> Mapping[str, bytes]:
        """The values by key."""
        return MappingProxyType(self._state)

    @property
    def logs(self) -> Mapping[str, range]:
        """The positions of the records that each log holds."""
        return MappingProxyType(self._spans)

    def write(self, batch: Iterable[Change]) -> list[int]:
        """Make the changes durable, in their order, all or none; the positions of the appended records."""
        self._check_usable()
        wanted = plan(batch, self._spans)
        if wanted:
            try:
                self._commit(wanted)
            except StoreFullError:
                raise
            except BaseException as error:
                self._unusable = f"it failed before ({error})"
                raise
            self._remember(wanted)
        return wanted.positions

    def read(self, log: str, first: int, last: int) -> list[bytes]:
        """The records from ``first`` to ``last``, both included; ``LookupError`` if not all are there."""
        self._check_usable()
        wanted, held = range(first, last + 1), self._spans.get(log, UNKNOWN)
        if not wanted:
            return []
        if first not in held or last not in held:
            raise LookupError(f"the log {log!r} holds {_words(held)}, not all of {_words(wanted)}")
        found: list[bytes] = []
        for position, stored, data in self._records(log, wanted):
            self._check_record(log, position, first + len(found), stored, data)
            found.append(data)
        if len(found) < len(wanted):
            raise StoreCorruptError(self.place, f"record {first + len(found)} of the log {log!r} is missing")
        return found

    def close(self) -> None:
        """Let another process have it. What was written is durable with or without."""
        if self._unusable != CLOSED:
            self._unusable = CLOSED
            self._close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- for implementations ---------------------------------------------------------------------------

    def _load(self) -> None:
        """Check everything that is stored, and remember what is held in memory."""
        version, owner, stored = self._owner()
        if version > FORMAT:
            raise StoreVersionError(
                f"the store {self.place} has format {version}, and this program knows {FORMAT}: start it "
                "with the newer gapless that wrote it"
            )
        self._check("the name of its node", owner, version, stored, b"")
        if owner != self.node:
            raise StoreOwnerError(
                f"the store {self.place} belongs to {owner!r}, not to {self.node!r}: start this node under "
                f"the name {owner!r}, or give it a place of its own"
            )
        for key, stored, data in sorted(self._values()):
            self._check(f"the value of {key!r}", key, 0, stored, data)
            self._state[key] = data
        for log, first, stored in self._firsts():
            self._check(f"the beginning of the log {log!r}", log, first, stored, b"")
            self._spans[log] = range(first, first)
        for name, position, stored, data in self._all_records():
            if name is None:
                raise StoreCorruptError(self.place, f"record {position} belongs to no log")
            span = self._spans[name]
            self._check_record(name, position, span.stop, stored, data)
            self._spans[name] = range(span.start, position + 1)

    def _remember(self, done: Plan) -> None:
        for key, data in done.state.items():
            if data is None:
                self._state.pop(key, None)
            else:
                self._state[key] = data
        self._spans.update(done.spans)

    def _check_usable(self) -> None:
        if self._unusable is not None:
            raise StoreUnavailableError(f"the store {self.place} must be opened again: {self._unusable}")

    def _check_record(self, log: str, position: int, expected: int, stored: int, data: bytes) -> None:
        if position != expected:
            raise StoreCorruptError(self.place, f"record {expected} of the log {log!r} is missing")
        self._check(f"record {position} of the log {log!r}", log, position, stored, data)

    def _check(self, what: str, name: str, position: int, stored: int, data: bytes) -> None:
        computed = checksum(name, position, data)
        if stored != computed:
            raise StoreCorruptError(
                self.place, f"{what} ({len(data)} bytes) has checksum {computed:08x}, stored was {stored:08x}"
            )

    @abstractmethod
    def _owner(self) -> tuple[int, NodeId, int]:
        """The format, the node, and the checksum of both."""

    @abstractmethod
    def _values(self) -> Iterable[tuple[str, int, bytes]]:
        """Key, checksum and data of the whole state."""

    @abstractmethod
    def _firsts(self) -> Iterable[tuple[str, int, int]]:
        """Each log, its first position, and the checksum of both."""

    @abstractmethod
    def _all_records(self) -> Iterable[tuple[str | None, int, int, bytes]]:
        """Log, position, checksum and data of all records; those of a log in order."""

    @abstractmethod
    def _records(self, log: str, positions: range) -> Iterable[tuple[int, int, bytes]]:
        """Position, checksum and data of some records of a log, in order."""

    @abstractmethod
    def _commit(self, wanted: Plan) -> None:
        """Make the plan durable, whole or not at all."""

    @abstractmethod
    def _close(self) -> None:
        """Release what is held."""


def _words(positions: range) -> str:
    if not positions:
        return f"nothing before {positions.stop}"
    return f"positions {positions.start} to {positions.stop - 1}"
