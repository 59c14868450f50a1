"""A client that speaks the protocol and means harm: whatever well-typed messages it sends, its broker neither
fails nor makes anything that cannot be sent."""

from __future__ import annotations

from random import Random
from typing import Annotated, Any, get_args, get_origin

import msgspec
import pytest

from gapless.core.attributes import INT_MAX, Attributes
from gapless.core.broker import Broker
from gapless.core.effects import Disconnect, LinkAdded, Send
from gapless.core.events import Input, MessageReceived, SessionDown, SessionUp
from gapless.core.messages import Log, Ping
from gapless.core.messages.publisher import Body, LogEntry
from gapless.core.model import MILLISECOND, Identity
from gapless.core.node import NodeConfig
from gapless.wire.codec import FrameReader, encode
from gapless.wire.control import Control
from wire.messages import CLASSES

MESSAGES = [each for each in CLASSES if each not in get_args(Control)]
NAMES = ("me", "b", "evil", "good", "t", "s1", "s2", "")
SELECTORS = ("price > 1", "", "bad (", "a = 'x'")
NUMBERS = (0, 1, 2, 3, -1, 2**62, 1_794_789_989_248 << 20)
VALUES = (None, 1, "x", {"a": 1}, 2.5, True, INT_MAX, {"price": {"x": 1}})
PAUSES = (0, 1 * MILLISECOND, 300 * MILLISECOND, 1200 * MILLISECOND)
PEERS = {"evil": Identity("evil", 5, "me"), "good": Identity("good", 3, "me"), "b": Identity("b", 2)}


def some(hint: Any, rng: Random, name: str = "") -> Any:
    """A value of the type, of the few that meet each other often."""
    if hint == Attributes:
        return {rng.choice(NAMES): rng.choice(VALUES) for _ in range(rng.randrange(3))}
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return hint(**{each.name: some(each.type, rng, each.name) for each in msgspec.structs.fields(hint)})
    if get_origin(hint) is Annotated:  # the only annotation there is: not empty
        return some(get_args(hint)[0], rng, name) or some(hint, rng, name)
    origin, inner = getattr(hint, "__origin__", None), get_args(hint)
    if origin is dict:
        return {some(inner[0], rng): some(inner[1], rng) for _ in range(rng.randrange(3))}
    if origin is tuple and inner[-1] is ...:
        return tuple(some(inner[0], rng, name) for _ in range(rng.randrange(4)))
    if origin is tuple:
        return tuple(some(each, rng) for each in inner)
    if inner and origin is None:
        return some(rng.choice(inner), rng)
    if hint is str:
        # that a path leads through the broker itself has a test of its own
        return rng.choice(SELECTORS if name == "selector" else NAMES[1:] if name == "path" else NAMES)
    plain: dict[Any, tuple[Any, ...]] = {
        int: NUMBERS,
        bool: (True, False),
        bytes: (b"", b"x"),
        type(None): (None,),
    }
    return rng.choice(plain.get(hint) or list(hint))


class Victim:
    """A broker between a good client, a good broker and an evil client."""

    def __init__(self, seed: int) -> None:
        self.rng = Random(seed)
        config = NodeConfig(node="me", delta=1, join_points=())
        self.node = Broker(config, [LinkAdded(("b", "me"))], rng=Random(seed))
        self.now = 1_000_000
        self.node.start(self.now)
        self.up: set[str] = set()

    def feed(self, each: Input) -> None:
        self.now += self.rng.choice(PAUSES)
        for effect in self.node.step([each], self.now):
            if isinstance(effect, Send):
                assert FrameReader().feed(encode([effect.message])) == [effect.message]
            elif isinstance(effect, Disconnect):
                self.up.discard(effect.peer)

    def attach(self, peer: str) -> None:
        self.up.add(peer)
        self.feed(SessionUp(PEERS[peer], dialed=False))

    def torment(self, messages: int) -> None:
        for _ in range(messages):
            peer = self.rng.choice(("evil", "evil", "evil", "good", "b"))
            if peer not in self.up and peer not in self.node.overlay.sessions.up:
                self.attach(peer)
            elif self.rng.random() < 0.05:
                self.up.discard(peer)
                self.feed(SessionDown(peer, ""))
            elif peer == "evil":
                self.feed(MessageReceived(peer, some(self.rng.choice(MESSAGES), self.rng)))
            else:
                self.feed(MessageReceived(peer, Ping()))


@pytest.mark.parametrize("block", range(4))
def test_random_messages_of_a_client(block: int) -> None:
    for seed in range(100 * block, 100 * (block + 1)):
        Victim(seed).torment(60)


def test_a_path_through_the_broker_itself() -> None:
    victim = Victim(1)
    victim.attach("evil")
    entry = LogEntry(1, "s1", Body("evil", "t", "price > 1", ("evil", "me")), news=True)
    victim.feed(MessageReceived("evil", Log((entry,))))
