"""The messages between nodes: a frozen class each, a module a protocol.

``Message`` is the union of all of them. The tag of each class is its name on the wire.
"""

from typing import TypeAlias

from gapless.core.messages.best_effort import (
    BestEffortEvents,
    BestEffortSubscribe,
    BestEffortSubscribed,
    BestEffortUnsubscribe,
)
from gapless.core.messages.overlay import (
    Joined,
    JoinedConfirmed,
    JoinRefused,
    JoinRequest,
    Neighbourhood,
    PartialTopology,
    Ping,
    Status,
)

OverlayMessage: TypeAlias = (
    JoinRequest | JoinRefused | PartialTopology | Joined | JoinedConfirmed | Neighbourhood | Status | Ping
)
BestEffortMessage: TypeAlias = (
    BestEffortSubscribe | BestEffortSubscribed | BestEffortUnsubscribe | BestEffortEvents
)
Message: TypeAlias = OverlayMessage | BestEffortMessage

__all__ = [
    "BestEffortEvents",
    "BestEffortMessage",
    "BestEffortSubscribe",
    "BestEffortSubscribed",
    "BestEffortUnsubscribe",
    "JoinRefused",
    "JoinRequest",
    "Joined",
    "JoinedConfirmed",
    "Message",
    "Neighbourhood",
    "OverlayMessage",
    "PartialTopology",
    "Ping",
    "Status",
]
