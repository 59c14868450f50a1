"""``gapless spark audit`` as a user runs it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner, Result

from gapless.cli import app
from gapless.simulation.run import Options, simulate
from gapless.simulation.trace import Trace
from gapless.spark.schemas import VIOLATIONS
from gapless.spark.session import open_session
from simulation.histories import play

pytestmark = pytest.mark.slow

SMALL = Options(brokers=4, publishers=2, subscribers=3, events=30)


@pytest.fixture(scope="module", autouse=True)
def session() -> Iterator[SparkSession]:
    """The session of this process, which the command uses, too; stopped if it was started here."""
    found = SparkSession.getActiveSession()
    running = found or open_session("tests", master="local[2]")
    yield running
    if found is None:
        running.stop()


def audit(arguments: str) -> Result:
    return CliRunner().invoke(app, ["spark", "audit", *shlex.split(arguments)], env={"COLUMNS": "300"})


def test_a_simulated_run_keeps_its_promise(tmp_path: Path) -> None:
    outcome, trace = simulate(SMALL, 1)
    trace.write(tmp_path / "run.jsonl")
    result = audit(str(tmp_path))
    assert result.exit_code == 0, result.output
    counts = f"{outcome.published:,} events published, {outcome.delivered:,} deliveries"
    assert f"1 runs, {len(trace):,} lines: {counts}" in result.stdout
    assert "ok: the promise of publisher order was kept" in result.stdout


def test_violations_are_counted_shown_and_written(tmp_path: Path) -> None:
    (tmp_path / "traces").mkdir()
    Trace(play("s+ p.1 p.2 p.3 s<p.1 s<p.3 s<p.3 s<p.3")).write(tmp_path / "traces" / "a.jsonl")
    Trace(play("s+ p.1 p.2 s<p.2 s<p.1")).write(tmp_path / "traces" / "b.jsonl")
    result = audit(f"{tmp_path / 'traces'} --json --first 1 --out {tmp_path / 'out'}")
    found = json.loads(result.stdout)
    assert result.exit_code == 1
    assert found["verdict"] == "violated"
    assert found["counts"] == {"duplicate": 2, "gap": 2, "lost": 1, "order": 1}
    assert found["violated_runs"] == {"duplicate": 1, "gap": 2, "lost": 1, "order": 1}
    assert [(v["kind"], Path(v["run"]).name, v["line"]) for v in found["violations"]] == [
        ("duplicate", "a.jsonl", 8),
        ("gap", "a.jsonl", 7),
        ("lost", "a.jsonl", 4),
        ("order", "b.jsonl", 6),
    ]
    written = pq.read_table(tmp_path / "out")
    assert set(written.schema.names) == set(VIOLATIONS.names)
    assert written.num_rows == 6
    shown = audit(f"{tmp_path / 'traces'} --unfinished")
    assert shown.exit_code == 1
    assert "s got p.3 and missed p.2" in shown.stdout
    assert "never got" not in shown.stdout
    again = audit(f"{tmp_path / 'traces'} --out {tmp_path / 'out'}")
    assert again.exit_code == 2
    assert "exists" in again.stderr


def test_what_cannot_be_read_is_an_error_for_people(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text('{"kind":"crash","t":1,"node":"b"}\n{"kind":"smash"}\n')
    result = audit(str(path))
    assert result.exit_code == 2
    assert f"{path}, line 2: " in result.stderr
    assert "smash" in result.stderr
    assert "Traceback" not in result.stderr
    assert "at org.apache" not in result.stderr
    missing = audit(str(tmp_path / "nowhere"))
    assert missing.exit_code == 2
    assert "no such file" in missing.stderr
    Trace(play("s+ p.1", selectors={"s": "n >"})).write(path)
    selector = audit(str(path))
    assert selector.exit_code == 2
    assert f"{path}, line 1: " in selector.stderr
