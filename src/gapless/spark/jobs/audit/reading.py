"""Traces as Spark reads them, in exactly the order in which things happened.

**JSON lines.** Spark cuts a large file into splits and reads them side by side; a split knows at which byte
of which file it begins, and gives its lines in order. So a line's number is its place in the split and the
lines of the splits before it, which are counted first. Nothing is sorted, and no file is ever in one place.
A run is a file. As the lines are read many times and decoded by Python, they are persisted.

**Parquet** tables have the columns of ``TRACE``, those that a trace needs at least. A run is a value of the
column ``run``, or a file if there is none; the order is that of the column ``line``, or that of the rows of
the file.

What is wrong with a line is said in the column ``error``, not raised: an error in one of a thousand tasks
would come back as a Java stack trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, get_args

import msgspec
import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as f
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from gapless.simulation.trace import Record, TraceError, decode
from gapless.spark.jobs.simulate import row_of
from gapless.spark.schemas import NUMBER, TEXT, TRACE

RECORDS = {kind.__struct_config__.tag: kind for kind in get_args(Record)}
"""The kinds of records, by name."""

DECODED = StructType([StructField(each.name, each.dataType) for each in TRACE if each.name != "line"])
DECODED.add("error", TEXT).add("block", NUMBER).add("offset", NUMBER)
"""A line, if all is well: number ``offset`` of the split of its file that begins at byte ``block``."""


@dataclass(frozen=True, slots=True)
class Survey:
    """What some traces hold."""

    runs: int
    lines: int
    published: int
    delivered: int


def read(session: SparkSession, path: str) -> DataFrame:
    """The lines of a file, of all files of a directory or of a glob: ``TRACE``, and ``error``."""
    is_parquet = f.lower("path").endswith(".parquet")
    try:
        files = (
            session.read.format("binaryFile").option("recursiveFileLookup", True).load(path).select("path")
        )
        kinds = {row.parquet for row in files.select(is_parquet.alias("parquet")).distinct().collect()}
    except AnalysisException as error:
        if error.getCondition() != "PATH_NOT_FOUND":
            raise
        raise TraceError(f"{path}: there is no such file or directory") from error
    if not kinds:
        raise TraceError(f"{path}: there is no file in it")
    if len(kinds) > 1:
        raise TraceError(f"{path}: there are Parquet files and others; name either, for example with a glob")
    return _parquet(session, path) if kinds.pop() else _json_lines(session, path)


def survey(lines: DataFrame) -> Survey:
    """Read everything once: count, and raise a ``TraceError`` that names the first line that is wrong."""
    wrong = f.min(f.when(f.col("error").isNotNull(), f.struct("line", "error")))
    runs = lines.groupBy("run").agg(
        f.count("*").alias("lines"),
        f.max("line").alias("last"),
        f.count_if(f.col("kind") == "publish").alias("published"),
        f.count_if(f.col("kind") == "deliver").alias("delivered"),
        wrong.alias("wrong"),
    )
    twice = f.min(f.when(f.col("lines") > f.col("last"), f.col("run")))
    first = f.min(f.when(f.col("wrong").isNotNull(), f.struct("run", "wrong")))
    sums = [f.coalesce(f.sum(name), f.lit(0)).alias(name) for name in ("lines", "published", "delivered")]
    row = runs.agg(f.count("*").alias("runs"), *sums, twice.alias("twice"), first.alias("first")).collect()[0]
    if row.runs == 0:
        raise TraceError("there is no record to audit")
    if row.first is not None:
        raise TraceError(f"{row.first.run}, line {row.first.wrong.line}: {row.first.wrong.error}")
    if row.twice is not None:
        raise TraceError(f"{row.twice}: has more rows than lines; was the run written twice?")
    return Survey(row.runs, row.lines, row.published, row.delivered)


def _file() -> Column:
    """The path of the file that a row is from, as a person would write it."""
    path = f.replace(f.col("_metadata.file_path"), f.lit("+"), f.lit("%2B"))  # which is no space
    return f.regexp_replace(f.url_decode(path), "^file:/+", "/")


# -- JSON lines --------------------------------------------------------------------------------------------


def _json_lines(session: SparkSession, path: str) -> DataFrame:
    text = session.read.option("lineSep", "\n").option("recursiveFileLookup", True).text(path)
    place = (_file().alias("run"), f.col("_metadata.file_block_start").alias("block"))
    earlier = Window.partitionBy("run").orderBy("block").rowsBetween(Window.unboundedPreceding, -1)
    blocks = (
        text.select(*place)
        .groupBy("run", "block")
        .count()
        .select("run", "block", f.coalesce(f.sum("count").over(earlier), f.lit(0)).alias("before"))
    )
    return (
        text.select(*place, f.col("value").cast("binary").alias("text"))
        .mapInArrow(_decoded, DECODED)
        .join(f.broadcast(blocks), ["run", "block"])
        .withColumn("line", f.col("before") + f.col("offset"))
        .select(*TRACE.names, "error")
        .persist()
    )


def _decoded(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The records of lines; a split comes as a whole and in order, perhaps after another one."""
    split, offset = None, 0
    for batch in batches:
        rows: list[dict[str, Any]] = []
        for run, block, text in zip(*(column.to_pylist() for column in batch.columns), strict=True):
            if split != (run, block):
                split, offset = (run, block), 0
            offset += 1
            if text and not text.isspace():
                rows.append({"run": run, "block": block, "offset": offset, **_row(text)})
        yield from _batches(rows)


def _row(text: bytes) -> dict[str, Any]:
    """The record of a line, or what is wrong with it."""
    try:
        return row_of(decode(text))
    except TraceError as error:
        return {"error": str(error).removeprefix("line 1: ")}


def _batches(rows: list[dict[str, Any]]) -> Iterator[pa.RecordBatch]:
    """Rows in columns; numbers that are too large for them are wrong, too."""
    try:
        yield pa.RecordBatch.from_pylist(rows, to_arrow_schema(DECODED))
    except (OverflowError, ValueError) as error:
        if len(rows) > 1:
            for row in rows:
                yield from _batches([row])
        else:
            place = {name: rows[0][name] for name in ("run", "block", "offset")}
            yield from _batches([{**place, "error": str(error)}])


# -- Parquet -----------------------------------------------------------------------------------------------


def _parquet(session: SparkSession, path: str) -> DataFrame:
    table = session.read.parquet(path)
    given = {each.name: each.dataType.simpleString() for each in table.schema}
    if "kind" not in given:
        raise TraceError(f"{path}: is not a table of traces: it has no column kind")
    columns = {}
    for each in TRACE:
        wanted = each.dataType.simpleString()
        if each.name in given:
            if given[each.name] not in (wanted, "int") and each.name != "run":
                raise TraceError(f"{path}: the column {each.name} is {given[each.name]}, not {wanted}")
            columns[each.name] = f.col(each.name).cast(wanted)
        else:
            columns[each.name] = _implied(each.name).cast(wanted)
    lines = table.select(*(column.alias(name) for name, column in columns.items()))
    return lines.withColumn("error", _error())


def _implied(name: str) -> Column:
    """The value of a column that a table does not have."""
    if name == "run":
        return _file()
    return f.col("_metadata.row_index") + 1 if name == "line" else f.lit(None)


def _error() -> Column:
    """What is wrong with a row, as far as a record of its kind needs it to be right."""
    kind = f.col("kind")
    errors = [
        f.when(kind.isNull() | ~kind.isin(*RECORDS), f.concat_ws(" ", f.lit("there is no kind"), kind)),
        f.when(f.col("line") < 1, "lines count from 1"),
        f.when(f.col("sequence") < 1, "sequences count from 1"),
    ]
    errors += [
        f.when((kind == tag) & f.col(field.name).isNull(), f"a {tag} needs a {field.name}")
        for tag, record in RECORDS.items()
        for field in msgspec.structs.fields(record)
        if field.required
    ]
    readable = f.json_object_keys("attributes").isNotNull()
    errors.append(f.when((kind == "publish") & ~readable, "the attributes are not a JSON object"))
    return f.coalesce(*errors)
