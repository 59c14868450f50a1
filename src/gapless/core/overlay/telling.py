"""What a node tells its peers of the tree: links, and whose links these are in full.

At the beginning of a session each end tells the other all that it should know, and later what is news. A node
knows all links of those within δ of itself, unless it has lost its store and nobody has told it. Of them it
says so (``Neighbourhood.known``), for the peer may have lost its own.
"""

from __future__ import annotations

from collections.abc import Collection, Container
from typing import TYPE_CHECKING

from gapless.core.effects import Effect, Send
from gapless.core.messages.overlay import Neighbourhood
from gapless.core.model import Identity, Link, NodeId

if TYPE_CHECKING:
    from gapless.core.overlay.overlay import Overlay


class Telling:
    """What one node says of the links that it knows."""

    def __init__(self, overlay: Overlay, out: list[Effect]) -> None:
        self._overlay = overlay
        self._out = out

    def all(self, to: Identity) -> None:
        """Tell a peer what it should know of the tree, and who is gone."""
        overlay = self._overlay
        valid, marked = self._links_for(to)
        removals = () if overlay.is_leaf else overlay.removing.known_to(to)
        known = tuple(self._vouched(to))
        told = Neighbourhood(tuple(valid), tuple(marked), overlay.state, removals=removals, known=known)
        self._out.append(Send(to.node, told))

    def pass_on(self, links: Collection[Link], known: Collection[NodeId], *, besides: NodeId) -> None:
        """Tell all others those of the new links that they should know. Who is known in full since is told to
        all peers: one that vouched for this node's own links may have been in doubt itself."""
        if not links and not known:
            return
        for peer, session in self._overlay.sessions.up.items():
            near = set(self._links_for(session.identity)[0]) if peer != besides else set()
            told = self._news(session.identity, [each for each in links if each in near], known=known)
            if told.valid or told.known:
                self._out.append(Send(peer, told))

    def leaves(self, new: Link) -> None:
        """Tell the clients whose home is near a new link what they should know of the tree now: they take no
        part in a wave, and could go nowhere else if they had come before their home had joined."""
        for leaf in self._overlay.leaves():
            identity = self._overlay.sessions.up[leaf].identity
            if any(new in links for links in self._links_for(identity)):
                self.all(identity)

    def news(self, to: Identity, links: Collection[Link]) -> None:
        """Tell a peer these links."""
        self._out.append(Send(to.node, self._news(to, links)))

    def _news(self, to: Identity, links: Collection[Link], *, known: Container[NodeId] = ()) -> Neighbourhood:
        """With all links of those at the ends, and of those who are known since now, if these are all."""
        ends = {node for each in links for node in each}
        vouched = {each for each in self._vouched(to) if each in ends or each in known}
        valid, marked = (
            [each for each in some if not vouched.isdisjoint(each)] for some in self._links_for(to)
        )
        return Neighbourhood(
            tuple(dict.fromkeys((*links, *valid))),
            tuple(marked),
            self._overlay.state,
            known=tuple(sorted(vouched)),
        )

    def _links_for(self, peer: Identity) -> tuple[list[Link], list[Link]]:
        topology = self._overlay.topology
        if self._overlay.is_leaf:
            return [], []
        if peer.home is not None:  # the client is one link farther out than its home
            return topology.links_within(peer.home, topology.delta)
        if peer.node not in topology:
            return [], []
        return topology.links_within(peer.node, topology.radius)

    def _vouched(self, peer: Identity) -> list[NodeId]:
        """The brokers near the peer all of whose links this node knows.

        Of the peer's own links it says so in any case if it is near: if nobody knew them but brokers that
        have lost their stores too, the peer would wait for ever.
        """
        topology = self._overlay.topology
        if self._overlay.is_leaf or peer.is_leaf or peer.node not in topology:
            return []
        known = topology.known()
        if topology.me in known and topology.distance(peer.node) <= max(1, topology.delta):
            known.add(peer.node)
        return sorted(known & topology.ball(peer.node, topology.delta).keys())
