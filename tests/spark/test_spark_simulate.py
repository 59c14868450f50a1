"""Many runs on Spark: the same as in this process, wherever and however often they are executed."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import threading
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any, get_args

import msgspec
import pytest
from pyspark.errors import PythonException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from typer.testing import CliRunner, Result

from gapless.cli import app
from gapless.core.model import OrderName
from gapless.simulation import trace
from gapless.simulation.run import Options, Outcome, simulate
from gapless.spark import progress
from gapless.spark.jobs import simulate as job
from gapless.spark.schemas import RUNS, TRACE
from spark.clusters import Cluster, wait_for

SMALL = Options(brokers=6, publishers=2, subscribers=3, events=20, crashes=2, cuts=1)
BROKEN = Options(order=OrderName.BEST_EFFORT, brokers=8, events=40, crashes=6, cuts=4)
RUNS_HERE = [(options, seed) for options in (SMALL, BROKEN) for seed in range(3)]


def expected(runs: list[tuple[Options, int]]) -> dict[str, dict[str, Any]]:
    """What a result must say, by the command of the run: simulated in this process."""
    return {options.command(seed): told(simulate(options, seed)[0]) for options, seed in runs}


def told(outcome: Outcome) -> dict[str, Any]:
    return {name: value for name, value in asdict(outcome).items() if name != "violations"}


def found(results: DataFrame) -> dict[str, dict[str, Any]]:
    """What the results say, by the command of the run."""
    rows = [row.asDict() for row in results.collect()]
    assert len({row["run"] for row in rows}) == len(rows)
    names = [each.name for each in fields(Outcome) if each.name != "violations"]
    return {row["command"]: {name: row[name] for name in names} for row in rows}


def test_the_columns_are_the_fields() -> None:
    assert {each.name for each in fields(Options)} | {"seed"} == set(RUNS.names)
    recorded = {each.name for record in get_args(trace.Record) for each in msgspec.structs.fields(record)}
    assert recorded | {"run", "line", "kind"} == set(TRACE.names)


def test_a_run_is_what_it_is_in_this_process(spark: SparkSession) -> None:
    results = job.transform(job.grid(spark, RUNS_HERE))
    assert found(results) == expected(RUNS_HERE)


def test_a_run_is_a_task_and_partitions_do_not_matter(spark: SparkSession) -> None:
    runs = job.grid(spark, [(SMALL, seed) for seed in range(7)])
    alone = job.transform(runs).withColumn("task", f.spark_partition_id())
    assert sorted(row.task for row in alone.select("task").collect()) == list(range(7))
    for partitioned in (runs.coalesce(1), runs.repartition(5, "seed")):
        assert found(job.transform(partitioned)) == found(alone)


def test_traces_survive_the_table_exactly(spark: SparkSession, tmp_path: Path) -> None:
    with job.traced(job.grid(spark, RUNS_HERE)) as (results, traces):
        assert found(results) == expected(RUNS_HERE)
        traces.write.partitionBy("run").parquet(str(tmp_path / "traces"))
    stored = spark.read.schema(TRACE).parquet(str(tmp_path / "traces"))
    for options, seed in RUNS_HERE:
        rows = stored.where(f.col("run") == job.name_of(options, seed)).orderBy("line").collect()
        assert [row.line for row in rows] == list(range(1, len(rows) + 1))
        assert [as_line(row.asDict()) for row in rows] == [
            as_text(each) for each in simulate(options, seed)[1]
        ]


def as_text(record: trace.Record) -> str:
    return json.dumps(json.loads(trace.encode(record)), sort_keys=True)


def as_line(row: dict[str, Any]) -> str:
    """The line of the trace that a row was made of."""
    known = {name: value for name, value in row.items() if value is not None and name not in ("run", "line")}
    if "attributes" in known:
        known["attributes"] = json.loads(known["attributes"])
    return json.dumps(known, sort_keys=True)


def test_with_traces_every_run_is_executed_once(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with job.traced(job.grid(spark, RUNS_HERE[:2])) as (results, traces):
        results.collect()
        traces.explain()
        assert "InMemoryTableScan" in capsys.readouterr().out
        assert len(spark.sparkContext._jsc.getPersistentRDDs()) == 1
    assert not spark.sparkContext._jsc.getPersistentRDDs()


def test_a_run_that_raises_is_a_failing_run(spark: SparkSession) -> None:
    unbuilt = Options(order=OrderName.TOTAL)
    row = job.transform(job.grid(spark, [(unbuilt, 5)])).collect()[0]
    assert row.verdict == "violated"
    assert [kind.split()[0] for kind in row.counts] == ["raised"]
    assert row.command == "gapless simulate --order total --seed 5"


def test_a_failing_run_is_named_in_its_executors_log_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    unbuilt = Options(order=OrderName.TOTAL)
    batch = job.grid_table([(unbuilt, 5)]).to_batches()
    assert [each.num_rows for each in job._results(iter(batch))] == [1]
    assert capsys.readouterr().err == "violated: gapless simulate --order total --seed 5\n"


def test_a_row_that_is_no_run_fails_with_a_clear_error(spark: SparkSession) -> None:
    wrong = job.grid(spark, [(SMALL, 0)]).withColumn("brokers", f.lit(0).cast("long"))
    with pytest.raises(PythonException, match="brokers must be at least 1, not 0"):
        job.transform(wrong).collect()


def digests(cluster: SparkSession, runs: list[tuple[Options, int]]) -> dict[str, dict[str, Any]]:
    return found(job.transform(job.grid(cluster, runs)))


@pytest.mark.slow
def test_a_run_is_the_same_on_a_cluster(cluster: Cluster) -> None:
    assert cluster.run(digests, RUNS_HERE) == expected(RUNS_HERE)


def with_a_killed_executor(
    cluster: SparkSession, runs: list[tuple[Options, int]]
) -> tuple[dict[str, dict[str, Any]], list[int]]:
    """The results of the runs, and how many of them were done when one of the two executors was killed."""
    done: list[int] = []
    killer = threading.Thread(target=kill_an_executor, args=(cluster, len(runs), done))
    killer.start()
    try:
        return digests(cluster, runs), done
    finally:
        killer.join()
        wait_for(lambda: len(executors(cluster)) == 2)


def kill_an_executor(cluster: SparkSession, tasks: int, done: list[int]) -> None:
    """Once some of the tasks have ended and others are under way, kill one of this cluster's executors."""
    tracker = cluster.sparkContext.statusTracker()

    def completed() -> int:
        stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
        return max((each.numCompletedTasks for each in stages if each and each.numTasks == tasks), default=0)

    wait_for(lambda: completed() > 0)
    os.kill(executors(cluster)[0], signal.SIGKILL)
    done.append(completed())


def executors(cluster: SparkSession) -> list[int]:
    """The processes of the executors that work for this very driver."""
    driver = f"CoarseGrainedScheduler@127.0.0.1:{cluster.sparkContext.getConf().get('spark.driver.port')}"
    shown = subprocess.run(["ps", "-wweo", "pid=,args="], check=True, capture_output=True, text=True)
    lines = [line for line in shown.stdout.splitlines() if driver in line and "/bin/java" in line]
    return [int(line.split()[0]) for line in lines]


@pytest.mark.slow
def test_a_killed_executor_changes_nothing(cluster: Cluster) -> None:
    runs = [(SMALL, seed) for seed in range(16)]
    results, done = cluster.run(with_a_killed_executor, runs)
    assert len(done) == 1
    assert 0 < done[0] < len(runs), "killed while the job ran"
    assert results == expected(runs)


def traces_without_an_executor(
    cluster: SparkSession, runs: list[tuple[Options, int]]
) -> set[tuple[Any, ...]]:
    """The traces, read after one of the executors that kept them was killed."""
    with job.traced(job.grid(cluster, runs)) as (results, traces):
        results.collect()
        os.kill(executors(cluster)[0], signal.SIGKILL)
        rows = traces.select("run", "line", "kind", "t").collect()
        wait_for(lambda: len(executors(cluster)) == 2)
        return set(map(tuple, rows))


@pytest.mark.slow
def test_kept_traces_survive_the_loss_of_an_executor(cluster: Cluster) -> None:
    runs = [(SMALL, seed) for seed in range(4)]
    rows = [row for run in runs for row in job.rows_of(job.name_of(*run), simulate(*run)[1])]
    assert cluster.run(traces_without_an_executor, runs) == {
        (row["run"], row["line"], row["kind"], row["t"]) for row in rows
    }


SMALL_ARGUMENTS = "--brokers 6 --publishers 2 --subscribers 3 --events 20 --crashes 2 --cuts 1"


def run(arguments: str) -> Result:
    return CliRunner().invoke(app, ["spark", "simulate", *shlex.split(arguments)], env={"COLUMNS": "200"})


def test_the_command_writes_results_and_traces(spark: SparkSession, tmp_path: Path) -> None:
    out, traces = tmp_path / "results", tmp_path / "traces"
    ran = run(f"{SMALL_ARGUMENTS} --delta 1,2 --seeds 2 --seed 3 --json --out {out} --traces {traces}")
    assert ran.exit_code == 0, ran.output
    told = json.loads(ran.stdout)
    runs = [(replace(SMALL, delta=delta), seed) for delta in (1, 2) for seed in (3, 4)]
    alone = expected(runs)
    assert told["verdict"] == "ok"
    assert told["violated"] == []
    assert told["delivered"] == sum(each["delivered"] for each in alone.values()) > 0
    assert {row["command"]: row["digest"] for row in told["runs"]} == {
        each: outcome["digest"] for each, outcome in alone.items()
    }
    assert found(spark.read.parquet(str(out))) == alone
    assert not list(traces.glob("*.parquet")), "nothing beside the directories of the runs"
    lines = spark.read.parquet(str(traces)).groupBy("run").agg(f.count("line")).collect()
    assert dict(map(tuple, lines)) == {job.name_of(*each): len(simulate(*each)[1]) for each in runs}


@pytest.mark.usefixtures("spark")
def test_a_broken_protocol_is_found_and_each_failing_seed_is_one_command() -> None:
    ran = run("--order best-effort,publisher --brokers 8 --events 40 --crashes 6 --cuts 4 --seeds 3")
    assert ran.exit_code == 1
    first, *others = ran.stdout.splitlines()
    commands = [line.split("   ")[0].strip() for line in others if line.startswith("  gapless simulate ")]
    assert first == f"violated in {len(commands)} of 6 runs; each by one command:"
    assert commands
    assert all("--order best-effort" in each for each in commands)
    again = CliRunner().invoke(app, [*shlex.split(commands[0])[1:], "--json"])
    assert again.exit_code == 1
    assert json.loads(again.stdout)["verdict"] == "violated"


@pytest.mark.usefixtures("spark")
def test_the_soak_is_another_network_for_every_seed() -> None:
    ran = run("--soak --seeds 3 --seed 100 --json")
    assert ran.exit_code == 0, ran.output
    runs = json.loads(ran.stdout)["runs"]
    assert sorted(row["command"] for row in runs) == [
        f"gapless simulate --swarm --seed {seed}" for seed in range(100, 103)
    ]
    assert {row["seed"]: row["digest"] for row in runs} == {
        seed: simulate(Options(swarm=True), seed)[0].digest for seed in range(100, 103)
    }


@pytest.mark.usefixtures("spark")
def test_where_there_is_no_terminal_lines_tell_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "LINE_SECONDS", 0.0)
    ran = run(f"{SMALL_ARGUMENTS} --seeds 4")
    assert ran.exit_code == 0, ran.output
    assert re.search(r"^simulating: \d of 4 tasks$", ran.stderr, re.MULTILINE)


@pytest.mark.usefixtures("spark")
def test_what_exists_is_neither_resumed_nor_overwritten(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("precious")
    for option in ("--out", "--traces"):
        ran = run(f"{SMALL_ARGUMENTS} --seeds 1 {option} {tmp_path}")
        assert ran.exit_code == 2
        assert "exists; name another directory" in ran.output
    assert [each.name for each in tmp_path.iterdir()] == ["mine"]
