"""The one place that makes a session."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from gapless.spark import session
from gapless.spark.session import JavaMissing, SessionError, find_java, open_session
from spark.clusters import Cluster, wait_for


def java(home: Path, version: str) -> Path:
    """A Java that can say its version, and nothing else."""
    (home / "bin").mkdir(parents=True)
    program = home / "bin" / "java"
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\" 2025-04-15' >&2\n")
    program.chmod(0o755)
    return home


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(session, "PLACES", ())


@pytest.mark.usefixtures("no_java")
def test_without_java_the_error_says_how_to_get_it() -> None:
    with pytest.raises(JavaMissing, match=r"apt-get install openjdk-17-jre-headless.*brew install"):
        find_java()


@pytest.mark.usefixtures("no_java")
@pytest.mark.parametrize("version", ["1.8.0_392", "11.0.20", "16"])
def test_an_old_java_is_no_java(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(java(tmp_path, version)))
    with pytest.raises(JavaMissing):
        find_java()


@pytest.mark.usefixtures("no_java")
def test_the_users_java_comes_first_and_an_old_one_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old, chosen = java(tmp_path / "old", "11.0.20"), java(tmp_path / "chosen", "17.0.15")
    installed = java(tmp_path / "places" / "jdk", "21.0.1")
    monkeypatch.setattr(session, "PLACES", (str(tmp_path / "places"),))
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    assert find_java() == chosen
    monkeypatch.setenv("JAVA_HOME", str(old))
    assert find_java() == installed
    monkeypatch.setenv("PATH", str(chosen / "bin"))
    assert find_java() == chosen


def test_errors_of_java_are_passed_on_and_its_one_warning_is_not(capfd: pytest.CaptureFixture[str]) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "wb") as java_stderr:
        java_stderr.write(b"WARNING: Using incubator modules: jdk.incubator.vector\nerror: no space left\n")
    session._pass_on(reading)
    assert capfd.readouterr().err == "error: no space left\n"


def test_the_session_counts_in_utc_and_with_arrow(spark: SparkSession) -> None:
    assert spark.sparkContext.master == "local[2]"
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.execution.arrow.pyspark.enabled") == "true"
    assert spark.range(10).selectExpr("sum(id)").collect()[0][0] == 45


def test_a_running_session_is_used_but_not_for_another_master(spark: SparkSession) -> None:
    assert open_session("another").sparkContext is spark.sparkContext
    assert open_session("another", master="local[2]").sparkContext is spark.sparkContext
    with pytest.raises(SessionError, match=r"has a session on local\[2\]"):
        open_session("another", master="local[1]")
    with pytest.raises(SessionError, match="not both"):
        open_session("another", master="local[2]", remote="sc://127.0.0.1:1")


ALONE = """
from gapless.spark.session import SessionError, open_session
for master in ("nonsense", "local[nonsense]"):
    try:
        open_session("nowhere", master=master)
    except SessionError as error:
        print(error)
print(open_session("alone", master="local[1]").range(3).count())
"""


@pytest.mark.slow
def test_only_errors_reach_the_terminal_and_a_bad_master_is_named() -> None:
    ran = subprocess.run(
        [sys.executable, "-c", ALONE], check=True, capture_output=True, text=True, timeout=120
    )
    unknown, unparsed, counted = ran.stdout.splitlines()
    assert unknown.startswith("nonsense is no master; one is local[4]")
    assert unparsed == "no Spark on local[nonsense]: Could not parse Master URL: 'local[nonsense]'"
    assert counted == "3"
    assert ran.stderr == ""


def master_of_two(cluster: SparkSession) -> str | None:
    tracker = cluster.sparkContext.statusTracker()
    wait_for(lambda: len(tracker.getExecutorInfos()) == 3)  # the driver is one of them
    return cluster.sparkContext.master


@pytest.mark.slow
def test_the_cluster_has_two_executors_of_its_own(cluster: Cluster) -> None:
    assert cluster.run(master_of_two) == "local-cluster[2,1,1024]"


@pytest.mark.slow
def test_what_fails_on_the_cluster_fails_the_test(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match="AttributeError"):
        cluster.run(getattr, "nothing of that name")
