"""``gapless spark match`` as a user runs it, on real Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner, Result

from gapless.cli import app

EVENTS = [
    {"id": 1, "symbol": "IBM", "price": 131.2, "desk": {"region": "EU-W"}},
    {"id": 2, "symbol": "IBM", "price": 99.0, "desk": None},
    {"id": 3, "symbol": "SAP", "price": 140.0, "desk": {"region": "US-E"}},
]
SUBSCRIPTIONS = [
    {"subscription": "dear", "selector": "price > 100"},
    {"subscription": "[ibm]", "selector": "symbol = 'IBM'"},
    {"subscription": "europe", "selector": "desk.region LIKE 'EU-%' AND symbol IN ('a,b', 'IBM')"},
    {"subscription": "idle", "selector": "FALSE"},
]
MATCHES = [(1, "[ibm]"), (1, "dear"), (1, "europe"), (2, "[ibm]"), (3, "dear")]


pytestmark = pytest.mark.usefixtures("spark")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["spark", "match", *map(str, arguments)], env={"COLUMNS": "200"})


def written(out: Path) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in parquet.read_table(out).to_pylist())


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.parquet"
    parquet.write_table(pa.Table.from_pylist(EVENTS), path)
    return path


@pytest.fixture
def subscriptions(tmp_path: Path) -> Path:
    return lines(tmp_path / "subscriptions.jsonl", SUBSCRIPTIONS)


def lines(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_matches_are_written_and_counted(events: Path, subscriptions: Path, tmp_path: Path) -> None:
    out = tmp_path / "matches"
    ran = run(events, subscriptions, "--out", out, "--key", "id", "--json")
    assert ran.exit_code == 0, ran.output
    assert written(out) == MATCHES
    told = json.loads(ran.stdout)
    assert told.pop("seconds") > 0
    assert told == {
        "events": 3,
        "subscriptions": 4,
        "matches": 5,
        "matched_subscriptions": 3,
        "most_matched": [
            {"subscription": "[ibm]", "matches": 2},
            {"subscription": "dear", "matches": 2},
            {"subscription": "europe", "matches": 1},
        ],
        "out": str(out),
    }


def test_for_people(events: Path, subscriptions: Path, tmp_path: Path) -> None:
    ran = run(events, subscriptions, "--out", tmp_path / "matches")
    assert ran.exit_code == 0, ran.output
    assert "3 events × 4 subscriptions: 5 matches in" in ran.stdout
    assert "1 subscriptions matched nothing" in ran.stdout
    assert "[ibm]" in ran.stdout
    assert "matching" in ran.stderr
    assert parquet.read_table(tmp_path / "matches").column_names == [*EVENTS[0], "subscription"]


def test_csv_with_quotes_commas_and_lines(tmp_path: Path) -> None:
    events, subscriptions = tmp_path / "events", tmp_path / "subscriptions.csv"
    events.write_text('id,symbol,price,urgent\n1,IBM,131.2,true\n2,"a ""b"", c",7,false\n3,,,\n')
    subscriptions.write_text(
        "subscription,selector\n"
        '007,"symbol = \'a ""b"", c\' AND price = 7"\n'
        'lines,"urgent\nOR price < 0"\n'
        "none,symbol IS NULL AND price IS NULL\n"
    )
    out = tmp_path / "matches"
    ran = run(events, subscriptions, "--format", "csv", "--out", out, "--key", "id")
    assert ran.exit_code == 0, ran.output
    assert written(out) == [(1, "lines"), (2, "007"), (3, "none")]


def test_nothing_matches_nothing(events: Path, tmp_path: Path) -> None:
    nobody = tmp_path / "subscriptions.parquet"
    parquet.write_table(
        pa.table({"subscription": pa.array([], pa.int64()), "selector": pa.array([], "str")}), nobody
    )
    empty = tmp_path / "empty.parquet"
    parquet.write_table(parquet.read_table(events).slice(0, 0), empty)
    for number, table in enumerate((events, empty)):
        ran = run(table, nobody, "--out", tmp_path / f"matches-{number}", "--json")
        assert ran.exit_code == 0, ran.output
        told = json.loads(ran.stdout)
        assert (told["events"], told["matches"], told["most_matched"]) == (3 * (1 - number), 0, [])


def test_bad_selectors_are_told_and_nothing_is_written(events: Path, tmp_path: Path) -> None:
    rows = [{"subscription": 7, "selector": "price > > 5"}, {"subscription": 8, "selector": "TRUE"}]
    ran = run(events, lines(tmp_path / "subscriptions.json", rows), "--out", tmp_path / "matches")
    assert ran.exit_code == 1
    assert "error: 1 of 2 subscriptions are bad\n7: " in ran.stderr
    assert "(line 1, column 9)\n  price > > 5\n          ^" in ran.stderr
    assert not (tmp_path / "matches").exists()


def test_nothing_is_overwritten(events: Path, subscriptions: Path, tmp_path: Path) -> None:
    (tmp_path / "matches").mkdir()
    ran = run(events, subscriptions, "--out", tmp_path / "matches")
    assert ran.exit_code == 1
    assert "PATH_ALREADY_EXISTS" in ran.stderr
    assert list((tmp_path / "matches").iterdir()) == []


def test_what_cannot_be_read_is_told(events: Path, subscriptions: Path, tmp_path: Path) -> None:
    out = tmp_path / "matches"
    for arguments, code, why in [
        ((tmp_path / "none.parquet", subscriptions), 1, "PATH_NOT_FOUND"),
        ((tmp_path / "events", subscriptions), 2, "Say --format parquet, json or csv"),
        (
            (events, subscriptions, "--key", "number"),
            1,
            "the events have no column number; they have id, symbol",
        ),
        ((events, events), 1, "the subscriptions have no column subscription"),
    ]:
        ran = run(*arguments, "--out", out)
        assert (ran.exit_code, why in ran.output) == (code, True), ran.output
        assert "Traceback" not in ran.output


def test_a_line_that_is_no_json_is_an_error(subscriptions: Path, tmp_path: Path) -> None:
    events = lines(tmp_path / "events.jsonl", EVENTS)
    events.write_text(events.read_text() + '{"id": 4, "symbol": \n')
    ran = run(events, subscriptions, "--out", tmp_path / "matches")
    assert ran.exit_code == 1
    assert "MALFORMED" in ran.stderr
    assert "at org.apache" not in ran.stderr
