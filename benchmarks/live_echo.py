"""What the machine could do: bytes from a sender through a relay to a receiver.

``live_echo throughput|latency EVENTS SIZE``.

The relay is a process of its own, as a broker is; sender and receiver share one."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import sys
import time
from collections import deque
from multiprocessing.connection import Connection

import uvloop

from benchmarks.live_client import RATE, quantiles_ms

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


async def throughput(port: int, events: int, size: int) -> dict[str, float]:
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
    return {"per_second": events / (time.perf_counter() - began)}


async def latency(port: int, events: int, size: int) -> dict[str, float]:
    """How long one event takes, at the same rate as events through brokers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    sent: deque[float] = deque()

    async def send() -> None:
        for _ in range(events):
            sent.append(time.perf_counter())
            writer.write(bytes(size + OVERHEAD))
            await asyncio.sleep(1 / RATE)

    sending = asyncio.create_task(send())
    latencies = []
    for _ in range(events):
        await reader.readexactly(size + OVERHEAD)
        latencies.append(time.perf_counter() - sent.popleft())
    await sending
    writer.close()
    return quantiles_ms(latencies)


def main(what: str, events: str, size: str) -> None:
    """Start the relay, measure, print."""
    here, there = multiprocessing.get_context("spawn").Pipe()
    process = multiprocessing.get_context("spawn").Process(target=relay, args=(there,), daemon=True)
    process.start()
    try:
        measure = throughput if what == "throughput" else latency
        print(json.dumps(uvloop.run(measure(here.recv(), int(events), int(size)))), flush=True)
    finally:
        process.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
