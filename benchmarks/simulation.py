"""How fast the simulator is: messages between nodes that it carries a second, on one core.

The aim is 50,000 a second in a run of the default size, whole: the network, the protocol, the workload, the
trace and its judgement. The machine matters, so the figure stands beside what a bare event loop (a heap of
callbacks that do nothing, as many as the run had messages) reaches in the same run. Publisher order is
shown beside best effort."""

from __future__ import annotations

import heapq
import time
from typing import Any

from rich.console import Console
from rich.table import Table

from gapless.core.model import OrderName
from gapless.simulation.run import Options, simulate

AIM = 50_000
ORDERS = (OrderName.BEST_EFFORT, OrderName.PUBLISHER)


def run(quick: bool = False) -> dict[str, Any]:
    """Simulated messages a second over several seeds, for each order."""
    result: dict[str, Any] = {"aim": AIM}
    for order in ORDERS:
        messages, spent = _measure(Options(order=order, crashes=4, cuts=4), seeds=2 if quick else 12)
        bare = _bare_loop(messages)
        result[f"{order} messages_per_second"] = messages / spent
        result[f"{order} ratio_to_bare_loop"] = spent / bare
    return result


def _measure(options: Options, seeds: int) -> tuple[int, float]:
    """Messages and processor time of some runs."""
    simulate(options, 0)
    began = time.process_time()
    messages = sum(simulate(options, seed)[0].messages for seed in range(seeds))
    return messages, time.process_time() - began


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


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    table = Table(title=f"simulator: messages a second (aim: {AIM:,})")
    table.add_column("order")
    table.add_column("messages a second", justify="right")
    table.add_column("times a bare event loop", justify="right")
    for order in ORDERS:
        speed, ratio = result[f"{order} messages_per_second"], result[f"{order} ratio_to_bare_loop"]
        table.add_row(order, f"{speed:,.0f}", f"{ratio:.0f}")
    Console().print(table)
