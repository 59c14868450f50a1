"""``gapless spark simulate``: a grid of configurations × seeds, a run a task, judged and counted."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import fields
from itertools import product
from typing import Annotated, Any

import typer
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql.types import StructType
from rich.console import Console
from rich.table import Table

from gapless.cli.simulate import checked
from gapless.cli.spark_explore import explore_shares
from gapless.core.model import BeyondDelta, OrderName
from gapless.simulation.run import Options
from gapless.spark.jobs import simulate as job
from gapless.spark.progress import watched
from gapless.spark.schemas import RESULTS, TRACE
from gapless.spark.session import open_session

SHOWN = 20
"""How many failing runs, or configurations, a person is shown."""

MOST_RUNS = 1_000_000
"""The most runs at a time: the driver holds a row of each."""

DEFAULT = Options()
KINDS: dict[str, Callable[[str], Any]] = {
    "order": OrderName,
    "beyond_delta": BeyondDelta,
    "latency_ms": float,
}
"""How the values of an option are read; those of all others are whole numbers."""


def _several(about: str, default: object) -> Any:
    return typer.Option(help=about, metavar="VALUE,…", show_default=str(default))


def simulate(
    context: typer.Context,
    scenarios: Annotated[
        list[str] | None, typer.Argument(help="With --explore: the scenarios to explore.", show_default="all")
    ] = None,
    order: Annotated[str | None, _several("The order of the topic.", DEFAULT.order)] = None,
    repositories: Annotated[str | None, _several("Copies of a durable topic.", DEFAULT.repositories)] = None,
    brokers: Annotated[str | None, _several("Number of brokers, in a random tree.", DEFAULT.brokers)] = None,
    fanout: Annotated[str | None, _several("The most children of a broker.", DEFAULT.fanout)] = None,
    delta: Annotated[str | None, _several("δ: failures that must do no harm.", DEFAULT.delta)] = None,
    publishers: Annotated[str | None, _several("Publishing clients.", DEFAULT.publishers)] = None,
    subscribers: Annotated[str | None, _several("Subscribing clients.", DEFAULT.subscribers)] = None,
    events: Annotated[str | None, _several("Events of each publisher.", DEFAULT.events)] = None,
    crashes: Annotated[str | None, _several("Broker crashes.", DEFAULT.crashes)] = None,
    cuts: Annotated[str | None, _several("Link faults.", DEFAULT.cuts)] = None,
    max_down: Annotated[str | None, _several("Most failures at a time.", "δ")] = None,
    beyond_delta: Annotated[str | None, _several("What to do beyond δ.", DEFAULT.beyond_delta)] = None,
    latency_ms: Annotated[str | None, _several("Latency of a message.", DEFAULT.latency_ms)] = None,
    seed: Annotated[int, typer.Option(help="The first seed.", min=-(2**62), max=2**62)] = 0,
    seeds: Annotated[int, typer.Option(help="Seeds of each configuration.", min=1, max=MOST_RUNS)] = 100,
    soak: Annotated[bool, typer.Option("--soak", help="Each seed draws everything.")] = False,
    explore: Annotated[
        bool, typer.Option("--explore", help="Try every schedule of small networks instead.")
    ] = False,
    deviations: Annotated[int, typer.Option(help="With --explore: from the default schedule.", min=0)] = 3,
    traces: Annotated[
        str | None, typer.Option(help="Write the traces, as Parquet, to a new directory.")
    ] = None,
    out: Annotated[
        str | None, typer.Option(help="Write the results, as Parquet, to a new directory.")
    ] = None,
    master: Annotated[str | None, typer.Option(help="Where Spark runs.", show_default="local[*]")] = None,
    remote: Annotated[str | None, typer.Option(help="A Spark Connect address, sc://host:port.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate many seeds of many configurations on Spark; exit code 1 when a promise was broken in any.

    Every option of a run takes several values: --brokers 7,15,31 --delta 1,2 is six configurations.
    """
    if explore:
        session = open_session("explore", master=master, remote=remote)
        raise typer.Exit(0 if explore_shares(session, scenarios or [], deviations, as_json=as_json) else 1)
    if scenarios:
        raise typer.BadParameter(f"{scenarios[0]}: only --explore takes scenarios")
    given = {each.name: context.params[each.name] for each in fields(Options) if each.name != "swarm"}
    runs = _runs(given, range(seed, seed + seeds), soak=soak)
    began = time.monotonic()
    session = open_session("simulate", master=master, remote=remote)
    rows = _execute(session, runs, traces=traces, out=out)
    rows.sort(key=lambda row: (row["verdict"] == "ok", row["command"]))
    failing = [row for row in rows if row["verdict"] != "ok"]
    if as_json:
        typer.echo(json.dumps(_summary(rows, failing)))
    else:
        _show(rows, failing, time.monotonic() - began, Console(), soak=soak)
        for what, where in (("results", out), ("traces", traces)):
            if where is not None:
                typer.echo(f"{what}: {where}")
    raise typer.Exit(1 if failing else 0)


def _runs(given: dict[str, str | None], seeds: range, *, soak: bool) -> list[tuple[Options, int]]:
    """What to run: every combination of the given values with every seed, or whatever the seeds draw."""
    values = {name: _read(name, text) for name, text in given.items() if text is not None}
    if soak:
        if values:
            names = ", ".join(map(_option, values))
            raise typer.BadParameter(f"the seed draws the network; leave out {names}")
        return [(Options(swarm=True), seed) for seed in seeds]
    grid = [checked(**dict(zip(values, each, strict=True))) for each in product(*values.values())]
    if len(grid) * len(seeds) > MOST_RUNS:
        many = f"{len(grid):,} configurations × {len(seeds):,} seeds"
        raise typer.BadParameter(f"{many} are too many; at most {MOST_RUNS:,} runs at a time")
    return [(options, seed) for options in grid for seed in seeds]


def _read(name: str, text: str) -> list[Any]:
    """The values of an option, each once."""
    kind = KINDS.get(name, int)
    try:
        return list(dict.fromkeys(kind(each.strip()) for each in text.split(",")))
    except ValueError as error:
        raise typer.BadParameter(f"{_option(name)} {text}: {error}") from error


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _execute(
    session: SparkSession, runs: list[tuple[Options, int]], *, traces: str | None, out: str | None
) -> list[dict[str, Any]]:
    """Run them all, write what was asked for, and give back the rows of the results."""
    for path, schema in ((out, RESULTS), (traces, TRACE)):
        if path is not None:
            _reserve(session, path, schema)
    grid, tasks = job.grid(session, runs), job.tasks_of(len(runs))
    if traces is None:
        with watched(session, "simulating", tasks=tasks):
            table = job.transform(grid).toArrow()
    else:
        with job.traced(grid) as (results, lines):
            with watched(session, "simulating", tasks=tasks):
                table = results.toArrow()
            with watched(session, "writing traces", tasks=tasks):
                lines.write.mode("overwrite").partitionBy("run").parquet(traces)
    if out is not None:
        session.createDataFrame(table, RESULTS).coalesce(1).write.mode("overwrite").parquet(out)
    return [{**row, "counts": dict(row["counts"]), "kinds": dict(row["kinds"])} for row in table.to_pylist()]


def _reserve(session: SparkSession, path: str, schema: StructType) -> None:
    """Make the directory, before hours of work rather than after: nothing of others is overwritten or mixed.

    It has an empty table in it, which is replaced in the end.
    """
    try:
        session.createDataFrame([], schema).write.mode("error").parquet(path)
    except AnalysisException as error:
        if error.getCondition() != "PATH_ALREADY_EXISTS":
            raise
        raise typer.BadParameter(f"{path} exists; name another directory, or remove it") from error


def _summary(rows: list[dict[str, Any]], failing: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "verdict": "violated" if failing else "ok",
        "violated": [row["command"] for row in failing],
        **{name: sum(row[name] for row in rows) for name in ("published", "delivered", "faults")},
        "simulated_seconds": sum(row["simulated_seconds"] for row in rows),
        "runs": rows,
    }


def _show(
    rows: list[dict[str, Any]], failing: list[dict[str, Any]], seconds: float, console: Console, *, soak: bool
) -> None:
    """The results for people, failing runs first."""
    if failing:
        console.print(f"[red]violated in {len(failing):,} of {len(rows):,} runs; each by one command:")
        for row in failing[:SHOWN]:
            kinds = ", ".join(f"{count} {kind}" for kind, count in row["counts"].items())
            console.print(f"  {row['command']}   [red]{kinds}", soft_wrap=True)
        if len(failing) > SHOWN:
            console.print(f"  and {len(failing) - SHOWN:,} more: --json has them all, and the table of --out")
    if not soak:
        _show_configurations(rows, console)
    total = {name: sum(row[name] for row in rows) for name in ("published", "delivered", "faults")}
    console.print(
        f"{len(rows):,} runs in {seconds / 60:.1f} min: {total['published']:,} events published, "
        f"{total['delivered']:,} delivered, {total['faults']:,} faults",
        soft_wrap=True,
    )
    if not failing:
        console.print("[green]ok: every promise was kept in every run")


def _show_configurations(rows: list[dict[str, Any]], console: Console) -> None:
    """A line a configuration, where there are several; those with failing runs first."""
    names = [each.name for each in fields(Options)]
    varied = [name for name in names if len({row[name] for row in rows}) > 1]
    grouped: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        grouped.setdefault(tuple(row[name] for name in varied), []).append(row)
    if len(grouped) < 2:
        return
    table = Table(title=f"{len(grouped):,} configurations")
    for name in (*map(_option, varied), "runs", "violated", "delivered", "faults"):
        table.add_column(name, justify="right")
    for values, group in list(grouped.items())[:SHOWN]:
        violated = sum(row["verdict"] != "ok" for row in group)
        delivered, faults = (sum(row[name] for row in group) for name in ("delivered", "faults"))
        counts = (len(group), violated, delivered, faults)
        table.add_row(*map(str, values), *(f"{count:,}" for count in counts), style="red" if violated else "")
    console.print(table)
