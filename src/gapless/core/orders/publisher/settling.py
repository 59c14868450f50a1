"""Settling: a broker asks all its sides until its log lacks nothing that they know (rule 11).

A broker must not take events from a publisher before it knows every subscription that was promised them. One
that has started knows nothing. One to which a publisher has moved may lack a subscription too: the
publisher's own broker was reached by it and this one was not, or what it was told is still under way. So it
asks, and takes the events when all have answered.

A question goes to all sides, and each side asks its own other sides before it answers, so an answer covers
all that lies behind it. Knowledge of an earlier moment would not do: a session that looks alive may carry
nothing any more, and what was learned behind it since is known elsewhere, and promised. Whatever was known
anywhere when the question was asked is streamed ahead of the answer (rule 2).

A question names the clients that it is asked for. Whoever takes one of them to publish there still, because
it has not noticed yet that the client is gone, knows better before anything is taken elsewhere.

Whoever has started may find nobody who still knows a subscription, while one that does is cut off. So an
answer says also whether everybody behind it could be asked, and, if not, who is a *witness*: one that has
forgotten nothing since it could ask everybody, or that was told by such a one. What all witnesses have known
is told with the answer; a broker that was told no more than that says so to its clients (rule 12).

Questions are numbered in *rounds*. All that is asked for in one batch shares a round, and a peer is not asked
again before it has answered: many publishers that move at once cost a few questions.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass

from gapless.core.effects import Effect, Send
from gapless.core.messages.publisher import NOBODY, Guest, Synced, SyncWanted
from gapless.core.model import NodeId
from gapless.core.orders.base import pieces
from gapless.core.orders.publisher.log import PeerLog
from gapless.core.overlay.overlay import Overlay

NO_ROUND = 0
"""Before all rounds: whoever has more guests to name than a question may asks several, and this one means
nothing but its guests."""
START = "start"
"""The purpose of the first round: to know what this broker, which has just started, has forgotten."""


@dataclass(slots=True)
class Question:
    """What a peer wants to know."""

    number: int
    """The round of the peer."""
    round: int
    """The round of this broker that answers it."""
    guests: tuple[Guest, ...]
    """Whom the peer asks for."""


class Settling:
    """The questions that one broker asks and answers."""

    def __init__(
        self, overlay: Overlay, peers: Mapping[NodeId, PeerLog], out: list[Effect], *, piece: int
    ) -> None:
        self.has_settled = False
        """Whether this broker was told, at some time since it started, all that its sides know."""
        self._witnesses: tuple[NodeId, ...] = ()
        """What all of these have known at any time, this broker knows: it alone if it was told all that
        anybody knew, else also those who have told it what it had forgotten. Empty: nobody has."""
        self.has_doubted = False
        """Whether it could not ask everybody, at some time since then."""
        self._overlay = overlay
        self._peers = peers
        self._out = out
        self._piece = piece
        """How many guests a question may name."""
        self._round = NO_ROUND
        """The last round that has begun."""
        self._needs: dict[Hashable, int] = {START: 1}
        """What this broker waits for itself, with the round that it needs."""
        self._guests: dict[Hashable, Guest] = {}
        """By purpose the client whose events wait for it."""
        self._questions: dict[NodeId, Question] = {}

    # -- what this broker needs --------------------------------------------------------------------------

    def want(self, purpose: Hashable, guest: Guest | None = None) -> None:
        """The purpose needs everything that is known anywhere at this moment, or when it was first named."""
        self._needs.setdefault(purpose, self._round + 1)
        if guest is not None:
            self._guests[purpose] = guest

    def forget(self, purpose: Hashable) -> None:
        """The purpose needs nothing any more."""
        self._needs.pop(purpose, None)
        self._guests.pop(purpose, None)

    def is_settled(self, purpose: Hashable, *, beyond_barriers: bool = True) -> bool:
        """Whether all sides have answered what the purpose wants; unless it does without what lies behind a
        barrier, there must be none."""
        needed = self._needs.get(purpose)
        if needed is None or not self.has_settled or (beyond_barriers and self._overlay.frontier.barriers):
            return False
        return self._is_answered(needed, None)

    def look(self) -> None:
        """Note when this broker settles for the first time: with a neighbour at least, if it has some. It
        asks whoever comes later too, until it was told what it had known before."""
        if self._witnesses or not self._overlay.is_joined:
            return
        frontier = self._overlay.frontier
        has_company = bool(frontier.active) or not self._overlay.topology.neighbours()
        if has_company and not frontier.barriers and self._is_answered(self._needs[START], None):
            self.has_settled = True
            is_whole, witnesses = self._is_whole(None), self._heard(None)
            self.has_doubted |= not is_whole
            if is_whole or witnesses:
                self._witnesses = tuple(dict.fromkeys((*(() if is_whole else witnesses), self._overlay.me)))
                self.forget(START)

    @property
    def told_by(self) -> tuple[NodeId, ...] | None:
        """Whose knowledge this broker was told when it had started, and it may lack what one of these has not
        known; ``None``: it was told all that anybody knew."""
        me = self._overlay.me
        if self._witnesses == (me,):
            return None
        return tuple(each for each in self._witnesses if each != me) or (NOBODY,)

    def _heard(self, besides: NodeId | None) -> tuple[NodeId, ...]:
        """The least witnesses of those who have answered: one alone has known more than several have all."""
        sides = [self._peers[peer] for peer in self._sides() if self._overlay.direction(peer) != besides]
        return min((each.witnesses for each in sides if each.witnesses), key=len, default=())

    def _is_whole(self, besides: NodeId | None) -> bool:
        """Whether all who are there could be asked."""
        direction, frontier, peers = self._overlay.direction, self._overlay.frontier, self._peers
        nobody_is_down = all(direction(node) == besides for node in (*frontier.down, *frontier.blind))
        return nobody_is_down and all(
            peers[peer].is_whole for peer in self._sides() if direction(peer) != besides
        )

    # -- what others need --------------------------------------------------------------------------------

    def on_wanted(self, peer: NodeId, wanted: SyncWanted) -> None:
        """A peer asks: ask all others. Of several questions of a peer the last one stands for all."""
        earlier = self._questions[peer].guests if peer in self._questions else ()
        self._questions[peer] = Question(wanted.round, self._round + 1, (*earlier, *wanted.guests))

    def on_synced(self, peer: NodeId, synced: Synced) -> None:
        """A peer has answered."""
        peer_log = self._peers[peer]
        peer_log.answered = max(peer_log.answered, min(synced.round, peer_log.asked))
        peer_log.witnesses, peer_log.is_whole = synced.witnesses, synced.is_whole

    def session_down(self, peer: NodeId) -> None:
        """Nobody waits for the answer any more."""
        self._questions.pop(peer, None)

    # -- the end of a batch --------------------------------------------------------------------------------

    def flush(self) -> None:
        """Ask whoever has to be asked, answer whoever can be answered; the log was streamed before."""
        if not self._needs and not self._questions:
            return
        direction = self._overlay.direction
        needs = [(each.round, direction(peer)) for peer, each in self._questions.items()]
        needs += [(needed, None) for needed in self._needs.values()]
        for peer in self._sides():
            self._ask(
                peer, max((needed for needed, besides in needs if besides != direction(peer)), default=0)
            )
        self._round = max((self._round, *(needed for needed, _ in needs)))
        for peer, question in list(self._questions.items()):
            if peer not in self._overlay.held and self._can_answer(question.round, direction(peer)):
                del self._questions[peer]
                self._out.append(Send(peer, self._answer(question.number, direction(peer))))

    def _answer(self, number: int, besides: NodeId | None) -> Synced:
        return Synced(number, self._witnesses or self._heard(besides), self._is_whole(besides))

    def _ask(self, peer: NodeId, needed: int) -> None:
        peer_log = self._peers[peer]
        if peer_log.asked < needed and peer_log.answered == peer_log.asked:
            peer_log.asked = max(needed, self._round)
            passed_on = (each for question in self._questions.values() for each in question.guests)
            guests = tuple(dict.fromkeys((*self._guests.values(), *passed_on)))
            *some, last = [*pieces(guests, self._piece)] or [()]
            self._out += [Send(peer, SyncWanted(NO_ROUND, each)) for each in some]
            self._out.append(Send(peer, SyncWanted(peer_log.asked, last)))

    def _sides(self) -> list[NodeId]:
        """Who has to answer: the active peers, and those that are held. These are there, only not ready; what
        they know may be known nowhere else on this side."""
        active = self._overlay.frontier.active
        return [*active, *(peer for peer in self._overlay.held if peer not in active)]

    def _can_answer(self, needed: int, besides: NodeId | None) -> bool:
        """Who has settled once knows what was known behind a barrier before it came down."""
        barriers = self._overlay.frontier.barriers
        is_open = all(self._overlay.direction(node) == besides for node in barriers)
        return (self.has_settled or is_open) and self._is_answered(needed, besides)

    def _is_answered(self, needed: int, besides: NodeId | None) -> bool:
        direction, peers = self._overlay.direction, self._peers
        return (
            self._overlay.has_place
            and all(direction(node) == besides for node in self._overlay.frontier.untried)
            and all(peers[peer].answered >= needed for peer in self._sides() if direction(peer) != besides)
        )
