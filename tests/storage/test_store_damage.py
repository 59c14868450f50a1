"""Damage to the files of a store: what a crash may leave is cut, anything else is refused. Nothing is ever
silently less, or other, than what was written."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from gapless.storage import Append, Change, Put, Store, StoreCorruptError, StoreError, Truncate, open_store
from gapless.storage.sqlite import LOG_FRAMES_MAX
from gapless.storage.walfile import FRAME, HEADER, examine

PAGE = 4096
FRAME_SIZE = FRAME.size + PAGE

Contents = tuple[dict[str, bytes], dict[str, tuple[range, list[bytes]]]]


def contents(store: Store) -> Contents:
    logs = {log: (span, store.read(log, span.start, span.stop - 1)) for log, span in store.logs.items()}
    return dict(store.state), logs


def write_batches(store: Store, count: int, seed: int = 1) -> list[Contents]:
    """Batches of all sorts; what the store holds before the first and after each."""
    rng = random.Random(seed)
    states = [contents(store)]
    for number in range(count):
        sizes = [rng.choice((0, 30, 300, 3000, 9000)) for _ in range(rng.randint(1, 5))]
        batch: list[Change] = [Append(f"log {rng.randint(1, 3)}", rng.randbytes(size)) for size in sizes]
        if number % 4 == 3:
            batch += [Put("count", b"%d" % number), Truncate("log 1", number // 2)]
        store.write(batch)
        states.append(contents(store))
    return states


class Crashed:
    """The files of a store whose process was killed, to be damaged and opened again and again."""

    def __init__(self, directory: Path, database: bytes, log: bytes = b"") -> None:
        self._directory = directory
        self.database = database
        self.log = log
        directory.mkdir()

    @property
    def log_file(self) -> Path:
        return self._directory / "store.db-wal"

    def open(self, database: bytes | None = None, log: bytes | None = None) -> Store:
        (self._directory / "store.db").write_bytes(self.database if database is None else database)
        self.log_file.write_bytes(self.log if log is None else log)
        return open_store(self._directory, "b1")


@pytest.fixture
def closed(tmp_path: Path) -> Iterator[tuple[Crashed, Contents]]:
    """A store that was closed: all is in the database."""
    with open_store(tmp_path / "origin", "b1") as store:
        states = write_batches(store, 24)
    yield Crashed(tmp_path / "copy", (tmp_path / "origin" / "store.db").read_bytes()), states[-1]


@pytest.fixture
def crashed(tmp_path: Path) -> Iterator[tuple[Crashed, list[Contents]]]:
    """A store whose batches are all in the write-ahead log; what it held after each."""
    with open_store(tmp_path / "origin", "b1") as store:
        states = write_batches(store, 24)
        files = [(tmp_path / "origin" / name).read_bytes() for name in ("store.db", "store.db-wal")]
    yield Crashed(tmp_path / "copy", *files), states


def ends_of_transactions(log: bytes) -> list[int]:
    starts = range(HEADER.size, len(log), FRAME_SIZE)
    return [start + FRAME_SIZE for start in starts if FRAME.unpack_from(log, start)[1]]


def flipped(data: bytes, *offsets: int) -> bytes:
    changed = bytearray(data)
    for offset in offsets:
        changed[offset] ^= 1 << (offset % 8)
    return bytes(changed)


# -- the database ------------------------------------------------------------------------------------------


def test_a_byte_in_the_middle_of_a_record_is_found_and_the_record_named(tmp_path: Path) -> None:
    with open_store(tmp_path / "origin", "b1") as store:
        store.write([Append("trades", b"event number %d" % n) for n in range(1, 50)])
    crashed = Crashed(tmp_path / "copy", (tmp_path / "origin" / "store.db").read_bytes())
    offset = crashed.database.index(b"event number 17") + 6
    with pytest.raises(StoreCorruptError, match=r"record 17 of the log 'trades' \(15 bytes\) has checksum"):
        crashed.open(flipped(crashed.database, offset))
    with crashed.open() as store:
        assert store.read("trades", 17, 17) == [b"event number 17"]


def test_damage_anywhere_in_the_database_is_harmless_or_refused(closed: tuple[Crashed, Contents]) -> None:
    crashed, expected = closed
    rng = random.Random(2)
    refused = 0
    for _ in range(150):
        size = len(crashed.database)
        near = rng.randrange(size) if rng.random() < 0.8 else rng.randrange(2 * PAGE)
        offsets = [min(near + rng.randrange(64), size - 1) for _ in range(rng.randint(1, 3))]
        try:
            with crashed.open(flipped(crashed.database, *offsets)) as store:
                assert contents(store) == expected, offsets
        except StoreError:
            refused += 1
    assert refused > 75, "most of the database is records"


@pytest.mark.parametrize("missing", [1, 100, PAGE, 5 * PAGE + 7])
def test_a_database_that_lost_its_end_is_refused(closed: tuple[Crashed, Contents], missing: int) -> None:
    crashed, _ = closed
    with pytest.raises(StoreCorruptError, match="is damaged"):
        crashed.open(crashed.database[:-missing])


def test_a_database_that_is_gone_is_refused_while_its_log_is_there(
    crashed: tuple[Crashed, list[Contents]],
) -> None:
    files, _ = crashed
    files.log_file.write_bytes(files.log)
    with pytest.raises(StoreCorruptError, match=r"store\.db is missing"):
        open_store(files.log_file.parent, "b1")


# -- the write-ahead log -----------------------------------------------------------------------------------


def test_a_crash_between_batches_leaves_nothing_to_cut(crashed: tuple[Crashed, list[Contents]]) -> None:
    files, states = crashed
    with files.open() as store:
        assert store.cut is None
        assert contents(store) == states[-1]


def test_a_torn_end_is_cut_and_reported(crashed: tuple[Crashed, list[Contents]]) -> None:
    files, states = crashed
    ends = ends_of_transactions(files.log)
    rng = random.Random(3)
    lengths = [*ends[-3:], *(end + 1 for end in ends[-4:-1]), 0, 10]
    lengths += [rng.randrange(HEADER.size, len(files.log)) for _ in range(10)]
    for length in lengths:
        with files.open(log=files.log[:length]) as store:
            # the end of a transaction that is there is the last that counts
            at_an_end = length in (0, HEADER.size, *ends)
            assert (store.cut is None) == at_an_end, length
            held = contents(store)
        assert held in states or held == ({}, {}), length
        with files.open(log=files.log[:length]) as store:
            assert store.write([Append("new", b"1")]) == [1]
            store.close()
            with open_store(files.log_file.parent, "b1") as again:
                assert again.cut is None
                assert again.read("new", 1, 1) == [b"1"]


def test_damage_in_the_log_before_its_last_transaction_is_refused_and_named(
    crashed: tuple[Crashed, list[Contents]],
) -> None:
    files, _ = crashed
    ends = ends_of_transactions(files.log)
    rng = random.Random(4)
    for _ in range(15):
        frame = rng.randrange((ends[-2] - HEADER.size) // FRAME_SIZE)
        offset = HEADER.size + frame * FRAME_SIZE + rng.randrange(FRAME.size, FRAME_SIZE)
        for _ in range(2):  # and stays refused
            with pytest.raises(StoreCorruptError, match=rf"frame {frame + 1} of store.db-wal"):
                files.open(log=flipped(files.log, offset))
        assert files.log_file.read_bytes() == flipped(files.log, offset), "nothing was changed"


def test_a_damaged_header_of_the_log_is_refused(crashed: tuple[Crashed, list[Contents]]) -> None:
    files, _ = crashed
    for offset in range(HEADER.size):
        with pytest.raises(StoreCorruptError, match=r"the header of store\.db-wal"):
            files.open(log=flipped(files.log, offset))


def test_damage_anywhere_in_the_log_costs_the_last_batch_or_is_refused(
    crashed: tuple[Crashed, list[Contents]],
) -> None:
    files, states = crashed
    ends = ends_of_transactions(files.log)
    rng = random.Random(5)
    cut = 0
    starts = range(ends[-4], len(files.log), FRAME_SIZE)
    for _ in range(40):
        within = rng.choice([*range(4), *range(8, FRAME.size), rng.randrange(FRAME.size, FRAME_SIZE)])
        offset = rng.choice(starts) + within
        try:
            with files.open(log=flipped(files.log, offset)) as store:
                assert store.cut is not None, offset
                assert contents(store) == states[-2], offset
                cut += 1
        except StoreCorruptError:
            assert offset < ends[-2]
    assert cut > 0


def test_pages_of_the_last_batch_that_never_reached_the_disk_are_no_damage(tmp_path: Path) -> None:
    """A disk writes in any order: the end of the batch that was under way may be there, its middle not."""
    with open_store(tmp_path / "origin", "b1") as store:
        write_batches(store, 5)
        before = contents(store)
        store.write([Append("large", bytes(10 * PAGE))])
        files = [(tmp_path / "origin" / name).read_bytes() for name in ("store.db", "store.db-wal")]
    crashed = Crashed(tmp_path / "copy", *files)
    ends = ends_of_transactions(crashed.log)
    assert ends[-1] - ends[-2] > 10 * FRAME_SIZE
    for start in range(ends[-2], ends[-1], FRAME_SIZE):
        for lost in (bytes(FRAME_SIZE), crashed.log[start : start + FRAME.size] + bytes(PAGE)):
            torn = crashed.log[:start] + lost + crashed.log[start + FRAME_SIZE :]
            if torn != crashed.log:
                with crashed.open(log=torn) as store:
                    assert store.cut is not None
                    assert contents(store) == before


def test_what_an_earlier_round_left_in_the_log_is_no_damage(tmp_path: Path) -> None:
    with open_store(tmp_path / "origin", "b1") as store:
        for _ in range(3):  # each time the log is copied into the database and begun again
            store.write([Append("large", bytes(1500 * PAGE))])
            store.write([Append("large", bytes(500 * PAGE)), Truncate("large", store.logs["large"].stop - 1)])
        store.write([Append("small", b"1"), Truncate("large", store.logs["large"].stop - 1)])
        before = contents(store)
        store.write([Append("small", b"2")])
        expected = contents(store)
        files = [(tmp_path / "origin" / name).read_bytes() for name in ("store.db", "store.db-wal")]
    crashed = Crashed(tmp_path / "copy", *files)
    starts = range(HEADER.size, len(files[1]), FRAME_SIZE)
    current = [start for start in starts if files[1][start + 8 : start + 16] == files[1][16:24]]
    assert 0 < len(current) < len(starts), "there are frames of two rounds"
    assert len(starts) <= LOG_FRAMES_MAX
    with crashed.open() as store:
        assert store.cut is None
        assert contents(store) == expected
    with crashed.open(log=flipped(crashed.log, current[-1] + 100)) as store:
        assert store.cut is not None
        assert contents(store) == before


def test_no_log_is_no_damage(tmp_path: Path) -> None:
    assert examine(tmp_path / "store.db-wal") == (None, None)
