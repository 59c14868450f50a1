"""How long brokers wait for clients that are gone: a lease of their own running time, over all restarts.

Nor are they given up earlier. That is judged while a run goes on, since in the end everybody is back, or all
leases have ended. Of each life of a broker only that counts which must be durable: whole parts of a lease,
and one less, because the last write may have been torn; and nothing once the broker has lost its store.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gapless.core.broker import Broker
from gapless.core.effects import IncarnationStarted, Record, SubscriptionGivenUp
from gapless.core.limits import Limits
from gapless.core.model import Incarnation, Micros, NodeId, OrderName, SubscriptionId
from gapless.core.orders.publisher import PublisherBroker
from gapless.core.orders.publisher.log import made_in
from gapless.core.orders.publisher.patience import PARTS
from gapless.simulation.swarm.stage import Stage


@dataclass(slots=True)
class Absence:
    """A client that is gone, as its broker should see it."""

    last_life: Incarnation
    """Of the client."""
    earlier: Micros = 0
    """How long lives of its broker have waited that are over."""
    life: Incarnation = 0
    """Of the broker, the last one that waited."""
    lasted: Micros = 0
    """How long that has."""


class Leases:
    """Looks now and then at the clients that are down, and at their brokers."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._lease = stage.features.limits.lease
        self._part = max(1, self._lease // PARTS)
        self._absences: dict[NodeId, Absence] = {}
        self._seen_at: dict[NodeId, Micros] = {}
        """When each client had a session with its own broker, at the latest."""
        self._read: dict[NodeId, int] = {}
        """How many of the records of each broker were looked at."""
        self._judged: set[SubscriptionId] = set()
        """Subscriptions that were given up, once each: by who did so."""

    def look_every(self, span: Micros) -> None:
        """Look at them from now on, as long as things may break."""
        stage = self._stage
        if stage.features.limits.custody >= Limits().custody:  # else it may be because too much waits
            self._look_for_the_given_up()
        for client in stage.world.homes:
            if not self._is_waited_for(client, span):
                self._absences.pop(client, None)
            if client in stage.world.hosts[stage.world.homes[client]].connections:
                self._seen_at[client] = stage.world.now
        if stage.is_open:
            stage.world.at(stage.world.now + span, self.look_every, span)

    def _is_waited_for(self, client: NodeId, span: Micros) -> bool:
        """Note that a client was gone, and waited for, for a span more; or that it is not."""
        world = self._stage.world
        host, home = world.hosts[client], world.hosts[world.homes[client]]
        if host.is_up or self._has_twin(client) or home.name in world.departed:
            return False
        last_life = max(_lives(host.store))
        absence = self._absences.setdefault(client, Absence(last_life))
        if absence.last_life != last_life:
            return False
        if not isinstance(home.node, Broker):
            return True
        order = home.node.orders[OrderName.PUBLISHER]
        assert isinstance(order, PublisherBroker)
        if not order.settled:
            return True
        if client in order.peers or client not in order.subscriptions.own_clients():
            return False
        if absence.life not in _lives(home.store):
            absence.earlier = absence.lasted = 0  # with its store the broker has lost what it had noted
        self._note(absence, home.node.identity.incarnation, span)
        return True

    def _look_for_the_given_up(self) -> None:
        """A broker has given up a client of its own: it was away for a lease. Whoever hears later that a
        subscription was given up notes it too, although its client may be back by then."""
        world, by = self._stage.world, self._stage.world.given_up_by
        for name in world.brokers():
            store = world.hosts[name].store
            new, self._read[name] = store[self._read.get(name, 0) :], len(store)
            for each in [each for each in new if isinstance(each, SubscriptionGivenUp)]:
                if each.subscription in self._judged or by.get(each.subscription, name) != name:
                    continue
                self._judged.add(each.subscription)
                is_recent = world.now - self._seen_at.get(each.client, 0) < self._lease
                if world.homes[each.client] == name and is_recent and not self._is_denied(each):
                    self._stage.trouble["given up too early"] += 1

    def _is_denied(self, given_up: SubscriptionGivenUp) -> bool:
        """Whether another client of the name may have ended it, or a life of the client whose clock is set
        back. (Who has adopted a publisher has noted a life that it has not had yet.)"""
        host = self._stage.world.hosts[given_up.client]
        life = host.node.overlay.identity.incarnation if host.node else max(_lives(host.store), default=0)
        return self._has_twin(given_up.client) or life < made_in(given_up.subscription)

    def _has_twin(self, client: NodeId) -> bool:
        """Whether there was a second client of the name: each ends what the other has."""
        twins = self._stage.world.twins
        return client in twins or client in twins.values()

    def _note(self, absence: Absence, life: Incarnation, span: Micros) -> None:
        if absence.life == life:
            absence.lasted += span
        else:
            absence.earlier += max(0, absence.lasted // self._part - 1) * self._part
            absence.life, absence.lasted = life, 0
        if absence.earlier + absence.lasted > self._lease + self._part:
            self._stage.trouble["waited for longer than a lease"] += 1


def _lives(store: Iterable[Record]) -> list[Incarnation]:
    return [each.incarnation for each in store if isinstance(each, IncarnationStarted)]
