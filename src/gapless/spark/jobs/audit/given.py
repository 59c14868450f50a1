"""The deliveries, each with what must be known to judge it.

First deliveries are laid beside the publications of the same name, then in line with what the same stay got
of the same publisher before, and with what it was promised. Each is one shuffle and one sort, by keys that
spread, and all else is read off neighbouring rows; so the cost of a delivery hardly depends on how many
there are.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as f

from gapless.spark.jobs.audit.keys import EARLIER, EVENT, FLOW, NAME


def deliveries(owned: DataFrame, events: DataFrame, matches: DataFrame, epochs: DataFrame) -> DataFrame:
    """Deliveries to stays, with these columns, among others:

    ``published``: the line of the event's publication, NULL if there is none in the topic of the stay;
    ``elsewhere``: there is none, but the publisher had published that sequence on another topic;
    ``matched``: the selector matches; ``again``: the stay had got the event already; ``early``: it was not
    live;
    ``counted``: the delivery is one of the reliable stream, that is first, not flagged, and of an event
    that exists;
    ``highest``: the highest sequence of the flow that was counted before;
    ``floor``: if what matches was left out since the last one, the first sequence that must not be.
    """
    early = (f.col("line") < f.col("live")).alias("early")
    columns = ("stay", "topic", "selector", "line", "t", "best_effort")
    return (
        owned.select(*NAME, *columns, early)
        .transform(_beside_publications, events, matches)
        .transform(_in_line, epochs)
    )


def _beside_publications(owned: DataFrame, events: DataFrame, matches: DataFrame) -> DataFrame:
    """What was published under the same name, and what of it is meant."""
    everywhere = Window.partitionBy(*NAME)
    topic = Window.partitionBy(*EVENT)
    selector = Window.partitionBy(*EVENT, "selector")
    stay = Window.partitionBy(*EVENT, "selector", "stay").orderBy("line")
    elsewhere = f.col("published").isNull() & (f.coalesce("first", "line") < f.col("line"))
    counted = ~f.col("again") & ~f.col("best_effort") & f.col("published").isNotNull()
    return (
        owned.unionByName(events.select(*EVENT, "published"), allowMissingColumns=True)
        .unionByName(
            matches.select(*EVENT, "selector", "before", f.lit(True).alias("matched")),
            allowMissingColumns=True,
        )
        .repartition(*NAME)
        .withColumn("again", f.row_number().over(stay) > 1)
        .withColumn("matched", f.coalesce(f.max("matched").over(selector), f.lit(False)))
        .withColumn("before", f.max("before").over(selector))
        .withColumn("published", f.max("published").over(topic))
        .withColumn("first", f.min("published").over(everywhere))
        .where(f.col("line").isNotNull())
        .withColumn("elsewhere", elsewhere)
        .withColumn("counted", counted)
        .drop("topic", "selector", "first")
    )


def _in_line(deliveries: DataFrame, epochs: DataFrame) -> DataFrame:
    """What a flow held before; epochs stand among the deliveries, line by line.

    In an epoch, the floor is the start of the promise, then what follows the highest that was delivered; a
    stay that is given more than it was promised when it went live begins with that. Something was left out
    if the selector matched an event from the floor on ``before`` the delivered one; of a delivery that does
    not match, that is not known and supposed.
    """
    flow = Window.partitionBy(*FLOW).orderBy("line")
    earlier = flow.rowsBetween(*EARLIER)
    sequence = f.when(f.col("counted"), f.col("sequence"))
    place = f.when(f.col("counted"), f.struct("entered", "sequence"))
    epoch = f.when(f.col("start").isNotNull(), f.struct("start", "by_reset"))
    skipped = f.when(f.col("matched"), f.col("before")).otherwise(f.col("sequence") - 1)
    left_out = f.col("counted") & (f.col("entered") > 0) & (skipped >= _floor())
    return (
        deliveries.unionByName(epochs.drop("topic"), allowMissingColumns=True)
        .withColumns(
            {"entered": f.count("start").over(flow), "epoch": f.last(epoch, ignorenulls=True).over(flow)}
        )
        .withColumns({"highest": f.max(sequence).over(earlier), "last": f.max(place).over(earlier)})
        .where(f.col("t").isNotNull())
        .withColumn("floor", f.when(left_out, _floor()))
        .drop("start", "by_reset", "epoch", "last", "before")
    )


def _floor() -> Column:
    """The first sequence of the epoch that must not be missed any more."""
    start, by_reset = f.col("epoch.start"), f.col("epoch.by_reset")
    first = f.when(by_reset, start).otherwise(f.least(start, "sequence"))
    later = f.when(by_reset, f.greatest(start, f.col("last.sequence") + 1)).otherwise(
        f.col("last.sequence") + 1
    )
    return f.when(f.col("last.entered") == f.col("entered"), later).otherwise(first)
