"""What became of links whose broker left for good: so that nobody who missed it brings them back.

A broker that leaves is taken out of every neighbourhood that has it by a wave, like the one by which it
joined (003, 4.6; X-D3-19: the operation of a J message). Who cannot be reached just then still has the link,
and tells it to others when it returns. Therefore everybody near remembers the *fate* of such a link: the last
announcement, that its broker left it or, in a later life, joined it again. Fates are told with the links; of
two announcements of a link the one of the later incarnation holds, and in one incarnation the leave.
"""

from __future__ import annotations

from collections.abc import Iterable

from gapless.core.effects import Effect, LinkFate, Persist
from gapless.core.messages.overlay import Joined
from gapless.core.model import Link, NodeId

FATES_MAX = 256
"""How many links a node remembers the fate of; the oldest are forgotten first."""


class Fates:
    """The fates of links that one node remembers, each by the broker that left and its neighbour."""

    def __init__(self, out: list[Effect], known: Iterable[Joined] = ()) -> None:
        latest = list(known)[-FATES_MAX:]
        self._last: dict[tuple[NodeId, NodeId], Joined] = {_key(each): each for each in latest}
        self._out = out

    def all(self) -> tuple[Joined, ...]:
        """All that is remembered, to be told."""
        return tuple(self._last.values())

    def of(self, node: NodeId, neighbour: NodeId) -> Joined | None:
        """The last announcement of a broker that has left the neighbour at some time."""
        return self._last.get((node, neighbour))

    def has_left(self, link: Link) -> bool:
        """Whether one of its two brokers has left the link."""
        fates = (self._last.get(link), self._last.get(link[::-1]))
        return any(fate is not None and fate.left for fate in fates)

    def is_old(self, announced: Joined) -> bool:
        """Whether something later than the announcement is known."""
        fate = self._last.get(_key(announced))
        return fate is not None and fate.rank > announced.rank

    def note(self, announced: Joined) -> bool:
        """Remember the announcement, durably; False when it is no news."""
        if not announced.left:
            self._is_back(announced.join_point, announced.node)
        fate = self._last.get(_key(announced))
        if fate.rank >= announced.rank if fate is not None else not announced.left:
            return False  # known, or a first join, which has no past
        self._keep(announced)
        return True

    def _is_back(self, join_point: NodeId, neighbour: NodeId) -> None:
        """Who serves as a join point is in the network, in a later life than that in which it left."""
        fate = self._last.get((join_point, neighbour))
        if fate is not None and fate.left:
            self._keep(Joined(join_point, neighbour, fate.incarnation + 1))

    def _keep(self, fate: Joined) -> None:
        self._last.pop(_key(fate), None)
        self._last[_key(fate)] = fate
        self._out.append(Persist(LinkFate(fate)))
        if len(self._last) > FATES_MAX:
            del self._last[next(iter(self._last))]


def _key(announced: Joined) -> tuple[NodeId, NodeId]:
    return announced.node, announced.join_point
