"""What a figure is: tasks that depend on nothing but themselves, a sum over them, a plot and what it shows.

A task computes whole numbers and Spark adds them up, so that a figure is the same to the last digit however
its tasks were spread over machines, and whichever of them had to be repeated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, TypeAlias

import pyarrow as pa
from matplotlib.figure import Figure as Drawing
from pyspark.sql import DataFrame, SparkSession

from gapless.experiments.networks import DELTAS, FANOUTS, MODEL_NAMES, MODELS, Network

Row: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a figure is computed."""

    brokers: int
    failures: tuple[int, ...]
    runs: int


@dataclass(frozen=True, slots=True)
class Task:
    """Some runs of one network; ``delta`` is -1 where a task is for all of them."""

    network: Network
    failures: tuple[int, ...]
    runs: range
    delta: int = -1

    @property
    def labels(self) -> Row:
        """The columns that name the network."""
        return {"model": self.network.model, "fanout": self.network.fanout}


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence of the paper, where it stands, what was measured, and whether that says the same."""

    claim: str
    where: str
    measured: str
    agrees: bool


@dataclass(frozen=True, slots=True)
class Table:
    """The values that matter most, for people."""

    title: str
    header: tuple[str, ...]
    lines: Sequence[tuple[str, ...]]


class Figure(ABC):
    """A figure of a paper."""

    name: ClassVar[str]
    """Paper and number: 000.8."""
    title: ClassVar[str]
    columns: ClassVar[tuple[str, ...]]
    """The columns of the CSV file, which are fixed."""
    counts: ClassVar[str]
    """The schema of what a task finds."""
    caption: ClassVar[str]
    """What the picture shows, besides the networks; with places for the values of a size."""
    method: ClassVar[str]
    """How it is made, for people; with places for the values of a size."""
    full: ClassVar[Size]
    quick: ClassVar[Size]

    @property
    def number(self) -> str:
        """Its number in the paper."""
        return self.name.split(".")[1]

    @property
    def stem(self) -> str:
        """The name of its files, without the ending."""
        return f"{self.name.split('.')[0]}-fig{self.number}"

    def told(self, text: str, size: Size) -> str:
        """The caption or the method, with the values of a size."""
        most = max(size.failures, default=0)
        return " ".join(text.split()).format(
            brokers=f"{size.brokers:,}", runs=f"{size.runs:,}", survivors=size.brokers - most
        )

    @abstractmethod
    def tasks(self, networks: Iterable[Network], size: Size) -> list[Task]:
        """The tasks, the longest first."""

    @abstractmethod
    def work(self, task: Task) -> Iterable[Row]:
        """What one task finds: whole numbers that can be added to those of others."""

    @abstractmethod
    def summary(self, found: DataFrame, size: Size) -> DataFrame:
        """The rows of the figure, from what all tasks have found; they have at least its columns."""

    @abstractmethod
    def draw(self, rows: Sequence[Row], size: Size) -> Drawing:
        """The plot."""

    @abstractmethod
    def table(self, rows: Sequence[Row], size: Size) -> Table:
        """The values that matter most."""

    @abstractmethod
    def findings(self, rows: Sequence[Row], size: Size) -> list[Finding]:
        """What the paper says of its figure beside what this one shows."""

    def plan(self, size: Size, seed: int) -> list[Task]:
        """The tasks for all models and fan-outs."""
        networks = [Network(model, fanout, size.brokers, seed) for model in MODELS for fanout in FANOUTS]
        return self.tasks(networks, size)


def transform(session: SparkSession, figure: Figure, size: Size, seed: int) -> DataFrame:
    """The rows of a figure; a Spark task for each of its tasks."""
    tasks = figure.plan(size, seed)
    work = partial(_work, figure, tasks)
    found = session.range(0, len(tasks), 1, len(tasks)).mapInArrow(work, figure.counts)
    return figure.summary(found, size).orderBy(*figure.columns[:-1])


def _work(
    figure: Figure, tasks: Sequence[Task], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield pa.RecordBatch.from_pylist(list(figure.work(tasks[number])))


def pick(rows: Iterable[Row], column: str, **where: Any) -> Any:
    """The value of a column in the one row of which all this is true."""
    (found,) = (row[column] for row in rows if all(row[name] == wanted for name, wanted in where.items()))
    return found


def span(values: Iterable[float], digits: int = 1) -> str:
    """From the least to the greatest."""
    shown = sorted(values)
    low, high = f"{shown[0]:.{digits}f}", f"{shown[-1]:.{digits}f}"
    return low if low == high else f"{low} to {high}"


def by_delta(title: str, rows: Sequence[Row], shown: Callable[[Row], str]) -> Table:
    """A table with a line for each tree and a column for each δ."""
    lines = []
    for model in MODELS:
        for fanout in FANOUTS:
            some = [row for row in rows if row["model"] == model and row["fanout"] == fanout]
            cells = [shown(row) for row in sorted(some, key=lambda row: int(row["delta"]))]
            lines.append((f"{MODEL_NAMES[model]}, fan-out {fanout}", *cells))
    return Table(title, ("tree", *(f"δ = {delta}" for delta in DELTAS)), lines)
