"""Removing a broker that is gone for good, wherever in the tree it was. (One that is there and wants to leave
asks for it: ``leaving``.)

Its neighbours stay in one tree: the one with the smallest name, the *centre*, takes its place, and each of
its other links leads to the centre from then on. The centre alone decides, so there are never two answers to
who that is, and it does so only when it knows all other neighbours, can reach every one of them, and none of
them sees the broker alive:

1. An operator asks the centre. It asks the other neighbours (``RemovalAsked``), and they answer
   (``RemovalVote``). Whoever falls silent is unreachable, which is an answer too.
2. When all agree, the centre makes the ``Removal`` durable and lives in the new tree at once.
3. It tells all brokers, and they pass it on, at once and at the beginning of every later session.
4. Whoever is no broker of the network hears of it when two brokers have it: the clients, the broker itself,
   and the operator that it is done.

The centre changes first: all others hear of it from the centre. As long as a neighbour has not changed it
goes round the broker that is down, directly to each other neighbour, and leaves to the centre only what lies
behind that; once it has changed, it leaves all the others to the centre too. So the centre must not mistake
what was meant for itself for what is meant for all: with those on whose way the broker was it begins anew. It
ends their sessions, forgets what it got from them and all numbers that it has seen, and does not listen to
them until they have said that they have changed too; and they repeat to it, as to any new session, what is
not confirmed. To them it looks as if the centre had crashed and were back at once.

Before step 2 nothing has happened, after it nothing is undone by a crash: the centre is asked again, and says
that it is done if it was. Only if it loses its store before another broker has heard of the removal, that is
forgotten. Nobody may have acted on it then: a client with another home than the network knows would wait for
ever for what waits for it elsewhere, and all would wait for a broker that has stopped. That is what step 4 is
for. Brokers hear of the removal before anything else that the centre does in the new tree, so none of them
has seen any of it.

The broker that is removed may turn out to live, or be started again from its old store. To the others it
is gone: they tell it so, and it stops. Its name is used up (``fates``): whatever replaces it has another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from msgspec.structs import replace

from gapless.core.effects import Effect, RemovalAnswered, Send
from gapless.core.messages.overlay import Neighbourhood, NodeState, Removal, RemovalAsked, RemovalVote
from gapless.core.model import Identity, Micros, NodeId

if TYPE_CHECKING:
    from gapless.core.overlay.overlay import Overlay


@dataclass(slots=True)
class Poll:
    """A removal that waits for the other neighbours."""

    node: NodeId
    votes: dict[NodeId, RemovalVote | None] = field(default_factory=dict)


class Removing:
    """Both sides of a removal at one broker: the centre's, and that of the neighbours that it asks."""

    def __init__(self, overlay: Overlay, out: list[Effect]) -> None:
        self._overlay = overlay
        self._out = out
        self._poll: Poll | None = None
        self._unanswered: dict[NodeId, None] = {}  # brokers that are removed, and the operator does not know
        self._told: dict[NodeId, tuple[Removal, ...]] = {}  # who is outside, and what it was told

    # -- the centre --------------------------------------------------------------------------------------

    def request(self, node: NodeId, now: Micros) -> None:
        """Remove a neighbour; ``RemovalAnswered`` follows: at once why not, or later that it is done."""
        if node not in self._overlay.topology and self._overlay.joining.fates.removal(node) is not None:
            self._unanswered[node] = None
            self._maybe_answer()
            return
        if self._poll is not None and self._poll.node == node:
            return  # the answer is for both who asked
        problem = self._why_not_here(node) or self._why_not(node) or self._why_not_centre(node)
        if problem is not None:
            self._answer(node, problem)
            return
        others = [each for each in self._overlay.topology.neighbours(node) if each != self._overlay.me]
        self._poll = Poll(node, dict.fromkeys(others))
        self._out += [Send(each, RemovalAsked(node)) for each in others]
        self._maybe_remove(now)

    def on_vote(self, peer: NodeId, vote: RemovalVote, now: Micros) -> None:
        """One of the other neighbours has answered."""
        poll = self._poll
        if poll is None or vote.node != poll.node or peer not in poll.votes:
            return
        if vote.why_not:
            self._give_up(vote.why_not)
            return
        poll.votes[peer] = vote
        self._maybe_remove(now)

    def session_down(self, peer: NodeId) -> None:
        """A neighbour that was asked does not answer any more."""
        self._told.pop(peer, None)
        poll = self._poll
        if poll is not None and peer in poll.votes:
            self._give_up(_unreachable(peer, poll.node))

    def _maybe_remove(self, now: Micros) -> None:
        poll = self._poll
        if poll is None or None in poll.votes.values():
            return
        problem = self._why_not(poll.node)  # it may have come back meanwhile
        if problem is not None:
            self._give_up(problem)
            return
        self._poll = None
        self._decide(self._removal(poll), now)
        self._unanswered[poll.node] = None
        self._maybe_answer()

    def let_go(self, node: NodeId, now: Micros) -> None:
        """Remove a neighbour that has no other one, and wants to leave. Its life is not over yet: if this
        broker is removed before anybody has heard of the decision, the other one goes on in it."""
        overlay = self._overlay
        lives = ((overlay.me, overlay.identity.incarnation),)
        over = overlay.sessions.up[node].incarnation - 1
        self._decide(Removal(node, over, overlay.me, lives, overlay.joining.fates.last_number() + 1), now)

    def _decide(self, removal: Removal, now: Micros) -> None:
        is_news = self._overlay.joining.fates.note(removal)
        assert is_news, f"{removal} is no news, though {removal.node} is here"
        self.mend(removal, now)

    def _removal(self, poll: Poll) -> Removal:
        """What is made durable: with the last life of the broker that any neighbour has seen. If none has,
        all of them have started since it was gone, and their own lives are later than its last one."""
        overlay, node = self._overlay, poll.node
        lives = {overlay.me: overlay.identity.incarnation}
        lives |= {each: overlay.sessions.up[each].incarnation for each in poll.votes}
        seen = [vote.incarnation for vote in poll.votes.values() if vote is not None]
        last = max(overlay.sessions.lives.get(node, 0), *seen, 0) or max(lives.values())
        fates = overlay.joining.fates
        last = max(last, fates.last_life(node))
        return Removal(node, last, overlay.me, tuple(sorted(lives.items())), fates.last_number() + 1)

    def _give_up(self, why: str) -> None:
        assert self._poll is not None
        node, self._poll = self._poll.node, None
        self._answer(node, why)

    def _maybe_answer(self) -> None:
        fates = self._overlay.joining.fates
        for node in list(self._unanswered):
            removal = fates.removal(node)
            if removal is None or self._is_shared(removal):  # None: too many others were since
                del self._unanswered[node]
                self._answer(node)

    def _answer(self, node: NodeId, error: str = "") -> None:
        self._out.append(RemovalAnswered(node, error))

    # -- who else knows -----------------------------------------------------------------------------------

    def known_to(self, peer: Identity) -> tuple[Removal, ...]:
        """The removals that a peer is to be told: all, if it is a broker of the network."""
        if not self._is_outside(peer):
            return self._overlay.joining.fates.removals()
        shared = self._told[peer.node] = self._shared()
        return shared

    def _is_outside(self, peer: Identity) -> bool:
        return peer.is_leaf or self._overlay.joining.fates.removal(peer.node) is not None

    def _shared(self) -> tuple[Removal, ...]:
        return tuple(each for each in self._overlay.joining.fates.removals() if self._is_shared(each))

    def _is_shared(self, removal: Removal) -> bool:
        """Whether another broker has said that it has the removal too, or there is no other broker."""
        topology, up = self._overlay.topology, self._overlay.sessions.up
        near = (up[node] for node in topology.nodes() if node in up)  # of clients there may be many more
        return not topology.neighbours() or any(removal.node in session.removals for session in near)

    def told(self, peer: NodeId, removals: Sequence[Removal]) -> None:
        """A broker has said which removals it has."""
        self._overlay.sessions.up[peer].removals |= {each.node for each in removals}

    def share(self) -> None:
        """Others may hear of what another broker has too since they were told last: that broker has said so,
        or is known to be one since."""
        overlay, shared = self._overlay, self._shared()
        for peer, session in overlay.sessions.up.items():
            if self._is_outside(session.identity) and self._told.get(peer) != shared:
                overlay.telling.all(session.identity)
        self._maybe_answer()

    # -- everybody near -----------------------------------------------------------------------------------

    def heard(self, told: Sequence[Removal]) -> list[Removal]:
        """Note them, and return what is news: everybody has to know which names are used up."""
        news: list[Removal] = []
        left = list(told)
        while noted := [each for each in left if self._overlay.joining.fates.note(each)]:
            news += noted  # one of them may have made room for another
            left = [each for each in left if each not in noted]
        return news

    def is_outdated(self, peer: NodeId) -> bool:
        """Whether this node is the centre of a removal, and the peer lies where the broker was and has not
        said that it knows."""
        overlay = self._overlay
        session = overlay.sessions.up[peer]
        return not session.identity.is_leaf and any(
            each.node not in session.removals
            for each in overlay.joining.fates.removals()
            if each.centre == overlay.me and each.is_between(overlay.topology.way(peer))
        )

    def mend(self, removal: Removal, now: Micros) -> None:
        """The centre has the place of a broker that was removed: live in the new tree, and pass it on.

        Whoever is nearer to somebody than before is told the links that it lacks.
        """
        overlay = self._overlay
        if removal.node == overlay.me:
            overlay.joining.be_removed(as_wanted=overlay.leaving.is_wanted)
            return
        has_changed = overlay.joining.mend(removal, now, announce=not overlay.is_leaf)
        overlay.forget_hops()
        overlay.mended.append(removal)
        if overlay.is_leaf:
            for home in overlay.topology.neighbours():  # none, if two have had each other removed
                overlay.live_at(home)
            return
        for peer, session in overlay.sessions.up.items():
            if session.identity.home == removal.node:
                session.identity = replace(session.identity, home=removal.centre)
            if self._is_outside(session.identity) and not self._is_shared(removal):
                continue
            if has_changed:
                overlay.telling.all(session.identity)
            else:
                self._out.append(Send(peer, Neighbourhood((), (), overlay.state, removals=(removal,))))

    # -- every neighbour ---------------------------------------------------------------------------------

    def on_asked(self, peer: NodeId, node: NodeId) -> None:
        """Say whether the broker is gone, as this neighbour of it sees it."""
        life = self._overlay.sessions.lives.get(node, 0)
        is_gone = self._overlay.joining.fates.removal(peer) is not None
        why_not = f"{peer} was removed itself" if is_gone else self._why_not(node)
        self._out.append(Send(peer, RemovalVote(node, why_not or "", life)))

    def _why_not(self, node: NodeId) -> str | None:
        """What a neighbour of the broker has against its removal."""
        overlay = self._overlay
        if node not in overlay.topology.neighbours():
            return f"{overlay.me} has no neighbour {node}: ask for gapless status which brokers there are"
        if node in overlay.sessions.up:
            return f"{node} is alive: {overlay.me} has a session with it. Stop it, or let it leave by itself"
        if not overlay.is_joined or overlay.state is not NodeState.OPERATIONAL:
            return f"{overlay.me} is joining or recovering: ask again when it is done"
        if overlay.joining.is_busy:
            return f"a broker is joining near {overlay.me}: ask again in some seconds"
        if node not in overlay.frontier.down:
            return f"{overlay.me} does not know yet whether {node} is gone: ask again in some seconds"
        return None

    def _why_not_here(self, node: NodeId) -> str | None:
        """Why this broker cannot remove the other one, whatever became of that."""
        if node == self._overlay.me:
            return f"{node} is alive: this is it. Let it leave by itself"
        if self._overlay.topology.delta == 0:
            return f"with delta = 0 nobody knows the neighbours of {node}: start it again"
        if self._poll is not None:
            return f"{self._poll.node} is being removed just now: ask again in some seconds"
        return None

    def _why_not_centre(self, node: NodeId) -> str | None:
        """Why this neighbour of the broker cannot have its place, or not now."""
        me, up = self._overlay.me, self._overlay.sessions.up
        neighbours = self._overlay.topology.neighbours(node)
        if me != neighbours[0]:
            return f"{neighbours[0]} is to have the place of {node}: ask that broker"
        if self._may_have_others(node):
            return (
                f"{me} may not know all neighbours of {node}, and the others would be left alone: "
                f"start {node} first (without its store if that is lost), then ask again"
            )
        missing = [each for each in neighbours if each != me and each not in up]
        return _unreachable(missing[0], node) if missing else None

    def _may_have_others(self, node: NodeId) -> bool:
        """Whether the broker may have neighbours that nobody has told this one."""
        return node in self._overlay.topology.partly_known


def _unreachable(neighbour: NodeId, node: NodeId) -> str:
    return (
        f"{neighbour}, a neighbour of {node}, cannot be reached, and the tree cannot be mended without it: "
        f"start {neighbour} first (without its store if that is lost), then ask again"
    )
