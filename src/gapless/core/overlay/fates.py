"""Who is gone for good, and what became of its links: so that nobody who missed it brings them back.

A broker that was *removed*, by an operator or because it wanted to leave, has left all its links at once, and
one of its neighbours, the centre, has taken its place: each of its links leads to the centre now, and one
that the removal does not name is gone. Who could not be reached then still has the links, and tells them to
others when it returns. Therefore everybody remembers the removal, and tells it with the links: a link that
somebody still tells of is not only known to be gone, but also what it has become. The name of a removed
broker is used up: all brokers hear of the removal, and nobody joins under that name again. Else whoever tells
a link or a path might mean the broker of before, or the one that is back in another place, and who is told
could not know which.

A broker that decides a removal may crash before anybody has heard of it. The other one, started again or
still there since it only wanted to leave, may then have *it* removed, and the two would have each other's
place. So a removal is void where that of its centre says that the broker was there in a later life than those
that were over; and of two removals of a name the later one holds.

Of more removals than there is room for the latest are kept, by their numbers: everybody keeps the same ones,
whatever it heard of first.
"""

from __future__ import annotations

from collections.abc import Iterable

from gapless.core.effects import BrokerRemoved, Effect, Persist
from gapless.core.messages.overlay import Removal
from gapless.core.model import Incarnation, Link, NodeId, Path, link

FATES_MAX = 256
"""How many removals a node remembers; the oldest are forgotten first."""


class Fates:
    """The removals that one node remembers, by the broker that was removed."""

    def __init__(self, out: list[Effect], removals: Iterable[Removal] = ()) -> None:
        self._removed: dict[NodeId, Removal] = {}
        self._out = out
        for removal in removals:
            self._remember(removal)

    def removals(self) -> tuple[Removal, ...]:
        """All removals that are remembered, to be told."""
        return tuple(self._removed.values())

    @property
    def has_removals(self) -> bool:
        """Whether any broker was removed, as far as this node remembers."""
        return bool(self._removed)

    def removal(self, node: NodeId) -> Removal | None:
        """How the broker was removed, as far as this node remembers."""
        return self._removed.get(node)

    def last_number(self) -> int:
        """The number of the latest removal; 0 if there was none."""
        return max((each.number for each in self._removed.values()), default=0)

    def current(self, each: Link) -> Link | None:
        """What the link is today: itself, the one that a removal has made of it, or nothing."""
        for _ in range(len(self._removed) + 1):
            a, b = each
            gone = self._removed.get(a) or self._removed.get(b)
            if gone is None:
                return each
            other = b if gone.node == a else a
            if other == gone.centre or not gone.had(other):
                return None
            each = link(gone.centre, other)
        return None

    def last_life(self, node: NodeId) -> Incarnation:
        """The latest life in which the broker is known to have been a neighbour of one that was removed."""
        lives = [life for each in self._removed.values() for name, life in each.neighbours if name == node]
        return max(lives, default=0)

    def note(self, removal: Removal) -> bool:
        """Remember that a broker was removed, durably; False when it is no news, void, or too long ago."""
        known = self._removed.get(removal.node)
        if (known is not None and known.rank >= removal.rank) or self._is_void(removal):
            return False
        self._remember(removal)
        if removal.node not in self._removed:
            return False
        self._out.append(Persist(BrokerRemoved(removal)))
        return True

    def _is_void(self, removal: Removal) -> bool:
        """Whether the centre was removed in turn when the broker was there after this one."""
        after = self._removed.get(removal.centre)
        return after is not None and dict(after.neighbours).get(removal.node, 0) > removal.incarnation

    def _remember(self, removal: Removal) -> None:
        self._removed[removal.node] = removal
        for each in [each for each in self._removed.values() if self._is_void(each)]:
            del self._removed[each.node]
        if len(self._removed) > FATES_MAX:
            del self._removed[min(self._removed.values(), key=lambda each: (each.number, each.node)).node]

    # -- places ------------------------------------------------------------------------------------------

    def heir(self, node: NodeId) -> NodeId:
        """Who has the place of a broker now: itself, or whoever came to it by removals; however many say so
        of each other."""
        for _ in range(len(self._removed)):
            removal = self._removed.get(node)
            if removal is None:
                break
            node = removal.centre
        return node

    def mended(self, path: Path, me: NodeId) -> Path:
        """The path with the centre in the place of each broker that was removed."""
        mended = path
        for node in path:
            if node in self._removed:
                mended = replaced(mended, node, self.heir(node), me)
        return mended


def replaced(path: Path, node: NodeId, centre: NodeId, me: NodeId) -> Path:
    """The path to the same destination when the centre has taken the place of the node."""
    steps: list[NodeId] = []
    for each in path:
        step = centre if each == node else each
        if steps[-1:] != [step]:
            steps.append(step)
    if steps[-1:] == [me]:
        steps.pop()
    return tuple(steps)
