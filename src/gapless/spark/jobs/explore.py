"""Exploration in shares: each task tries the schedules of a scenario that begin with some of its deviations.

A share has its own memory of states, so shares together visit more than one exploration of all would; what
they find is the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema

from gapless.simulation.explore import SCENARIOS, Deviation, Exploration, explore
from gapless.simulation.explore.search import Found
from gapless.spark.jobs.simulate import a_row_a_task
from gapless.spark.schemas import EXPLORATIONS, SHARES

SHARES_OF_EACH = 64
"""In how many tasks a scenario is explored."""


def shares(session: SparkSession, names: Iterable[str], deviations: int) -> DataFrame:
    """The ``SHARES`` of the scenarios of these names."""
    rows = [
        {"scenario": name, "deviations": deviations, "share": share, "shares": SHARES_OF_EACH}
        for share in range(SHARES_OF_EACH)
        for name in names
    ]
    return session.createDataFrame(pa.Table.from_pylist(rows, to_arrow_schema(SHARES)), SHARES)


def transform(parts: DataFrame) -> DataFrame:
    """The ``EXPLORATIONS`` of the ``SHARES``."""
    return a_row_a_task(parts).mapInArrow(_explored, EXPLORATIONS)


def _explored(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(EXPLORATIONS)
    for batch in batches:
        for row in batch.to_pylist():
            share = (row["share"], row["shares"])
            result = explore(SCENARIOS[row["scenario"]], deviations=row["deviations"], share=share)
            found = result.found
            told = {
                **row,
                **{name: getattr(result, name) for name in EXPLORATIONS.names if hasattr(result, name)},
                "deviations": row["deviations"],
                "schedule": list(map(str, found.schedule)) if found else None,
                "found_after": found.moves if found else None,
                "faults": found.faults if found else None,
            }
            yield pa.RecordBatch.from_pylist([told], schema)


def together(table: pa.Table) -> list[Exploration]:
    """The shares of each scenario as one exploration, with the shortest of the schedules that were found."""
    whole: dict[str, Exploration] = {}
    for row in table.to_pylist():
        name = row["scenario"]
        sum_of = whole.setdefault(name, Exploration(scenario=name, deviations=row["deviations"]))
        for count in ("schedules", "states", "moves", "steps", "seconds", "violating"):
            setattr(sum_of, count, getattr(sum_of, count) + row[count])
        if row["schedule"] is not None:
            schedule = tuple(map(Deviation.parse, row["schedule"]))
            found = Found(schedule=schedule, moves=row["found_after"], faults=row["faults"])
            if sum_of.found is None or found.rank < sum_of.found.rank:
                sum_of.found = found
    return list(whole.values())
