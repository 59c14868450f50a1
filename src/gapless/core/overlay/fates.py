"""What became of links whose broker is gone for good: so that nobody who missed it brings them back.

A broker that leaves is taken out of every neighbourhood that has it by a wave, like the one by which it
joined (003, 4.6; X-D3-19: the operation of a J message). Who cannot be reached just then still has the link,
and tells it to others when it returns. Therefore everybody near remembers the *fate* of such a link: the last
announcement, that its broker left it or, in a later life, joined it again. Fates are told with the links; of
two announcements of a link the one of the later incarnation holds, and in one incarnation the leave.

A broker that was *removed* has left all its links at once, and one of its neighbours, the centre, has taken
its place: each of its links leads to the centre now, and one that the removal does not name is gone. So a
link that somebody still tells of is not only known to be gone, but also what it has become. The name of a
removed broker is used up: all brokers hear of the removal, and nobody joins under that name again. Else
whoever tells a link or a path might mean the broker of before, or the one that is back in another place, and
who is told could not know which.

A broker that decides a removal may crash before anybody has heard of it. The other one, started again, may
then have *it* removed, and the two would have each other's place. So a removal is void where that of its
centre says that the broker was there in a later life; and of two removals of a name the later one holds.

Of more removals than there is room for the latest are kept, by their numbers: everybody keeps the same ones,
whatever it heard of first.
"""

from __future__ import annotations

from collections.abc import Iterable

from gapless.core.effects import BrokerRemoved, Effect, LinkFate, Persist
from gapless.core.messages.overlay import Joined, Removal
from gapless.core.model import Incarnation, Link, NodeId, Path, link

FATES_MAX = 256
"""How many links, and how many removals, a node remembers; the oldest are forgotten first."""


class Fates:
    """The fates of links that one node remembers, each by the broker that left and its neighbour, and the
    removals by the broker that was removed."""

    def __init__(
        self, out: list[Effect], known: Iterable[Joined] = (), removals: Iterable[Removal] = ()
    ) -> None:
        latest = list(known)[-FATES_MAX:]
        self._last: dict[tuple[NodeId, NodeId], Joined] = {_key(each): each for each in latest}
        self._removed: dict[NodeId, Removal] = {}
        self._out = out
        for removal in removals:
            self._remember(removal)

    def all(self) -> tuple[Joined, ...]:
        """All that is remembered of single links, to be told."""
        return tuple(self._last.values())

    def removals(self) -> tuple[Removal, ...]:
        """All removals that are remembered, to be told."""
        return tuple(self._removed.values())

    @property
    def has_removals(self) -> bool:
        """Whether any broker was removed, as far as this node remembers."""
        return bool(self._removed)

    def of(self, node: NodeId, neighbour: NodeId) -> Joined | None:
        """The last announcement of a broker that has left the neighbour at some time."""
        return self._last.get((node, neighbour))

    def removal(self, node: NodeId) -> Removal | None:
        """How the broker was removed, as far as this node remembers."""
        return self._removed.get(node)

    # -- links -------------------------------------------------------------------------------------------

    def current(self, each: Link, *, besides: NodeId | None = None) -> Link | None:
        """What the link is today: itself, the one that a removal has made of it, or nothing; whatever the
        broker besides has announced of it."""
        for _ in range(len(self._removed) + 1):
            a, b = each
            gone = self._gone(a, b, besides) or self._gone(b, a, besides)
            if gone is None:
                return each
            other = b if gone.node == a else a
            if isinstance(gone, Joined) or other == gone.centre or not gone.had(other):
                return None
            each = link(gone.centre, other)
        return None

    def _gone(
        self, node: NodeId, neighbour: NodeId, besides: NodeId | None = None
    ) -> Joined | Removal | None:
        """How the node lost the link, if nothing later says that it has it again."""
        removal = self._removed.get(node)
        if removal is not None:
            return removal
        fate = self._last.get((node, neighbour))
        if fate is None or not fate.left or node == besides:
            return None
        return fate if self._made_in(node, neighbour) <= fate.incarnation else None

    def _made_in(self, node: NodeId, neighbour: NodeId) -> Incarnation:
        """The latest life of the node in which a removal has given it the link."""
        wanted = link(node, neighbour)
        lives = [each.made[wanted][node] for each in self._removed.values() if wanted in each.made]
        return max(lives, default=0)

    def joined_in(self, node: NodeId) -> Incarnation:
        """The latest life in which the broker is known to have had a place, anywhere: it had joined, or was a
        neighbour of one that was removed."""
        lives = [each.incarnation for each in self._last.values() if each.node == node and not each.left]
        lives += [life for each in self._removed.values() for name, life in each.neighbours if name == node]
        return max(lives, default=0)

    # -- announcements -----------------------------------------------------------------------------------

    def is_old(self, announced: Joined) -> bool:
        """Whether something later than the announcement is known."""
        fate = self._last.get(_key(announced))
        is_overtaken = fate is not None and fate.rank > announced.rank
        return is_overtaken or (announced.node in self._removed and not announced.left)

    def note(self, announced: Joined) -> bool:
        """Remember the announcement, durably; False when it is no news."""
        if not announced.left:
            self._is_back(announced)
        fate = self._last.get(_key(announced))
        if fate is None and not announced.left:
            return False  # a first join
        if self.is_old(announced) or (fate is not None and fate.rank >= announced.rank):
            return False
        self._keep(announced)
        return True

    def note_removal(self, removal: Removal) -> bool:
        """Remember that a broker was removed, durably; False when it is no news, void, or too long ago."""
        known = self._removed.get(removal.node)
        if (known is not None and known.incarnation >= removal.incarnation) or self._is_void(removal):
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
        """What the broker has joined is no fate of a link any more."""
        self._removed[removal.node] = removal
        for each in [each for each in self._removed.values() if self._is_void(each)]:
            del self._removed[each.node]
        for key, fate in list(self._last.items()):
            if fate.node == removal.node and not fate.left:
                del self._last[key]
        if len(self._removed) > FATES_MAX:
            del self._removed[min(self._removed.values(), key=lambda each: (each.number, each.node)).node]

    def _is_back(self, announced: Joined) -> None:
        """Who serves as a join point is in the network, in a later life than that in which it left."""
        join_point, neighbour = announced.join_point, announced.node
        gone = self._gone(join_point, neighbour)
        if isinstance(gone, Joined):
            self._keep(Joined(join_point, neighbour, gone.incarnation + 1))

    def _keep(self, fate: Joined) -> None:
        self._last.pop(_key(fate), None)
        self._last[_key(fate)] = fate
        self._out.append(Persist(LinkFate(fate)))
        if len(self._last) > FATES_MAX:
            del self._last[next(iter(self._last))]

    # -- places ------------------------------------------------------------------------------------------

    def heir(self, node: NodeId) -> NodeId:
        """Who has the place of a broker now: itself, or whoever came to it when it left or was removed."""
        for _ in range(len(self._removed) + len(self._last) + 1):
            removal = self.removal(node)
            if removal is not None:
                node = removal.centre
                continue
            left = [each for each in self._last.values() if each.node == node and each.left]
            last = max(left, key=lambda each: each.incarnation, default=None)
            if last is None or self.joined_in(node) > last.incarnation:
                return node
            node = last.join_point
        return node

    def mended(self, path: Path, me: NodeId) -> Path:
        """The path with the centre in the place of each broker that was removed."""
        for node in path:
            if node in self._removed:
                path = replaced(path, node, self._place(node), me)
        return path

    def _place(self, node: NodeId) -> NodeId:
        """Who has the place of a broker by removals; however many say so of each other."""
        for _ in range(len(self._removed)):
            removal = self._removed.get(node)
            if removal is None:
                break
            node = removal.centre
        return node


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


def _key(announced: Joined) -> tuple[NodeId, NodeId]:
    return announced.node, announced.join_point
