"""How fast the simulator is: messages between nodes that it carries a second, on one core.

The bar is 50,000 a second. The machine matters, so the figure stands beside what a bare event loop (a heap of
callbacks that do nothing, as many as the run had messages) reaches in the same run.
"""

from __future__ import annotations

import argparse
import heapq
import json
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from gapless.core.model import OrderName
from gapless.simulation.run import Options, simulate

BAR = 50_000
OPTIONS = Options(
    order=OrderName.BEST_EFFORT, brokers=31, delta=2, publishers=10, subscribers=10, crashes=10, cuts=10
)


def run(quick: bool = False) -> dict[str, Any]:
    """Simulated messages a second over several seeds."""
    seeds = range(2 if quick else 8)
    simulate(OPTIONS, seeds[0])
    began = time.process_time()
    messages = sum(simulate(OPTIONS, seed)[0].messages for seed in seeds)
    spent = time.process_time() - began
    bare = _bare_loop(messages)
    return {
        "messages": messages,
        "messages_per_second": messages / spent,
        "bare_loop_per_second": messages / bare,
        "ratio_to_bare_loop": spent / bare,
        "bar": BAR,
        "met": messages / spent >= BAR,
    }


def _bare_loop(messages: int) -> float:
    """The time for as many empty callbacks from a heap."""
    began = time.process_time()
    agenda: list[tuple[int, int, Any]] = []
    for number in range(messages):
        heapq.heappush(agenda, (number * 7919 % 1000, number, _nothing))
        if len(agenda) > 200:
            heapq.heappop(agenda)[2]()
    return time.process_time() - began


def _nothing() -> None:
    pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--quick", action="store_true")
    arguments = parser.parse_args()
    result = run(arguments.quick)
    if arguments.json:
        print(json.dumps(result))
    else:
        table = Table(title="simulator", show_header=False)
        table.add_row("messages a second", f"{result['messages_per_second']:,.0f} (bar: {BAR:,})")
        table.add_row("bare event loop a second", f"{result['bare_loop_per_second']:,.0f}")
        Console().print(table)
    return 0 if result["met"] else 1


if __name__ == "__main__":
    raise SystemExit(main())
