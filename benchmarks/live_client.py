"""One end of a measurement: ``live_client throughput|latency EVENTS SIZE subscribe|publish ADDRESS``."""

from __future__ import annotations

import asyncio
import gc
import json
import statistics
import sys
import time

import uvloop

import gapless

RATE = 1000
"""Events a second when latency is measured."""


async def subscribe(what: str, events: int, address: str) -> None:
    """Take the events and print what was measured."""
    async with gapless.connect(address) as client, client.subscribe("bench", "price > 100") as subscription:
        print("live", flush=True)
        latencies = []
        await anext(subscription)
        began, cpu = time.perf_counter(), time.process_time()
        for _ in range(events - 1):
            event = await anext(subscription)
            if what == "latency" and isinstance(event, gapless.Event):
                latencies.append(time.time() - event.published_at)
        spent = time.perf_counter() - began
        figures = {"per_second": events / spent, "cpu_us": _cpu_us(cpu, events)}
        if latencies:
            figures |= quantiles_ms(latencies)
        print(json.dumps(figures), flush=True)


async def publish(what: str, events: int, size: int, address: str) -> None:
    """Publish events with five attributes."""
    payload = bytes(max(0, size - 60))
    async with gapless.connect(address) as client, client.publisher("bench") as publisher:
        cpu = time.process_time()
        for number in range(events):
            trade = {"symbol": "IBM", "price": 131.25, "quantity": number, "side": "buy", "venue": "EU-W"}
            await publisher.publish(trade, payload)
            if what == "latency":
                await asyncio.sleep(1 / RATE)
        await publisher.flush()
        print(json.dumps({"cpu_us": _cpu_us(cpu, events)}), flush=True)


def quantiles_ms(seconds: list[float]) -> dict[str, float]:
    """What half, and nearly all, of the events stay below."""
    cuts = statistics.quantiles(seconds, n=100)
    return {"p50_ms": cuts[49] * 1000, "p99_ms": cuts[98] * 1000}


def _cpu_us(since: float, events: int) -> float:
    """Microseconds of this process an event."""
    return (time.process_time() - since) / events * 1e6


def main(what: str, events: str, size: str, role: str, address: str) -> None:
    """Run one end."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    if role == "subscribe":
        uvloop.run(subscribe(what, int(events), address))
    else:
        uvloop.run(publish(what, int(events), int(size), address))


if __name__ == "__main__":
    main(*sys.argv[1:])
