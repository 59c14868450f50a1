"""What a batch of changes amounts to: checked, numbered, with checksums, before anything is written.

All stores share this, so they agree on what a batch means, and a wrong one is refused before it touches
anything. A store then only has to make the plan durable, whole or not at all.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias, assert_never
from zlib import crc32

import msgspec

NAME_BYTES_MAX = 1024
"""Of a key or the name of a log, in UTF-8."""
DATA_BYTES_MAX = 64 * 1024 * 1024
"""Of one value or record."""
POSITION_MAX = 2**40 - 1
LOGS_MAX = 2**22

UNKNOWN = range(1, 1)
"""The span of a log that was never written to: positions begin at 1."""


class Put(msgspec.Struct, frozen=True):
    """Set the value of a key."""

    key: str
    data: bytes


class Delete(msgspec.Struct, frozen=True):
    """Forget a key; one that is not there is no mistake."""

    key: str


class Append(msgspec.Struct, frozen=True):
    """Add a record to the end of a log."""

    log: str
    data: bytes
    at: int | None = None
    """The position that it must get, if the caller counts too: any other is refused."""


class Truncate(msgspec.Struct, frozen=True):
    """Drop the records of a log up to this position. What is appended next comes after it, so a log can also
    begin late: one that is truncated beyond its end is empty and goes on from there."""

    log: str
    up_to: int


Change: TypeAlias = Put | Delete | Append | Truncate


def checksum(name: str, position: int, data: bytes) -> int:
    """Of a record and where it belongs, so that one in a wrong place is found out too."""
    return crc32(data, crc32(f"{position} {name}".encode()))


@dataclass(slots=True)
class Plan:
    """The net effect of a batch."""

    state: dict[str, bytes | None] = field(default_factory=dict)
    """The new values by key; ``None``: the key goes."""
    spans: dict[str, range] = field(default_factory=dict)
    """The positions that each log of the batch has afterwards."""
    records: list[tuple[str, int, int, bytes]] = field(default_factory=list)
    """What is added: log, position, checksum, data."""
    positions: list[int] = field(default_factory=list)
    """Where the records of the batch are, in its order."""

    def __bool__(self) -> bool:
        return bool(self.state or self.spans)


def plan(batch: Iterable[Change], spans: Mapping[str, range]) -> Plan:
    """Check the batch against what the logs hold; ``ValueError`` if it cannot be meant."""
    made = Plan()
    ends: dict[str, list[int]] = {}  # first kept, next to be given
    truncated = False
    for change in batch:
        match change:
            case Append(log=log, data=data, at=at):
                end = ends.get(log) or _touch(log, ends, spans)
                position = end[1]
                if at is not None and at != position:
                    raise ValueError(f"the next position of the log {log!r} is {position}, not {at}")
                if position > POSITION_MAX:
                    raise ValueError(f"the log {log!r} has no position left")
                _check_data(data)
                end[1] = position + 1
                made.records.append((log, position, checksum(log, position, data), data))
                made.positions.append(position)
            case Truncate(log=log, up_to=up_to):
                if not 0 <= up_to <= POSITION_MAX:
                    raise ValueError(f"there is no position {up_to}")
                end = ends.get(log) or _touch(log, ends, spans)
                end[0] = max(end[0], up_to + 1)
                end[1] = max(end)
                truncated = True
            case Put(key=key, data=data):
                _check_name(key)
                _check_data(data)
                made.state[key] = data
            case Delete(key=key):
                _check_name(key)
                made.state[key] = None
            case _:
                assert_never(change)
    made.spans = {log: range(*end) for log, end in ends.items()}
    if truncated:
        made.records = [each for each in made.records if each[1] in made.spans[each[0]]]
    return made


def _touch(log: str, ends: dict[str, list[int]], spans: Mapping[str, range]) -> list[int]:
    if log not in spans:
        _check_name(log)
        if len(spans) + len(ends) >= LOGS_MAX:
            raise ValueError(f"there is no room for the log {log!r}: a store has at most {LOGS_MAX} logs")
    span = spans.get(log, UNKNOWN)
    ends[log] = [span.start, span.stop]
    return ends[log]


def _check_name(name: str) -> None:
    """Only what every implementation can keep; a text with half a character fails to encode."""
    if not name or "\0" in name or len(name.encode()) > NAME_BYTES_MAX:
        raise ValueError(
            f"a key or log needs a name of 1 to {NAME_BYTES_MAX} bytes without NUL: {name[:80]!r}"
        )


def _check_data(data: bytes) -> None:
    if not isinstance(data, bytes):
        raise TypeError(f"a store keeps bytes, not {type(data).__name__}")
    if len(data) > DATA_BYTES_MAX:
        raise ValueError(f"{len(data)} bytes are too many: a record has at most {DATA_BYTES_MAX}")
