"""Stays: each subscription from the line that began it to the line that ended it.

A stay begins with a subscribe. It ends with an unsubscribe, with another selector or topic under the same
name, or with a crash of its client if it is not durable. Subscribed again while it is open, it goes on,
perhaps at another client. Whether a crash ends a stay depends on how it began, so this is followed line by
line; but each subscription of each run is followed on its own, and only what happened to subscriptions is
looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ArrayType, StructType

from gapless.spark.jobs.audit.keys import NEVER
from gapless.spark.schemas import FLAG, NUMBER, NUMBERS, TEXT, TEXTS

MOVE = StructType().add("client", TEXT).add("since", NUMBER).add("until", NUMBER)
GRANT = (
    StructType()
    .add("line", NUMBER)
    .add("kind", TEXT)
    .add("start", NUMBERS)
    .add("unreachable", TEXTS)
    .add("position", NUMBER)
    .add("publishers", TEXTS)
)
STAYS = (
    StructType()
    .add("run", TEXT)
    .add("stay", NUMBER)
    .add("t", NUMBER)
    .add("subscription", TEXT)
    .add("topic", TEXT)
    .add("selector", TEXT)
    .add("durable", FLAG)
    .add("client", TEXT)
    .add("live", NUMBER)
    .add("ended", NUMBER)
    .add("moves", ArrayType(MOVE))
    .add("grants", ArrayType(GRANT))
)
"""``stay``: the line that began it; ``client``: the last one; ``live`` and ``ended``: NEVER where that is so;
``moves``: where it was; ``grants``: every live and reset."""

BATCH_ROWS = 10_000

_Row: TypeAlias = dict[str, Any]


def follow(acts: DataFrame) -> DataFrame:
    """The stays of what happened to subscriptions: their own lines, and crashes of clients that they had."""
    return (
        acts.repartition("run", "subscription")
        .sortWithinPartitions("run", "subscription", "line")
        .mapInArrow(_stays, STAYS)
    )


def _stays(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (row for batch in batches for row in batch.to_pylist())
    stays = (stay for _, acts in groupby(rows, itemgetter("run", "subscription")) for stay in _followed(acts))
    schema = to_arrow_schema(STAYS)
    while some := list(islice(stays, BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(some, schema)


def _followed(acts: Iterable[_Row]) -> Iterator[_Row]:
    """The stays of one subscription."""
    stay: _Row | None = None
    for act in acts:
        if act["kind"] == "subscribe":
            if stay and (stay["topic"], stay["selector"]) != (act["topic"], act["selector"]):
                yield _ended(stay, act["line"])
                stay = None
            stay = _moved(stay or _begun(act), act)
        elif stay is None:
            continue
        elif act["kind"] == "unsubscribe" or (
            act["kind"] == "crash" and act["client"] == stay["client"] and not stay["durable"]
        ):
            yield _ended(stay, act["line"])
            stay = None
        elif act["kind"] != "crash":
            stay["grants"].append(act)
            if act["kind"] == "live":
                stay["live"] = min(stay["live"], act["line"])
    if stay is not None:
        yield _ended(stay, NEVER)


def _begun(act: _Row) -> _Row:
    return {**act, "stay": act["line"], "live": NEVER, "moves": [], "grants": []}


def _moved(stay: _Row, act: _Row) -> _Row:
    for last in stay["moves"][-1:]:
        last["until"] = act["line"]
    stay["moves"].append({"client": act["client"], "since": act["line"]})
    stay["client"] = act["client"]
    return stay


def _ended(stay: _Row, line: int) -> _Row:
    stay["ended"] = stay["moves"][-1]["until"] = line
    return stay
