"""Checks of what was not delivered, or too late: gaps, losses, and losses of durable subscriptions.

They agree with :mod:`gapless.simulation.checkers` (``gaps``, ``lost``, ``durable``) violation by violation.
Each check names *candidates*, events that a stay should have got by some ``deadline``, which is the line of
another delivery or the end; one join tells which of them came in time, another one what became of the rest.

Both look for candidates only where something is missing: deliveries tell themselves whether they jumped over
anything (see :mod:`given`), and whether a flow has all that it is owed is a matter of counting.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from gapless.simulation.checkers import Kind
from gapless.spark.jobs.audit.history import History
from gapless.spark.jobs.audit.keys import EVENT, FLOW, NEVER, STREAM
from gapless.spark.jobs.audit.violations import event, found, found_in_each, text

ENTERED = (*FLOW, "entered")
"""What a stay gets of a publisher within one epoch."""

END = NEVER - 1


def never_live(history: History) -> DataFrame:
    """INV-LIVE, its first half: every open subscription is live."""
    rows = history.stays.where((f.col("ended") == NEVER) & (f.col("live") == NEVER))
    return found(
        rows.withColumn("line", f.col("stay")), Kind.LOST, text(f.col("subscription"), " never went live")
    )


def missing(history: History, *, promised: bool, healed: bool) -> DataFrame:
    """INV-GAP if anything is ``promised``; in a ``healed`` run INV-DUR, and INV-LIVE if it is promised."""
    candidates = [_jumped_over(history)] if promised else []
    candidates += [_owed(history, promised=promised)] if healed else []
    rows = history.with_fate(_not_in_time(history, reduce(DataFrame.unionByName, candidates)))
    name, gap = f.col("subscription"), f.col("delivered").isNotNull()
    never_got = text(name, " never got ", event())
    missed = text(name, " got ", event(sequence="delivered"), " and missed ", event())
    return found_in_each(
        rows,
        {
            Kind.GAP: (gap & ~f.col("excused"), missed),
            Kind.LOST: ((f.col("sequence") >= f.col("last")) & ~f.col("excused"), never_got),
            Kind.DURABLE: ((f.col("sequence") >= f.col("first")) & f.col("confirmed"), never_got),
        },
    )


def _jumped_over(history: History) -> DataFrame:
    """Candidates that a delivery jumped over, which is their deadline.

    The jumps of an epoch do not meet: reading from the highest sequence downwards, an event lies in the
    jump that was read last, or in none.
    """
    jumps = history.described(history.deliveries.where(f.col("floor").isNotNull())).persist()
    low, high = f.min("floor").alias("low"), f.max("sequence").alias("high")
    ranges = jumps.groupBy(*ENTERED, "topic", "selector", "subscription").agg(low, high)
    inside = (f.col("sequence") >= f.col("low")) & (f.col("sequence") < f.col("high"))
    events = history.matches.drop("t", "before").join(ranges, [*STREAM, "selector"]).where(inside)
    jump = f.struct("floor", "sequence", "line", "t", "client").alias("jump")
    downwards = Window.partitionBy(*ENTERED).orderBy(f.desc("sequence"), f.col("jump").isNotNull())
    return (
        events.unionByName(jumps.select(*ENTERED, "sequence", jump), allowMissingColumns=True)
        .withColumn("over", f.last("jump", ignorenulls=True).over(downwards))
        .where(f.col("jump").isNull() & (f.col("over.floor") <= f.col("sequence")))
        .withColumns({name: f.col(f"over.{name}") for name in ("line", "t", "client")})
        .withColumns({"deadline": f.col("line"), "delivered": f.col("over.sequence")})
        .withColumns({"first": f.lit(NEVER), "last": f.lit(NEVER)})
        .transform(_candidates)
    )


def _owed(history: History, *, promised: bool) -> DataFrame:
    """Candidates that stays which are still open are owed in the end, if they have not got as many as that.

    Everything from the start of the ``last`` promise on, if anything is ``promised``; to durable
    subscriptions everything from the start of the ``first`` one on.
    """
    is_live = (f.col("live") != NEVER) & f.lit(promised)
    first, last = f.min_by("start", "line").alias("first"), f.max_by("start", "line").alias("last")
    stays = history.stays.where(f.col("ended") == NEVER).drop("t", "topic")
    flows = (
        history.epochs.groupBy(*FLOW, "topic")
        .agg(first, last)
        .join(f.broadcast(stays), ["stay", "run"])
        .withColumn("last", f.when(is_live, f.col("last")).otherwise(NEVER))
        .withColumn("first", f.when(f.col("durable"), f.col("first")).otherwise(NEVER))
        .select(*FLOW, "topic", "selector", "subscription", "client", "first", "last")
    )
    due = f.col("sequence") >= f.least("first", "last")
    owed = history.matches.join(flows, [*STREAM, "selector"]).where(due)
    got = history.deliveries.where(f.col("matched") & ~f.col("again")).join(flows, [*FLOW]).where(due)
    counts = owed.select(*FLOW, f.lit(1).alias("one")).union(got.select(*FLOW, f.lit(-1)))
    short = counts.groupBy(*FLOW).agg(f.sum("one").alias("short")).where(f.col("short") > 0)
    return (
        history.matches.join(flows.join(short, [*FLOW]), [*STREAM, "selector"])
        .where(due)
        .withColumns({"line": f.col("published"), "deadline": f.lit(END)})
        .withColumn("delivered", f.lit(None).cast("long"))
        .transform(_candidates)
    )


def _candidates(rows: DataFrame) -> DataFrame:
    shown = ("line", "t", "client", "subscription")
    return rows.select(*EVENT, "stay", "published", "by", *shown, "deadline", "delivered", "first", "last")


def _not_in_time(history: History, candidates: DataFrame) -> DataFrame:
    """The candidates that did not come, or after their deadline."""
    came = history.deliveries.where(~f.col("again")).select(*FLOW, "sequence", f.col("line").alias("came"))
    late = f.coalesce("came", f.lit(NEVER)) > f.col("deadline")
    return candidates.join(came, ["sequence", *FLOW], "left").where(late)
