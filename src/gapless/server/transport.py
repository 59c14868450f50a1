"""Sessions over TCP: dial, accept, shake hands, replace, refuse, pass on for others.

What the core asks of a driver (:mod:`gapless.core.events`) is kept here: at most one session with a peer; a
new one is reported after the old one was reported down; when two nodes dial each other at once, the dial of
the smaller id wins and answers both. A dial that is not answered is tried through the brokers that the node
named as proxies; a proxy looks at the first message only and then passes bytes on."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, get_args

from gapless.core import names
from gapless.core.model import Identity, NodeId, Refusal
from gapless.server.addresses import AddressBook, format_address, parse_address
from gapless.server.connection import UNSENT_MAX, Connection
from gapless.server.inquiry import InquiryError, who
from gapless.server.owners import FirstMessage, Nobody, Session
from gapless.server.sink import Sink
from gapless.wire.codec import WireMessage
from gapless.wire.control import (
    TAKEN,
    VERSIONS,
    Address,
    Addresses,
    Control,
    Goodbye,
    Hello,
    Here,
    Refused,
    RemovalReport,
    RemoveBroker,
    StatusQuery,
    StatusReport,
    Welcome,
    Who,
    common_version,
)

FIRST_FRAME_MAX = 64 << 10
"""The most bytes of a frame of somebody who has not said who it is."""
STRANGERS_MAX = 512
NAME_MAX = 200
"""The most characters of a node's name."""
TOO_MANY = "too many connections here"
COLLISION = "both ends dial; the other dial goes first"
CONTROL = get_args(Control)


@dataclass(frozen=True, slots=True, kw_only=True)
class TransportLimits:
    """What a transport bears."""

    connections: int = 10_000
    strangers: int = STRANGERS_MAX
    """Connections that have not said who they are; beyond it the oldest one goes."""
    proxied: int = 64
    unsent: int = UNSENT_MAX
    """The most bytes that may wait for a peer that reads too slowly."""
    dial_seconds: float = 1.0
    """How long a dial waits for an answer, and a new connection for its first message."""


class NoSessionError(ConnectionRefusedError):
    """Who was dialed answers, and gives no session."""

    def __init__(self, reason: str, refusal: Refusal | None) -> None:
        super().__init__(reason)
        self.refusal = refusal


class Transport:
    """All connections of one node."""

    def __init__(
        self,
        identity: Identity,
        delta: int,
        sink: Sink,
        book: AddressBook,
        limits: TransportLimits | None = None,
    ) -> None:
        self.identity = identity
        self.delta = delta
        self.book = book
        self.address = ""
        self.sessions: dict[NodeId, Connection] = {}
        self.limits = limits or TransportLimits()
        self.cut: set[NodeId] = set()
        """Peers to whom nothing passes at the moment: for tests of what a cut link does."""
        self._sink = sink
        self._dials: dict[NodeId, asyncio.Task[None]] = {}
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._strangers: dict[Connection, None] = {}
        self._emptied: asyncio.Future[None] | None = None
        self.proxied = 0
        """Sessions of others that go through this node."""
        self._tasks: set[asyncio.Task[None]] = set()

    # -- listening ---------------------------------------------------------------------------------------

    async def listen(self, address: str, advertise: str = "", sock: socket.socket | None = None) -> None:
        """Accept sessions at the address; ``advertise`` is what others are told to dial, ``sock`` a socket
        that is bound to the address already."""
        host, port = parse_address(address)
        loop = asyncio.get_running_loop()
        if sock is not None:
            self._server = await loop.create_server(self._accept, sock=sock, backlog=1024)
        else:
            self._server = await loop.create_server(self._accept, host, port, backlog=1024)
        port = self._server.sockets[0].getsockname()[1]
        self.address = advertise or format_address(host, port)
        self.book.learn(self.identity.node, self.identity.incarnation, self.address)

    def _accept(self) -> Connection:
        if len(self._connections) >= self.limits.connections:
            return self._turn_away()
        connection = Connection(
            FirstMessage(self._on_question, self._stranger_left),
            largest=FIRST_FRAME_MAX,
            unsent_max=self.limits.unsent,
        )
        if len(self._strangers) >= self.limits.strangers:
            oldest = next(iter(self._strangers))
            self._dismiss(oldest, "too many connections that do not say who they are")
        self._connections.add(connection)
        self._strangers[connection] = None
        loop = asyncio.get_running_loop()
        loop.call_later(self.limits.dial_seconds, self._close_if_silent, connection)
        return connection

    def _turn_away(self) -> Connection:
        connection = Connection(Nobody(self._forget), largest=FIRST_FRAME_MAX)
        self._connections.add(connection)

        def close(_: object) -> None:
            self._sink.refused(connection.peer_address, TOO_MANY)
            connection.close(TOO_MANY)

        connection.opened.add_done_callback(close)
        return connection

    def _close_if_silent(self, connection: Connection) -> None:
        if connection in self._strangers:
            self._dismiss(connection, "it did not say who it is")

    def _dismiss(self, connection: Connection, reason: str) -> None:
        del self._strangers[connection]
        self._sink.refused(connection.peer_address, reason)
        connection.abort(reason)

    def _stranger_left(self, connection: Connection, reason: str) -> None:
        if connection in self._strangers:
            del self._strangers[connection]
            if connection.bytes_in:  # who says nothing at all may only look whether somebody is there
                self._sink.refused(connection.peer_address, reason)
        self._forget(connection)

    def _forget(self, connection: Connection, _reason: str = "") -> None:
        self._connections.discard(connection)
        if self._emptied is not None and not self._connections and not self._emptied.done():
            self._emptied.set_result(None)

    def _on_question(self, connection: Connection, message: WireMessage) -> None:
        if self._strangers.pop(connection, 0) == 0:
            return  # one question a connection
        match message:
            case Hello():
                self._on_hello(connection, message)
            case Who(versions=versions) if (version := common_version(versions)) is not None:
                book = self.book.of(self._sink.near())
                me = self.identity
                here = Here(version, me.node, self.delta, book, me.network, me.incarnation)
                self._answer(connection, here)
            case StatusQuery():
                self._answer(connection, StatusReport(self._sink.status()))
            case RemoveBroker(node=node):
                self._sink.remove(node, lambda error: self._answer(connection, RemovalReport(node, error)))
            case _:
                self._refuse(
                    connection, "a broker of gapless expects a question first, in a version it speaks"
                )

    def _answer(self, connection: Connection, message: WireMessage) -> None:
        connection.send((message,))
        connection.close("answered")

    # -- accepting a session -----------------------------------------------------------------------------

    def _on_hello(self, connection: Connection, hello: Hello, *, is_checked: bool = False) -> None:
        peer, version = hello.identity.node, common_version(hello.versions)
        if version is None:
            self._refuse(connection, f"versions {hello.versions} are not spoken here, but {VERSIONS}")
        elif hello.target != self.identity.node:
            self._pass_on(connection, hello)
        elif hello.delta != self.delta:
            self._refuse(connection, f"this network has delta = {self.delta}, not {hello.delta}")
        elif peer == self.identity.node:
            self._refuse(connection, f"this node is called {peer} itself; names must be unique")
        elif not _are_fit(hello.identity):
            self._refuse(connection, f"a name has 1 to {NAME_MAX} characters")
        elif (refusal := names.refusal(self.identity, hello.identity, self._holder(peer))) is not None:
            self._refuse(connection, self._why(refusal, hello.identity), refusal)
        elif peer in self.cut:
            connection.abort("the link is cut")
        elif peer in self._dials and self.identity.node < peer:
            self._refuse(connection, COLLISION)
        elif not is_checked and (former := self._former(hello)) is not None:
            self._start(self._check_former(connection, hello, former))
        else:
            dial = self._dials.pop(peer, None)
            if dial is not None:
                dial.cancel()
            self.learn({peer: (hello.identity.incarnation, hello.address)})
            connection.version = version
            connection.send((Welcome(version, self.identity, self.address),))
            self._establish(connection, hello.identity, dialed=False)

    def _former(self, hello: Hello) -> str | None:
        """Where another broker of the dialer's name may be alive, of which this one has no session now."""
        name = hello.identity
        is_known = name.is_leaf or name.node in self.sessions
        return None if is_known else self.book.former(name.node, name.incarnation, hello.address)

    async def _check_former(self, connection: Connection, hello: Hello, former: str) -> None:
        """Ask there first: a second broker of a name must not get in by a peer that is far from the first."""
        name = hello.identity.node
        with suppress(InquiryError):
            here = await who(former, self.limits.dial_seconds / 2)
            if here.node == name and here.incarnation != hello.identity.incarnation:
                self._refuse(connection, names.running(name, former), Refusal.NAME)
                return
        if connection.is_open:
            self._on_hello(connection, hello, is_checked=True)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _holder(self, name: NodeId) -> Identity | None:
        """Who has a live session under that name."""
        session = self.sessions.get(name)
        return session.identity if session is not None else None

    def _why(self, refusal: Refusal, newcomer: Identity) -> str:
        holder = self._holder(newcomer.node)
        if refusal is Refusal.NETWORK or holder is None:
            return names.apart(self.identity, newcomer)
        where = self.sessions[newcomer.node].peer_address
        if not holder.is_leaf:
            where = self.book.get(newcomer.node) or where
        return names.in_use(holder, newcomer, where)

    def _refuse(self, connection: Connection, reason: str, refusal: Refusal | None = None) -> None:
        if reason != COLLISION:
            self._sink.refused(connection.peer_address, reason)
        connection.send((Refused(reason, refusal or ""),))
        connection.close(reason)

    def _establish(self, connection: Connection, identity: Identity, *, dialed: bool) -> None:
        peer = identity.node
        old = self.sessions.pop(peer, None)
        if old is not None:
            old.owner = Nobody(self._forget)
            if old.identity is not None and names.takes_over(old.identity, identity):
                old.close(f"{connection.peer_address} has taken over the name {peer}", TAKEN)
            else:
                old.abort("replaced by a new session")
            self._sink.session_down(peer, "replaced by a new session")
        self._connections.add(connection)
        self.sessions[peer] = connection
        connection.owner = Session(self, peer)
        connection.introduce(identity)
        self._sink.session_up(identity, connection, dialed=dialed)
        book = self.book.of(self._sink.near())
        if book:
            connection.send((Addresses(book),))

    # -- dialing -----------------------------------------------------------------------------------------

    def dial(self, peer: NodeId, via: Sequence[NodeId] = ()) -> None:
        """Try to open a session; the sink hears of the outcome, unless the peer is faster."""
        if peer in self.sessions or peer in self._dials:
            return
        self._dials[peer] = asyncio.get_running_loop().create_task(self._dial(peer, via))

    async def _dial(self, peer: NodeId, via: Sequence[NodeId]) -> None:
        """Directly, and where nothing answers at all through each of the proxies."""
        reason, refusal = "", None
        for route in (peer, *via):
            try:
                async with asyncio.timeout(self.limits.dial_seconds):
                    await self._dial_by(route, peer)
            except ConnectionRefusedError as error:
                refusal = error.refusal if isinstance(error, NoSessionError) else None
                reason = str(error) if refusal is not None else reason or str(error)
                break  # the machine answers, and nobody listens there, or not to us
            except (OSError, ValueError) as error:  # no such host is a ValueError when its name is odd
                reason = reason or str(error) or "no answer"
                continue
            return
        if self._dials.pop(peer, None) is not None:
            self._sink.connect_failed(peer, reason, refusal)

    async def _dial_by(self, route: NodeId, peer: NodeId) -> None:
        """Say hello and wait for the welcome, with which the session begins."""
        address = self.book.get(route)
        if address is None or peer in self.cut or route in self.cut:
            await asyncio.sleep(self.limits.dial_seconds / 4)  # a cut link answers nothing
            raise OSError(f"no way to {route}")
        loop = asyncio.get_running_loop()
        answered: asyncio.Future[None] = loop.create_future()
        refusal: Refusal | None = None

        def on_answer(connection: Connection, message: WireMessage) -> None:
            nonlocal refusal
            refusal = self._refusal_in(message)
            if isinstance(message, Welcome) and refusal is not None:
                connection.abort(names.apart(self.identity, message.identity))
            elif isinstance(message, Welcome) and message.identity.node == peer and not answered.done():
                answered.set_result(None)
                self._on_welcome(connection, message)
            elif isinstance(message, Refused) and message.reason == COLLISION:
                connection.abort(COLLISION)  # their dial is on its way, and answers this one
            else:
                connection.abort(message.reason if isinstance(message, Refused | Goodbye) else "a stranger")

        def on_end(connection: Connection, reason: str) -> None:
            self._forget(connection)
            if not answered.done() and reason != COLLISION:
                answered.set_exception(NoSessionError(reason, refusal))
                answered.exception()  # nobody waits for it when the dial was given up

        host, port = parse_address(address)
        _, connection = await loop.create_connection(
            lambda: Connection(FirstMessage(on_answer, on_end), unsent_max=self.limits.unsent), host, port
        )
        connection.via = route if route != peer else ""
        try:
            connection.send((Hello(VERSIONS, self.identity, self.delta, peer, self.address),))
            await answered
        finally:
            if isinstance(connection.owner, FirstMessage):
                connection.abort("given up")

    def _refusal_in(self, answer: WireMessage) -> Refusal | None:
        """Why there is no session, if it is for a reason that the node must know of."""
        if isinstance(answer, Welcome):
            return names.refusal(self.identity, answer.identity, None)
        if isinstance(answer, Refused) and answer.code in list(Refusal):
            return Refusal(answer.code)
        return None

    def _on_welcome(self, connection: Connection, welcome: Welcome) -> None:
        peer = welcome.identity.node
        if self._dials.pop(peer, None) is None:
            connection.abort("given up")
            return
        self.learn({peer: (welcome.identity.incarnation, welcome.address)})
        connection.version = welcome.version
        self._establish(connection, welcome.identity, dialed=True)

    # -- passing on for others ---------------------------------------------------------------------------

    def _pass_on(self, connection: Connection, hello: Hello) -> None:
        """Somebody cannot reach one of this broker's peers directly."""
        address = self.book.get(hello.target)
        if hello.target not in self.sessions or address is None or self.proxied >= self.limits.proxied:
            self._refuse(connection, f"this is {self.identity.node}, not {hello.target}")
            return
        connection.pause_reading()
        self._start(self._splice(connection, hello, address))

    async def _splice(self, connection: Connection, hello: Hello, address: str) -> None:
        self.proxied += 1
        ended = asyncio.Event()
        host, port = parse_address(address)
        try:
            async with asyncio.timeout(self.limits.dial_seconds):
                loop = asyncio.get_running_loop()
                owner = Nobody(lambda *_: ended.set())
                _, other = await loop.create_connection(lambda: Connection(owner), host, port)
            connection.owner = owner
            self._connections |= {connection, other}
            other.send((hello,))
            connection.splice(other)
            other.splice(connection)
            connection.resume_reading()
            await ended.wait()
            for each in (connection, other):
                each.abort("the other half is gone")
                self._connections.discard(each)
        except (OSError, ValueError):
            self._refuse(connection, f"{hello.target} does not answer here either")
        finally:
            self.proxied -= 1

    # -- sessions ----------------------------------------------------------------------------------------

    def received(self, peer: NodeId, connection: Connection, messages: list[WireMessage]) -> None:
        """What came on a session: some of it is for the transport itself."""
        if any(isinstance(each, CONTROL) for each in messages):
            for each in messages:
                if isinstance(each, Addresses) and not connection.is_client:
                    self.learn(each.book)
                elif isinstance(each, Goodbye):
                    connection.is_taken = each.code == TAKEN
                    connection.abort(each.reason)
            messages = [each for each in messages if not isinstance(each, CONTROL)]
        if messages:
            self._sink.messages(peer, messages)  # type: ignore[arg-type]

    def session_ended(self, peer: NodeId, connection: Connection, reason: str) -> None:
        """A session's connection is gone."""
        self._forget(connection)
        if self.sessions.get(peer) is connection:
            del self.sessions[peer]
            self._sink.session_down(peer, reason, taken=connection.is_taken)

    def learn(self, book: dict[NodeId, Address]) -> None:
        """Take addresses and pass news on."""
        news = {node: entry for node, entry in book.items() if self.book.learn(node, *entry)}
        if news:
            self._sink.learned(news)

    def tell(self, nodes: Sequence[NodeId]) -> None:
        """Tell every peer where these nodes are."""
        book = self.book.of(nodes)
        if book:
            for connection in self.sessions.values():
                connection.send((Addresses(book),))

    def close_session(self, peer: NodeId, connection: Connection, reason: str) -> None:
        """End a session from this side; the sink knows."""
        if self.sessions.get(peer) is connection:
            del self.sessions[peer]
        connection.owner = Nobody(self._forget)
        connection.close(reason)

    # -- cutting links, for tests ------------------------------------------------------------------------

    def cut_link(self, peer: NodeId) -> None:
        """Let nothing pass between here and the peer until ``heal_link``."""
        self.cut.add(peer)
        if peer in self.sessions:
            self.sessions[peer].hold()

    def heal_link(self, peer: NodeId) -> None:
        """Let everything pass again."""
        self.cut.discard(peer)
        if peer in self.sessions:
            self.sessions[peer].release()

    # -- the end -----------------------------------------------------------------------------------------

    async def close(self, reason: str, *, at_once: bool = False) -> None:
        """End everything; ``at_once`` like a crash, without a word."""
        if self._server is not None:
            self._server.close()
        tasks = [*self._dials.values(), *self._tasks]
        self._dials.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for connection in list(self._connections):
            connection.owner = Nobody(self._forget)
            connection.abort(reason) if at_once else connection.close(reason)
        self.sessions.clear()
        if self._connections:
            self._emptied = asyncio.get_running_loop().create_future()
            with suppress(TimeoutError):
                async with asyncio.timeout(self.limits.dial_seconds):
                    await self._emptied
        for connection in list(self._connections):
            connection.abort(reason)
        if self._server is not None:
            await self._server.wait_closed()


def _are_fit(identity: Identity) -> bool:
    """Whether the names in an identity are as long as names may be."""
    others = (identity.home or "", identity.network)
    return 0 < len(identity.node) <= NAME_MAX and all(len(each) <= NAME_MAX for each in others)
