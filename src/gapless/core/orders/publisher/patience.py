"""How long, and for how much, a broker answers for a target that cannot be reached (X-P0-17, P0-74).

Publications for a client that is away, or for what lies behind a barrier, stay in custody. That must end some
time: a client that is silent for longer than its *lease*, or for which more is waiting than the *bound*, is
given up. The lease runs at the client's own broker and, while that is down, at those who stand next to it, if
nobody is behind it: then its clients have no one else to attach to. The subscriptions of a client that is
given up are ended in the whole network and its publications confirmed without it. When it returns it is told
so, subscribes anew, and its application gets a ``Reset``: a gap, but not a silent one.

A broker that restarts goes on with the leases of its earlier lives, or a client that is gone would be waited
for as long as its broker fails now and then. It counts only the time in which it ran, so no clock that is set
meanwhile has any influence; and it notes that time in whole *parts* of a lease. So a life costs a lease at
most one part; and since the last part is never noted, a client that has come back while its broker was down
has always a part of a lease to attach.
"""

from __future__ import annotations

from collections.abc import Iterable

from gapless.core.effects import ClientAway, Effect, Persist, Record
from gapless.core.limits import Limits
from gapless.core.model import Micros, NodeId

PARTS = 8
"""How many parts a lease has."""


class Patience:
    """The clients that one broker looks after and that are away, and since when."""

    def __init__(self, limits: Limits, out: list[Effect], records: Iterable[Record] = ()) -> None:
        self.limits = limits
        self.wake_at: Micros | None = None
        self._part = max(1, limits.lease // PARTS)
        self._out = out
        self._away: dict[NodeId, Micros] = {}
        """Since when each is away, as if earlier lives had lain right before this one."""
        self._noted: dict[NodeId, Micros] = {}
        """How much of that is durable."""
        for record in records:
            if isinstance(record, ClientAway):
                self._noted[record.client] = min(record.lasted, limits.lease - self._part)
        self._noted = {client: lasted for client, lasted in self._noted.items() if lasted > 0}

    def away(self, clients: Iterable[NodeId], now: Micros, *, are_all: bool) -> None:
        """These clients have subscriptions and no session here; the others are back, or gone, if this broker
        has been told of all that there are."""
        self._away = {client: self._away.get(client, now - self._noted.get(client, 0)) for client in clients}
        if are_all:
            for client in [each for each in self._noted if each not in self._away]:
                self.back(client)

    def back(self, client: NodeId) -> None:
        """The client need not be waited for: its next lease is a new one."""
        self._away.pop(client, None)
        if self._noted.pop(client, None) is not None:
            self._out.append(Persist(ClientAway(client)))

    def exhausted(self, now: Micros) -> list[NodeId]:
        """The clients whose lease has ended."""
        gone = [client for client, since in self._away.items() if since + self.limits.lease <= now]
        for client in gone:
            self.back(client)
        return gone

    def note(self, now: Micros) -> None:
        """Make durable how much of each lease is over."""
        for client, since in self._away.items():
            lasted = (now - since) // self._part * self._part
            if lasted > self._noted.get(client, 0):
                self._noted[client] = lasted
                self._out.append(Persist(ClientAway(client, lasted)))

    def plan(self, now: Micros, *, something_waits: bool) -> None:
        """Note when to look again: soon while something waits for nobody, else when a part of a lease ends,
        or the lease itself."""
        moments = [
            min(since + self.limits.lease, now + self._part - (now - since) % self._part)
            for since in self._away.values()
        ]
        if something_waits:
            moments.append(now + self.limits.look_every)
        soonest = min(moments, default=None)
        if self.wake_at is None or soonest is None or self.wake_at <= now or soonest < self.wake_at:
            self.wake_at = soonest
