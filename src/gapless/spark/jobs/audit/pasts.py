"""The causal past of events: a log of how far it reaches into each publisher's stream.

``e1 → e2`` when a client was given ``e1`` before it published ``e2``, and so on in chains of any length: no
number of joins follows them all. So the events of one topic in one run are followed line by line, in one
task. What matters is little: what clients that publish were given, and what they published.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from gapless.simulation.checkers.causal import Causality, Vector
from gapless.spark.jobs.audit.history import History
from gapless.spark.schemas import NUMBER, TEXT

LOG = (
    StructType()
    .add("run", TEXT)
    .add("topic", TEXT)
    .add("line", NUMBER)
    .add("publisher", TEXT)
    .add("sequence", NUMBER)
    .add("other", TEXT)
    .add("reach", NUMBER)
)
"""From the event of this line on, the publisher's past reaches to ``reach`` in the other's stream."""

BATCH_ROWS = 10_000

_Row: TypeAlias = dict[str, Any]


def log(history: History) -> DataFrame:
    """The growth of all pasts, in the order of the lines (``LOG``)."""
    client = ["run", "topic", "client"]
    columns = (*client, "line", "publisher", "sequence")
    publishing = f.broadcast(history.publications.select(*client).distinct())
    heard = history.described(history.deliveries.where(f.col("published") < f.col("line")))
    given = heard.join(publishing, client, "left_semi")
    hearing = f.broadcast(given.select(*client).distinct())
    published = history.publications.join(hearing, client, "left_semi")
    return (
        given.select(*columns, f.lit(True).alias("given"))
        .union(published.select(*columns, f.lit(False).alias("given")))
        .repartition("run", "topic")
        .sortWithinPartitions("run", "topic", "line")
        .mapInArrow(_logged, LOG)
    )


def _logged(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = (row for batch in batches for row in batch.to_pylist())
    growth = (row for _, lines in groupby(rows, itemgetter("run", "topic")) for row in _growth(lines))
    schema = to_arrow_schema(LOG)
    while some := list(islice(growth, BATCH_ROWS)):
        yield pa.RecordBatch.from_pylist(some, schema)


@dataclass(slots=True)
class _Client:
    """What a client was given, with its past, and the order in which that grew."""

    known: Vector = field(default_factory=dict)
    journal: list[str] = field(default_factory=list)


def _growth(rows: Iterable[_Row]) -> Iterator[_Row]:
    """How the pasts of one topic's events grow, publication by publication."""
    causality = Causality()
    clients: dict[str, _Client] = {}
    known: dict[str, Vector] = {}
    read: dict[tuple[str, str], int] = {}
    for row in rows:
        publisher, sequence = row["publisher"], row["sequence"]
        client = clients.setdefault(row["client"], _Client())
        if row["given"]:
            grown = causality.absorb(client.known, publisher, sequence)
            client.journal.extend(other for other, _, _ in grown)
            continue
        vector, cursor = known.setdefault(publisher, {}), (publisher, row["client"])
        for other in dict.fromkeys(client.journal[read.get(cursor, 0) :]):
            if other != publisher and client.known[other] > vector.get(other, 0):
                vector[other] = client.known[other]
                causality.log(publisher).add(sequence, other, vector[other])
                yield {**row, "other": other, "reach": vector[other]}
        read[cursor] = len(client.journal)
