"""How soon random runs find each of the known faults: ``python -m tools.power --seeds 10000``.

Every mutant of ``tests/simulation/mutants.py`` breaks one rule of the protocol. Here each is run on swarm
seeds only, from the first seed on, until a run shows something wrong that the protocol itself does not show
on that seed. A mutant that is not found means that the simulator is too weak for the rule it breaks.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from rich.console import Console
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
    seeds: int
    """How many seeds were run, the finding one included."""
    seconds: float
    found: str = ""
    seed: int | None = None


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


def search_all(names: list[str], first: int, seeds: int, workers: int) -> Iterator[Finding]:
    """All mutants side by side, a few seeds of each in turn; each once it is found or has had its seeds."""
    so_far = {name: Finding(name, 0, 0.0) for name in names}
    turns = list(names)
    with ProcessPoolExecutor(workers) as pool:
        running: dict[Future[Finding], str] = {}
        while turns or running:
            while turns and len(running) < workers:
                name = turns.pop(0)
                begin = first + so_far[name].seeds
                chunk = range(begin, min(begin + CHUNK, first + seeds))
                running[pool.submit(search, name, chunk)] = name
            for each in wait(running, return_when=FIRST_COMPLETED).done:
                name, found, before = running.pop(each), each.result(), None
                before = so_far[name]
                total = Finding(
                    name,
                    before.seeds + found.seeds,
                    before.seconds + found.seconds,
                    found.found,
                    found.seed,
                )
                so_far[name] = total
                if total.found or total.seeds >= seeds:
                    yield total
                else:
                    turns.append(name)


def show(findings: list[Finding], console: Console) -> None:
    """The table for people."""
    table = Table(title="seeds until a fault is found")
    for name in ("mutant", "seeds", "seconds", "seed", "what was found"):
        table.add_column(name, justify="right" if name in ("seeds", "seconds", "seed") else "left")
    for each in findings:
        seed = "" if each.seed is None else str(each.seed)
        style = "" if each.found else "red"
        told = each.found or "not found"
        table.add_row(each.mutant, f"{each.seeds:,}", f"{each.seconds:.1f}", seed, told, style=style)
    console.print(table)


def main() -> int:
    """Search, print, and fail if a mutant was not found."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10_000, help="the most seeds for each mutant")
    parser.add_argument("--seed", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("mutants", nargs="*", help="all, unless some are named")
    options = parser.parse_args()
    unknown = sorted(set(options.mutants) - set(MUTANTS))
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}; there are: {', '.join(MUTANTS)}")
    console = Console(stderr=True)
    findings = []
    for each in search_all(options.mutants or list(MUTANTS), options.seed, options.seeds, options.workers):
        console.print(f"{each.mutant}: {each.seeds:,} seeds, {each.found or 'not found'}", soft_wrap=True)
        findings.append(each)
    findings.sort(key=lambda each: (not each.found, each.seeds))
    found = [each.seeds for each in findings if each.found]
    summary = {
        "found": len(found),
        "mutants": len(findings),
        "median": median(each.seeds for each in findings),
        f"within {SOON}": sum(each <= SOON for each in found),
    }
    if options.json:
        print(json.dumps({**summary, "findings": [asdict(each) for each in findings]}))
    else:
        show(findings, Console())
        Console().print(", ".join(f"{name}: {value:g}" for name, value in summary.items()))
    return 0 if len(found) == len(findings) else 1


if __name__ == "__main__":
    sys.exit(main())
