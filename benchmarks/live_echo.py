"""What the machine could do: ``live_echo EVENTS SIZE``: bytes from a sender through a relay to a receiver.

The relay is a process of its own, as a broker is; sender and receiver share one."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection

import uvloop

BATCH = 512
OVERHEAD = 80
"""Bytes of an event beside its own."""


async def _relay(port: Connection) -> None:
    async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1 << 18):
            writer.write(data)
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(copy, "127.0.0.1", 0)
    port.send(server.sockets[0].getsockname()[1])
    await server.serve_forever()


def relay(port: Connection) -> None:
    """Copy what comes."""
    uvloop.run(_relay(port))


async def measure(port: int, events: int, size: int) -> float:
    """Events a second there and back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    frame = bytes((size + OVERHEAD) * BATCH)
    total = events // BATCH * len(frame)

    async def send() -> None:
        for _ in range(events // BATCH):
            writer.write(frame)
            await writer.drain()

    began = time.perf_counter()
    sending = asyncio.create_task(send())
    while total > 0:
        total -= len(await reader.read(1 << 18))
    await sending
    writer.close()
    return events / (time.perf_counter() - began)


def main(events: str, size: str) -> None:
    """Start the relay, measure, print."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=relay, args=(there,), daemon=True)
    process.start()
    try:
        speed = uvloop.run(measure(here.recv(), int(events), int(size)))
        print(json.dumps({"per_second": speed}), flush=True)
    finally:
        process.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
