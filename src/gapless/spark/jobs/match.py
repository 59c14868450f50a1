"""Which subscriptions does each event match: a table of events × a table of subscriptions → matches.

The subscriptions come to the driver, where every selector is checked before anything is matched and the
matching index is built, once. The index itself is broadcast: a worker of Spark unpickles it in a twelfth of
the time that parsing the selectors and building it again would take (10,000 subscriptions: 0.2 s instead of
2.2 s), and does so once, since its process outlives its tasks and keeps what was broadcast. Spark Connect has
no broadcast: there the index travels with the function, and a process remembers the last one it unpickled.

Events stay where they are. Of each, only the attributes that some selector names go to Python, in Arrow
batches (:mod:`gapless.spark.attributes`), and beside them the columns to keep, which Python does not look at:
the rows of the result are taken from them by number, some thousand at a time, so that events that match
everything need no more memory than others."""

from __future__ import annotations

import gc
import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import repeat
from typing import TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, IntegralType, StringType, StructField, StructType
from pyspark.sql.utils import is_remote

from gapless.matching import MatchIndex
from gapless.selectors import Selector
from gapless.selectors.tree import Path
from gapless.spark.attributes import Branch, Columns, quoted, select, uses

SUBSCRIPTIONS_MAX = 1_000_000
"""The most subscriptions at a time: the driver and every worker hold the index of them, 0.8 GB a million."""

ROWS_MAX = 65_536
"""The rows of the result are handed over when they are so many."""

NAMED_MAX = 10
"""So many bad subscriptions are named."""

Indexes: TypeAlias = dict[object, MatchIndex[int]]
"""By topic, or under ``None`` where there are no topics; a key is the number of a subscription."""


class SubscriptionsError(ValueError):
    """Some subscriptions are bad. ``flaws`` has all of them, with what is wrong; the message the first."""

    def __init__(self, flaws: list[tuple[object, str]], total: int) -> None:
        self.flaws = flaws
        shown = [f"{subscription!r}: {flaw}" for subscription, flaw in flaws[:NAMED_MAX]]
        if len(flaws) > NAMED_MAX:
            shown.append(f"and {len(flaws) - NAMED_MAX:,} more")
        super().__init__("\n".join([f"{len(flaws):,} of {total:,} subscriptions are bad", *shown]))


def transform(events: DataFrame, subscriptions: DataFrame, *, keep: Sequence[str] | None = None) -> DataFrame:
    """A row for each event and each subscription that it matches: columns of the event, and ``subscription``.

    ``events``: every column is an attribute. ``subscriptions``: ``subscription``, a text or an integer, each
    once, and ``selector``; where there is a ``topic``, events have one too and match under the same only.
    ``keep`` names the columns of the events that the result has; by default all of them, as after a join.

    Subscriptions are read at once, and raise ``SubscriptionsError``; events when the result is.
    """
    kept = list(events.columns if keep is None else keep)
    by_topic = "topic" in subscriptions.columns
    _check_columns(events, subscriptions, kept)
    table = _collected(subscriptions)
    columns = Columns(events.schema)
    indexes, paths = _build(table, columns)
    attributes, tree = select(columns, paths)
    named = [f.col(quoted(name)) for name in [*kept, *(["topic"] if by_topic else [])]]
    selected = [*named, *attributes] or [f.lit(True)]  # a batch must have a column to know its rows
    identity = table["subscription"].combine_chunks()
    matcher = _shared(events.sparkSession, Matcher(kept, by_topic, tree, indexes, identity))
    kind = subscriptions.schema["subscription"].dataType
    schema = StructType([*(events.schema[name] for name in kept), StructField("subscription", kind)])
    numbered = [column.alias(str(number)) for number, column in enumerate(selected)]
    return events.select(*numbered).mapInArrow(lambda batches: matcher().match(batches), schema)


def _check_columns(events: DataFrame, subscriptions: DataFrame, kept: Sequence[str]) -> None:
    for name in kept:
        _require("events", events, name)
    if "subscription" in kept:
        raise ValueError(
            "the result has its own column subscription: rename that of the events, or keep others"
        )
    _require("subscriptions", subscriptions, "subscription", StringType, IntegralType)
    _require("subscriptions", subscriptions, "selector", StringType)
    if "topic" in subscriptions.columns:
        _require("subscriptions", subscriptions, "topic", StringType)
        _require("events", events, "topic", StringType)


def _require(what: str, table: DataFrame, name: str, *kinds: type[DataType]) -> None:
    """Raise where a table has no such column."""
    if name not in table.columns:
        raise ValueError(f"the {what} have no column {name}; they have {', '.join(table.columns)}")
    kind = table.schema[name].dataType
    if kinds and not isinstance(kind, kinds):
        wanted = "a text or an integer" if IntegralType in kinds else "a text"
        raise ValueError(f"the column {name} of the {what} must be {wanted}, not {kind.simpleString()}")


def _collected(subscriptions: DataFrame) -> pa.Table:
    """The subscriptions, on the driver."""
    names = [name for name in ("subscription", "selector", "topic") if name in subscriptions.columns]
    table = subscriptions.select(*names).limit(SUBSCRIPTIONS_MAX + 1).toArrow()
    if table.num_rows > SUBSCRIPTIONS_MAX:
        raise ValueError(f"at most {SUBSCRIPTIONS_MAX:,} subscriptions at a time; divide the table")
    return table


def _build(table: pa.Table, columns: Columns) -> tuple[Indexes, set[Path]]:
    """The indexes, and the attributes that selectors name; all bad subscriptions are found."""
    indexes: Indexes = {}
    paths: set[Path] = set()
    flaws: list[tuple[object, str]] = []
    seen: set[object] = set()
    refusal = cache(columns.refusal)
    for number, row in enumerate(zip(*(column.to_pylist() for column in table.columns), strict=True)):
        identity = row[0]
        try:
            selector = _selector(seen, *row)
            for path, compared in uses(selector.condition):
                paths.add(path)
                if compared and (reason := refusal(path)):
                    raise ValueError(reason)
        except ValueError as error:  # of which SelectorError is one
            flaws.append((identity, str(error)))
            continue
        seen.add(identity)
        indexes.setdefault(row[2] if len(row) > 2 else None, MatchIndex()).add(number, selector)
    if flaws:
        raise SubscriptionsError(flaws, table.num_rows)
    return indexes, paths


def _selector(seen: set[object], identity: object, text: str | None, topic: str | None = "") -> Selector:
    """The selector of a subscription, if there is nothing wrong with it."""
    if identity is None:
        raise ValueError("a subscription is null")
    if identity in seen:
        raise ValueError("there are two subscriptions of this name")
    if text is None:
        raise ValueError("the selector is null; one that wants every event is TRUE")
    if topic is None:
        raise ValueError("the topic is null")
    return Selector(text)


@dataclass(frozen=True, slots=True)
class Matcher:
    """What a worker of Spark needs to know."""

    kept: list[str]
    by_topic: bool
    tree: Branch
    indexes: Indexes
    identity: pa.Array

    def match(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The matches of the events: kept columns first, then maybe the topic, then attributes."""
        _leave_alone_what_is_there()
        for batch in batches:
            rows: list[int] = []
            found: list[int] = []
            for row, subscriptions in self._matches(batch):
                rows += repeat(row, len(subscriptions))
                found += subscriptions
                if len(rows) >= ROWS_MAX:
                    yield self._taken(batch, rows, found)
                    rows, found = [], []
            if rows:
                yield self._taken(batch, rows, found)

    def _matches(self, batch: pa.RecordBatch) -> Iterator[tuple[int, list[int]]]:
        """The rows that match something, each with the numbers of the subscriptions."""
        others = batch.columns[len(self.kept) :]
        topics = others.pop(0).to_pylist() if self.by_topic else repeat(None, batch.num_rows)
        attributes = self.tree.rows(others, batch.num_rows)
        for row, (topic, event) in enumerate(zip(topics, attributes, strict=True)):
            index = self.indexes.get(topic)
            if index is not None and (subscriptions := index.match(event)):
                yield row, subscriptions

    def _taken(self, batch: pa.RecordBatch, rows: list[int], found: list[int]) -> pa.RecordBatch:
        at = pa.array(rows, pa.int64())
        kept = [column.take(at) for column in batch.columns[: len(self.kept)]]
        subscription = self.identity.take(pa.array(found, pa.int64()))
        return pa.RecordBatch.from_arrays([*kept, subscription], [*self.kept, "subscription"])


@cache
def _leave_alone_what_is_there() -> None:
    """The index stays as long as the process: Python's search for garbage, which the attributes of events
    cause again and again, need not look through it each time."""
    gc.freeze()


def _shared(session: SparkSession, matcher: Matcher) -> Callable[[], Matcher]:
    """A way to get at the matcher in any process of Spark."""
    if is_remote():
        data = pickle.dumps(matcher)
        return lambda: _unpickled(data)
    broadcast = session.sparkContext.broadcast(matcher)
    return lambda: broadcast.value


@lru_cache(maxsize=1)
def _unpickled(data: bytes) -> Matcher:
    matcher: Matcher = pickle.loads(data)  # noqa: S301 - what the driver of this very job has pickled
    return matcher
