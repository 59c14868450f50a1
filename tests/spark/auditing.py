"""Traces for the tests of the audit, and what the checkers in this process say about them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from gapless.simulation.checkers import check
from gapless.simulation.trace import Confirm, Crash, Deliver, Live, Publish, Record, Reset, Subscribe
from gapless.spark.jobs.simulate import rows_of
from gapless.spark.schemas import TRACE
from simulation.histories import chaotic

Found: TypeAlias = tuple[str, str, int, int, str | None, str | None, int | None, str]
"""A violation: run, kind, line, moment, subscription, publisher, sequence, message."""


def write(path: Path, traces: Mapping[str, Iterable[Record]]) -> str:
    """Many traces as one Parquet file."""
    rows = [row for run, trace in traces.items() for row in rows_of(run, trace)]
    pq.write_table(pa.Table.from_pylist(rows, to_arrow_schema(TRACE)), path, row_group_size=20_000)
    return str(path)


def expected(traces: Mapping[str, list[Record]], **options: Any) -> Counter[Found]:
    """All violations that the checkers find."""
    return Counter(
        (run, v.kind.value, v.index + 1, v.t, v.subscription, v.publisher, v.sequence, v.message)
        for run, trace in traces.items()
        for v in check(trace, limit=10**9, **options)
    )


def found(violations: DataFrame) -> Counter[Found]:
    """All violations that the audit finds."""
    names = ("run", "kind", "line", "t", "subscription", "publisher", "sequence", "message")
    columns = violations.select(*names).toArrow().to_pydict()
    return Counter(zip(*columns.values(), strict=True))


def varied(rng: Random) -> list[Record]:
    """A chaotic history with all that records can say: topics, brokers, positions, withdrawals, moves."""
    topics = {name: rng.choice("tttu") for name in "stuabc"}
    return [_varied(rng, record, topics) for record in chaotic(rng)]


def _varied(rng: Random, record: Record, topics: Mapping[str, str]) -> Record:
    match record:
        case Subscribe():
            client = rng.choice((record.client, record.client, "b", "z"))
            return msgspec.structs.replace(record, topic=topics[record.subscription], client=client)
        case Publish():
            sequence = max(1, record.sequence + rng.choice((0,) * 12 + (-2, -1, 1, 5)))
            topic = topics[record.publisher] if rng.random() < 0.9 else "u"
            return msgspec.structs.replace(
                record, sequence=sequence, topic=topic, broker=rng.choice(("", "x", "y"))
            )
        case Confirm():
            return msgspec.structs.replace(record, topic=rng.choice(("", "t", "u")))
        case Live():
            position = rng.choice((None, None, 3, 4))
            unreachable = rng.choice((record.unreachable, (), ("x",), ("", "c")))
            return msgspec.structs.replace(record, position=position, unreachable=unreachable)
        case Reset():
            return msgspec.structs.replace(record, publishers=rng.choice((record.publishers, ("a", "b"), ())))
        case Deliver() if rng.random() < 0.05:
            return msgspec.structs.replace(record, client=rng.choice("bz"))
        case Crash():
            return msgspec.structs.replace(record, node=rng.choice((record.node, "b", "z")))
        case _:
            return record
