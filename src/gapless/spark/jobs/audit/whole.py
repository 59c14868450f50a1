"""Runs that fit into the memory of a worker: each is judged by the checkers as they are, in one task."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from typing import Any

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from gapless.core.model import OrderName
from gapless.simulation.checkers import check
from gapless.simulation.trace import Publish, Record, Subscribe
from gapless.spark.schemas import VIOLATIONS

ALL = 2**63
"""No limit on the violations of a kind."""


def judged(trace: DataFrame, *, promise: OrderName, healed: bool, durable: bool) -> DataFrame:
    """The ``VIOLATIONS`` of all runs."""
    judge = _judge(promise=promise, healed=healed, durable=durable)
    return trace.groupBy("run").applyInArrow(judge, VIOLATIONS)


def _judge(**options: Any) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def violations(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        run = pa.Table.from_batches(batches).sort_by("line")
        rows = run.to_pylist()
        found = list(_violations(rows, options)) if rows else []
        yield pa.RecordBatch.from_pylist(found, to_arrow_schema(VIOLATIONS))

    return violations


def _violations(rows: list[dict[str, Any]], options: dict[str, Any]) -> Iterator[dict[str, Any]]:
    records = [_record(row) for row in rows]
    clients = {each.subscription: each.client for each in records if isinstance(each, Subscribe)}
    for each in check(records, limit=ALL, **options):
        row, record = rows[each.index], records[each.index]
        lacks_client = isinstance(record, Publish) and each.subscription is not None
        client = clients.get(str(each.subscription)) if lacks_client else row["client"]
        place = {"run": row["run"], "line": row["line"], "client": client}
        yield {**asdict(each), "kind": each.kind.value, **place}


def _record(row: dict[str, Any]) -> Record:
    """The record of a row; columns that say nothing are those that a record leaves out."""
    fields = {name: value for name, value in row.items() if value is not None}
    if "attributes" in fields:
        fields["attributes"] = msgspec.json.decode(fields["attributes"])
    if "start" in fields:
        fields["start"] = dict(fields["start"])
    record: Record = msgspec.convert(fields, Record)
    return record
