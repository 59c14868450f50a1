"""The command line: ``gapless COMMAND``; ``--json`` for machines, tables for people.

What needs Spark is imported only when it is called, so that everything else is fast and works without it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated

import typer

from gapless.cli import broker, topic
from gapless.cli.demo import demo
from gapless.cli.publish import publish
from gapless.cli.simulate import simulate
from gapless.cli.status import status
from gapless.cli.subscribe import subscribe
from gapless.version import __version__, build

app = typer.Typer(
    name="gapless",
    help="A content-based publish/subscribe network that never leaves a gap.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.add_typer(broker.app, name="broker")
app.add_typer(topic.app, name="topic")
for command in (publish, subscribe, status, simulate, demo):
    app.command()(command)

SPARK = ("matplotlib", "numpy", "pandas", "py4j", "pyarrow", "pyspark")
"""What the extra ``spark`` installs."""

HAND_OVER = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}
"""A command with these settings leaves all its arguments, also --help, to another."""


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"gapless {__version__}, {build()}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show it and exit.")
    ] = False,
) -> None:
    """A content-based publish/subscribe network that never leaves a gap."""


@app.command("spark", context_settings=HAND_OVER, add_help_option=False)
def run_spark(context: typer.Context) -> None:
    """Jobs on Spark: simulate, audit, match."""
    with _extra(context):
        from gapless.cli.spark import app as jobs  # noqa: PLC0415

        _hand_over(context, jobs)


@app.command("figures", context_settings=HAND_OVER, add_help_option=False)
def run_figures(context: typer.Context) -> None:
    """Reproduce the papers' figures on Spark and write a report."""
    with _extra(context):
        from gapless.cli.figures import figures  # noqa: PLC0415

        alone = typer.Typer(add_completion=False, pretty_exceptions_show_locals=False)
        alone.command()(figures)
        _hand_over(context, alone)


@contextmanager
def _extra(context: typer.Context) -> Iterator[None]:
    """What needs the extra ``spark``; without it, say how to get it."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] not in SPARK:
            raise
        typer.echo(f"{context.command_path} needs Spark: pip install 'gapless[spark]'", err=True)
        raise typer.Exit(1) from error


def _hand_over(context: typer.Context, to: typer.Typer) -> None:
    """Let another application read the arguments and do the work."""
    from gapless.spark.session import SessionError  # noqa: PLC0415

    try:
        typer.main.get_command(to).main(args=context.args, prog_name=context.command_path)
    except SessionError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


__all__ = ["app"]
