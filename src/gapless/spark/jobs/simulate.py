"""Many simulated runs, one or some a task: a table of configurations and seeds becomes a table of results.

A run depends on its row alone, so it does not matter where, in which order or how often it is executed: a
task that is repeated, or raced by a copy of itself, finds the same. With traces, a task yields its result and
its trace as rows of one table, which Spark keeps on its disks while both are read from it, so that no run is
executed once for each; what is lost with a machine is run again."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, fields
from itertools import islice
from typing import Any

import msgspec
import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from gapless.core.model import BeyondDelta, OrderName
from gapless.simulation.run import Options, Outcome, simulate
from gapless.simulation.trace import Record, Trace
from gapless.spark.schemas import RESULTS, RUNS, TRACE

MOST_TASKS = 2_000
"""Beyond that many runs a task has several: a short run costs less than a task."""

BATCH_ROWS = 10_000
"""The most lines of a trace that are turned into columns at a time."""

TRACED = StructType([StructField("result", RESULTS), StructField("record", TRACE)])
"""Either a result or a line of a trace."""


def grid(session: SparkSession, runs: Iterable[tuple[Options, int]]) -> DataFrame:
    """Configurations and seeds as a table, the larger runs first, so that no long one is left for the end."""
    largest_first = sorted(runs, key=lambda run: run[0].brokers * run[0].events, reverse=True)
    return session.createDataFrame(grid_table(largest_first), RUNS)


def grid_table(runs: Iterable[tuple[Options, int]]) -> pa.Table:
    """Configurations and seeds as Arrow."""
    rows = [{**asdict(options), "seed": seed} for options, seed in runs]
    return pa.Table.from_pylist(rows, to_arrow_schema(RUNS))


def transform(runs: DataFrame) -> DataFrame:
    """The ``RESULTS`` of the ``RUNS``."""
    return a_row_a_task(runs).mapInArrow(_results, RESULTS)


@contextmanager
def traced(runs: DataFrame) -> Iterator[tuple[DataFrame, DataFrame]]:
    """The ``RESULTS`` and the ``TRACE`` rows of the ``RUNS``, from one execution, while the block lasts."""
    both = a_row_a_task(runs).mapInArrow(_results_and_traces, TRACED).persist(StorageLevel.DISK_ONLY)
    try:
        results, traces = (both.where(f.col(kind).isNotNull()).select(f"{kind}.*") for kind in TRACED.names)
        yield results, traces
    finally:
        both.unpersist()


def tasks_of(runs: int) -> int:
    """How many tasks that many runs are."""
    return max(1, min(runs, MOST_TASKS))


def a_row_a_task(rows: DataFrame) -> DataFrame:
    """Exactly one row a partition, up to the most tasks, which neither hashing nor dealing out would give."""
    tasks = tasks_of(rows.count())
    index = (f.col("task") % tasks).cast("int")
    return rows.zipWithIndex("task").repartitionById(tasks, index).drop("task")


def _results(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(RESULTS)
    for options, seed in _runs(batches):
        outcome, _ = _run(options, seed)
        yield pa.RecordBatch.from_pylist([_result(options, outcome)], schema)


def _results_and_traces(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(TRACED)
    for options, seed in _runs(batches):
        outcome, trace = _run(options, seed)
        yield pa.RecordBatch.from_pylist([{"result": _result(options, outcome)}], schema)
        lines = ({"record": row} for row in rows_of(name_of(options, seed), trace))
        while some := list(islice(lines, BATCH_ROWS)):
            yield pa.RecordBatch.from_pylist(some, schema)


def _runs(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Options, int]]:
    for batch in batches:
        for row in batch.to_pylist():
            seed, order, beyond = row.pop("seed"), row.pop("order"), row.pop("beyond_delta")
            yield Options(order=OrderName(order), beyond_delta=BeyondDelta(beyond), **row), seed


def _run(options: Options, seed: int) -> tuple[Outcome, Trace]:
    """One run. The table comes when all have ended: a failing one is named in its executor's log at once."""
    outcome, trace = _attempted(options, seed)
    if outcome.verdict != "ok":
        sys.stderr.write(f"violated: {options.command(seed)}\n")
    return outcome, trace


def _attempted(options: Options, seed: int) -> tuple[Outcome, Trace]:
    """Code that raises is what a simulation is there to find, and raises again at every attempt."""
    try:
        return simulate(options, seed)
    except MemoryError:  # says nothing about the run
        raise
    except Exception as error:
        broken = Outcome(
            seed=seed,
            verdict="violated",
            violations=[],
            counts={f"raised {type(error).__name__}": 1},
            published=0,
            delivered=0,
            faults=0,
            simulated_seconds=0.0,
            digest="",
        )
        return broken, Trace()


def name_of(options: Options, seed: int) -> str:
    """What a run is called in a table of traces: short, unique, and good for a directory."""
    fingerprint = hashlib.sha256(" ".join(options.as_arguments()).encode()).hexdigest()[:12]
    return f"seed{seed}-{fingerprint}"


def _result(options: Options, outcome: Outcome) -> dict[str, Any]:
    """A row of ``RESULTS``."""
    named = {each.name for each in fields(Outcome)} & set(RESULTS.names)
    return {
        **asdict(options),
        **{name: getattr(outcome, name) for name in named},
        "counts": list(outcome.counts.items()),
        "kinds": list(outcome.kinds.items()),
        "run": name_of(options, outcome.seed),
        "command": options.command(outcome.seed),
    }


def rows_of(run: str, trace: Iterable[Record]) -> Iterator[dict[str, Any]]:
    """The ``TRACE`` rows of a trace."""
    for line, record in enumerate(trace, start=1):
        yield {"run": run, "line": line, **row_of(record)}


def row_of(record: Record) -> dict[str, Any]:
    """The columns of ``TRACE`` that a record fills."""
    row: dict[str, Any] = msgspec.to_builtins(record)
    if "attributes" in row:
        row["attributes"] = msgspec.json.encode(row["attributes"]).decode()
    if "start" in row:
        row["start"] = list(row["start"].items())
    return row
