"""Who is suspected: a peer that is silent, and not one that nobody listened to."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from live.harness import LiveNetwork, until
from live.traffic import is_whole, look


@pytest.mark.slow
def test_a_broker_that_was_frozen_hears_what_came_meanwhile(tmp_path: Path) -> None:
    """The other one waits for longer, and has given signs of life all the time."""
    with LiveNetwork(tmp_path) as network:
        network.add("b0").start()
        network.add("b1", join="b0", environ={"GAPLESS_SUSPECT_AFTER": "20"}).start()
        until("both have each other", lambda: is_whole(network, asyncio.run(look(network))))
        for _ in range(3):
            network["b0"].suspend()
            time.sleep(1.5)  # the fault itself
            network["b0"].resume()
            assert asyncio.run(look(network)).reports["b0"]["partitions"] == []
        assert "suspected" not in network["b0"].log()
