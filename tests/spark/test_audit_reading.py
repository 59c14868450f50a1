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

from gapless.simulation.trace import Record, TraceError, encode
from gapless.spark.jobs.audit import Survey, read, survey, transform
from gapless.spark.jobs.simulate import rows_of
from gapless.spark.schemas import TRACE
from simulation.histories import chaotic
from spark.auditing import expected, found, varied, write

GOOD = b'{"kind":"crash","t":1,"node":"b"}\n'


@pytest.fixture
def small_splits(spark: SparkSession) -> Iterator[int]:
    """Let Spark cut files every 700 bytes."""
    names = {"spark.sql.files.maxPartitionBytes": "700", "spark.sql.files.openCostInBytes": "1"}
    for name, value in names.items():
        spark.conf.set(name, value)
    yield 700
    for name in names:
        spark.conf.unset(name)


@pytest.fixture(autouse=True)
def _forget(spark: SparkSession) -> Iterator[None]:
    yield
    spark.catalog.clearCache()


def long_trace(seeds: range) -> list[Record]:
    return [record for seed in seeds for record in varied(Random(seed))]


def rows(lines: DataFrame) -> list[dict[str, Any]]:
    """The rows in the order of run and line, without what says nothing."""
    found = sorted(lines.toArrow().to_pylist(), key=lambda row: (row["run"], row["line"]))
    return [{name: value for name, value in row.items() if value not in (None, "", [])} for row in found]


def told(run: str, trace: list[Record], lines: list[int] | None = None) -> list[dict[str, Any]]:
    found = [
        {name: value for name, value in row.items() if value not in (None, "", [])}
        for row in rows_of(run, trace)
    ]
    for row, line in zip(found, lines or [], strict=bool(lines)):
        row["line"] = line
    return found


def test_a_file_that_is_split_keeps_its_order(spark: SparkSession, small_splits: int, tmp_path: Path) -> None:
    """Lines of any length, empty lines among them, and none at the end: numbers are those of the file."""
    trace, rng = long_trace(range(40)), Random(1)
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
    assert parts > len(text) // small_splits // 2 > 100
    assert rows(found) == told(str(path), trace, lines)


def test_all_files_of_a_directory_or_a_glob_are_runs(
    spark: SparkSession, small_splits: int, tmp_path: Path
) -> None:
    traces = {
        f"{tmp_path}/{name}": chaotic(Random(name)) for name in ("a.jsonl", "b.jsonl", "in/side/c.jsonl")
    }
    for name, trace in traces.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_bytes(b"".join(encode(record) + b"\n" for record in trace))
    assert rows(read(spark, str(tmp_path))) == [
        row for name, trace in traces.items() for row in told(name, trace)
    ]
    some = {name: trace for name, trace in traces.items() if "/in/" not in name}
    lines = read(spark, f"{tmp_path}/*.jsonl")
    assert rows(lines) == [row for name, trace in some.items() for row in told(name, trace)]
    assert survey(lines) == Survey(
        runs=2,
        lines=sum(map(len, some.values())),
        published=sum(row["kind"] == "publish" for name, trace in some.items() for row in told(name, trace)),
        delivered=sum(row["kind"] == "deliver" for name, trace in some.items() for row in told(name, trace)),
    )


def test_a_compressed_file_is_read_too(spark: SparkSession, tmp_path: Path) -> None:
    path, trace = tmp_path / "run.jsonl.gz", chaotic(Random(3))
    path.write_bytes(gzip.compress(b"".join(encode(record) + b"\n" for record in trace)))
    assert rows(read(spark, str(path))) == told(str(path), trace)


@pytest.mark.slow
def test_a_split_file_is_judged_like_any_other(
    spark: SparkSession, small_splits: int, tmp_path: Path
) -> None:
    path, trace = tmp_path / "run.jsonl", long_trace(range(30))
    path.write_bytes(b"".join(encode(record) + b"\n" for record in trace))
    lines = read(spark, str(path)).drop("error")
    options: dict[str, Any] = {"promise": "publisher", "healed": True}
    assert found(transform(lines, **options)) == expected({str(path): trace}, **options)


def test_parquet_by_run_and_line(spark: SparkSession, tmp_path: Path) -> None:
    traces = {f"run-{seed}": varied(Random(seed)) for seed in range(5)}
    lines = read(spark, write(tmp_path / "traces.parquet", traces))
    assert rows(lines) == [row for name, trace in traces.items() for row in told(name, trace)]


def test_parquet_partitioned_by_run(spark: SparkSession, tmp_path: Path) -> None:
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


@pytest.mark.parametrize(
    ("line", "error"),
    [
        (b"{", "line 4: .*truncated"),
        (b'{"kind":"delivery","t":1}', "line 4: .*delivery"),
        (b'{"kind":"crash","t":1}', "line 4: .*node"),
        (b'{"kind":"crash","t":-1,"node":"b"}', "line 4: "),
        (b'{"kind":"crash","t":1,"node":"\xff"}', "line 4: "),
        (b'{"kind":"confirm","t":1,"publisher":"p","sequence":9223372036854775808}', "line 4: "),
        (b'{"kind":"confirm","t":1,"publisher":"p","sequence":0}', "line 4: "),
        (b'{"kind":"live","t":1,"subscription":"s","start":{"p":1e3}}', "line 4: "),
    ],
)
def test_a_malformed_line_is_named(spark: SparkSession, tmp_path: Path, line: bytes, error: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(GOOD * 2 + b"\n" + line + b"\n" + GOOD + b"}\n")
    with pytest.raises(TraceError, match=f"^{path}, {error}"):
        survey(read(spark, str(path)))


def test_what_is_not_there_is_named(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="nowhere: there is no such file"):
        read(spark, str(tmp_path / "nowhere"))
    with pytest.raises(TraceError, match="there is no file in it"):
        read(spark, str(tmp_path))
    write(tmp_path / "a.parquet", {})
    (tmp_path / "b.jsonl").write_bytes(GOOD)
    with pytest.raises(TraceError, match="Parquet files and others"):
        read(spark, str(tmp_path))


@pytest.mark.parametrize(
    ("row", "error"),
    [
        ({"kind": "explode"}, "run, line 2: there is no kind explode"),
        ({"kind": "crash"}, "run, line 2: a crash needs a node"),
        ({"kind": "confirm", "publisher": "p", "sequence": 0}, "run, line 2: sequences count from 1"),
        (
            {
                "kind": "publish",
                "client": "c",
                "publisher": "p",
                "sequence": 1,
                "topic": "t",
                "attributes": "[1]",
            },
            "run, line 2: the attributes are not a JSON object",
        ),
    ],
)
def test_a_row_that_is_no_record_is_named(
    spark: SparkSession, tmp_path: Path, row: dict[str, Any], error: str
) -> None:
    table = spark.createDataFrame(
        [
            dict.fromkeys(TRACE.names) | {"run": "run", "line": line, "t": 0} | each
            for line, each in enumerate(({"kind": "crash", "node": "b"}, row), start=1)
        ],
        TRACE,
    )
    table.write.parquet(str(tmp_path / "traces.parquet"))
    with pytest.raises(TraceError, match=f"^{error}"):
        survey(read(spark, str(tmp_path)))


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
