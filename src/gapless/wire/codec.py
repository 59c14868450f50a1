"""Messages to frames and back.

::

    0        4         5                    5 + length
    | length | version | msgpack: [message, message, …] |
    | uint32 | uint8   |

A frame carries many messages, in the order in which they were sent. Messages are arrays that begin with a
tag, so a frame is self-describing; types are checked while decoding. Whatever is wrong with a frame raises
``FrameError`` with a reason, and nothing of that frame is used.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import msgspec

from gapless.core.messages import BestEffortEvents, Message
from gapless.core.messages.publisher import Acknowledged, Confirmed, Log, Publications, Run
from gapless.wire.control import VERSIONS, Control

WireMessage: TypeAlias = Control | Message

FRAME_MAX = 8 << 20
"""The most bytes that the body of a frame may have."""
FRAME_FULL = 256 << 10
"""A frame that has this many bytes takes no further message."""

_HEADER = struct.Struct(">IB")
_ARRAY = struct.Struct(">BI")  # msgpack: array with 32 bits of length
_ARRAY_TAG = 0xDD
_SPLITTABLE = (Publications, BestEffortEvents, Log, Confirmed, Acknowledged)


class FrameError(ValueError):
    """What came is no frame of this protocol; the session that brought it must be closed."""


def _no_extensions(code: int, data: memoryview) -> object:
    raise ValueError(f"extension type {code}")


_ENCODER = msgspec.msgpack.Encoder()
_DECODER: msgspec.msgpack.Decoder[list[WireMessage]] = msgspec.msgpack.Decoder(
    list[WireMessage], ext_hook=_no_extensions
)


def encode(messages: Iterable[WireMessage], version: int = VERSIONS[1]) -> bytes:
    """The messages as frames, none larger than allowed."""
    frames: list[bytes] = []
    bodies: list[bytes] = []
    size = 0
    for message in messages:
        for body in _bodies(message):
            if bodies and size + len(body) > FRAME_FULL:
                frames.append(_frame(bodies, size, version))
                bodies, size = [], 0
            bodies.append(body)
            size += len(body)
    if bodies:
        frames.append(_frame(bodies, size, version))
    return b"".join(frames)


def _frame(bodies: list[bytes], size: int, version: int) -> bytes:
    header = _HEADER.pack(size + _ARRAY.size, version) + _ARRAY.pack(_ARRAY_TAG, len(bodies))
    return header + b"".join(bodies)


def _bodies(message: WireMessage) -> Iterator[bytes]:
    """The message, in as many parts as its size needs.

    A batch, which is the first field of its message, can be parted, in order; what other fields say holds for
    the whole of it, so the last part says it. So can a run, of which both parts have the header.
    """
    body = _ENCODER.encode(message)
    if len(body) > FRAME_FULL and isinstance(message, _SPLITTABLE):
        name = message.__struct_fields__[0]
        items = getattr(message, name)
        if len(items) == 1 and isinstance(message, Publications):
            items = _halves(items[0])
        if len(items) > 1:
            middle = len(items) // 2
            yield from _bodies(type(message)(items[:middle]))
            yield from _bodies(msgspec.structs.replace(message, **{name: items[middle:]}))
            return
    if len(body) + _ARRAY.size > FRAME_MAX:
        raise FrameError(f"a {type(message).__name__} of {len(body):,} bytes is larger than a frame")
    yield body


def _halves(run: Run) -> tuple[Run, ...]:
    middle = len(run.events) // 2
    if not middle:
        return (run,)
    return (
        Run(run.header, run.events[:middle], run.numbers[:middle]),
        Run(run.header, run.events[middle:], run.numbers[middle:]),
    )


def check_events(messages: Iterable[WireMessage]) -> None:
    """Refuse runs with events of several publishers or topics, or out of their order: whoever takes events
    from a client looks, once."""
    for message in messages:
        if type(message) is Publications:
            for run in message.runs:
                first, last = run.events[0], -1
                for event in run.events:
                    if event.publisher != first.publisher or event.topic != first.topic:
                        raise FrameError("a run has events of several publishers")
                    if event.sequence <= last:
                        raise FrameError("a run has events that do not follow each other")
                    last = event.sequence


class FrameReader:
    """Bytes in, in pieces of any size; messages out."""

    def __init__(self, largest: int = FRAME_MAX) -> None:
        self.largest = largest
        """The most bytes that the body of the next frame may have."""
        self.frames = 0
        self._buffer = bytearray()

    def rest(self) -> bytes:
        """Take the bytes of an incomplete frame out."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return rest

    def feed(self, data: bytes) -> list[WireMessage]:
        """The messages of the frames that are complete now."""
        buffer = self._buffer
        buffer += data
        messages: list[WireMessage] = []
        at = 0
        with memoryview(buffer) as view:
            while len(buffer) - at >= _HEADER.size:
                length, version = _HEADER.unpack_from(buffer, at)
                self._check(length, version)
                end = at + _HEADER.size + length
                if end > len(buffer):
                    break
                messages += _decode(view[at + _HEADER.size : end])
                self.frames += 1
                at = end
        if at:
            del buffer[:at]
        return messages

    def _check(self, length: int, version: int) -> None:
        if not VERSIONS[0] <= version <= VERSIONS[1]:
            raise FrameError(f"version {version} is not spoken here; is the other end gapless?")
        if length > self.largest:
            raise FrameError(f"a frame of {length:,} bytes is larger than {self.largest:,}")


def _decode(body: memoryview) -> list[WireMessage]:
    try:
        return _DECODER.decode(body)
    except (msgspec.DecodeError, ValueError, RecursionError) as error:
        raise FrameError(f"malformed frame: {error}") from None
    finally:
        body.release()
