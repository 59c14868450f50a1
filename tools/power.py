"""How soon random runs find each of the known faults: ``python -m tools.power --seeds 10000``.

Every mutant of ``tests/simulation/mutants.py`` breaks one rule of the protocol. Here each is run on swarm
seeds only, from the first seed on, until a run shows something wrong that the protocol itself does not show
on that seed. A mutant that is not found means that the simulator is too weak for the rule it breaks.

All mutants have their first seeds before any has more, and who is found drops out: so a few minutes tell
most of it, and the rest of the time goes to those that are hard to find.
"""

from __future__ import annotations

import argparse
import json
import math
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
from simulation.mutants import MUTANTS, broken

SOON = 200
"""A fault that needs no more seeds than this is found by every short run."""
CHUNK = 25
"""How many seeds a process is given at a time."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of one mutant."""

    mutant: str
    seeds: int = 0
    """How many seeds were run, the finding one included."""
    seconds: float = 0.0
    """What that took of a processor."""
    found: str = ""
    seed: int | None = None

    @property
    def rule(self) -> str:
        """What the mutant breaks, as it says itself."""
        return " ".join((MUTANTS[self.mutant].faulty.__doc__ or "").split())


def search(mutant: str, seeds: range) -> Finding:
    """Run the mutant on the seeds until it is found."""
    began = time.process_time()
    for count, seed in enumerate(seeds, start=1):
        with broken(mutant):
            counts = simulate_swarm(seed)[0].counts
        if counts and not simulate_swarm(seed)[0].counts:
            told = ", ".join(f"{number} {kind}" for kind, number in counts.items())
            return Finding(mutant, count, time.process_time() - began, told, seed)
    return Finding(mutant, len(seeds), time.process_time() - began)


def search_all(names: list[str], first: int, seeds: int, *, workers: int, until: float) -> Iterator[Finding]:
    """All mutants side by side, some seeds of each in turn: how far each has come, after each turn. Nobody
    gets another turn after the moment ``until``."""
    so_far = {name: Finding(name) for name in names}
    turns = list(names)
    with ProcessPoolExecutor(workers) as pool:
        running: dict[Future[Finding], str] = {}
        while (turns and time.monotonic() < until) or running:
            while turns and len(running) < workers and time.monotonic() < until:
                name = turns.pop(0)
                begin = first + so_far[name].seeds
                chunk = range(begin, min(begin + CHUNK, first + seeds))
                running[pool.submit(search, name, chunk)] = name
            for each in wait(running, return_when=FIRST_COMPLETED).done:
                name, latest = running.pop(each), each.result()
                before = so_far[name]
                total = so_far[name] = replace(
                    latest, seeds=before.seeds + latest.seeds, seconds=before.seconds + latest.seconds
                )
                if not total.found and total.seeds < seeds:
                    turns.append(name)
                yield total


def watched(names: list[str], turns: Iterator[Finding]) -> list[Finding]:
    """What came of all, the easy ones first; a bar shows how far it is."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    latest: dict[str, Finding] = {}
    with Progress(*columns, console=Console(stderr=True)) as progress:
        bar = progress.add_task("mutants found", total=len(names))
        for each in turns:
            latest[each.mutant] = each
            left = [latest[name].seeds if name in latest else 0 for name in names if not _found(latest, name)]
            told = f"mutants found; the others after {min(left):,} seeds" if left else "mutants found"
            progress.update(bar, completed=len(names) - len(left), description=told)
            if each.found:
                told = f"{each.mutant}: {each.seeds:,} seeds, {each.found}"
                progress.console.print(escape(told), soft_wrap=True)
    return sorted(latest.values(), key=lambda each: (not each.found, each.seeds))


def _found(latest: dict[str, Finding], name: str) -> bool:
    return name in latest and bool(latest[name].found)


def summary(findings: list[Finding], seconds: float) -> dict[str, Any]:
    """What all of it says."""
    found = [each.seeds for each in findings if each.found]
    return {
        "found": len(found),
        "mutants": len(findings),
        "median": median(each.seeds for each in findings),
        f"within {SOON}": sum(each <= SOON for each in found),
        "seeds": sum(each.seeds for each in findings),
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
    for name in ("mutant", "what it breaks", "seeds", "seconds", "seed", "what was found"):
        table.add_column(name, justify="right" if name in ("seeds", "seconds", "seed") else "left")
    for each in findings:
        seed = "" if each.seed is None else str(each.seed)
        style = "" if each.found else "red"
        told = escape(each.found) or "not found"
        row = (each.mutant, escape(each.rule), f"{each.seeds:,}", f"{each.seconds:.1f}", seed, told)
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
    turns = search_all(names, options.seed, options.seeds, workers=options.workers, until=until)
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
