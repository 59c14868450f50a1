"""What the tests of the overlay and of the simulator share: worlds, and answers computed from definitions.

The answers here come from breadth-first searches over the whole tree. They use nothing of what is tested.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

from gapless.core.broker import Broker
from gapless.core.effects import Record, Send
from gapless.core.events import ConnectFailed, Input, MessageReceived, SessionDown
from gapless.core.leaf import Leaf
from gapless.core.messages import Message, Publications
from gapless.core.messages.publisher import Run
from gapless.core.model import (
    MILLISECOND,
    SECOND,
    BeyondDelta,
    Generation,
    Identity,
    Link,
    Micros,
    NodeId,
    OrderName,
    SubscriptionId,
    Topic,
    link,
)
from gapless.core.orders.publisher import PublisherBroker, PublisherLeaf
from gapless.core.overlay.joining import JoinState
from gapless.simulation import trace
from gapless.simulation.checkers import check
from gapless.simulation.host import SimulatedHost
from gapless.simulation.network import Connection, Dial, Latency, Network
from gapless.simulation.world import World
from publications import Publication, publications, singles

Tree = dict[NodeId, list[NodeId]]
"""A whole primary tree: each node with its neighbours."""

BYPASSED: Micros = 4 * SECOND
"""Enough for the failure detector, the dials around up to δ failures, and the retirement of old sessions."""

RECOVERED: Micros = 6 * SECOND
"""Enough for the longest pause between two dials, and all that follows when one succeeds."""


# -- trees, by definition ----------------------------------------------------------------------------------


def tree_of(links: Iterable[Link]) -> Tree:
    """The tree that the links make."""
    tree: Tree = {}
    for a, b in links:
        tree.setdefault(a, []).append(b)
        tree.setdefault(b, []).append(a)
    return tree


def chain(*names: NodeId) -> list[Link]:
    """The links of a chain of nodes."""
    return [link(a, b) for a, b in pairwise(names)]


def is_tree(links: Collection[Link], nodes: Collection[NodeId]) -> bool:
    """Whether the links connect exactly the nodes without a cycle."""
    if len(nodes) == 1:
        return not links
    tree = tree_of(links)
    reached = paths_from(tree, next(iter(nodes)), len(nodes)) if tree else {}
    return len(set(links)) == len(nodes) - 1 and set(reached) == set(nodes)


def paths_from(tree: Tree, start: NodeId, radius: int) -> dict[NodeId, tuple[NodeId, ...]]:
    """The path from the start to each node within the radius, both ends included."""
    paths: dict[NodeId, tuple[NodeId, ...]] = {start: (start,)}
    layer = [start]
    for _ in range(radius):
        following = []
        for node in layer:
            for neighbour in tree.get(node, ()):
                if neighbour not in paths:
                    paths[neighbour] = (*paths[node], neighbour)
                    following.append(neighbour)
        layer = following
    return paths


def equation_1(tree: Tree, node: NodeId, delta: int) -> set[Link]:
    """003, equation 1: the links whose two ends lie within δ+1 of the node."""
    near = paths_from(tree, node, delta + 1)
    return {link(a, b) for a in near for b in tree.get(a, ()) if b in near}


def active_by_definition(
    tree: Tree, node: NodeId, delta: int, established: Collection[NodeId]
) -> set[NodeId]:
    """000, II: the established nodes within δ+1 with no established one strictly inside the path to them."""
    return {
        peer
        for peer, path in paths_from(tree, node, delta + 1).items()
        if peer != node and peer in established and not any(inner in established for inner in path[1:-1])
    }


# -- worlds ------------------------------------------------------------------------------------------------


def start_chain(*names: NodeId, delta: int = 1, seed: int = 0, **world: Any) -> World:
    """A running chain of brokers that have joined in an earlier life."""
    return start_tree(chain(*names), delta=delta, seed=seed, **world)


def start_tree(links: list[Link], *, delta: int = 1, seed: int = 0, **world: Any) -> World:
    """A running tree of brokers that have joined in an earlier life."""
    made = World(seed=seed, delta=delta, **world)
    made.add_tree(links)
    made.run_for(SECOND)
    return made


def join_one_by_one(world: World, links: Sequence[Link], root: NodeId) -> None:
    """Real joins over the links, parents first, the next as soon as the last is complete."""
    world.add_broker(root)
    for name, path in paths_from(tree_of(links), root, len(links)).items():
        if name != root:
            world.add_broker(name, join=(path[-2],))
            world.run_until(lambda name=name: world.broker(name).overlay.is_joined)  # type: ignore[misc]


def join_at(world: World, moment: Micros, name: NodeId, *points: NodeId) -> None:
    """Have a broker join through others at a moment to come."""

    def join(_: None) -> None:
        world.add_broker(name, join=points)

    world.at(moment, join)


def live(world: World) -> list[NodeId]:
    """The brokers that run."""
    return [name for name in world.brokers() if world.hosts[name].is_up]


def all_joined(world: World) -> bool:
    """Whether every broker runs and is a member."""
    return all(world.hosts[name].is_up and world.broker(name).overlay.is_joined for name in world.brokers())


def own_links(world: World) -> set[Link]:
    """The primary tree as its members see it: what each says of its own links."""
    return {
        link(name, neighbour)
        for name in live(world)
        for neighbour in world.broker(name).overlay.topology.neighbours()
    }


def active(world: World, name: NodeId) -> list[NodeId]:
    """The active sessions of a broker."""
    return world.broker(name).overlay.frontier.active


def established(world: World, name: NodeId) -> set[NodeId]:
    """The established sessions of a broker."""
    return set(world.broker(name).overlay.sessions.up)


def assert_equation_1(world: World, links: Iterable[Link] | None = None) -> None:
    """Every running broker knows exactly the links of its neighbourhood, all of them valid."""
    realised = own_links(world) if links is None else set(links)
    assert links is not None or is_tree(realised, world.brokers())
    tree = tree_of(realised)
    for name in live(world):
        topology = world.broker(name).overlay.topology
        assert set(topology.links(marked=False)) == equation_1(tree, name, world.delta), name
        assert topology.links(marked=True) == [], name


def assert_bypass(world: World, links: Iterable[Link]) -> None:
    """Every running broker's active sessions are those to the nearest running brokers around it."""
    tree, up = tree_of(links), set(live(world))
    for name in up:
        found = active(world, name)
        assert len(found) == len(set(found))
        assert set(found) == active_by_definition(tree, name, world.delta, up), name


def assert_primary_only(world: World, links: Iterable[Link]) -> None:
    """Nobody has a session that is not a primary link, and each primary link has one."""
    tree = tree_of(links)
    for name in live(world):
        assert established(world, name) == set(tree.get(name, ())), name


def joined_at(world: World, name: NodeId) -> JoinState:
    """Where a broker stands on its way into the tree."""
    return world.broker(name).overlay.joining.state


class Messages:
    """A tap on the network that keeps what was sent, with the moment."""

    def __init__(self, world: World) -> None:
        self.sent: list[tuple[Micros, NodeId, NodeId, Message]] = []
        self._world = world
        world.network.tap = self._tap

    def _tap(self, source: NodeId, target: NodeId, message: Message) -> None:
        self.sent.append((self._world.now, source, target, message))

    def of(self, *kinds: type) -> list[tuple[NodeId, NodeId, Any]]:
        """The messages of these classes: source, target, message."""
        return [(source, target, each) for _, source, target, each in self.sent if isinstance(each, kinds)]


# -- the network alone -------------------------------------------------------------------------------------


class Agenda:
    """Virtual time for a network without a world."""

    def __init__(self) -> None:
        self.now: Micros = 0
        self._count = 0
        self._due: list[tuple[Micros, int, Callable[[Any], None], Any]] = []

    def at(self, moment: Micros, call: Callable[[Any], None], argument: Any) -> None:
        """Call back at the moment."""
        self._count += 1
        heapq.heappush(self._due, (moment, self._count, call, argument))

    def run_for(self, span: Micros) -> None:
        """Let some time pass."""
        until = self.now + span
        while self._due and self._due[0][0] <= until:
            self.now, _, call, argument = heapq.heappop(self._due)
            call(argument)
        self.now = until


@dataclass(slots=True, eq=False)
class RecordingHost:
    """A node that only writes down what the driver tells it."""

    name: NodeId
    incarnation: int = 1
    network: str = ""
    is_up: bool = True
    connections: dict[NodeId, Connection] = field(default_factory=dict)
    dials: dict[NodeId, Dial] = field(default_factory=dict)
    inputs: list[Input] = field(default_factory=list)
    on_input: Callable[[Input], object] | None = None

    @property
    def identity(self) -> Identity:
        """What the node says of itself."""
        return Identity(self.name, self.incarnation, network=self.network)

    def knows(self, broker: NodeId) -> bool:
        """Whether the node knows where that broker is."""
        return False

    def receive(self, each: Input, connection: Connection | None = None) -> None:
        """Write it down."""
        if self.is_up:
            self.inputs.append(each)
            if self.on_input is not None:
                self.on_input(each)

    def keep_dialing(self, wire: Wire) -> None:
        """Dial whoever is gone, at once."""

        def again(each: Input) -> None:
            if isinstance(each, SessionDown | ConnectFailed):
                wire.network.dial(self.name, each.peer)

        self.on_input = again

    def messages(self) -> list[Message]:
        """The messages among the inputs."""
        return [each.message for each in self.inputs if isinstance(each, MessageReceived)]


class Wire:
    """A network of recording hosts."""

    def __init__(self, *names: NodeId, seed: int = 0, latency: Latency | None = None) -> None:
        self.clock = Agenda()
        self.hosts = {name: RecordingHost(name) for name in names}
        self.network = Network(
            self.clock,
            self.hosts,  # type: ignore[arg-type]
            latency or Latency(),
            Random(seed),
        )

    def connect(self, dialer: NodeId, target: NodeId) -> None:
        """Open a session and let it be reported."""
        self.network.dial(dialer, target)
        self.run_for(SECOND)
        assert target in self.hosts[dialer].connections

    def send(self, source: NodeId, target: NodeId, message: Message, *, low: bool = False) -> None:
        """Send on the session of the two."""
        self.network.send(source, self.hosts[source].connections[target], Send(target, message, low))

    def close(self, source: NodeId, target: NodeId) -> None:
        """Close the session of the two from one side."""
        self.network.close(source, target, self.hosts[source].connections[target])

    def crash(self, name: NodeId, *, silently: bool = False) -> None:
        """Kill a node."""
        self.hosts[name].is_up = False
        self.network.crashed(name, silently=silently)

    def restart(self, name: NodeId) -> None:
        """Start a killed node again."""
        self.network.dark.pop(name, None)
        self.hosts[name].is_up = True
        self.hosts[name].incarnation += 1

    def cut(self, a: NodeId, b: NodeId) -> None:
        """Cut both directions of a link."""
        self.network.cut_link(a, b)
        self.network.cut_link(b, a)

    def heal(self, a: NodeId, b: NodeId) -> None:
        """Heal both directions of a link."""
        self.network.heal_link(a, b)
        self.network.heal_link(b, a)

    def run_for(self, span: Micros) -> None:
        """Let some time pass."""
        self.clock.run_for(span)


# -- publisher order ---------------------------------------------------------------------------------------

TOPIC = "t"
"""A topic of publisher order."""

LOOSE = "loose"
"""A topic that promises nothing."""

TOPICS = {TOPIC: Topic(TOPIC), LOOSE: Topic(LOOSE, OrderName.BEST_EFFORT)}


def start_network(
    links: list[Link], clients: Mapping[NodeId, NodeId], *, delta: int = 1, seed: int = 0, **world: Any
) -> World:
    """A running tree of brokers with clients at their home brokers."""
    made = start_tree(links, delta=delta, seed=seed, topics=TOPICS, **world)
    for client, home in clients.items():
        made.add_client(client, home)
    made.run_for(SECOND)
    return made


def publisher_order(world: World, name: NodeId) -> PublisherBroker:
    """The forwarding side of publisher order at a running broker."""
    order = world.broker(name).orders[OrderName.PUBLISHER]
    assert isinstance(order, PublisherBroker)
    return order


def lives(world: World, subscription: str) -> list[trace.Live]:
    """When, and with what promise, the subscription was live."""
    return [
        each for each in world.trace if isinstance(each, trace.Live) and each.subscription == subscription
    ]


def subscribe_all(world: World, selectors: Mapping[NodeId, str], topic: str = TOPIC) -> None:
    """Have clients subscribe, each under its own name, and wait until all are live."""
    for client, selector in selectors.items():
        world.subscribe(client, client, topic, selector)
    world.run_until(lambda: all(lives(world, client) for client in selectors))


def publish_all(
    world: World, client: NodeId, count: int, *, every: Micros = 0, topic: str = TOPIC, **attributes: Any
) -> None:
    """Have a client publish events from now on, numbered by the attribute ``n``."""
    for n in range(count):
        world.at(
            world.now + n * every,
            lambda n: world.publish(client, client, topic, {**attributes, "n": n}),
            n,
        )
    if every == 0:
        world.run_for(0)


def delivered(world: World, subscription: str, publisher: NodeId | None = None) -> list[int]:
    """The sequences that were delivered to a subscription, in order."""
    return [
        each.sequence
        for each in world.trace
        if isinstance(each, trace.Deliver)
        and each.subscription == subscription
        and publisher in (None, each.publisher)
    ]


def confirmed(world: World, publisher: NodeId) -> list[int]:
    """The sequences that were confirmed to their publisher."""
    return [
        each.sequence
        for each in world.trace
        if isinstance(each, trace.Confirm) and each.publisher == publisher
    ]


def copies(sent: Messages) -> list[tuple[NodeId, NodeId, Publication]]:
    """The single publications that were sent, in order."""
    return [
        (source, target, publication)
        for source, target, message in sent.of(Publications)
        for publication in publications(message)
    ]


def runs_sent(sent: Messages, target: NodeId) -> tuple[Run, ...]:
    """The runs that were sent to a node, each event in one of its own."""
    return tuple(
        each
        for _, to, message in sent.of(Publications)
        for run in message.runs
        for each in singles(run)
        if to == target
    )


def in_custody(world: World) -> dict[NodeId, int]:
    """How many publications each running broker answers for, where there are any."""
    counts = {name: len(publisher_order(world, name).forwarding.custody) for name in live(world)}
    return {name: count for name, count in counts.items() if count}


def assert_promises(world: World) -> None:
    """All is repaired: it comes to rest, nothing is left in custody, and every promise was kept."""
    assert world.settle()
    assert in_custody(world) == {}
    report = check(world.trace, promise=OrderName.PUBLISHER, healed=True)
    assert report.ok, "\n".join(map(str, report))


def level_2(tree: Tree, node: NodeId, home: NodeId, client: NodeId, reach: int) -> NodeId:
    """003, section 4.3: the client if it is near, else the node at that distance on the way to it."""
    path = (*paths_from(tree, node, len(tree))[home], client)
    return path[min(reach, len(path) - 1)]


# -- what the nodes of publisher order handle ---------------------------------------------------------------


class SteadyLatency(Latency):
    """Every message takes exactly as long as is typical."""

    def draw(self, rng: Random) -> Micros:
        """No chance."""
        return self.typical


def publisher_leaf(world: World, name: NodeId) -> PublisherLeaf:
    """The application's side of publisher order at a running client."""
    node = world.hosts[name].node
    assert node is not None
    order = node.orders[OrderName.PUBLISHER]
    assert isinstance(order, PublisherLeaf)
    return order


def known_at(world: World, name: NodeId) -> list[SubscriptionId]:
    """The subscriptions that a broker knows, by their ids on the wire, in the order of its log."""
    return publisher_order(world, name).log.subscriptions()


def got(world: World, subscription: str) -> list[tuple[str, int]]:
    """What was delivered for a subscription: publisher and sequence, in order."""
    return [
        (each.publisher, each.sequence)
        for each in world.trace
        if isinstance(each, trace.Deliver) and each.subscription == subscription
    ]


@dataclass(frozen=True, slots=True)
class Handling:
    """One copy of a publication, as a node handled it."""

    moment: Micros
    node: NodeId
    incarnation: int
    peer: NodeId
    publication: Publication
    known: frozenset[SubscriptionId]
    """The subscriptions that the node knew when it handled the copy; of a client: for which it delivered."""
    in_custody: bool
    """Whether the broker answered for it already."""
    is_duplicate: bool
    """Whether the sequence vector says that it is a copy."""

    @property
    def event(self) -> tuple[str, int, Generation]:
        """The event, with the generation of its stream."""
        return self.publication.event.publisher, self.publication.event.sequence, self.publication.generation


def _one_by_one(observe: Callable[..., None]) -> Callable[..., None]:
    def observed(peer: NodeId, run: Run, *args: Any, **options: Any) -> None:
        for each in singles(run):
            observe(peer, each, *args, **options)

    return observed


class Handlings:
    """Writes down every copy that brokers and clients handle, in order, over all their incarnations."""

    def __init__(self, world: World) -> None:
        self.all: list[Handling] = []
        self._world = world
        for name, host in world.hosts.items():
            self._observe(name, host.node)
            self._observe_restarts(name, host)

    def _observe_restarts(self, name: NodeId, host: SimulatedHost) -> None:
        make = host.make

        def make_observed(records: list[Record]) -> Broker | Leaf:
            node = make(records)
            self._observe(name, node)
            return node

        host.make = make_observed

    def _observe(self, name: NodeId, node: Broker | Leaf | None) -> None:
        assert node is not None
        order: Any = node.orders[OrderName.PUBLISHER]  # methods of it are replaced
        if name not in self._world.homes:
            order.forwarding.enter = self._at_broker(name, order, order.forwarding.enter)
            order.forwarding.receive = self._at_broker(name, order, order.forwarding.receive)
        else:
            order.subscribing.receive = self._at_client(name, order, order.subscribing.receive)

    def _at_broker(
        self, name: NodeId, order: PublisherBroker, handle: Callable[..., None]
    ) -> Callable[..., None]:
        incarnation, forwarding = order.overlay.identity.incarnation, order.forwarding

        def observe(peer: NodeId, run: Run, now: Micros, **options: Any) -> None:
            (copy,) = publications(Publications((run,)))
            known = frozenset(order.log.subscriptions())
            stream = forwarding.custody.streams.get((copy.event.topic, copy.event.publisher))
            held = (
                stream is not None
                and stream.generation == copy.generation
                and copy.event.sequence in stream.held
            )
            duplicate = forwarding.vectors.is_duplicate(copy.vector)
            self.all.append(Handling(now, name, incarnation, peer, copy, known, held, duplicate))
            handle(peer, run, now, **options)

        return _one_by_one(observe)

    def _at_client(
        self, name: NodeId, order: PublisherLeaf, handle: Callable[..., None]
    ) -> Callable[..., None]:
        incarnation, own = order.overlay.identity.incarnation, order.subscribing.own

        def observe(peer: NodeId, run: Run, now: Micros) -> None:
            (copy,) = publications(Publications((run,)))
            publisher, sequence = copy.event.publisher, copy.event.sequence
            before = {unique: each.last.get(publisher, (0, 0))[1] for unique, each in own.items()}
            handle(peer, run, now)
            delivered = frozenset(
                unique
                for unique, each in own.items()
                if before.get(unique, 0) < each.last.get(publisher, (0, 0))[1] == sequence
            )
            now = self._world.now
            self.all.append(Handling(now, name, incarnation, peer, copy, delivered, False, False))

        return _one_by_one(observe)

    def of(self, node: NodeId) -> list[Handling]:
        """What one node handled."""
        return [each for each in self.all if each.node == node]

    def assert_all_were_aware(self) -> int:
        """Whoever forwarded a delivered copy knew the subscription before (000, V); returns how often.

        The way of a delivered copy is followed back from its client: what a broker sends on is decided when
        it handles the first copy.
        """
        first: dict[tuple[NodeId, int, tuple[str, int, Generation]], Handling] = {}
        latest: dict[NodeId, int] = {}
        checked = 0
        for each in self.all:
            if each.node not in self._world.homes:
                latest[each.node] = max(each.incarnation, latest.get(each.node, 0))
                first.setdefault((each.node, each.incarnation, each.event), each)
                continue
            for subscription in each.known:
                hop, clients = each, {each.node}
                while hop.peer not in self._world.homes:
                    hop = first[hop.peer, latest[hop.peer], each.event]
                    assert subscription in hop.known, (subscription, hop)
                    assert hop.node not in clients, "a copy does not come back"
                    clients.add(hop.node)
                    checked += 1
        return checked


# -- one publisher and one subscriber ----------------------------------------------------------------------


def topic_t(beyond_delta: BeyondDelta) -> dict[str, Topic]:
    """The topic of publisher order, and what it does beyond δ failures."""
    return {TOPIC: Topic(TOPIC, OrderName.PUBLISHER, beyond_delta)}


def chain_with_p_and_s(
    *names: NodeId, delta: int = 1, beyond_delta: BeyondDelta = BeyondDelta.HOLD, **world: Any
) -> World:
    """A chain; ``p`` publishes at its first broker, ``s`` at the last has a live subscription to all."""
    made = start_chain(*names, delta=delta, topics=topic_t(beyond_delta), **world)
    made.add_client("p", names[0])
    made.add_client("s", names[-1])
    made.run_for(SECOND)
    subscribe_all(made, {"s": ""})
    return made


def publish_some(world: World, count: int = 1, client: NodeId = "p") -> None:
    """Events 10 ms apart, and a second for them to arrive."""
    for _ in range(count):
        world.publish(client, client, TOPIC, {})
        world.run_for(10 * MILLISECOND)
    world.run_for(SECOND)


def held_at(world: World, name: NodeId) -> dict[NodeId, list[int]]:
    """What a broker holds because a copy would not be legitimate: the sequences by peer."""
    found: dict[NodeId, list[int]] = {}
    for (peer, _), waiting in publisher_order(world, name).forwarding._blocked.items():
        found.setdefault(peer, []).extend(each.event.sequence for each in waiting.values())
    return found
