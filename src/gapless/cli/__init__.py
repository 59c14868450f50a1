"""The command line: ``gapless COMMAND``; ``--json`` for machines, tables for people."""

from __future__ import annotations

import typer

from gapless.cli.demo import demo
from gapless.cli.simulate import simulate

app = typer.Typer(
    name="gapless",
    help="A content-based publish/subscribe network that never leaves a gap.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_show_locals=False,
)
app.command()(simulate)
app.command()(demo)


@app.callback()
def main() -> None:
    """A content-based publish/subscribe network that never leaves a gap."""


__all__ = ["app"]
