"""Events × subscriptions on Spark: what becomes of columns, what is refused, what travels to the workers."""

from __future__ import annotations

import math
import os
import pickle
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as f

from gapless.selectors import Selector
from gapless.spark.attributes import Branch, Leaf
from gapless.spark.columnar import ColumnIndex
from gapless.spark.jobs import match
from spark.clusters import Cluster

DESKS = "id LONG, symbol STRING, price DOUBLE, desk STRUCT<region: STRING, floor: INT>"
TRADES = [
    (1, "IBM", 131.2, ("EU-W", 3)),
    (2, "IBM", 99.0, None),
    (3, "SAP", 140.0, ("US-E", None)),
    (4, None, None, (None, None)),
]


def subscribed(session: SparkSession, *selectors: str) -> DataFrame:
    rows = [(text, text) for text in selectors]
    return session.createDataFrame(rows, "subscription STRING, selector STRING")


def matched(events: DataFrame, *selectors: str) -> dict[str, list[int]]:
    """The ids of the events that match each selector."""
    found: dict[str, list[int]] = {text: [] for text in selectors}
    subscriptions = subscribed(events.sparkSession, *selectors)
    for row in match.transform(events, subscriptions, keep=["id"]).orderBy("id").collect():
        found[row.subscription].append(row.id)
    return found


# -- columns and attributes ---------------------------------------------------------------------------------


def test_nested_attributes_and_nulls(spark: SparkSession) -> None:
    events = spark.createDataFrame(TRADES, DESKS)
    expected = {
        "symbol = 'IBM' AND price > 100": [1],
        "desk.region LIKE 'EU-%'": [1],
        "desk.region IS NULL": [2, 4],
        "desk IS NULL": [2],
        "desk IS NOT NULL AND desk.floor IS NULL": [3, 4],
        "price <> 131.2": [2, 3],
        "symbol IS NULL OR symbol = 'SAP'": [3, 4],
        "missing IS NULL AND desk.missing IS NULL": [1, 2, 3, 4],
        "price.cents IS NULL": [1, 2, 3, 4],
        "Price > 0 OR SYMBOL = 'IBM'": [],  # names are case-sensitive
        "": [1, 2, 3, 4],
    }
    assert matched(events, *expected) == expected


def test_numbers_are_exact(spark: SparkSession) -> None:
    rows = [
        (1, 2**63 - 1, Decimal(10**38 - 1), Decimal("0.10"), 0.1, 0.5),
        (2, 2**53 + 1, Decimal(2**64), Decimal("7.00"), math.nan, math.nan),
        (3, 2**53, Decimal(2**64 + 1), Decimal("-0.01"), math.inf, -0.0),
    ]
    events = spark.createDataFrame(
        rows, "id LONG, n LONG, huge DECIMAL(38, 0), cents DECIMAL(10, 2), x DOUBLE, f FLOAT"
    )
    expected = {
        "n = 9223372036854775807": [1],
        "n > 9223372036854775806.0": [],  # as a float it is 2**63
        "n = 9007199254740992.0": [3],
        "n <> 9007199254740992": [1, 2],
        "huge = 18446744073709551617": [3],
        "huge = 99999999999999999999999999999999999999": [1],
        "huge = 18446744073709551616.0": [2],
        "cents = 0.1": [1],
        "cents = 7": [2],
        "cents * 100 = -1": [3],
        "x <> 0 OR x = 0 OR x > 0 OR NOT x > 0": [1, 3],  # NaN compares with nothing
        "x IS NOT NULL": [1, 2, 3],
        "f = 0": [3],
        "f IN (0.5)": [1],
    }
    assert matched(events, *expected) == expected


def test_where_spark_sql_means_something_else(spark: SparkSession) -> None:
    """What ``Selector.matches`` says, and what Spark SQL says of the same text; ``None``: it fails."""
    event = {"id": 1, "s": "7", "n": 7, "zero": 0, "nan": math.nan, "slash": "a\\b", "large": 2**53 + 1}
    events = spark.createDataFrame([Row(**event)])
    answers = {
        "s = 7": (False, True),
        "n <> 's'": (False, None),
        "n / zero > 1 OR n = 7": (True, None),
        "nan = nan": (False, True),
        "nan > 1": (False, True),
        "slash LIKE 'a\\b'": (True, False),  # a backslash begins an escape in Spark's texts
        "N = 7": (False, True),
        "large = 9007199254740992E0": (False, True),
    }
    found = matched(events, *answers)
    for text, (here, there) in answers.items():
        assert Selector(text).matches(event) is here
        assert found[text] == [1] * here
        assert by_spark_sql(events, text) is there, text


def by_spark_sql(events: DataFrame, text: str) -> bool | None:
    try:
        return bool(events.select(f.expr(text).alias("truth")).collect()[0].truth)
    except PySparkException:
        return None


def test_a_map_with_texts_as_keys_has_attributes_in_it(spark: SparkSession) -> None:
    rows = [(1, {"color": "red"}), (2, {}), (3, None), (4, {"color": None, "size": "7"})]
    events = spark.createDataFrame(rows, "id LONG, tags MAP<STRING, STRING>")
    expected = {"tags.color = 'red'": [1], "tags.color IS NULL": [2, 3, 4], "tags IS NULL": [3]}
    assert matched(events, *expected) == expected


def test_names_of_any_kind(spark: SparkSession) -> None:
    rows = [(1, "a", ("b",), 7)]
    events = spark.createDataFrame(rows, "id LONG, `a.b` STRING, a STRUCT<`b c`: STRING>, `x``y` LONG")
    expected = {"\"a.b\" = 'a'": [1], "a.\"b c\" = 'b'": [1], "a.b IS NULL": [1], '"x`y" = 7': [1]}
    assert matched(events, *expected) == expected


EVERYTHING = (
    "id LONG, day DATE, at TIMESTAMP, local TIMESTAMP_NTZ, bytes BINARY, list ARRAY<STRUCT<a: INT>>, "
    "map MAP<STRING, DECIMAL(5, 2)>, price DECIMAL(20, 4), nothing VOID, f FLOAT, desk STRUCT<region: STRING>"
)
FULL = (
    1, date(2027, 1, 2), datetime(2027, 1, 2, 3, 4, 5, 678, tzinfo=UTC), datetime(2027, 1, 2), b"\0\xff",
    [(1,), None], {"a": Decimal("1.25")}, Decimal("123456789.1234"), None, 0.1, ("EU",),
)  # fmt: skip


def test_columns_are_kept_as_they_are(spark: SparkSession) -> None:
    events = spark.createDataFrame([FULL, (2, *[None] * 10)], EVERYTHING)
    matches = match.transform(events, subscribed(spark, "id > 0", "price > 1"))
    assert matches.columns == [*events.columns, "subscription"]
    assert [each.dataType for each in matches.schema][:-1] == [each.dataType for each in events.schema]
    by_id = {row.id: row for row in events.collect()}
    found = matches.collect()
    assert sorted((row.id, row.subscription) for row in found) == [
        (1, "id > 0"),
        (1, "price > 1"),
        (2, "id > 0"),
    ]
    assert all(row[:-1] == tuple(by_id[row.id]) for row in found)


def test_what_is_kept_is_chosen(spark: SparkSession) -> None:
    events = spark.createDataFrame(TRADES, DESKS)
    two = match.transform(events, subscribed(spark, "price > 100"), keep=["symbol", "id"])
    assert sorted(map(tuple, two.collect())) == [("IBM", 1, "price > 100"), ("SAP", 3, "price > 100")]
    none = match.transform(events, subscribed(spark, "TRUE"), keep=[])
    assert list(map(tuple, none.collect())) == [("TRUE",)] * 4


def test_subscriptions_are_texts_or_integers(spark: SparkSession) -> None:
    subscriptions = spark.createDataFrame([(2**40, "id < 3")], "subscription LONG, selector STRING")
    matches = match.transform(spark.createDataFrame(TRADES, DESKS), subscriptions, keep=["id"])
    assert sorted(map(tuple, matches.collect())) == [(1, 2**40), (2, 2**40)]


def test_topics(spark: SparkSession) -> None:
    rows = [(1, "trades", 5), (2, "orders", 5), (3, "trades", 0), (4, None, 5), (5, "idle", 5)]
    events = spark.createDataFrame(rows, "id LONG, topic STRING, n INT")
    many = " OR ".join(f"n = {5 * each} AND id < {100 + each}" for each in range(70))
    wanted = [
        ("a", "n > 1", "trades"),
        ("b", "n > 1", "orders"),
        ("c", "topic = 'trades'", "trades"),
        ("d", "topic = 'orders' OR topic IS NULL", "trades"),
        ("e", f"n > 1 AND ({many})", "trades"),
    ]
    subscriptions = spark.createDataFrame(wanted, "subscription STRING, selector STRING, topic STRING")
    matches = match.transform(events, subscriptions, keep=["id"])
    assert sorted(map(tuple, matches.collect())) == [(1, "a"), (1, "c"), (1, "e"), (2, "b"), (3, "c")]
    untold = match.transform(events, subscriptions.drop("topic"), keep=["id"])
    assert untold.where("subscription = 'a'").count() == 4


def test_nobody_and_nothing(spark: SparkSession) -> None:
    events = spark.createDataFrame(TRADES, DESKS)
    assert match.transform(events, subscribed(spark).limit(0)).count() == 0
    assert match.transform(events.limit(0), subscribed(spark, "TRUE")).count() == 0
    assert match.transform(events.where("id = 1").repartition(5), subscribed(spark, "TRUE")).count() == 1


def test_only_what_selectors_name_is_read(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spark.createDataFrame(TRADES, DESKS).write.parquet(str(tmp_path / "events"))
    events = spark.read.parquet(str(tmp_path / "events"))
    match.transform(events, subscribed(spark, "desk.region = 'EU-W'"), keep=["id"]).explain()
    read = next(line for line in capsys.readouterr().out.splitlines() if "ReadSchema" in line)
    assert read.endswith("ReadSchema: struct<id:bigint,desk:struct<region:string>>")


# -- what is refused ----------------------------------------------------------------------------------------


def test_bad_selectors_are_named_before_anything_is_matched(spark: SparkSession) -> None:
    rows = [(f"s{number}", "price > > 5" if number < 12 else "price > 5") for number in range(20)]
    subscriptions = spark.createDataFrame(rows, "subscription STRING, selector STRING")
    with pytest.raises(match.SubscriptionsError) as caught:
        match.transform(spark.createDataFrame(TRADES, DESKS), subscriptions)
    told = str(caught.value)
    assert told.startswith("12 of 20 subscriptions are bad\n's0': ")
    assert told.count("(line 1, column 9)\n  price > > 5\n          ^") == match.NAMED_MAX
    assert told.endswith("and 2 more")
    assert [name for name, _ in caught.value.flaws] == [f"s{number}" for number in range(12)]


def test_other_bad_subscriptions(spark: SparkSession) -> None:
    rows = [
        (None, "TRUE", "t"),
        ("a", "TRUE", "t"),
        ("a", "FALSE", "t"),
        ("b", None, "t"),
        ("c", "TRUE", None),
    ]
    subscriptions = spark.createDataFrame(rows, "subscription STRING, selector STRING, topic STRING")
    events = spark.createDataFrame([("t",)], "topic STRING")
    with pytest.raises(match.SubscriptionsError) as caught:
        match.transform(events, subscriptions)
    assert [(name, flaw.split(";")[0]) for name, flaw in caught.value.flaws] == [
        (None, "a subscription is null"),
        ("a", "there are two subscriptions of this name"),
        ("b", "the selector is null"),
        ("c", "the topic is null"),
    ]


@pytest.mark.parametrize(
    ("selector", "why"),
    [
        (
            "at > '2027'",
            "at is of type timestamp, which selectors do not compare: make it a number (unix_micros)",
        ),
        ("NOT day IN ('x')", "day is of type date"),
        ("bytes LIKE '%'", "bytes is of type binary"),
        ("id > 1 AND list + 1 > 2", "list is of type array<struct<a:int>>"),
        ("desk = 'EU'", "desk is of type struct<region:string>"),
        ("map", "map is of type map<string,decimal(5,2)>"),
    ],
)
def test_what_no_selector_can_compare_is_refused(spark: SparkSession, selector: str, why: str) -> None:
    events = spark.createDataFrame([FULL], EVERYTHING)
    with pytest.raises(match.SubscriptionsError) as caught:
        match.transform(events, subscribed(spark, selector, "TRUE"))
    assert str(caught.value).startswith("1 of 2 subscriptions are bad\n")
    assert why in str(caught.value)


def test_whether_it_is_null_can_be_asked_of_everything(spark: SparkSession) -> None:
    events = spark.createDataFrame([FULL, (2, *[None] * 10)], EVERYTHING)
    names = [name for name in events.columns if name not in ("id", "nothing")]
    expected = {f"{name} IS NOT NULL": [1] for name in names} | {f"{name} IS NULL": [2] for name in names}
    expected["nothing IS NULL"] = [1, 2]
    assert matched(events, *expected) == expected


@pytest.mark.parametrize(
    ("events", "subscriptions", "keep", "why"),
    [
        (
            "id LONG",
            "selector STRING",
            None,
            "the subscriptions have no column subscription; they have selector",
        ),
        ("id LONG", "subscription DOUBLE, selector STRING", None, "must be a text or an integer, not double"),
        ("id LONG", "subscription LONG, selector LONG", None, "must be a text, not bigint"),
        (
            "id LONG",
            "subscription LONG, selector STRING, topic STRING",
            None,
            "the events have no column topic",
        ),
        ("topic INT", "subscription LONG, selector STRING, topic STRING", None, "must be a text, not int"),
        (
            "id LONG",
            "subscription LONG, selector STRING",
            ["key"],
            "the events have no column key; they have id",
        ),
        ("subscription LONG", "subscription LONG, selector STRING", None, "rename that of the events"),
    ],
)
def test_wrong_columns(
    spark: SparkSession, events: str, subscriptions: str, keep: list[str] | None, why: str
) -> None:
    tables = [spark.createDataFrame([], schema) for schema in (events, subscriptions)]
    with pytest.raises(ValueError, match=why):
        match.transform(*tables, keep=keep)


def test_too_many_subscriptions(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(match, "SUBSCRIPTIONS_MAX", 2)
    events = spark.createDataFrame(TRADES, DESKS)
    assert match.transform(events, subscribed(spark, "TRUE", "id = 1")).count() == 5
    with pytest.raises(ValueError, match="at most 2 subscriptions at a time"):
        match.transform(events, subscribed(spark, "TRUE", "id = 1", "id = 2"))


# -- what travels to the workers ----------------------------------------------------------------------------


def matcher_of(count: int) -> match.Matcher:
    condition = Selector("n >= 0").condition
    index = ColumnIndex(((number, condition) for number in range(count)), {"n": int})
    tree = Branch(inner={"n": Leaf(0, is_decimal=False)})
    return match.Matcher(["id"], tree, index, pa.array(range(count), pa.int64()))


def test_matches_are_handed_over_some_at_a_time() -> None:
    """Events that match everything need no more memory than others; and a pickled matcher is the same."""
    count, events = 5_000, 40
    batch = pa.RecordBatch.from_pydict({"0": range(events), "1": range(events)})
    for matcher in (matcher_of(count), match._unpickled(pickle.dumps(matcher_of(count)))):
        taken = list(matcher.match([batch]))
        assert len(taken) > 1
        assert all(each.num_rows <= match.ROWS_MAX for each in taken)
        table = pa.Table.from_batches(taken)
        assert table["id"].to_pylist() == [event for event in range(events) for _ in range(count)]
        assert table["subscription"].to_pylist() == list(range(count)) * events


def test_a_worker_unpickles_the_index_once(spark: SparkSession) -> None:
    get = match._shared(spark, matcher_of(3))

    def tell(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            get().kept.append("seen")  # what the next task in this process finds, if it is the same object
            yield pa.RecordBatch.from_pydict({"process": [os.getpid()], "tasks": [len(get().kept) - 1]})

    rows = spark.range(12, numPartitions=12).mapInArrow(tell, "process LONG, tasks LONG").collect()
    per_process: dict[int, list[int]] = {}
    for row in rows:
        per_process.setdefault(row.process, []).append(row.tasks)
    assert len(rows) == 12
    assert all(sorted(seen) == list(range(1, len(seen) + 1)) for seen in per_process.values())
    assert len(per_process) < len(rows)


def in_cluster(cluster: SparkSession, selectors: list[str]) -> list[Any]:
    """The matches of some events."""
    events = cluster.range(5_000).select("id", (f.col("id") % 97).alias("n"), f.lit("x").alias("s"))
    subscriptions = cluster.createDataFrame(list(enumerate(selectors)), "subscription LONG, selector STRING")
    return sorted(map(tuple, match.transform(events.repartition(8), subscriptions, keep=["id"]).collect()))


@pytest.mark.slow
def test_the_broadcast_reaches_a_real_cluster(cluster: Cluster) -> None:
    selectors = [f"n = {number} AND s = 'x'" for number in range(50)] + ["n > 90", "id BETWEEN 10 AND 12"]
    parsed = [Selector(text) for text in selectors]
    expected = [
        (event, number)
        for event in range(5_000)
        for number, selector in enumerate(parsed)
        if selector.matches({"id": event, "n": event % 97, "s": "x"})
    ]
    assert len(expected) > 2_500
    assert cluster.run(in_cluster, selectors) == expected
