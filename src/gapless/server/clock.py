"""Real time for a node: microseconds since the epoch that never go back while the process runs."""

from __future__ import annotations

import time

from gapless.core.model import Micros


class Clock:
    """The wall clock as it was at the start, carried on by the monotonic one."""

    def __init__(self) -> None:
        self._offset = time.time_ns() // 1000 - time.monotonic_ns() // 1000

    def now(self) -> Micros:
        """This moment."""
        return self._offset + time.monotonic_ns() // 1000

    def seconds_until(self, moment: Micros) -> float:
        """How long until then; 0 when it has passed."""
        return max(0.0, (moment - self.now()) / 1e6)
