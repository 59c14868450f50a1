"""The audit on Spark is of one mind with the checkers in this process, violation by violation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from gapless.core.model import OrderName
from gapless.simulation.checkers import Kind
from gapless.simulation.run import Options, simulate
from gapless.simulation.trace import Deliver, Record, TraceError
from gapless.spark.jobs.audit import total, transform
from gapless.spark.schemas import VIOLATIONS
from simulation.histories import chaotic, correct, play
from simulation.mutants import broken
from simulation.test_mutants import PINNED, TINY
from spark.auditing import expected, found, varied, write
from spark.clusters import Cluster

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _forget(spark: SparkSession) -> Iterator[None]:
    yield
    spark.catalog.clearCache()


@pytest.fixture(scope="module")
def traces() -> dict[str, list[Record]]:
    """Thousands of runs: kept and broken promises, made up and simulated."""
    runs: dict[str, list[Record]] = {}
    runs |= {f"chaotic-{seed}": chaotic(Random(seed)) for seed in range(1200)}
    runs |= {f"varied-{seed}": varied(Random(seed)) for seed in range(1200)}
    runs |= {f"correct-{seed}": correct(Random(seed)) for seed in range(300)}
    runs |= {f"damaged-{seed}": damaged(Random(seed)) for seed in range(300)}
    small = replace(TINY, events=20)
    for seed in range(12):
        runs[f"best-effort-{seed}"] = simulated(replace(small, order=OrderName.BEST_EFFORT), seed)
        runs[f"publisher-{seed}"] = simulated(small, seed)
    for mutant, (options, seeds) in PINNED.items():
        runs[f"mutant-{mutant}"] = simulated(replace(options, events=40), seeds[0], mutant)
    return runs


def damaged(rng: Random) -> list[Record]:
    """A correct history with one delivery dropped, repeated, or exchanged with another one."""
    trace = correct(rng)
    indices = [i for i, record in enumerate(trace) if isinstance(record, Deliver)]
    if len(indices) > 1:
        i, j = sorted(rng.sample(indices, 2))
        match rng.choice(("drop", "repeat", "exchange")):
            case "drop":
                del trace[i]
            case "repeat":
                trace.insert(j, trace[i])
            case _:
                trace[i], trace[j] = trace[j], trace[i]
    return trace


def simulated(options: Options, seed: int, mutant: str | None = None) -> list[Record]:
    with broken(mutant) if mutant else nullcontext():
        return list(simulate(options, seed)[1])


@pytest.fixture(scope="module")
def path(traces: dict[str, list[Record]], tmp_path_factory: pytest.TempPathFactory) -> str:
    return write(tmp_path_factory.mktemp("audit") / "traces.parquet", traces)


@pytest.mark.parametrize(
    "options",
    [
        {"promise": "causal", "healed": True, "durable": False},
        {"promise": "total", "healed": True, "durable": True},
        {"promise": "total", "healed": False, "durable": False},
    ],
    ids=["causal-healed", "total-healed-durable", "total-unfinished"],
)
def test_agrees_with_the_checkers(
    spark: SparkSession, traces: dict[str, list[Record]], path: str, options: dict[str, Any]
) -> None:
    violations = transform(spark.read.parquet(path), **options)
    assert violations.columns == VIOLATIONS.names
    theirs, ours = expected(traces, **options), found(violations)
    assert ours == theirs
    kinds = Counter(kind for _, kind, *_ in theirs.elements())
    unjudged = {"causal", "total"} - {options["promise"]}
    unjudged |= set() if options["healed"] else {"lost", "durable"}
    assert set(kinds) == {kind.value for kind in Kind} - unjudged
    assert min(kinds.values()) > 20, "the traces hold too little to find"
    clean = set(traces) - {run for run, *_ in theirs}
    assert len(clean) > 300


def test_nothing_depends_on_how_rows_are_divided(
    spark: SparkSession, traces: dict[str, list[Record]], path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows in disorder, and total order without any rounds: every topic is followed as a whole."""
    monkeypatch.setattr(total, "ROUNDS", 0)
    some = {run: trace for run, trace in traces.items() if run.endswith("7")}
    rows = spark.read.parquet(path).where("run LIKE '%7'").repartition(7, "t", "line")
    options: dict[str, Any] = {"promise": "total", "healed": True}
    assert found(transform(rows, **options)) == expected(some, **options)


def in_cluster(session: SparkSession, path: str) -> Counter[Any]:
    return found(transform(session.read.parquet(path), promise="causal", healed=True))


def test_a_real_cluster_finds_the_same(cluster: Cluster, tmp_path: Path) -> None:
    some = {f"run-{seed}": chaotic(Random(seed)) for seed in range(60)}
    path = write(tmp_path / "traces.parquet", some)
    assert cluster.run(in_cluster, path) == expected(some, promise="causal", healed=True)


def test_when_nothing_is_promised(spark: SparkSession, tmp_path: Path) -> None:
    some = {"run": play("s+ p.1 p.2 p.3 s<p.3 s<p.1 s<p.1 s<p.4"), "nobody": play("p.1 p.2")}
    rows = spark.read.parquet(write(tmp_path / "traces.parquet", some))
    for healed in (False, True):
        options: dict[str, Any] = {"promise": "best-effort", "healed": healed, "durable": True}
        theirs = expected(some, **options)
        assert found(transform(rows, **options)) == theirs
        assert {kind for _, kind, *_ in theirs} == {"duplicate", "phantom"}


def test_an_empty_trace_is_clean(spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.read.parquet(write(tmp_path / "traces.parquet", {}))
    assert transform(rows, promise="publisher", healed=True).isEmpty()


def test_a_text_that_is_no_selector_is_named(spark: SparkSession, tmp_path: Path) -> None:
    some = {"good": play("s+"), "bad": play("t+ s+ p.1", selectors={"s": "n > > 2"})}
    rows = spark.read.parquet(write(tmp_path / "traces.parquet", some))
    with pytest.raises(TraceError, match=r"^bad, line 3: .*"):
        transform(rows, promise="publisher", healed=True)


def test_a_promise_that_does_not_exist_is_refused(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="eventually"):
        transform(spark.createDataFrame([], "run string"), promise="eventually", healed=True)
