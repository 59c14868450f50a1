"""The same through Spark Connect: the client has no Java machine of its own, only an address."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyarrow import parquet

from gapless.simulation.run import Options, simulate
from gapless.spark.session import find_java
from spark.clusters import wait_for

pytestmark = pytest.mark.slow

SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
SUBMIT = Path(pyspark.__path__[0], "bin", "spark-submit")
SETTINGS = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.connect.grpc.binding.port": "0",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
}


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a real server of Spark Connect listens."""
    log = tmp_path_factory.mktemp("connect") / "server.log"
    settings = [part for key, value in SETTINGS.items() for part in ("--conf", f"{key}={value}")]
    with (
        log.open("wb") as told,
        subprocess.Popen(
            [SUBMIT, "--master", "local[2]", "--class", SERVER, *settings, "spark-internal"],
            env={**os.environ, "JAVA_HOME": str(find_java()), "PYSPARK_PYTHON": sys.executable},
            stdin=subprocess.DEVNULL,
            stdout=told,
            stderr=told,
        ) as server,
    ):
        try:
            started = wait_for(lambda: re.search(r"server started at: (127\.0\.0\.1:\d+)", log.read_text()))
            yield f"sc://{started.group(1)}"
        finally:
            server.kill()


def gapless(*arguments: str) -> dict[str, Any]:
    """What a command says, in a process of its own: one with a session in it cannot connect."""
    program = [sys.executable, "-c", "from gapless.cli import app; app()"]
    ran = subprocess.run(
        [*program, *arguments, "--json"], check=False, capture_output=True, text=True, timeout=240
    )
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def test_runs_results_and_traces_through_spark_connect(address: str, tmp_path: Path) -> None:
    options = Options(brokers=5, publishers=2, subscribers=2, events=20, crashes=2)
    arguments = [*options.as_arguments(), "--seeds", "2", "--traces", str(tmp_path / "traces")]
    told = gapless("spark", "simulate", "--remote", address, *arguments)
    runs = sorted(told["runs"], key=lambda row: row["seed"])
    assert [row["digest"] for row in runs] == [simulate(options, seed)[0].digest for seed in range(2)]
    assert {each.name for each in (tmp_path / "traces").glob("run=*")} == {
        f"run={row['run']}" for row in runs
    }
    audited = gapless("spark", "audit", str(tmp_path / "traces"), "--remote", address)
    assert (audited["runs"], audited["counts"]) == (2, {})


def test_matches_through_spark_connect(address: str, tmp_path: Path) -> None:
    """There is no broadcast: the index travels with the function."""
    events, subscriptions = tmp_path / "events.csv", tmp_path / "subscriptions.csv"
    events.write_text("id,price\n1,131.2\n2,99.0\n")
    subscriptions.write_text("subscription,selector\ndear,price > 100\nall,TRUE\n")
    out = tmp_path / "matches"
    told = gapless("spark", "match", str(events), str(subscriptions), "--out", str(out), "--remote", address)
    assert (told["events"], told["matches"]) == (2, 3)
    found = {(row["id"], row["subscription"]) for row in parquet.read_table(out).to_pylist()}
    assert found == {(1, "dear"), (1, "all"), (2, "all")}
