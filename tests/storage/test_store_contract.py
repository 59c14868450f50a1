"""What every store promises, of every implementation."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gapless.storage import (
    Append,
    Change,
    Delete,
    Put,
    StoreCorruptError,
    StoreInUseError,
    StoreOwnerError,
    StoreUnavailableError,
    StoreVersionError,
    Truncate,
    open_store,
    plan,
)
from gapless.storage.contract import FORMAT
from gapless.storage.plan import DATA_BYTES_MAX, NAME_BYTES_MAX, POSITION_MAX
from storage.places import Place


def test_a_new_store_is_empty(place: Place) -> None:
    with place.open() as store:
        assert store.node == "b1"
        assert dict(store.state) == {}
        assert dict(store.logs) == {}
        assert store.cut is None


def test_what_was_written_is_there_when_it_is_opened_again(place: Place) -> None:
    with place.open() as store:
        positions = store.write(
            [Put("a", b"1"), Append("x", b"first"), Append("y", b"other"), Append("x", b"")]
        )
        assert positions == [1, 1, 2]
        assert store.write([Append("x", b"third")]) == [3]
    for _ in range(2):
        with place.open() as store:
            assert dict(store.state) == {"a": b"1"}
            assert dict(store.logs) == {"x": range(1, 4), "y": range(1, 2)}
            assert store.read("x", 1, 3) == [b"first", b"", b"third"]
            assert store.read("x", 2, 3) == [b"", b"third"]
            assert store.read("y", 1, 1) == [b"other"]
            assert store.cut is None


def test_an_empty_batch_is_nothing(place: Place) -> None:
    with place.open() as store:
        assert store.write([]) == []
        assert store.write(iter([])) == []
        assert not store.logs


def test_the_last_change_of_a_key_holds(place: Place) -> None:
    with place.open() as store:
        store.write([Put("a", b"1"), Put("b", b"1"), Put("c", b"1")])
        store.write([Put("a", b"2"), Delete("a"), Delete("b"), Put("b", b"2"), Delete("c"), Delete("never")])
        assert dict(store.state) == {"b": b"2"}
    with place.open() as store:
        assert dict(store.state) == {"b": b"2"}


def test_a_beginning_is_dropped_and_positions_go_on(place: Place) -> None:
    with place.open() as store:
        store.write([Append("x", b"%d" % n) for n in range(1, 11)])
        store.write([Truncate("x", 4), Truncate("x", 2)])
        assert store.logs["x"] == range(5, 11)
        assert store.read("x", 5, 6) == [b"5", b"6"]
        assert store.write([Truncate("x", 10)]) == []
        assert store.logs["x"] == range(11, 11)
    with place.open() as store:
        assert store.logs["x"] == range(11, 11)
        assert store.write([Append("x", b"11", at=11)]) == [11]
    with place.open() as store:
        assert store.read("x", 11, 11) == [b"11"]


def test_what_a_batch_adds_and_drops_is_never_seen(place: Place) -> None:
    with place.open() as store:
        batch: list[Change] = [
            Append("x", b"1"),
            Append("x", b"2"),
            Truncate("x", 1),
            Append("y", b"1"),
            Truncate("y", 1),
        ]
        assert store.write(batch) == [1, 2, 1]
    with place.open() as store:
        assert dict(store.logs) == {"x": range(2, 3), "y": range(2, 2)}
        assert store.read("x", 2, 2) == [b"2"]


def test_a_log_can_begin_late_and_skip(place: Place) -> None:
    with place.open() as store:
        store.write([Truncate("x", 99)])
        assert store.write([Append("x", b"100", at=100)]) == [100]
        store.write([Truncate("x", 1_000_000_000)])
    with place.open() as store:
        assert store.logs["x"] == range(1_000_000_001, 1_000_000_001)
        assert store.write([Append("x", b"")]) == [1_000_000_001]


def test_positions_are_limited(place: Place) -> None:
    with place.open() as store:
        store.write([Truncate("x", POSITION_MAX - 1)])
        assert store.write([Append("x", b"last")]) == [POSITION_MAX]
        with pytest.raises(ValueError, match="no position left"):
            store.write([Append("x", b"")])
    with place.open() as store:
        assert store.read("x", POSITION_MAX, POSITION_MAX) == [b"last"]


@pytest.mark.parametrize(("first", "last"), [(2, 3), (3, 6), (0, 1), (6, 7)])
def test_reading_what_is_not_there_is_an_error(place: Place, first: int, last: int) -> None:
    with place.open() as store:
        store.write(
            [Append("x", b""), Append("x", b""), Append("x", b"3"), Append("x", b""), Append("x", b"")]
        )
        store.write([Truncate("x", 2)])
        with pytest.raises(LookupError, match=r"holds positions 3 to 5, not all of positions"):
            store.read("x", first, last)
        with pytest.raises(LookupError, match="holds nothing"):
            store.read("unknown", 1, 1)
        assert store.read("x", 3, 2) == []


@pytest.mark.parametrize(
    "wrong",
    [
        Put("", b""),
        Put("\0", b""),
        Put("é" * (NAME_BYTES_MAX // 2 + 1), b""),
        Put("\ud800", b""),
        Delete(""),
        Append("", b""),
        Append("x", b"", at=2),
        Truncate("x", -1),
        Truncate("x", POSITION_MAX + 1),
        Put("big", bytes(DATA_BYTES_MAX + 1)),
    ],
    ids=lambda each: f"{each}"[:30].encode("ascii", "replace").decode(),
)
def test_a_wrong_batch_is_refused_whole(place: Place, wrong: Change) -> None:
    with place.open() as store:
        with pytest.raises(ValueError, match=r"."):
            store.write([Put("a", b"1"), Append("y", b"1"), wrong])
        assert dict(store.state) == {}
        assert dict(store.logs) == {}
        assert store.write([Append("y", b"1")]) == [1]


def test_only_bytes_are_kept(place: Place) -> None:
    with place.open() as store, pytest.raises(TypeError, match="keeps bytes, not str"):
        store.write([Append("x", "text")])  # type: ignore[arg-type]


def test_names_and_data_can_be_anything(place: Place) -> None:
    names = [
        "x",
        "X",
        "x ",
        "é",
        "日本",
        "'; DROP TABLE records; --",
        "%s ?",
        "\U0001f600",
        "n" * NAME_BYTES_MAX,
    ]
    data = bytes(range(256)) * 500
    with place.open() as store:
        store.write([*(Put(name, name.encode()) for name in names), *(Append(name, data) for name in names)])
    with place.open() as store:
        assert dict(store.state) == {name: name.encode() for name in names}
        assert [store.read(name, 1, 1) for name in names] == [[data]] * len(names)


def test_a_store_is_open_once(place: Place) -> None:
    with place.open() as store:
        with pytest.raises(StoreInUseError, match=r"in use.*(stop that|close it)"):
            place.open()
        store.write([Append("x", b"1")])
    with place.open() as store:
        assert store.read("x", 1, 1) == [b"1"]


def test_a_closed_store_says_so(place: Place) -> None:
    store = place.open()
    store.write([Append("x", b"1")])
    store.close()
    store.close()
    with pytest.raises(StoreUnavailableError, match="closed"):
        store.write([Append("x", b"1")])
    with pytest.raises(StoreUnavailableError, match="closed"):
        store.read("x", 1, 1)


def test_a_newer_format_is_refused(place: Place) -> None:
    place.open().close()
    place.set_format(FORMAT + 1)
    with pytest.raises(StoreVersionError, match=f"has format {FORMAT + 1}.*newer gapless"):
        place.open()
    place.set_format(FORMAT)
    place.open().close()


def test_a_damaged_record_is_refused_and_named(place: Place) -> None:
    with place.open() as store:
        store.write([Append("trades", b"event %d" % n) for n in range(1, 10)])
    place.damage_record(4)
    for _ in range(2):
        with pytest.raises(
            StoreCorruptError, match=r"record 4 of the log 'trades'.*checksum.*Restore it from"
        ):
            place.open()


@pytest.mark.parametrize("kind", ["memory", "postgres"])  # nobody else writes into an open SQLite store
def test_a_record_damaged_while_open_is_noticed_when_read(
    kind: str, make_place: Callable[[str], Place]
) -> None:
    place = make_place(kind)
    with place.open() as store:
        store.write([Append("trades", b"event %d" % n) for n in range(1, 10)])
        place.damage_record(4)
        assert store.read("trades", 1, 3) == [b"event 1", b"event 2", b"event 3"]
        with pytest.raises(StoreCorruptError, match="record 4 of the log 'trades'"):
            store.read("trades", 1, 9)
        place.lose_record(6)
        with pytest.raises(StoreCorruptError, match="record 6 of the log 'trades' is missing"):
            store.read("trades", 5, 9)


def test_a_missing_record_is_refused_and_named(place: Place) -> None:
    with place.open() as store:
        store.write([Append("trades", b"event %d" % n) for n in range(1, 10)])
    place.lose_record(4)
    with pytest.raises(StoreCorruptError, match="record 4 of the log 'trades' is missing"):
        place.open()


def test_a_damaged_value_is_refused_and_named(place: Place) -> None:
    with place.open() as store:
        store.write([Put("incarnation", b"seven"), Put("link", b"x")])
    place.damage_value("incarnation")
    with pytest.raises(StoreCorruptError, match="the value of 'incarnation'"):
        place.open()


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_the_store_of_another_node_is_refused(kind: str, make_place: Callable[[str], Place]) -> None:
    place = make_place(kind)
    place.open("b1").close()
    with pytest.raises(StoreOwnerError, match=r"belongs to 'b1', not to 'b2'.*name 'b1', or give it a place"):
        place.open("b2")
    place.open("b1").close()


@pytest.mark.parametrize("where", ["", "mysql://host/db", "http://127.0.0.1"])
def test_only_known_places_are_opened(where: str) -> None:
    with pytest.raises(ValueError, match=r"directory, postgresql://… or memory:"):
        open_store(where, "b1")


@pytest.mark.parametrize("node", ["", "b\0"])
def test_a_store_needs_the_name_of_its_node(node: str) -> None:
    with pytest.raises(ValueError, match="name of its node"):
        open_store("memory:", node)


def test_logs_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "LOGS_MAX", 2)
    with open_store("memory:", "b1") as store:
        store.write([Append("x", b""), Append("y", b"")])
        with pytest.raises(ValueError, match="no room for the log 'z'"):
            store.write([Append("x", b""), Append("z", b"")])
        assert store.write([Append("x", b"")]) == [2]


def test_a_store_in_memory_lasts_while_it_is_open() -> None:
    with open_store("memory:", "b1") as store:
        assert store.write([Append("x", b"1")]) == [1]
        assert store.read("x", 1, 1) == [b"1"]
    with open_store("memory:", "b1") as store:
        assert not store.logs
