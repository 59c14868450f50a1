"""The one place that names columns: what the jobs read and write, and what becomes of a trace as a table.

A row of a trace table is one line of a trace (:mod:`gapless.simulation.trace`): a column for every field that
any record has, NULL where the record does not have it or left it out because it says nothing. ``run`` tells
traces in one table apart and ``line`` counts the lines of a run from 1, so the order in which things happened
survives any shuffle. Attributes stay the JSON text that the trace has, because events of one topic may have
any attributes, and text survives the round trip exactly."""

from __future__ import annotations

from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

TEXT, NUMBER, REAL, FLAG = StringType(), LongType(), DoubleType(), BooleanType()
TEXTS = ArrayType(TEXT, containsNull=False)
NUMBERS = MapType(TEXT, NUMBER, valueContainsNull=False)


def _table(required: dict[str, DataType], optional: dict[str, DataType]) -> StructType:
    """A schema: first the columns that every row has, then those that may be NULL."""
    return StructType(
        [StructField(name, kind, nullable=False) for name, kind in required.items()]
        + [StructField(name, kind, nullable=True) for name, kind in optional.items()]
    )


TRACE = _table(
    {"run": TEXT, "line": NUMBER, "kind": TEXT, "t": NUMBER},
    {
        "client": TEXT,
        "subscription": TEXT,
        "topic": TEXT,
        "selector": TEXT,
        "broker": TEXT,
        "durable": TEXT,
        "publisher": TEXT,
        "sequence": NUMBER,
        "attributes": TEXT,
        "best_effort": FLAG,
        "start": NUMBERS,
        "unreachable": TEXTS,
        "position": NUMBER,
        "publishers": TEXTS,
        "node": TEXT,
        "nodes": TEXTS,
    },
)
"""A line of a trace; of ``live`` and ``reset``, ``start`` is {publisher: first promised sequence}."""

VIOLATIONS = _table(
    {"kind": TEXT, "run": TEXT, "line": NUMBER, "t": NUMBER},
    {"client": TEXT, "subscription": TEXT, "publisher": TEXT, "sequence": NUMBER, "message": TEXT},
)
"""A broken promise and the line of the trace where it shows (``gapless.simulation.checkers.Violation``)."""

RUNS = _table(
    {
        "order": TEXT,
        "repositories": NUMBER,
        "brokers": NUMBER,
        "fanout": NUMBER,
        "delta": NUMBER,
        "publishers": NUMBER,
        "subscribers": NUMBER,
        "events": NUMBER,
        "crashes": NUMBER,
        "cuts": NUMBER,
        "beyond_delta": TEXT,
        "latency_ms": REAL,
        "swarm": FLAG,
        "seed": NUMBER,
    },
    {"max_down": NUMBER},
)
"""What to simulate: the fields of :class:`gapless.simulation.run.Options`, and the seed."""

RESULTS = StructType(
    [
        StructField("run", TEXT, nullable=False),
        *RUNS.fields,
        *_table(
            {
                "verdict": TEXT,
                "counts": NUMBERS,
                "published": NUMBER,
                "delivered": NUMBER,
                "faults": NUMBER,
                "simulated_seconds": REAL,
                "messages": NUMBER,
                "resets": NUMBER,
                "kinds": NUMBERS,
                "digest": TEXT,
                "command": TEXT,
            },
            {},
        ).fields,
    ]
)
"""What came of a run: its name in a trace table, its options and seed, what happened, and the command that
runs it again; ``counts`` is {kind of violation: how many},
``kinds`` {kind of act: how many} of a run that draws them."""

SHARES = _table({"scenario": TEXT, "deviations": NUMBER, "share": NUMBER, "shares": NUMBER}, {})
"""What to explore: a part of the schedules of a scenario, by their first deviation."""

EXPLORATIONS = StructType(
    [
        *SHARES.fields,
        *_table(
            {
                "schedules": NUMBER,
                "states": NUMBER,
                "moves": NUMBER,
                "steps": NUMBER,
                "seconds": REAL,
                "violating": NUMBER,
            },
            {"schedule": TEXTS, "found_after": NUMBER, "faults": TEXTS},
        ).fields,
    ]
)
"""What came of a share: the counts of :class:`gapless.simulation.explore.Exploration`, and the shortest
schedule that breaks a promise, if any does, with its number of moves and what is wrong."""
