"""Standard input, output and files that may be slow, read and written without holding up the event loop.

Who waits for a pipe is a thread: meanwhile what was published is sent, and the brokers hear from this client.
It uses no buffer of Python's and nobody waits for it in the end, so a command can always be interrupted."""

from __future__ import annotations

import asyncio
import os
import select
import sys
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from io import UnsupportedOperation
from pathlib import Path
from typing import TypeVar

import typer

CHUNK = 64 << 10
LINE_MAX = 4 << 20
"""The most bytes of a line: the largest payload as base64, and attributes."""

T = TypeVar("T")


async def numbered_lines(path: Path) -> AsyncIterator[tuple[int, bytes]]:
    """The lines that are not empty, with their numbers; ``-`` is standard input."""
    source: Path | int = sys.stdin.fileno() if str(path) == "-" else path
    number, rest = 0, b""
    with open(source, "rb", buffering=0, closefd=source is path) as file:
        while chunk := await _aside(partial(file.read, CHUNK)):
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                number += 1
                if line.strip():
                    yield number, line
            if len(rest) > LINE_MAX:
                raise ValueError(f"{path}, line {number + 1}: a line has at most {LINE_MAX:,} bytes")
    if rest.strip():
        yield number + 1, rest


async def print_line(line: str) -> None:
    """Print a line to standard output, however long that takes."""
    data = line.encode() + b"\n"
    if _would_block(len(data)):
        await _aside(partial(_write, sys.stdout.fileno(), data))
    else:
        typer.echo(line)


def _would_block(size: int) -> bool:
    try:
        _, ready, _ = select.select([], [sys.stdout], [], 0)
    except (UnsupportedOperation, ValueError, OSError):
        return False  # no file of the operating system
    return size > select.PIPE_BUF or not ready


def _write(descriptor: int, data: bytes) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


async def _aside(call: Callable[[], T]) -> T:
    """The outcome of a call that may wait for ever."""
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def work() -> None:
        try:
            settle = partial(_unless_done, outcome, partial(outcome.set_result, call()))
        except OSError as error:
            settle = partial(_unless_done, outcome, partial(outcome.set_exception, error))
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(settle)

    threading.Thread(target=work, name="gapless-pipe", daemon=True).start()
    return await outcome


def _unless_done(outcome: asyncio.Future[T], settle: Callable[[], None]) -> None:
    if not outcome.done():  # nobody waits any more
        settle()
