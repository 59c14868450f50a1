"""What a node finds in its store of its place in the network (P0-91)."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.core.effects import (
    BrokerRemoved,
    Effect,
    Founded,
    IncarnationStarted,
    JoinedAt,
    LeaveWanted,
    LinkAdded,
    LinkRemoved,
    NetworkBound,
    PartlyKnown,
    Record,
)
from gapless.core.messages.overlay import Removal
from gapless.core.model import Incarnation, Link, NodeId, link
from gapless.core.overlay.fates import Fates


class Recovered:
    """The number of the last incarnation, the neighbourhood, and who is gone."""

    def __init__(self, records: Iterable[Record], out: list[Effect]) -> None:
        self.incarnation: Incarnation = 0
        self.joined_at: NodeId = ""
        self.network = ""
        """The id of the network; empty where it is not known yet."""
        self.is_alone: bool | None = None
        """Whether this broker is a network by itself, if that is recorded."""
        self.links: dict[Link, bool] = {}
        """Each link, and whether it is marked."""
        self.partly_known: tuple[NodeId, ...] = ()
        """Brokers that may have more links."""
        self.is_leaving = False
        """Whether this broker had begun to leave."""
        self._removals: list[Removal] = []
        for record in records:
            self._take(record)
        self.fates = Fates(out, self._removals)

    def _take(self, record: Record) -> None:
        match record:
            case IncarnationStarted(incarnation=incarnation):
                self.incarnation = incarnation
            case LinkAdded(link=added, marked=marked):
                self.links[added] = marked
            case LinkRemoved(link=gone):
                self.links.pop(gone, None)
            case JoinedAt(join_point=join_point):
                self.joined_at = join_point
            case PartlyKnown(nodes=nodes):
                self.partly_known = nodes
            case Founded(alone=alone):
                self.is_alone = alone
            case LeaveWanted(is_wanted=is_wanted):
                self.is_leaving = is_wanted
            case BrokerRemoved(removal=removal):
                self._removals.append(removal)
            case NetworkBound(network=network):
                self.network = network
            case _:
                pass  # of orders and of topics

    def live_at(self, client: NodeId, home: NodeId) -> NodeId:
        """The home that a client was given, or who has the place of that broker now; the client's one link
        leads there."""
        heir = self.fates.heir(home)
        self.links = {each: marked for each, marked in self.links.items() if client not in each}
        self.links[link(client, heir)] = False
        return heir
