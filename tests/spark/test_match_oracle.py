"""Matches on Spark against Spark SQL's own evaluation of the conditions, and against each selector alone.

Selectors are SQL conditions, and where Spark SQL means the same it is the oracle: comparisons of like types,
BETWEEN, IN, LIKE without a backslash, IS NULL, sums and products that do not overflow, three-valued logic. It
means something else, and is left out here and shown in ``test_match``, where types are unlike (Spark
converts or refuses, a selector is unknown), a divisor is zero (Spark fails), a value is NaN (for Spark equal
to itself and greater than all numbers), a name differs in case only, and an integer beyond 2**53 meets a
float (Spark rounds it). There ``Selector.matches`` of each subscription alone is what must come out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from gapless.selectors import Selector
from gapless.spark.jobs import match
from spark.conditions import (
    SCHEMA,
    WILD_SCHEMA,
    Conditions,
    WildConditions,
    events_of,
    stored,
    tried,
    wild_events,
)

INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
"""To compile conditions for a few rows takes longer than to evaluate them."""


@contextmanager
def interpreted(session: SparkSession) -> Iterator[None]:
    before = {name: session.conf.get(name, None) for name in INTERPRETED}
    for name, value in INTERPRETED.items():
        session.conf.set(name, value)
    yield
    for name, was in before.items():
        session.conf.unset(name) if was is None else session.conf.set(name, was)


def by_spark_sql(events: DataFrame, texts: list[str]) -> tuple[set[tuple[int, int]], int]:
    """The matches as Spark SQL evaluates the conditions, and how many conditions are unknown."""
    found, unknown = set(), 0
    for start in range(0, len(texts), 25):
        chunk = texts[start : start + 25]
        columns = [f.expr(text).alias(str(start + place)) for place, text in enumerate(chunk)]
        for row in events.select("id", *columns).collect():
            truths = row.asDict()
            number = truths.pop("id")
            found |= {(number, int(name)) for name, truth in truths.items() if truth}
            unknown += sum(truth is None for truth in truths.values())
    return found, unknown


def subscribed(session: SparkSession, texts: list[str]) -> DataFrame:
    return session.createDataFrame(list(enumerate(texts)), "subscription LONG, selector STRING")


def pairs(matches: DataFrame) -> list[tuple[int, int]]:
    return sorted((row.id, row.subscription) for row in matches.collect())


@pytest.mark.parametrize(("seed", "count"), [(1, 50), pytest.param(2, 250, marks=pytest.mark.slow)])
def test_equals_spark_sql_where_it_means_the_same(spark: SparkSession, seed: int, count: int) -> None:
    source = Conditions(seed)
    texts = [source.condition() for _ in range(count)]
    events = spark.createDataFrame(events_of(source.random, 150), SCHEMA).repartition(3).cache()
    with interpreted(spark):
        expected, unknown = by_spark_sql(events, texts)
    assert pairs(match.transform(events, subscribed(spark, texts), keep=["id"])) == sorted(expected)
    everything = len(texts) * 150
    assert everything / 5 < len(expected) < everything * 4 / 5, "neither all nor nothing"
    assert unknown > everything / 20
    assert len({number for _, number in expected}) > len(texts) * 0.7
    events.unpersist()


# -- every type, every condition: against each selector alone -----------------------------------------------


def test_equals_each_selector_alone_whatever_the_types(spark: SparkSession) -> None:
    source = WildConditions(seed=2)
    texts = tried(source, 400)
    events = wild_events(source.random, 150)
    table = spark.createDataFrame(list(map(stored, events)), WILD_SCHEMA).repartition(3)
    selectors = [Selector(text) for text in texts]
    expected = [
        (event["id"], number)
        for event in events
        for number, selector in enumerate(selectors)
        if selector.matches(event)
    ]
    assert pairs(match.transform(table, subscribed(spark, texts), keep=["id"])) == expected
    assert len(events) * len(texts) / 10 < len(expected), "not next to nothing"
