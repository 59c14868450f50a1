"""How fast stores make records durable, alone and in batches: what the group commit is worth.

Each figure stands beside what a bare file reaches in the same run with the same bytes and one ``fdatasync`` a
batch, since the disk decides most of it. PostgreSQL is measured where ``GAPLESS_POSTGRES`` has the URL of a
database. Times are of the wall clock; the batches of all kinds are written in turns."""

from __future__ import annotations

import os
import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, TypeAlias

from rich.console import Console
from rich.table import Table

from gapless.storage import Append, Store, Truncate, open_store

BATCHES = (1, 100, 1000)
RECORD_BYTES = 250
BARE = "bare file"
LOG = "events"

Writer: TypeAlias = Callable[[list[bytes]], object]


def run(quick: bool = False) -> dict[str, Any]:
    """Records a second: written by kind and size of the batch, read, and checked when a store is opened."""
    rounds = {1: 50, 100: 20, 1000: 10} if quick else {1: 300, 100: 100, 1000: 50}
    rng = random.Random(1)
    figures: dict[str, Any] = {"record_bytes": RECORD_BYTES}
    with tempfile.TemporaryDirectory(prefix="gapless-bench-") as scratch:
        places = _places(Path(scratch))
        with ExitStack() as stack:
            stores = {kind: stack.enter_context(open_store(place, "bench")) for kind, place in places.items()}
            writers: dict[str, Writer] = {kind: _appending(store) for kind, store in stores.items()}
            writers[BARE] = stack.enter_context(_bare(Path(scratch)))
            for size, batches in rounds.items():
                spent = dict.fromkeys(writers, 0.0)
                for _ in range(batches):
                    records = [rng.randbytes(RECORD_BYTES) for _ in range(size)]
                    for kind, write in writers.items():
                        spent[kind] += _seconds(lambda: write(records))  # noqa: B023
                for kind, seconds in spent.items():
                    figures[f"{kind}, batches of {size}"] = size * batches / seconds
            for kind, store in stores.items():
                span = store.logs[LOG]
                seconds = _seconds(lambda: store.read(LOG, span.start, span.stop - 1))  # noqa: B023
                figures[f"{kind}, read"] = len(span) / seconds
        for kind, place in places.items():
            if kind != "memory":
                figures[f"{kind}, opened"] = _opened(place)
    return figures


def _places(scratch: Path) -> dict[str, str]:
    places = {"memory": "memory:", "SQLite": str(scratch / "store")}
    url = os.environ.get("GAPLESS_POSTGRES")
    return places | ({"PostgreSQL": url} if url else {})


def _appending(store: Store) -> Writer:
    return lambda records: store.write([Append(LOG, record) for record in records])


@contextmanager
def _bare(scratch: Path) -> Iterator[Writer]:
    with (scratch / "bare").open("wb", buffering=0) as file:

        def write(records: list[bytes]) -> None:
            file.write(b"".join(records))
            os.fdatasync(file.fileno())

        yield write


def _opened(place: str) -> float:
    """Records checked a second; afterwards they are dropped."""
    stores: list[Store] = []
    seconds = _seconds(lambda: stores.append(open_store(place, "bench")))
    with stores[0] as store:
        span = store.logs[LOG]
        store.write([Truncate(LOG, span.stop - 1)])
    return len(span) / seconds


def _seconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def show(figures: dict[str, Any]) -> None:
    """Print the figures as a table."""
    kinds = list(dict.fromkeys(name.split(",")[0] for name in figures if "," in name))
    title = f"Storage: records of {figures['record_bytes']} bytes a second"
    table = Table("kind", *(f"batches of {size:,}" for size in BATCHES), "read", "opened", title=title)
    for column in table.columns[1:]:
        column.justify = "right"
    columns = (*(f"batches of {size}" for size in BATCHES), "read", "opened")
    for kind in kinds:
        cells = [figures.get(f"{kind}, {column}") for column in columns]
        table.add_row(kind, *("" if each is None else f"{each:,.0f}" for each in cells))
    console = Console()
    console.print(table)
    alone, together = figures["SQLite, batches of 1"], figures["SQLite, batches of 1000"]
    console.print(f"SQLite: batches of 1,000 are {together / alone:,.0f} times as fast as single records")
    if "PostgreSQL" not in kinds:
        console.print("PostgreSQL was left out: set GAPLESS_POSTGRES=postgresql://… to the URL of a database")


if __name__ == "__main__":
    show(run())
