"""The audit on Spark is of one mind with the checkers in this process, violation by violation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from benchmarks.planted import Planted
from pyspark.sql import SparkSession

from gapless.simulation.checkers import Kind
from gapless.simulation.trace import Record, TraceError
from gapless.spark.jobs.audit import transform
from gapless.spark.schemas import VIOLATIONS
from simulation.histories import chaotic, play
from spark.auditing import expected, found, many, write
from spark.clusters import Cluster

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]  # Spark compiles hundreds of stages


@pytest.fixture(autouse=True)
def _forget(spark: SparkSession) -> Iterator[None]:
    yield
    spark.catalog.clearCache()


@pytest.fixture(scope="module")
def traces() -> dict[str, list[Record]]:
    return many(200)


@pytest.fixture(scope="module")
def path(traces: dict[str, list[Record]], tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("audit") / "traces.parquet", traces)


def test_agrees_with_the_checkers(
    spark: SparkSession, traces: dict[str, list[Record]], path: str, tmp_path: Path
) -> None:
    """Whatever order the rows are in; and of a longer run it finds what is planted, and nothing else."""
    options: dict[str, Any] = {"promise": "total", "healed": True, "durable": True}
    planted = Planted(10_000)
    planted.trace(spark).repartition(5, "line").write.parquet(str(tmp_path / "planted.parquet"))
    rows = spark.read.parquet(path, str(tmp_path / "planted.parquet"))
    violations = transform(rows, **options, whole=0)
    assert violations.columns == VIOLATIONS.names
    ours, theirs = found(violations), expected(traces, **options)
    seen = Counter({each: count for each, count in ours.items() if each[0] == "planted"})
    assert ours - seen == theirs
    where = [(kind, *event) for _, kind, _, _, *event, _ in seen.elements()]
    assert sorted(where, key=str) == planted.violations("total", durable=True)
    kinds = Counter(kind for _, kind, *_ in theirs.elements())
    assert set(kinds) == {kind.value for kind in Kind} - {"causal"}
    assert min(kinds.values()) > 5, "the traces hold too little to find"
    assert len(set(traces) - {run for run, *_ in theirs}) > 30, "too few traces are clean"
    simulated = {run for run, *_ in expected(traces, promise="publisher", healed=True) if run[0] in "bmp"}
    assert Counter(run.split("-")[0] for run in simulated).keys() == {"best", "mutant"}


def test_short_runs_are_judged_each_in_one_task(
    spark: SparkSession, traces: dict[str, list[Record]], path: str
) -> None:
    rows = spark.read.parquet(path).repartition(5, "t", "line")
    for promise, healed in (("causal", False), ("total", True)):
        violations = transform(rows, promise=promise, healed=healed)
        assert found(violations) == expected(traces, promise=promise, healed=healed)


def in_cluster(session: SparkSession, path: str) -> Counter[Any]:
    return found(transform(session.read.parquet(path), promise="causal", healed=True, whole=54))


def test_a_real_cluster_finds_the_same(cluster: Cluster, tmp_path: Path) -> None:
    """Of runs that are judged in one task and of others, in causal order."""
    some = {f"run-{seed}": chaotic(Random(seed)) for seed in range(60)}
    assert min(map(len, some.values())) < 54 < max(map(len, some.values()))
    theirs = expected(some, promise="causal", healed=True)
    assert {"causal", "gap", "lost"} <= {kind for _, kind, *_ in theirs}
    assert cluster.run(in_cluster, write(tmp_path / "traces.parquet", some)) == theirs


def test_a_text_that_is_no_selector_is_named(spark: SparkSession, tmp_path: Path) -> None:
    some = {"good": play("s+"), "bad": play("t+ s+ p.1", selectors={"s": "n > > 2"})}
    rows = spark.read.parquet(write(tmp_path / "traces.parquet", some))
    with pytest.raises(TraceError, match=r"^bad, line 3: .*"):
        transform(rows, promise="publisher", healed=True)


def test_a_promise_that_does_not_exist_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="eventually"):
        transform(spark.createDataFrame([], "run string"), promise="eventually", healed=True)
