"""What the commands of the live network have in common: which network, and how errors are told."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Coroutine
from typing import Annotated, Any, TypeAlias

import typer

from gapless.client.errors import GaplessError
from gapless.selectors import SelectorError

Network: TypeAlias = Annotated[
    str,
    typer.Option(
        "--broker", "-b", envvar="GAPLESS", help="Addresses of brokers: host:port, with commas between them."
    ),
]
DEFAULT_NETWORK = "127.0.0.1:7400"
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="For machines: JSON.")]


def run(work: Coroutine[Any, Any, None]) -> None:
    """Run a command; what can go wrong is one sentence on standard error and exit code 1."""
    try:
        if sys.platform == "win32":
            asyncio.run(work)
        else:
            import uvloop  # noqa: PLC0415 (not there on Windows)

            uvloop.run(work)
    except BrokenPipeError:  # who reads has enough; what is left in the buffer is not wanted either
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except (GaplessError, SelectorError, ValueError, OSError) as error:
        typer.echo(f"error: {error or type(error).__name__}", err=True)
        raise typer.Exit(1) from None
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
