"""A long simulation of publisher order: every seed is another network under other faults.

``python -m tools.soak --seeds 10000``: trees of 3 to 60 brokers, fan-out 1 to 7, δ = 1 … 3, crashes of
brokers and clients, cuts, one-way cuts, false suspicions and slow links, at most δ failures at a time. Exit
code 1 when a promise was broken in any seed; each failing seed is printed with the command that runs it
again."""

from __future__ import annotations

import argparse
import os
import time
from concurrent.futures import ProcessPoolExecutor
from random import Random

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from gapless.cli.simulate import command
from gapless.simulation.run import Options, Outcome, simulate


def options_of(seed: int) -> Options:
    """The network and the faults of a seed: mostly small ones, where things are close to each other."""
    rng = Random(f"soak {seed}")
    delta = rng.choice((1, 1, 2, 2, 3))
    most = rng.choice((8, 8, 20, 20, 40, 60))
    return Options(
        delta=delta,
        brokers=rng.randrange(max(3, delta + 2), most + 1),
        fanout=rng.choice((1, 2, 2, 3, 4, 5, 6, 7)),
        publishers=rng.randrange(1, 5),
        subscribers=rng.randrange(1, 6),
        events=rng.choice((40, 100, 200)),
        crashes=rng.randrange(14),
        cuts=rng.randrange(12),
        latency_ms=rng.choice((1.0, 5.0, 20.0)),
    )


def run(seed: int) -> Outcome:
    """One seed."""
    return simulate(options_of(seed), seed)[0]


def main() -> int:
    """Run the seeds on all cores."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    seeds = range(arguments.seed, arguments.seed + arguments.seeds)
    console, began = Console(), time.monotonic()
    published = delivered = faults = failed = 0
    columns = (TextColumn("soaking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with (
        Progress(*columns, console=Console(stderr=True)) as progress,
        ProcessPoolExecutor(os.cpu_count()) as pool,
    ):
        task = progress.add_task("", total=len(seeds))
        for outcome in pool.map(run, seeds, chunksize=4):
            progress.advance(task)
            published += outcome.published
            delivered += outcome.delivered
            faults += outcome.faults
            if not outcome.ok:
                failed += 1
                again = command(options_of(outcome.seed), outcome.seed)
                console.print(f"[red]violated[/] {outcome.counts}: {again}", soft_wrap=True)
    minutes = (time.monotonic() - began) / 60
    console.print(
        f"{len(seeds):,} seeds in {minutes:.1f} min: {published:,} published, {delivered:,} delivered, "
        f"{faults:,} faults; violated in {failed:,}",
        soft_wrap=True,
    )
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
