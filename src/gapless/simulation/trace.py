"""What happened in a run, as JSON lines: the only thing that the checkers and the audit look at.

A line is a record, ``{"kind": "deliver", "t": 1200, …}``; lines stand in the order in which things happened
and ``t`` is the moment in microseconds. An event is known by its topic, its publisher and its sequence;
sequences count a publisher's events of a topic from 1 without holes, across its incarnations. A delivery
does not name its topic, because the subscription does.

The fields without a default are the fixed format and are always written. Fields with a default are additions
and are written only when they say something, so that a reader of the fixed format needs to know none of them.
Fields that a reader does not know are ignored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Annotated, Any, TypeAlias

import msgspec

Moment: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
Sequence: TypeAlias = Annotated[int, msgspec.Meta(ge=1)]

DIGEST_LENGTH = 16
_READ_BUFFER_BYTES = 1 << 20


class TraceError(ValueError):
    """A line is not a record; says which line and what is wrong with it."""


# A record holds nothing that could refer back to it, so the garbage collector need not look at it (gc=False).
class _Record(msgspec.Struct, frozen=True, kw_only=True, tag_field="kind", omit_defaults=True, gc=False):
    """What all records have: the moment."""

    t: Moment


class Subscribe(_Record, tag="subscribe", frozen=True, kw_only=True):
    """A client asked for the events of a topic that match the selector (an empty one matches all)."""

    client: str
    subscription: str
    topic: str
    selector: str
    broker: str
    durable: str = ""
    """The name of a durable registration, which outlives crashes of its client."""


class Live(_Record, tag="live", frozen=True, kw_only=True):
    """From here on the promise of the subscription holds."""

    subscription: str
    start: dict[str, int] = {}
    """The first promised sequence per publisher; others are promised from what they publish after this."""
    unreachable: tuple[str, ...] = ()
    """Publishers, their clients or their brokers, not promised until a live or a start says so."""
    position: int | None = None
    """The tick from which a subscription of a total topic starts."""


class Reset(_Record, tag="reset", frozen=True, kw_only=True):
    """The promise was withdrawn for these publishers and begins anew: a gap that is not silent.

    None named: it was withdrawn for all, and begins anew with the next ``live``.
    """

    subscription: str
    publishers: tuple[str, ...]
    start: dict[str, int] = {}


class Unsubscribe(_Record, tag="unsubscribe", frozen=True, kw_only=True):
    """The client wants no more of it."""

    subscription: str


class Publish(_Record, tag="publish", frozen=True, kw_only=True):
    """A client called publish; what it was given before that is a cause of the event."""

    client: str
    publisher: str
    sequence: Sequence
    topic: str
    attributes: dict[str, Any]
    broker: str = ""
    """The broker of the client, for ``Live.unreachable``."""


class Confirm(_Record, tag="confirm", frozen=True, kw_only=True):
    """The publisher was told that the network has this event (this one, not all up to it)."""

    publisher: str
    sequence: Sequence
    topic: str = ""
    """Needed only where a publisher publishes on several topics."""


class Deliver(_Record, tag="deliver", frozen=True, kw_only=True):
    """The application was given the event."""

    client: str
    subscription: str
    publisher: str
    sequence: Sequence
    best_effort: bool


class Crash(_Record, tag="crash", frozen=True, kw_only=True):
    """A broker or a client stopped and lost everything but its synced store."""

    node: str


class Restart(_Record, tag="restart", frozen=True, kw_only=True):
    """A broker or a client started again."""

    node: str


class Cut(_Record, tag="cut", frozen=True, kw_only=True):
    """The link between two nodes broke."""

    nodes: tuple[str, str]


class Heal(_Record, tag="heal", frozen=True, kw_only=True):
    """The link between two nodes works again."""

    nodes: tuple[str, str]


class Fenced(_Record, tag="fenced", frozen=True, kw_only=True):
    """A client was told that its publisher is somebody else's since later: what the network has not confirmed
    of it by then may be lost."""

    client: str
    publisher: str


Record: TypeAlias = (
    Subscribe
    | Live
    | Reset
    | Unsubscribe
    | Publish
    | Confirm
    | Deliver
    | Crash
    | Restart
    | Cut
    | Heal
    | Fenced
)

_encoder = msgspec.json.Encoder()
_decoder: msgspec.json.Decoder[Record] = msgspec.json.Decoder(Record)


def encode(record: Record) -> bytes:
    """The record as a line, without its end."""
    return _encoder.encode(record)


def decode(line: bytes | str, number: int = 1) -> Record:
    """The record of a line; ``number`` is what an error calls the line."""
    try:
        return _decoder.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise TraceError(f"line {number}: {error}") from error


def read(path: str | Path) -> Iterator[Record]:
    """The records of a file, one by one; lines without text are skipped."""
    with Path(path).open("rb", buffering=_READ_BUFFER_BYTES) as lines:
        for number, line in enumerate(lines, start=1):
            if not line.isspace():
                yield decode(line, number)


class TraceWriter:
    """Writes records to a file as they happen and knows the digest of what it has written."""

    def __init__(self, path: str | Path) -> None:
        self._file = Path(path).open("wb")  # noqa: SIM115 - closed by close()
        self._hash = hashlib.sha256()

    def append(self, record: Record) -> None:
        """Write one more record."""
        line = encode(record) + b"\n"
        self._hash.update(line)
        self._file.write(line)

    def digest(self) -> str:
        """The digest of the records so far, as ``Trace.digest`` gives it."""
        return self._hash.hexdigest()[:DIGEST_LENGTH]

    def close(self) -> None:
        """End the file."""
        self._file.close()

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


class Trace:
    """The records of a run in memory."""

    __slots__ = ("records",)

    def __init__(self, records: Iterable[Record] = ()) -> None:
        self.records: list[Record] = list(records)

    @classmethod
    def read(cls, path: str | Path) -> Trace:
        """The whole file."""
        return cls(read(path))

    def append(self, record: Record) -> None:
        """One more thing happened."""
        self.records.append(record)

    def write(self, path: str | Path) -> None:
        """Write all records to a file."""
        with TraceWriter(path) as writer:
            for record in self.records:
                writer.append(record)

    def digest(self) -> str:
        """A short fingerprint (SHA-256 of the lines): equal runs have equal digests, on every machine."""
        total = hashlib.sha256()
        for record in self.records:
            total.update(encode(record) + b"\n")
        return total.hexdigest()[:DIGEST_LENGTH]

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __getitem__(self, index: int) -> Record:
        return self.records[index]

    def __eq__(self, other: object) -> bool:
        return self.records == other.records if isinstance(other, Trace) else NotImplemented

    __hash__ = None  # type: ignore[assignment]
