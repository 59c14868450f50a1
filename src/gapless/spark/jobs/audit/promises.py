"""What stays were promised: epochs, as :mod:`gapless.simulation.checkers.history` defines them.

An epoch is a promise to one stay about one publisher: from ``line`` on, everything from the sequence
``start`` on. A ``live`` begins one for each publisher of the topic that is not unreachable and has none
yet; a ``reset`` begins one for each publisher that it names, unless that is unreachable and no start is told;
a reset that names nobody withdraws all promises, until the next live. A start that was not named is the
sequence published first after the line.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gapless.spark.jobs.audit.keys import NEVER, STREAM
from gapless.spark.schemas import FLAG, NUMBER, TEXT

EPOCHS = (
    StructType()
    .add("run", TEXT)
    .add("topic", TEXT)
    .add("publisher", TEXT)
    .add("stay", NUMBER)
    .add("line", NUMBER)
    .add("start", NUMBER)
    .add("by_reset", FLAG)
)


def epochs(stays: DataFrame, publications: DataFrame) -> DataFrame:
    """All promises (``EPOCHS``); the start of what was withdrawn is NEVER."""
    names = f.array_union(f.collect_set("client"), f.collect_set("broker"))
    streams = publications.groupBy(*STREAM).agg(f.array_union(names, f.array("publisher")).alias("names"))
    grants = f.transform("grants", _grant).alias("grants")
    return (
        streams.join(f.broadcast(stays.select("run", "topic", "stay", "grants")), ["run", "topic"])
        .select(*STREAM, "stay", grants)
        .mapInArrow(_epochs, EPOCHS)
        .transform(_with_starts, publications)
    )


def _grant(grant: Column) -> Column:
    """What a grant says about one publisher; ``concerned``: whether it is about this one."""
    start = f.element_at(grant["start"], f.col("publisher"))
    nobody = f.array().cast("array<string>")
    named = f.size(f.coalesce(grant["publishers"], nobody)) > 0
    unreachable = f.arrays_overlap(f.coalesce(grant["unreachable"], nobody), f.col("names"))
    reset = grant["kind"] == "reset"
    concerned = f.when(reset, start.isNotNull() | f.array_contains(grant["publishers"], f.col("publisher")))
    return f.struct(
        grant["line"].alias("line"),
        start.alias("start"),
        reset.alias("by_reset"),
        (reset & ~named).alias("withdrawn"),
        concerned.otherwise(~unreachable).alias("concerned"),
    )


def _epochs(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    schema = to_arrow_schema(EPOCHS)
    for batch in batches:
        found = [
            {**row, "line": grant["line"], "start": grant["start"], "by_reset": grant["by_reset"]}
            for row in batch.to_pylist()
            for grant in _promising(row["grants"])
        ]
        yield pa.RecordBatch.from_pylist(found, schema)


def _promising(grants: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The grants that begin a promise about the publisher, or withdraw it."""
    promised, is_reached = False, True
    for grant in grants:
        if not grant["by_reset"]:
            is_reached = grant["concerned"]
        begins_nothing = grant["by_reset"] and grant["start"] is None and not is_reached
        if grant["withdrawn"] or (grant["concerned"] and begins_nothing):
            promised = False
            yield {**grant, "start": NEVER}
        elif grant["concerned"] and (grant["by_reset"] or not promised):
            promised = True
            yield grant


def _with_starts(epochs: DataFrame, publications: DataFrame) -> DataFrame:
    """The epochs with all starts: a stream is read backwards, so that the next event is the last one read."""
    events = publications.where(~f.col("again")).select(*STREAM, "line", f.col("sequence").alias("following"))
    backwards = Window.partitionBy(*STREAM).orderBy(f.desc("line"))
    first_after = f.last("following", ignorenulls=True).over(backwards)
    return (
        epochs.unionByName(events, allowMissingColumns=True)
        .withColumn("start", f.coalesce("start", first_after, f.lit(NEVER)))
        .where(f.col("stay").isNotNull())
        .drop("following")
    )
