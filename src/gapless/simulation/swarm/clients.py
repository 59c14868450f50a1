"""What clients do in a swarm: connect, subscribe and publish at any moment, and hand a publisher on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gapless.core.broker import Broker
from gapless.core.effects import Record, publisher_of
from gapless.core.leaf import Leaf
from gapless.core.model import NodeId
from gapless.simulation import workload
from gapless.simulation.host import SimulatedHost
from gapless.simulation.swarm.stage import Stage
from gapless.simulation.swarm.watching import Watch

MOST_CLIENTS = 9
MOST_SUBSCRIPTIONS = 6
KINDS = ("x", "y", "z")
DESK = "desk"
"""The named publisher, which clients hand on to each other."""
PEN = "pen"
"""The name that several clients publish under, each with a store of its own."""


class Crowd:
    """The clients of a run."""

    def __init__(self, stage: Stage, watch: Watch) -> None:
        self.stage = stage
        self._watch = watch
        self._subscriptions: dict[NodeId, int] = {}
        self._open: dict[NodeId, list[str]] = {}
        self._desk_store: list[Record] = []
        self.desk_owner: NodeId | None = None
        self._pens: dict[NodeId, None] = {}
        """The clients that publish under the shared name."""
        for _ in range(stage.features.clients):
            self.connect(stage)

    # -- acts ------------------------------------------------------------------------------------------

    def connect(self, stage: Stage) -> bool:
        """A client comes for the first time; often to one of the newest brokers, whatever its state."""
        world, rng = stage.world, stage.rng
        homes = self._homes()
        if len(world.homes) >= MOST_CLIENTS or not homes:
            return False
        name = f"c{len(world.homes)}"
        home = homes[-1] if rng.random() < 0.4 else rng.choice(homes)
        world.clock_offset[name] = len(world.homes)  # no two clocks agree to the microsecond
        self._moves_in(world.add_client(name, home))
        if rng.random() < 0.5:
            self._subscribe(name)
        return True

    def _moves_in(self, host: SimulatedHost) -> None:
        host.make = self._without_the_desk(host.make)
        host.on_restart = lambda: self._begin_again(host.name)
        self._watch.looks_at(host)

    def double(self, stage: Stage) -> bool:
        """Somebody starts a second client of a name, at the same broker or another. It takes the name over,
        or waits until that is free and gives up after a while (``Stage.end_second``)."""
        world, rng = stage.world, stage.rng
        names = [
            each for each in stage.clients() if each not in world.twins and f"{each}'" not in world.hosts
        ]
        if not names:
            return False
        first, take_over = rng.choice(names), rng.random() < 0.6
        homes = self._homes()
        same = [each for each in homes if each == world.home(first)]  # more often than any other
        if not homes:
            return False
        world.clock_offset[f"{first}'"] = len(world.homes)
        home = rng.choice([*same, *homes])
        host = world.add_client_twin(first, home=home, take_over=take_over)
        self._moves_in(host)
        self._subscribe(host.name)
        if take_over:
            stage.ended[first] = None  # whatever it is told, and when
        stage.passing[host.name] = None
        world.at(world.now + 2 * stage.span(), stage.end_second, host.name)
        return True

    def subscribe(self, stage: Stage) -> bool:
        """Some client subscribes."""
        clients = [each for each in stage.clients() if len(self._open.get(each, ())) < MOST_SUBSCRIPTIONS]
        if not clients:
            return False
        self._subscribe(stage.rng.choice(clients))
        return True

    def unsubscribe(self, stage: Stage) -> bool:
        """Some client ends a subscription."""
        clients = [each for each in stage.clients() if self._open.get(each)]
        if not clients:
            return False
        client = stage.rng.choice(clients)
        names = self._open[client]
        stage.world.unsubscribe(client, names.pop(stage.rng.randrange(len(names))))
        return True

    def publish(self, stage: Stage) -> bool:
        """Some client publishes an event, or each of them does."""
        clients = stage.clients()
        if not clients:
            return False
        for client in clients if stage.rng.random() < 0.5 else [stage.rng.choice(clients)]:
            self._publish(client)
        return True

    def burst(self, stage: Stage) -> bool:
        """Some client publishes many events in a row."""
        clients = stage.clients()
        if not clients:
            return False
        client = stage.rng.choice(clients)
        for _ in range(stage.rng.choice((3, 10, 25))):
            self._publish(client)
        return True

    def last_words(self) -> None:
        """Everybody publishes once more: whatever is missing before that is a gap."""
        for client in self.stage.clients():
            for topic in self.stage.features.topics:
                self.stage.world.publish(client, client, topic.name, self._event("x"))

    # -- helpers ---------------------------------------------------------------------------------------

    def _homes(self) -> list[NodeId]:
        """The brokers that a client may come to: not one that is to be removed, for who knows nobody else
        would not hear who has its place."""
        stage = self.stage
        return [each for each in stage.world.brokers() if each not in stage.leaving | stage.doomed]

    def _event(self, kind: str | None = None) -> dict[str, Any]:
        rng = self.stage.rng
        if self.stage.features.simple:
            return {"kind": kind or rng.choice(KINDS)}
        return {**workload.attributes(rng), "kind": kind or rng.choice(KINDS)}

    def _selector(self) -> str:
        rng = self.stage.rng
        if self.stage.features.simple or rng.random() < 0.3:
            return rng.choice(("", "", *(f"kind = '{each}'" for each in KINDS)))
        return workload.selector(rng)

    def _subscribe(self, client: NodeId) -> None:
        number = self._subscriptions[client] = self._subscriptions.get(client, 0) + 1
        name = f"{client}/{number}"
        self._open.setdefault(client, []).append(name)
        topic = self.stage.rng.choice(self.stage.features.topics)
        self.stage.world.subscribe(client, name, topic.name, self._selector())

    def _begin_again(self, client: NodeId) -> None:
        """A client that crashed has lost its subscriptions; it makes one anew."""
        self._open.pop(client, None)
        self._subscribe(client)
        if self.desk_owner == client:
            self._take_desk(client)

    def _publish(self, client: NodeId) -> None:
        stage = self.stage
        publisher = client
        if client == self.desk_owner and stage.rng.random() < 0.7:
            publisher = DESK
        elif client in self._pens and stage.rng.random() < 0.7:
            publisher = PEN
        topic = stage.rng.choice(stage.features.topics).name
        if stage.world.recorder.unconfirmed(client, publisher, topic) < stage.features.window:
            stage.world.publish(client, publisher, topic, self._event())

    def share_a_name(self, stage: Stage) -> bool:
        """A client publishes under the name that another one may use too; who did so before is told, and
        stops. More than two at a time do not: two that give way to a third would begin alike."""
        told = [client for client, publisher in stage.world.recorder.fenced if publisher == PEN]
        for each in told:
            self._pens.pop(each, None)
        clients = [each for each in stage.clients() if each not in self._pens and each not in told]
        if not clients or len(self._pens) > 1:
            return False
        client = stage.rng.choice(clients)
        self._pens[client] = None
        for each in self._pens:
            if stage.world.hosts[each].is_up:
                self._publish(each)
        return True

    # -- the named publisher -----------------------------------------------------------------------------

    def adopt(self, stage: Stage) -> bool:
        """The client of the named publisher dies, and another one goes on with it."""
        world, rng, old = stage.world, stage.rng, self.desk_owner
        others = [each for each in stage.clients() if each != old]
        if not others:
            return False
        if old is not None and world.hosts[old].is_up:
            world.crash(old, silently=rng.random() < 0.5)
            stage.crashed(old)
        self._take_desk(rng.choice(others))
        return True

    def _take_desk(self, client: NodeId) -> None:
        """Its store is handed on: what its clients have made durable for it, one after the other."""
        self.desk_owner = client
        self.stage.keeps_its_store = {client: None}
        for each in self.stage.world.homes:
            host = self.stage.world.hosts[each]
            self._desk_store += [record for record in host.store if publisher_of(record) == DESK]
            host.store[:] = [record for record in host.store if publisher_of(record) != DESK]
        self.stage.world.adopt(client, DESK, list(self._desk_store))

    def _without_the_desk(
        self, make: Callable[[list[Record]], Broker | Leaf]
    ) -> Callable[[list[Record]], Broker | Leaf]:
        return lambda stored: make([each for each in stored if publisher_of(each) != DESK])
