"""``gapless broker``: run one broker until it is told to stop; ``gapless broker remove`` is beside it."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from gapless.cli.remove import remove
from gapless.server.broker import BrokerError, BrokerServer
from gapless.server.config import BrokerConfig, ConfigError, load
from gapless.server.logs import set_up

GARBAGE_THRESHOLDS = (50_000, 20, 50)
"""A broker makes many objects that live until they are confirmed, and few cycles: look for those more rarely
than Python does by itself."""


app = typer.Typer()
app.command()(remove)


@app.callback(invoke_without_command=True)
def broker(
    context: typer.Context,
    id_: Annotated[str | None, typer.Option("--id", help="The broker's name, unique in the network.")] = None,
    listen: Annotated[
        str | None, typer.Option(help="Where to accept sessions.", show_default="127.0.0.1:7400")
    ] = None,
    join: Annotated[
        list[str] | None,
        typer.Option(help="A broker of the network to join; may be repeated. None: this is its first."),
    ] = None,
    data: Annotated[
        str | None, typer.Option(help="A directory, or postgresql://…, for what must survive a crash.")
    ] = None,
    delta: Annotated[
        int | None, typer.Option(help="δ: failures at a time that must do no harm.", show_default="1")
    ] = None,
    config: Annotated[Path | None, typer.Option(help="A TOML file with these options as keys.")] = None,
    advertise: Annotated[
        str | None, typer.Option(help="What others are told to dial.", show_default="as --listen")
    ] = None,
    metrics: Annotated[str | None, typer.Option(help="Where Prometheus may ask, as host:port.")] = None,
    log: Annotated[
        str | None, typer.Option(help="How log lines are written: text or json.", show_default="text")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the ready line as JSON.")] = False,
) -> None:
    """Run a broker until SIGTERM or Ctrl-C; a line on standard output says when it is ready.

    After SIGUSR1 it leaves the network for good, and ends, or says in its log why it cannot. Its name is used
    up then.
    """
    if context.invoked_subcommand is not None:
        return
    options = {
        "id": id_,
        "listen": listen,
        "join": join or None,
        "data": data,
        "delta": delta,
        "advertise": advertise,
        "metrics": metrics,
        "log": log,
    }
    try:
        settings = load(config, os.environ, options)
        set_up(settings.log)
        _run(settings, as_json)
    except (ConfigError, BrokerError) as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from error


def _run(settings: BrokerConfig, as_json: bool) -> None:
    if sys.platform == "win32":
        asyncio.run(serve(settings, as_json))
    else:
        import uvloop  # noqa: PLC0415 (not on Windows)

        uvloop.run(serve(settings, as_json))


async def serve(settings: BrokerConfig, as_json: bool) -> None:
    """Run the broker until a signal comes, it has left its network, or it fails."""
    server = BrokerServer(settings)
    told_to_stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for each in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(each, told_to_stop.set)
    if hasattr(signal, "SIGUSR1"):  # not on Windows
        loop.add_signal_handler(signal.SIGUSR1, server.leave)
    ends = {asyncio.create_task(told_to_stop.wait()), asyncio.create_task(server.wait_left())}
    starting = asyncio.create_task(_start(server, as_json))
    try:
        await asyncio.wait({starting, *ends}, return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            failing = asyncio.create_task(server.wait_failed())
            await asyncio.wait({failing, *ends}, return_when=asyncio.FIRST_COMPLETED)
            if failing.done() and not any(end.done() for end in ends):
                raise BrokerError(f"the broker {settings.id} has failed: {failing.result()}")
            failing.cancel()
        if server.was_removed:
            raise BrokerError(
                f"{settings.id} was removed from its network, or has left it, and its name is used up there. "
                "To run a broker here, start one with another --id, an empty --data and --join"
            )
    finally:
        for task in (starting, *ends):
            task.cancel()
        await asyncio.gather(starting, return_exceptions=True)
        await server.stop()


async def _start(server: BrokerServer, as_json: bool) -> None:
    """Start, and say when the broker is a member of its network."""
    await server.start()
    gc.collect()
    gc.freeze()  # what is there now stays: never look at it again
    gc.set_threshold(*GARBAGE_THRESHOLDS)
    await server.joined()
    ready = {"ready": True, "id": server.config.id, "address": server.address}
    if server.metrics_address:
        ready["metrics"] = server.metrics_address
    typer.echo(json.dumps(ready) if as_json else f"broker {server.config.id} is ready at {server.address}")
    sys.stdout.flush()
