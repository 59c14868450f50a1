"""The soak, for a short while: random faults on real brokers, and a verdict as exit code."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_a_short_soak() -> None:
    command = [sys.executable, "-m", "tools.soak_live", "--minutes", "0.4", "--seed", "5"]
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,  # so that its brokers can be ended with it
    )
    try:
        output, _ = process.communicate(timeout=200)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert process.returncode == 0, output
    assert "verdict: every promise kept" in output
