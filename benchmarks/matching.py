"""How the matching index compares with evaluating every selector, and how it grows.

The workload is in ``benchmarks.trading``. All times are processor time, the least of several rounds; what is
compared is measured in turns, so that a busy machine slows all of it. Three bars:

- with 10,000 subscriptions the index is at least 200 times as fast as ``selector.matches`` of each;
- from 1,000 to 100,000 subscriptions the time per event grows at most tenfold;
- 1,000,000 subscriptions take at most 1.5 GB (the peak of a process that does nothing else), and an event is
  still matched faster than by evaluating 10,000 selectors.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any, cast

from rich.console import Console
from rich.table import Table

from benchmarks.trading import Trading
from gapless.matching import MatchIndex

SPEEDUP_MIN = 200
GROWTH_MAX = 10
MEMORY_MAX_GB = 1.5
MILLION = 1_000_000
EVENTS = 500


def run(quick: bool = False) -> dict[str, object]:
    """Measure. Quick: with fewer rounds and without the million."""
    figures = _compare(rounds=5 if quick else 25)
    bars = {
        f"10,000 subscriptions: at least {SPEEDUP_MIN} times brute force": figures["speedup"] >= SPEEDUP_MIN,
        f"1,000 to 100,000: at most {GROWTH_MAX} times slower": figures["growth"] <= GROWTH_MAX,
    }
    if not quick:
        figures |= {f"million_{name}": value for name, value in _in_child(MILLION).items()}
        bars |= {
            f"1,000,000 fit in {MEMORY_MAX_GB} GB": figures["million_memory_gb"] <= MEMORY_MAX_GB,
            "1,000,000: faster than brute force over 10,000": figures["million_us"]
            < figures["brute_force_us"],
        }
    return {**figures, "bars": bars, "met": all(bars.values())}


def _compare(rounds: int) -> dict[str, float]:
    trading = Trading()
    selectors = [trading.selector() for _ in range(10_000)]
    events = [trading.event() for _ in range(EVENTS)]
    indexes: dict[int, MatchIndex[int]] = {size: MatchIndex() for size in (1_000, 10_000, 100_000)}
    for size, index in indexes.items():
        for key in range(size):
            index.add(key, selectors[key] if key < len(selectors) else trading.unparsed())
    for event in events[:20]:  # which also makes the selectors compile
        expected = [key for key, selector in enumerate(selectors) if selector.matches(event)]
        assert indexes[10_000].match(event) == expected, event

    best: dict[str, float] = {}
    for turn in range(rounds):
        event = events[turn % EVENTS]
        _time(best, "brute_force", 1, lambda: [s for s in selectors if s.matches(event)])  # noqa: B023
        for size, index in indexes.items():
            _time(best, f"index_{size}", EVENTS, lambda: [index.match(event) for event in events])  # noqa: B023
    microseconds = {f"{name}_us": 1e6 * seconds for name, seconds in best.items()}
    return {
        **microseconds,
        **{f"matches_{size}": _mean_matches(index, events) for size, index in indexes.items()},
        "speedup": best["brute_force"] / best["index_10000"],
        "growth": best["index_100000"] / best["index_1000"],
    }


def _time(best: dict[str, float], name: str, events: int, work: Callable[[], object]) -> None:
    """Note the processor time per event if it is the least so far. Once more, when caches have filled."""
    for _ in range(2):
        started = process_time()
        work()
        best[name] = min(best.get(name, float("inf")), (process_time() - started) / events)


def _mean_matches(index: MatchIndex[int], events: list[dict[str, object]]) -> float:
    return sum(len(index.match(event)) for event in events) / len(events)


def _in_child(size: int) -> dict[str, float]:
    command = [sys.executable, "-m", "benchmarks.matching", "--fill", str(size)]
    root = Path(__file__).resolve().parent.parent
    done = subprocess.run(command, cwd=root, check=True, stdout=subprocess.PIPE, text=True)  # noqa: S603
    return cast(dict[str, float], json.loads(done.stdout))


def _fill(size: int) -> dict[str, float]:
    """Fill one index and match with it; what it took."""
    trading = Trading()
    events = [trading.event() for _ in range(EVENTS)]
    index: MatchIndex[str] = MatchIndex()
    adding = 0.0
    for number in range(size):
        key, selector = f"client-{number}", trading.unparsed()
        started = process_time()
        index.add(key, selector)
        adding += process_time() - started
    memory_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    best: dict[str, float] = {}
    for _ in range(5):
        _time(best, "index", EVENTS, lambda: [index.match(event) for event in events])
    return {
        "us": 1e6 * best["index"],
        "memory_gb": memory_kb * 1024 / 1e9,
        "adding_seconds": adding,
        "matches": sum(len(index.match(event)) for event in events) / EVENTS,
    }


def show(figures: dict[str, Any]) -> None:
    """Print the figures as tables."""
    console = Console()
    table = Table("subscriptions", "µs per event", "matches per event", title="Matching")
    for column in table.columns:
        column.justify = "right"
    table.add_row("10,000, each evaluated", f"{figures['brute_force_us']:,.0f}", "")
    for size in (1_000, 10_000, 100_000):
        table.add_row(f"{size:,}", f"{figures[f'index_{size}_us']:,.1f}", f"{figures[f'matches_{size}']:.1f}")
    if "million_us" in figures:
        table.add_row("1,000,000", f"{figures['million_us']:,.1f}", f"{figures['million_matches']:.1f}")
    console.print(table)
    console.print(f"10,000: {figures['speedup']:,.0f} times as fast as brute force")
    console.print(f"1,000 to 100,000: {figures['growth']:.1f} times slower")
    if "million_us" in figures:
        memory, seconds = figures["million_memory_gb"], figures["million_adding_seconds"]
        console.print(f"1,000,000: {memory:.2f} GB, added in {seconds:.0f} s")
    for bar, met in figures["bars"].items():
        console.print(("[green]met[/]    " if met else "[red]missed[/] ") + bar)


def main() -> int:
    """Exit code 0 when every bar is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer rounds, and without the million")
    parser.add_argument("--json", action="store_true", help="print one object")
    parser.add_argument("--fill", type=int, metavar="N", help="only fill an index with N subscriptions")
    options = parser.parse_args()
    if options.fill:
        print(json.dumps(_fill(options.fill)))
        return 0
    figures = run(quick=options.quick)
    if options.json:
        print(json.dumps(figures, indent=2))
    else:
        show(figures)
    return 0 if figures["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
