"""Partitions: runs of brokers that cannot be reached, with ids and a table of the known ones (000, III).

The broker whose session failed is the *detector*. Each broker that it meets as down on its walk makes a
partition: the run of down brokers from the detector's neighbour to that one, numbered by the detector. It
is an *island* while an active session leads behind its last broker, and a *barrier* when none does; a run
of δ+1 is a barrier by its length, since no walk goes farther. The table of a broker has its own partitions
and those that detectors within 2δ told it of."""

from __future__ import annotations

from collections.abc import Iterable

from gapless.core.effects import Effect, Send
from gapless.core.messages.overlay import PartitionInfo
from gapless.core.model import NodeId, Partition
from gapless.core.overlay.frontier import Frontier
from gapless.core.overlay.sessions import Sessions
from gapless.core.overlay.topology import Topology


class Partitions:
    """The partition table of one node."""

    def __init__(self, topology: Topology, sessions: Sessions, out: list[Effect]) -> None:
        self.own: dict[NodeId, Partition] = {}  # by their last broker
        self.told: dict[Partition, tuple[int, NodeId]] = {}  # distance of the detector, and who told it
        self._topology = topology
        self._sessions = sessions
        self._out = out
        self._count = 0
        self._reach = 2 * topology.delta  # DPT of 000, table I

    def table(self) -> list[Partition]:
        """All known partitions: PT of 000."""
        return [*self.own.values(), *self.told]

    def is_island(self, partition: Partition, frontier: Frontier) -> bool:
        """Whether an own partition is bypassed: some active session leads behind its last broker."""
        behind = set(self._topology.behind(partition.nodes[-1]))
        return any(peer in behind for peer in frontier.active)

    # -- what this node detects --------------------------------------------------------------------------

    def update(self, frontier: Frontier) -> None:
        """Follow the frontier: a partition for each broker that is down, none for others.

        When a broker was removed, those behind it are in other partitions than before.
        """
        for node, partition in list(self.own.items()):
            is_down = node in frontier.down
            if not is_down or partition.nodes != tuple(self._topology.path(node)[1:]):
                self._tell(self.own.pop(node), 0, is_open=False)
        for node in frontier.down:
            if node not in self.own:
                self._count += 1
                nodes = tuple(self._topology.path(node)[1:])
                self.own[node] = Partition(self._topology.me, self._count, nodes)
                self._tell(self.own[node], 0, is_open=True)

    # -- what others tell ----------------------------------------------------------------------------------

    def on_info(self, peer: NodeId, info: PartitionInfo) -> None:
        """Another broker's partition appeared or is gone; pass it on as far as it should be known."""
        if info.partition.detector == self._topology.me:
            return
        if info.is_open and info.partition not in self.told:
            self.told[info.partition] = (info.distance, peer)
            self._tell(info.partition, info.distance, is_open=True, besides=peer)
        elif not info.is_open and info.partition in self.told:
            self._forget([info.partition])

    def session_up(self, peer: NodeId) -> None:
        """A new session learns what it should have heard."""
        for partition in self.own.values():
            self._tell_peer(peer, partition, 0, is_open=True)
        for partition, (distance, _) in self.told.items():
            self._tell_peer(peer, partition, distance, is_open=True)

    def session_down(self, peer: NodeId) -> None:
        """What was known through this session only is not known any more."""
        self._forget([partition for partition, (_, teller) in self.told.items() if teller == peer])

    def _forget(self, partitions: Iterable[Partition]) -> None:
        for partition in partitions:
            distance, teller = self.told.pop(partition)
            self._tell(partition, distance, is_open=False, besides=teller)

    def _tell(
        self, partition: Partition, distance: int, *, is_open: bool, besides: NodeId | None = None
    ) -> None:
        for peer in self._sessions.up:
            if peer != besides:
                self._tell_peer(peer, partition, distance, is_open=is_open)

    def _tell_peer(self, peer: NodeId, partition: Partition, distance: int, *, is_open: bool) -> None:
        """Only on the detector's side, and not beyond 2δ of it."""
        if peer not in self._topology or peer == partition.detector:
            return
        farther = distance + self._topology.distance(peer)
        direction = self._topology.direction(peer)
        if farther <= self._reach and not {peer, direction} & set(partition.nodes):
            self._out.append(Send(peer, PartitionInfo(partition, farther, is_open)))
