"""A store in memory: for simulated nodes, and for networks that live and die with a process.

The ``Disk`` is what a crash leaves behind. A driver that wants to see what happens to a batch on its way to
the disk calls ``stage`` and later ``sync`` instead of ``write``: ``Disk.crash`` loses what was staged and
not synced, or all but the first batches of it, but never a part of a batch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gapless.core.model import NodeId
from gapless.storage.contract import FORMAT, Store
from gapless.storage.errors import StoreInUseError
from gapless.storage.plan import Change, Plan, checksum, plan


class Disk:
    """What a memory store leaves behind when its node crashes."""

    def __init__(self) -> None:
        self.owner: tuple[int, NodeId, int] | None = None
        self.user: MemoryStore | None = None
        self.values: dict[str, tuple[int, bytes]] = {}
        self.firsts: dict[str, int] = {}
        self.records: dict[str, dict[int, tuple[int, bytes]]] = {}
        self.unsynced: list[Plan] = []

    def crash(self, keep: int = 0) -> None:
        """The node is gone. Of what was not synced, the first ``keep`` batches have reached the disk."""
        del self.unsynced[keep:]
        self.sync()
        if self.user is not None:
            self.user.close()

    def sync(self) -> None:
        """Everything that was staged is durable now."""
        for staged in self.unsynced:
            self._keep(staged)
        self.unsynced.clear()

    def _keep(self, staged: Plan) -> None:
        for key, value in staged.state.items():
            if value is None:
                self.values.pop(key, None)
            else:
                self.values[key] = (checksum(key, 0, value), value)
        for log, span in staged.spans.items():
            held = self.records.setdefault(log, {})
            for position in range(self.firsts.get(log, 1), span.start):
                if not held:
                    break  # a log can go on far beyond its end
                held.pop(position, None)
            self.firsts[log] = span.start
        for log, position, stored, data in staged.records:
            self.records[log][position] = (stored, data)


class MemoryStore(Store):
    """A store on a ``Disk``, or on one of its own."""

    def __init__(self, node: NodeId, disk: Disk | None = None) -> None:
        super().__init__(node, "in memory")
        self.disk = disk if disk is not None else Disk()
        if self.disk.user is not None:
            raise StoreInUseError(f"the store of {node!r} in memory is in use: close it first")
        if self.disk.owner is None:
            self.disk.owner = (FORMAT, node, checksum(node, FORMAT, b""))
        self._load()
        self.disk.user = self

    def stage(self, batch: Iterable[Change]) -> list[int]:
        """As ``write``, but a crash before ``sync`` loses it."""
        self._check_usable()
        wanted = plan(batch, self._spans)
        self.disk.unsynced.append(wanted)
        self._remember(wanted)
        return wanted.positions

    def sync(self) -> None:
        """Make what was staged durable."""
        self._check_usable()
        self.disk.sync()

    def _owner(self) -> tuple[int, NodeId, int]:
        assert self.disk.owner is not None
        return self.disk.owner

    def _values(self) -> Iterator[tuple[str, int, bytes]]:
        return ((key, stored, data) for key, (stored, data) in self.disk.values.items())

    def _firsts(self) -> Iterator[tuple[str, int, int]]:
        return ((log, first, checksum(log, first, b"")) for log, first in self.disk.firsts.items())

    def _all_records(self) -> Iterator[tuple[str, int, int, bytes]]:
        for log, records in self.disk.records.items():
            for position, (stored, data) in records.items():
                yield log, position, stored, data

    def _records(self, log: str, positions: range) -> Iterator[tuple[int, int, bytes]]:
        records = self.disk.records.get(log, {})
        staged = {
            position: (stored, data)
            for each in self.disk.unsynced
            for name, position, stored, data in each.records
            if name == log
        }
        for position in positions:
            found = staged.get(position) or records.get(position)
            if found is not None:
                yield position, *found

    def _commit(self, wanted: Plan) -> None:
        self.disk.unsynced.append(wanted)
        self.disk.sync()

    def _close(self) -> None:
        self.disk.unsynced.clear()
        self.disk.user = None
