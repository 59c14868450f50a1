"""Which network a node belongs to.

The founder of a network makes its id. A broker that joins, and a client, learn it from the first broker of
the network that they have a session with. A node that knows its network stays with it: what it has made
durable belongs there, and in another network it would be a gap or a repetition.
"""

from __future__ import annotations

import msgspec

from gapless.core import names
from gapless.core.effects import Effect, NetworkBound, Persist, Send
from gapless.core.messages.overlay import Neighbourhood, NodeState
from gapless.core.model import Identity, NodeId
from gapless.core.overlay.joining import Joining
from gapless.core.overlay.sessions import Sessions
from gapless.core.overlay.topology import Topology


class Membership:
    """The identity of a node, and how it learns its network."""

    def __init__(
        self,
        identity: Identity,
        topology: Topology,
        sessions: Sessions,
        joining: Joining,
        out: list[Effect],
    ) -> None:
        self.identity = identity
        self._topology = topology
        self._sessions = sessions
        self._joining = joining
        self._out = out

    def why_no_session(self, peer: Identity) -> str | None:
        """Why there can be no session with the peer; ``None``: there can."""
        me, topology = self.identity, self._topology
        if names.are_apart(me, peer):
            return names.apart(me, peer)
        if peer.node == me.node or (peer.is_leaf and peer.node in topology):
            return f"there is another node of the name {peer.node}"
        if peer.is_leaf and (peer.home not in topology or me.is_leaf):
            return f"the client's home {peer.home} is not near this broker"
        return None

    def learn(self, peer: Identity, state: NodeState) -> None:
        """The first broker of its network that a node meets tells it which network that is."""
        is_mine = self.identity.is_leaf or peer.node in self._topology or peer.node in self._joining.wanted
        if peer.network and not self.identity.network and not peer.is_leaf and is_mine:
            self.bind(peer.network, state)

    def bind(self, network: str, state: NodeState) -> None:
        """From now on this node belongs to that network and to no other. Peers that do not know their
        network are told."""
        self.identity = msgspec.structs.replace(self.identity, network=network)
        self._out.append(Persist(NetworkBound(network)))
        for peer, session in self._sessions.up.items():
            if not (session.identity.network or self.identity.is_leaf):
                self._out.append(Send(peer, Neighbourhood((), (), state, network=network)))

    def told(self, peer: NodeId, network: str) -> None:
        """A peer has learned its network since the session began."""
        session = self._sessions.up[peer]
        session.identity = msgspec.structs.replace(session.identity, network=network)

    def strangers(self) -> list[tuple[NodeId, str]]:
        """Peers that turned out to belong to another network, and why their sessions end."""
        return [
            (peer, names.apart(self.identity, session.identity))
            for peer, session in self._sessions.up.items()
            if names.are_apart(self.identity, session.identity)
        ]
