"""``gapless figures`` as a user runs it."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gapless.cli import app

COMMAND = [sys.executable, "-c", "from gapless.cli import app; app()", "figures"]


@pytest.mark.slow
def test_a_quick_run_writes_the_report(tmp_path: Path) -> None:
    """In a process of its own, since a process has one Spark session."""
    out = tmp_path / "made" / "here"
    wanted = ["--quick", "--only", "000.8", "--only", "000.10", "--seed", "5", "--out", str(out)]
    ran = subprocess.run(
        [*COMMAND, *wanted, "--master", "local[2]", "--json"],
        check=False,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert summary["seed"] == 5
    assert [each["figure"] for each in summary["figures"]] == ["000.8", "000.10"]
    assert summary["figures"][0]["command"] == "gapless figures --only 000.8 --quick --seed 5"
    report = (out / "report.md").read_text()
    for finding in (each for figure in summary["figures"] for each in figure["findings"]):
        line = next(line for line in report.splitlines() if line.startswith(f"| “{finding['claim']}”"))
        assert finding["measured"] in line
        assert line.endswith("| yes |" if finding["agrees"] else "| **no** |")
    stems = ("000-fig8", "000-fig10")
    names = {"report.md", "report.html", *(f"{stem}.{kind}" for stem in stems for kind in ("csv", "png"))}
    assert {path.name for path in out.iterdir()} == names
    assert {Path(file) for file in summary["files"]} == set(out.iterdir())
    rows = list(csv.DictReader((out / "000-fig8.csv").read_text().splitlines()))
    assert len(rows) == summary["figures"][0]["rows"] == 64
    assert {row["model"] for row in rows} == {"kary", "random"}
    assert all(0 <= float(row["disconnected_percent"]) <= 100 for row in rows)
    assert "figure 000.8" in ran.stderr, "the bar"
    assert "gapless figures --only 000.8 --only 000.10 --quick --seed 5" in report


@pytest.mark.parametrize(
    ("arguments", "status", "why"),
    [
        (["--only", "000.7"], 2, "there is no figure 000.7; there is: 000.8, 000.9, 000.10, 000.11"),
        (["--out", "/dev/null/figures"], 2, "cannot write to /dev/null/figures: Not a directory"),
        (
            ["--master", "local[2]", "--remote", "sc://localhost:1"],
            1,
            "either on a master or at a Spark Connect",
        ),
    ],
)
def test_bad_options_get_a_clear_error(tmp_path: Path, arguments: list[str], status: int, why: str) -> None:
    """The last of an option that is given twice counts."""
    ran = CliRunner().invoke(app, ["figures", "--out", str(tmp_path), *arguments], env={"COLUMNS": "200"})
    assert ran.exit_code == status
    assert why in ran.output
