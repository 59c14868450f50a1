"""Leaving the network for good: a broker at the edge of the tree asks its only neighbour to remove it.

So there is one way in which a broker ends (``removing``), and the name of who has left is used up like that
of any other that was removed. The neighbour is the centre, and needs nobody's consent: the broker itself says
that it has no other neighbour and nothing to do for others, and lets nobody in from then on. It goes on until
it hears that it is removed, which is when two brokers have that; then it stops.

The wish is durable: a broker that crashes goes on leaving, and asks whoever is its neighbour then. It stays,
and says so, if it is needed after all: it has got the place of its neighbour, or it is the last one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gapless.core.effects import Effect, LeaveRefused, LeaveWanted, Persist, Send
from gapless.core.messages.overlay import LeaveAsked, NodeState, Removal
from gapless.core.model import Micros, NodeId, link

if TYPE_CHECKING:
    from gapless.core.overlay.overlay import Overlay


class Leaving:
    """Both sides of a leave at one broker: its own, and that of a neighbour that it lets go."""

    def __init__(self, overlay: Overlay, out: list[Effect]) -> None:
        self._overlay = overlay
        self._out = out
        self._asked_by: dict[NodeId, None] = {}
        self._asked: NodeId | None = None  # in the session that there is

    # -- the broker that leaves --------------------------------------------------------------------------

    def begin(self) -> None:
        """Ask the only neighbour, durably."""
        self._want(True)
        self.ask()

    def ask(self) -> None:
        """Ask the neighbour as soon as it is there, whoever that is by now, and once in each session: it may
        have forgotten."""
        overlay = self._overlay
        neighbours = overlay.topology.neighbours() if overlay.joining.is_leaving else []
        if len(neighbours) == 1 and neighbours[0] in overlay.sessions.up and neighbours[0] != self._asked:
            self._asked = neighbours[0]
            self._out.append(Send(self._asked, LeaveAsked()))

    def mended(self, removal: Removal) -> None:
        """Another broker was removed: stay, if this one has its place."""
        overlay = self._overlay
        if overlay.joining.is_leaving and removal.centre == overlay.me:
            self._want(False)
            self._out.append(LeaveRefused(f"{overlay.me} has got the place of {removal.node}: ask again"))

    def _want(self, is_wanted: bool) -> None:
        self._overlay.joining.is_leaving = is_wanted
        self._out.append(Persist(LeaveWanted(is_wanted)))

    # -- its neighbour -----------------------------------------------------------------------------------

    def on_asked(self, peer: NodeId) -> None:
        """It is let go as soon as that is possible."""
        self._asked_by[peer] = None

    def session_down(self, peer: NodeId) -> None:
        """The one asks again, and the other is asked again."""
        self._asked_by.pop(peer, None)
        if peer == self._asked:
            self._asked = None

    def let_go(self, now: Micros) -> bool:
        """Remove a neighbour that has asked, if one can be let go now; False: none can."""
        peer = next((peer for peer in self._asked_by if self._may_go(peer)), None)
        if peer is None:
            return False
        del self._asked_by[peer]
        self._overlay.removing.let_go(peer, now)
        return True

    def _may_go(self, peer: NodeId) -> bool:
        """Of two that leave each other, as the last ones, the second by name is let go."""
        overlay = self._overlay
        is_ready = overlay.is_joined and overlay.state is NodeState.OPERATIONAL
        is_first = not overlay.joining.is_leaving or overlay.me < peer
        return is_ready and is_first and self._is_at_the_edge(peer)

    def _is_at_the_edge(self, peer: NodeId) -> bool:
        """Whether nobody would be left alone: the broker may have forgotten a neighbour that is down."""
        topology = self._overlay.topology
        is_known = peer not in topology.partly_known and topology.is_valid(link(topology.me, peer))
        return is_known and topology.neighbours(peer) == [topology.me]
