"""Many seeded runs side by side, one process a core."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from gapless.simulation.run import Options, Outcome, simulate


def run_many(options: Options, seeds: range, *, workers: int | None = None) -> Iterator[Outcome]:
    """The outcome of each seed, in the order of the seeds, whatever the number of workers."""
    workers = min(workers or os.cpu_count() or 1, len(seeds))
    if workers <= 1:
        yield from map(partial(_outcome, options), seeds)
        return
    with ProcessPoolExecutor(workers) as pool:
        yield from pool.map(partial(_outcome, options), seeds, chunksize=max(1, min(8, len(seeds) // 16)))


def _outcome(options: Options, seed: int) -> Outcome:
    return simulate(options, seed)[0]
