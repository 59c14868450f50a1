"""Traces as tables that all checks share: who published what, who subscribed to what, who got what.

The tables are those of :class:`gapless.simulation.checkers.history.History`, for all runs at once: an
*event* is the first publication of its topic, publisher and sequence; a *stay* is a subscription from the
line that began it, which is its name, to the line that ended it; a *flow* is what one stay gets of one
publisher. Nothing is judged here.

Events and deliveries may be as many as they like: the tables of them come from joins and windows whose keys
spread, and those that several checks read are persisted. The subscriptions of all runs together are taken
to fit into memory: they are broadcast, and their selectors go to the executors with the function that
matches.
"""

from __future__ import annotations

from functools import cached_property

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from gapless.spark.jobs.audit import given, matching, promises, stays
from gapless.spark.jobs.audit.keys import EARLIER, EVENT, NAME, STREAM


class History:
    """The tables of some traces, each made when it is first asked for. ``durable``: every subscription is."""

    def __init__(self, trace: DataFrame, *, durable: bool) -> None:
        self._trace = trace
        self._durable = durable

    def of(self, *kinds: str) -> DataFrame:
        """The lines of some kinds."""
        return self._trace.where(f.col("kind").isin(*kinds))

    @cached_property
    def stays(self) -> DataFrame:
        """Every stay; see :mod:`stays`."""
        columns = ("run", "subscription", "line", "kind", "t", "client", "topic", "selector", "durable")
        grants = ("start", "unreachable", "position", "publishers")
        own = self.of("subscribe", "unsubscribe", "live", "reset").select(*columns, *grants)
        clients = self.of("subscribe").select("run", "subscription", "client").distinct()
        crashes = self.of("crash").select("run", "line", "kind", "t", f.col("node").alias("client"))
        acts = own.unionByName(crashes.join(clients, ["run", "client"]), allowMissingColumns=True)
        durable = f.lit(True) if self._durable else f.coalesce("durable", f.lit("")) != ""
        return stays.follow(acts.withColumn("durable", durable)).persist()

    @cached_property
    def presence(self) -> DataFrame:
        """From which line until which line a stay was at which client."""
        about = ("run", "stay", "subscription", "topic", "selector", "live")
        return f.broadcast(self.stays.select(*about, f.inline("moves")))

    def described(self, rows: DataFrame) -> DataFrame:
        """Deliveries with the subscription, client, topic and selector of their stay."""
        there = f.col("line").between(f.col("since"), f.col("until"))
        return rows.join(self.presence, ["stay", "run"]).where(there).drop("since", "until", "live")

    @cached_property
    def publications(self) -> DataFrame:
        """Every publication with the ``selectors`` that it matches, and the sequence that was ``due``.

        ``again``: the event was published before.
        """
        broker = f.coalesce("broker", f.lit("")).alias("broker")
        published = self.of("publish").select(*EVENT, "line", "t", "client", broker, "attributes")
        earlier = Window.partitionBy(*EVENT).orderBy("line")
        new = f.when(~f.col("again"), f.col("sequence"))
        last = f.last(new, ignorenulls=True).over(
            Window.partitionBy(*STREAM).orderBy("line").rowsBetween(*EARLIER)
        )
        return (
            matching.match(published, self._selectors())
            .repartition(*STREAM)
            .withColumn("again", f.row_number().over(earlier) > 1)
            .withColumn("due", f.coalesce(last, f.lit(0)) + 1)
            .persist()
        )

    def _selectors(self) -> dict[tuple[str, str], tuple[str, ...]]:
        """The selectors by run and topic, from the subscriptions alone."""
        selectors = f.sort_array(f.collect_set("selector")).alias("selectors")
        rows = self.stays.groupBy("run", "topic").agg(selectors).collect()
        return {(row.run, row.topic): tuple(row.selectors) for row in rows}

    @cached_property
    def events(self) -> DataFrame:
        """Every event, with the line, the moment and the client (``by``) of its publication."""
        return self.publications.where(~f.col("again")).select(
            *EVENT, f.col("line").alias("published"), "t", f.col("client").alias("by"), "selectors"
        )

    @cached_property
    def matches(self) -> DataFrame:
        """Every event once for each ``selector`` that it matches.

        ``before`` is the sequence of the event of the same publisher that matched the same selector before
        it.
        """
        alike = Window.partitionBy(*STREAM, "selector").orderBy("sequence")
        each = self.events.withColumn("selector", f.explode("selectors")).drop("selectors")
        return each.withColumn("before", f.lag("sequence").over(alike))

    @cached_property
    def epochs(self) -> DataFrame:
        """Every promise; see :mod:`promises`."""
        return promises.epochs(self.stays, self.publications).persist()

    @cached_property
    def strays(self) -> DataFrame:
        """Deliveries to no open subscription, or to another client than that of the subscription."""
        got, there = self.of("deliver").alias("got"), self.presence.alias("there")
        same = [f.col(f"got.{name}") == f.col(f"there.{name}") for name in ("run", "subscription", "client")]
        inside = f.col("got.line").between(f.col("there.since"), f.col("there.until"))
        return got.join(there, [*same, inside], "left_anti")

    @cached_property
    def deliveries(self) -> DataFrame:
        """Every delivery to a stay; see :mod:`given`."""
        here = f.col("line").between(f.col("since"), f.col("until"))
        owned = (
            self.of("deliver")
            .select("run", "line", "t", "client", "subscription", "publisher", "sequence", "best_effort")
            .join(self.presence, ["subscription", "client", "run"])
            .where(here)
        )
        return given.deliveries(owned, self.events, self.matches, self.epochs).persist()

    @cached_property
    def confirmations(self) -> DataFrame:
        """Every confirmation; ``found``: of how many events it may be; ``topic``: that of such an event."""
        named = f.coalesce("topic", f.lit("")).alias("named")
        meant = (f.col("published") < f.col("line")) & f.col("named").isin("", f.col("topic"))
        return (
            self.of("confirm")
            .select(*NAME, "line", "t", named)
            .join(self.events.select(*EVENT, "published"), [*NAME], "left")
            .groupBy(*NAME, "line", "t")
            .agg(f.count_if(meant).alias("found"), f.max(f.when(meant, f.col("topic"))).alias("topic"))
            .persist()
        )

    def with_fate(self, events: DataFrame) -> DataFrame:
        """Events with ``confirmed`` (beyond doubt) and ``excused`` (their client crashed before that, or was
        told that the publisher is somebody else's since)."""
        confirmed = self.confirmations.where(f.col("found") == 1).select(*EVENT).distinct()
        crashes = self.of("crash").groupBy("run", f.col("node").alias("by")).agg(f.max("line").alias("crash"))
        fences = (
            self.of("fenced")
            .groupBy("run", f.col("client").alias("by"), "publisher")
            .agg(f.max("line").alias("fence"))
        )
        ended = f.greatest(f.coalesce("crash", f.lit(0)), f.coalesce("fence", f.lit(0)))
        return (
            events.join(confirmed.withColumn("confirmed", f.lit(True)), [*EVENT], "left")
            .join(f.broadcast(crashes), ["by", "run"], "left")
            .join(f.broadcast(fences), ["by", "publisher", "run"], "left")
            .withColumn("confirmed", f.coalesce("confirmed", f.lit(False)))
            .withColumn("excused", ~f.col("confirmed") & (ended > f.col("published")))
            .drop("crash", "fence")
        )
