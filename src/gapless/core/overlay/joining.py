"""Joining the primary tree in two phases (003, 4.6 and algorithms 1 and 2).

*Phase 1.* The joining node N asks a join point M. M adds the link N–M *marked*, makes it durable, and answers
with the links within δ of itself. N makes them durable: it is ATTACHED.
*Phase 2.* N sends ``Joined`` to every node within δ of M. Each forwards it away from N, waits until all
behind it confirmed, makes the link valid and confirms. When N's own wave is complete it is VALID_JOINED: all
nodes of its neighbourhood know it, and only now it accepts joins itself.

Failures: a peer that fails drops out of the wave, and the active sessions that replace it are asked
instead; a node that nobody can reach learns the link from its neighbours when it returns (every session
begins with the links that the other end should know). Where we differ from X-D3-15: a node that failed in
phase 1 starts again and may choose another join point, but an ATTACHED node stays with its join point, since
some nodes may hold the link as valid already; if M is down, the wave goes round it like any message.
A marked link whose wave does not complete is dropped after a time, or at once when the joining node is
announced elsewhere. A join point that restarts forgets the joins that had only begun at it; a node that is
announced to somebody who does not know it is told what it missed.

``removing`` takes brokers out of the tree again, and ``leaving`` asks for it; ``fates`` keeps latecomers from
bringing their links back.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from gapless.core.effects import (
    Effect,
    Founded,
    JoinedAt,
    LinkAdded,
    LinkRemoved,
    Persist,
    Send,
    Stopped,
)
from gapless.core.messages.overlay import (
    Joined,
    JoinedConfirmed,
    JoinRefused,
    JoinRequest,
    PartialTopology,
    Removal,
)
from gapless.core.model import Incarnation, Link, Micros, NodeId, link
from gapless.core.overlay.fates import Fates
from gapless.core.overlay.frontier import Frontier
from gapless.core.overlay.sessions import Timing
from gapless.core.overlay.topology import Topology


class JoinState(StrEnum):
    """Where a node stands on its way into the tree (003, figure 4)."""

    DETACHED = "detached"
    ATTACHED = "attached"
    VALID_JOINED = "joined"


JOIN_TRANSITIONS: dict[JoinState, tuple[JoinState, ...]] = {
    JoinState.DETACHED: (JoinState.ATTACHED, JoinState.VALID_JOINED),
    JoinState.ATTACHED: (JoinState.VALID_JOINED,),
    JoinState.VALID_JOINED: (),
}
"""The first broker of a network is joined without asking anybody, and one that has lost its store and is told
by a neighbour where it belongs has joined before. Who is forgotten by a removal begins anew."""


@dataclass(slots=True)
class Wave:
    """One ``Joined`` under way at this node: who sent it here, and whom it was sent on to."""

    joined: Joined
    senders: dict[NodeId, None] = field(default_factory=dict)
    asked: dict[NodeId, bool] = field(default_factory=dict)  # peer -> has confirmed


class Joining:
    """Both sides of the join protocol at one node; a client only learns links."""

    def __init__(
        self,
        topology: Topology,
        incarnation: Incarnation,
        join_points: Sequence[NodeId],
        timing: Timing,
        out: list[Effect],
        *,
        founder: bool = False,
        fates: Fates | None = None,
        joined_at: NodeId = "",
    ) -> None:
        self.state = JoinState.DETACHED
        self.is_founder = founder
        """Whether this broker may be a network by itself."""
        self.is_member_elsewhere = ""
        """Why the join point that was asked last takes this broker for a second one of its name; empty: it
        does not."""
        self._topology = topology
        self._incarnation = incarnation
        self._join_points = tuple(join_points)
        self._timing = timing
        self._out = out
        self._asked: NodeId | None = None
        self._ask_at: Micros | None = None
        self._pause = timing.redial_first
        self.completed: list[Wave] = []
        """Waves that have completed here since somebody looked."""
        self._waves: dict[NodeId, Wave] = {}  # by joining node
        self._completed: dict[NodeId, Joined] = {}  # its last announcement
        self.fates = fates if fates is not None else Fates(out)
        self._joined_at = joined_at
        self._marked_at: dict[Link, Micros] = {}

    @property
    def wanted(self) -> Sequence[NodeId]:
        """The join points to have a session with: all candidates, until one has answered."""
        return self._join_points if self.state is JoinState.DETACHED else ()

    @property
    def is_busy(self) -> bool:
        """Whether a join is under way here: this node's own, or one nearby."""
        return self.state is not JoinState.VALID_JOINED or bool(self._waves) or bool(self._marked_at)

    # -- the joining node ----------------------------------------------------------------------------

    def start(self, now: Micros) -> None:
        """Begin, or go on where the last incarnation stopped.

        Who has neither neighbours in its store nor founded the network is no member, even if there is nobody
        to ask: it may have lost its store, and waits until a neighbour tells it where it belongs (P0-91).
        """
        topology = self._topology
        own = [link(topology.me, neighbour) for neighbour in topology.neighbours()]
        self._marked_at = dict.fromkeys(topology.links(marked=True), now)
        if any(topology.is_valid(each) for each in own) or self.is_founder:
            self._become(JoinState.VALID_JOINED)
            for each in own:
                if topology.is_marked(each):
                    self._forget(each)
        elif own:
            self._attach(topology.neighbours()[0])
        elif self._joined_at:
            self._ask_first(self.fates.heir(self._joined_at))

    def was_told(self) -> None:
        """A neighbour has told links: this node may be a member without knowing it."""
        topology = self._topology
        if self.state is JoinState.DETACHED and any(
            topology.is_valid(link(topology.me, each)) for each in topology.neighbours()
        ):
            self._become(JoinState.VALID_JOINED)

    def _become(self, state: JoinState) -> None:
        assert state in JOIN_TRANSITIONS[self.state], f"{self.state} to {state} is not in figure 4"
        self.state = state

    def _attach(self, join_point: NodeId) -> None:
        self._become(JoinState.ATTACHED)
        self._joins_at(join_point)
        me = self._topology.me
        self._waves[me] = Wave(Joined(me, join_point, self._incarnation))

    def _joins_at(self, join_point: NodeId) -> None:
        if join_point != self._joined_at:
            self._joined_at = join_point
            self._out.append(Persist(JoinedAt(join_point)))

    def _ask(self, established: Container[NodeId]) -> None:
        """Ask the first join point that can be reached; one at a time."""
        self._ask_at = None
        there = (peer for peer in self._join_points if peer in established and not self.fates.removal(peer))
        self._asked = next(there, None)
        if self._asked is not None:
            self._out.append(Send(self._asked, JoinRequest(self._topology.me)))

    def on_refused(self, peer: NodeId, refused: JoinRefused, now: Micros) -> None:
        """The join point is not joined itself: ask again after a pause, another one if there is one."""
        if self.state is JoinState.DETACHED and peer == self._asked:
            self.is_member_elsewhere = refused.reason if refused.is_member else ""
            at = self._join_points.index(peer) + 1
            self._join_points = self._join_points[at:] + self._join_points[:at]
            self._asked = None
            self._ask_at = now + self._pause
            self._pause = min(2 * self._pause, self._timing.redial_most)

    def on_partial(self, peer: NodeId, message: PartialTopology, now: Micros) -> None:
        """End of phase 1: TOP_N is what the join point told; one that was removed may not know it yet."""
        if self.state is JoinState.DETACHED and peer == self._asked and not self.fates.removal(peer):
            self.learn(message.valid, message.marked, now)
            self._topology.partly_known.clear()
            self._topology.doubt(message.partly_known)
            self._attach(peer)

    # -- the join point and everybody near it ----------------------------------------------------------

    def on_request(self, peer: NodeId, request: JoinRequest, now: Micros) -> None:
        """Phase 1 at the join point."""
        topology, own = self._topology, link(self._topology.me, peer)
        if self.state is not JoinState.VALID_JOINED:
            self._out.append(Send(peer, JoinRefused(f"{topology.me} has not joined the network itself")))
            return
        if peer != request.node or (peer in topology and peer not in topology.neighbours()):
            is_member = any(topology.is_valid(link(peer, each)) for each in topology.neighbours(peer))
            reason = f"{request.node} is in the network already{self._where(peer) if is_member else ''}"
            self._out.append(Send(peer, JoinRefused(reason, is_member)))
            return
        if self.fates.removal(peer) is not None:
            self._out.append(Send(peer, JoinRefused(f"{peer} was removed, and its name is used up")))
            return
        self.learn((), (own,), now)
        valid, marked = topology.links_within(topology.me, topology.delta)
        if own not in valid and own not in marked:  # δ = 0: PAR_TOP lacks the node's own link (X-D3-06)
            marked.append(own)
        partly_known = tuple(sorted(topology.partly_known))
        told = PartialTopology(tuple(valid), tuple(marked), partly_known)
        self._out.append(Send(peer, told))

    def _where(self, node: NodeId) -> str:
        """What an operator can do about a broker that asks to join and is a member in another place."""
        near = ", ".join(self._topology.neighbours(node))
        return (
            f", beside {near}: if this is that broker without its store, join there; else choose another --id"
        )

    def on_joined(self, peer: NodeId, joined: Joined, now: Micros) -> None:
        """Phase 2 at a node within δ of the join point (003, algorithm 1)."""
        done = self._completed.get(joined.node) == joined or self.fates.removal(joined.node) is not None
        if self.state is JoinState.DETACHED or done:
            self._out.append(Send(peer, JoinedConfirmed(joined.node, joined.incarnation)))
            return
        for rival in self._topology.rivals(joined.link):
            self._forget(rival)
        self.learn((), (joined.link,), now)
        wave = self._waves.get(joined.node)
        if wave is None or wave.joined.incarnation < joined.incarnation:
            wave = self._waves[joined.node] = Wave(joined)
        wave.senders[peer] = None

    def on_confirmed(self, peer: NodeId, message: JoinedConfirmed) -> None:
        """A branch of a wave is complete."""
        wave = self._waves.get(message.node)
        if wave is not None and wave.joined.incarnation <= message.incarnation and peer in wave.asked:
            wave.asked[peer] = True

    def session_down(self, peer: NodeId) -> None:
        """A wave must ask again what it asked on this session; a join that failed in phase 1 is off."""
        for wave in self._waves.values():
            wave.asked.pop(peer, None)
            wave.senders.pop(peer, None)
        if peer == self._asked and self.state is JoinState.DETACHED:
            self._asked = None
        pending = link(self._topology.me, peer)
        if self.state is JoinState.VALID_JOINED and pending in self._marked_at:
            self._drop_if_idle(pending)

    def advance(self, frontier: Frontier, established: Container[NodeId], now: Micros) -> None:
        """Ask whoever is nearest now in each branch of each wave; end the waves that wait for nobody."""
        if (
            self.state is JoinState.DETACHED
            and self._asked is None
            and (self._ask_at is None or now >= self._ask_at)
        ):
            self._ask(established)
        for wave in list(self._waves.values()):
            if self._ask_branches(wave, frontier):
                self._complete(wave, now)
        for each, since in list(self._marked_at.items()):
            if since + self._timing.give_up_join_after <= now:
                self._drop_if_idle(each)

    def _branches(self, joined: Joined) -> set[NodeId]:
        """The directions in which RCPT^J lies: the nodes within δ of the join point, behind this one as
        seen from the joining node (X-D3-05), which is no recipient itself and may be out of view."""
        topology = self._topology
        near = topology.ball(joined.join_point, topology.delta)
        branches = {topology.direction(node) for node in near if node in topology and node != topology.me}
        came_from = joined.node if joined.join_point == topology.me else joined.join_point
        if joined.node != topology.me and came_from in topology:
            branches.discard(topology.direction(came_from))
        return branches

    def _ask_branches(self, wave: Wave, frontier: Frontier) -> bool:
        """Each branch is asked through its nearest established node; True when all have confirmed.

        The recipients are computed anew each time, so a node that joins meanwhile is asked too
        (003, lemma 6). The joining node itself must have asked somebody.
        """
        topology, branches = self._topology, self._branches(wave.joined)
        peers = [peer for peer in frontier.active if topology.direction(peer) in branches]
        wave.asked = {peer: confirmed for peer, confirmed in wave.asked.items() if peer in peers}
        for peer in peers:
            if peer not in wave.asked:
                wave.asked[peer] = False
                self._out.append(Send(peer, wave.joined))
        if any(topology.direction(node) in branches for node in frontier.untried):
            return False
        has_asked = bool(peers) or wave.joined.node != topology.me
        return has_asked and all(wave.asked.values())

    def _complete(self, wave: Wave, now: Micros) -> None:
        joined = wave.joined
        del self._waves[joined.node]
        self._completed[joined.node] = joined
        self.completed.append(wave)
        self.learn((joined.link,), (), now)
        confirmation = JoinedConfirmed(joined.node, joined.incarnation)
        self._out += [Send(sender, confirmation) for sender in wave.senders]
        if joined.node == self._topology.me and self.state is JoinState.ATTACHED:
            self._become(JoinState.VALID_JOINED)

    # -- links -----------------------------------------------------------------------------------------

    def learn(self, valid: Iterable[Link], marked: Iterable[Link], now: Micros) -> list[Link]:
        """Take links into the topology and make the news durable; return the news that are valid."""
        current = self.fates.current
        news = self._topology.add(
            [now_there for each in valid if (now_there := current(each)) is not None],
            [each for each in marked if current(each) == each],
        )
        self._marked_at |= dict.fromkeys(news.marked, now)
        for each in (*news.valid, *news.given_up):
            self._marked_at.pop(each, None)
        self._out += [Persist(LinkRemoved(each)) for each in news.given_up]
        self._out += [Persist(LinkAdded(each)) for each in news.valid]
        self._out += [Persist(LinkAdded(each, marked=True)) for each in news.marked]
        return news.valid

    def mend(self, removal: Removal, now: Micros, *, announce: bool) -> bool:
        """Let the centre take the place of a broker that was removed; True when the tree is another one here.

        All its links change at once. One that the removal does not name is gone. Whoever has joined there
        without having been heard of goes to the centre too, and announces that; but not the broker itself, if
        it has joined here since: its name is used up. (Of several removals that are heard of at once all are
        known when the first one is followed.) Who is the last one is a network by itself; who is left with
        nobody, though another one has the place, joins that one anew.
        """
        topology = self._topology
        before = {each: topology.is_marked(each) for each in topology.links()}
        move = self._move(removal, announce=announce)
        after = dict.fromkeys(filter(None, map(self.fates.current, removal.made)), False)
        for each, marked in before.items():
            current = self.fates.current(each)
            if move is not None and each == link(topology.me, move[0]):
                current = link(topology.me, move[1])
            if current is not None:
                after[current] = marked and after.get(current, True)
        topology.rebuild(after)
        if announce and before and not topology.links():
            self._is_left_with_nobody(self.fates.heir(removal.node))
        self._links_changed(before, now)
        self._waves = {
            node: wave for node, wave in self._waves.items() if removal.node not in wave.joined.link
        }
        if move is not None and announce:
            self._waves[topology.me] = Wave(Joined(topology.me, move[1], self._incarnation))
        return before != {each: topology.is_marked(each) for each in topology.links()}

    def _move(self, removal: Removal, *, announce: bool) -> tuple[NodeId, NodeId] | None:
        """From whom to whom this node goes, if the broker that it has joined is gone, or a client's home is,
        and no removal names its link there."""
        topology = self._topology
        joined = self._joined_at if announce else next(iter(topology.neighbours()), "")
        gone = self.fates.removal(joined) or (removal if removal.node == joined else None)
        if gone is None:
            return None
        heir = self.fates.heir(joined)
        if announce:
            self._joins_at(heir if heir != topology.me else "")
        has_link = joined in topology.neighbours() and not gone.had(topology.me)
        return (joined, heir) if has_link and heir not in (topology.me, joined) else None

    def _is_left_with_nobody(self, heir: NodeId) -> None:
        """A broker without links is the last one, or those who knew its link have lost their stores."""
        if heir == self._topology.me:
            self.is_founder = True
            self._out.append(Persist(Founded(alone=True)))
            return
        self._topology.doubt([self._topology.me])
        self._joins_at(heir)
        self._ask_first(heir)
        # No step of figure 4, which knows no removals: it begins anew.
        self.state, self._asked, self._ask_at = JoinState.DETACHED, None, None

    def _ask_first(self, join_point: NodeId) -> None:
        self._join_points = tuple(dict.fromkeys((join_point, *self._join_points)))

    def _links_changed(self, before: Mapping[Link, bool], now: Micros) -> None:
        """Make durable what the tree is now."""
        topology = self._topology
        after = {each: topology.is_marked(each) for each in topology.links()}
        self._out += [Persist(LinkRemoved(each)) for each in before if each not in after]
        for each, marked in after.items():
            if before.get(each) != marked:
                self._out.append(Persist(LinkAdded(each, marked=marked)))
        self._marked_at = {each: self._marked_at.get(each, now) for each, marked in after.items() if marked}

    def be_removed(self, *, as_wanted: bool) -> None:
        """This node was removed: it has no place any more, and its name is used up."""
        self._out += [Persist(LinkRemoved(each)) for each in self._topology.links()]
        self._out += [Persist(Founded(alone=False)), Stopped(removed=not as_wanted)]
        self._topology.rebuild({})

    def _drop_if_idle(self, marked: Link) -> None:
        """Forget a join that never completed, unless its wave is passing just now or it is my own."""
        if self.state is JoinState.VALID_JOINED and not any(node in self._waves for node in marked):
            self._forget(marked)

    def _forget(self, marked: Link) -> None:
        self._marked_at.pop(marked, None)
        self._topology.remove(marked)
        self._out.append(Persist(LinkRemoved(marked)))

    def wake_at(self) -> Micros | None:
        """When to ask again, or to give up a marked link."""
        moments = [
            since + self._timing.give_up_join_after
            for each, since in self._marked_at.items()
            if self.state is JoinState.VALID_JOINED and not any(node in self._waves for node in each)
        ]
        if self._ask_at is not None and self.state is JoinState.DETACHED:
            moments.append(self._ask_at)
        return min(moments, default=None)
