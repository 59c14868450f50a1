"""A trace of any length, made by Spark: every promise is kept, but for what is planted.

It is one run. Publishers take turns; event ``i`` is published in block ``i`` of lines, and confirmed. A
subscription gets what matches its selector, in the order of publication, some blocks later: each has its
lag, and its place in a block. Two publishers are subscribers too, and so what they publish has causes.

What is planted lies far apart, and each piece shows in violations that are known beforehand.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from itertools import count
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema

from gapless.spark.schemas import TRACE

PUBLISHERS = 10
COLOURS = ("red", "white", "blue")

SELECTORS = {
    "p0": "n = 0",
    "p1": "n = 0",
    "all": "",
    "all2": "",
    "half": "n < 5",
    "odd": "n IN (1, 3, 5, 7, 9)",
    "red": "colour = 'red'",
    "range": "n BETWEEN 2 AND 6",
    "one": "source = 3",
    "late": "n = 1",
}
"""The subscriptions; one more, ``pair``, gets two events only. A client has the name of its subscription."""

PLACES = [*SELECTORS, "pair"]
DELIVERIES_PER_EVENT = 2 * 0.1 + 2 + 0.5 + 0.5 + 1 / 3 + 0.5 + 0.1 + 0.1

HEAD, BLOCK = 100, 40
"""Lines before the first block, and of a block; most are not used, which leaves room."""

LIVE_LATE = 100
"""The block in which the subscription ``late`` goes live."""

Found: TypeAlias = tuple[str, str | None, str, int]
"""A violation: its kind, the subscription, the publisher, the sequence."""


def _n(i: int) -> int:
    return (i * 7 + i // 10) % 10


def _name(i: int) -> tuple[str, int]:
    return f"p{i % PUBLISHERS}", i // PUBLISHERS + 1


def _line(subscription: str, i: Any) -> Any:
    """Where a subscription gets an event (a number or a column)."""
    place = PLACES.index(subscription)
    return HEAD + (i + 1 + place) * BLOCK + 4 + 3 * place


class Planted:
    """A trace of about so many deliveries, and what must be found in it."""

    def __init__(self, deliveries: int) -> None:
        self._events = int(deliveries / DELIVERIES_PER_EVENT)
        self._selectors = dict(SELECTORS)
        self._dropped: list[tuple[str, int]] = []
        self._added: list[dict[str, Any]] = []
        self._expected: dict[str, list[Found]] = {"publisher": [], "causal": [], "total": []}
        self._plant_wrong_deliveries()
        self._plant_late_deliveries()
        self._plant_losses()

    def violations(self, promise: str, *, durable: bool) -> list[tuple[Any, ...]]:
        """All that an audit of the finished run must find."""
        found = self._expected["publisher"] + (self._expected[promise] if promise != "publisher" else [])
        kept = [("durable", *where) for kind, *where in found if kind == "lost" and durable]
        return sorted([*found, *kept], key=str)

    def trace(self, session: SparkSession) -> DataFrame:
        """The rows of ``TRACE``, in no order."""
        events = self._table(session)
        parts = [self._publications(events), self._confirmations(events)]
        parts += [self._deliveries(events, name) for name in PLACES]
        rows = [{"run": "", "t": 0, **row} for row in self._beginning() + self._added]
        parts.append(session.createDataFrame(pa.Table.from_pylist(rows, to_arrow_schema(TRACE)), TRACE))
        together = reduce(lambda some, more: some.unionByName(more, allowMissingColumns=True), parts)
        named = together.withColumns({"run": f.lit("planted"), "t": f.col("line") * 10})
        return named.select(*(f.col(each.name).cast(each.dataType).alias(each.name) for each in TRACE))

    # -- what is planted -----------------------------------------------------------------------------------

    def _plant_wrong_deliveries(self) -> None:
        twice = self._find(0.1, lambda i: _n(i) < 5)
        self._deliver("half", twice, _line("half", twice + 2) + 1)
        self._found("half", twice, "duplicate")
        nothing = 10**12
        self._deliver("all", nothing, _line("all", int(self._events * 0.2)) + 1)
        self._found("all", nothing, "phantom")
        unwanted = self._find(0.3, lambda i: _n(i) > 6)
        self._deliver("range", unwanted, _line("range", unwanted))
        self._found("range", unwanted, "wrong-match")
        early = self._find(0, lambda i: _n(i) == 1)
        self._deliver("late", early, _line("late", early))
        self._found("late", early, "early")
        odd = {"kind": "publish", "line": HEAD - 1, "client": "x", "publisher": "x", "sequence": 2}
        self._added.append({**odd, "topic": "other", "attributes": "{}"})
        self._expected["publisher"].append(("numbering", None, "x", 2))

    def _plant_late_deliveries(self) -> None:
        """Each time the first of two comes directly after the second."""
        first = self._find(0.4, lambda i: i % PUBLISHERS == 3)
        self._delay("one", first, first + PUBLISHERS)
        self._found("one", first, "order", "gap", "causal", "total")
        unrelated = self._find(0.5, lambda i: _n(i) % 2 == 1 and 2 <= i % PUBLISHERS <= 4)
        after = next(i for i in count(unrelated + 1) if _n(i) % 2 == 1)
        self._delay("odd", unrelated, after)
        self._found("odd", unrelated, "total")
        cause = self._find(0.6, lambda i: _n(i) == 0 and i % PUBLISHERS > 1)
        effect = next(i for i in count(cause + 5) if i % PUBLISHERS == 0)
        self._selectors["pair"] = f"i IN ({cause}, {effect})"
        self._delay("pair", cause, effect)
        self._found("pair", cause, "causal", "total")

    def _plant_losses(self) -> None:
        middle = self._find(0.7, lambda i: i // 7 % 3 == 0)
        self._dropped.append(("red", middle))
        self._found("red", middle, "gap", "lost", "causal")
        middle = self._find(0.8, lambda i: i % PUBLISHERS > 1)
        self._dropped.append(("all2", middle))
        self._found("all2", middle, "gap", "lost", "causal")
        self._found("all2", middle + 1, "total")  # which "all" got later
        last = next(i for i in range(self._events - 1, 0, -1) if 2 <= _n(i) <= 6)
        self._dropped.append(("range", last))
        self._found("range", last, "lost")

    def _find(self, part: float, wanted: Callable[[int], bool]) -> int:
        """The first event like that, from some part of the trace on."""
        return next(i for i in count(int(self._events * part)) if wanted(i))

    def _found(self, subscription: str, i: int, *kinds: str) -> None:
        for kind in kinds:
            self._expected.get(kind, self._expected["publisher"]).append((kind, subscription, *_name(i)))

    def _delay(self, subscription: str, i: int, other: int) -> None:
        self._dropped.append((subscription, i))
        self._deliver(subscription, i, _line(subscription, other) + 1)

    def _deliver(self, subscription: str, i: int, line: int) -> None:
        publisher, sequence = _name(i)
        to = {"client": subscription, "subscription": subscription, "best_effort": False}
        self._added.append(
            {"kind": "deliver", "line": line, "publisher": publisher, "sequence": sequence, **to}
        )

    # -- rows ----------------------------------------------------------------------------------------------

    def _beginning(self) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = []
        for place, name in enumerate(PLACES, start=1):
            asked = {"client": name, "topic": "t", "selector": self._selectors[name], "broker": "b"}
            live = HEAD + LIVE_LATE * BLOCK if name == "late" else 50 + place
            rows.append({"kind": "subscribe", "line": place, "subscription": name, **asked})
            rows.append({"kind": "live", "line": live, "subscription": name})
        return rows

    def _table(self, session: SparkSession) -> DataFrame:
        i = f.col("i")
        return (
            session.range(self._events)
            .select(
                f.col("id").alias("i"),
                (f.col("id") % PUBLISHERS).alias("source"),
            )
            .withColumns(
                {
                    "publisher": f.concat(f.lit("p"), "source"),
                    "sequence": f.floor(i / PUBLISHERS) + 1,
                    "n": (i * 7 + f.floor(i / 10)) % 10,
                    "colour": f.get(f.array(*map(f.lit, COLOURS)), (f.floor(i / 7) % 3).cast("int")),
                }
            )
        )

    def _publications(self, events: DataFrame) -> DataFrame:
        attributes = f.to_json(f.struct("i", "source", "n", "colour")).alias("attributes")
        line = (HEAD + f.col("i") * BLOCK + 1).alias("line")
        client = f.col("publisher").alias("client")
        topic = f.lit("t").alias("topic")
        return events.select(
            f.lit("publish").alias("kind"), line, client, topic, "publisher", "sequence", attributes
        )

    def _confirmations(self, events: DataFrame) -> DataFrame:
        line = (HEAD + f.col("i") * BLOCK + 2).alias("line")
        return events.select(f.lit("confirm").alias("kind"), line, "publisher", "sequence")

    def _deliveries(self, events: DataFrame, name: str) -> DataFrame:
        """A selector is an SQL condition, and Spark means the same by these."""
        got = events.where(self._selectors[name] or "true").where(
            f.col("i") >= (LIVE_LATE if name == "late" else 0)
        )
        for subscription, i in self._dropped:
            got = got.where(f.col("i") != i) if subscription == name else got
        to = {"client": f.lit(name), "subscription": f.lit(name), "best_effort": f.lit(False)}
        columns = {"kind": f.lit("deliver"), "line": _line(name, f.col("i")), **to}
        return got.withColumns(columns).select(*columns, "publisher", "sequence")
