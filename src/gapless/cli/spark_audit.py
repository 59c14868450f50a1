"""``gapless spark audit``: hold traces of any size to a promise."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Annotated, Any

import typer
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gapless.core.model import OrderName
from gapless.simulation.trace import TraceError
from gapless.spark.jobs import audit as job
from gapless.spark.progress import watched
from gapless.spark.schemas import VIOLATIONS
from gapless.spark.session import open_session

LINES_PER_PART = 500_000
"""Long traces are divided into more parts than Spark would make by itself, so that each fits into memory."""


def audit(
    path: Annotated[
        str,
        typer.Argument(
            help="A trace: JSON lines or Parquet; a file, a directory, or a glob in quotes.", metavar="PATH"
        ),
    ],
    promise: Annotated[OrderName, typer.Option(help="What the runs promised.")] = OrderName.PUBLISHER,
    durable: Annotated[bool, typer.Option("--durable", help="Every subscription is durable.")] = False,
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="The runs did not end healed and quiet: nothing is lost yet.")
    ] = False,
    first: Annotated[int, typer.Option(help="Show so many violations of each kind.", min=1, max=10_000)] = 5,
    out: Annotated[
        str | None, typer.Option(help="Write all violations, as Parquet, to a new directory.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Where Spark runs.", show_default="local[*]")] = None,
    remote: Annotated[str | None, typer.Option(help="A Spark Connect address, sc://host:port.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Find what was lost, doubled, reordered, missed or invented in traces; exit code 1 if anything was."""
    session = open_session("audit", master=master, remote=remote)
    try:
        if out is not None:
            _reserve(session, out)
        with watched(session, "auditing"):
            result = _audited(
                session, path, promise, healed=not unfinished, durable=durable, first=first, out=out
            )
    except TraceError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(2) from error
    finally:
        session.catalog.clearCache()  # or the same path would be read from it the next time
    if as_json:
        typer.echo(json.dumps(result))
    else:
        _show(result, Console(), out)
    raise typer.Exit(1 if result["counts"] else 0)


def _audited(
    session: SparkSession,
    path: str,
    promise: OrderName,
    *,
    healed: bool,
    durable: bool,
    first: int,
    out: str | None,
) -> dict[str, Any]:
    """Read, judge, write what was asked for, and give back what is shown."""
    lines = job.read(session, path)
    seen = job.survey(lines)
    _divide(session, seen.lines)
    violations = job.transform(lines.drop("error"), promise=promise, healed=healed, durable=durable).persist()
    counts = (
        violations.groupBy("kind")
        .agg(f.count("*").alias("count"), f.count_distinct("run").alias("runs"))
        .collect()
    )
    if out is not None:
        violations.write.mode("append").parquet(out)
    shown = [row.asDict() for row in _first(violations, first).collect()] if counts else []
    return {
        "verdict": "violated" if counts else "ok",
        "promise": promise.value,
        **asdict(seen),
        "counts": {row.kind: row["count"] for row in sorted(counts)},
        "violated_runs": {row.kind: row.runs for row in sorted(counts)},
        "violations": shown,
    }


def _divide(session: SparkSession, lines: int) -> None:
    name = "spark.sql.shuffle.partitions"
    parts = max(int(session.conf.get(name) or 0), lines // LINES_PER_PART)
    session.conf.set(name, str(parts))


def _first(violations: DataFrame, number: int) -> DataFrame:
    """The first violations of each kind, by run and line."""
    place = ("run", "line", "subscription", "publisher", "sequence")
    rank = f.row_number().over(Window.partitionBy("kind").orderBy(*place))
    first = violations.withColumn("rank", rank).where(f.col("rank") <= number)
    return first.drop("rank").orderBy("kind", *place)


def _reserve(session: SparkSession, path: str) -> None:
    """Make the directory, before hours of work rather than after: nothing is overwritten or mixed."""
    try:
        session.createDataFrame([], VIOLATIONS).write.mode("error").parquet(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise typer.BadParameter(f"{path} exists; name another directory, or remove it") from error


def _show(result: dict[str, Any], console: Console, out: str | None) -> None:
    """The result for people."""
    console.print(
        f"{result['runs']:,} runs, {result['lines']:,} lines: {result['published']:,} events published, "
        f"{result['delivered']:,} deliveries",
        soft_wrap=True,
    )
    if not result["counts"]:
        console.print(f"[green]ok: the promise of {result['promise']} order was kept")
        return
    table = Table(title=f"violations of {result['promise']} order")
    for column, justify in (("kind", "left"), ("violations", "right"), ("runs", "right")):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    for kind, count in result["counts"].items():
        table.add_row(kind, f"{count:,}", f"{result['violated_runs'][kind]:,}")
    console.print(table)
    console.print("the first of each kind:")
    for row in result["violations"]:
        where = f"{row['run']}, line {row['line']}, t={row['t']}"
        console.print(f"  [red]{row['kind']}[/] {escape(where)}: {escape(row['message'])}", soft_wrap=True)
    if out is not None:
        console.print(f"all of them: {escape(out)}", soft_wrap=True)
