"""``gapless spark``: what works on many events or many runs."""

from __future__ import annotations

import typer

from gapless.cli.spark_audit import audit
from gapless.cli.spark_match import match
from gapless.cli.spark_simulate import simulate

app = typer.Typer(
    help="Jobs on Spark, on all cores of this machine or on a cluster.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
for command in (simulate, audit, match):
    app.command()(command)
