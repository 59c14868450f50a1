"""A real broker network inside this process: for tests, notebooks and small applications.

The brokers are those of ``gapless broker``, with their TCP ports and their stores, in a tree in which broker
``i`` has joined through broker ``(i - 1) // fanout``. They can be killed, restarted and cut off from each
other, so an application can see for itself what faults do to it."""

from __future__ import annotations

import asyncio
import tempfile
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Self

from gapless.client.client import Client, connect
from gapless.server.broker import BrokerServer
from gapless.server.config import BrokerConfig

JOIN_SECONDS = 30.0


class Network:
    """Brokers ``0`` to ``brokers - 1`` on ports of this machine; use it with ``async with``."""

    def __init__(
        self, brokers: int = 3, fanout: int = 2, delta: int = 1, *, data: str | Path | None = None
    ) -> None:
        for name, value, least in (("brokers", brokers, 1), ("fanout", fanout, 1), ("delta", delta, 0)):
            if value < least:
                raise ValueError(f"{name} must be at least {least}, not {value}")
        self._count = brokers
        self._fanout = fanout
        self._delta = delta
        self._data = Path(data) if data is not None else None
        self._temporary: tempfile.TemporaryDirectory[str] | None = None
        self._servers: dict[int, BrokerServer] = {}
        self._addresses: dict[int, str] = {}
        self._cuts: set[frozenset[int]] = set()
        self._clients: list[Client] = []

    # -- its life ----------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start the brokers one after the other; each joins through its parent."""
        if self._data is None:
            self._temporary = tempfile.TemporaryDirectory(prefix="gapless-")
            self._data = Path(self._temporary.name)
        try:
            async with asyncio.timeout(JOIN_SECONDS):
                for number in range(self._count):
                    await self._start(number)
                    await self._servers[number].joined()
        except BaseException:
            await self.stop()
            raise

    async def _start(self, number: int) -> None:
        assert self._data is not None
        parent = (number - 1) // self._fanout
        server = BrokerServer(
            BrokerConfig(
                id=f"b{number}",
                listen=self._addresses.get(number, "127.0.0.1:0"),
                join=(self._addresses[parent],) if number else (),
                data=str(self._data / f"b{number}"),
                delta=self._delta,
            )
        )
        await server.start()
        self._servers[number] = server
        self._addresses[number] = server.address
        for cut in self._cuts:
            if number in cut:
                (other,) = cut - {number}
                server.driver.transport.cut_link(f"b{other}")

    async def stop(self) -> None:
        """Close the clients that were connected here, stop the brokers, remove what they stored."""
        async with AsyncExitStack() as stack:  # in reverse, and all of it whatever goes wrong
            if self._temporary is not None:
                stack.callback(self._temporary.cleanup)
            for server in self._servers.values():
                stack.push_async_callback(server.stop)
            for client in self._clients:
                stack.push_async_callback(client.close)
        self._servers.clear()

    # -- its use -----------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """What to ``connect`` to, from this process or another one."""
        return "gapless://" + ",".join(self._addresses.values())

    def address(self, broker: int) -> str:
        """Where a broker listens, also while it is down."""
        self._check(broker)
        if broker not in self._addresses:
            raise RuntimeError("the network was not started; use it in `with`")
        return self._addresses[broker]

    @property
    def publishers(self) -> str:
        """Where named publishers of clients that are connected here keep what is not confirmed: with the
        network, so that a later network in this process or another one does not meet it."""
        if self._data is None:
            raise RuntimeError("the network was not started; use it in `with`")
        return str(self._data / "clients")

    async def connect(
        self, broker: int = 0, *, name: str | None = None, data: str | None = None, take_over: bool = False
    ) -> Client:
        """A client whose home is that broker; it is closed with the network at the latest. Its named
        publishers keep what is not confirmed beside the brokers, unless ``data`` says where."""
        url, place = f"gapless://{self.address(broker)}", data or self.publishers
        client = await connect(url, name=name, data=place, take_over=take_over)
        self._clients.append(client)
        return client

    # -- faults ------------------------------------------------------------------------------------------

    async def kill(self, broker: int) -> None:
        """Crash a broker: nothing is flushed, nobody is told, only its store remains."""
        self._check(broker)
        server = self._servers.pop(broker, None)
        if server is None:
            raise ValueError(f"broker {broker} is down already")
        await server.kill()

    async def restart(self, broker: int) -> None:
        """Start a broker again from its store."""
        self._check(broker)
        if broker in self._servers:
            raise ValueError(f"broker {broker} is running; kill it first")
        await self._start(broker)

    async def cut(self, a: int, b: int) -> None:
        """Let nothing pass between two brokers."""
        self._cuts.add(self._pair(a, b))
        for server, other in self._ends(a, b):
            server.driver.transport.cut_link(f"b{other}")

    async def heal(self, a: int, b: int) -> None:
        """Let everything pass again."""
        self._cuts.discard(self._pair(a, b))
        for server, other in self._ends(a, b):
            server.driver.transport.heal_link(f"b{other}")

    def _ends(self, a: int, b: int) -> list[tuple[BrokerServer, int]]:
        return [(self._servers[one], other) for one, other in ((a, b), (b, a)) if one in self._servers]

    def _pair(self, a: int, b: int) -> frozenset[int]:
        self._check(a)
        self._check(b)
        if a == b:
            raise ValueError(f"a link has two ends, not broker {a} twice")
        return frozenset((a, b))

    def _check(self, broker: int) -> None:
        if not 0 <= broker < self._count:
            raise ValueError(f"there is no broker {broker}; there are 0 to {self._count - 1}")
