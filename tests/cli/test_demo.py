"""``gapless demo``: real processes, killed, and judged."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_the_demo_ends_well_and_leaves_nothing_running() -> None:
    words = [sys.executable, "-m", "gapless", "demo", "--pause", "1", "--per-second", "50", "--json"]
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stdout + done.stderr
    verdict = json.loads(done.stdout)
    assert verdict["verdict"] == "ok"
    assert verdict["published"] == verdict["confirmed"] > 0
    assert len(verdict["killed"]) == 4
    for each in verdict["subscriptions"]:
        assert each["delivered"] > 0
        assert each["missing"] == each["duplicates"] == each["out_of_order"] == each["unwanted"] == 0
    running = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert not [line for line in running.splitlines() if "gapless-demo-" in line]
