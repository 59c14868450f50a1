"""A live broker's port under attack: it goes on serving good clients, and its memory stays bounded."""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from random import Random

import pytest

import gapless
from gapless.core.messages import Log, Message, Ping, Publications
from gapless.core.messages.publisher import Body, LogEntry
from gapless.core.model import Event, Identity
from gapless.server.inquiry import status, who
from gapless.wire.codec import FrameReader, WireMessage, encode
from gapless.wire.control import VERSIONS, Goodbye, Hello, Refused, StatusQuery, Welcome
from live.harness import BrokerProcess, LiveNetwork
from live.traffic import BLUNDERS
from publications import single

CONNECTIONS = 100
UNSENT_MEGABYTES = 8
MEMORY_MAX = 150 << 20
"""How much memory an attack may cost a broker: more than a few buffers, less than what was sent."""
SECONDS = 30.0

_numbers = itertools.count(1)


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    limits = {
        "GAPLESS_CONNECTIONS": str(CONNECTIONS),
        "GAPLESS_UNSENT_MEGABYTES": str(UNSENT_MEGABYTES),
        "GAPLESS_SUSPECT_AFTER": "5",  # so that nothing here is ended for silence on a busy machine
    }
    with LiveNetwork(tmp_path_factory.mktemp("hostile"), delta=1) as network:
        broker = network.add("b0", environ=limits)
        broker.start()
        asyncio.run(declare(broker, "good"))
        yield broker


@pytest.fixture(autouse=True)
def unharmed(broker: BrokerProcess) -> Iterator[None]:
    """After every attack the broker serves good clients, with about as much memory as before."""
    asyncio.run(serve_well(broker))
    before = broker.memory()
    yield
    asyncio.run(serve_well(broker))
    assert broker.memory() - before < MEMORY_MAX
    assert broker.is_running
    assert not BLUNDERS.search(broker.log()), broker.log_tail()


async def declare(broker: BrokerProcess, topic: str) -> None:
    async with gapless.connect(broker.address) as client:
        await client.create_topic(topic)


async def serve_well(broker: BrokerProcess, count: int = 20) -> None:
    """A good client publishes and gets all of it, once, in order."""
    async with (
        asyncio.timeout(SECONDS),
        gapless.connect(broker.address, timeout=SECONDS) as client,
        client.subscribe("good", "n >= 0") as subscription,
        client.publisher("good") as publisher,
    ):
        for number in range(count):
            await publisher.publish({"n": number})
        got = [await anext(subscription) for _ in range(count)]
        await publisher.flush()
    assert [each.attributes["n"] for each in got if isinstance(each, gapless.Event)] == list(range(count))


class Raw:
    """A connection that says whatever a test wants."""

    def __init__(self, broker: BrokerProcess) -> None:
        host, port = broker.address.split(":")
        self.socket = socket.create_connection((host, int(port)), timeout=SECONDS)
        self._reader = FrameReader()

    def __enter__(self) -> Raw:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """False when the broker has ended the connection."""
        try:
            self.socket.sendall(data)
        except OSError:
            return False
        return True

    def say(self, *messages: WireMessage) -> bool:
        return self.send(encode(messages))

    def hear(self) -> list[WireMessage]:
        """The next messages; none: the broker has ended the connection."""
        while True:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                return []
            messages = self._reader.feed(data)
            if messages or not data:
                return messages

    def hear_all(self) -> list[WireMessage]:
        """Everything until the broker ends the connection, which it must do."""
        heard: list[WireMessage] = []
        while messages := self.hear():
            heard += messages
        return heard

    def attach(self, name: str | None = None) -> str:
        """Begin a session as a client."""
        name = name or f"evil-{next(_numbers)}"
        self.say(Hello(VERSIONS, Identity(name, 1, "b0"), 1, "b0"))
        assert isinstance(self.hear()[0], Welcome)
        return name


def reason_of(heard: list[WireMessage]) -> str:
    assert isinstance(heard[-1], Goodbye)
    return heard[-1].reason


# -- before a session -----------------------------------------------------------------------------------


def test_garbage(broker: BrokerProcess) -> None:
    rng = Random(1)
    for _ in range(200):
        with Raw(broker) as raw:
            raw.send(rng.randbytes(rng.randrange(1, 3000)))


def test_another_protocol(broker: BrokerProcess) -> None:
    with Raw(broker) as raw:
        raw.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert "is the other end gapless?" in reason_of(raw.hear_all())


@pytest.mark.parametrize("length", [0xFFFFFFFF, 8 << 20, (64 << 10) + 1])
def test_a_frame_that_is_too_large_for_a_stranger(broker: BrokerProcess, length: int) -> None:
    with Raw(broker) as raw:
        raw.send(struct.pack(">IB", length, VERSIONS[1]))
        assert f"a frame of {length:,} bytes is larger than" in reason_of(raw.hear_all())


def test_versions_that_the_broker_does_not_speak(broker: BrokerProcess) -> None:
    with Raw(broker) as raw:
        raw.say(Hello((7, 9), Identity("new", 1, "b0"), 1, "b0"))
        heard = raw.hear_all()
    assert isinstance(heard[0], Refused)
    assert "versions (7, 9) are not spoken here" in heard[0].reason


@pytest.mark.parametrize(
    ("hello", "reason"),
    [
        (Hello(VERSIONS, Identity("x", 1, "b0"), 3, "b0"), "this network has delta = 1, not 3"),
        (Hello(VERSIONS, Identity("b0", 1), 1, "b0"), "names must be unique"),
        (Hello(VERSIONS, Identity("x", 1, "b0"), 1, "b9"), "this is b0, not b9"),
        (Hello(VERSIONS, Identity("", 1, "b0"), 1, "b0"), "a name has 1 to 200 characters"),
        (Hello(VERSIONS, Identity("x" * 5000, 1, "b0"), 1, "b0"), "a name has 1 to 200 characters"),
        (Hello(VERSIONS, Identity("x", 1, "b0", "n" * 5000), 1, "b0"), "a name has 1 to 200 characters"),
    ],
)
def test_a_wrong_hello_is_told_why(broker: BrokerProcess, hello: Hello, reason: str) -> None:
    with Raw(broker) as raw:
        raw.say(hello)
        heard = raw.hear_all()
    assert isinstance(heard[0], Refused)
    assert reason in heard[0].reason


def test_another_message_than_a_question(broker: BrokerProcess) -> None:
    with Raw(broker) as raw:
        raw.say(Ping())
        assert isinstance(raw.hear_all()[0], Refused)


def test_silence_and_half_a_frame_are_not_waited_for(broker: BrokerProcess) -> None:
    began = time.monotonic()
    with Raw(broker) as silent, Raw(broker) as half:
        half.send(encode([Hello(VERSIONS, Identity("half", 1, "b0"), 1, "b0")])[:-1])
        assert silent.hear_all() == []
        assert half.hear_all() == []
    assert time.monotonic() - began < SECONDS


def test_a_byte_at_a_time(broker: BrokerProcess) -> None:
    data = encode([Hello(VERSIONS, Identity("slow", 1, "b0"), 1, "b0")])
    with Raw(broker) as raw:
        sent = 0
        while sent < len(data) and raw.send(data[sent : sent + 1]):
            sent += 1
            time.sleep(0.1)
        assert sent < len(data)
        assert raw.hear_all() == []


def test_a_flood_of_connections(broker: BrokerProcess) -> None:
    """More than the broker bears, all silent, while a good client comes and is served."""
    with ExitStack() as stack:
        for _ in range(3 * CONNECTIONS):
            stack.enter_context(Raw(broker))
        asyncio.run(serve_well(broker))
        assert asyncio.run(who(broker.address, SECONDS)).node == "b0"


def test_sessions_beyond_the_limit_are_refused(broker: BrokerProcess) -> None:
    async def main() -> None:
        connections = [await connect_as_client(broker) for _ in range(CONNECTIONS + 10)]
        try:
            assert sum(is_welcome for is_welcome, _ in connections) <= CONNECTIONS
            assert not connections[-1][0]
        finally:
            for _, writer in connections:
                writer.transport.abort()

    asyncio.run(main())


async def connect_as_client(broker: BrokerProcess) -> tuple[bool, asyncio.StreamWriter]:
    host, port = broker.address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(encode([Hello(VERSIONS, Identity(f"many-{next(_numbers)}", 1, "b0"), 1, "b0")]))
    with suppress(ConnectionError):
        return b"welcome" in await reader.read(1 << 16), writer
    return False, writer


def test_a_flood_of_questions(broker: BrokerProcess) -> None:
    for _ in range(300):
        with Raw(broker) as raw:
            raw.say(StatusQuery())
    assert asyncio.run(status(broker.address, SECONDS))["id"] == "b0"


# -- within a session -----------------------------------------------------------------------------------


def test_mutated_frames_on_sessions(broker: BrokerProcess) -> None:
    """Bytes of good messages with a few of them changed: understood or not, nobody is harmed."""
    rng = Random(2)
    run = single(Event("good", "evil", 1, {"n": -1}, b"x"), 1)
    subscription = LogEntry(1, "evil", Body("evil", "good", "n = -5", ("evil",)), news=True)
    messages: list[Message] = [Ping(), Publications((run,)), Log((subscription,))]
    for _ in range(100):
        with Raw(broker) as raw:
            raw.attach()
            data = bytearray(encode(messages))
            for _ in range(rng.randrange(1, 4)):
                data[rng.randrange(5, len(data))] = rng.randrange(256)
            raw.send(bytes(data))


def test_garbage_on_a_session_ends_it(broker: BrokerProcess) -> None:
    with Raw(broker) as raw:
        raw.attach()
        raw.send(struct.pack(">IB", 10, VERSIONS[1]) + b"\xc1" * 10)
        assert "malformed frame" in reason_of(raw.hear_all())


def test_attributes_too_deep_to_be_sent_on(broker: BrokerProcess) -> None:
    """What can just be decoded may be too deep to be encoded again at another depth of the stack."""
    for depth in range(900, 1000, 3):
        with Raw(broker) as raw:
            name = raw.attach()
            raw.say(Log((LogEntry(1, f"{name}/1", Body(name, "good", "n < 0", (name,)), news=True),)))
            event = Event("good", name, 1, {"n": -1, "deep": "here"})
            body = encode([Publications((single(event, 1),))])[5:]
            deep = body.replace(b"\xa4here", b"\x81\xa1n" * depth + b"\x01")
            raw.send(struct.pack(">IB", len(deep), VERSIONS[1]) + deep)
            raw.hear()


def test_a_flood_of_pings(broker: BrokerProcess) -> None:
    frames = encode([Ping()] * 10_000)
    with Raw(broker) as raw:
        raw.attach()
        assert all(raw.send(frames) for _ in range(30))
        asyncio.run(serve_well(broker))


def test_a_reader_that_does_not_read(broker: BrokerProcess) -> None:
    """It subscribes, shows signs of life and takes nothing: what waits for it is bounded, then it goes."""
    asyncio.run(declare(broker, "unread"))
    with Raw(broker) as raw:
        raw.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        name = raw.attach()
        raw.say(Log((LogEntry(1, f"{name}/1", Body(name, "unread", "n >= 0", (name,)), news=True),)))
        asyncio.run(publish_until_given_up(broker, raw, name))
        assert not raw.say(Ping(), *[Goodbye("x" * 10_000)] * 100)


async def publish_until_given_up(broker: BrokerProcess, raw: Raw, name: str) -> None:
    async with asyncio.timeout(SECONDS), gapless.connect(broker.address) as client:
        publisher = await client.publisher("unread").__aenter__()  # nobody confirms, so nobody flushes
        for number in range(6 * UNSENT_MEGABYTES):
            raw.say(Ping())
            await publisher.publish({"n": number}, b"x" * (1 << 19))
        while name in {each["peer"] for each in (await status(broker.address))["sessions"]}:
            raw.say(Ping())
            await asyncio.sleep(0.1)
