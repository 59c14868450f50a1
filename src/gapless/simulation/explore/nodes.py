"""Nodes as values: a step is a function from a state and an input to another state and some effects.

A node is a deterministic state machine, so what it does in a state need be worked out only once, however many
schedules bring it there. States are kept frozen (pickled) and named by numbers; equal ones have the same
number. A schedule that differs from one seen before in the order of two messages runs the nodes concerned,
and looks up what all others do.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import zlib
from abc import ABCMeta
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from enum import EnumType
from random import Random
from sys import intern
from types import FunctionType
from typing import Any, Generic, TypeVar

import msgspec

from gapless.core.broker import Broker
from gapless.core.effects import Effect, Persist, Record, Send
from gapless.core.events import Input, MessageReceived
from gapless.core.leaf import Leaf
from gapless.core.limits import Limits
from gapless.core.messages import Message
from gapless.core.messages.overlay import NodeState
from gapless.core.model import Micros, NodeId, OrderName
from gapless.core.node import NodeConfig
from gapless.core.orders.publisher import PublisherBroker
from gapless.core.overlay.sessions import Timing

T = TypeVar("T")

NodeNumber = int
"""The number of a node's state."""
ItemNumber = int
"""The number of a message."""


LIVE_MAX = 64
"""How many nodes are kept as they are, too."""


class NoChance(Random):
    """Draws the least number always, and has no state that would tell one node from another."""

    def randrange(self, *args: Any, **kwargs: Any) -> int:
        """The least."""
        return 0


NO_CHANCE = NoChance()
GIVEN = (NoChance, NodeConfig, Limits, Timing)
"""What nodes are given and never change."""
PLAIN = frozenset((int, dict, list, type(None), bool, type, type(msgspec.Struct), EnumType, ABCMeta))
"""What has no name of its own; most things by far."""


class Numbered(Generic[T]):
    """Gives equal values the same number."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._numbers: dict[Hashable, int] = {}

    def number(self, key: Hashable, value: T) -> int:
        """The number of the value that the key stands for."""
        found = self._numbers.setdefault(key, len(self.values))
        if found == len(self.values):
            self.values.append(value)
        return found

    def __contains__(self, key: Hashable) -> bool:
        return key in self._numbers


@dataclass(frozen=True, slots=True)
class Sent:
    """An effect: a message for a peer."""

    peer: NodeId
    item: ItemNumber
    low: bool


@dataclass(frozen=True, slots=True)
class Stepped:
    """What came of a step."""

    node: NodeNumber
    wake_at: Micros | None
    records: tuple[Record, ...]
    effects: tuple[Sent | Effect, ...]
    """All others, in order."""
    error: str = ""
    """What the code raised, which it never should."""


class Nodes:
    """The states of all nodes of a network that were met so far, and the steps between them."""

    def __init__(self) -> None:
        self.items: Numbered[Message] = Numbered()
        self._inputs: Numbered[Input] = Numbered()
        self._stores: Numbered[tuple[Record, ...]] = Numbered()
        self._frozen: Numbered[bytes] = Numbered()
        self._steps: dict[tuple[NodeNumber, int, Micros], Stepped] = {}
        self._shared: Numbered[object] = Numbered()
        self._live: dict[NodeNumber, Broker | Leaf] = {}  # just frozen, so one of them need not be thawed
        self._notes: dict[tuple[NodeNumber, Callable[..., Any]], Any] = {}

    @property
    def count(self) -> int:
        """How many states of nodes there were."""
        return len(self._frozen.values)

    @property
    def steps(self) -> int:
        """How many different steps were executed."""
        return len(self._steps)

    def started(self, node: Broker | Leaf, now: Micros) -> Stepped:
        """A node begins."""
        return self._stepped(node, node.start(now))

    def step(self, number: NodeNumber, each: Input | None, now: Micros) -> Stepped:
        """A node handles an input, or what is due."""
        return self._step(number, -1 if each is None else self._number_of(each), each, now)

    def handle(self, number: NodeNumber, peer: NodeId, item: ItemNumber, now: Micros) -> Stepped:
        """A node handles a message."""
        message = self.items.values[item]
        key = self._inputs.number((peer, item), MessageReceived(peer, message))
        return self._step(number, key, self._inputs.values[key], now)

    def stored(self, records: tuple[Record, ...], after: int | None = None) -> int:
        """The number of a store with these records, after what another one has."""
        found = records if after is None else self._stores.values[after] + records
        return self._stores.number(msgspec.msgpack.encode(found), found)

    def records(self, store: int) -> tuple[Record, ...]:
        """What a store has."""
        return self._stores.values[store]

    def _number_of(self, each: Input) -> int:
        return self._inputs.number((type(each), msgspec.msgpack.encode(each)), each)

    def _step(self, number: NodeNumber, key: int, each: Input | None, now: Micros) -> Stepped:
        known = self._steps.get((number, key, now))
        if known is None:
            node = self._live.pop(number, None) or self.thawed(number)
            try:
                known = self._stepped(node, node.step([] if each is None else [each], now))
            except Exception as error:  # code that raises is what an exploration is there to find
                known = Stepped(number, None, (), (), error=f"{type(error).__name__}: {error}")
            self._steps[number, key, now] = known
        return known

    def _stepped(self, node: Broker | Leaf, effects: list[Effect]) -> Stepped:
        number = self._freeze(node)
        if len(self._live) >= LIVE_MAX:
            self._live.clear()
        self._live[number] = node
        return Stepped(
            node=number,
            wake_at=node.wake_at(),
            records=tuple(each.record for each in effects if isinstance(each, Persist)),
            effects=tuple(
                Sent(each.peer, self._item(each.message), each.low) if isinstance(each, Send) else each
                for each in effects
                if not isinstance(each, Persist)
            ),
        )

    def _item(self, message: Message) -> ItemNumber:
        return self.items.number((type(message), msgspec.msgpack.encode(message)), message)

    # -- freezing ----------------------------------------------------------------------------------------

    def noted(self, number: NodeNumber, look: Callable[[Broker | Leaf], T]) -> T:
        """What a look at a node shows; the node is thawed for it only once."""
        key = (number, look)
        if key not in self._notes:
            self._notes[key] = look(self.thawed(number))
        found: T = self._notes[key]
        return found

    def thawed(self, number: NodeNumber) -> Broker | Leaf:
        """A node in the state, of one's own."""
        frozen = zlib.decompress(self._frozen.values[number])
        thaw = pickle.Unpickler(io.BytesIO(frozen))  # noqa: S301 - written by this process
        thaw.persistent_load = self._load  # type: ignore[method-assign]
        node: Broker | Leaf = thaw.load()
        return node

    def _freeze(self, node: Broker | Leaf) -> NodeNumber:
        written = io.BytesIO()
        freeze = pickle.Pickler(written, protocol=5)
        freeze.persistent_id = self._name  # type: ignore[method-assign]
        freeze.dump(node)
        frozen = written.getvalue()
        digest = hashlib.blake2b(frozen, digest_size=16).digest()
        return self._frozen.number(digest, b"" if digest in self._frozen else zlib.compress(frozen, 1))

    def _name(self, each: Any) -> str | int | None:
        """What never changes is frozen by name, as one thing for all nodes: so it does not matter whether two
        equal ones that a node holds are the same, and functions, which selectors were compiled to, could not
        be written down."""
        kind = type(each)
        if kind is str:
            return intern(each)
        if kind in PLAIN:
            return None
        if kind is tuple:
            return self._shared.number(each, each) if _is_simple(each) else None
        if kind is FunctionType:
            bound = tuple(repr(cell.cell_contents) for cell in each.__closure__ or ())
            return self._shared.number((each.__code__, bound), each) if bound else None
        if kind in GIVEN or isinstance(each, msgspec.Struct):
            try:
                return self._shared.number((kind, each), each)
            except TypeError:  # it has attributes or a table in it, and goes by its parts
                return None
        return None

    def _load(self, name: Any) -> Any:
        return name if type(name) is str else self._shared.values[name]


def _is_simple(values: tuple[object, ...]) -> bool:
    return all(type(each) is str or type(each) is int for each in values)


def is_operational(node: Broker | Leaf) -> bool:
    """Whether a node is more than recovering."""
    return node.overlay.state is NodeState.OPERATIONAL


def in_custody(node: Broker | Leaf) -> int:
    """For how many events of publisher order a broker answers."""
    order = node.orders[OrderName.PUBLISHER]
    return len(order.forwarding.custody) if isinstance(order, PublisherBroker) else 0
