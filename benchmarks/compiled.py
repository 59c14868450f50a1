"""Interpreted and compiled brokers and clients, in turn, in one run (``make compile`` makes the copy).

A publisher, one broker and a subscriber, each a process, as in ``benchmarks.live``. The two kinds alternate,
so that a machine whose speed varies does the same to both; each figure is the best of its rounds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.live import ROUNDS, chain, pair

COPY = Path(__file__).parents[1] / "compiled"
KINDS = ("interpreted", "compiled")
AT_LEAST = 170_000
AT_MOST = 0.35


def run(quick: bool = False) -> dict[str, Any]:
    """Throughput with events of 100 bytes, and latency at 1,000 events a second, of both kinds."""
    if not (COPY / ".ready").exists():
        return {"not measured": "there is no compiled copy yet: run make compile"}
    figures = asyncio.run(_run(quick))
    throughput, latency = figures["events/s, compiled"], figures["p50 ms, compiled"]
    figures["compiled / interpreted"] = throughput / figures["events/s, interpreted"]
    return {**figures, "met": throughput >= AT_LEAST and latency <= AT_MOST}


async def _run(quick: bool) -> dict[str, float]:
    figures: dict[str, float] = {}
    for _ in range(1 if quick else ROUNDS):
        for kind in KINDS:
            with _environment(kind):
                async with chain(1) as brokers:
                    done = await pair(brokers, "throughput", 20_000 if quick else 400_000, 100)
                    waited = await pair(brokers, "latency", 500 if quick else 3_000, 100)
            name, value = f"events/s, {kind}", float(done["per_second"])
            figures[name] = max(value, figures.get(name, value))
            name, value = f"p50 ms, {kind}", float(waited["p50_ms"])
            figures[name] = min(value, figures.get(name, value))
    return figures


@contextmanager
def _environment(kind: str) -> Iterator[None]:
    """Processes that begin meanwhile are of that kind."""
    before = os.environ.get("PYTHONPATH")
    if kind == "compiled":
        os.environ["PYTHONPATH"] = str(COPY)
    else:
        os.environ.pop("PYTHONPATH", None)
    try:
        yield
    finally:
        os.environ.pop("PYTHONPATH", None)
        if before is not None:
            os.environ["PYTHONPATH"] = before
