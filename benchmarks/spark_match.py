"""Events × subscriptions on Spark: the broadcast index against Spark SQL's own evaluation of the conditions.

1,000,000 events and 10,000 subscriptions of ``benchmarks.trading``, in one session on all cores. Two bars:

- the matches equal those of ``selector.matches`` on a sample of the events, and those of Spark SQL;
- matching, with building and broadcasting the index, is at least 50 times as fast as a join by Spark SQL.

**The join.** Every subscription has a condition of its own, so a join on them is the cross product, each pair
decided by the condition of its subscription. Spark SQL is given the fastest way to say this that was found: a
query for every few subscriptions that first filters by ``c₁ OR c₂ OR …`` and then takes the numbers of those
that hold, ``explode(array(if(c₁, 1, null), …))``, from events cached in memory. A few are compiled into one
Java method that the virtual machine optimises; of many, the method becomes too large for that, and a filter
for each subscription spends its time on starting. All of ``CHUNKS`` are measured, and the fastest counts.
A query costs the same whichever subscriptions it has, so only some subscriptions are joined, with all events,
and the time is scaled by their number; the warm-up before is not counted, and its result is only counted and
summed, where the other writes its matches to disk. The index is built and used anew beside each of them, and
the median counts."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.table import Table

from benchmarks.trading import Trading
from gapless.selectors import Selector
from gapless.spark.jobs import match
from gapless.spark.session import open_session

SPEEDUP_MIN = 50
SUBSCRIPTIONS = 10_000
CHUNKS = (10, 20, 40)
"""Subscriptions a query of the join."""

T = TypeVar("T")

SCHEMA = pa.schema(
    {
        "id": pa.int64(),
        "symbol": pa.string(),
        "price": pa.float64(),
        "quantity": pa.int64(),
        "venue": pa.string(),
        "urgent": pa.bool_(),
        "desk": pa.struct({"region": pa.string()}),
    }
)


def run(quick: bool = False) -> dict[str, Any]:
    """Measure. Quick: a tenth of the events, fewer subscriptions joined."""
    events, joined, sampled = (100_000, 40, 100) if quick else (1_000_000, 120, 500)
    trading = Trading()
    texts = [str(trading.selector()) for _ in range(SUBSCRIPTIONS)]
    with tempfile.TemporaryDirectory() as directory, _session() as session:
        table = _stored(session, trading, events, Path(directory, "events"))
        subscriptions = session.createDataFrame(list(enumerate(texts)), "subscription LONG, selector STRING")
        matches = str(Path(directory, "matches"))

        def index() -> None:
            match.transform(table, subscriptions, keep=["id"]).write.mode("overwrite").parquet(matches)

        _join(table, texts[joined : joined + CHUNKS[0]], CHUNKS[0])  # warms up, as the first index does
        indexed = [_timed(index)[0]]
        joins: dict[int, float] = {}
        agree = True
        for size in CHUNKS:  # by turns, so that what else this machine does slows both
            joins[size], joined_matches = _timed(partial(_join, table, texts[:joined], size))
            indexed.append(_timed(index)[0])
            found = session.read.parquet(matches)
            agree &= joined_matches == _counted(found.where(f.col("subscription") < joined))
        figures = {
            "events": events,
            "subscriptions": SUBSCRIPTIONS,
            "matches": found.count(),
            "index_seconds": median(indexed),
            "joined_subscriptions": joined,
            **{f"join_{size}_seconds": seconds * SUBSCRIPTIONS / joined for size, seconds in joins.items()},
            "sampled_events": sampled,
        }
        exact = agree and _equal_by_force(table, found, texts, events // sampled)
    figures["speedup"] = min(joins.values()) * SUBSCRIPTIONS / joined / figures["index_seconds"]
    bars = {
        f"the same matches as brute force on {sampled} events, and as Spark SQL": exact,
        f"at least {SPEEDUP_MIN} times a join by Spark SQL": figures["speedup"] >= SPEEDUP_MIN,
    }
    return {**figures, "bars": bars, "met": all(bars.values())}


@contextmanager
def _session() -> Iterator[SparkSession]:
    session = open_session("benchmark")
    try:
        yield session
    finally:
        session.stop()


def _stored(session: SparkSession, trading: Trading, count: int, path: Path) -> DataFrame:
    """The events, in memory as Spark keeps it."""
    path.mkdir()
    events = ({"id": number, **trading.event()} for number in range(count))
    number = 0
    while some := list(islice(events, 50_000)):
        parquet.write_table(pa.Table.from_pylist(some, SCHEMA), path / f"{number:03}.parquet")
        number += 1
    table = session.read.parquet(str(path)).cache()
    table.count()
    return table


def _timed(work: Callable[[], T]) -> tuple[float, T]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def _join(events: DataFrame, texts: list[str], size: int) -> tuple[int, int]:
    """Spark SQL's matches of the first subscriptions, counted."""
    count = total = 0
    for start in range(0, len(texts), size):
        conditions = texts[start : start + size]
        numbers = ", ".join(f"if({text}, {start + place}L, null)" for place, text in enumerate(conditions))
        some = events.where(" OR ".join(f"({text})" for text in conditions))
        exploded = some.select("id", f.expr(f"explode(array({numbers}))").alias("subscription"))
        found = _counted(exploded.where("subscription IS NOT NULL"))
        count, total = count + found[0], total + found[1]
    return count, total


def _counted(matches: DataFrame) -> tuple[int, int]:
    """How many, and a sum that tells which; both are no work for Spark."""
    which = f.sum(f.col("id") * (f.col("subscription") + 1))
    row = matches.agg(f.count("*"), f.coalesce(which, f.lit(0))).collect()[0]
    return row[0], row[1]


def _equal_by_force(events: DataFrame, matches: DataFrame, texts: list[str], stride: int) -> bool:
    """Whether every so many-th event has the matches that evaluating each selector gives."""
    selectors = [Selector(text) for text in texts]
    expected = [
        (event["id"], number)
        for event in (row.asDict(recursive=True) for row in events.where(f.col("id") % stride == 0).collect())
        for number, selector in enumerate(selectors)
        if selector.matches(event)
    ]
    sample = matches.where(f.col("id") % stride == 0)
    return bool(expected) and sorted(expected) == sorted(
        (row.id, row.subscription) for row in sample.collect()
    )


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    console = Console()
    table = Table(title=f"{figures['events']:,} events × {figures['subscriptions']:,} subscriptions on Spark")
    table.add_column("way")
    table.add_column("seconds", justify="right")
    table.add_row("the index: built, broadcast, matches written", f"{figures['index_seconds']:,.1f}")
    for size in CHUNKS:
        table.add_row(
            f"join by Spark SQL, {size} conditions a query", f"{figures[f'join_{size}_seconds']:,.0f}"
        )
    console.print(table)
    part = f"{figures['joined_subscriptions']:,} of the {figures['subscriptions']:,} subscriptions"
    console.print(f"joins: measured with {part}, scaled; {figures['matches']:,} matches in all")
    console.print(f"{figures['speedup']:,.0f} times as fast as the fastest join")
    for bar, met in figures["bars"].items():
        console.print(("[green]met[/]    " if met else "[red]missed[/] ") + bar)
