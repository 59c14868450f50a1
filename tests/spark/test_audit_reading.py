"""Traces as Spark reads them: the same records, in the same order, and errors that say where."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from gapless.simulation.trace import Record, TraceError, encode
from gapless.spark.jobs.audit import Survey, read, survey
from gapless.spark.jobs.simulate import rows_of
from gapless.spark.schemas import TRACE
from simulation.histories import chaotic
from spark.auditing import varied, write

GOOD = b'{"kind":"crash","t":1,"node":"b"}\n'


@pytest.fixture
def small_splits(spark: SparkSession) -> Iterator[int]:
    """Let Spark cut files every 2,000 bytes."""
    names = {"spark.sql.files.maxPartitionBytes": "2000", "spark.sql.files.openCostInBytes": "1"}
    for name, value in names.items():
        spark.conf.set(name, value)
    yield 2000
    for name in names:
        spark.conf.unset(name)


@pytest.fixture(autouse=True)
def _forget(spark: SparkSession) -> Iterator[None]:
    yield
    spark.catalog.clearCache()


def rows(lines: DataFrame) -> list[dict[str, Any]]:
    """The rows in the order of run and line."""
    found = sorted(lines.toArrow().to_pylist(), key=lambda row: (row["run"], row["line"]))
    return [_saying(row) for row in found]


def told(run: str, trace: list[Record], lines: list[int] | None = None) -> list[dict[str, Any]]:
    """What ``rows`` must be; ``lines``: the numbers of the lines where they do not follow each other."""
    found = [_saying(row) for row in rows_of(run, trace)]
    for row, line in zip(found, lines or [], strict=bool(lines)):
        row["line"] = line
    return found


def _saying(row: dict[str, Any]) -> dict[str, Any]:
    """A row without what says nothing."""
    lists = {name: list(value) if isinstance(value, tuple) else value for name, value in row.items()}
    return {name: value for name, value in lists.items() if value not in (None, "", [])}


def test_a_file_that_is_split_keeps_its_order(spark: SparkSession, small_splits: int, tmp_path: Path) -> None:
    """Lines of any length, empty lines among them, and none at the end: numbers are those of the file."""
    trace, rng = [record for seed in range(8) for record in varied(Random(seed))], Random(1)
    path = tmp_path / "a run+1%.jsonl"
    text, lines, number = b"", [], 0
    for record in trace:
        for _ in range(rng.choice((0, 0, 0, 0, 1, 3))):
            text += rng.choice((b"\n", b"  \n", b"\r\n"))
            number += 1
        number += 1
        lines.append(number)
        text += encode(record) + b" " * rng.choice((0, 0, 0, 900)) + rng.choice((b"\n", b"\n", b"\r\n"))
    path.write_bytes(text.rstrip())
    found = read(spark, str(path))
    parts = spark.read.text(str(path)).rdd.getNumPartitions()
    assert parts > len(text) // small_splits // 2 > 5
    assert rows(found) == told(str(path), trace, lines)


def test_all_files_of_a_directory_or_a_glob_are_runs(spark: SparkSession, tmp_path: Path) -> None:
    names = ("a.jsonl", "b.jsonl", "in/side/c.jsonl.gz")
    traces = {f"{tmp_path}/{name}": chaotic(Random(name)) for name in names}
    for name, trace in traces.items():
        text = b"".join(encode(record) + b"\n" for record in trace)
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    assert rows(read(spark, str(tmp_path))) == [row for run in traces for row in told(run, traces[run])]
    some = [row for run in list(traces)[:2] for row in told(run, traces[run])]
    lines = read(spark, f"{tmp_path}/*.jsonl")
    assert rows(lines) == some
    published, delivered = (sum(row["kind"] == kind for row in some) for kind in ("publish", "deliver"))
    assert survey(lines) == Survey(runs=2, lines=len(some), published=published, delivered=delivered)


def test_parquet_by_run_and_line(spark: SparkSession, tmp_path: Path) -> None:
    """As ``gapless spark simulate --traces`` writes it, a directory a run."""
    traces = {f"run-{seed}": varied(Random(seed)) for seed in range(3)}
    whole = spark.read.parquet(write(tmp_path / "traces.parquet", traces))
    whole.write.partitionBy("run").parquet(str(tmp_path / "parts"))
    lines = read(spark, str(tmp_path / "parts"))
    assert rows(lines) == [row for name, trace in traces.items() for row in told(name, trace)]


def test_parquet_without_runs_and_lines(spark: SparkSession, tmp_path: Path) -> None:
    """A run is a file, in the order of its rows; what a trace does not use may be missing."""
    path, trace = tmp_path / "run 1.parquet", chaotic(Random(5))
    given = [
        {name: value for name, value in row.items() if name not in ("run", "line")}
        for row in rows_of("", trace)
    ]
    fields = list(pq.read_table(write(tmp_path / "x.parquet", {"": trace})).schema)
    kept = pa.schema([field for field in fields if field.name not in ("run", "line", "position", "nodes")])
    pq.write_table(pa.Table.from_pylist(given, kept), path, row_group_size=7)
    assert rows(read(spark, str(path))) == told(str(path), trace)


MALFORMED = {
    b"{": "truncated",
    b'{"kind":"delivery","t":1}': "delivery",
    b'{"kind":"crash","t":1}': "node",
    b'{"kind":"crash","t":-1,"node":"b"}': ">= 0",
    b'{"kind":"crash","t":1,"node":"\xff"}': "utf-8",
    b'{"kind":"confirm","t":1,"publisher":"p","sequence":9223372036854775808}': "too large",
    b'{"kind":"confirm","t":1,"publisher":"p","sequence":0}': ">= 1",
    b'{"kind":"live","t":1,"subscription":"s","start":{"p":1.5}}': "int",
}


def test_malformed_lines_are_named(spark: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(GOOD * 2 + b"\n" + b"\n".join(MALFORMED) + b"\n" + GOOD)
    lines = read(spark, str(path))
    errors = lines.where("error IS NOT NULL").orderBy("line").select("run", "line", "error").collect()
    assert [(row.run, row.line) for row in errors] == [(str(path), 4 + n) for n in range(len(MALFORMED))]
    assert [why for row, why in zip(errors, MALFORMED.values(), strict=True) if why not in row.error] == []
    with pytest.raises(TraceError, match=f"^{path}, line 4: .*truncated"):
        survey(lines)


def test_what_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere: there is no such file"):
        read(spark, str(tmp_path / "nowhere"))
    with pytest.raises(TraceError, match="there is no file in it"):
        read(spark, str(tmp_path))
    (tmp_path / "empty.jsonl").write_bytes(b"\n")
    with pytest.raises(TraceError, match="there is no record to audit"):
        survey(read(spark, str(tmp_path)))
    write(tmp_path / "a.parquet", {})
    (tmp_path / "b.jsonl").write_bytes(GOOD)
    with pytest.raises(TraceError, match="Parquet files and others"):
        read(spark, str(tmp_path))


def test_rows_that_are_no_records_are_named(spark: SparkSession, tmp_path: Path) -> None:
    event = {"client": "c", "publisher": "p", "sequence": 1, "topic": "t"}
    given: dict[str, dict[str, Any]] = {
        "": {"kind": "crash", "node": "b"},
        "there is no kind explode": {"kind": "explode"},
        "a crash needs a node": {"kind": "crash"},
        "sequences count from 1": {"kind": "confirm", "publisher": "p", "sequence": 0},
        "the attributes are not a JSON object": {"kind": "publish", **event, "attributes": "[1]"},
    }
    table = [{"run": "run", "line": n, "t": 0, **row} for n, row in enumerate(given.values(), start=1)]
    path = str(tmp_path / "traces.parquet")
    pq.write_table(pa.Table.from_pylist(table, to_arrow_schema(TRACE)), path)
    lines = read(spark, path)
    assert [row.error or "" for row in lines.orderBy("line").collect()] == list(given)
    with pytest.raises(TraceError, match=r"^run, line 2: there is no kind explode"):
        survey(lines)


def test_a_table_that_is_no_trace_is_named(spark: SparkSession, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "numbers.parquet"))
    with pytest.raises(TraceError, match="no column kind"):
        read(spark, str(tmp_path / "numbers.parquet"))
    spark.sql("SELECT 'crash' AS kind, '1' AS t").write.parquet(str(tmp_path / "texts.parquet"))
    with pytest.raises(TraceError, match="the column t is string, not bigint"):
        read(spark, str(tmp_path / "texts.parquet"))


def test_a_run_that_was_written_twice_is_named(spark: SparkSession, tmp_path: Path) -> None:
    for name in ("a.parquet", "b.parquet"):
        write(tmp_path / name, {"run": chaotic(Random(1))})
    with pytest.raises(TraceError, match=r"^run: has more rows than lines"):
        survey(read(spark, str(tmp_path)))
