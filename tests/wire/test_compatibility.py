"""Version 0.1.0 spoke version 1 of the protocol: it is understood well enough to be refused."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gapless.core.model import Identity, NodeId
from gapless.wire.control import Goodbye, Hello, Here, Refused


class OldIdentity(msgspec.Struct, frozen=True, array_like=True):
    """As version 0.1.0 had it."""

    node: NodeId
    incarnation: int
    home: NodeId | None = None


class OldHello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """As version 0.1.0 had it."""

    versions: tuple[int, int]
    identity: OldIdentity
    delta: int
    target: NodeId
    address: str = ""


def test_an_old_node_is_understood() -> None:
    old = OldHello((1, 1), OldIdentity("c", 7, "b"), 1, "b")
    data = msgspec.msgpack.encode(old)
    assert msgspec.msgpack.decode(data, type=Hello) == Hello((1, 1), Identity("c", 7, "b"), 1, "b")


def test_an_old_node_understands() -> None:
    new = Hello((1, 1), Identity("c", 7, "b", network="one", take_over=True), 1, "b", "host:1")
    data = msgspec.msgpack.encode(new)
    expected = OldHello((1, 1), OldIdentity("c", 7, "b"), 1, "b", "host:1")
    assert msgspec.msgpack.decode(data, type=OldHello) == expected


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["no-session", "why"], Refused("why")),
        (["bye", "why"], Goodbye("why")),
        (["here", 1, "b", 1, {}], Here(1, "b", 1, {})),
    ],
)
def test_what_old_answers_lack_has_a_meaning(old: list[Any], new: msgspec.Struct) -> None:
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(old), type=type(new)) == new
