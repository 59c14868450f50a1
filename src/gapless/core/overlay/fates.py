"""What became of links whose broker is gone for good: so that nobody who missed it brings them back.

A broker that leaves is taken out of every neighbourhood that has it by a wave, like the one by which it
joined (003, 4.6; X-D3-19: the operation of a J message). Who cannot be reached just then still has the link,
and tells it to others when it returns. Therefore everybody near remembers the *fate* of such a link: the last
announcement, that its broker left it or, in a later life, joined it again. Fates are told with the links; of
two announcements of a link the one of the later incarnation holds, and in one incarnation the leave.

A broker that was *removed* has left all its links at once, and one of its neighbours, the centre, has taken
its place: each of its links leads to the centre now. So a link that somebody still tells of is not only known
to be gone, but also what it has become. A name may join again and be removed again: each of its removals is
remembered, since the links that the earlier one made are there still.

A path that names a broker which was removed may mean a later life of it. That this has joined is heard near
its new place only, and the path may be told farther; and who was away hears of the removal and of the join at
once, and has paths from before both. So what counts is whether whoever tells the path had heard of the
removal: then it would have named the centre. Each removal is applied once to a path: by the first who knows
both.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from gapless.core.effects import BrokerRemoved, Effect, LinkFate, Persist
from gapless.core.messages.overlay import Joined, Removal
from gapless.core.model import Incarnation, Link, NodeId, Path, link

RemovalKeys: TypeAlias = frozenset[tuple[NodeId, Incarnation]]
"""Some removals: which broker, and the last of its lives."""

FATES_MAX = 256
"""How many links, and how many removals, a node remembers; the oldest are forgotten first."""


class Fates:
    """The fates of links that one node remembers, each by the broker that left and its neighbour, and the
    removals by the broker that was removed and the last of its lives."""

    def __init__(
        self, out: list[Effect], known: Iterable[Joined] = (), removals: Iterable[Removal] = ()
    ) -> None:
        latest = list(known)[-FATES_MAX:]
        self._last: dict[tuple[NodeId, NodeId], Joined] = {_key(each): each for each in latest}
        self._removed: dict[tuple[NodeId, Incarnation], Removal] = {}
        self._last_removal: dict[NodeId, Removal] = {}
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

    def knows(self, node: NodeId) -> bool:
        """Whether the broker was removed at some time, as far as this node remembers."""
        return node in self._last_removal

    def removal(self, node: NodeId) -> Removal | None:
        """How the broker was removed, unless it has joined again since."""
        found = self._last_removal.get(node)
        return found if found is not None and self._joined_in(node) <= found.incarnation else None

    def last_life(self, node: NodeId) -> Incarnation:
        """The latest life of a broker that was ever announced."""
        known = self._last_removal.get(node)
        return max(self._joined_in(node), known.incarnation + 1 if known is not None else 0)

    # -- links -------------------------------------------------------------------------------------------

    def has_left(self, each: Link) -> bool:
        """Whether one of its two brokers has left the link."""
        return self.current(each) != each

    def current(self, each: Link) -> Link | None:
        """What the link is today: itself, the one that a removal has made of it, or nothing."""
        for _ in range(len(self._removed) + 1):
            a, b = each
            gone = self._gone(a, b) or self._gone(b, a)
            if gone is None:
                return each
            if isinstance(gone, Joined):
                return None
            other = b if gone.node == a else a
            if other == gone.centre:
                return None
            each = link(gone.centre, other)
        return None

    def _gone(self, node: NodeId, neighbour: NodeId) -> Joined | Removal | None:
        """How the node lost the link, if nothing later says that it has it again."""
        gone: list[Joined | Removal] = []
        fate = self._last.get((node, neighbour))
        if fate is not None and fate.left:
            gone.append(fate)
        gone += [each for each in self._removed.values() if each.removes(node, neighbour)]
        if not gone:
            return None
        last = max(gone, key=lambda each: each.incarnation)
        return last if self._back_in(node, neighbour) <= last.incarnation else None

    def _back_in(self, node: NodeId, neighbour: NodeId) -> Incarnation:
        """The latest life of the node in which it is known to have got the link."""
        fate = self._last.get((node, neighbour))
        lives = [fate.incarnation] if fate is not None and not fate.left else []
        wanted = link(node, neighbour)
        lives += [each.made[wanted][node] for each in self._removed.values() if wanted in each.made]
        return max(lives, default=0)

    def _joined_in(self, node: NodeId) -> Incarnation:
        """The latest life in which the broker is known to have had a place, anywhere: it had joined, or was a
        neighbour of one that was removed. So those who were removed cannot be each other's heirs in turn."""
        lives = [each.incarnation for each in self._last.values() if each.node == node and not each.left]
        lives += [life for each in self._removed.values() for name, life in each.neighbours if name == node]
        return max(lives, default=0)

    # -- announcements -----------------------------------------------------------------------------------

    def is_old(self, announced: Joined) -> bool:
        """Whether something later than the announcement is known."""
        fate = self._last.get(_key(announced))
        if fate is not None and fate.rank > announced.rank:
            return True
        removal = self._last_removal.get(announced.node)
        return removal is not None and not announced.left and removal.incarnation >= announced.incarnation

    def note(self, announced: Joined) -> bool:
        """Remember the announcement, durably; False when it is no news."""
        if not announced.left:
            self._is_back(announced)
        fate = self._last.get(_key(announced))
        has_past = fate is not None or self.knows(announced.node)
        if not announced.left and not has_past:
            return False  # a first join
        if self.is_old(announced) or (fate is not None and fate.rank >= announced.rank):
            return False
        self._keep(announced)
        return True

    def note_removal(self, removal: Removal) -> bool:
        """Remember that a broker was removed, durably; False when it is no news."""
        if removal.key in self._removed:
            return False
        self._remember(removal)
        self._out.append(Persist(BrokerRemoved(removal)))
        return True

    def _remember(self, removal: Removal) -> None:
        """What the broker joined in the lives that are removed is no fate of a link any more."""
        node, last = removal.node, self._last_removal
        self._removed[removal.key] = removal
        last[node] = max(removal, last.get(node, removal), key=lambda each: each.incarnation)
        for key, fate in list(self._last.items()):
            if fate.node == node and not fate.left and fate.incarnation <= removal.incarnation:
                del self._last[key]
        if len(self._removed) > FATES_MAX:
            oldest = self._removed.pop(next(iter(self._removed)))
            if last[oldest.node] is oldest:
                del last[oldest.node]

    def _is_back(self, announced: Joined) -> None:
        """Who serves as a join point is in the network, in a later life than that in which it left; unless
        whoever joined it there did so before it was removed."""
        join_point, neighbour = announced.join_point, announced.node
        gone = self._gone(join_point, neighbour)
        if isinstance(gone, Removal) and announced.incarnation <= dict(gone.neighbours)[neighbour]:
            return
        if gone is not None:
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
            if last is None or self._joined_in(node) > last.incarnation:
                return node
            node = last.join_point
        return node

    def mended(self, path: Path, me: NodeId, known: RemovalKeys = frozenset()) -> Path:
        """The path with the centre in the place of each broker that was removed, but for those removals that
        were known to whoever made the path."""
        for node in path:
            removal = self.removal(node)
            if removal is not None and removal.key not in known:
                path = self.mended_by(removal, path, me)
        return path

    def mended_by(self, removal: Removal, path: Path, me: NodeId) -> Path:
        """The path with the centre, or who has its place now, in the place of the broker that was removed,
        unless a later life of it was removed too, as far as is known here: that has had its effect."""
        if self._last_removal[removal.node] != removal:
            return path
        return replaced(path, removal.node, self._place(removal.centre), me)

    def _place(self, node: NodeId) -> NodeId:
        removal = self.removal(node)
        return node if removal is None else self._place(removal.centre)


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
