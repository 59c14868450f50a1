"""How the audit grows: traces of 100,000 and 1,000,000 deliveries, with violations planted in them.

Each is one run, written as Parquet before the time is taken, and judged by joins and windows (``whole=0``),
however short it is. Whatever its size, the audit must find all that is planted and nothing else, and a
delivery must not cost more in a larger trace: at most twice as much in the largest as in the one before it.
(In the smallest, most of the time is Spark's for planning and compiling.)

``python -m benchmarks.audit --deliveries N`` (again for more) audits traces of other sizes, as large as
10,000,000, and with ``--promise`` by some promises only.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pyspark.sql import SparkSession
from rich.console import Console
from rich.table import Table

from benchmarks.planted import Planted
from gapless.spark.jobs.audit import read, survey, transform
from gapless.spark.session import open_session

SIZES = (100_000, 1_000_000)
QUICK = (20_000, 200_000)
PROMISES = ("publisher", "causal", "total")
GROWTH_MAX = 2
SETTINGS = {"spark.driver.memory": "8g", "spark.sql.shuffle.partitions": "32"}


def run(
    quick: bool = False, sizes: Sequence[int] = SIZES, promises: Sequence[str] = PROMISES
) -> dict[str, Any]:
    """Audit traces of growing size."""
    session = open_session("audit benchmark", settings=SETTINGS)
    _measure(session, 1_000, promises)  # which makes Spark load and compile what it needs
    rows = [row for size in (QUICK if quick else sizes) for row in _measure(session, size, promises)]
    session.stop()
    growth = [
        after["us_per_delivery"] / before["us_per_delivery"]
        for promise in promises
        for before, after in pairwise(row for row in rows if row["promise"] == promise)
    ]
    bars = {
        "what is planted is found, and nothing else": all(row["exact"] for row in rows),
        f"a delivery costs at most {GROWTH_MAX} times as much in a trace 10 times as large": max(
            growth, default=0
        )
        <= GROWTH_MAX,
    }
    return {"sizes": rows, "growth": growth, "bars": bars, "met": all(bars.values())}


def _measure(session: SparkSession, deliveries: int, promises: Sequence[str]) -> list[dict[str, Any]]:
    """Make a trace and audit it by each promise."""
    planted = Planted(deliveries)
    with TemporaryDirectory() as directory:
        path = str(Path(directory) / "trace.parquet")
        planted.trace(session).write.parquet(path)
        return [_noted(_audit(session, planted, path, promise)) for promise in promises]


def _noted(row: dict[str, Any]) -> dict[str, Any]:
    """Say at once what is known: the next trace may take an hour."""
    print(f"{row['promise']}, {row['deliveries']:,} deliveries: {row['seconds']:,.0f} s", file=sys.stderr)
    return row


def _audit(session: SparkSession, planted: Planted, path: str, promise: str) -> dict[str, Any]:
    began = time.perf_counter()
    lines = read(session, path)
    seen = survey(lines)
    violations = transform(lines.drop("error"), promise=promise, healed=True, durable=True, whole=0).collect()
    seconds = time.perf_counter() - began
    session.catalog.clearCache()
    found = sorted(((row.kind, row.subscription, row.publisher, row.sequence) for row in violations), key=str)
    return {
        "promise": promise,
        "deliveries": seen.delivered,
        "lines": seen.lines,
        "seconds": seconds,
        "lines_per_second": seen.lines / seconds,
        "us_per_delivery": 1e6 * seconds / seen.delivered,
        "kinds": sorted({kind for kind, *_ in found}),
        "exact": found == planted.violations(promise, durable=True),
    }


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    table = Table(title="audit of one run with planted violations")
    for column in ("promise", "deliveries", "lines", "seconds", "lines a second", "found"):
        table.add_column(column, justify="right")
    for row in result["sizes"]:
        found = f"all {len(row['kinds'])} kinds" if row["exact"] else "[red]not what is planted"
        numbers = (f"{row[name]:,.0f}" for name in ("deliveries", "lines", "seconds", "lines_per_second"))
        table.add_row(row["promise"], *numbers, found)
    Console().print(table)
    for bar, met in result["bars"].items():
        Console().print(f"{'[green]met' if met else '[red]missed'}[/]: {bar}")


def main() -> int:
    """Exit code 0 when every bar is met."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--deliveries", type=int, action="append", help="the size of a trace; again for more")
    parser.add_argument("--promise", choices=PROMISES, action="append", help="again for more")
    parser.add_argument("--json", action="store_true", help="print one object with all figures")
    options = parser.parse_args()
    result = run(sizes=options.deliveries or SIZES, promises=options.promise or PROMISES)
    print(json.dumps(result)) if options.json else show(result)
    return 0 if result["met"] else 1


if __name__ == "__main__":
    sys.exit(main())
