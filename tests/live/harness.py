"""Real ``gapless broker`` processes for tests: started on free ports, and ended whatever happens.

::

    with LiveNetwork(tmp_path, delta=1) as network:
        network.tree(7, fanout=2)                  # b0 … b6, all at once; returns when all are ready
        network["b1"].kill()                       # SIGKILL
        network["b1"].restart()                    # from its store, at its old port
        network["b2"].suspend(); network["b2"].resume()      # SIGSTOP, SIGCONT
        assert network["b3"].stop() == 0           # SIGTERM; its exit code
        network.url                                # for gapless.connect

Everything here blocks. In a test with clients of its own in an event loop, call what waits (``tree``,
``restart``, ``stop``) with ``await asyncio.to_thread(…)``, or the brokers will suspect the clients.

Each broker has a store and a log file in the directory that the network was given; when a broker does not
start, the end of its log is in the error.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

READY_SECONDS = 60.0
"""A limit for broken brokers; on a busy machine a good one may take some seconds."""
STOP_SECONDS = 20.0

T = TypeVar("T")


def free_ports(count: int) -> list[int]:
    """Ports of this machine that nobody uses, all different."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def until(what: str, condition: Callable[[], T | None], seconds: float = 30.0) -> T:
    """Wait until the condition is true, and return what it says; a failure names what was waited for."""
    deadline = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(0.05)


class BrokerProcess:
    """One broker of a network of processes."""

    def __init__(
        self,
        directory: Path,
        name: str,
        *,
        port: int,
        options: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self.name = name
        self.address = f"127.0.0.1:{port}"
        self.data = directory / name
        self.log_file = directory / f"{name}.log"
        self.ready: dict[str, Any] = {}
        """What its ready line said."""
        self._options = list(options)
        self._environ = {key: value for key, value in os.environ.items() if not key.startswith("GAPLESS")}
        self._environ |= environ or {}
        self._process: subprocess.Popen[str] | None = None

    @property
    def process(self) -> subprocess.Popen[str]:
        """The process that runs, or ran last."""
        assert self._process is not None, f"{self.name} was never started"
        return self._process

    @property
    def was_started(self) -> bool:
        """Whether there was ever a process."""
        return self._process is not None

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def launch(self) -> None:
        """Start it without waiting."""
        assert not self.is_running, f"{self.name} runs already"
        if self.was_started:
            self.kill()  # it has ended by itself
        command = [
            *(sys.executable, "-m", "gapless", "broker", "--json"),
            *("--id", self.name, "--listen", self.address, "--data", str(self.data)),
            *self._options,
        ]
        with self.log_file.open("a") as log:
            self._process = subprocess.Popen(
                command,
                stdout=subprocess.PIPE,
                stderr=log,
                stdin=subprocess.DEVNULL,
                text=True,
                env=self._environ,
            )

    def wait_ready(self, seconds: float = READY_SECONDS) -> None:
        """Wait for the ready line."""
        stdout = self.process.stdout
        assert stdout is not None
        readable, _, _ = select.select([stdout], [], [], seconds)
        line = stdout.readline() if readable else ""
        if not line:
            state = f"exit code {self.process.wait(STOP_SECONDS)}" if readable else "nothing"
            raise AssertionError(f"{self.name} is not ready after {seconds:g} s: {state}\n{self.log_tail()}")
        self.ready = json.loads(line)

    def start(self) -> None:
        """Start it, and wait until it is a member of its network."""
        self.launch()
        self.wait_ready()

    restart = start

    def kill(self) -> None:
        """SIGKILL: a crash."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM: an orderly end; returns the exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process = self.process
        if process.poll() is None:
            process.send_signal(how)
        try:
            return process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(STOP_SECONDS)
            raise AssertionError(f"{self.name} did not end after {how.name}\n{self.log_tail()}") from None
        finally:
            if process.stdout is not None:
                process.stdout.close()

    def suspend(self) -> None:
        """SIGSTOP: it makes no step, and its connections stay."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def memory(self) -> int:
        """Bytes of memory that it has now."""
        pages = int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")

    def log(self) -> str:
        """All it has logged, in all its lives."""
        return self.log_file.read_text() if self.log_file.exists() else ""

    def log_tail(self, lines: int = 30) -> str:
        """The end of its log."""
        return "\n".join(self.log().splitlines()[-lines:])


class LiveNetwork:
    """Brokers as processes; leaving the ``with`` ends them all."""

    def __init__(self, directory: Path, *, delta: int = 1, options: Sequence[str] = ()) -> None:
        self.delta = delta
        self.brokers: dict[str, BrokerProcess] = {}
        self._directory = directory
        self._options = list(options)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        started = [each for each in self.brokers.values() if each.was_started]
        for each in started:
            each.process.kill()  # also one that is stopped
        for each in started:
            each.kill()

    def __getitem__(self, name: str) -> BrokerProcess:
        return self.brokers[name]

    @property
    def url(self) -> str:
        """All brokers, for ``gapless.connect``."""
        return "gapless://" + ",".join(each.address for each in self.brokers.values())

    def add(
        self,
        name: str,
        *,
        join: str | None = None,
        port: int | None = None,
        options: Sequence[str] = (),
        environ: Mapping[str, str] | None = None,
    ) -> BrokerProcess:
        """A broker that joins another one by name; it is not started yet."""
        joining = ["--join", self.brokers[join].address] if join is not None else []
        broker = self.brokers[name] = BrokerProcess(
            self._directory,
            name,
            port=port if port is not None else free_ports(1)[0],
            options=["--delta", str(self.delta), *joining, *self._options, *options],
            environ=environ,
        )
        return broker

    def tree(self, count: int, fanout: int = 2) -> list[BrokerProcess]:
        """Brokers b0, b1, … in a complete tree; they start at once and join as soon as they can."""
        for number, port in enumerate(free_ports(count)):
            self.add(f"b{number}", join=f"b{(number - 1) // fanout}" if number else None, port=port)
        brokers = list(self.brokers.values())
        for each in brokers:
            each.launch()
        for each in brokers:
            each.wait_ready()
        return brokers
