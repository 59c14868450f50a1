"""How soon random runs find each of the known faults: ``python -m tools.power --seeds 10000``.

Every mutant of ``tests/simulation/mutants.py`` breaks one rule of the protocol. Here each is run on swarm
seeds only, from the first seed on, until a run shows something wrong that the protocol itself does not show
on that seed. A mutant that is not found means that the simulator is too weak for the rule it breaks.

A seed is run as it is first, and it is noted which mutants would have made a difference. Only these are run:
the others would do just the same. So those that are hard to find cost little where their rule does not
matter, and 10,000 seeds of them are not 10,000 runs.
"""

from __future__ import annotations

import argparse
import json
import math
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from gapless.simulation.swarm.run import simulate_swarm
from simulation.mutants import MUTANTS, broken, noting

SOON = 200
"""A fault that needs no more seeds than this is found by every short run."""
SECONDS = 60
"""After so much of a processor a run is taken for one that does not end."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one mutant."""

    mutant: str
    seeds: int = 0
    """How many seeds there were, the finding one included."""
    runs: int = 0
    """On how many of them it made a difference, and was run."""
    found: str = ""
    seed: int | None = None

    @property
    def rule(self) -> str:
        """What the mutant breaks, as it says itself."""
        return " ".join((MUTANTS[self.mutant].faulty.__doc__ or "").split())


def search(names: list[str], seed: int) -> dict[str, str]:
    """Which of the mutants make a difference on the seed, and what is wrong then; nothing if the protocol
    itself is found wrong."""
    with noting(names) as different:
        if _wrong(seed):
            return {}
    found: dict[str, str] = {}
    for name in names:
        if name in different:
            with broken(name):
                found[name] = _wrong(seed)
    return found


def _wrong(seed: int) -> str:
    signal.setitimer(signal.ITIMER_VIRTUAL, SECONDS)
    try:
        counts = simulate_swarm(seed)[0].counts
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return ", ".join(f"{number} {kind}" for kind, number in counts.items())


def _does_not_end(*_: object) -> None:
    raise TimeoutError(f"not at an end after {SECONDS} s")


def _begin() -> None:
    signal.signal(signal.SIGVTALRM, _does_not_end)


def search_all(names: list[str], seeds: range, *, workers: int, until: float) -> Iterator[dict[str, Finding]]:
    """All mutants on one seed after the other, until each is found: how far each has come, after each seed.
    No seed is begun after the moment ``until``."""
    so_far = {name: Finding(name) for name in names}
    ahead = iter(seeds)
    with ProcessPoolExecutor(workers, initializer=_begin) as pool:
        running: dict[Future[dict[str, str]], tuple[int, list[str]]] = {}
        while True:
            left = [name for name in names if not so_far[name].found]
            while left and len(running) < workers and time.monotonic() < until:
                seed = next(ahead, None)
                if seed is None:
                    break
                running[pool.submit(search, left, seed)] = seed, left
            if not running:
                return
            for each in wait(running, return_when=FIRST_COMPLETED).done:
                seed, tried = running.pop(each)
                told = each.result()
                for name in tried:
                    so_far[name] = _after(so_far[name], seed, seed - seeds.start + 1, told.get(name))
            yield so_far


def _after(before: Finding, seed: int, seeds: int, told: str | None) -> Finding:
    """What is known of a mutant after another seed, which may be an earlier one than the last."""
    runs = before.runs + (told is not None)
    if before.found and not (told and before.seed is not None and seed < before.seed):
        return before
    if told:
        return replace(before, seeds=seeds, runs=runs, found=told, seed=seed)
    return replace(before, seeds=max(before.seeds, seeds), runs=runs)


def watched(names: list[str], turns: Iterator[dict[str, Finding]]) -> list[Finding]:
    """What came of all, the easy ones first; a bar shows how far it is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    latest: dict[str, Finding] = {name: Finding(name) for name in names}
    said: set[str] = set()
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("mutants found", total=len(names))
        for latest in turns:
            left = [each.seeds for each in latest.values() if not each.found]
            told = f"mutants found; the others after {min(left):,} seeds" if left else "mutants found"
            progress.update(bar, completed=len(names) - len(left), description=told)
            for each in latest.values():
                if each.found and each.mutant not in said:
                    said.add(each.mutant)
                    told = f"{each.mutant}: {each.seeds:,} seeds, {each.found}"
                    progress.console.print(escape(told), soft_wrap=True)
    return sorted(latest.values(), key=lambda each: (not each.found, each.seeds))


def summary(findings: list[Finding], seconds: float) -> dict[str, Any]:
    """What all of it says."""
    found = [each.seeds for each in findings if each.found]
    return {
        "found": len(found),
        "mutants": len(findings),
        "median": median(each.seeds for each in findings),
        f"within {SOON}": sum(each <= SOON for each in found),
        "seeds": max((each.seeds for each in findings), default=0),
        "runs": sum(each.runs for each in findings),
        "seconds": round(seconds, 1),
        "commit": commit(),
    }


def commit() -> str:
    """The version that runs, marked if it is not quite that."""
    here = str(Path(__file__).parent)
    told = ["git", "-C", here, "describe", "--always", "--dirty", "--exclude", "*"]
    done = subprocess.run(told, capture_output=True, text=True, check=False)  # noqa: S603
    return done.stdout.strip() or "unknown"


def show(findings: list[Finding], console: Console) -> None:
    """The table for people."""
    table = Table(title="seeds until a fault is found")
    for name in ("mutant", "what it breaks", "seeds", "runs", "seed", "what was found"):
        table.add_column(name, justify="right" if name in ("seeds", "runs", "seed") else "left")
    for each in findings:
        seed = "" if each.seed is None else str(each.seed)
        style = "" if each.found else "red"
        told = escape(each.found) or "not found"
        row = (each.mutant, escape(each.rule), f"{each.seeds:,}", f"{each.runs:,}", seed, told)
        table.add_row(*row, style=style)
    console.print(table)


def main() -> int:
    """Search, print, and fail if a mutant was not found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10_000, help="the most seeds for each mutant")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=math.inf, help="stop after this time")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("mutants", nargs="*", help="all, unless some are named")
    options = parser.parse_args()
    unknown = sorted(set(options.mutants) - set(MUTANTS))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are: {', '.join(MUTANTS)}")
    began = time.monotonic()
    names = options.mutants or list(MUTANTS)
    until = began + 60 * options.minutes
    seeds = range(options.seed, options.seed + options.seeds)
    turns = search_all(names, seeds, workers=options.workers, until=until)
    findings = watched(names, turns)
    told = summary(findings, time.monotonic() - began)
    if options.json:
        print(json.dumps({**told, "findings": [{**asdict(each), "rule": each.rule} for each in findings]}))
    else:
        show(findings, Console())
        Console().print(", ".join(f"{name}: {value}" for name, value in told.items()))
    return 0 if told["found"] == len(findings) else 1


if __name__ == "__main__":
    sys.exit(main())
