"""The one place that makes a Spark session: a master, a Spark Connect address, or all cores of this machine.

Only errors reach the terminal. Spark's own messages are silenced by ``log4j2.properties``; the one line that
the Java machine writes before any of Spark runs is taken out of its standard error on the way."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from socket import create_connection
from threading import Thread
from typing import Any
from urllib.parse import urlsplit

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkException
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

LEAST_JAVA = 17
CONNECT_PORT = 15002
ANSWER_SECONDS = 10

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
}

HERE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "2g",
    "spark.buffer.pageSize": "2m",  # of every table that is broadcast, however small: 32m by default
    "spark.sql.shuffle.partitions": "8",
}
"""For masters whose executors run on this machine; nobody else needs to reach the driver."""

MASTER = re.compile(r"local(-cluster)?(\[.*\])?|(spark|k8s)://.+|yarn")

PLACES = ("/usr/lib/jvm", "/opt/homebrew/opt", "/usr/local/opt", "/Library/Java/JavaVirtualMachines")
"""Where Java is installed, besides where the user says it is."""

NOISE = b"WARNING: Using incubator modules"


class SessionError(RuntimeError):
    """There is no session to be had; says why and what to do."""


class JavaMissing(SessionError):  # noqa: N818 - it says what is the matter
    """Spark needs a Java that this machine does not have, or that was not found."""

    def __init__(self) -> None:
        super().__init__(
            f"Spark needs Java {LEAST_JAVA} or newer: on Debian and Ubuntu "
            f"`apt-get install openjdk-{LEAST_JAVA}-jre-headless`, "
            f"on macOS `brew install openjdk@{LEAST_JAVA}`, or set JAVA_HOME to where it is"
        )


def open_session(
    name: str,
    *,
    master: str | None = None,
    remote: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """A session for the job ``name``: at ``remote`` by Spark Connect, on ``master``, or on all cores here.

    ``settings`` are Spark's own and win over those of this module. If this process has a session, it is used.
    """
    if remote is not None:
        if master is not None:
            raise SessionError("a session is either on a master or at a Spark Connect address, not both")
        return _connect(name, remote, settings or {})
    if not MASTER.fullmatch(master or "local"):
        raise SessionError(f"{master} is no master; one is local[4], spark://host:7077, k8s://… or yarn")
    running = SparkContext._active_spark_context
    if running is None:
        return _start(name, master or "local[*]", settings or {})
    if master not in (None, running.master):
        raise SessionError(f"this process has a session on {running.master}; stop it before one on {master}")
    return _builder(name, settings or {}).getOrCreate()


def _start(name: str, master: str, settings: Mapping[str, str]) -> SparkSession:
    """A new session; the first one of a process starts its Java machine, the others use it again."""
    wanted = {**SETTINGS, **_quiet(), **settings}
    if master.startswith("local"):
        wanted = {**HERE, **wanted}
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # workers run in this very environment
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    conf = SparkConf().setMaster(master).setAppName(_title(name)).setAll(list(wanted.items()))
    try:
        SparkContext(conf=conf, gateway=_launch(conf) if SparkContext._gateway is None else None)
        session = _builder(name, wanted).getOrCreate()
    except Py4JJavaError as error:
        raise SessionError(f"no Spark on {master}: {error.java_exception.getMessage()}") from error
    except PySparkException as error:  # Java has said why, on standard error
        raise SessionError(f"no Spark on {master}: {error.getMessage()}") from error
    session.sparkContext.setLogLevel("ERROR")
    return session


def _connect(name: str, remote: str, settings: Mapping[str, str]) -> SparkSession:
    """A session at a server of Spark Connect; where nobody listens, Spark would try for many minutes."""
    try:
        address = urlsplit(remote)
        if address.scheme != "sc" or address.hostname is None:
            raise ValueError("an address is sc://host:port")
        create_connection((address.hostname, address.port or CONNECT_PORT), timeout=ANSWER_SECONDS).close()
        return _builder(name, settings).remote(remote).getOrCreate()
    except (OSError, ValueError, PySparkException) as error:
        raise SessionError(f"no Spark Connect at {remote}: {error}") from error


def _title(name: str) -> str:
    return f"gapless {name}"


def _builder(name: str, settings: Mapping[str, str]) -> SparkSession.Builder:
    return SparkSession.Builder().appName(_title(name)).config(map=dict(settings))


def _quiet() -> dict[str, str]:
    """Only errors reach the terminal, from the first line that Spark writes."""
    log4j = Path(__file__).with_name("log4j2.properties").as_uri()
    return {"spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j}"}


def _launch(conf: SparkConf) -> Any:
    """The Java machine of the driver, its standard error passed on line by line without the noise."""
    os.environ["JAVA_HOME"] = str(find_java())
    reading, writing = os.pipe()
    Thread(target=_pass_on, args=(reading,), name="spark-stderr", daemon=True).start()
    try:
        return launch_gateway(conf, {"stderr": writing})  # type: ignore[no-untyped-call]
    finally:
        os.close(writing)


def _pass_on(reading: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        for line in lines:
            if not line.startswith(NOISE):
                os.write(2, line)


def find_java() -> Path:
    """The home of a Java that Spark can use; raise ``JavaMissing`` with what to do where there is none."""
    for home in _homes():
        if _version(home) >= LEAST_JAVA:
            return home
    raise JavaMissing


def _homes() -> list[Path]:
    """Where a Java may be, the user's own choice first."""
    homes = []
    if named := os.environ.get("JAVA_HOME"):
        homes.append(Path(named))
    if found := shutil.which("java"):
        homes.append(Path(found).resolve().parent.parent)
    for place in PLACES:
        homes += [java.parent.parent for java in sorted(Path(place).glob("**/bin/java"), reverse=True)]
    return homes


def _version(home: Path) -> int:
    """The major version of the Java at ``home``; 0 where there is none."""
    try:
        shown = subprocess.run(  # noqa: S603 - the Java that would run anyway
            [home / "bin" / "java", "-version"], check=False, capture_output=True, text=True, timeout=30
        )
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', shown.stderr)
    return int(found.group(1)) if found else 0
