"""``gapless figures``: the figures of paper 000 again, from this system's own code, in one report."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from pyspark.errors import PythonException
from pyspark.sql import SparkSession
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from gapless.experiments.catalogue import FIGURES
from gapless.experiments.figure import transform
from gapless.experiments.report import Made, write
from gapless.spark.progress import watched
from gapless.spark.session import open_session


def figures(
    out: Annotated[Path, typer.Option(help="The directory to write into.")] = Path("figures"),
    only: Annotated[
        list[str] | None, typer.Option(help="A figure, as 000.8; again for more.", show_default="all")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Small networks and few runs: seconds.")] = False,
    seed: Annotated[int, typer.Option(help="Decides everything.")] = 0,
    master: Annotated[str | None, typer.Option(help="Where Spark runs.", show_default="local[*]")] = None,
    remote: Annotated[str | None, typer.Option(help="A Spark Connect address, sc://host:port.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Make the papers' figures again: a plot and a table each, and a report beside the papers' claims."""
    began = time.monotonic()
    unknown = [name for name in only or () if name not in FIGURES]
    if unknown:
        raise typer.BadParameter(f"there is no figure {unknown[0]}; there is: {', '.join(FIGURES)}")
    _reserve(out)
    chosen = [name for name in FIGURES if name in (only or FIGURES)]
    session = open_session("figures", master=master, remote=remote)
    made = [_make(session, name, quick=quick, seed=seed) for name in chosen]
    files = write(made, out, _command(only or (), quick=quick, seed=seed))
    seconds = time.monotonic() - began
    if as_json:
        typer.echo(json.dumps(_summary(made, files, seed=seed, seconds=seconds)))
    else:
        _show(made, Console())
        typer.echo(f"{len(made)} figures in {seconds / 60:.1f} min: {out / 'report.html'}")


def _reserve(out: Path) -> None:
    """Make the directory before the work, rather than find out after it that it cannot be made."""
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise typer.BadParameter(f"cannot write to {out}: {error.strerror}") from error


def _make(session: SparkSession, name: str, *, quick: bool, seed: int) -> Made:
    figure = FIGURES[name]
    size = figure.quick if quick else figure.full
    try:
        with watched(session, f"figure {name:6}", tasks=len(figure.plan(size, seed))):
            rows = transform(session, figure, size, seed).toArrow().to_pylist()
    except PythonException as error:
        reason = str(error).strip().splitlines()[-1]
        typer.echo(f"figure {name} cannot be made: {reason}", err=True)
        raise typer.Exit(1) from error
    return Made(figure, size, rows, _command([name], quick=quick, seed=seed))


def _command(only: Iterable[str], *, quick: bool, seed: int) -> str:
    """What makes the same again."""
    chosen = [f"--only {name}" for name in only]
    return " ".join(["gapless figures", *chosen, *(["--quick"] if quick else []), f"--seed {seed}"])


def _summary(made: list[Made], files: list[Path], *, seed: int, seconds: float) -> dict[str, Any]:
    return {
        "seed": seed,
        "seconds": round(seconds, 1),
        "files": [str(file) for file in files],
        "figures": [
            {
                "figure": each.figure.name,
                "command": each.command,
                "size": asdict(each.size),
                "rows": len(each.rows),
                "findings": [asdict(finding) for finding in each.figure.findings(each.rows, each.size)],
            }
            for each in made
        ],
    }


def _show(made: list[Made], console: Console) -> None:
    """What the paper says beside what was measured."""
    table = Table(title="the paper's text and the measured values")
    for name in ("figure", "the paper", "measured", "the same"):
        table.add_column(name)
    for each in made:
        for finding in each.figure.findings(each.rows, each.size):
            same = "[green]yes" if finding.agrees else "[red]no"
            table.add_row(each.figure.name, escape(finding.claim), escape(finding.measured), same)
    console.print(table)
