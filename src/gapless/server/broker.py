"""A broker as it runs: store, network, node and driver together, from start to stop.

``start`` opens the store, finds the network, and accepts sessions; ``joined`` tells when the broker is a full
member. ``leave`` takes it out of the network for good. ``stop`` ends it in order: the batch that is under way
is finished, peers are told, the store is closed. ``kill`` ends it as a crash would. Errors that an operator
can do something about are a ``BrokerError`` that says what."""

from __future__ import annotations

import asyncio
import secrets
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from random import Random

from gapless.core import names
from gapless.core.broker import Broker
from gapless.core.effects import (
    Effect,
    Founded,
    LeaveRefused,
    LinkAdded,
    NetworkBound,
    Record,
    RemovalAnswered,
    Stopped,
)
from gapless.core.events import LeaveRequested
from gapless.core.limits import Limits
from gapless.core.model import SECOND, NodeId
from gapless.core.node import NodeConfig
from gapless.core.overlay.sessions import Timing
from gapless.server.addresses import AddressBook, parse_address
from gapless.server.config import BrokerConfig
from gapless.server.driver import REDIAL_MOST, Driver
from gapless.server.inquiry import InquiryError, who
from gapless.server.journal import Journal, Membership
from gapless.server.logs import Log
from gapless.server.metrics import BrokerCollector, Figures, MetricsEndpoint
from gapless.server.transport import STRANGERS_MAX, TransportLimits
from gapless.server.watch import BrokerObserver
from gapless.storage import Disk, MemoryStore, Store, StoreError, open_store
from gapless.wire.control import Address, Here

JOIN_SECONDS = 1.0
"""How long to wait for an answer of a join address."""
PAUSE_FIRST, PAUSE_MOST = 0.1, 2.0
"""Seconds between attempts to find the network."""
DISPUTE_SECONDS, LOOK_SECONDS = 1.0, 0.1
"""How long a broker that is refused because of its name or its network goes on trying, beyond the time in
which a dead broker of its name is suspected everywhere."""
DESCRIPTORS_KEPT = 128
"""Open files that are not for connections from outside."""


class BrokerError(Exception):
    """The broker cannot run, and why, for the operator."""


class BrokerServer:
    """One broker of a network."""

    def __init__(self, config: BrokerConfig, disk: Disk | None = None) -> None:
        """``disk`` is what an earlier life left in memory, when there is no other place (``config.data``)."""
        self.config = config
        self.log = Log(config.id)
        self.figures = Figures()
        self._disk = disk
        self._network = ""  # of an earlier life
        self._journal: Journal | None = None
        self._driver: Driver | None = None
        self._observer: BrokerObserver | None = None
        self._endpoint: MetricsEndpoint | None = None
        self._tasks: list[asyncio.Task[None]] = []
        self._failed: asyncio.Future[BaseException] = asyncio.get_running_loop().create_future()
        self._left = asyncio.Event()
        self.was_removed = False
        """Whether this broker was removed, or has left, but not as it wanted just now."""

    @property
    def driver(self) -> Driver:
        """What runs the node; there from ``start`` on."""
        assert self._driver is not None, "start it first"
        return self._driver

    @property
    def address(self) -> str:
        """Where others dial it, with the real port."""
        return self.driver.transport.address

    @property
    def metrics_address(self) -> str:
        """Where Prometheus may ask, with the real port; empty: nowhere."""
        return self._endpoint.address if self._endpoint is not None else ""

    # -- starting ----------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Open the store, find the network, begin."""
        sock = _bound(self.config.listen, "listen")
        try:
            await self._start(sock)
        except BaseException as error:
            await self._end("not started", at_once=True)
            sock.close()
            if isinstance(error, StoreError):
                raise BrokerError(str(error)) from error
            raise

    async def _start(self, sock: socket.socket) -> None:
        config = self.config
        store = await self._open_store()
        self._journal = journal = Journal(store, self.log, self.figures.sync_seconds.add)
        earlier = journal.membership
        if earlier is not None and earlier.delta != config.delta:
            raise BrokerError(
                f"the store {store.place} is of a network with delta = {earlier.delta}, not {config.delta}: "
                f"start the broker with --delta {earlier.delta}, or give it a store of its own"
            )
        founder = earlier.founder if earlier is not None else not config.join
        records, addresses = await journal.begin(Membership(config.delta, founder))
        self._network = next((each.network for each in records if isinstance(each, NetworkBound)), "")
        here = await self._find_network(records, founder)
        self._driver = driver = self._make_driver(records, addresses, here, founder)
        self._observer = observer = BrokerObserver(self.log, self.figures, driver, durable=bool(config.data))
        driver.observer = observer
        await driver.transport.listen(config.listen, config.advertise, sock)
        if config.metrics:
            await self._serve_metrics(BrokerCollector(self.figures, observer.reading))
        driver.start()
        self._tasks.append(asyncio.create_task(self._sample()))
        self._tasks.append(asyncio.create_task(self._watch_disputes()))
        if config.join and not here:
            self._tasks.append(asyncio.create_task(self._learn_addresses()))
        incarnation = driver.node.identity.incarnation
        self.log.say("started", address=self.address, delta=config.delta, incarnation=incarnation)

    async def _open_store(self) -> Store:
        config = self.config
        if not config.data:
            if self._disk is None:
                self.log.warn("not durable: nothing of this broker survives its end; give it --data")
            return MemoryStore(config.id, self._disk)
        store = await asyncio.to_thread(open_store, config.data, config.id)
        if store.cut is not None:
            self.log.warn("store cut", store=store.place, cut=store.cut)
        return store

    def _make_driver(
        self, records: list[Record], addresses: dict[NodeId, Address], here: Sequence[Here], founder: bool
    ) -> Driver:
        config = self.config
        book = AddressBook(addresses)
        for answer in here:
            for name, entry in answer.book.items():
                book.learn(name, *entry)
        node = Broker(
            NodeConfig(
                node=config.id,
                delta=config.delta,
                join_points=tuple(dict.fromkeys(answer.node for answer in here)),
                founder=founder,
                least_incarnation=time.time_ns() // 1_000_000,
                limits=Limits(lease=int(config.lease * SECOND)),
                timing=Timing(
                    ping_every=int(config.ping_every * SECOND),
                    suspect_after=int(config.suspect_after * SECOND),
                    redial_most=REDIAL_MOST,
                ),
            ),
            records,
            rng=Random(secrets.randbits(64)),
        )
        connections = min(config.connections, _descriptors() - DESCRIPTORS_KEPT)
        limits = TransportLimits(
            connections=connections,
            strangers=min(STRANGERS_MAX, max(1, connections // 4)),
            unsent=config.unsent_megabytes << 20,
        )
        return Driver(
            node,
            journal=self._journal,
            perform=self._perform,
            book=book,
            limits=limits,
            on_failure=self._on_failure,
        )

    async def _serve_metrics(self, collector: BrokerCollector) -> None:
        self._endpoint = MetricsEndpoint(collector)
        try:
            await self._endpoint.listen(self.config.metrics)
        except OSError as error:
            raise BrokerError(_cannot_bind(self.config.metrics, "metrics", error)) from error

    # -- the network -------------------------------------------------------------------------------------

    async def _find_network(self, records: list[Record], founder: bool) -> list[Here]:
        """Who is at the join addresses; nobody needs to be asked by a broker that is a member already."""
        alone = [each.alone for each in records if isinstance(each, Founded)]
        has_links = any(isinstance(each, LinkAdded) and not each.marked for each in records)
        if has_links or (alone[-1] if alone else founder):
            return []
        if not self.config.join:
            raise BrokerError(
                f"{self.config.id} is no member of a network: start it with --join and the address of one"
            )
        pause, attempts = PAUSE_FIRST, 0
        while True:
            answers = await asyncio.gather(*map(self._ask, self.config.join))
            here = [each for each in answers if each is not None]
            if here:
                return here
            attempts += 1
            if attempts & (attempts - 1) == 0:  # ever more rarely
                self.log.warn("nobody answers yet", join=",".join(self.config.join), attempts=attempts)
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_MOST)

    async def _ask(self, address: str) -> Here | None:
        try:
            here = await who(address, JOIN_SECONDS)
        except InquiryError:
            return None
        if here.node == self.config.id:
            raise BrokerError(
                f"there is a broker {here.node} at {address} already: give this one another --id, or stop "
                "that one"
            )
        if here.delta != self.config.delta:
            raise BrokerError(
                f"the network of {address} has delta = {here.delta}: start this broker with "
                f"--delta {here.delta}"
            )
        self._check_network(here, address)
        return here

    def _check_network(self, here: Here, address: str) -> None:
        if self._network and here.network and here.network != self._network:
            place = self.config.data or "of this broker"
            raise BrokerError(
                f"{address} is of network {names.short(here.network)}, and the store {place} belongs to "
                f"network {names.short(self._network)}: join a broker of that network, or give this one "
                "another --data"
            )

    async def _learn_addresses(self) -> None:
        """A member finds its neighbours by its store; who moved meanwhile, others may know."""
        pause = PAUSE_FIRST
        while True:
            for address in self.config.join:
                with suppress(InquiryError):
                    here = await who(address, JOIN_SECONDS)
                    try:
                        self._check_network(here, address)
                    except BrokerError as error:
                        self._on_failure(error)
                        return
                    self.driver.transport.learn(here.book)
                    return
            await asyncio.sleep(pause)
            pause = min(2 * pause, PAUSE_MOST)

    async def joined(self) -> None:
        """Return when this broker is a full member of the network; ``BrokerError`` if it cannot be one."""
        assert self._observer is not None, "start it first"
        joining, failing = asyncio.ensure_future(self._observer.joined.wait()), self.wait_failed()
        ends = {joining, asyncio.ensure_future(failing)}
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in ends:
                each.cancel()
        if self._failed.done() and not self._observer.joined.is_set():
            raise BrokerError(str(self._failed.result())) from self._failed.result()

    async def _watch_disputes(self) -> None:
        """Until it is a member: end a broker whose name is in use, or whose network is another one. A broker
        that has just crashed is still taken for alive, for as long as it takes to suspect it."""
        assert self._observer is not None
        limit = 3 * self.config.suspect_after + DISPUTE_SECONDS
        since: float | None = None
        while not self._observer.joined.is_set():
            now, dispute = time.monotonic(), self._observer.dispute
            since = (since or now) if dispute else None
            if since is not None and now - since > limit:
                self._on_failure(BrokerError(dispute))
                return
            await asyncio.sleep(LOOK_SECONDS)

    async def _sample(self) -> None:
        figures = self.figures
        while True:
            figures.rates.sample(time.monotonic(), figures.events_in, figures.events_out)
            await asyncio.sleep(1.0)

    # -- ending ------------------------------------------------------------------------------------------

    def leave(self) -> None:
        """Ask to leave the network for good; the log says why, if it cannot."""
        if self._observer is None or not self._observer.joined.is_set():
            self.log.warn("cannot leave", reason="it is no member yet")
        else:
            self.log.say("asked to leave")
            self.driver.request(LeaveRequested())

    async def wait_left(self) -> None:
        """Return when the broker has left the network, perhaps as it wanted to in an earlier life."""
        await self._left.wait()

    def _perform(self, effect: Effect) -> None:
        if isinstance(effect, LeaveRefused):
            self.log.warn("cannot leave", reason=effect.reason)
        elif isinstance(effect, RemovalAnswered):
            if effect.error:
                self.log.warn("cannot remove", broker=effect.node, reason=effect.error)
            else:
                self.log.say("removed", broker=effect.node)
            self.driver.removal_answered(effect.node, effect.error)
        elif isinstance(effect, Stopped):
            self.log.say("removed from the network" if effect.removed else "left the network")
            self.was_removed = effect.removed
            self._left.set()

    def _on_failure(self, error: BaseException) -> None:
        if not self._failed.done():
            self._failed.set_result(error)

    async def wait_failed(self) -> BaseException:
        """Return when the broker cannot go on, and why."""
        return await asyncio.shield(self._failed)

    async def stop(self) -> None:
        """End in order."""
        await self._end("the broker stops", at_once=False)
        self.log.say("stopped")

    async def kill(self) -> None:
        """End as a crash would: nothing more is sent or written."""
        await self._end("killed", at_once=True)

    async def _end(self, reason: str, *, at_once: bool) -> None:
        if self._journal is not None:
            self._journal.give_up()
        if self._driver is not None:
            await self._driver.stop(reason, at_once=at_once)
        await self._release()

    async def _release(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        endpoint, self._endpoint = self._endpoint, None
        if endpoint is not None:
            await endpoint.close()
        journal, self._journal = self._journal, None
        if journal is not None:
            await journal.close()


def _bound(address: str, option: str) -> socket.socket:
    """A socket that is bound to the address and does not listen yet, so nobody else can take the port."""
    host, port = parse_address(address)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            sock.bind(where)
        except BaseException:
            sock.close()
            raise
    except OSError as error:
        raise BrokerError(_cannot_bind(address, option, error)) from error
    return sock


def _cannot_bind(address: str, option: str, error: OSError) -> str:
    return (
        f"cannot listen at {address}: {error.strerror or error}. Stop what uses it, or choose another "
        f"address with --{option}"
    )


def _descriptors() -> int:
    """How many files this process may have open: as many as the system lets it."""
    try:
        import resource  # noqa: PLC0415 (not on every system)
    except ImportError:
        return 1 << 20
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
    return soft if soft != resource.RLIM_INFINITY else 1 << 20
