"""The overlay of one node: its neighbourhood, its sessions, its frontier, its state.

Brokers and clients use the same class. A broker joins the tree; a client hangs on its home broker by a
link that only it knows, and learns the links near its home, so that it can attach to its home's
neighbours when the home fails (design: a client is a leaf). Brokers never dial clients and never walk
through them.

What the overlay promises to the orders above it, after every input: ``active`` holds the nearest
established session of every branch (P0-14), and each change of it was told before anything else is sent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from random import Random

from msgspec.structs import replace

from gapless.core.effects import (
    Disconnect,
    Effect,
    IncarnationStarted,
    PartlyKnown,
    Persist,
    Record,
    Send,
)
from gapless.core.messages import (
    Joined,
    JoinedConfirmed,
    JoinRefused,
    JoinRequest,
    LeaveAsked,
    LinksWanted,
    Neighbourhood,
    OverlayMessage,
    PartialTopology,
    PartitionInfo,
    Ping,
    Removal,
    RemovalAsked,
    RemovalVote,
    Status,
)
from gapless.core.messages.overlay import NodeState
from gapless.core.model import Identity, Incarnation, Micros, NodeId, Path, link
from gapless.core.overlay.frontier import Frontier, proxies, walk
from gapless.core.overlay.joining import Joining, JoinState, Wave
from gapless.core.overlay.leaving import Leaving
from gapless.core.overlay.membership import Membership
from gapless.core.overlay.partitions import Partitions
from gapless.core.overlay.recovered import Recovered
from gapless.core.overlay.removing import Removing
from gapless.core.overlay.sessions import Sessions, Timing
from gapless.core.overlay.telling import Telling
from gapless.core.overlay.topology import Topology

STATE_TRANSITIONS: dict[NodeState, tuple[NodeState, ...]] = {
    NodeState.FAILED: (NodeState.OPERATIONAL, NodeState.RECOVERING),
    NodeState.RECOVERING: (NodeState.OPERATIONAL,),
    NodeState.OPERATIONAL: (),
}
"""003, figure 2. A crash leads to FAILED from anywhere; a new incarnation begins there."""

HOPS_MAX = 100_000
"""How many next hops are remembered."""


class Overlay:
    """Where this node is in the network, and through whom it reaches the rest of it."""

    def __init__(
        self,
        node: NodeId,
        *,
        delta: int,
        home: NodeId | None,
        join_points: Sequence[NodeId],
        founder: bool = False,
        least_incarnation: Incarnation = 1,
        take_over: bool = False,
        timing: Timing,
        records: Iterable[Record],
        rng: Random,
        out: list[Effect],
    ) -> None:
        self.me = node
        """The name of this node."""
        self.is_leaf = home is not None
        """Whether this node is a client."""
        self.topology = Topology(node, delta)
        self.state = NodeState.FAILED
        self.frontier = Frontier()
        self.wake_at: Micros | None = None
        """The earliest deadline."""
        self._out = out
        earlier = Recovered(records, out)
        home = earlier.live_at(node, home) if home is not None else None
        self.topology.rebuild(earlier.links)
        founder = founder if earlier.is_alone is None else earlier.is_alone
        self._noted = earlier.partly_known
        self._doubt_what_is_missing(founder=founder)
        incarnation = max(earlier.incarnation + 1, least_incarnation)
        identity = Identity(node, incarnation, home, earlier.network, take_over)
        self._rng = rng
        self.sessions = Sessions(timing, rng, out)
        self.joining = Joining(
            self.topology,
            incarnation,
            join_points,
            timing,
            out,
            founder=founder,
            fates=earlier.fates,
            joined_at=earlier.joined_at,
        )
        self._membership = Membership(identity, self.topology, self.sessions, self.joining, out)
        self.partitions = Partitions(self.topology, self.sessions, out)
        self.removing = Removing(self, out)
        self.leaving = Leaving(self, out, is_wanted=earlier.is_leaving)
        self.telling = Telling(self, out)
        self.mended: list[Removal] = []
        """Brokers whose places others have taken since somebody looked."""
        self._synced: dict[NodeId, None] = {}  # peers whose links have arrived in this session
        self.held: dict[NodeId, bool] = {}
        """Peers with a session that must not be active yet, and whether they were down before it came."""
        self.outdated: dict[NodeId, None] = {}
        """Peers with a session that live in the tree of before, as far as this node has heard."""
        self.has_changed = False
        """Whether the frontier may be another one since it was walked last."""
        self._dismissed: dict[NodeId, str] = {}  # peers to be sent away, and why
        self._hops: dict[Path, NodeId | None] = {}  # next hops, as long as no session and no frontier changes

    def _doubt_what_is_missing(self, *, founder: bool) -> None:
        """The links in the store are all that there are, but for brokers of which it says otherwise. Who has
        none, and has not founded the network, may have lost its store, and with it its neighbours."""
        self.topology.partly_known.clear()
        self.topology.doubt(self._noted)
        if not self.topology.neighbours() and not founder:
            self.topology.doubt([self.me])

    def start(self, now: Micros) -> None:
        """Begin this incarnation: durable before the first message of it leaves."""
        self._out.append(Persist(IncarnationStarted(self.identity.incarnation)))
        if self.joining.is_founder and not self.identity.network:
            self._membership.bind(f"{self._rng.getrandbits(64):016x}", self.state)
        if self.joining.fates.removal(self.me) is not None:
            self.joining.be_removed(as_wanted=False)
        else:
            self._finish_removals(now)
            self.joining.start(now)
        returning = not self.is_leaf and self.identity.incarnation > 1 and bool(self.topology.neighbours())
        self._become(NodeState.RECOVERING if returning else NodeState.OPERATIONAL)
        self.refresh(now)

    def _finish_removals(self, now: Micros) -> None:
        """The last incarnation may have crashed when it had written down a removal, but not all links."""
        for removal in self.joining.fates.removals():
            if removal.node in self.topology:
                self.joining.mend(removal, now, announce=not self.is_leaf)

    def _become(self, state: NodeState) -> None:
        assert state in STATE_TRANSITIONS[self.state], f"{self.state} to {state} is not in figure 2"
        self.state = state

    # -- inputs ----------------------------------------------------------------------------------------

    def session_up(self, identity: Identity, dialed: bool, now: Micros) -> bool:
        """A new session; False when the peer has no business here and was sent away."""
        identity = replace(identity, home=self._home(identity))
        peer, reason = identity.node, self._membership.why_no_session(identity)
        if identity.is_leaf and self.leaving.is_closed:
            reason = f"{self.me} is leaving the network"
        if reason is not None:
            self._out.append(Disconnect(peer, reason))
            self.sessions.dial_failed(peer, now)
            return False
        self.sessions.opened(identity, dialed, now)
        if self.removing.is_outdated(peer):
            self.outdated[peer] = None
        self._hops.clear()
        self._learn_network(identity)
        self.telling.all(identity)
        self.partitions.session_up(peer)
        return True

    def _learn_network(self, peer: Identity) -> None:
        if not self.identity.network:
            self._membership.learn(peer, self.state)
            self._end_sessions_with_strangers()

    def _end_sessions_with_strangers(self) -> None:
        for peer, reason in self._membership.strangers():
            self.dismiss(peer, reason)

    def _home(self, identity: Identity) -> NodeId | None:
        """The home of a client, or who has its place: the client may not have heard that it is gone."""
        home = identity.home
        return home if home is None or home in self.topology else self.joining.fates.heir(home)

    def home_of(self, leaf: NodeId) -> NodeId | None:
        """The home of a client with a session; ``None`` for a broker."""
        return self.sessions.up[leaf].identity.home

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """A session is gone, whoever ended it."""
        self.sessions.lost(peer, now)
        self._session_gone(peer)

    def _session_gone(self, peer: NodeId) -> None:
        self._synced.pop(peer, None)
        self.held.pop(peer, None)
        self.outdated.pop(peer, None)
        self._hops.clear()
        self.partitions.session_down(peer)
        self.joining.session_down(peer)
        self.removing.session_down(peer)
        self.leaving.session_down(peer)

    def message(self, peer: NodeId, message: OverlayMessage, now: Micros) -> None:
        """Handle an overlay message."""
        is_new, doubted = peer not in self.topology, set(self.topology.partly_known)
        match message:
            case Ping():
                pass  # having been heard is all
            case Neighbourhood():
                self._on_neighbourhood(peer, message, now)
            case PartitionInfo():
                if self.joining.fates.removal(peer) is None:
                    self.partitions.on_info(peer, message)
            case Status(state=state):
                self.sessions.up[peer].state = state
            case JoinRequest():
                self._on_join_request(peer, message, now)
            case JoinRefused():
                self.joining.on_refused(peer, message, now)
            case PartialTopology():
                self.joining.on_partial(peer, message, now)
                self.telling.leaves(link(self.me, peer))
            case Joined():
                self.joining.on_joined(peer, message, now)
            case JoinedConfirmed():
                self.joining.on_confirmed(peer, message)
            case LinksWanted():
                self.telling.all(self.sessions.up[peer].identity)
            case LeaveAsked():
                self.leaving.on_asked(peer)
            case RemovalAsked(node=node):
                self.removing.on_asked(peer, node)
            case RemovalVote():
                self.removing.on_vote(peer, message, now)
        self._learn_network(self.sessions.up[peer].identity)
        if self.joining.fates.has_removals:
            self.removing.share()
        if is_new and peer in self.topology and isinstance(message, Joined | Neighbourhood):
            self.telling.all(self.sessions.up[peer].identity)  # at the start of the session it got none
        if not self.topology.partly_known <= doubted:
            self._ask_for_links()

    def _ask_for_links(self) -> None:
        """Whoever knows all links of a broker that has just come into view may have said so before that."""
        brokers = [node for node in self.topology.nodes() if node in self.sessions.up]
        self._out += [Send(peer, LinksWanted()) for peer in brokers if not self.is_leaf]

    def _on_join_request(self, peer: NodeId, message: JoinRequest, now: Micros) -> None:
        if self.leaving.is_closed:
            self._out.append(Send(peer, JoinRefused(f"{self.me} is leaving the network")))
        elif not self.is_leaf and not self.sessions.up[peer].identity.is_leaf:
            self.joining.on_request(peer, message, now)

    def _on_neighbourhood(self, peer: NodeId, message: Neighbourhood, now: Micros) -> None:
        """Learn what was missed; pass news on, so that they reach those behind this node as well."""
        session = self.sessions.up[peer]
        session.state = message.state
        self._synced[peer] = None
        if session.identity.is_leaf:
            return
        if message.network:
            self._membership.told(peer, message.network)
            self._end_sessions_with_strangers()
        self.removing.told(peer, message.removals)
        self._maybe_catches_up(peer)
        removals = self.removing.heard(message.removals)
        for removal in removals:
            self.removing.mend(removal, now)
        hearsay = [each for each in message.marked if self.me not in each]  # of my own joins I know more
        known_before = self.topology.known()
        news = self.joining.learn(message.valid, hearsay, now)
        self.topology.doubt(self.topology.known() - known_before)
        self.topology.partly_known.difference_update(message.known)
        self.joining.was_told()
        self.telling.pass_on(news, self.topology.known() - known_before, besides=peer)

    def _maybe_catches_up(self, peer: NodeId) -> None:
        """A peer lives in the tree of now too. Waves have gone round it meanwhile."""
        if peer in self.outdated and not self.removing.is_outdated(peer):
            del self.outdated[peer]
            self.telling.all(self.sessions.up[peer].identity)

    def deadline(self, now: Micros) -> list[NodeId]:
        """Do what is due; return the peers whose sessions ended by it (suspected, sent away or retired)."""
        suspected = self.sessions.ping(now)
        for peer in suspected:
            self.suspect(peer, now)
        dismissed = [peer for peer in self._dismissed if peer in self.sessions.up]
        for peer in dismissed:
            self.sessions.close(peer, self._dismissed[peer], now)
            self._session_gone(peer)
        self._dismissed.clear()
        retired = self.sessions.retire(now)
        for peer in retired:
            self._session_gone(peer)
        self._note_next_deadline()
        return suspected + dismissed + retired

    def hold(self, peer: NodeId) -> None:
        """A session that has just come is not ready: go round the peer, or wait for it, as if it were not
        there (003: a RECOVERING node is bypassed)."""
        self.held[peer] = self.sessions.up[peer].was_down

    def release(self, peer: NodeId) -> None:
        """The session is ready now. The peer may have missed what others were told meanwhile."""
        del self.held[peer]
        self.has_changed = True
        self.telling.all(self.sessions.up[peer].identity)

    def dismiss(self, peer: NodeId, reason: str) -> None:
        """End the session with a peer as soon as the batch is over; it may come again."""
        self._dismissed[peer] = reason
        self.wake_at = 0

    def _note_next_deadline(self) -> None:
        moments = (self.sessions.wake_at(), self.joining.wake_at())
        if self._dismissed:
            return
        self.wake_at = min((moment for moment in moments if moment is not None), default=None)

    @property
    def is_waiting(self) -> bool:
        """Whether time alone may change the frontier: a peer is to be dialed again, a join goes on."""
        return bool(self.sessions.failed or self.sessions.refused) or self.joining.is_busy

    def suspect(self, peer: NodeId, now: Micros) -> None:
        """The failure detector's verdict: treat the peer as failed."""
        self.sessions.close(peer, "suspected: silent for too long", now)
        self.session_down(peer, now)

    def part_with(self, peer: NodeId, now: Micros) -> None:
        """End the session with a broker that is no neighbour any more."""
        self.sessions.close(peer, "no neighbour any more", now)
        self.session_down(peer, now)

    def refresh(self, now: Micros) -> bool:
        """Walk again, dial who is wanted, move the waves on; True when the frontier has changed."""
        before = self.frontier
        self.has_changed = False
        self._note_partly_known()
        self.frontier = self._walk()
        self.partitions.update(self.frontier)
        joining = self.joining
        wanted = [*self.frontier.wanted, *joining.wanted]
        needed = [*self.frontier.active, *joining.wanted]
        needed += [peer for peer in (*self.held, *self.outdated) if peer in wanted]
        self.sessions.want(wanted, needed, now, proxies(self.topology, self.frontier))
        joining.advance(self.frontier, self.sessions.up, now)
        completed, joining.completed = joining.completed, []
        for wave in completed:
            self._tell_bypassed(wave)
            self.telling.leaves(wave.joined.link)
        self._note_next_deadline()
        if self.frontier == before:
            return False
        self._hops.clear()
        return True

    def _note_partly_known(self) -> None:
        """Make it durable; while this node knows no link, it need not be said that there may be some."""
        partly_known = tuple(sorted(self.topology.partly_known)) if self.topology.neighbours() else ()
        if partly_known != self._noted and not self.is_leaf:
            self._noted = partly_known
            self._out.append(Persist(PartlyKnown(partly_known)))

    def _walk(self) -> Frontier:
        if not self.held and not self.outdated:
            return walk(self.topology, self.sessions.up, self.sessions.failed)
        up = self.sessions.up
        ready = [peer for peer in up if peer not in self.held and peer not in self.outdated]
        down = [peer for peer, was_down in self.held.items() if was_down]
        down += [peer for peer in self.outdated if up[peer].was_down]
        return walk(self.topology, ready, [*self.sessions.failed, *down])

    def _tell_bypassed(self, wave: Wave) -> None:
        """A wave that came here round a broker has not told that broker; it may be alive, and reachable."""
        joined = wave.joined
        if joined.node == self.me or joined.node not in self.topology:
            return
        way = self.topology.direction(joined.node)
        for peer in self._synced:
            if peer != joined.node and self.direction(peer) == way and peer not in wave.senders:
                self.telling.news(self.sessions.up[peer].identity, (joined.link,))

    def maybe_operational(self) -> None:
        """End of recovery: every branch was tried, and each active peer told what it knows."""
        if self.state is NodeState.RECOVERING and self.settled:
            self._become(NodeState.OPERATIONAL)
            self._out += [Send(peer, Status(self.state)) for peer in self.sessions.up]

    def has_heard(self, peer: NodeId) -> bool:
        """Whether a peer has told its links in this session."""
        return peer in self._synced

    # -- questions of the orders ------------------------------------------------------------------------

    @property
    def identity(self) -> Identity:
        """What this node says of itself when a session is set up."""
        return self._membership.identity

    def live_at(self, home: NodeId) -> None:
        """The client's broker is another one from now on."""
        self._membership.identity = replace(self.identity, home=home)

    @property
    def is_joined(self) -> bool:
        """Whether this node is a full member of the network."""
        return self.joining.state is JoinState.VALID_JOINED

    @property
    def has_place(self) -> bool:
        """Whether this node has a place in the tree: it is a member, or joins just now."""
        return self.joining.state is not JoinState.DETACHED

    @property
    def settled(self) -> bool:
        """Whether this node knows all that its reachable neighbours could tell it."""
        frontier = self.frontier
        return not frontier.untried and bool(frontier.active) and self._synced.keys() >= {*frontier.active}

    def leaves(self) -> list[NodeId]:
        """The clients that have a session with this node."""
        return [peer for peer, session in self.sessions.up.items() if session.identity.is_leaf]

    def direction(self, peer: NodeId) -> NodeId | None:
        """The neighbour in the tree behind which the peer lies; a client lies in no direction."""
        return self.topology.direction(peer) if peer in self.topology else None

    def forget_hops(self) -> None:
        """Paths lead through others than before."""
        self._hops.clear()

    def next_hop(self, path: Path) -> NodeId | None:
        """Through whom a path leads to its destination now (nearest node last): the active session on it,
        or the client's own; nobody while it is not known who that is.

        A session that is not active may still be there, past a node that was not tried yet or has just been
        lost: nothing goes round a node that was not found to be down (D3-59).
        """
        try:
            return self._hops[path]
        except KeyError:
            if len(self._hops) >= HOPS_MAX:
                self._hops.clear()
            hop = self._hops[path] = self._find_next_hop(path)
            return hop

    def _find_next_hop(self, path: Path) -> NodeId | None:
        up, frontier = self.sessions.up, self.frontier
        for node in reversed(path):
            if node in up and (node in frontier.active or up[node].identity.is_leaf):
                return node  # a broker that is no neighbour yet has not been told the log
            if node in self.topology and node not in frontier.down:
                return None
        return None

    def mended_path(self, path: Path) -> Path:
        """The path on the tree of now: whoever tells it may not know that a broker on it was removed."""
        fates = self.joining.fates
        return fates.mended(path, self.me) if fates.has_removals else path

    def mended_home(self, home: NodeId) -> NodeId:
        """Who has the place of a client's own broker on the tree of now."""
        fates = self.joining.fates
        return fates.heir(home) if fates.has_removals else home

    def bypassed(self, peer: NodeId) -> list[NodeId]:
        """The brokers between this node and a peer with a session: those that the session goes round."""
        if peer in self.topology:
            return self.topology.path(peer)[1:-1]
        home = self.home_of(peer)
        return self.topology.way(home)[1:] if home is not None else []

    def extended(self, path: Path, peer: NodeId) -> Path:
        """The path that the peer should use towards the same destination (``Topology.prolonged``)."""
        if peer in self.topology:
            return self.topology.prolonged(path, self.topology.path(peer))
        if self.sessions.up[peer].identity.is_leaf:
            return self.topology.prolonged(path, [self.me, peer])
        return ()  # who does not know where the peer is cannot tell it a way
