"""A batch matched column by column: what each selector alone says of each event, whatever the types."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from gapless.matching.predicates import Among, Evaluated, Numbers
from gapless.matching.reading import Key, Known, Reading
from gapless.selectors import Selector
from gapless.spark import columnar
from gapless.spark.attributes import Branch, Leaf
from gapless.spark.columnar import Batch, ColumnIndex, Intervals, Values
from spark.conditions import WildConditions, tried, wild_events

COLUMNS: dict[str, tuple[pa.DataType, Callable[[dict[str, Any]], Any]]] = {
    "n": (pa.int64(), lambda event: event["n"]),
    "huge": (pa.decimal128(38, 0), lambda event: None if event["huge"] is None else Decimal(event["huge"])),
    "x": (pa.float64(), lambda event: event["x"]),
    "f": (pa.float32(), lambda event: event["f"]),
    "s": (pa.string(), lambda event: event["s"]),
    "b": (pa.bool_(), lambda event: event["b"]),
    "desk": (pa.bool_(), lambda event: event["desk"] is not None),
    "desk.region": (pa.string(), lambda event: (event["desk"] or {}).get("region")),
    "desk.floor": (pa.int32(), lambda event: (event["desk"] or {}).get("floor")),
    'desk."odd name"': (pa.string(), lambda event: (event["desk"] or {}).get("odd name")),
    "tags": (pa.bool_(), lambda event: event["tags"] is not None),
    "tags.color": (pa.string(), lambda event: (event["tags"] or {}).get("color")),
    "tags.size": (pa.string(), lambda event: (event["tags"] or {}).get("size")),
    "blob": (pa.bool_(), lambda event: event["blob"] is not None),
    "list": (pa.bool_(), lambda event: event["list"] is not None),
    "at": (pa.bool_(), lambda event: event["at"] is not None),
    '"desk.region"': (pa.string(), lambda event: event["desk.region"]),
}
AT = {name: number for number, name in enumerate(COLUMNS)}
TREE = Branch(
    inner={
        **{name: Leaf(AT[name], is_decimal=name == "huge") for name in ("n", "huge", "x", "f", "s", "b")},
        "desk": Branch(
            AT["desk"],
            {
                "region": Leaf(AT["desk.region"], False),
                "floor": Leaf(AT["desk.floor"], False),
                "odd name": Leaf(AT['desk."odd name"'], False),
            },
        ),
        "tags": Branch(
            AT["tags"], {"color": Leaf(AT["tags.color"], False), "size": Leaf(AT["tags.size"], False)}
        ),
        **{name: Branch(AT[name]) for name in ("blob", "list", "at")},
        "desk.region": Leaf(AT['"desk.region"'], False),
    }
)
NUMERIC: dict[Key, type[int | float]] = {"n": int, "x": float, "f": float, ("desk", "floor"): int}


def batch_of(events: list[dict[str, Any]]) -> Batch:
    """The attributes in columns, as Spark would hand them over."""
    columns = [pa.array([value(event) for event in events], kind) for kind, value in COLUMNS.values()]
    return Batch(columns, len(events), TREE)


def index_of(*texts: str) -> ColumnIndex:
    return ColumnIndex(((number, Selector(text).condition) for number, text in enumerate(texts)), NUMERIC)


def matched(index: ColumnIndex, batch: Batch) -> list[tuple[int, int]]:
    pieces = index.match(batch)
    return [pair for rows, found in pieces for pair in zip(rows.tolist(), found.tolist(), strict=True)]


def by_force(texts: list[str], events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    selectors = [Selector(text) for text in texts]
    return [
        (row, number)
        for row, event in enumerate(events)
        for number, selector in enumerate(selectors)
        if selector.matches(event)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_equals_each_selector_alone(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    source = WildConditions(seed)
    texts = tried(source, 150)
    events = wild_events(source.random, 80)
    if seed % 2:
        monkeypatch.setattr(columnar, "RANGE_COST", 0)  # ranges first, wherever there is one
    expected = by_force(texts, events)
    assert len(expected) > len(events) * len(texts) / 20, "not next to nothing"
    assert matched(pickle.loads(pickle.dumps(index_of(*texts))), batch_of(events)) == expected


MUTANTS: dict[str, Callable[..., Any]] = {
    "_floating": lambda test: (float(test.low), math.inf if test.high is None else float(test.high)),
    "_whole": lambda test: (max(test.low, -(2**53)), 2**53 if test.high is None else min(test.high, 2**53)),
    "_accept": lambda tests, value: value is not None and all(test.accepts(value) for test in tests),
}
"""Ends of ranges that belong to them, integers as if they were floats, nulls that pass nothing."""


@pytest.mark.parametrize("name", MUTANTS)
def test_the_oracle_finds_what_is_wrong(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    source = WildConditions(2)
    texts = tried(source, 150)
    events = wild_events(source.random, 80)
    monkeypatch.setattr(columnar, name, MUTANTS[name])
    assert matched(index_of(*texts), batch_of(events)) != by_force(texts, events)


def test_many_pairs_are_looked_at_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    source = WildConditions(4)
    texts = tried(source, 60)
    events = wild_events(source.random, 50)
    monkeypatch.setattr(columnar, "PAIRS_MAX", 200)
    batch = batch_of(events)
    assert len(list(index_of(*texts).match(batch))) > 10
    assert matched(index_of(*texts), batch) == by_force(texts, events)


def test_whatever_way_the_columns_come(monkeypatch: pytest.MonkeyPatch) -> None:
    """Slices of larger arrays, dictionaries, large texts; and one row at a time."""
    source = WildConditions(8)
    texts = tried(source, 80)
    events = wild_events(source.random, 40)
    padded = batch_of(wild_events(source.random, 3) + events + wild_events(source.random, 2))
    columns = [column.slice(3, len(events)) for column in padded._columns]
    for number, column in enumerate(columns):
        if pa.types.is_string(column.type):
            columns[number] = column.dictionary_encode() if number % 2 else column.cast(pa.large_string())
    monkeypatch.setattr(columnar, "PAIRS_MAX", 1)
    assert matched(index_of(*texts), Batch(columns, len(events), TREE)) == by_force(texts, events)


def test_a_clause_that_many_share_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0
    holds = Evaluated.holds

    def counted(test: Evaluated, reading: Reading) -> bool:
        nonlocal asked
        asked += 1
        return holds(test, reading)

    monkeypatch.setattr(Evaluated, "holds", counted)
    events = wild_events(WildConditions(9).random, 50)
    texts = ["x * n > 1"] * 40 + ["s LIKE '%b'"] * 40
    assert matched(index_of(*texts), batch_of(events)) == by_force(texts, events)
    assert asked <= len(events) + len({event["s"] for event in events})


def test_many_who_want_everything_are_handed_over_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columnar, "PAIRS_MAX", 1_000)
    events = wild_events(WildConditions(10).random, 64)
    pieces = list(index_of(*["n IS NULL OR n IS NOT NULL"] * 300).match(batch_of(events)))
    assert all(len(rows) <= 1_000 for rows, _ in pieces)
    assert sum(len(rows) for rows, _ in pieces) == 300 * 64


def test_a_subscription_is_found_once_whichever_of_its_clauses_hold() -> None:
    events = wild_events(WildConditions(5).random, 30)
    for event in events:
        event["s"], event["n"] = "ab", 1
    batch = batch_of(events)
    assert matched(index_of("s = 'ab' OR n = 1 OR s LIKE 'a%'"), batch) == [(row, 0) for row in range(30)]


def test_nobody_and_nothing() -> None:
    events = wild_events(WildConditions(6).random, 5)
    assert matched(index_of(), batch_of(events)) == []
    assert matched(index_of("TRUE", "s = 'a'", "n > 1", "x * n > 2"), batch_of([])) == []
    assert matched(index_of("FALSE", "TRUE"), batch_of(events)) == [(row, 1) for row in range(5)]


WHOLE = [-(2**63), 1 - 2**63, -(2**53) - 1, -1, 0, 1, 2, 2**53, 2**53 + 1, 2**63 - 2, 2**63 - 1]
FLOATS = [
    -math.inf,
    -1.7976931348623157e308,
    -1.0,
    -5e-324,
    -0.0,
    5e-324,
    0.1,
    2.0**53,
    2.0**63,
    1e308,
    math.inf,
]
BOUNDS: list[int | float] = [
    *WHOLE, *FLOATS, 1.5, -1.5, 2**63, -(2**63) - 1, 10**400, -(10**400), 2**53 + 3, 1.0000000000000002,
]  # fmt: skip


@pytest.mark.parametrize("kind", [int, float])
def test_the_ends_of_ranges_are_exact_in_the_type_of_the_column(kind: type[int | float]) -> None:
    values: list[Any] = WHOLE if kind is int else FLOATS
    tests = [
        Numbers("v", low, high) for low in BOUNDS for high in (*BOUNDS, None) if high is None or low < high
    ]
    tree = Branch(inner={"v": Leaf(0, is_decimal=False)})
    batch = Batch([pa.array(values, pa.int64() if kind is int else pa.float64())], len(values), tree)
    expected = [
        (row, number)
        for number, test in enumerate(tests)
        for row, value in enumerate(values)
        if test.accepts(value)
    ]
    numbers, rows = Intervals("v", [*tests], kind).propose(batch, np.arange(len(tests))).pairs()
    assert sorted(zip(numbers.tolist(), rows.tolist(), strict=True)) == sorted((n, r) for r, n in expected)


def test_a_predicate_is_asked_once_of_each_value(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []
    accepts = Among.accepts

    def noted(test: Among, value: Known) -> bool:
        asked.append(value)
        return accepts(test, value)

    monkeypatch.setattr(Among, "accepts", noted)
    tests = Values("v", [(Among("v", ("a",)),)] * 3)
    batch = Batch([pa.array(["a", "b", None] * 100)], 300, Branch(inner={"v": Leaf(0, is_decimal=False)}))
    rows = np.arange(300)
    assert tests.passed(batch, rows, rows % 3).tolist() == [True, False, False] * 100
    assert sorted(asked) == ["a", "b"]
