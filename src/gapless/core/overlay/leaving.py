"""Leaving the network for good: a broker at the edge of the tree asks its only neighbour to remove it.

So there is one way in which a broker ends (``removing``), and the name of who has left is used up like that
of any other that was removed. The neighbour is the centre, and needs nobody's consent: the broker itself says
that it has no other neighbour and nothing to do for others.

The wish is durable: a broker that crashes goes on leaving. It asks once in each session with its neighbour,
whoever that is by then, when the two have told each other all that they know: what it has heard alone would
be lost with it. If it turns out just then that it is needed, it stays and says so. From then on, as long as
the session lasts, it lets nobody in, neither clients nor brokers. It stops when it hears that it is removed,
which is when two brokers have that.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from gapless.core.effects import Effect, LeaveRefused, LeaveWanted, Persist, Send
from gapless.core.messages.overlay import LeaveAsked, NodeState
from gapless.core.model import Micros, NodeId, link

if TYPE_CHECKING:
    from gapless.core.overlay.overlay import Overlay


class Leaving:
    """Both sides of a leave at one broker: its own, and that of a neighbour that it lets go."""

    def __init__(self, overlay: Overlay, out: list[Effect], *, is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        """Whether this broker wants to leave."""
        self._overlay = overlay
        self._out = out
        self._asked: NodeId | None = None  # in the session that there is
        self._asked_by: dict[NodeId, None] = {}

    # -- the broker that leaves --------------------------------------------------------------------------

    @property
    def is_closed(self) -> bool:
        """Whether this broker may be removed any moment, and lets nobody in."""
        return self._asked is not None

    def request(self, why_needed: Callable[[], str | None]) -> None:
        """Leave, as soon as the neighbour agrees; ``LeaveRefused`` follows if that cannot be."""
        me = self._overlay.me
        reason = f"{me} is leaving already" if self.is_wanted else self._why_not() or why_needed()
        if reason is not None:
            self._out.append(LeaveRefused(reason))
        else:
            self._want(True)

    def maybe_ask(self, why_needed: Callable[[], str | None]) -> None:
        """At the end of a batch: ask the neighbour, if it has heard all that is known here; or stay."""
        if not self.is_wanted:
            return
        overlay = self._overlay
        neighbours = overlay.topology.neighbours()
        if len(neighbours) == 1 and (neighbours[0] == self._asked or not self._is_ready(neighbours[0])):
            return
        reason = self._why_not() or why_needed()
        if reason is not None:
            self._want(False)
            self._out.append(LeaveRefused(f"{reason}; it stays"))
        else:
            self._asked = neighbours[0]
            self._out.append(Send(self._asked, LeaveAsked()))

    def _is_ready(self, neighbour: NodeId) -> bool:
        overlay = self._overlay
        is_ready = overlay.is_joined and overlay.state is NodeState.OPERATIONAL
        return is_ready and neighbour in overlay.frontier.active and overlay.has_heard(neighbour)

    def _why_not(self) -> str | None:
        """Why this broker cannot leave, as far as its place in the network is concerned.

        The neighbour must have told its links: if this broker has lost its store, and was told its place by
        somebody farther off, it may have another neighbour that it does not know, and that would be alone.
        """
        overlay = self._overlay
        me, neighbours, clients = overlay.me, overlay.topology.neighbours(), overlay.leaves()
        if not overlay.is_joined or overlay.state is not NodeState.OPERATIONAL:
            return f"{me} is joining or recovering: ask again when it is done"
        if len(neighbours) != 1:
            names = ", ".join(neighbours) or "it is the last one"
            return f"only a broker with one neighbour can leave, and {me} has {len(neighbours)}: {names}"
        if not overlay.has_heard(neighbours[0]):
            return f"{me} does not reach its neighbour {neighbours[0]}: ask again when it does"
        return f"clients are attached to {me}: {', '.join(sorted(clients))}" if clients else None

    def _want(self, is_wanted: bool) -> None:
        self.is_wanted = is_wanted
        self._asked = None
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
        is_first = not self.is_wanted or overlay.me < peer
        return is_ready and is_first and self._is_at_the_edge(peer)

    def _is_at_the_edge(self, peer: NodeId) -> bool:
        """Whether nobody would be left alone: the broker may have forgotten a neighbour that is down."""
        topology = self._overlay.topology
        is_known = peer not in topology.partly_known and topology.is_valid(link(topology.me, peer))
        return is_known and topology.neighbours(peer) == [topology.me]
