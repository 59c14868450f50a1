"""Figure 10 of 000: how many brokers a broker must know.

Reference: 000, section IX-C (P0-100), with the tree models named (X-P0-20).

The sizes are those of the neighbourhoods that brokers keep (:class:`Topology`), of one tree for each model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate

from matplotlib.figure import Figure as Drawing
from pyspark.sql import DataFrame

from gapless.experiments.drawing import INK, legend, panels, stroke
from gapless.experiments.figure import Figure, Finding, Row, Size, Table, Task, by_delta
from gapless.experiments.networks import DELTAS, MODEL_NAMES, MODELS, Network
from gapless.experiments.overlays import topologies

LARGE = 100
"""The paper says of neighbourhoods whether they have fewer brokers than this."""
FEW = 0.05
"""The share of the brokers that is a few."""


class Neighbourhoods(Figure):
    """Sizes of (δ+1)-neighbourhoods."""

    name = "000.10"
    title = "Size of the neighbourhoods"
    columns = ("model", "fanout", "delta", "size", "brokers")
    counts = "model string, fanout long, delta long, size long, brokers long"
    caption = "the brokers of one tree a panel"
    method = """
        The neighbourhoods that the brokers of one tree of {brokers} keep: for each broker the number of
        others within δ+1 of it.
    """
    full = Size(brokers=1000, failures=(), runs=1)
    quick = Size(brokers=200, failures=(), runs=1)

    def tasks(self, networks: Iterable[Network], size: Size) -> list[Task]:
        """A tree and a δ each, the largest neighbourhoods first."""
        return [
            Task(network, (), range(size.runs), delta) for delta in reversed(DELTAS) for network in networks
        ]

    def work(self, task: Task) -> list[Row]:
        """How many brokers have how many others within δ+1."""
        known = topologies(task.network.links(0), task.delta)
        sizes = Counter(len(topology.nodes()) - 1 for topology in known.values())
        return [{**task.labels, "delta": task.delta, "size": k, "brokers": n} for k, n in sizes.items()]

    def summary(self, found: DataFrame, size: Size) -> DataFrame:
        """Each task has a part of its own."""
        return found

    def draw(self, rows: Sequence[Row], size: Size) -> Drawing:
        """The share of the brokers that know no more than so many."""
        drawing, parts = panels(
            rows,
            title="Other brokers within δ+1",
            x="size of the neighbourhood (other brokers)",
            y="brokers with no more than that (%)",
        )
        for axes, some in parts:
            for delta in DELTAS:
                chosen = [row for row in some if row["delta"] == delta]
                sizes = [chosen[0]["size"], *(row["size"] for row in chosen)]
                share = [0, *accumulate(100 * row["brokers"] / size.brokers for row in chosen)]
                style = {**stroke(delta), "marker": ""}
                axes.plot(sizes, share, **style, drawstyle="steps-post", label=f"δ = {delta}")
            axes.axvline(LARGE, color=INK, linewidth=0.8, linestyle=":", label="100 brokers")
            axes.set_xscale("log")
            axes.xaxis.set_major_formatter("{x:,g}")
            axes.set_ylim(-2, 103)
        legend(drawing, parts)
        return drawing

    def table(self, rows: Sequence[Row], size: Size) -> Table:
        """What is typical, what is the most."""
        found = [
            {**dict(zip(("model", "fanout", "delta"), key, strict=True)), "sizes": sizes}
            for key, sizes in _sizes(rows).items()
        ]
        title = f"Median and largest size, and the share of neighbourhoods below {LARGE}"
        return by_delta(title, found, lambda row: _shown(row["sizes"]))

    def findings(self, rows: Sequence[Row], size: Size) -> list[Finding]:
        """Of fan-out 3 and of fan-out 7."""
        sizes = _sizes(rows)
        low = min(_share_below(some) for key, some in sizes.items() if key[1] == 3)
        quarter = size.brokers // 4
        centre = {model: sizes[model, 7, 3] for model in MODELS}
        told = [
            f"{MODEL_NAMES[model]}: {sum(each >= quarter for each in some)} know a quarter of the network or "
            f"more, {sum(each >= LARGE for each in some)} know {LARGE} brokers or more, "
            f"the largest {some[-1]:,}"
            for model, some in centre.items()
        ]
        return [
            Finding(
                "[fanout of 3] almost all brokers’ neighborhoods include less than 100 brokers",
                "section IX-C",
                f"At least {low:.1f} % of them, for every δ.",
                low >= 95,
            ),
            Finding(
                "[fanout of 7] a few brokers (located in the center) may have large neighborhoods for the "
                "case of δ = 3",
                "section IX-C",
                "; ".join(told) + ".",
                all(sum(each >= quarter for each in some) <= FEW * size.brokers for some in centre.values()),
            ),
        ]


def _sizes(rows: Sequence[Row]) -> dict[tuple[str, int, int], list[int]]:
    """The size of each broker's neighbourhood, ascending, by model, fan-out and δ."""
    sizes: dict[tuple[str, int, int], list[int]] = {}
    for row in sorted(rows, key=lambda row: int(row["size"])):
        key = (row["model"], row["fanout"], row["delta"])
        sizes.setdefault(key, []).extend([row["size"]] * row["brokers"])
    return sizes


def _share_below(sizes: Sequence[int]) -> float:
    return 100 * sum(size < LARGE for size in sizes) / len(sizes)


def _shown(sizes: Sequence[int]) -> str:
    return f"{sizes[len(sizes) // 2]:,}, {sizes[-1]:,}, {_share_below(sizes):.1f} %"
