"""A real Spark cluster of two executors.

``cluster``: a ``local-cluster[2,1,1024]``, that is two executors as processes of their own. A process can
have one session only, so the cluster's driver is another process, started at the first use and kept until the
tests are over. ``cluster.run(function, *arguments)`` calls ``function(session, *arguments)`` there and gives
back what it returns, or raises a ``RuntimeError`` with its traceback. The function must be at the top of a
test module; arguments and result must pickle (collect there, return plain values). Mark such tests slow."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from spark.clusters import Cluster


@pytest.fixture(scope="session")
def cluster() -> Iterator[Cluster]:
    with Cluster() as running:
        yield running
