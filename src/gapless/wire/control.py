"""Messages of the transport itself: who is at the other end, where others are, and good-bye.

A connection begins with one question. ``Hello`` asks for a session and is answered by ``Welcome`` or
``Refused``; ``Who``, ``StatusQuery`` and ``RemoveBroker`` ask for something and end the connection with the
answer. Versions are negotiated here: the dialer names the range that it speaks, the other end chooses the
highest of both.

=================  ========================  ==========================================================
message            from → to                 meaning
=================  ========================  ==========================================================
``Hello``          dialer → acceptor         this is me; I want a session with ``target``
``Welcome``        acceptor → dialer         this is me; the session begins
``Refused``        acceptor → dialer         no session, and why
``Who``            anybody → broker          which broker is at this address, and who is near it?
``Here``           broker → anybody          the answer
``Addresses``      broker → its peers        where nodes of your neighbourhood listen
``StatusQuery``    anybody → broker          how are you?
``StatusReport``   broker → anybody          the answer
``RemoveBroker``   anybody → broker          take the place of a neighbour that is gone for good
``RemovalReport``  broker → anybody          the answer
``Goodbye``        either end                the session ends, and why
=================  ========================  ==========================================================
"""

from __future__ import annotations

from typing import Any, TypeAlias

import msgspec

from gapless.core.model import Identity, Incarnation, NodeId

VERSIONS = (2, 2)
"""The lowest and the highest version of the protocol that this program speaks."""

TAKEN = "taken"
"""The code of a ``Goodbye`` to a client whose name another one has taken."""

Address: TypeAlias = tuple[Incarnation, str]
"""Where a node listens, as ``host:port``, and in which of its lives: a later one knows better."""


class Hello(msgspec.Struct, frozen=True, array_like=True, tag="hello"):
    """The first message of a dialer that wants a session."""

    versions: tuple[int, int]
    identity: Identity
    delta: int
    target: NodeId
    """Whom the session is for: a broker that is not the target passes the bytes on, as a proxy."""
    address: str = ""
    """Where the dialer listens; empty for a client."""


class Welcome(msgspec.Struct, frozen=True, array_like=True, tag="welcome"):
    """The session begins."""

    version: int
    identity: Identity
    address: str = ""


class Refused(msgspec.Struct, frozen=True, array_like=True, tag="no-session"):
    """There is no session."""

    reason: str
    code: str = ""
    """A ``Refusal``, where the dialer must know it; empty, or one that it does not know: no other than nobody
    being there."""


class Who(msgspec.Struct, frozen=True, array_like=True, tag="who"):
    """Which broker listens here?"""

    versions: tuple[int, int]


class Here(msgspec.Struct, frozen=True, array_like=True, tag="here"):
    """This broker, and where those near it listen, itself among them."""

    version: int
    node: NodeId
    delta: int
    book: dict[NodeId, Address]
    network: str = ""
    incarnation: Incarnation = 0


class Addresses(msgspec.Struct, frozen=True, array_like=True, tag="addresses"):
    """Where nodes listen, as far as the sender knows."""

    book: dict[NodeId, Address]


class StatusQuery(msgspec.Struct, frozen=True, array_like=True, tag="status?"):
    """How are you?"""


class StatusReport(msgspec.Struct, frozen=True, array_like=True, tag="status!"):
    """What ``gapless status`` shows of one broker."""

    report: dict[str, Any]


class RemoveBroker(msgspec.Struct, frozen=True, array_like=True, tag="remove?"):
    """A neighbour of yours is gone for good: take its place in the tree."""

    node: NodeId


class RemovalReport(msgspec.Struct, frozen=True, array_like=True, tag="remove!"):
    """That is done, or it is not, and why."""

    node: NodeId
    error: str = ""


class Goodbye(msgspec.Struct, frozen=True, array_like=True, tag="bye"):
    """The last message of a session that one end closes on purpose."""

    reason: str
    code: str = ""
    """``TAKEN``: another client has taken the name of this one."""


Control: TypeAlias = (
    Hello
    | Welcome
    | Refused
    | Who
    | Here
    | Addresses
    | StatusQuery
    | StatusReport
    | RemoveBroker
    | RemovalReport
    | Goodbye
)


def common_version(versions: tuple[int, int]) -> int | None:
    """The highest version that both ends speak, if there is one."""
    lowest, highest = max(versions[0], VERSIONS[0]), min(versions[1], VERSIONS[1])
    return highest if lowest <= highest else None
