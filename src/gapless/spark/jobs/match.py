"""Which subscriptions does each event match: a table of events × a table of subscriptions → matches.

The subscriptions come to the driver, where every selector is checked before anything is matched and the
index is built, once (:mod:`gapless.spark.columnar`). The index itself is broadcast: a worker of Spark
unpickles it in a hundredth of the time that parsing the selectors again would take, and does so once, since
its process outlives its tasks and keeps what was broadcast. Spark Connect has no broadcast: there the index
travels with the function, and a process remembers the last one it unpickled.

Events stay where they are. Of each, only the attributes that some selector names go to Python, in Arrow
batches (:mod:`gapless.spark.attributes`), and beside them the columns to keep, which Python does not look at:
the rows of the result are taken from them by number, some thousand at a time, so that events that match
everything need no more memory than others."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.types import DataType, IntegralType, StringType, StructField, StructType
from pyspark.sql.utils import is_remote

from gapless.matching.reading import Key, key_of
from gapless.selectors import Selector
from gapless.selectors.tree import And, Attribute, Comparison, Condition, Literal, Path
from gapless.spark.attributes import Branch, Columns, quoted, select, uses
from gapless.spark.columnar import Batch, ColumnIndex

SUBSCRIPTIONS_MAX = 1_000_000
"""The most subscriptions at a time: the driver needs 1.5 GB for a million, a worker 0.1 GB for the index."""

ROWS_MAX = 65_536
"""So many rows of the result are handed over at once."""

NAMED_MAX = 10
"""So many bad subscriptions are named."""

TOPIC: Path = ("topic",)


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
    _check_columns(events, subscriptions, kept)
    table = _collected(subscriptions)
    columns = Columns(events.schema)
    conditions, paths = _conditions(table, columns)
    index = ColumnIndex(conditions, _numeric(columns, paths))
    attributes, tree = select(columns, paths)
    selected = [*(f.col(quoted(name)) for name in kept), *attributes]
    identity = table["subscription"].combine_chunks()
    matcher = _shared(events.sparkSession, Matcher(kept, tree, index, identity))
    kind = subscriptions.schema["subscription"].dataType
    schema = StructType([*(events.schema[name] for name in kept), StructField("subscription", kind)])
    # A batch must have a column to know its rows.
    numbered = [column.alias(str(number)) for number, column in enumerate(selected or [f.lit(True)])]
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


def _conditions(table: pa.Table, columns: Columns) -> tuple[list[tuple[int, Condition]], set[Path]]:
    """The conditions by the number of their row, and the attributes named; all bad subscriptions are found.

    A subscription to a topic is one that asks for this value of the attribute ``topic``, too."""
    conditions: list[tuple[int, Condition]] = []
    paths: set[Path] = set()
    flaws: list[tuple[object, str]] = []
    seen: set[object] = set()
    refusal = cache(columns.refusal)
    for number, row in enumerate(zip(*(column.to_pylist() for column in table.columns), strict=True)):
        identity, _, *topic = row
        try:
            condition = _selector(seen, *row).condition
            for path, compared in uses(condition):
                paths.add(path)
                if compared and (reason := refusal(path)):
                    raise ValueError(reason)
        except ValueError as error:  # of which SelectorError is one
            flaws.append((identity, str(error)))
            continue
        seen.add(identity)
        if topic:
            asked = Comparison("=", Attribute(TOPIC), Literal(topic[0]))
            condition = And((asked, *(condition.operands if isinstance(condition, And) else (condition,))))
            paths.add(TOPIC)
        conditions.append((number, condition))
    if flaws:
        raise SubscriptionsError(flaws, table.num_rows)
    return conditions, paths


def _numeric(columns: Columns, paths: set[Path]) -> dict[Key, type[int | float]]:
    kinds = {key_of(path): columns.number(path) for path in paths}
    return {key: kind for key, kind in kinds.items() if kind is not None}


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
    tree: Branch
    index: ColumnIndex
    identity: pa.Array

    def match(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The matches of the events: kept columns first, then attributes."""
        for batch in batches:
            attributes = batch.columns[len(self.kept) :]
            for rows, found in self.index.match(Batch(attributes, batch.num_rows, self.tree)):
                for start in range(0, len(rows), ROWS_MAX):
                    some = slice(start, start + ROWS_MAX)
                    yield self._taken(batch, pa.array(rows[some]), pa.array(found[some]))

    def _taken(self, batch: pa.RecordBatch, rows: pa.Array, found: pa.Array) -> pa.RecordBatch:
        kept = [column.take(rows) for column in batch.columns[: len(self.kept)]]
        return pa.RecordBatch.from_arrays([*kept, self.identity.take(found)], [*self.kept, "subscription"])


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
