"""What a node knows of the primary tree: every link whose two ends lie within δ+1 of it (003, equation 1).

Links are *valid*, or *marked* while the join that makes them is in progress (003, 4.1). All answers are
seen from the node itself: how far, by which path, what lies behind. The tree has no cycles, so a path is
unique and any link that would close one is refused.

A node that has kept its store knows all links of everybody within δ of it: who joins there announces it. One
that has lost it knows what it was told since, and whoever tells it knows the links of those within δ of
*itself* only. So it notes of whom it may know some links and not all (``partly_known``), until somebody says
that these are all; and so does everybody whom a removal has brought nearer to others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from gapless.core.model import Link, NodeId, Path, link


class News(NamedTuple):
    """What an addition changed."""

    valid: list[Link]
    marked: list[Link]
    given_up: list[Link]
    """Marked links that stood against a valid one: their joins must have been given up."""


class Topology:
    """The part of the primary tree within δ+1 of ``me``."""

    def __init__(self, me: NodeId, delta: int) -> None:
        self.me = me
        self.delta = delta
        self.radius = delta + 1  # Δ of paper 000
        self.partly_known: set[NodeId] = set()
        """The nodes within δ, perhaps this one, that may have links which it was not told."""
        self._adjacent: dict[NodeId, dict[NodeId, bool]] = {me: {}}  # node -> neighbour -> marked
        self._depth: dict[NodeId, int] = {me: 0}
        self._toward: dict[NodeId, NodeId] = {}  # node -> its neighbour that is nearer to me
        self._direction: dict[NodeId, NodeId] = {}  # node -> my neighbour on the way to it

    # -- changing it ---------------------------------------------------------------------------------

    def add(self, valid: Iterable[Link] = (), marked: Iterable[Link] = ()) -> News:
        """Add links and return those that are news; a valid link replaces its marked copy.

        Links that lie outside the neighbourhood are left out. The order in which links come does not
        matter: each is kept once a link before it has brought one of its ends into view. Where two links
        cannot both be in a tree, a valid one replaces a marked one, and of two marked ones the first stays.
        """
        waiting = dict.fromkeys(sorted(marked), True) | dict.fromkeys(sorted(valid), False)
        news = News([], [], [])
        progress = True
        while progress:
            in_view = [each for each in waiting if each[0] in self._depth or each[1] in self._depth]
            for each in in_view:
                is_marked = waiting.pop(each)
                if not is_marked:
                    for rival in self.rivals(each):
                        self.remove(rival)
                        news.given_up.append(rival)
                if self._add_one(each, is_marked):
                    news[is_marked].append(each)
            progress = bool(in_view and waiting)
        return news

    def _add_one(self, candidate: Link, marked: bool) -> bool:
        a, b = candidate
        if b in self._adjacent.get(a, {}):
            was_marked = self._adjacent[a][b]
            if marked or not was_marked:
                return False
        elif a in self._depth and b in self._depth:
            return False  # it would close a cycle: whoever tells that is mistaken
        elif a in self._depth or b in self._depth:
            near, far = (a, b) if a in self._depth else (b, a)
            if self._depth[near] + 1 > self.radius:
                return False
            self._depth[far] = self._depth[near] + 1
            self._toward[far] = near
            self._direction[far] = self._direction.get(near, far)
        else:
            return False
        self._adjacent.setdefault(a, {})[b] = marked
        self._adjacent.setdefault(b, {})[a] = marked
        return True

    def remove(self, gone: Link) -> None:
        """Forget a link and everything that was known only behind it."""
        a, b = gone
        if b not in self._adjacent.get(a, {}):
            return
        far = b if self._toward.get(b) == a else a
        for node in [far, *self.behind(far)]:
            for neighbour in self._adjacent.pop(node):
                self._adjacent.get(neighbour, {}).pop(node, None)
            del self._depth[node], self._toward[node], self._direction[node]
            self.partly_known.discard(node)

    def rebuild(self, links: Mapping[Link, bool]) -> None:
        """Know these links instead, valid or marked, as far as they lie in the neighbourhood. Who has come
        nearer by that may have more."""
        known = self.known()
        self._adjacent = {self.me: {}}
        self._depth = {self.me: 0}
        self._toward, self._direction = {}, {}
        self.add(
            valid=[each for each, marked in links.items() if not marked],
            marked=[each for each, marked in links.items() if marked],
        )
        self.partly_known.clear()
        self.doubt([each for each in self._depth if each not in known])

    def doubt(self, nodes: Collection[NodeId]) -> None:
        """These nodes may have links which this one was not told."""
        self.partly_known |= {each for each in nodes if self._depth.get(each, self.radius) < self.radius}

    # -- asking it -----------------------------------------------------------------------------------

    def __contains__(self, node: object) -> bool:
        return node in self._depth

    def known(self) -> set[NodeId]:
        """The nodes all of whose links are known, this one included."""
        near = {node for node, depth in self._depth.items() if depth < self.radius}
        return near - self.partly_known

    def nodes(self) -> list[NodeId]:
        """All known nodes, this one included, nearest first and then by name."""
        return sorted(self._depth, key=lambda node: (self._depth[node], node))

    def links(self, *, marked: bool | None = None) -> list[Link]:
        """All known links; only the valid or only the marked ones when asked."""
        return sorted(
            (a, b)
            for a, neighbours in self._adjacent.items()
            for b, is_marked in neighbours.items()
            if a < b and (marked is None or marked == is_marked)
        )

    def is_marked(self, candidate: Link) -> bool:
        """Whether the link is known and its join is still in progress."""
        return self._adjacent.get(candidate[0], {}).get(candidate[1], False)

    def is_valid(self, candidate: Link) -> bool:
        """Whether the link is known and its join is complete."""
        return not self._adjacent.get(candidate[0], {}).get(candidate[1], True)

    def rivals(self, candidate: Link) -> list[Link]:
        """The marked links that cannot be there if the candidate is: those of a node that joined here
        first and then, because that failed, there."""
        a, b = candidate
        if not (a in self._depth and b in self._depth) or b in self._adjacent[a]:
            return []
        ways = [{link(*step) for step in pairwise(self.path(end))} for end in candidate]
        between = ways[0] ^ ways[1]
        return sorted(each for each in between if self.is_marked(each) and {*each} & {a, b})

    def distance(self, node: NodeId) -> int:
        """Number of links between the node and me."""
        return self._depth[node]

    def neighbours(self, node: NodeId | None = None) -> list[NodeId]:
        """The neighbours of a node in the tree (mine by default), by name."""
        return sorted(self._adjacent.get(self.me if node is None else node, ()))

    def children(self, node: NodeId) -> list[NodeId]:
        """The neighbours of a node that are farther from me, by name."""
        nearer = self._toward.get(node)
        return sorted(neighbour for neighbour in self._adjacent[node] if neighbour != nearer)

    def behind(self, node: NodeId) -> Iterator[NodeId]:
        """All known nodes whose path from me leads through the node."""
        for child in self.children(node):
            yield child
            yield from self.behind(child)

    def path(self, node: NodeId) -> list[NodeId]:
        """The primary path from me to the node, both ends included."""
        steps = [node]
        while steps[-1] != self.me:
            steps.append(self._toward[steps[-1]])
        return steps[::-1]

    def way(self, node: NodeId) -> list[NodeId]:
        """The path to the node, or nothing if it is not known."""
        return self.path(node) if node in self._depth else []

    def direction(self, node: NodeId) -> NodeId:
        """My neighbour on the way to the node; on the way to me, that is me."""
        return self._direction.get(node, node)

    def prolonged(self, path: Path, way: Sequence[NodeId]) -> Path:
        """The path from the end of the way, which begins here, to the same destination; as long as a vector
        needs.

        Away from the destination that is longer by this node and those that the way leads past; towards it,
        the part that both share is left out. If that is all, what is known ends before, or behind, that end.
        """
        shared = 0
        for ahead, step in zip(reversed(path), way[1:], strict=False):
            if ahead != step:
                break
            shared += 1
        if shared == len(path):
            return ()
        limit = max(1, 3 * self.delta + 1)
        return (*path[: len(path) - shared], *way[shared:-1])[-limit:]

    def ball(self, centre: NodeId, radius: int) -> dict[NodeId, int]:
        """The known nodes within ``radius`` of the centre, with their distance from it."""
        found = {centre: 0}
        frontier = [centre]
        for depth in range(1, radius + 1):
            frontier = [
                neighbour
                for node in frontier
                for neighbour in self._adjacent.get(node, ())
                if neighbour not in found and found.setdefault(neighbour, depth)
            ]
        return found

    def links_within(self, centre: NodeId, radius: int) -> tuple[list[Link], list[Link]]:
        """The valid and the marked links whose two ends lie within ``radius`` of the centre.

        This is what one node tells another about its neighbourhood: PAR_TOP of 003.
        """
        inside = self.ball(centre, radius)
        valid: list[Link] = []
        marked: list[Link] = []
        for a in inside:
            for b, is_marked in self._adjacent.get(a, {}).items():
                if a < b and b in inside:
                    (marked if is_marked else valid).append(link(a, b))
        return sorted(valid), sorted(marked)
