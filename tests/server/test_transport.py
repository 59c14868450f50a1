"""Sessions over TCP: who gets one, who does not, and what is reported in which order."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest

from gapless.core.messages import Message, Ping, Status
from gapless.core.messages.overlay import NodeState
from gapless.core.model import Identity, NodeId, Refusal
from gapless.server.addresses import AddressBook, is_address, parse_address
from gapless.server.connection import Connection
from gapless.server.transport import Transport, TransportLimits
from gapless.wire.control import Address, Addresses, Hello, Welcome

SECONDS = 10.0
LIMITS = TransportLimits(dial_seconds=0.3, strangers=4)


class Recorder:
    """A sink that writes down what it is told."""

    def __init__(self) -> None:
        self.told: list[tuple[Any, ...]] = []
        self.refusals: list[Refusal | None] = []
        self.taken = False
        self.got: list[Message] = []

    def session_up(self, identity: Identity, connection: Connection, *, dialed: bool) -> None:
        self.told.append(("up", identity.node, identity.incarnation, dialed))

    def session_down(self, peer: NodeId, reason: str, *, taken: bool = False) -> None:
        self.told.append(("down", peer, reason))
        self.taken = taken

    def connect_failed(self, peer: NodeId, reason: str, refusal: Refusal | None = None) -> None:
        self.told.append(("failed", peer, reason))
        self.refusals.append(refusal)

    def refused(self, who: str, reason: str) -> None:
        self.told.append(("refused", reason))

    def messages(self, peer: NodeId, messages: Sequence[Message]) -> None:
        self.got += messages

    def learned(self, book: dict[NodeId, Address]) -> None:
        pass

    def near(self) -> list[NodeId]:
        return []

    def status(self) -> dict[str, Any]:
        return {}

    def remove(self, node: NodeId, answer: Callable[[str], None]) -> None:
        self.told.append(("remove", node))
        answer(f"{node} is alive")

    def kinds(self) -> list[str]:
        return [each[0] for each in self.told]


@asynccontextmanager
async def node(
    name: NodeId,
    *,
    incarnation: int = 1,
    home: NodeId | None = None,
    delta: int = 1,
    network: str = "",
    take_over: bool = False,
    knows: Sequence[Transport] = (),
    limits: TransportLimits = LIMITS,
) -> AsyncIterator[tuple[Transport, Recorder]]:
    sink, book = Recorder(), AddressBook()
    identity = Identity(name, incarnation, home, network, take_over)
    transport = Transport(identity, delta, sink, book, limits)
    for other in knows:
        book.learn(other.identity.node, other.identity.incarnation, other.address)
    if home is None:
        await transport.listen("127.0.0.1:0")
    try:
        yield transport, sink
    finally:
        await transport.close("the test is over", at_once=True)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.005)


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 3 * SECONDS))


# -- getting a session ----------------------------------------------------------------------------------


def test_a_session_carries_messages_in_order() -> None:
    async def main() -> None:
        async with node("a") as (a, at_a), node("b", knows=[a]) as (b, at_b):
            b.dial("a")
            await until(lambda: at_a.told and at_b.told)
            assert at_a.told == [("up", "b", 1, False)]
            assert at_b.told == [("up", "a", 1, True)]
            assert a.book["b"] == b.address
            messages: list[Message] = [Ping(), Status(NodeState.RECOVERING), Ping()]
            b.sessions["a"].send(messages)
            await until(lambda: len(at_a.got) == 3)
            assert at_a.got == messages

    run(main())


def test_two_that_dial_each_other_have_one_session() -> None:
    async def main() -> None:
        for _ in range(5):
            async with node("a") as (a, at_a), node("b", knows=[a]) as (b, at_b):
                a.book.learn("b", 1, b.address)
                a.dial("b")
                b.dial("a")
                await until(lambda: "b" in a.sessions and "a" in b.sessions)
                a.sessions["b"].send([Ping()])
                b.sessions["a"].send([Ping()])
                await until(lambda: at_a.got and at_b.got)
                assert at_a.kinds() == ["up"] == at_b.kinds()

    run(main())


@pytest.mark.parametrize("incarnation", [1, 3])
def test_another_life_is_refused_while_the_first_one_has_a_session(incarnation: int) -> None:
    async def main() -> None:
        async with node("a") as (a, at_a), node("b", incarnation=2, knows=[a]) as (b, _):
            b.dial("a")
            await until(lambda: "b" in a.sessions)
            held = a.sessions["b"]
            async with node("b", incarnation=incarnation, knows=[a]) as (twin, at_twin):
                twin.dial("a")
                await until(lambda: at_twin.told)
                ((kind, peer, reason),) = at_twin.told
                assert (kind, peer) == ("failed", "a")
                assert f"a broker named b is running already, at {b.address}" in reason
                assert at_twin.refusals == [Refusal.NAME]
                assert a.sessions["b"] is held
                assert a.book["b"] == b.address, "nobody is told to dial the second one"
                assert at_a.kinds() == ["up", "refused"]
                a.close_session("b", held, "suspected")
                twin.dial("a")
                await until(lambda: len(at_twin.told) == 2)
                assert at_twin.refusals == [Refusal.NAME] * 2, "it is asked where it was, and answers"
                await b.close("it stops")
                twin.dial("a")
                await until(lambda: at_a.told[-1] == ("up", "b", incarnation, False))

    run(main())


def test_the_same_life_replaces_its_own_session() -> None:
    """One end has noticed a break, and the other has not yet."""

    async def main() -> None:
        async with node("a") as (a, at_a), node("b", knows=[a]) as (b, _):
            b.dial("a")
            await until(lambda: "b" in a.sessions and "a" in b.sessions)
            del b.sessions["a"]
            b.dial("a")
            await until(lambda: at_a.kinds() == ["up", "down", "up"])

    run(main())


@pytest.mark.parametrize("later", [True, False])
def test_a_client_takes_a_name_over_if_it_is_the_later_one(later: bool) -> None:
    async def main() -> None:
        async with (
            node("a") as (a, at_a),
            node("c", incarnation=5, home="a", knows=[a]) as (first, at_first),
            node("c", incarnation=6 if later else 4, home="a", take_over=True, knows=[a]) as (
                second,
                at_second,
            ),
        ):
            first.dial("a")
            await until(lambda: "c" in a.sessions and "a" in first.sessions)
            second.dial("a")
            await until(lambda: at_second.told)
            if later:
                await until(lambda: "down" in at_first.kinds())
                assert "has taken over the name c" in at_first.told[-1][2]
                assert at_first.taken
                assert at_a.kinds() == ["up", "down", "up"]
            else:
                assert at_second.refusals == [Refusal.NAME]
                assert "clock behind" in at_second.told[0][2]
                assert at_a.kinds() == ["up", "refused"]

    run(main())


def test_nodes_of_different_networks_have_no_session() -> None:
    async def main() -> None:
        async with node("a", network="1111222233334444") as (a, at_a):
            async with node("b", network="5555666677778888", knows=[a]) as (b, at_b):
                b.dial("a")
                await until(lambda: at_b.told)
                ((_, _, reason),) = at_b.told
                assert "network 11112222…" in reason
                assert "network 55556666…" in reason
                assert "its data directory belongs to another network" in reason
                assert at_b.refusals == [Refusal.NETWORK]
                assert at_a.kinds() == ["refused"]
                assert a.book.get("b") is None
            async with node("c", knows=[a]) as (c, at_c):
                c.dial("a")
                await until(lambda: at_c.told)
                assert at_c.kinds() == ["up"], "who does not know its network yet may learn it here"

    run(main())


def test_a_dialer_sees_that_a_broker_that_does_not_look_is_of_another_network() -> None:
    async def main() -> None:
        async with node("a") as (a, _), node("b", network="one", knows=[a]) as (b, at_b):

            def accept_all(connection: Connection, hello: Hello) -> None:
                identity = Identity("a", 1, network="two")
                connection.send((Welcome(1, identity, a.address),))

            a._on_hello = accept_all  # type: ignore[method-assign, assignment]
            b.dial("a")
            await until(lambda: at_b.told)
            assert at_b.kinds() == ["failed"]
            assert at_b.refusals == [Refusal.NETWORK]

    run(main())


def test_a_client_cannot_take_a_brokers_name() -> None:
    async def main() -> None:
        async with node("a") as (a, at_a), node("b", knows=[a]) as (b, _):
            b.dial("a")
            await until(lambda: "b" in a.sessions)
            async with node("b", incarnation=9, home="a", knows=[a]) as (client, at_client):
                client.dial("a")
                await until(lambda: at_client.told)
                assert at_client.kinds() == ["failed"]
            assert at_a.kinds() == ["up", "refused"]

    run(main())


# -- not getting one ------------------------------------------------------------------------------------


def test_a_dial_that_cannot_succeed_says_why() -> None:
    async def main() -> None:
        async with node("a", delta=2) as (a, _), node("b", knows=[a]) as (b, at_b):
            b.book.learn("gone", 1, f"127.0.0.1:{free_port()}")
            b.book.learn("odd", 1, f"{'x' * 70}:1")
            b.book.learn("other", 1, a.address)
            for peer, reason in (
                ("a", "this network has delta = 2, not 1"),
                ("gone", "refused|Connect call failed"),
                ("odd", "label|too long|not known"),
                ("other", "this is a, not other"),
                ("unknown", "no way to unknown"),
            ):
                b.dial(peer)
                await until(lambda: at_b.told)
                kind, who, why = at_b.told.pop()
                assert (kind, who) == ("failed", peer)
                assert any(each in why for each in reason.split("|")), why

    run(main())


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def test_strangers_make_room_for_newer_ones() -> None:
    async def main() -> None:
        async with node("a", limits=TransportLimits(strangers=4, dial_seconds=5.0)) as (a, at_a):
            host, port = parse_address(a.address)
            silent = [await asyncio.open_connection(host, port) for _ in range(6)]
            for reader, _ in silent[:2]:
                assert await asyncio.wait_for(reader.read(), SECONDS) == b""
            assert at_a.kinds() == ["refused", "refused"]
            async with node("b", knows=[a]) as (b, _):
                b.dial("a")
                await until(lambda: "b" in a.sessions)
            for _, writer in silent:
                writer.transport.abort()

    run(main())


# -- proxies --------------------------------------------------------------------------------------------


def test_who_does_not_answer_is_reached_through_another() -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silence:
            async with (
                node("c") as (c, at_c),
                node("b", knows=[c]) as (b, at_b),
                node("a", knows=[b]) as (a, at_a),
            ):
                a.book.learn("c", 1, f"127.0.0.1:{silence.getsockname()[1]}")
                b.dial("c")
                await until(lambda: "b" in c.sessions)
                a.dial("c", via=("b",))
                await until(lambda: "a" in c.sessions and "c" in a.sessions)
                assert a.sessions["c"].via == "b"
                assert b.proxied == 1
                a.sessions["c"].send([Ping()] * 3)
                c.sessions["a"].send([Ping()])
                await until(lambda: len(at_c.got) == 3 and at_a.got)
                assert at_b.kinds() == ["up"]  # the proxy has no session with either of it
                await b.close("gone", at_once=True)
                await until(lambda: ("down", "a") in [each[:2] for each in at_c.told])
                await until(lambda: "down" in at_a.kinds())

    run(main())


# -- addresses ------------------------------------------------------------------------------------------


def test_brokers_are_believed_about_addresses_and_clients_are_not() -> None:
    async def main() -> None:
        async with (
            node("a") as (a, at_a),
            node("b", knows=[a]) as (b, _),
            node("client", home="a", knows=[a]) as (client, _),
        ):
            b.dial("a")
            client.dial("a")
            await until(lambda: {"b", "client"} <= set(a.sessions))
            await until(lambda: "a" in b.sessions and "a" in client.sessions)
            client.sessions["a"].send([Addresses({"x": (9, "evil:1"), "b": (9, "evil:1")}), Ping()])
            await until(lambda: len(at_a.got) == 1)
            b.sessions["a"].send([Addresses({"x": (1, "good:1"), "y": (1, "no address")}), Ping()])
            await until(lambda: len(at_a.got) == 2)
            assert (a.book.get("x"), a.book.get("y"), a.book["b"]) == ("good:1", None, b.address)

    run(main())


@pytest.mark.parametrize("text", ["", "x", ":1", "x:", "x:99999", "x:1:", "x:-1", "x" * 400 + ":1"])
def test_what_is_no_address(text: str) -> None:
    assert not is_address(text)


def test_what_is_one() -> None:
    assert parse_address("[::1]:7400") == ("::1", 7400)
    assert parse_address(" host:0 ") == ("host", 0)


# -- the end --------------------------------------------------------------------------------------------


def test_an_orderly_end_does_not_wait_for_who_does_not_read() -> None:
    async def main() -> None:
        async with node("a") as (a, _), node("b", knows=[a]) as (b, at_b):
            b.dial("a")
            await until(lambda: "b" in a.sessions and "a" in b.sessions)
            b.sessions["a"].pause_reading()
            a.sessions["b"].write(b"\0" * (32 << 20))
            began = asyncio.get_running_loop().time()
            await a.close("bye")
            assert asyncio.get_running_loop().time() - began < SECONDS
            b.sessions["a"].resume_reading()
            await until(lambda: "down" in at_b.kinds())

    run(main())


def test_who_is_told_good_bye_knows_why() -> None:
    async def main() -> None:
        async with node("a") as (a, _), node("b", knows=[a]) as (b, at_b):
            b.dial("a")
            await until(lambda: "b" in a.sessions and "a" in b.sessions)
            await a.close("it is late")
            await until(lambda: at_b.told[-1] == ("down", "a", "it is late"))

    run(main())


def test_a_peer_that_does_not_read_is_given_up() -> None:
    async def main() -> None:
        limits = TransportLimits(unsent=4 << 20)
        async with node("a", limits=limits) as (a, at_a), node("b", knows=[a]) as (b, _):
            b.dial("a")
            await until(lambda: "b" in a.sessions and "a" in b.sessions)
            b.sessions["a"].pause_reading()
            for _ in range(100):
                if "b" in a.sessions:
                    a.sessions["b"].write(b"\0" * (1 << 20))
                await asyncio.sleep(0)
            await until(lambda: at_a.told[-1] == ("down", "b", "it does not read what it is sent"))

    run(main())
