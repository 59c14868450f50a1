"""A seeded world: virtual time, nodes with stores, a network, and a trace of what clients see.

The world drives the same state machines as the server does. One seed decides everything; no clock, no thread,
no order of a set has any influence, so the same seed gives the same trace on every machine.

The trace has what clients asked for and saw, at the moment when their node handled it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from random import Random
from typing import Any

from gapless.core.broker import Broker
from gapless.core.effects import (
    BrokerRemoved,
    JoinedAt,
    LinkAdded,
    NetworkBound,
    Record,
    RemovalAnswered,
)
from gapless.core.events import (
    CreateTopicRequested,
    DeleteTopicRequested,
    LeaveRequested,
    PublisherAdopted,
    PublishRequested,
    RemoveRequested,
    SubscribeRequested,
    UnsubscribeRequested,
)
from gapless.core.leaf import Leaf
from gapless.core.limits import Limits
from gapless.core.messages.overlay import NodeState, Removal
from gapless.core.model import (
    MILLISECOND,
    SECOND,
    Link,
    Micros,
    NodeId,
    SubscriptionId,
    Topic,
    link,
)
from gapless.core.node import NodeConfig
from gapless.core.overlay.sessions import Timing
from gapless.simulation import trace
from gapless.simulation.host import Aim, SimulatedHost
from gapless.simulation.network import Latency, Network
from gapless.simulation.partitioned import adjacent
from gapless.simulation.recording import Recorder
from gapless.simulation.trees import neighbourhood, parents_in

NETWORK = "simulated"
"""The id of a network whose brokers have joined in an earlier life."""


class World:
    """Everything of one run."""

    def __init__(
        self,
        *,
        seed: int = 0,
        delta: int = 1,
        latency: Latency | None = None,
        timing: Timing | None = None,
        topics: Mapping[str, Topic] | None = None,
        limits: Limits | None = None,
    ) -> None:
        self.seed = seed
        self.delta = delta
        self.now: Micros = 0
        self.timing = timing or Timing()
        self.limits = limits or Limits()
        self.topics = dict(topics or {})
        self.hosts: dict[NodeId, SimulatedHost] = {}
        self.homes: dict[NodeId, NodeId] = {}
        self.clock_offset: dict[NodeId, Micros] = {}
        """How far the clock of a node is off; it changes only while the node is down."""
        self.founder: NodeId | None = None
        self.departed: dict[NodeId, None] = {}
        """Brokers that have left the network for good."""
        self.taken: dict[NodeId, str] = {}
        """Clients whose names were taken by others, and what they were told."""
        self.given_up_by: dict[SubscriptionId, NodeId] = {}
        """By subscription the broker that gave it up: the first one to note it."""
        self.twins: dict[NodeId, NodeId] = {}
        """Machines that run a second node of a name."""
        self.foreign: dict[NodeId, None] = {}
        """Brokers of other networks."""
        self.refused: list[tuple[NodeId, str]] = []
        """Brokers that were asked to leave and could not, and why."""
        self.removals: dict[NodeId, str] = {}
        """Brokers that were to be removed, and what was answered last: why not, or nothing if they are."""
        self.trace = trace.Trace()
        self.recorder = Recorder(self)
        self.network = Network(self, self.hosts, latency or Latency(), self.random("network"))  # type: ignore[arg-type]
        self.aim: Aim | None = None
        self._centres: dict[NodeId, NodeId] = {}
        self._agenda: list[tuple[Micros, int, Callable[[Any], None], Any]] = []
        self._count = 0
        self._by_clock: dict[NodeId, None] = {}
        """Clients whose next incarnations begin at their clock's reading, as those of live clients do: who
        lost its store, or shares its name, must not begin where somebody was already."""

    def random(self, purpose: str) -> Random:
        """A generator of its own for each purpose, so that one more draw here changes nothing there."""
        return Random(f"{self.seed}/{purpose}")

    # -- building --------------------------------------------------------------------------------------

    def add_broker(
        self, name: NodeId, *, join: tuple[NodeId, ...] = (), records: list[Record] | None = None
    ) -> SimulatedHost:
        """A broker that joins through others, or one that finds its neighbourhood in its store; the first
        broker of a world without either founds the network."""
        if not (join or records or self.founder):
            self.founder = name
        make = self._broker_maker(name, join, founder=name == self.founder)
        host = self.hosts[name] = SimulatedHost(self, name, make, store=records or [])
        if records:
            self.recorder.members.add(name)
        host.start()
        return host

    def _broker_maker(
        self, name: NodeId, join: tuple[NodeId, ...], *, founder: bool = False, least_incarnation: int = 1
    ) -> Callable[[list[Record]], Broker]:
        config = NodeConfig(
            node=name,
            delta=self.delta,
            join_points=join,
            founder=founder,
            least_incarnation=least_incarnation,
            timing=self.timing,
            limits=self.limits,
        )
        return lambda stored: Broker(config, stored, rng=self.random(f"broker {name}"))

    def add_tree(self, links: list[Link]) -> None:
        """Brokers that have joined in an earlier life: each starts with its neighbourhood in its store."""
        names = sorted({name for each in links for name in each})
        neighbourhoods = {name: neighbourhood(name, links, self.delta) for name in names}
        parents = parents_in(links)
        for name in names:
            links_near = [LinkAdded(each) for each in neighbourhoods[name]]
            joined = [JoinedAt(parents[name])] if name in parents else []
            self.add_broker(name, records=[NetworkBound(NETWORK), *links_near, *joined])

    def add_client(self, name: NodeId, home: NodeId) -> SimulatedHost:
        """A client of the home broker."""
        return self._add_client(name, NodeConfig(node=name, delta=self.delta, home=home))

    def _add_client(self, machine: NodeId, config: NodeConfig) -> SimulatedHost:
        config = replace(config, timing=self.timing, limits=self.limits)
        assert config.home is not None

        def make(stored: list[Record]) -> Leaf:
            least = self.hosts[machine].now if machine in self._by_clock else config.least_incarnation
            begun = replace(config, least_incarnation=least)
            return Leaf(begun, stored, topics=self.topics, rng=self.random(f"client {machine}"))

        host = self.hosts[machine] = SimulatedHost(self, machine, make, is_client=True)
        self.homes[machine] = config.home
        host.start()
        return host

    def add_twin(self, name: NodeId, *, join: tuple[NodeId, ...] = (), copied: bool = False) -> SimulatedHost:
        """A second broker of a name that is in use, on a machine of its own (the name with an apostrophe);
        ``copied``: with a copy of the first one's store. Others find only the first one by its name."""
        machine = f"{name}'"
        self.twins[machine] = name
        make = self._broker_maker(name, join, least_incarnation=self.now + 1)
        store = list(self.hosts[name].store) if copied else []
        host = self.hosts[machine] = SimulatedHost(self, machine, make, store=store)
        host.start()
        return host

    def add_client_twin(
        self, name: NodeId, *, home: NodeId | None = None, take_over: bool = False
    ) -> SimulatedHost:
        """A second client of a name that is in use, at the same home or another one."""
        machine = f"{name}'"
        self.twins[machine] = name
        self._by_clock[name] = None
        return self._add_client(
            machine,
            NodeConfig(
                node=name,
                delta=self.delta,
                home=home or self.home(name),
                least_incarnation=self.now + 1,
                take_over=take_over,
            ),
        )

    def home(self, client: NodeId) -> NodeId:
        """The home of a client: the one that it was given, or who has the place of that broker since, as far
        as the client has heard."""
        node = self.hosts[client].node
        return (node.identity.home if node is not None else None) or self.homes[client]

    def heir(self, broker: NodeId) -> NodeId:
        """Who has the place of a broker by removals, whoever has heard of them."""
        for _ in self._centres:
            broker = self._centres.get(broker, broker)
        return broker

    def add_foreign_broker(self, name: NodeId, near: NodeId) -> SimulatedHost:
        """A broker with the store of another network, which had a broker of that name too."""
        self.foreign[name] = None
        return self.add_broker(name, records=[NetworkBound(f"not {NETWORK}"), LinkAdded(link(near, name))])

    def leaf(self, name: NodeId) -> Leaf:
        """The running client of that name."""
        node = self.hosts[name].node
        assert isinstance(node, Leaf), f"{name} is no running client"
        return node

    def broker(self, name: NodeId) -> Broker:
        """The running broker of that name."""
        node = self.hosts[name].node
        assert isinstance(node, Broker), f"{name} is no running broker"
        return node

    def brokers(self) -> list[NodeId]:
        """The names of all brokers of the network, running or not."""
        others = (self.homes, self.departed, self.twins, self.foreign)
        return [name for name in self.hosts if not any(name in each for each in others)]

    def leave(self, name: NodeId) -> None:
        """Ask a broker to leave the network for good."""
        self.hosts[name].receive(LeaveRequested())

    def has_left(self, name: NodeId) -> None:
        """The broker has left, or heard that it was removed: its machine is switched off."""
        self.departed[name] = None
        self.removals[name] = ""
        self.hosts[name].crash()

    def name_taken(self, name: NodeId, reason: str) -> None:
        """Another client has this one's name: its process ends."""
        self.taken[name] = reason
        self.crash(name)

    def centre(self, name: NodeId) -> NodeId | None:
        """Who is to have the place of a broker when it is removed: of its neighbours that with the smallest
        name, as the neighbours themselves have it in their stores; nobody if it has none."""
        return min(adjacent(self).get(name, ()), default=None)

    def remove(self, name: NodeId) -> None:
        """Ask for the removal of a broker that is gone for good; ``removals`` has the answer when it comes.

        Like an operator, it asks the broker that is to have the place, or that has it already: if that does
        not run, nobody answers.
        """
        self.removals.pop(name, None)
        centre = self.centre(name) or self._centres.get(name)
        if centre is not None:
            self.hosts[centre].receive(RemoveRequested(name))

    def removal_decided(self, removal: Removal) -> None:
        """The centre has made a removal durable: from now on the broker is no member of the network."""
        self._centres[removal.node] = removal.centre
        if not self.hosts[removal.node].is_up:
            self.departed[removal.node] = None

    def removed(self) -> list[NodeId]:
        """The brokers that were removed, as two brokers know at least."""
        return [name for name in self._centres if self.removals.get(name) == ""]

    def _forget_removals(self) -> None:
        """Removals that no broker has any more have not happened, and must be asked for anew."""
        stores = [host.store for host in self.hosts.values() if not host.is_client]
        known = {each.removal.node for store in stores for each in store if isinstance(each, BrokerRemoved)}
        for node in [node for node in self._centres if node not in known]:
            del self._centres[node]
            self.departed.pop(node, None)

    def removal_answered(self, answer: RemovalAnswered) -> None:
        """Whoever wanted a broker to be removed is told what became of it."""
        self.removals[answer.node] = answer.error
        if not answer.error and not self.hosts[answer.node].is_up:
            self.departed[answer.node] = None

    # -- time ------------------------------------------------------------------------------------------

    def at(self, moment: Micros, call: Callable[[Any], None], argument: Any = None) -> None:
        """Have it called at the moment; what is due at the same moment happens in the order of asking."""
        self._count += 1
        heapq.heappush(self._agenda, (moment, self._count, call, argument))

    def run(self, *, until: Micros) -> None:
        """Let time pass until the moment."""
        agenda = self._agenda
        while agenda and agenda[0][0] <= until:
            moment, _, call, argument = heapq.heappop(agenda)
            self.now = moment
            call(argument)
        self.now = max(self.now, until)

    def run_for(self, span: Micros) -> None:
        """Let some time pass."""
        self.run(until=self.now + span)

    def run_until(self, condition: Callable[[], bool], *, within: Micros = 60 * SECOND) -> None:
        """Let time pass until the condition holds; it must within the span."""
        limit = self.now + within
        while not condition():
            if self.now >= limit:
                raise TimeoutError(f"not within {within / SECOND:g} simulated seconds")
            self.run_for(10 * MILLISECOND)

    def settle(self, *, quiet: Micros = 5 * SECOND, within: Micros = 120 * SECOND) -> bool:
        """Let time pass until only signs of life are sent for a while; False when it never gets quiet.

        The while must be longer than the longest silence of a node that has still something to do: the
        time until a peer is suspected, or the longest pause between two dials and the time one takes.
        """
        limit, began = self.now + within, self.now
        while self.now < limit:
            if self.now - max(self.network.useful_at, began) >= quiet and not self.network.in_flight:
                return True
            self.run_for(quiet // 4)
        return False

    # -- faults ----------------------------------------------------------------------------------------

    def crash(self, name: NodeId, *, silently: bool = False, lossy: bool = False) -> None:
        """Kill a node; ``lossy``: what it has sent and is still under way is lost with its machine."""
        if lossy:
            self.network.lose_in_flight(name)
        self.hosts[name].crash(silently=silently)
        self.record(trace.Crash(t=self.now, node=name))

    def restart(self, name: NodeId) -> None:
        """Start a killed node again, from its store; also one that has left, though that is in vain."""
        self.departed.pop(name, None)
        self.record(trace.Restart(t=self.now, node=name))
        self.network.dark.pop(name, None)
        for key in [key for key in self.recorder.fenced if key[0] == name]:
            del self.recorder.fenced[key]  # it finds out again
        host = self.hosts[name]
        host.start()
        if host.on_restart is not None:
            host.on_restart()

    def lose_store(self, name: NodeId) -> None:
        """A killed client comes back without its store: its publishers count anew, under the same names, and
        its incarnations begin at its clock's reading, as those of clients do."""
        host = self.hosts[name]
        assert not host.is_up, f"{name} runs"
        host.store.clear()
        self._by_clock[name] = None
        self.recorder.sources.lost(name)

    def replace(self, name: NodeId, *, join: tuple[NodeId, ...], clock: Micros | None = None) -> None:
        """Start a killed broker anew without its store: it joins again, in its old place. Incarnations begin
        at its clock's reading, which need not be the world's time."""
        host = self.hosts[name]
        host.store.clear()
        self._forget_removals()
        host.make = self._broker_maker(name, join, least_incarnation=self.now if clock is None else clock)
        self.restart(name)

    def cut(self, a: NodeId, b: NodeId, *, one_way: bool = False) -> None:
        """Cut the link between two nodes, or only its direction from a to b."""
        self.network.cut_link(a, b)
        if not one_way:
            self.network.cut_link(b, a)
        self.record(trace.Cut(t=self.now, nodes=(a, b)))

    def heal(self, a: NodeId, b: NodeId) -> None:
        """Heal both directions of a link."""
        self.network.heal_link(a, b)
        self.network.heal_link(b, a)
        self.record(trace.Heal(t=self.now, nodes=(a, b)))

    def down(self) -> list[NodeId]:
        """The brokers that are crashed or still recovering."""
        return [name for name in self.brokers() if not self._is_operational(name)]

    def _is_operational(self, name: NodeId) -> bool:
        node = self.hosts[name].node
        return node is not None and node.overlay.state is NodeState.OPERATIONAL

    # -- what clients do and see -------------------------------------------------------------------------

    def record(self, entry: trace.Record) -> None:
        """Add a line to the trace."""
        self.trace.append(entry)

    def subscribe(self, client: NodeId, subscription: str, topic: str, selector: str = "") -> None:
        """A client subscribes."""
        self.hosts[client].receive(SubscribeRequested(subscription, topic, selector))

    def unsubscribe(self, client: NodeId, subscription: str) -> None:
        """A client ends a subscription."""
        self.hosts[client].receive(UnsubscribeRequested(subscription))

    def publish(self, client: NodeId, publisher: str, topic: str, attributes: dict[str, Any]) -> None:
        """A client publishes."""
        self.hosts[client].receive(PublishRequested(topic, publisher, [(attributes, b"")]))

    def create_topic(self, client: NodeId, request: int, topic: Topic) -> None:
        """A client declares a topic."""
        self.hosts[client].receive(CreateTopicRequested(request, topic))

    def delete_topic(self, client: NodeId, request: int, name: str) -> None:
        """A client deletes a topic."""
        self.hosts[client].receive(DeleteTopicRequested(request, name))

    def adopt(self, client: NodeId, publisher: str, records: Sequence[Record]) -> None:
        """A client goes on with a publisher of an earlier one."""
        self.recorder.sources.adopted(client, publisher, records)
        self.hosts[client].receive(PublisherAdopted(publisher, tuple(records)))
