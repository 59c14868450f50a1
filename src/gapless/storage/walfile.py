"""What a crash has done to SQLite's write-ahead log.

SQLite reads the log of a crashed process up to the first frame whose checksum is wrong and forgets the rest
without a word. That is right for the end of a transaction that was under way, and wrong when an older frame
has rotted: durable transactions would vanish silently. Both can be told apart, because every transaction is
synced before the next begins: only the last can be torn. So the log is read once before SQLite sees it.

The format is https://sqlite.org/walformat.html: a header of 32 bytes, then frames of 24 bytes and one page.
Checksums run on from frame to frame; each frame also has the salt of the header, which changes whenever the
file is used again from its beginning, so that what is left of an earlier round is known.
"""

from __future__ import annotations

import sys
from array import array
from dataclasses import dataclass
from pathlib import Path
from struct import Struct
from typing import TypeAlias

HEADER = Struct(">8I")
FRAME = Struct(">6I")
MAGIC = 0x377F0682
"""The last bit says that the checksums read words with the most significant byte first."""

Sums: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Frame:
    """What a frame says of itself."""

    number: int
    ends_transaction: bool
    is_current: bool
    """It has the salt of this round."""
    is_intact: bool
    """Its checksum goes on from that of the frame before it; the salt is not part of it."""


def examine(path: Path) -> tuple[str | None, str | None]:
    """What SQLite will cut off the log's end, and what is damaged so that it must not be opened."""
    data = path.read_bytes() if path.exists() else b""
    if len(data) < HEADER.size:
        return (f"{len(data)} bytes of {path.name}" if data else None), None
    magic, _, page, _, *salt, first, second = HEADER.unpack_from(data)
    big = bool(magic & 1)
    if magic & ~1 != MAGIC or (first, second) != _sums(data[:24], (0, 0), big):
        return None, f"the header of {path.name}"
    frames = _frames(data, page, salt, (first, second), big)
    broken = next((each for each in frames if not (each.is_current and each.is_intact)), None)
    kept = [each for each in frames[: broken.number - 1 if broken else None] if each.ends_transaction]
    rest = [each for each in frames[kept[-1].number if kept else 0 :] if each.is_current]
    if broken is not None:
        rotten_salt = [broken] if broken.is_intact else []
        later = iter([*rotten_salt, *(each for each in rest if each.number >= broken.number)])
        torn = next((each for each in later if each.ends_transaction), None)
        if torn is not None and any(each.is_intact for each in later):
            return None, f"frame {broken.number} of {path.name}, before transactions that are complete"
    partial = (len(data) - HEADER.size) % (FRAME.size + page)
    if rest or partial:
        return f"a transaction that had not ended ({len(rest)} frames, {partial} bytes in {path.name})", None
    return None, None


def _frames(data: bytes, page: int, salt: list[int], sums: Sums, big: bool) -> list[Frame]:
    found: list[Frame] = []
    size = FRAME.size + page
    for start in range(HEADER.size, len(data) - size + 1, size):
        _, pages, *own_salt, first, second = FRAME.unpack_from(data, start)
        summed = data[start : start + 8] + data[start + FRAME.size : start + size]
        is_intact = (first, second) == _sums(summed, sums, big)
        found.append(Frame(len(found) + 1, pages != 0, own_salt == salt, is_intact))
        sums = (first, second)
    return found


def _sums(data: bytes, sums: Sums, big: bool) -> Sums:
    words = array("I", data)
    if big != (sys.byteorder == "big"):
        words.byteswap()
    first, second = sums
    pairs = iter(words)
    for even, odd in zip(pairs, pairs, strict=True):
        first = (first + even + second) & 0xFFFFFFFF
        second = (second + odd + first) & 0xFFFFFFFF
    return first, second
