"""How long, and for how much, a broker answers for a target that cannot be reached (X-P0-17, P0-74).

Publications for a client that is away, or for what lies behind a barrier, stay in custody. That must end some
time: a client that is silent for longer than its *lease*, or for which more is waiting than the *bound*, is
given up. The lease runs at the client's own broker and, while that is down, at those who stand next to it, if
nobody is behind it: then its clients have no one else to attach to. The subscriptions of a client that is
given up are ended in the whole network and its publications confirmed without it. When it returns it is told
so, subscribes anew, and its application gets a ``Reset``: a gap, but not a silent one.
"""

from __future__ import annotations

from collections.abc import Iterable

from gapless.core.limits import Limits
from gapless.core.model import Micros, NodeId


class Patience:
    """The clients of one broker that are away, and since when."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.wake_at: Micros | None = None
        self._away: dict[NodeId, Micros] = {}

    def away(self, clients: Iterable[NodeId], now: Micros) -> None:
        """These clients have subscriptions and no session here; the others are back, or gone."""
        self._away = {client: self._away.get(client, now) for client in clients}

    def exhausted(self, now: Micros) -> list[NodeId]:
        """The clients whose lease has ended."""
        gone = [client for client, since in self._away.items() if since + self.limits.lease <= now]
        for client in gone:
            del self._away[client]
        return gone

    def plan(self, now: Micros, *, something_waits: bool) -> None:
        """Note when to look again: soon while something waits for nobody, else when a lease ends."""
        moments = [since + self.limits.lease for since in self._away.values()]
        if something_waits:
            moments.append(now + self.limits.look_every)
        soonest = min(moments, default=None)
        if self.wake_at is None or soonest is None or self.wake_at <= now or soonest < self.wake_at:
            self.wake_at = soonest
