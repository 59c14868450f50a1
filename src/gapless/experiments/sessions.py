"""Figure 11 of 000: how many active sessions a broker has while others are bypassed.

Reference: 000, section IX-D (P0-101), with the tree models named (X-P0-20).

The sessions are those that each live broker finds by its own walk round the failed ones, at δ = 3.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from matplotlib.figure import Figure as Drawing
from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from gapless.experiments.drawing import legend, panels
from gapless.experiments.figure import Figure, Finding, Row, Size, Table, Task
from gapless.experiments.networks import FANOUTS, MODEL_NAMES, MODELS, RUNS_A_TREE, Network
from gapless.experiments.overlays import active_sessions, topologies

DELTA = 3
COLOURS = ("#7fb3d5", "#173f6b")
"""By the number of failures."""
FEW = 4
"""A broker with no more active sessions than this has very few."""


class Sessions(Figure):
    """Brokers by the number of their active sessions."""

    name = "000.11"
    title = "Number of active sessions"
    columns = ("model", "fanout", "failures", "sessions", "brokers")
    counts = "model string, fanout long, failures long, sessions long, found long"
    caption = "δ = 3; mean of {runs} runs"
    method = """
        {brokers} brokers, δ = 3; the mean of {runs} runs. Each live broker walks its own neighbourhood
        round the failed brokers, as it does in a running network; the sessions at which the walk ends are
        its active ones.
    """
    full = Size(brokers=1000, failures=(16, 60), runs=200)
    quick = Size(brokers=200, failures=(3, 12), runs=20)

    def tasks(self, networks: Iterable[Network], size: Size) -> list[Task]:
        """A tree each."""
        starts = range(0, size.runs, RUNS_A_TREE)
        chunks = [range(first, min(first + RUNS_A_TREE, size.runs)) for first in starts]
        return [Task(network, size.failures, runs, DELTA) for network in networks for runs in chunks]

    def work(self, task: Task) -> list[Row]:
        """Walk from every live broker in every run."""
        known = topologies(task.network.links(task.runs[0] // RUNS_A_TREE), task.delta)
        found: Counter[tuple[int, int]] = Counter()
        for run in task.runs:
            order = task.network.failures(run)
            for failures in task.failures:
                active = active_sessions(known, set(order[:failures]))
                found.update((failures, len(peers)) for peers in active.values())
        return [
            {**task.labels, "failures": failures, "sessions": sessions, "found": brokers}
            for (failures, sessions), brokers in found.items()
        ]

    def summary(self, found: DataFrame, size: Size) -> DataFrame:
        """The mean over the runs."""
        total = found.groupBy("model", "fanout", "failures", "sessions").agg(f.sum("found").alias("found"))
        return total.withColumn("brokers", f.round(f.col("found") / size.runs, 4))

    def draw(self, rows: Sequence[Row], size: Size) -> Drawing:
        """Bars side by side, for few failures and for many; the tail needs a logarithm."""
        drawing, parts = panels(
            rows,
            title=f"Active sessions of live brokers, δ = {DELTA}",
            x="active sessions",
            y="brokers (mean of the runs)",
        )
        for axes, some in parts:
            for place, (failures, colour) in enumerate(zip(size.failures, COLOURS, strict=True)):
                chosen = [row for row in some if row["failures"] == failures]
                axes.bar(
                    [row["sessions"] + 0.42 * (place - 0.5) for row in chosen],
                    [row["brokers"] for row in chosen],
                    width=0.42,
                    color=colour,
                    label=f"{failures} of {size.brokers:,} failed",
                )
            axes.set_yscale("log")
            axes.yaxis.set_major_formatter("{x:,g}")
            axes.set_ylim(0.5 / size.runs, 2 * size.brokers)
        legend(drawing, parts)
        return drawing

    def table(self, rows: Sequence[Row], size: Size) -> Table:
        """What is typical, what is the most."""
        header = ("tree", *(f"{failures} failed" for failures in size.failures))
        lines = [
            (
                f"{MODEL_NAMES[model]}, fan-out {fanout}",
                *(_shown(_part(rows, model, fanout, k)) for k in size.failures),
            )
            for model in MODELS
            for fanout in FANOUTS
        ]
        return Table(
            "Active sessions: mean, 99 % of brokers have no more than, most ever seen", header, lines
        )

    def findings(self, rows: Sequence[Row], size: Size) -> list[Finding]:
        """Low for most."""
        parts = [_part(rows, m, k, n) for m in MODELS for k in FANOUTS for n in size.failures]
        few = min(100 * _at_most(part, FEW) for part in parts)
        most = max(max(part) for part in parts)
        return [
            Finding(
                "the number of active sessions remains very low for the majority of brokers",
                "section IX-D",
                f"At least {few:.1f} % of the brokers have no more than {FEW}; the most: {most}.",
                few > 50,
            )
        ]


def _part(rows: Sequence[Row], model: str, fanout: int, failures: int) -> dict[int, float]:
    """The mean number of brokers by the number of their sessions, ascending."""
    wanted = {"model": model, "fanout": fanout, "failures": failures}
    some = [row for row in rows if all(row[name] == value for name, value in wanted.items())]
    return {row["sessions"]: row["brokers"] for row in sorted(some, key=lambda row: int(row["sessions"]))}


def _at_most(part: dict[int, float], sessions: int) -> float:
    return sum(brokers for count, brokers in part.items() if count <= sessions) / sum(part.values())


def _shown(part: dict[int, float]) -> str:
    mean = sum(count * brokers for count, brokers in part.items()) / sum(part.values())
    return f"{mean:.2f}, {next(count for count in part if _at_most(part, count) >= 0.99)}, {max(part)}"
