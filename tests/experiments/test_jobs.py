"""The figures as Spark jobs: the same to the last digit as in this process, however the work is split."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest
from pyspark.errors import PythonException
from pyspark.sql import SparkSession

from gapless.experiments import connectivity
from gapless.experiments.catalogue import FIGURES
from gapless.experiments.figure import Figure, Size, transform
from gapless.experiments.networks import DELTAS, FANOUTS, MODELS

SMALL = {
    "000.8": Size(brokers=60, failures=(0, 6, 10), runs=50),
    "000.9": Size(brokers=20, failures=(0, 4), runs=1),
    "000.10": Size(brokers=60, failures=(), runs=1),
    "000.11": Size(brokers=60, failures=(2, 10), runs=30),
}


def rows(session: SparkSession, name: str, seed: int = 0) -> list[dict[str, Any]]:
    figure = FIGURES[name]
    found: list[dict[str, Any]] = transform(session, figure, SMALL[name], seed).toArrow().to_pylist()
    return [{column: row[column] for column in figure.columns} for row in found]


def added_up(figure: Figure, size: Size) -> dict[tuple[Any, ...], Counter[str]]:
    """What all tasks find, added up in this process, by the columns that name a row."""
    keys = figure.columns[: 4 if "delta" in figure.columns or figure.name == "000.11" else 3]
    total: dict[tuple[Any, ...], Counter[str]] = {}
    for task in figure.plan(size, 0):
        for row in figure.work(task):
            key = tuple(row[name] for name in keys)
            total.setdefault(key, Counter()).update({k: v for k, v in row.items() if k not in keys})
    return total


def test_figure_8_is_the_mean_over_all_runs(spark: SparkSession) -> None:
    size = SMALL["000.8"]
    found = rows(spark, "000.8")
    expected = added_up(FIGURES["000.8"], size)
    assert len(found) == len(expected) == len(MODELS) * len(FANOUTS) * len(DELTAS) * 3
    for row in found:
        counts = expected[row["model"], row["fanout"], row["delta"], row["failures"]]
        live = size.brokers - row["failures"]
        assert row["runs"] == counts["runs"] == 50
        percent = 100 - 100 * counts["connected"] / 50 / (live * (live - 1) / 2)
        assert row["disconnected_percent"] == pytest.approx(percent, abs=1e-4)
        assert row["failures"] > 0 or row["disconnected_percent"] == 0


def test_figure_8_does_not_depend_on_how_runs_are_dealt_out(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = rows(spark, "000.8")
    monkeypatch.setattr(connectivity, "TREES_A_TASK", 1)
    assert len(FIGURES["000.8"].plan(SMALL["000.8"], 0)) == 12
    assert rows(spark, "000.8") == before
    assert rows(spark, "000.8", seed=1) != before


def test_figure_9_has_what_was_delivered_beside_what_could_be(spark: SparkSession) -> None:
    expected = added_up(FIGURES["000.9"], SMALL["000.9"])
    found = rows(spark, "000.9")
    assert len(found) == len(expected) == 32
    for row in found:
        counts = expected[row["model"], row["fanout"], row["delta"], row["failures"]]
        for name in ("deliverable", "delivered"):
            assert row[f"{name}_percent"] == pytest.approx(100 * counts[name] / counts["pairs"], abs=1e-4)
    assert any(row["deliverable_percent"] < 100 for row in found)


def test_figure_10_counts_every_broker_once(spark: SparkSession) -> None:
    found = rows(spark, "000.10")
    every: Counter[tuple[Any, ...]] = Counter()
    for row in found:
        every[row["model"], row["fanout"], row["delta"]] += row["brokers"]
    assert len(every) == 16
    assert set(every.values()) == {60}
    assert found == sorted(found, key=lambda row: tuple(row.values()))


def test_figure_11_has_the_mean_number_of_live_brokers(spark: SparkSession) -> None:
    expected = added_up(FIGURES["000.11"], SMALL["000.11"])
    found = rows(spark, "000.11")
    for row in found:
        counts = expected[row["model"], row["fanout"], row["failures"], row["sessions"]]
        assert row["brokers"] == pytest.approx(counts["found"] / 30, abs=1e-4)
    for failures in (2, 10):
        live = sum(row["brokers"] for row in found if row["failures"] == failures)
        assert live == pytest.approx(4 * (60 - failures), abs=0.02)


def test_a_task_that_finds_something_wrong_ends_the_job(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An impossible task stands for it: the job must not go on with what the others have found."""
    figure, size = FIGURES["000.11"], SMALL["000.11"]
    tasks = figure.plan(size, 0)
    impossible = replace(tasks[0], runs=range(0))
    monkeypatch.setattr(type(figure), "plan", lambda *_: [*tasks[:2], impossible])
    with pytest.raises(PythonException, match="IndexError"):
        transform(spark, figure, size, 0).collect()
