"""What all plots have in common: a panel for each tree model and fan-out, and one colour for each δ."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Drawing

from gapless.experiments.figure import Row
from gapless.experiments.networks import FANOUTS, MODEL_NAMES, MODELS

COLOURS = {0: "#b2182b", 1: "#ef8a3c", 2: "#3b8bc2", 3: "#173f6b"}
"""By δ: from what does not help to what does."""
MARKERS = {0: "o", 1: "s", 2: "^", 3: "D"}
INK = "#222222"
PALE = "#d9d9d9"


def panels(
    rows: Sequence[Row], *, title: str, x: str, y: str
) -> tuple[Drawing, list[tuple[Axes, list[Row]]]]:
    """A drawing, and the axes of each panel with its rows."""
    drawing = Drawing(figsize=(10.5, 7.6), dpi=140, facecolor="white")
    drawing.suptitle(title, fontsize=14, fontweight="bold", color=INK, x=0.07, y=0.975, ha="left")
    drawing.subplots_adjust(left=0.07, right=0.985, bottom=0.075, top=0.885, wspace=0.06, hspace=0.16)
    grid = drawing.subplots(len(MODELS), len(FANOUTS), sharex=True, sharey=True)
    made = []
    for line, model in enumerate(MODELS):
        for column, fanout in enumerate(FANOUTS):
            axes: Axes = grid[line][column]
            axes.set_title(f"{MODEL_NAMES[model]}, fan-out {fanout}", fontsize=11, color=INK, loc="left")
            axes.grid(True, color=PALE, linewidth=0.6)
            axes.set_axisbelow(True)
            axes.spines[["top", "right"]].set_visible(False)
            axes.tick_params(labelsize=9)
            axes.set_xlabel(x if line == len(MODELS) - 1 else "", fontsize=10)
            axes.set_ylabel(y if column == 0 else "", fontsize=10)
            made.append((axes, [row for row in rows if row["model"] == model and row["fanout"] == fanout]))
    return drawing, made


def line(rows: Sequence[Row], delta: int, x: str, y: str) -> tuple[list[float], list[float]]:
    """The points of one δ."""
    chosen = [row for row in rows if row["delta"] == delta]
    return [row[x] for row in chosen], [row[y] for row in chosen]


def legend(drawing: Drawing, parts: Sequence[tuple[Axes, list[Row]]]) -> None:
    """One legend for all panels, above them."""
    entries: dict[str, Any] = {}
    for axes, _ in parts:
        handles, labels = axes.get_legend_handles_labels()
        entries.update(zip(labels, handles, strict=True))
    drawing.legend(
        entries.values(),
        entries.keys(),
        loc="upper left",
        ncols=len(entries),
        frameon=False,
        fontsize=10,
        bbox_to_anchor=(0.06, 0.96),
        handletextpad=0.4,
        columnspacing=1.6,
    )


def stroke(delta: int) -> dict[str, Any]:
    """How the line of one δ looks."""
    return {"color": COLOURS[delta], "marker": MARKERS[delta], "markersize": 4.5, "linewidth": 1.8}
