"""The audit of one long run: what is planted in it is found, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from gapless.simulation.checkers import Kind

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_planted_violations_of_each_kind_are_found_in_a_long_run() -> None:
    """``make bench`` does the same with 10,000,000 deliveries."""
    command = [sys.executable, "-m", "benchmarks.audit", "--deliveries", "300000", "--json"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=False, timeout=280)
    rows = json.loads(done.stdout)["sizes"]
    assert [row["promise"] for row in rows] == ["publisher", "causal", "total"]
    assert all(row["exact"] for row in rows)
    assert all(abs(row["deliveries"] - 300_000) < 3_000 for row in rows)
    assert {kind for row in rows for kind in row["kinds"]} == {kind.value for kind in Kind}
    assert done.returncode == 0
