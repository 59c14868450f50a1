"""How a small network goes from one state to the next: sessions, failures, and what clients see.

The promises that :mod:`gapless.core.events` asks of a driver are kept: FIFO or never, one session a peer,
down before up, and of two dials that cross the one of the smaller name. There is no failure detector: who
notices a failure, and when, is a matter of the schedule, so suspicion may come at any time, or late.
"""

from __future__ import annotations

from gapless.core.broker import Broker
from gapless.core.effects import (
    Connect,
    Deliver,
    Disconnect,
    Effect,
    LinkAdded,
    Live,
    Receipt,
    Record,
    Reset,
)
from gapless.core.events import ConnectFailed, Input, SessionDown, SessionUp, SuspectRequested
from gapless.core.leaf import Leaf
from gapless.core.model import SECOND, Identity, Link, NodeId, OrderName, Partition, Topic
from gapless.core.node import NodeConfig
from gapless.core.overlay.sessions import Timing
from gapless.simulation import trace
from gapless.simulation.explore.nodes import NO_CHANCE, Nodes, Sent, Stepped, is_operational
from gapless.simulation.explore.scenario import Scenario
from gapless.simulation.explore.state import Lane, State
from gapless.simulation.trees import neighbourhood

TOPIC = "t"
NEVER = 1_000_000 * SECOND
TIMING = Timing(ping_every=NEVER, suspect_after=2 * NEVER)
"""No signs of life: nobody is suspected but by the schedule."""


class Network:
    """The nodes and links of a scenario."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.nodes = Nodes()
        self.homes: dict[NodeId, NodeId] = dict(scenario.clients)
        self._configs: dict[NodeId, NodeConfig] = {}
        self._topics = {TOPIC: Topic(TOPIC, OrderName.PUBLISHER)}

    # -- nodes -------------------------------------------------------------------------------------------

    def add_broker(
        self, state: State, name: NodeId, *, join: tuple[NodeId, ...] = (), tree: tuple[Link, ...] = ()
    ) -> None:
        """A broker that joins, or one that has joined in an earlier life."""
        scenario = self.scenario
        self._configs[name] = NodeConfig(
            node=name, delta=scenario.delta, join_points=join, timing=TIMING, limits=scenario.limits
        )
        records = (
            [LinkAdded(each) for each in neighbourhood(name, list(tree), scenario.delta)] if tree else []
        )
        self._start(state, name, tuple(records))

    def add_client(self, state: State, name: NodeId, home: NodeId) -> None:
        """A client of the home broker."""
        scenario = self.scenario
        self.homes[name] = home
        self._configs[name] = NodeConfig(
            node=name, delta=scenario.delta, home=home, timing=TIMING, limits=scenario.limits
        )
        self._start(state, name, ())

    def _start(self, state: State, name: NodeId, records: tuple[Record, ...]) -> None:
        state.stores[name] = self.nodes.stored(records)
        self._run(state, name)

    def _run(self, state: State, name: NodeId) -> None:
        records, config = self.nodes.records(state.stores[name]), self._configs[name]
        node = (
            Leaf(config, records, topics=self._topics, rng=NO_CHANCE)
            if config.home is not None
            else Broker(config, records, rng=NO_CHANCE)
        )
        self.perform(state, name, self.nodes.started(node, state.now), 0)

    def is_broker(self, name: NodeId) -> bool:
        """Whether the node is a broker."""
        return name not in self.homes

    def has_room(self, state: State, besides: NodeId = "") -> bool:
        """Whether one failure more is within δ, as the simulator counts them."""
        down = sum(
            number is None or not self.nodes.noted(number, is_operational)
            for name, number in state.nodes.items()
            if name != besides and name not in self.homes
        )
        suspected = sum(each.kind == "forget" for each in state.repairs)
        return down + suspected + len(state.cut) < self.scenario.delta

    # -- failures ----------------------------------------------------------------------------------------

    def crash(self, state: State, name: NodeId) -> None:
        """A node is gone with what it had under way; its peers will hear that their sessions have ended."""
        if state.nodes[name] is None:
            return
        state.nodes[name] = None
        state.wakes.pop(name, None)
        self._record(state, name, trace.Crash(t=state.now, node=name))
        for pair in [pair for pair in state.dials if pair[0] == name]:
            del state.dials[pair]
        for peer in [b for a, b in state.up if a == name]:
            del state.up[name, peer]
            waits_for_answer = _is_answer(state, (name, peer, False))
            _clear(state, name, peer)
            if waits_for_answer:
                del state.up[peer, name]
                self.step(state, peer, ConnectFailed(name), 0)
            elif (peer, name) in state.up:
                state.lanes[name, peer, False] = ((0, None),)

    def restart(self, state: State, name: NodeId) -> None:
        """A crashed node starts again from its store."""
        if state.nodes[name] is not None:
            return
        self._record(state, name, trace.Restart(t=state.now, node=name))
        self._run(state, name)

    def cut(self, state: State, a: NodeId, b: NodeId, *, noticed_by: tuple[NodeId, ...]) -> None:
        """Cut the link; those of its ends notice at once, the others when it is healed, if ever."""
        state.cut[_pair(a, b)] = None
        self._record(state, a, trace.Cut(t=state.now, nodes=_pair(a, b)))
        for source, target in ((a, b), (b, a)):
            if _is_answer(state, (source, target, False)):
                state.up.pop((target, source), None)
                _clear(state, source, target)
                self.step(state, target, ConnectFailed(source), 0)
        for name in noticed_by:
            self.suspect(state, name, b if name == a else a)

    def heal(self, state: State, a: NodeId, b: NodeId) -> None:
        """The link works again."""
        state.cut.pop(_pair(a, b), None)
        self._record(state, a, trace.Heal(t=state.now, nodes=_pair(a, b)))

    def suspect(self, state: State, name: NodeId, peer: NodeId) -> None:
        """A node believes that a peer has failed, rightly or not."""
        if (name, peer) in state.up:
            self.step(state, name, SuspectRequested(peer), 0)

    def _record(self, state: State, name: NodeId, entry: trace.Record) -> None:
        """Failures are in the trace, but no client sees them."""
        state.history = (state.history, entry)

    # -- moves -------------------------------------------------------------------------------------------

    def deliver(self, state: State, lane: Lane) -> None:
        """The next of what is on a lane arrives."""
        source, target, _ = lane
        (stamp, item), *rest = state.lanes[lane]
        if rest:
            state.lanes[lane] = tuple(rest)
        else:
            del state.lanes[lane]
        if item is None:
            del state.up[target, source]
            _clear(state, source, target)
            self.step(state, target, SessionDown(source, "closed by the peer"), stamp)
        elif isinstance(item, Identity):
            self.step(state, target, SessionUp(item, dialed=True), stamp)
        else:
            number = state.nodes[target]
            assert number is not None, "what is under way to a broker is lost when it crashes"
            self.perform(state, target, self.nodes.handle(number, source, item, state.now), stamp)

    def dial(self, state: State, dialer: NodeId, target: NodeId) -> None:
        """A dial reaches its target, or nobody."""
        stamp = state.dials.pop((dialer, target))
        if _pair(dialer, target) in state.cut or state.nodes.get(target) is None:
            self.step(state, dialer, ConnectFailed(target), stamp)
            return
        if (target, dialer) in state.dials and target < dialer:
            dialer, target = target, dialer
        if (target, dialer) in state.up:
            del state.up[target, dialer]
            self.step(state, target, SessionDown(dialer, "replaced by a new session"), stamp)
        state.dials.pop((target, dialer), None)
        state.dials.pop((dialer, target), None)
        _clear(state, dialer, target)
        state.up[dialer, target] = state.up[target, dialer] = None
        state.lanes[target, dialer, False] = ((stamp + 1, self.identity(state, target)),)
        self.step(state, target, SessionUp(self.identity(state, dialer), dialed=False), stamp)

    def identity(self, state: State, name: NodeId) -> Identity:
        """What a running node says of itself."""
        number = state.nodes[name]
        assert number is not None, f"{name} is down"
        return self.nodes.noted(number, _identity)

    def step(self, state: State, name: NodeId, each: Input | None, stamp: int) -> None:
        """A node handles an input, or what is due."""
        number = state.nodes[name]
        if number is not None:
            self.perform(state, name, self.nodes.step(number, each, state.now), stamp)

    def perform(self, state: State, name: NodeId, stepped: Stepped, stamp: int) -> None:
        """Let a step have its effects."""
        state.nodes[name] = stepped.node
        if stepped.error:
            state.error = f"{name} raised {stepped.error}"
        if stepped.wake_at is None:
            state.wakes.pop(name, None)
        else:
            state.wakes[name] = stepped.wake_at
        if stepped.records:
            state.stores[name] = self.nodes.stored(stepped.records, state.stores[name])
        for effect in stepped.effects:
            if isinstance(effect, Sent):
                if (name, effect.peer) in state.up and (effect.peer, name) in state.up:
                    lane = (name, effect.peer, effect.low)
                    state.lanes[lane] = (*state.lanes.get(lane, ()), (stamp + 1, effect.item))
            else:
                self._perform_one(state, name, effect, stamp)

    def _perform_one(self, state: State, name: NodeId, effect: Effect, stamp: int) -> None:
        match effect:
            case Connect(peer=peer):
                if (name, peer) not in state.up:
                    state.dials[name, peer] = stamp + 1
            case Disconnect(peer=peer):
                if (name, peer) in state.up:
                    del state.up[name, peer]
                    for low in (False, True):
                        state.lanes.pop((peer, name, low), None)
                    if (peer, name) in state.up:
                        lane = (name, peer, False)
                        state.lanes[lane] = (*state.lanes.get(lane, ()), (stamp + 1, None))
            case Deliver() | Receipt() | Live() | Reset():
                self._seen(state, name, effect)
            case _:
                pass  # nothing that an order of events depends on

    # -- what clients see --------------------------------------------------------------------------------

    def _seen(self, state: State, client: NodeId, effect: Deliver | Receipt | Live | Reset) -> None:
        match effect:
            case Deliver(subscription=subscription, events=events, best_effort=best_effort):
                for event in events:
                    entry = trace.Deliver(
                        t=state.now,
                        client=client,
                        subscription=subscription,
                        publisher=event.publisher,
                        sequence=event.sequence,
                        best_effort=best_effort,
                    )
                    state.record(client, entry)
            case Receipt(publisher=publisher, sequence=last):
                known = f"confirmed to {publisher}"
                for sequence in range(state.sequences.get(known, 0) + 1, last + 1):
                    state.record(
                        client,
                        trace.Confirm(t=state.now, publisher=publisher, sequence=sequence, topic=TOPIC),
                    )
                state.sequences[known] = max(last, state.sequences.get(known, 0))
            case Reset(subscription=subscription, publishers=publishers, start=start):
                state.record(
                    client,
                    trace.Reset(
                        t=state.now, subscription=subscription, publishers=publishers, start=start.first
                    ),
                )
            case Live(subscription=subscription, start=start, unreachable=unreachable):
                brokers = tuple(
                    sorted({name for each in unreachable for name in self._brokers_in(state, each)})
                )
                state.record(
                    client,
                    trace.Live(
                        t=state.now, subscription=subscription, start=start.first, unreachable=brokers
                    ),
                )

    def _brokers_in(self, state: State, partition: Partition) -> list[NodeId]:
        """The brokers of a partition, and those behind it that its detector does not know of."""
        number = state.nodes[partition.detector]
        known = self.nodes.noted(number, _known) if number is not None else frozenset()
        links = self._links(state)
        found, behind = (
            list(partition.nodes),
            [((partition.detector, *partition.nodes)[-2], partition.nodes[-1])],
        )
        while behind:
            came_from, node = behind.pop()
            beyond = [b if a == node else a for a, b in links if node in (a, b)]
            unknown = [each for each in beyond if each != came_from and each not in known]
            found += unknown
            behind += [(node, each) for each in unknown]
        return found

    def _links(self, state: State) -> list[Link]:
        """The whole tree, as the stores of its brokers have it."""
        found = {
            record.link
            for name, store in state.stores.items()
            for record in self.nodes.records(store)
            if isinstance(record, LinkAdded) and name in record.link
        }
        return sorted(found)


def _known(node: Broker | Leaf) -> frozenset[NodeId]:
    return frozenset(each for link in node.overlay.topology.links() for each in link)


def _identity(node: Broker | Leaf) -> Identity:
    return node.identity


def _pair(a: NodeId, b: NodeId) -> tuple[NodeId, NodeId]:
    return (a, b) if a < b else (b, a)


def _is_answer(state: State, lane: Lane) -> bool:
    """Whether the lane begins with the answer to a dial, so that the dialer has no session yet."""
    items = state.lanes.get(lane)
    return items is not None and isinstance(items[0][1], Identity)


def _clear(state: State, a: NodeId, b: NodeId) -> None:
    """Whatever was under way between two nodes is lost."""
    for low in (False, True):
        state.lanes.pop((a, b, low), None)
        state.lanes.pop((b, a, low), None)
