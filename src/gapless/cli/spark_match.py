"""``gapless spark match``: which subscriptions each event of a table matches."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Annotated, Any

import typer
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as f
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gapless.spark.jobs import match as job
from gapless.spark.progress import watched
from gapless.spark.session import open_session

SHOWN = 10
"""How many of the most matched subscriptions are told."""


class Format(StrEnum):
    """How a table is stored."""

    PARQUET = "parquet"
    JSON = "json"
    CSV = "csv"


SUFFIXES = {
    **{f".{each}": each for each in Format},
    ".jsonl": Format.JSON,
    ".ndjson": Format.JSON,
}
STRICT = {"mode": "FAILFAST"}
"""A line that cannot be read is an error, not a row of nulls that quietly matches nothing."""

CSV = {"header": "true", "escape": '"', **STRICT}
"""With a header, and quotes in texts doubled, as spreadsheets write it and selectors need it."""

TRACEBACK = re.compile(r"\n\s+at |\n\s*JVM stacktrace")
"""Where the words of an error end."""


def match(
    events: Annotated[str, typer.Argument(help="The events, a table: each column is an attribute.")],
    subscriptions: Annotated[str, typer.Argument(help="A table: subscription, selector, and maybe topic.")],
    out: Annotated[str, typer.Option(help="Write the matches, as Parquet, to a new directory.")],
    key: Annotated[
        list[str] | None,
        typer.Option(
            help="A column of the events to keep; give it several times for several.", show_default="all"
        ),
    ] = None,
    stored_as: Annotated[
        Format | None, typer.Option("--format", help="How tables are stored whose names do not tell.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Where Spark runs.", show_default="local[*]")] = None,
    remote: Annotated[str | None, typer.Option(help="A Spark Connect address, sc://host:port.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Match a table of events against a table of subscriptions, exactly as the network would.

    Tables are files or directories of Parquet, JSON lines, or CSV with a header.
    """
    formats = [_format(path, stored_as) for path in (events, subscriptions)]
    began = time.monotonic()
    session = open_session("match", master=master, remote=remote)
    with _told():
        told = _execute(
            session,
            _read(session, events, formats[0], infer=True),
            _read(session, subscriptions, formats[1], infer=False),
            keep=key,
            out=out,
        )
    told = {**told, "seconds": round(time.monotonic() - began, 1), "out": out}
    if as_json:
        typer.echo(json.dumps(told))
    else:
        _show(told, Console())


def _format(path: str, given: Format | None) -> Format:
    """What the name of a table says, compressed or not, else what the user says."""
    for suffix in reversed(PurePosixPath(path).suffixes):
        if suffix.lower() in SUFFIXES:
            return SUFFIXES[suffix.lower()]
    if given is None:
        raise typer.BadParameter(f"is {path} Parquet, JSON lines or CSV? Say --format parquet, json or csv")
    return given


def _read(session: SparkSession, path: str, stored_as: Format, *, infer: bool) -> DataFrame:
    """A table. What CSV holds is guessed from the values, or (``infer`` is false) is text, also over lines.

    Not both: a file whose texts have line breaks can only be read by one task.
    """
    csv = {**CSV, "inferSchema": str(infer), "multiLine": str(not infer)}
    options = {Format.CSV: csv, Format.JSON: STRICT}.get(stored_as, {})
    return session.read.format(stored_as).options(**options).load(path)


@contextmanager
def _told() -> Iterator[None]:
    """What is wrong with the tables is said in words, not by tracebacks."""
    try:
        yield
    except Py4JJavaError as error:  # what PySpark has no class for, such as a malformed line
        raise _failed(error.java_exception.getMessage()) from error
    except (ValueError, PySparkException) as error:
        raise _failed(str(error)) from error


def _failed(told: str) -> typer.Exit:
    typer.echo(f"error: {TRACEBACK.split(told)[0].strip()}", err=True)
    return typer.Exit(1)


def _execute(
    session: SparkSession, events: DataFrame, subscriptions: DataFrame, *, keep: list[str] | None, out: str
) -> dict[str, Any]:
    """Match, write, and count what was written."""
    counted = Observation("events")
    observed = events.observe(counted, f.count(f.lit(1)).alias("events"))
    matches = job.transform(observed, subscriptions, keep=keep)
    with watched(session, "matching"):
        matches.write.parquet(out)
    counts = session.read.parquet(out).groupBy("subscription").agg(f.count("*").alias("matches"))
    total = counts.agg(f.sum("matches"), f.count("*")).collect()[0]
    most = counts.orderBy(f.desc("matches"), "subscription").limit(SHOWN).collect()
    return {
        **counted.get,
        "subscriptions": subscriptions.count(),
        "matches": total[0] or 0,
        "matched_subscriptions": total[1],
        "most_matched": [row.asDict() for row in most],
    }


def _show(told: dict[str, Any], console: Console) -> None:
    """The counts for people."""
    console.print(
        f"{told['events']:,} events × {told['subscriptions']:,} subscriptions: "
        f"[bold]{told['matches']:,} matches[/] in {told['seconds']:,} s",
        soft_wrap=True,
    )
    idle = told["subscriptions"] - told["matched_subscriptions"]
    if idle:
        console.print(f"{idle:,} subscriptions matched nothing")
    if told["most_matched"]:
        table = Table("subscription", title="most matched")
        table.add_column("matches", justify="right")
        for row in told["most_matched"]:
            table.add_row(escape(str(row["subscription"])), f"{row['matches']:,}")
        console.print(table)
    console.print(f"matches: {told['out']}", soft_wrap=True)
