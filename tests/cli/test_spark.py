"""``gapless spark``: what needs no session: bad options, and a machine without Spark."""

from __future__ import annotations

import shlex
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from gapless.cli import app

WITHOUT_SPARK = """
import sys
for name in ("matplotlib", "numpy", "pandas", "py4j", "pyarrow", "pyspark"):
    sys.modules[name] = None  # as if it were not installed
from gapless.cli import app
app()
"""


def without_spark(arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", WITHOUT_SPARK, *shlex.split(arguments)]
    return subprocess.run(command, check=False, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize(
    "arguments", ["--help", "simulate --brokers 3 --publishers 1 --subscribers 1 --events 5 --json"]
)
def test_everything_else_works_without_spark(arguments: str) -> None:
    ran = without_spark(arguments)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout


@pytest.mark.parametrize(
    "command", ["spark simulate --seeds 3", "spark audit x", "spark match x y", "spark --help", "figures"]
)
def test_without_spark_the_error_says_how_to_get_it(command: str) -> None:
    ran = without_spark(command)
    assert ran.returncode == 1
    assert "pip install 'gapless[spark]'" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_no_other_command_imports_spark() -> None:
    check = "import sys, gapless.cli; print([name for name in sys.modules if name.startswith('pyspark')])"
    ran = subprocess.run(
        [sys.executable, "-c", check], check=True, capture_output=True, text=True, timeout=60
    )
    assert ran.stdout.strip() == "[]"


def test_the_commands_are_listed_with_their_own_help() -> None:
    assert "spark" in CliRunner().invoke(app, ["--help"]).output
    ran = CliRunner().invoke(app, ["spark", "--help"])
    assert ran.exit_code == 0
    assert all(name in ran.output for name in ("simulate", "audit", "match"))
    ran = CliRunner().invoke(app, ["spark", "simulate", "--help"], env={"COLUMNS": "200"})
    assert "gapless spark simulate" in ran.output
    assert "--max-down" in ran.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("--brokers 5,0", "brokers must be at least 1, not 0"),
        ("--brokers 5,many", "--brokers 5,many"),
        ("--order fifo", "--order fifo"),
        ("--order publisher,total", "total is not built yet"),
        ("--repositories 2", "durable topics are not built yet"),
        ("--soak --brokers 5", "leave out --brokers"),
        ("--seeds 0", "--seeds"),
        ("--seeds 500000 --delta 1,2,3", "at most 1,000,000 runs"),
        ("--what", "No such option"),
    ],
)
def test_bad_options_get_a_clear_error(arguments: str, why: str) -> None:
    ran = CliRunner().invoke(app, ["spark", "simulate", *shlex.split(arguments)], env={"COLUMNS": "200"})
    assert ran.exit_code == 2
    assert why in ran.output


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("--master nonsense", "nonsense is no master"),
        ("--master local --remote sc://127.0.0.1:1", "not both"),
        ("--remote 127.0.0.1:1", "an address is sc://host:port"),
        ("--remote sc://127.0.0.1:1", "no Spark Connect at sc://127.0.0.1:1: [Errno"),
    ],
)
def test_where_there_is_no_spark_the_error_says_so(arguments: str, why: str) -> None:
    ran = CliRunner().invoke(app, ["spark", "simulate", *shlex.split(arguments)])
    assert ran.exit_code == 1
    assert why in ran.output
