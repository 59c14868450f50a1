"""Exploration in shares on Spark: together they find what one exploration finds."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from gapless.simulation.explore import SCENARIOS, explore
from gapless.spark.jobs import explore as job


@pytest.fixture(autouse=True)
def few_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job, "SHARES_OF_EACH", 3)


def test_shares_are_the_whole(spark: SparkSession) -> None:
    (result,) = job.together(job.transform(job.shares(spark, ["four"], 1)).toArrow())
    whole = explore(SCENARIOS["four"], deviations=1)
    repeated = 2 * (job.SHARES_OF_EACH - 1)  # the default schedule, of each bound
    assert result.ok
    assert result.deviations == 1
    assert result.schedules - repeated == whole.schedules


def test_the_shortest_schedule_of_all_shares_is_told(spark: SparkSession) -> None:
    table = job.transform(job.shares(spark, ["four"], 0)).toArrow()
    rows = table.to_pylist()
    rows[0] |= {"schedule": ["3:crash:b", "4:crash:c"], "found_after": 20, "faults": ["two"]}
    rows[1] |= {"schedule": ["9:crash:b*1"], "found_after": 30, "faults": ["one"]}
    (result,) = job.together(table.from_pylist(rows, table.schema))
    assert result.found is not None
    assert (list(map(str, result.found.schedule)), result.found.faults) == (["9:crash:b*1"], ["one"])
