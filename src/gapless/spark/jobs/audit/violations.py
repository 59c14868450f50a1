"""What the checks say when they found something: rows of ``VIOLATIONS``."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from gapless.simulation.checkers import Kind
from gapless.spark.schemas import VIOLATIONS


def found(rows: DataFrame, kind: Kind, message: Column) -> DataFrame:
    """Every row is a violation; columns of ``VIOLATIONS`` that the rows do not have are NULL."""
    return _shown(rows.withColumns({"kind": f.lit(kind.value), "message": message}))


def found_in_each(rows: DataFrame, verdicts: Mapping[Kind, tuple[Column, Column]]) -> DataFrame:
    """A row is a violation of each kind whose condition it meets; with each condition comes the message."""
    each = [
        f.when(condition, f.struct(f.lit(kind.value).alias("kind"), message.alias("message")))
        for kind, (condition, message) in verdicts.items()
    ]
    return _shown(rows.select("*", f.inline(f.array_compact(f.array(*each)))))


def _shown(rows: DataFrame) -> DataFrame:
    columns = (
        f.col(each.name) if each.name in rows.columns else f.lit(None).cast(each.dataType).alias(each.name)
        for each in VIOLATIONS
    )
    return rows.select(*columns)


def text(*parts: str | Column) -> Column:
    """A message of texts and columns."""
    return f.concat(*(f.lit(part) if isinstance(part, str) else part for part in parts))


def event(publisher: str = "publisher", sequence: str = "sequence") -> Column:
    """How an event is called: ``p.1``."""
    return f.concat_ws(".", publisher, sequence)


def quoted(name: str) -> Column:
    """The text of a column in quotation marks, as Python would write it."""
    mark = f.when(f.col(name).contains("'"), '"').otherwise("'")
    return f.concat(mark, name, mark)
