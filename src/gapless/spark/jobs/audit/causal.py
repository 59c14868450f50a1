"""The check of causal order: what is delivered comes after its causes, and none of them is missed.

It is that of :mod:`gapless.simulation.checkers.causal`, whose judge is used as it is; here the work is
divided.

**The past of events** is in :mod:`pasts`: a log that says from which event on a publisher's past reaches
how far into another publisher's stream.

**The judgement** of each stay needs the log of its topic, the events that match its selector, and what the
stay was promised and given. The stays of a topic are divided among shards, each with a copy of the log, and
judged one after the other. So a task holds in memory the log of one topic of one run, and what one stay
asked for and got.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict
from functools import reduce
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from gapless.simulation.checkers import history as one
from gapless.simulation.checkers.causal import Causality, Judge
from gapless.simulation.checkers.violations import Violation
from gapless.simulation.trace import Deliver, Publish, Record
from gapless.spark.jobs.audit.history import History
from gapless.spark.jobs.audit.keys import NEVER
from gapless.spark.jobs.audit.pasts import log
from gapless.spark.schemas import VIOLATIONS

SHARDS = 8
"""Among so many tasks the stays of one topic of one run are divided at most."""

BATCH_ROWS = 10_000

_Row: TypeAlias = dict[str, Any]
_UNKNOWN: dict[str, Any] = {}
"""The attributes of publications: the judge does not look at them."""


def causal(history: History, *, healed: bool) -> DataFrame:
    """INV-CAUSAL (C1-07, gapless causal delivery)."""
    stays = history.stays.where(f.col("live") != NEVER).select(
        "run", "topic", "stay", "subscription", "selector", "client", "live", "ended"
    )
    shards = stays.select("run", "topic", (f.col("stay") % SHARDS).alias("shard")).distinct()
    asked = f.broadcast(stays.select("run", "topic", "selector", "stay"))
    expected = history.with_fate(history.matches.drop("before")).join(asked, ["run", "topic", "selector"])
    promised = history.epochs.join(asked, ["run", "stay"], "left_semi")
    got = history.described(history.deliveries.where(~f.col("again"))).join(
        asked, ["stay", "run"], "left_semi"
    )
    received = got.select(
        "run", "topic", "stay", "publisher", "sequence", "line", "t", "client", "best_effort", "published"
    )
    parts = [
        log(history).join(f.broadcast(shards), ["run", "topic"]).withColumn("stay", f.lit(0).cast("long")),
        *(part.withColumn("shard", f.col("stay") % SHARDS) for part in (stays, promised, expected, received)),
    ]
    numbered = [part.withColumn("part", f.lit(number)) for number, part in enumerate(parts)]
    return (
        reduce(lambda rows, more: rows.unionByName(more, allowMissingColumns=True), numbered)
        .repartition("run", "topic", "shard")
        .sortWithinPartitions("run", "topic", "shard", "stay", "part", "line")
        .mapInArrow(_judging(healed), VIOLATIONS)
    )


def _judging(healed: bool) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def judge(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = (row for batch in batches for row in batch.to_pylist())
        shards = groupby(rows, itemgetter("run", "topic", "shard"))
        violations = (row for (run, topic, _), shard in shards for row in _judged(run, topic, shard, healed))
        schema = to_arrow_schema(VIOLATIONS)
        while some := list(islice(violations, BATCH_ROWS)):
            yield pa.RecordBatch.from_pylist(some, schema)

    return judge


def _judged(run: str, topic: str, rows: Iterable[_Row], healed: bool) -> Iterator[_Row]:
    """The violations of some stays of a topic; the log comes before all stays."""
    causality = Causality()
    for stay, group in groupby(rows, itemgetter("stay")):
        if stay == 0:
            for row in group:
                causality.log(row["publisher"]).add(row["sequence"], row["other"], row["reach"])
            continue
        view = _View(topic, group)
        for each in Judge(view, causality, view.subscription).violations(healed):
            yield {"run": run, **view.row(each)}


class _Streams(dict[str, one.Stream]):
    """The streams of a topic, each there when it is asked for: the log names publishers that do not match."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self._topic = topic

    def __missing__(self, publisher: str) -> one.Stream:
        stream = self[publisher] = one.Stream(self._topic, publisher)
        return stream


class _View(one.History):
    """The history of one stay, as far as the judge looks at it; the index of a record is its line."""

    def __init__(self, topic: str, rows: Iterable[_Row]) -> None:
        super().__init__([])
        self._topic = topic
        self._sequences: dict[str, list[int]] = {}
        self._excuses: set[tuple[str, int]] = set()
        self._lines: dict[int, Record] = {}
        self.records = self._lines  # type: ignore[assignment] # few of a trace's many lines
        self._known = self.streams[topic] = _Streams(topic)
        read = (self._stay, self._epoch, self._expected, self._received)
        for row in rows:
            read[row["part"] - 1](row)
        for sequences in self._sequences.values():
            sequences.sort()

    def matching(self, subscription: one.Subscription, stream: one.Stream) -> list[int]:
        """The sequences of the stream that match, in ascending order."""
        return self._sequences.get(stream.publisher, [])

    def excused(self, stream: one.Stream, sequence: int) -> bool:
        """Whether the publisher's client crashed before the event was confirmed."""
        return (stream.publisher, sequence) in self._excuses

    def _stay(self, row: _Row) -> None:
        self.subscription = one.Subscription(
            name=row["subscription"],
            client=row["client"],
            topic=self._topic,
            selector=row["selector"],
            durable=False,
            index=row["stay"],
            live=row["live"],
            ended=one.NEVER if row["ended"] == NEVER else row["ended"],
        )

    def _epoch(self, row: _Row) -> None:
        stream = self._known[row["publisher"]]
        epoch = one.Epoch(row["line"], row["start"], row["by_reset"])
        self.subscription.epochs.setdefault(stream.publisher, []).append(epoch)

    def _expected(self, row: _Row) -> None:
        publisher, sequence = row["publisher"], row["sequence"]
        self._known[publisher].published[sequence] = row["published"]
        self._sequences.setdefault(publisher, []).append(sequence)
        self._lines[row["published"]] = Publish(
            t=row["t"],
            client=row["by"],
            publisher=publisher,
            sequence=sequence,
            topic=self._topic,
            attributes=_UNKNOWN,
        )
        if row["excused"]:
            self._excuses.add((publisher, sequence))

    def _received(self, row: _Row) -> None:
        publisher, sequence, line = row["publisher"], row["sequence"], row["line"]
        if row["published"] is not None:
            self._known[publisher].published[sequence] = row["published"]
        self.subscription.received.setdefault(publisher, {})[sequence] = line
        self._lines[line] = Deliver(
            t=row["t"],
            client=row["client"],
            subscription=self.subscription.name,
            publisher=publisher,
            sequence=sequence,
            best_effort=row["best_effort"],
        )

    def row(self, violation: Violation) -> _Row:
        """A row of ``VIOLATIONS``, without the run."""
        record = self._lines[violation.index]
        client = record.client if isinstance(record, Deliver) else self.subscription.client
        return {**asdict(violation), "kind": violation.kind.value, "line": violation.index, "client": client}
