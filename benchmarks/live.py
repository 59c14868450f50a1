"""The live network: throughput and latency through chains of brokers, failover, and many subscriptions.

Brokers, publisher and subscriber are processes of their own. Each figure stands beside a bare echo of the
same bytes over uvloop in the same run, since the machine decides much: a sender that writes frames of as
many events as a batch has, a relay that copies bytes, and a receiver. The aims are those of a machine with
two idle cores; of a machine that does other things too, or whose speed varies, the best of some rounds is the
nearest to that."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import gapless
from gapless.demo.processes import BrokerProcess

CHAINS = (1, 3, 7)
SIZES = (100, 1000)
SUBSCRIPTIONS = 10_000
AT_LEAST = {
    "events/s, 1 brokers, 100 bytes": 120_000,
    "events/s, 3 brokers, 100 bytes": 50_000,
    "throughput beside many subscriptions, of that beside none": 0.7,
}
AT_MOST = {"p50 ms, 1 brokers": 0.4, "failover stall s": 2}
ROUNDS = 3
LIMIT = 120


def run(quick: bool = False) -> dict[str, Any]:
    """All figures of the live network."""
    figures = asyncio.run(_run(quick))
    bars = {name: figures[name] >= least for name, least in AT_LEAST.items()}
    bars |= {name: figures[name] <= most for name, most in AT_MOST.items()}
    return {**figures, "bars": bars, "met": all(bars.values())}


async def _run(quick: bool) -> dict[str, Any]:
    events = 20_000 if quick else 400_000
    figures: dict[str, Any] = {}
    for size in SIZES[:1] if quick else SIZES:
        bare = await _echo("throughput", events, size)
        figures[f"events/s, bare echo, {size} bytes"] = bare["per_second"]
    waits, rounds = (500, 1) if quick else (3000, ROUNDS)
    bare = await _echo("latency", waits, 100)
    figures |= {"p50 ms, bare echo": bare["p50_ms"], "p99 ms, bare echo": bare["p99_ms"]}
    for length in CHAINS[:2] if quick else CHAINS:
        async with chain(length) as brokers:
            for size in SIZES[:1] if quick else SIZES:
                done = await _best(brokers, "throughput", events // length, size, rounds)
                figures[f"events/s, {length} brokers, {size} bytes"] = done["per_second"]
                if length == 1:
                    for who in ("publisher", "broker", "subscriber"):
                        figures[f"CPU µs an event, {who}, {size} bytes"] = done[who]
            done = await _best(brokers, "latency", waits, 100, rounds)
            figures[f"p50 ms, {length} brokers"] = done["p50_ms"]
            figures[f"p99 ms, {length} brokers"] = done["p99_ms"]
    async with chain(1) as brokers:
        one = await _best(brokers, "throughput", events // 2, 100, rounds)
        count = 500 if quick else SUBSCRIPTIONS
        async with gapless.connect(brokers[0].address) as client, _many(client, count):
            many = await _best(brokers, "throughput", events // 2, 100, rounds)
    figures["subscriptions beside"] = count
    figures["throughput beside many subscriptions, of that beside none"] = (
        many["per_second"] / one["per_second"]
    )
    figures["failover stall s"] = await _failover()
    return figures


@asynccontextmanager
async def chain(length: int) -> AsyncIterator[list[BrokerProcess]]:
    """Brokers in a row, each joined through the one before it."""
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as scratch:
        brokers: list[BrokerProcess] = []
        try:
            for number in range(length):
                join = brokers[-1].address if brokers else ""
                brokers.append(BrokerProcess(f"b{number}", Path(scratch), join, 1))
            await asyncio.gather(*(broker.start() for broker in brokers))
            async with gapless.connect(brokers[0].address) as client:
                await client.create_topic("bench")
            yield brokers
        finally:
            await asyncio.gather(*(broker.stop() for broker in brokers))


async def _best(
    brokers: Sequence[BrokerProcess], what: str, events: int, size: int, rounds: int
) -> dict[str, Any]:
    """The best of several rounds: what the software can do when the machine lets it."""
    done = [await pair(brokers, what, events, size) for _ in range(rounds)]
    if what == "latency":
        return min(done, key=lambda each: float(each["p50_ms"]))
    return max(done, key=lambda each: float(each["per_second"]))


async def pair(brokers: Sequence[BrokerProcess], what: str, events: int, size: int) -> dict[str, Any]:
    """A publisher at one end and a subscriber at the other, each a process."""
    words = [sys.executable, "-m", "benchmarks.live_client", what, str(events), str(size)]
    ends = [[*words, "subscribe", brokers[-1].address], [*words, "publish", brokers[0].address]]
    processes = []
    before = _cpu_seconds(brokers[0])
    try:
        for words in ends:
            process = await asyncio.create_subprocess_exec(
                *words, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
            )
            processes.append(process)
            if len(processes) == 1:
                await _line(process)  # the subscription is live
        taken: dict[str, Any] = json.loads(await _line(processes[0]))
        sent: dict[str, Any] = json.loads(await _line(processes[1]))
        broker = (_cpu_seconds(brokers[0]) - before) / events * 1e6
        return taken | {"subscriber": taken["cpu_us"], "publisher": sent["cpu_us"], "broker": broker}
    finally:
        for process in processes:
            if process.returncode is None:
                process.terminate()
            await process.wait()


def _cpu_seconds(broker: BrokerProcess) -> float:
    """What a broker has used of the processor so far."""
    fields = Path(f"/proc/{broker.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


async def _line(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    async with asyncio.timeout(LIMIT):
        line = await process.stdout.readline()
    if not line:
        raise RuntimeError("a client of the benchmark has ended")
    return line.decode()


@asynccontextmanager
async def _many(client: gapless.Client, count: int) -> AsyncIterator[None]:
    """Subscriptions beside the one that is measured, none of which matches."""
    waiting = [client.subscribe("bench", f"price = {-1 - number}") for number in range(count)]
    opened: list[gapless.Subscription] = []
    try:
        for begin in range(0, count, 500):
            part = waiting[begin : begin + 500]
            opened += await asyncio.gather(*(each.__aenter__() for each in part))
        yield
    finally:
        for each in opened:
            await each.close()


async def _failover() -> float:
    """The longest pause of deliveries when the broker in the middle is killed, at 1,000 events a second."""
    async with (
        chain(3) as brokers,
        gapless.connect(brokers[0].address) as source,
        gapless.connect(brokers[2].address) as sink,
        sink.subscribe("bench") as subscription,
        source.publisher("bench") as publisher,
    ):
        longest, last, count = 0.0, time.perf_counter(), 3000

        async def publish() -> None:
            for number in range(count):
                await publisher.publish({"n": number})
                await asyncio.sleep(0.001)

        publishing = asyncio.create_task(publish())
        for number in range(count):
            await anext(subscription)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()
            if number == count // 3:
                await brokers[1].kill()
        await publishing
        return longest


# -- what the machine could do ---------------------------------------------------------------------------


async def _echo(what: str, events: int, size: int) -> dict[str, float]:
    """A sender, a relay and a receiver that only copy bytes; for throughput 512 events a write."""
    words = [sys.executable, "-m", "benchmarks.live_echo", what, str(events), str(size)]
    process = await asyncio.create_subprocess_exec(*words, stdout=subprocess.PIPE)
    figures: dict[str, float] = json.loads(await _line(process))
    await process.wait()
    return figures


def show(result: dict[str, Any]) -> None:
    """The figures for people."""
    table = Table("figure", "value", "aim", title="the live network")
    table.columns[1].justify = "right"
    for name, value in result.items():
        if name not in ("bars", "met"):
            shown = f"{value:,.2f}" if value < 100 else f"{value:,.0f}"
            colour = {True: "[green]", False: "[red]"}.get(result["bars"].get(name), "")
            table.add_row(name, colour + shown, _aim(name))
    Console().print(table)


def _aim(name: str) -> str:
    if name in AT_LEAST:
        return f"≥ {AT_LEAST[name]:,}"
    return f"≤ {AT_MOST[name]:,}" if name in AT_MOST else ""
