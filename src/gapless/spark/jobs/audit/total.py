"""Checks of total order: one order of all events of a topic exists that every stay agrees with.

They agree with :mod:`gapless.simulation.checkers.total` violation by violation.

**Disagreements.** What a stay got one after the other is an edge between two events; the stays disagree
where edges close a circle, which only following the edges one by one can tell. But not everywhere: give
each event a *label*, the greatest line at which any event was first delivered that comes before it (or is
it) in the order of any stay. Labels never fall along an edge, so a circle lies within one label. In an
order that is kept, nearly every event has a label of its own; only where labels are equal the edges are
followed, each label on its own.

A label is found by passing the greatest on, along each stay and then to the other stays that got the event,
until nothing changes. ``ROUNDS`` times is enough unless stays overlap in long chains; a topic where labels
still fall is followed as a whole.

**The same start.** Stays with the same selector and the same start get the same, event by event.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from gapless.simulation.checkers import Kind
from gapless.simulation.checkers.total import EventKey, Precedence
from gapless.spark.jobs.audit.history import History
from gapless.spark.jobs.audit.keys import EVENT, FLOW, NEVER
from gapless.spark.jobs.audit.violations import found, text
from gapless.spark.schemas import VIOLATIONS

ROUNDS = 2


def disagreements(history: History) -> DataFrame:
    """INV-TOTAL: all subscriptions of a topic agree on the order of what they got."""
    columns = ("line", "t", "client", "subscription")
    counted = history.described(history.deliveries.where("counted"))
    got = counted.select(*EVENT, "stay", *columns)
    ties = (
        _labelled(got)
        .where((f.col("previous") >= f.col("label")) | (f.col("label") >= f.col("next")))
        .persist()
    )
    falling = ties.where(f.col("previous") > f.col("label")).select("run", "topic").distinct()
    whole = got.join(f.broadcast(falling), ["run", "topic"], "left_semi").withColumn("label", f.lit(0))
    return (
        ties.drop("previous", "next")
        .join(f.broadcast(falling), ["run", "topic"], "left_anti")
        .unionByName(whole)
        .repartition("run", "topic", "label")
        .sortWithinPartitions("run", "topic", "label", "line")
        .mapInArrow(_contradictions, VIOLATIONS)
    )


def _labelled(got: DataFrame) -> DataFrame:
    """Deliveries with the ``label`` of the event, and those of the events before and after it in the stay."""
    event, stay = Window.partitionBy(*EVENT), Window.partitionBy("run", "stay").orderBy("line")
    labelled = got.withColumn("label", f.min("line").over(event))
    for _ in range(ROUNDS):
        labelled = labelled.withColumn("label", f.max("label").over(stay))
        labelled = labelled.withColumn("label", f.max("label").over(event))
    return labelled.withColumns({"previous": f.lag("label").over(stay), "next": f.lead("label").over(stay)})


def _contradictions(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (row for batch in batches for row in batch.to_pylist())
    schema = to_arrow_schema(VIOLATIONS)
    for _, group in groupby(rows, itemgetter("run", "topic", "label")):
        if violations := list(_contradicting(group)):
            yield pa.RecordBatch.from_pylist(violations, schema)


def _contradicting(rows: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Deliveries that no order allows which allows those before them."""
    order = Precedence()
    last: dict[int, EventKey] = {}
    for row in rows:
        event = (row["publisher"], row["sequence"])
        previous = last.get(row["stay"])
        opponent = previous and order.add(previous, event, row["subscription"])
        if previous and opponent:
            got = f"{row['subscription']} got {previous[0]}.{previous[1]} before {event[0]}.{event[1]}"
            message = f"{got}, which contradicts the order that others got them in ({opponent})"
            yield {**row, "kind": Kind.TOTAL.value, "message": message}
        else:
            last[row["stay"]] = event


def differences(history: History, *, healed: bool) -> DataFrame:
    """Subscriptions with the same selector and the same start get the same (in a run that did not end
    healed, or after an unsubscribe: as far as the shorter one goes)."""
    pairs = f.broadcast(_alike(history))
    given = _numbered(history, pairs)
    ours = given.join(pairs, ["run", "stay"])
    theirs = given.withColumnRenamed("stay", "model").join(pairs, ["run", "model"])
    got = f.struct("line", "t", "client", "publisher", "sequence")
    key = ["run", "stay", "name", "other", "ended", "other_ended", "number"]
    differing = ~f.col("ours.publisher").eqNullSafe(f.col("theirs.publisher")) | ~f.col(
        "ours.sequence"
    ).eqNullSafe(f.col("theirs.sequence"))
    first = (
        ours.select(*key, got.alias("ours"))
        .join(theirs.select(*key, got.alias("theirs")), key, "full")
        .where(differing)
        .groupBy(*key[:-1])
        .agg(f.min(f.struct("number", "ours", "theirs")).alias("first"))
        .select(*key[:-1], "first.*")
    )
    return _differences(first, healed=healed)


def _differences(first: DataFrame, *, healed: bool) -> DataFrame:
    """What the first difference between two stays says."""
    ours, theirs = f.col("ours").isNotNull(), f.col("theirs").isNotNull()
    shorter_ended = f.when(ours, f.col("other_ended")).otherwise(f.col("ended"))
    counts = (ours & theirs) | (f.lit(healed) & (shorter_ended == NEVER))
    shown = f.when(ours, f.col("ours")).otherwise(f.col("theirs"))
    event, other = (
        f.concat_ws(".", f"{which}.publisher", f"{which}.sequence") for which in ("shown", "theirs")
    )
    longer = f.when(ours, f.col("name")).otherwise(f.col("other"))
    both = text("event ", f.col("number"), " is ", event, " for one and ", other, " for the other")
    why = f.when(ours & theirs, both).otherwise(text("only ", longer, " got ", event))
    message = text(f.col("name"), " and ", f.col("other"), " start at the same place, but ", why)
    rows = first.where(counts).withColumn("shown", shown).withColumn("subscription", longer)
    return found(rows.select("*", "shown.*"), Kind.TOTAL, message)


def _alike(history: History) -> DataFrame:
    """Stays that start once and where another one with the same selector does, each with that ``model``."""
    grant = f.get("grants", f.lit(0))
    once = (
        (f.size("grants") == 1)
        & (grant["kind"] == "live")
        & (f.size(f.coalesce(grant["unreachable"], f.array().cast("array<string>"))) == 0)
    )
    start = f.sha2(f.to_json(f.sort_array(f.collect_list(f.struct("publisher", "start")))), 256)
    starts = history.epochs.groupBy("run", "stay").agg(start.alias("start"))
    alike = Window.partitionBy("run", "topic", "selector", "start")
    model = f.min(f.struct((f.col("ended") != NEVER), "stay", "subscription", "ended")).over(alike)
    return (
        history.stays.where(once)
        .withColumn("position", grant["position"])
        .join(starts, ["run", "stay"], "left")
        .withColumn("start", f.coalesce(f.col("position").cast("string"), "start"))
        .withColumn("model", model)
        .where(f.col("model.stay") != f.col("stay"))
        .select(
            "run",
            "stay",
            f.col("subscription").alias("name"),
            "ended",
            f.col("model.subscription").alias("other"),
            f.col("model.ended").alias("other_ended"),
            f.col("model.stay").alias("model"),
        )
    )


def _numbered(history: History, pairs: DataFrame) -> DataFrame:
    """What stays that are compared got from their start on, numbered from 1."""
    compared = pairs.select("run", "stay").union(pairs.select("run", f.col("model").alias("stay"))).distinct()
    starts = history.epochs.select(*FLOW, "start")
    ticks = history.stays.select(
        "run", "stay", f.get("grants", f.lit(0))["position"].isNotNull().alias("by_tick")
    )
    number = f.row_number().over(Window.partitionBy("run", "stay").orderBy("line"))
    return (
        history.described(history.deliveries.where("counted"))
        .join(f.broadcast(compared.join(ticks, ["run", "stay"])), ["run", "stay"])
        .join(starts, [*FLOW])
        .where(f.col("by_tick") | (f.col("sequence") >= f.col("start")))
        .select("run", "stay", number.alias("number"), "line", "t", "client", "publisher", "sequence")
    )
