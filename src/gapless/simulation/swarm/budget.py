"""How much is broken: the one place that counts.

A failure is a broker that is down, recovering, still joining or about to crash; a link between two nodes that
is cut in either direction; a false suspicion, until there was time to return from it. What is slow is not
broken, as long as nobody suspects it; and a client that crashes, or that nobody can reach, costs nothing.
"""

from __future__ import annotations

from gapless.core.broker import Broker
from gapless.core.messages.overlay import NodeState
from gapless.core.model import Micros, NodeId
from gapless.simulation.world import World

Pair = tuple[NodeId, NodeId]


class Budget:
    """The failures of a world, and how many there may be at a time."""

    def __init__(self, world: World, most: int) -> None:
        self.most = most
        self.peak = 0
        """The most that were there at a time."""
        self.links: dict[Pair, None] = {}
        """Links that are cut, and sessions that were suspected."""
        self.is_closed = False
        """Whether nothing may fail now, whatever there is room for."""
        self._world = world

    def has_room(self, *besides: NodeId) -> bool:
        """Whether one more may fail; who has failed already may do so again."""
        return not self.is_closed and self.used(*besides) < self.most

    def used(self, *besides: NodeId) -> int:
        """How many failures there are, without those of some nodes."""
        world = self._world
        down = sum(name not in besides and not self._works(name) for name in world.brokers())
        return down + len(self.links)

    def _works(self, name: NodeId) -> bool:
        host = self._world.hosts[name]
        node = host.node
        if not isinstance(node, Broker) or host.crash_next:
            return False
        return node.overlay.state is NodeState.OPERATIONAL and node.overlay.is_joined

    def is_broken(self, pair: Pair) -> bool:
        """Whether the link is counted already."""
        return pair in self.links or pair[::-1] in self.links

    def spend(self, pair: Pair) -> None:
        """A link has failed."""
        self.links[pair] = None
        self.note()

    def spend_for(self, pair: Pair, span: Micros) -> None:
        """A link has failed, and will have come back by itself after the span."""
        self.spend(pair)
        self._world.at(self._world.now + span, self.refund, pair)

    def refund(self, pair: Pair) -> None:
        """The link works again."""
        self.links.pop(pair, None)

    def note(self) -> None:
        """Something has failed: remember how much that makes."""
        self.peak = max(self.peak, self.used())
