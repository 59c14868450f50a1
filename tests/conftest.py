"""Options of the whole test suite, and the one Spark session of a test process."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-traces", action="store_true", help="write what happens now into tests/traces/*.txt"
    )


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Real Spark, in ``local[2]``: the session of this process, which the commands use, too."""
    from gapless.spark.session import open_session
    from spark.clusters import BRIEF

    settings = {"spark.sql.shuffle.partitions": "4", "spark.driver.defaultJavaOptions": BRIEF}
    session = open_session("tests", master="local[2]", settings=settings)
    yield session
    session.stop()
