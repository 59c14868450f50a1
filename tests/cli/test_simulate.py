"""``gapless simulate`` as a user runs it."""

from __future__ import annotations

import json
import shlex
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gapless.cli import app
from gapless.simulation.checkers import check
from gapless.simulation.trace import Trace

SMALL = "--brokers 6 --publishers 2 --subscribers 3 --events 30"


def run(arguments: str) -> Result:
    return CliRunner().invoke(app, ["simulate", *shlex.split(arguments)], env={"COLUMNS": "200"})


def test_without_faults_best_effort_is_clean() -> None:
    result = run(f"{SMALL} --order best-effort --json")
    outcome = json.loads(result.stdout)
    assert result.exit_code == 0
    assert outcome["verdict"] == "ok"
    assert outcome["violations"] == []
    assert outcome["delivered"] > 0


def test_under_faults_best_effort_is_caught_and_the_seed_is_one_command() -> None:
    result = run("--order best-effort --crashes 6 --cuts 4 --seed 1")
    assert result.exit_code == 1
    assert "violated" in result.stdout
    again = next(line for line in result.stdout.splitlines() if line.startswith("again: "))
    arguments = again.removeprefix("again: gapless simulate ").removesuffix(" --trace run.jsonl")
    assert json.loads(run(f"{arguments} --json").stdout)["digest"] in result.stdout


def test_json_has_the_promised_fields() -> None:
    outcome = json.loads(run(f"{SMALL} --json --seed 3").stdout)
    promised = {"seed", "verdict", "violations", "published", "delivered", "faults"}
    assert promised | {"simulated_seconds", "digest"} <= set(outcome)
    assert outcome["seed"] == 3


def test_the_trace_is_written_and_can_be_judged_again(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    outcome = json.loads(
        run(f"{SMALL} --order best-effort --crashes 3 --seed 2 --json --trace {path}").stdout
    )
    trace = Trace.read(path)
    assert trace.digest() == outcome["digest"]
    assert check(trace, promise="publisher", healed=True).counts == outcome["counts"]
    kinds = {json.loads(line)["kind"] for line in path.read_text().splitlines()}
    assert {"subscribe", "live", "publish", "confirm", "deliver", "crash", "restart"} <= kinds


def test_many_seeds_run_in_parallel_and_agree_with_single_runs() -> None:
    many = json.loads(run(f"{SMALL} --crashes 2 --seeds 4 --seed 10 --json").stdout)
    assert many["seeds"] == 4
    assert [each["seed"] for each in many["runs"]] == [10, 11, 12, 13]
    alone = json.loads(run(f"{SMALL} --crashes 2 --seed 12 --json").stdout)
    assert many["runs"][2]["digest"] == alone["digest"]


def test_many_seeds_name_the_failing_ones() -> None:
    result = run("--order best-effort --crashes 6 --cuts 4 --seeds 3")
    assert result.exit_code == 1
    assert "gapless simulate --order best-effort --crashes 6 --cuts 4 --seed" in result.stdout


def test_a_swarm_seed_is_one_command_too(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    outcome = json.loads(run(f"--swarm --seed 80 --json --trace {path}").stdout)
    assert Trace.read(path).digest() == outcome["digest"]
    assert sum(outcome["kinds"].values()) >= outcome["faults"] > 0
    shown = run("--swarm --seed 80").stdout
    assert outcome["digest"] in shown
    assert "promises withdrawn" in shown
    many = json.loads(run("--swarm --seeds 2 --seed 80 --json").stdout)
    assert many["runs"][0]["digest"] == outcome["digest"]
    assert many["resets"] == sum(each["resets"] for each in many["runs"])


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("--swarm --brokers 4", "--swarm draws everything by the seed"),
        ("--brokers 0", "brokers must be at least 1"),
        ("--delta -1", "delta must be at least 0"),
        ("--latency-ms 0", "latency-ms must be at least 0.01"),
        ("--order total", "not built yet"),
        ("--seeds 2 --trace x.jsonl", "leave --seeds out"),
    ],
)
def test_bad_options_get_a_clear_error(arguments: str, why: str) -> None:
    result = run(arguments)
    assert result.exit_code == 2
    assert why in result.output
