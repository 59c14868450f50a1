"""Real Spark: a session in ``local[2]``, and a real cluster of two executors.

``spark``: the session of this process, for everything that works on DataFrames.

``cluster``: a ``local-cluster[2,1,1024]``, that is two executors as processes of their own. A process can
have one session only, so the cluster's driver is another process, started at the first use and kept until the
tests are over. ``cluster.run(function, *arguments)`` calls ``function(session, *arguments)`` there and gives
back what it returns, or raises a ``RuntimeError`` with its traceback. The function must be at the top of a
test module; arguments and result must pickle (collect there, return plain values). Mark such tests slow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from gapless.spark.session import open_session
from spark.clusters import Cluster


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    if (other := SparkSession.getActiveSession()) is not None:  # of an example in the documents
        other.stop()
    session = open_session("tests", master="local[2]", settings={"spark.sql.shuffle.partitions": "4"})
    yield session
    session.stop()


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running
