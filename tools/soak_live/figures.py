"""Memory over time, and the lines that are printed."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

GROWTH_FACTOR, GROWTH_BYTES = 1.3, 20 << 20
"""Memory is flat when the median of the last quarter is at most this much above that of the second one."""


@dataclass
class Memory:
    """The memory of one process, or of all lives of one broker, over time."""

    samples: list[int] = field(default_factory=list)

    def medians(self) -> tuple[float, float]:
        """Of the second and of the last quarter."""
        quarter = max(1, len(self.samples) // 4)
        return statistics.median(self.samples[quarter : 2 * quarter] or self.samples), statistics.median(
            self.samples[-quarter:]
        )

    @property
    def is_flat(self) -> bool:
        second, last = self.medians()
        return last <= GROWTH_FACTOR * second + GROWTH_BYTES

    def __str__(self) -> str:
        first, last, most = (each / 1e6 for each in (self.samples[0], self.samples[-1], max(self.samples)))
        second, fourth = (each / 1e6 for each in self.medians())
        return (
            f"first {first:6.1f} MB, last {last:6.1f}, most {most:6.1f}; "
            f"median of the second quarter {second:6.1f}, of the last {fourth:6.1f} ({fourth - second:+.1f})"
        )


def own_memory() -> int:
    """Bytes of memory that this process has now: all clients, and the judges."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def listed(counts: Mapping[str, int]) -> str:
    """Kinds and how many there were."""
    return ", ".join(f"{kind} {count:,}" for kind, count in counts.items())
