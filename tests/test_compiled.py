"""The compiled pure part does what the interpreted one does."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from gapless.simulation.swarm.run import simulate_swarm
from gapless.version import __version__, build

ROOT = Path(__file__).parents[1]
SEEDS = range(12)
DIGESTS = f"""
import json
from gapless.simulation.swarm.run import simulate_swarm
print(json.dumps([simulate_swarm(seed)[0].digest for seed in {list(SEEDS)}]))
"""
TESTS = ("tests/core", "tests/matching", "tests/traces", "tests/simulation/test_leaving.py")
"""The part of the tests that runs both ways."""


def compiled_copy(directory: Path) -> Path:
    """What ``make compile`` makes."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(directory)]
    subprocess.run(command, cwd=ROOT, env={**os.environ, "GAPLESS_COMPILE": "1"}, check=True)
    [wheel] = directory.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(directory / "compiled")
    return directory / "compiled"


@pytest.mark.slow
@pytest.mark.timeout(1_200)
@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
@pytest.mark.skipif(build() == "compiled", reason="this is what runs")
def test_compiled_code_does_the_same(tmp_path: Path) -> None:
    """One test, for it is compiled once: which it is, the traces of random runs, and a part of the tests."""
    environ = {**os.environ, "PYTHONPATH": str(compiled_copy(tmp_path))}

    def run(*command: str) -> str:
        done = subprocess.run(
            [sys.executable, *command], cwd=ROOT, env=environ, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("-m", "gapless", "--version") == f"gapless {__version__}, compiled\n"
    assert json.loads(run("-c", DIGESTS)) == [simulate_swarm(seed)[0].digest for seed in SEEDS]
    assert " passed" in run("-m", "pytest", "-q", "-p", "no:xdist", "-p", "no:cacheprovider", *TESTS)
