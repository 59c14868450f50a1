"""What is explored: a small network, and what its clients and the world around it do, step by step."""

from __future__ import annotations

from dataclasses import dataclass, field

from gapless.core.limits import Limits
from gapless.core.model import Link, NodeId


@dataclass(frozen=True, slots=True)
class Subscribe:
    """A client subscribes."""

    client: NodeId
    selector: str = ""
    name: str = ""
    """What the subscription is called; as its client, unless said otherwise."""

    def __str__(self) -> str:
        return f"{self.client} subscribes" + (f" to {self.selector}" if self.selector else "")


@dataclass(frozen=True, slots=True)
class Publish:
    """A client publishes events of these kinds, in one go."""

    client: NodeId
    kinds: tuple[str, ...] = ("x",)

    def __str__(self) -> str:
        return f"{self.client} publishes {', '.join(self.kinds)}"


@dataclass(frozen=True, slots=True)
class Attach:
    """A client comes."""

    client: NodeId
    home: NodeId

    def __str__(self) -> str:
        return f"client {self.client} comes to {self.home}"


@dataclass(frozen=True, slots=True)
class Join:
    """A broker joins."""

    broker: NodeId
    through: tuple[NodeId, ...]

    def __str__(self) -> str:
        return f"broker {self.broker} joins through {' or '.join(self.through)}"


@dataclass(frozen=True, slots=True)
class Crash:
    """A broker crashes: a failure of the scenario's own."""

    broker: NodeId

    def __str__(self) -> str:
        return f"{self.broker} crashes"


@dataclass(frozen=True, slots=True)
class Restart:
    """A crashed broker comes back."""

    broker: NodeId

    def __str__(self) -> str:
        return f"{self.broker} is started again"


@dataclass(frozen=True, slots=True)
class Cut:
    """A link is cut, and both ends notice: a failure of the scenario's own."""

    a: NodeId
    b: NodeId

    def __str__(self) -> str:
        return f"the link {self.a}–{self.b} is cut"


@dataclass(frozen=True, slots=True)
class Heal:
    """A link works again."""

    a: NodeId
    b: NodeId

    def __str__(self) -> str:
        return f"the link {self.a}–{self.b} is healed"


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is done for a while."""

    seconds: float = 3.0

    def __str__(self) -> str:
        return f"{self.seconds:g} s pass"


Action = Subscribe | Publish | Attach | Join | Crash | Restart | Cut | Heal | Wait


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A network and a script; the interleavings are the exploration's business."""

    name: str
    about: str
    links: tuple[Link, ...]
    clients: dict[NodeId, NodeId]
    """Those that are there from the beginning, with their homes."""
    script: tuple[Action, ...]
    prologue: tuple[Action, ...] = ()
    """Steps that are taken before the exploration begins: how the network came to be as it is."""
    delta: int = 1
    resets: bool = False
    """Whether events may be missed here, as long as a ``Reset`` tells of it."""
    limits: Limits = field(default_factory=Limits)
