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
    LeaveAsked,
    LinksWanted,
    Neighbourhood,
    PartialTopology,
    PartitionInfo,
    Ping,
    Removal,
    RemovalAsked,
    RemovalVote,
    Status,
)
from gapless.core.messages.publisher import (
    Acknowledged,
    Attached,
    AttachWanted,
    Confirmed,
    Detached,
    Log,
    LogReceived,
    Publications,
    Superseded,
    Synced,
    SyncWanted,
)
from gapless.core.messages.topics import (
    CreateTopic,
    DeleteTopic,
    TopicAnswer,
    TopicsTold,
    TopicsWanted,
)

OverlayMessage: TypeAlias = (
    JoinRequest
    | JoinRefused
    | PartialTopology
    | Joined
    | JoinedConfirmed
    | Neighbourhood
    | Status
    | PartitionInfo
    | LinksWanted
    | LeaveAsked
    | RemovalAsked
    | RemovalVote
    | Ping
)
BestEffortMessage: TypeAlias = (
    BestEffortSubscribe | BestEffortSubscribed | BestEffortUnsubscribe | BestEffortEvents
)
PublisherMessage: TypeAlias = (
    Log
    | LogReceived
    | SyncWanted
    | Synced
    | Confirmed
    | Attached
    | AttachWanted
    | Detached
    | Publications
    | Acknowledged
    | Superseded
)
TopicMessage: TypeAlias = TopicsWanted | TopicsTold | CreateTopic | DeleteTopic | TopicAnswer
Message: TypeAlias = OverlayMessage | BestEffortMessage | PublisherMessage | TopicMessage

__all__ = [
    "Acknowledged",
    "AttachWanted",
    "Attached",
    "BestEffortEvents",
    "BestEffortMessage",
    "BestEffortSubscribe",
    "BestEffortSubscribed",
    "BestEffortUnsubscribe",
    "Confirmed",
    "CreateTopic",
    "DeleteTopic",
    "Detached",
    "JoinRefused",
    "JoinRequest",
    "Joined",
    "JoinedConfirmed",
    "LeaveAsked",
    "LinksWanted",
    "Log",
    "LogReceived",
    "Message",
    "Neighbourhood",
    "OverlayMessage",
    "PartialTopology",
    "PartitionInfo",
    "Ping",
    "Publications",
    "PublisherMessage",
    "Removal",
    "RemovalAsked",
    "RemovalVote",
    "Status",
    "Superseded",
    "SyncWanted",
    "Synced",
    "TopicAnswer",
    "TopicMessage",
    "TopicsTold",
    "TopicsWanted",
]
