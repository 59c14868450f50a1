"""A real Spark cluster on this machine, driven from a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import time
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import pyspark
from pyspark.sql import SparkSession

from gapless.spark.session import open_session

MASTER = "local-cluster[2,1,1024]"
BRIEF = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""A Java machine that lives for a few small jobs need not optimize what it compiles."""
SETTINGS = {
    "spark.sql.shuffle.partitions": "4",
    "spark.driver.defaultJavaOptions": BRIEF,
    "spark.executor.defaultJavaOptions": BRIEF,
}
LIMIT_SECONDS = 280

T = TypeVar("T")


def wait_for(condition: Callable[[], T | None], limit_seconds: float = 200) -> T:
    """What the condition gives once it gives something that is true."""
    until = time.monotonic() + limit_seconds
    while not (found := condition()):
        assert time.monotonic() < until, "it did not come true in time"
        time.sleep(0.02)
    return found


class Cluster:
    """Two executors with a core and 1,024 MB each; see ``conftest`` for its use."""

    def __init__(self) -> None:
        spawning = multiprocessing.get_context("spawn")
        self._pipe, theirs = spawning.Pipe()
        self._process = spawning.Process(target=_serve, args=(theirs,), name="spark-cluster-driver")
        self._process.start()
        theirs.close()

    def run(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What ``function(session, *arguments)`` returns in the driver of the cluster."""
        self._pipe.send((function, arguments))
        if not self._pipe.poll(LIMIT_SECONDS):
            raise TimeoutError(f"{function.__name__} did not end within {LIMIT_SECONDS} s on {MASTER}")
        result, error = self._pipe.recv()
        if error is not None:
            raise RuntimeError(f"{function.__name__} on {MASTER}: {error}")
        return result

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *_: object) -> None:
        self._pipe.close()  # the driver ends when nobody can ask it any more
        self._process.join(30)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()
        self._process.close()


def _serve(pipe: Connection) -> None:
    """Answer calls until the other end is closed, be it because its process died."""
    with TemporaryDirectory() as home:
        os.environ["SPARK_HOME"] = home
        _furnish(Path(home))
        session = open_session("cluster tests", master=MASTER, settings=SETTINGS)
        try:
            while True:
                function, arguments = pipe.recv()
                pipe.send(_answer(function, session, arguments))
        except (EOFError, OSError):
            session.stop()


def _furnish(home: Path) -> None:
    """Spark as it is installed, but with a place of its own where executors work."""
    for each in Path(pyspark.__path__[0]).iterdir():
        if each.name != "work":
            (home / each.name).symlink_to(each)


def _answer(
    function: Callable[..., Any], session: SparkSession, arguments: tuple[Any, ...]
) -> tuple[Any, Any]:
    try:
        return function(session, *arguments), None
    except Exception:
        return None, traceback.format_exc()
