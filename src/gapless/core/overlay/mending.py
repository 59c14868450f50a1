"""Ways on the tree of now: who tells one may know of fewer removals, or of more, than who is told it.

A removal puts its centre in the place of the broker that is gone. A broker may join again under its name,
somewhere else, and that is heard near its new place only. So whether a name on a way means the broker that
was removed, or the one that is back, follows from what the teller knew: had it heard of the removal, it would
have named the centre.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from gapless.core.messages.overlay import Removal
from gapless.core.model import NodeId, Path
from gapless.core.overlay.fates import RemovalKeys

if TYPE_CHECKING:
    from gapless.core.overlay.overlay import Overlay


class Mending:
    """What removals make of the ways that one node is told, or uses."""

    def __init__(self, overlay: Overlay) -> None:
        self._overlay = overlay

    @property
    def count(self) -> int:
        """How many removals this node knows, and has told to all brokers that it has a session with."""
        return len(self._overlay.joining.fates.removals())

    def known_to(self, peer: NodeId, count: int) -> RemovalKeys:
        """The removals that a peer knew when there were so many of them, whatever number it may have sent."""
        told = self._overlay.sessions.up[peer].removals
        return frozenset(islice(told, min(max(count, 0), len(told))))

    def unknown(self, removals: RemovalKeys) -> RemovalKeys:
        """Those of the removals that this node does not know: it may have been told of them before it was
        near enough to note them."""
        return removals.difference(each.key for each in self._overlay.joining.fates.removals())

    def told_path(self, path: Path, known: RemovalKeys) -> Path:
        """A path that a peer tells, on the tree of now: the peer may not have known that a broker on it was
        removed. If the peer did know that, and names the broker nevertheless, that has joined again."""
        fates = self._overlay.joining.fates
        return fates.mended(path, self._overlay.me, known) if fates.has_removals else path

    def mended_path(self, path: Path, removal: Removal) -> Path:
        """A path that is used here, on the tree after a removal that is news. Those before it have had their
        effect: if the path names a broker that one of them removed, that has joined again. So it has if it
        joined near here before the removal was heard of."""
        is_back = self._overlay.joining.joined_in.get(removal.node, 0) > removal.incarnation
        return path if is_back else self._overlay.joining.fates.mended_by(removal, path, self._overlay.me)
