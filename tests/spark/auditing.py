"""Traces for the tests of the audit, and what the checkers in this process say about them.

``PYTHONPATH=tests python -m spark.auditing 4000`` compares the audit with the checkers on so many traces, by
every promise, in runs that ended healed and in runs that did not; the tests do it with a few hundred.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import replace
from itertools import product
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any, TypeAlias

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame
from pyspark.sql.pandas.types import to_arrow_schema

from gapless.core.model import OrderName
from gapless.simulation.checkers import check
from gapless.simulation.run import Options, simulate
from gapless.simulation.trace import Confirm, Crash, Deliver, Live, Publish, Record, Reset, Subscribe
from gapless.spark.jobs.audit import transform
from gapless.spark.jobs.simulate import rows_of
from gapless.spark.schemas import TRACE
from gapless.spark.session import open_session
from simulation.histories import chaotic, correct
from simulation.mutants import broken
from simulation.test_mutants import PINNED, TINY

Found: TypeAlias = tuple[str, str, int, int, str | None, str | None, int | None, str]
"""A violation: run, kind, line, moment, subscription, publisher, sequence, message."""


def write(path: Path, traces: Mapping[str, Iterable[Record]]) -> str:
    """Many traces as one Parquet file."""
    rows = [row for run, trace in traces.items() for row in rows_of(run, trace)]
    pq.write_table(pa.Table.from_pylist(rows, to_arrow_schema(TRACE)), path, row_group_size=20_000)
    return str(path)


def expected(traces: Mapping[str, list[Record]], **options: Any) -> Counter[Found]:
    """All violations that the checkers find."""
    return Counter(
        (run, v.kind.value, v.index + 1, v.t, v.subscription, v.publisher, v.sequence, v.message)
        for run, trace in traces.items()
        for v in check(trace, limit=10**9, **options)
    )


def found(violations: DataFrame) -> Counter[Found]:
    """All violations that the audit finds."""
    names = ("run", "kind", "line", "t", "subscription", "publisher", "sequence", "message")
    columns = violations.select(*names).toArrow().to_pydict()
    return Counter(zip(*columns.values(), strict=True))


def varied(rng: Random) -> list[Record]:
    """A chaotic history with all that records can say: topics, brokers, positions, withdrawals, moves."""
    topics = {name: rng.choice("tttu") for name in "stuabc"}
    return [_varied(rng, record, topics) for record in chaotic(rng)]


def _varied(rng: Random, record: Record, topics: Mapping[str, str]) -> Record:
    match record:
        case Subscribe():
            client = rng.choice((record.client, record.client, "b", "z"))
            return msgspec.structs.replace(record, topic=topics[record.subscription], client=client)
        case Publish():
            sequence = max(1, record.sequence + rng.choice((0,) * 12 + (-2, -1, 1, 5)))
            topic = topics[record.publisher] if rng.random() < 0.9 else "u"
            return msgspec.structs.replace(
                record, sequence=sequence, topic=topic, broker=rng.choice(("", "x", "y"))
            )
        case Confirm():
            return msgspec.structs.replace(record, topic=rng.choice(("", "t", "u")))
        case Live():
            position = rng.choice((None, None, 3, 4))
            unreachable = rng.choice((record.unreachable, (), ("x",), ("", "c")))
            return msgspec.structs.replace(record, position=position, unreachable=unreachable)
        case Reset():
            return msgspec.structs.replace(record, publishers=rng.choice((record.publishers, ("a", "b"), ())))
        case Deliver() if rng.random() < 0.05:
            return msgspec.structs.replace(record, client=rng.choice("bz"))
        case Crash():
            return msgspec.structs.replace(record, node=rng.choice((record.node, "b", "z")))
        case _:
            return record


def damaged(rng: Random) -> list[Record]:
    """A correct history with one delivery dropped, repeated, or exchanged with another one."""
    trace = correct(rng)
    indices = [i for i, record in enumerate(trace) if isinstance(record, Deliver)]
    if len(indices) > 1:
        i, j = sorted(rng.sample(indices, 2))
        match rng.choice(("drop", "repeat", "exchange")):
            case "drop":
                del trace[i]
            case "repeat":
                trace.insert(j, trace[i])
            case _:
                trace[i], trace[j] = trace[j], trace[i]
    return trace


def simulated(options: Options, seed: int, mutant: str | None = None) -> list[Record]:
    """What happened in a run, of the protocol with a fault if a ``mutant`` is named."""
    with broken(mutant) if mutant else nullcontext():
        return list(simulate(options, seed)[1])


def many(number: int) -> dict[str, list[Record]]:
    """About so many traces of kept and broken promises, a few of them simulated."""
    made = {"chaotic": chaotic, "varied": varied, "correct": correct, "damaged": damaged}
    runs = {
        f"{kind}-{seed}": make(Random(seed)) for kind, make in made.items() for seed in range(number // 4)
    }
    small = replace(TINY, events=20)
    for seed in range(number // 40):
        runs[f"best-effort-{seed}"] = simulated(replace(small, order=OrderName.BEST_EFFORT), seed)
        runs[f"publisher-{seed}"] = simulated(small, seed)
    for mutant, (options, seeds) in PINNED.items():
        for seed in range(seeds[0], seeds[0] + 1 + number // 400):
            runs[f"mutant-{mutant}-{seed}"] = simulated(replace(options, events=40), seed, mutant)
    return runs


def main(number: int) -> int:
    """Exit code 0 when the audit finds exactly what the checkers find."""
    traces = many(number)
    session = open_session("audit and checkers")
    with TemporaryDirectory() as directory:
        rows = session.read.parquet(write(Path(directory) / "traces.parquet", traces))
        ends = ({"healed": True}, {"healed": True, "durable": True}, {"healed": False})
        same = [_compare(rows, traces, promise=promise, **end) for promise, end in product(OrderName, ends)]
    return 0 if all(same) else 1


def _compare(rows: DataFrame, traces: Mapping[str, list[Record]], **options: Any) -> bool:
    theirs, ours = expected(traces, **options), found(transform(rows, **options, whole=0))
    rows.sparkSession.catalog.clearCache()
    clean, verdict = len(traces) - len({run for run, *_ in theirs}), "same" if ours == theirs else "DIFFERENT"
    counts = dict(Counter(kind for _, kind, *_ in theirs.elements()))
    told = f"{verdict}: {options}, {len(traces):,} traces, {clean:,} of them clean: {counts}"
    sys.stdout.write(f"{told}\n")
    sys.stdout.flush()
    return ours == theirs


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
