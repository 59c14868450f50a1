"""Real Spark for the jobs of the figures."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from gapless.spark.session import open_session


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    session = open_session("tests", master="local[2]", settings={"spark.sql.shuffle.partitions": "4"})
    yield session
    session.stop()
