"""Which selectors an event matches, by the project's own matching index.

The selectors of each run and topic go to the executors with the function that matches; a worker makes an
index of them when it meets the first event of that run and topic, and keeps the indexes that it used last.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TypeAlias

import msgspec
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType

from gapless.matching import MatchIndex
from gapless.selectors import Selector
from gapless.spark.schemas import TEXTS

INDEXES_MAX = 64
"""So many indexes a worker keeps; events of one run usually come together."""

Selectors: TypeAlias = Mapping[tuple[str, str], tuple[str, ...]]
"""By run and topic."""


def match(publications: DataFrame, selectors: Selectors) -> DataFrame:
    """Publications with the ``selectors`` of their run and topic that they match, without ``attributes``."""
    kept = StructType([each for each in publications.schema if each.name != "attributes"])
    return publications.mapInArrow(_matcher(selectors), kept.add("selectors", TEXTS))


def _matcher(selectors: Selectors) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def matched(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            columns = (batch.column(name).to_pylist() for name in ("run", "topic", "attributes"))
            found = [
                _index(asked).match(msgspec.json.decode(attributes))
                if (asked := selectors.get((run, topic)))
                else []
                for run, topic, attributes in zip(*columns, strict=True)
            ]
            kept = batch.drop_columns("attributes")
            yield kept.append_column("selectors", pa.array(found, pa.list_(pa.string())))

    return matched


@lru_cache(maxsize=INDEXES_MAX)
def _index(selectors: tuple[str, ...]) -> MatchIndex[str]:
    """The index of some selectors, each under its own text."""
    index: MatchIndex[str] = MatchIndex()
    for selector in selectors:
        index.add(selector, Selector(selector))
    return index
