"""Figure 8 of 000: how many pairs of live brokers are disconnected after many failures.

Reference: 000, section IX-A (P0-98), with the tree models named (X-P0-20).

Half a million networks are counted by :func:`connected_pairs`, which knows only the definition. That the
overlay does the same is not left to belief: in every twentieth tree the first run goes, at every point and
for every δ, through the neighbourhoods, frontiers and directions of the brokers themselves, and must give
the same number.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

import numpy as np
from matplotlib.figure import Figure as Drawing
from numpy.typing import NDArray
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from gapless.experiments.drawing import legend, line, panels, stroke
from gapless.experiments.figure import Figure, Finding, Row, Size, Table, Task, by_delta, span
from gapless.experiments.networks import DELTAS, RUNS_A_TREE, Network, number_of, parents_of
from gapless.experiments.overlays import routed_pairs, topologies
from gapless.experiments.reach import connected_pairs

TREES_A_TASK = 5
CHECKED_TREES = 20
"""The first run of every so many trees is routed by the overlay, too."""


class OverlayMismatchError(AssertionError):
    """The overlay connects other brokers than the definition says."""


class Connectivity(Figure):
    """Disconnected pairs over failures."""

    name = "000.8"
    title = "Network connectivity after failures"
    columns = ("model", "fanout", "delta", "failures", "runs", "disconnected_percent")
    counts = (
        "model string, fanout long, delta long, failures long, "
        "runs long, connected long, squares long, pairs long"
    )
    caption = "mean of {runs} runs; a logarithmic scale, on which 0 has no place"
    method = """
        A network of {brokers} brokers, which fail one after the other in a random order; both ends of a
        pair are live. Each point is the mean of {runs} runs, ± its standard error in the table (the paper:
        100 runs, which is few for values with such a heavy tail: one failure near the root may cut off a
        large part of the network). Pairs are counted by the definition: no more than δ failed brokers in a
        row on the primary path. One run in 400 was also routed, at every point and for every δ, by the
        overlay that brokers run (neighbourhoods, frontiers, directions), and the overlay reached exactly
        the pairs that were counted.
    """
    full = Size(brokers=1000, failures=tuple(range(0, 171, 10)), runs=2000)
    quick = Size(brokers=200, failures=(0, 10, 20, 34), runs=40)

    def tasks(self, networks: Iterable[Network], size: Size) -> list[Task]:
        """A few trees each."""
        step = TREES_A_TASK * RUNS_A_TREE
        chunks = [range(first, min(first + step, size.runs)) for first in range(0, size.runs, step)]
        return [Task(network, size.failures, runs) for network in networks for runs in chunks]

    def work(self, task: Task) -> Iterator[Row]:
        """Count the connected pairs, tree by tree."""
        for first in task.runs[::RUNS_A_TREE]:
            runs = range(first, min(first + RUNS_A_TREE, task.runs.stop))
            for delta, connected in count(task.network, runs, task.failures).items():
                for failures, by_run in zip(task.failures, connected.T, strict=True):
                    live = task.network.brokers - failures
                    yield {
                        **task.labels,
                        "delta": delta,
                        "failures": failures,
                        "runs": len(runs),
                        "connected": int(by_run.sum()),
                        "squares": int((by_run**2).sum()),
                        "pairs": live * (live - 1) // 2,
                    }

    def summary(self, found: DataFrame, size: Size) -> DataFrame:
        """The mean over all runs, and its standard error."""
        total = found.groupBy("model", "fanout", "delta", "failures", "pairs").agg(
            *(f.sum(name).alias(name) for name in ("runs", "connected", "squares"))
        )
        mean = f.col("connected") / f.col("runs")
        variance = f.greatest(f.lit(0.0), f.col("squares") / f.col("runs") - mean * mean)
        return total.withColumns(
            {
                "disconnected_percent": f.round(100 - 100 * mean / f.col("pairs"), 4),
                "error": 100 * f.sqrt(variance / f.col("runs")) / f.col("pairs"),
            }
        )

    def draw(self, rows: Sequence[Row], size: Size) -> Drawing:
        """A line for each δ; a step of δ is about a factor, so the scale is logarithmic."""
        drawing, parts = panels(
            rows,
            title="Disconnected pairs of live brokers",
            x=f"failed brokers, of {size.brokers:,}",
            y="disconnected pairs (%)",
        )
        for axes, some in parts:
            for delta in DELTAS:
                shown = [row for row in some if row["disconnected_percent"] > 0]
                points = line(shown, delta, "failures", "disconnected_percent")
                axes.plot(*points, **stroke(delta), label=f"δ = {delta}")
            axes.set_yscale("log")
            axes.set_ylim(0.001, 130)
            axes.set_xlim(-0.02 * max(size.failures), 1.03 * max(size.failures))
            axes.yaxis.set_major_formatter("{x:,g}")
        legend(drawing, parts)
        return drawing

    def table(self, rows: Sequence[Row], size: Size) -> Table:
        """The last point of every line."""
        most = max(size.failures)
        found = [row for row in rows if row["failures"] == most]
        return by_delta(
            f"Disconnected pairs, in %, with {most} of {size.brokers:,} brokers failed", found, _shown
        )

    def findings(self, rows: Sequence[Row], size: Size) -> list[Finding]:
        """The more δ, the fewer are disconnected."""
        better = all(
            upper["disconnected_percent"] >= lower["disconnected_percent"]
            for upper, lower in product(rows, repeat=2)
            if lower["delta"] > upper["delta"]
            and all(lower[name] == upper[name] for name in ("model", "fanout", "failures"))
        )
        most = max(size.failures)
        last = [
            [row["disconnected_percent"] for row in rows if (row["delta"], row["failures"]) == (d, most)]
            for d in DELTAS
        ]
        told = "; ".join(f"δ = {d}: {span(values, 2)} %" for d, values in zip(DELTAS, last, strict=True))
        return [
            Finding(
                "in both cases increasing δ improves network connectivity by reducing the probability of "
                "occurrence of δ + 1 failures in a chain",
                "section IX-A",
                f"A larger δ leaves {'fewer' if better else 'not always fewer'} pairs disconnected; with "
                f"{most} failed, over the four trees, {told}.",
                better,
            )
        ]


def _shown(row: Row) -> str:
    return f"{row['disconnected_percent']:.2f} ± {row['error']:.2f}"


def count(network: Network, runs: range, points: Sequence[int]) -> dict[int, NDArray[np.int64]]:
    """The connected pairs for each δ, a line a run and a column a point; the runs share a tree."""
    tree = runs[0] // RUNS_A_TREE
    links = network.links(tree)
    dead = np.zeros((network.brokers, len(runs), len(points)), dtype=np.bool_)
    for place, run in enumerate(runs):
        order = [number_of(each) for each in network.failures(run)]
        for column, failures in enumerate(points):
            dead[order[:failures], place, column] = True
    found = {}
    for delta in DELTAS:
        pairs = connected_pairs(parents_of(links), dead.reshape(network.brokers, -1), delta)
        found[delta] = pairs.reshape(len(runs), len(points))
        if tree % CHECKED_TREES == 0:
            check(network, runs[0], points, delta, found[delta][0].tolist())
    return found


def check(network: Network, run: int, points: Sequence[int], delta: int, connected: Sequence[int]) -> None:
    """Route one run by the overlay, and raise where it reaches other pairs than were counted."""
    known = topologies(network.links(run // RUNS_A_TREE), delta)
    order = network.failures(run)
    for failures, counted in zip(points, connected, strict=True):
        routed = routed_pairs(known, set(order[:failures]))
        if routed != 2 * counted:
            raise OverlayMismatchError(
                f"{network}, run {run}, δ = {delta}, {failures} failed: the overlay reaches {routed} ordered "
                f"pairs, the definition {2 * counted}"
            )
