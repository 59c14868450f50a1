"""The trace format: what is written, what is read back, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gapless.simulation import trace
from gapless.simulation.trace import (
    Confirm,
    Crash,
    Cut,
    Deliver,
    Fenced,
    Heal,
    Live,
    Publish,
    Record,
    Reset,
    Restart,
    Subscribe,
    Trace,
    TraceError,
    TraceWriter,
    Unsubscribe,
    decode,
    encode,
)

FIXED: list[tuple[Record, str]] = [
    (
        Subscribe(t=1, client="c", subscription="s", topic="t", selector="n > 1", broker="b"),
        '{"kind":"subscribe","t":1,"client":"c","subscription":"s","topic":"t",'
        '"selector":"n > 1","broker":"b"}',
    ),
    (Live(t=2, subscription="s"), '{"kind":"live","t":2,"subscription":"s"}'),
    (Unsubscribe(t=3, subscription="s"), '{"kind":"unsubscribe","t":3,"subscription":"s"}'),
    (
        Publish(t=4, client="c", publisher="p", sequence=1, topic="t", attributes={"n": 1, "d": {"r": None}}),
        '{"kind":"publish","t":4,"client":"c","publisher":"p","sequence":1,"topic":"t",'
        '"attributes":{"n":1,"d":{"r":null}}}',
    ),
    (Confirm(t=5, publisher="p", sequence=1), '{"kind":"confirm","t":5,"publisher":"p","sequence":1}'),
    (
        Deliver(t=6, client="c", subscription="s", publisher="p", sequence=1, best_effort=False),
        '{"kind":"deliver","t":6,"client":"c","subscription":"s","publisher":"p","sequence":1,'
        '"best_effort":false}',
    ),
    (Crash(t=7, node="b"), '{"kind":"crash","t":7,"node":"b"}'),
    (Restart(t=8, node="b"), '{"kind":"restart","t":8,"node":"b"}'),
    (Cut(t=9, nodes=("a", "b")), '{"kind":"cut","t":9,"nodes":["a","b"]}'),
    (Heal(t=10, nodes=("a", "b")), '{"kind":"heal","t":10,"nodes":["a","b"]}'),
]

ADDITIONS: list[Record] = [
    Subscribe(t=1, client="c", subscription="s", topic="t", selector="", broker="b", durable="billing"),
    Live(t=2, subscription="s", start={"p": 3}, unreachable=("b7",), position=12),
    Reset(t=3, subscription="s", publishers=("p",), start={"p": 9}),
    Publish(t=4, client="c", publisher="p", sequence=2**40, topic="t", attributes={}, broker="b"),
    Confirm(t=5, publisher="p", sequence=1, topic="t"),
]

LATER: list[Record] = [Fenced(t=6, client="c", publisher="p")]
"""Kinds that are not in the digest below, which stays as it is for ever."""

RECORDS = [record for record, _ in FIXED] + ADDITIONS


@pytest.mark.parametrize(("record", "line"), FIXED, ids=[type(record).__name__ for record, _ in FIXED])
def test_the_fixed_format(record: Record, line: str) -> None:
    assert encode(record).decode() == line
    assert decode(line) == record


@pytest.mark.parametrize(
    "record", ADDITIONS + LATER, ids=[type(record).__name__ for record in ADDITIONS + LATER]
)
def test_additions_survive(record: Record) -> None:
    assert decode(encode(record)) == record


def test_fields_may_stand_in_any_order_and_unknown_ones_are_ignored() -> None:
    line = '{"t": 2, "colour": ["red"], "subscription": "s", "kind": "live"}'
    assert decode(line) == Live(t=2, subscription="s")


def test_attributes_keep_their_types() -> None:
    attributes = {
        "whole": 1,
        "real": 1.0,
        "large": 2**70,
        "yes": True,
        "none": None,
        "text": "ä\n",
        "deep": {"x": [1]},
    }
    record = Publish(t=0, client="c", publisher="p", sequence=1, topic="t", attributes=attributes)
    again = decode(encode(record))
    assert isinstance(again, Publish)
    assert again.attributes == attributes
    assert [type(value) for value in again.attributes.values()] == [
        int,
        float,
        int,
        bool,
        type(None),
        str,
        dict,
    ]


def test_a_trace_goes_to_a_file_and_back(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    Trace(RECORDS).write(path)
    assert len(path.read_text().splitlines()) == len(RECORDS)
    assert all(json.loads(line)["t"] > 0 for line in path.read_text().splitlines())
    again = Trace.read(path)
    assert again == Trace(RECORDS)
    assert list(trace.read(path)) == list(again) == RECORDS
    assert (len(again), again[1]) == (len(RECORDS), RECORDS[1])


def test_reading_is_lazy(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode(RECORDS[0]) + b"\nnonsense\n")
    assert next(trace.read(path)) == RECORDS[0]


def test_lines_without_text_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b"\n" + encode(RECORDS[0]) + b"\r\n \n")
    assert list(trace.read(path)) == RECORDS[:1]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "truncated"),
        ("[]", "Expected `object`"),
        ('{"kind":"live","subscription":"s"}', "missing required field `t`"),
        ('{"t":1,"subscription":"s"}', "missing required field `kind`"),
        ('{"kind":"lively","t":1}', "Invalid value 'lively'"),
        ('{"kind":"live","t":"1","subscription":"s"}', "Expected `int`"),
        ('{"kind":"live","t":-1,"subscription":"s"}', ">= 0"),
        ('{"kind":"confirm","t":1,"publisher":"p","sequence":0}', ">= 1"),
        ('{"kind":"cut","t":1,"nodes":["a"]}', "length 2"),
        (
            '{"kind":"deliver","t":1,"client":"c","subscription":"s","publisher":"p","sequence":1}',
            "best_effort",
        ),
        ('{"kind":"live","t":1,"subscription":"s"} {}', "trailing"),
    ],
)
def test_what_is_not_a_record_is_refused_with_its_line(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(encode(RECORDS[0]).decode() + "\n" + line + "\n")
    with pytest.raises(TraceError, match="line 2: ") as caught:
        Trace.read(path)
    assert reason in str(caught.value)


def test_bytes_that_are_not_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    path.write_bytes(b'{"kind":"crash","t":1,"node":"\xff"}\n')
    with pytest.raises(TraceError, match="line 1: "):
        Trace.read(path)


def test_the_digest_is_that_of_the_lines_and_the_same_for_ever(tmp_path: Path) -> None:
    whole = Trace(RECORDS)
    with TraceWriter(tmp_path / "run.jsonl") as writer:
        for record in RECORDS:
            writer.append(record)
    assert whole.digest() == writer.digest() == "887d6e86473589eb"
    assert Trace(RECORDS[:-1]).digest() != whole.digest()
    assert Trace(reversed(RECORDS)).digest() != whole.digest()
    assert Trace().digest() == "e3b0c44298fc1c14"


def test_traces_grow_and_compare() -> None:
    grown = Trace()
    for record in RECORDS:
        grown.append(record)
    assert grown == Trace(RECORDS)
    assert grown != Trace(RECORDS[1:])
    assert grown != RECORDS
