"""A store in a directory: whom it lets in, and what it does without room."""

from __future__ import annotations

import sqlite3
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from gapless.storage import (
    Append,
    Put,
    SqliteStore,
    Store,
    StoreCorruptError,
    StoreFullError,
    StoreInUseError,
    StoreUnavailableError,
    Truncate,
    open_store,
    sqlite,
)

KILOBYTE = 1024


def fill(store: Store) -> None:
    """Append until there is no room."""
    with pytest.raises(StoreFullError, match="make room on its disk and try again"):
        for _ in range(100):
            store.write([Append("x", bytes(50 * KILOBYTE)), Append("x", b"end of batch")])


def assert_whole(store: Store) -> None:
    """Batches of two records are there in whole."""
    span = store.logs["x"]
    assert len(span) % 2 == 0
    assert len(span) > 2
    sizes = [len(each) for each in store.read("x", span.start, span.stop - 1)]
    assert sizes == [50 * KILOBYTE, len(b"end of batch")] * (len(span) // 2)


def test_a_full_disk_refuses_a_batch_whole_and_the_store_goes_on_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(500 * KILOBYTE))
    with open_store(small_disk / "store", "b1") as store:
        fill(store)
        assert_whole(store)
        with pytest.raises(StoreFullError):
            store.write([Append("x", bytes(200 * KILOBYTE))])
        assert_whole(store)
        ballast.unlink()
        position = store.logs["x"].stop
        assert store.write([Append("x", bytes(50 * KILOBYTE)), Append("x", b"end of batch")]) == [
            position,
            position + 1,
        ]
    with open_store(small_disk / "store", "b1") as store:
        assert store.logs["x"].stop == position + 2
        assert_whole(store)


def test_a_store_that_has_no_room_to_begin_begins_when_there_is(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with pytest.raises(OSError, match="No space left"), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(4 * KILOBYTE))
    with pytest.raises(StoreFullError, match="make room"):
        open_store(small_disk / "store", "b1")
    ballast.unlink()
    with open_store(small_disk / "store", "b1") as store:
        assert store.write([Append("x", b"1")]) == [1]


def test_a_database_that_may_not_grow_refuses_a_batch_whole(tmp_path: Path) -> None:
    with open_store(tmp_path, "b1") as store:
        assert isinstance(store, SqliteStore)
        assert store._connection is not None
        store._connection.execute("PRAGMA max_page_count = 200")
        fill(store)
        assert_whole(store)
        store._connection.execute("PRAGMA max_page_count = 100000")
        store.write([Append("x", bytes(50 * KILOBYTE)), Append("x", b"end of batch")])
    with open_store(tmp_path, "b1") as store:
        assert_whole(store)


def test_a_beginning_that_is_dropped_makes_room(tmp_path: Path) -> None:
    with open_store(tmp_path, "b1") as store:
        for _ in range(30):
            store.write([Append("x", bytes(KILOBYTE)) for _ in range(100)])
            store.write([Truncate("x", store.logs["x"].stop - 1)])
            assert len(store.logs["x"]) == 0
    assert (tmp_path / "store.db").stat().st_size < 1000 * KILOBYTE


def test_every_commit_is_synced(tmp_path: Path) -> None:
    with open_store(tmp_path, "b1") as store:
        assert isinstance(store, SqliteStore)
        for setting, value in {"synchronous": 2, "journal_mode": "wal", "locking_mode": "exclusive"}.items():
            assert list(store._rows(f"PRAGMA {setting}")) == [(value,)]


def test_no_other_program_writes_into_an_open_store(tmp_path: Path) -> None:
    with open_store(tmp_path, "b1") as store:
        store.write([Put("a", b"1")])
        other = sqlite3.connect(tmp_path / "store.db", timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            other.execute("DELETE FROM state")
        other.close()
        store.write([Put("b", b"1")])


def test_a_program_that_holds_the_database_is_not_disturbed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_store(tmp_path, "b1").close()
    monkeypatch.setattr(sqlite, "BUSY_TIMEOUT_S", 0.05)
    other = sqlite3.connect(tmp_path / "store.db", isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreInUseError, match="another program holds"):
        open_store(tmp_path, "b1")
    other.close()
    open_store(tmp_path, "b1").close()


def test_a_place_that_is_no_directory_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(StoreUnavailableError, match="Give the node a directory that it can write to"):
            open_store(place, "b1")


def test_directories_are_made(tmp_path: Path) -> None:
    with open_store(str(tmp_path / "var" / "lib" / "b1"), "b1") as store:
        store.write([Put("a", b"1")])
    found = sorted(each.name for each in (tmp_path / "var" / "lib" / "b1").iterdir())
    assert found == ["store.db", "store.lock"]


def test_a_creation_that_was_cut_short_begins_again(tmp_path: Path) -> None:
    (tmp_path / "store.new").write_bytes(b"half")
    (tmp_path / "store.new-wal").write_bytes(b"half")
    with open_store(tmp_path, "b1") as store:
        assert store.write([Append("x", b"1")]) == [1]


@pytest.mark.parametrize("contents", [b"", b"some text that is no database" * 100])
def test_a_file_that_is_no_store_is_refused(tmp_path: Path, contents: bytes) -> None:
    (tmp_path / "store.db").write_bytes(contents)
    with pytest.raises(StoreCorruptError, match=r"is empty|not a database"):
        open_store(tmp_path, "b1")
    assert (tmp_path / "store.db").read_bytes() == contents


def test_a_database_of_another_program_is_refused(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "store.db")
    other.execute("CREATE TABLE songs (title TEXT)")
    other.close()
    with pytest.raises(StoreCorruptError, match="no such table: owner"):
        open_store(tmp_path, "b1")


def test_a_store_is_used_from_the_thread_of_an_executor(tmp_path: Path) -> None:
    with ThreadPoolExecutor(1) as first, ThreadPoolExecutor(1) as second:
        store = first.submit(open_store, tmp_path, "b1").result()
        assert second.submit(store.write, [Append("x", b"1")]).result() == [1]
        assert first.submit(store.read, "x", 1, 1).result() == [b"1"]
        second.submit(store.close).result()
