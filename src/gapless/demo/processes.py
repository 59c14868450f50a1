"""Brokers as processes of this machine, which can be killed and started again."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from contextlib import suppress
from pathlib import Path

READY_SECONDS = 30.0


class BrokerProcess:
    """One ``gapless broker`` with its port, its store and its log."""

    def __init__(self, name: str, directory: Path, join: str, delta: int) -> None:
        self.name = name
        self.address = f"127.0.0.1:{_free_port()}"
        self.state = "starting"
        self._log = directory / f"{name}.log"
        self._command = [sys.executable, "-m", "gapless", "broker", "--json", "--id", name]
        self._command += ["--listen", self.address, "--data", str(directory / name), "--delta", str(delta)]
        self._command += ["--join", join] if join else []
        self._process: asyncio.subprocess.Process | None = None

    @property
    def pid(self) -> int:
        """The process of the operating system."""
        if self._process is None:
            raise RuntimeError(f"{self.name} does not run")
        return self._process.pid

    async def start(self) -> None:
        """Start it, and wait until it is a member of its network."""
        with self._log.open("a") as log:
            self._process = await asyncio.create_subprocess_exec(
                *self._command, stdout=asyncio.subprocess.PIPE, stderr=log, stdin=asyncio.subprocess.DEVNULL
            )
        assert self._process.stdout is not None
        line = b""
        with suppress(TimeoutError):
            async with asyncio.timeout(READY_SECONDS):
                line = await self._process.stdout.readline()
        if not line:
            raise ChildProcessError(f"{self.name} did not start:\n{self._log.read_text()[-2000:]}")
        self.state = "up"

    async def kill(self) -> None:
        """SIGKILL: it has no chance to say anything."""
        self.state = "killed"
        await self._end(signal.SIGKILL)

    async def stop(self) -> None:
        """SIGTERM: it says good-bye."""
        await self._end(signal.SIGTERM)

    async def _end(self, by: signal.Signals) -> None:
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        process.send_signal(by)
        try:
            async with asyncio.timeout(10):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port
