"""Sessions of a node with its peers, and the failure detector that watches them (000, II; 003, 4.1).

A session is *established* from ``SessionUp`` until this node closes it, hears that it broke, or suspects
the peer because it was silent too long. Suspicion may be wrong (P0-07): a slow peer and a dead one look the
same, so all that follows from it must be safe for a live peer too.

====================  =================================================================
state of a peer       how it is left
====================  =================================================================
untried               dialed when the frontier wants it
dialing               → up, or failed
up                    → failed (broken or suspected), or untried (closed as unneeded)
failed                dialed again after a pause that doubles; → up
refused               untried still, since it is alive; dialed again like a failed one
====================  =================================================================
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from random import Random
from types import MappingProxyType

from gapless.core.effects import Connect, Disconnect, Effect, Send
from gapless.core.messages.overlay import NodeState, Ping
from gapless.core.model import MILLISECOND, SECOND, Identity, Incarnation, Micros, NodeId

RETIRED = "retired: a nearer session has taken over"


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """How patient a node is. A failed broker is bypassed after about ``suspect_after``."""

    ping_every: Micros = 200 * MILLISECOND
    suspect_after: Micros = 900 * MILLISECOND
    redial_first: Micros = 100 * MILLISECOND
    redial_most: Micros = 2 * SECOND
    retire_after: Micros = 1 * SECOND
    give_up_join_after: Micros = 10 * SECOND

    def __post_init__(self) -> None:
        if not 0 < 2 * self.ping_every <= self.suspect_after:
            raise ValueError("suspect_after must be at least twice ping_every, or every pause is a failure")


@dataclass(slots=True)
class Session:
    """An established session: α(N, M) of 003 is ``state``."""

    identity: Identity
    heard_at: Micros
    state: NodeState = NodeState.OPERATIONAL
    was_down: bool = False
    """Whether the peer had been tried and not been reached when the session came."""
    has_been_heard: bool = False
    redial: Redial | None = None
    """How the peer was to be dialed next when the session came. It still counts if the session ends without
    a word: who is sent away at once must not come back at once."""
    removals: set[NodeId] = field(default_factory=set)
    """The brokers of which the peer has said that they were removed."""

    @property
    def incarnation(self) -> Incarnation:
        """Which life of the peer this session is with."""
        return self.identity.incarnation


@dataclass(slots=True)
class Redial:
    """A failed peer: when to dial it again, and how long to pause after that."""

    at: Micros
    pause: Micros


class Sessions:
    """All peers of one node: who is up, who failed, who is being dialed."""

    def __init__(self, timing: Timing, rng: Random, out: list[Effect]) -> None:
        self.up: dict[NodeId, Session] = {}
        self.failed: dict[NodeId, Redial] = {}
        self.refused: dict[NodeId, Redial] = {}
        """Peers that take this node for a second one of its name. They are alive, so nothing goes round them:
        a second node that went round them would enter the network behind the back of the first."""
        self.has_been_up = False
        """Whether there was a session in this life."""
        self.lives: dict[NodeId, Incarnation] = {}
        """The last life of each broker that there was a session with."""
        self._dialing: dict[NodeId, None] = {}
        self._dialed: dict[NodeId, Micros | None] = {}  # my own sessions, and since when one is unneeded
        self._timing = timing
        self._rng = rng
        self._out = out
        self._ping_at: Micros | None = None

    # -- what happened -------------------------------------------------------------------------------

    def opened(self, identity: Identity, dialed: bool, now: Micros) -> None:
        """The driver reports a new session."""
        peer = identity.node
        assert peer not in self.up, "the driver reports the old session down first"
        failed = self.failed.pop(peer, None)
        self.up[peer] = Session(identity, now, was_down=failed is not None, redial=failed)
        self.refused.pop(peer, None)
        self.has_been_up = True
        if not identity.is_leaf:
            self.lives[peer] = identity.incarnation
        self._dialing.pop(peer, None)
        if dialed:
            self._dialed[peer] = None
        if self._ping_at is None:
            self._ping_at = now + self._timing.ping_every

    def lost(self, peer: NodeId, now: Micros) -> None:
        """The session broke or the peer closed it: dial again soon, and bypass the peer meanwhile."""
        session = self.up.pop(peer, None)
        if session is None:
            return
        self._dialed.pop(peer, None)
        if session.has_been_heard or session.redial is None:
            self.failed[peer] = Redial(now, self._timing.redial_first)
        else:
            self.failed[peer] = self._redial(session.redial, now)

    def dial_failed(self, peer: NodeId, now: Micros) -> None:
        """An attempt found nobody; the next pause is twice as long, and a little random."""
        if self._dialing.pop(peer, 0) == 0 or peer in self.up:
            return
        self.refused.pop(peer, None)
        self.failed[peer] = self._redial(self.failed.get(peer), now)

    def dial_refused(self, peer: NodeId, now: Micros) -> None:
        """The peer has a live session with another node of this node's name: ask again after a pause."""
        if self._dialing.pop(peer, 0) == 0 or peer in self.up:
            return
        if peer in self.failed:  # it is gone round already
            self.failed[peer] = self._redial(self.failed[peer], now)
        else:
            self.refused[peer] = self._redial(self.refused.get(peer), now)

    def _redial(self, last: Redial | None, now: Micros) -> Redial:
        pause = last.pause if last is not None else self._timing.redial_first
        jitter = self._rng.randrange(pause // 4 + 1)
        return Redial(now + pause + jitter, min(2 * pause, self._timing.redial_most))

    def close(self, peer: NodeId, reason: str, now: Micros) -> None:
        """End the session from this side because the peer is believed to have failed."""
        self._out.append(Disconnect(peer, reason))
        self.lost(peer, now)

    # -- what to do ----------------------------------------------------------------------------------

    def want(
        self,
        wanted: Collection[NodeId],
        needed: Collection[NodeId],
        now: Micros,
        via: Mapping[NodeId, tuple[NodeId, ...]] = MappingProxyType({}),
    ) -> None:
        """Dial the wanted peers when it is time, forget failed ones that nobody wants any more, and
        note since when a session that this node dialed is needed no longer.

        A session belongs to the node that dialed it; only that node retires it.
        """
        for waiting in (self.failed, self.refused):
            for peer in [peer for peer in waiting if peer not in wanted]:
                del waiting[peer]
        for peer in wanted:
            redial = self.failed.get(peer) or self.refused.get(peer)
            if peer not in self._dialing and peer not in self.up and (redial is None or redial.at <= now):
                self._dialing[peer] = None
                self._out.append(Connect(peer, via.get(peer, ())))
        for peer, unneeded_since in self._dialed.items():
            if peer in needed:
                self._dialed[peer] = None
            elif unneeded_since is None:
                self._dialed[peer] = now

    def retire(self, now: Micros) -> list[NodeId]:
        """Close the sessions that were unneeded for a while (003: CloseConnection, X-D3-23)."""
        timeout = self._timing.retire_after
        old = [peer for peer, since in self._dialed.items() if since is not None and since + timeout <= now]
        for peer in old:
            self._out.append(Disconnect(peer, RETIRED))
            del self.up[peer], self._dialed[peer]
        return old

    def ping(self, now: Micros) -> list[NodeId]:
        """Give a sign of life to every peer when it is time; return those that were silent too long."""
        if self._ping_at is None or now < self._ping_at:
            return []
        self._ping_at = now + self._timing.ping_every if self.up else None
        silent = [
            peer for peer, session in self.up.items() if now - session.heard_at >= self._timing.suspect_after
        ]
        self._out += [Send(peer, Ping()) for peer in self.up if peer not in silent]
        return silent

    def wake_at(self) -> Micros | None:
        """The earliest moment at which something is due."""
        waiting = (*self.failed.items(), *self.refused.items())
        moments = [redial.at for peer, redial in waiting if peer not in self._dialing]
        moments += [since + self._timing.retire_after for since in self._dialed.values() if since is not None]
        if self._ping_at is not None:
            moments.append(self._ping_at)
        return min(moments, default=None)
