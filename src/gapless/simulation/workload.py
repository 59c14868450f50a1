"""What simulated clients do: subscribe with all kinds of selectors, publish, react, unsubscribe.

Some clients subscribe *and* publish in reaction to what they got, so that causality has edges. Reactions are
bounded: an event says how many reactions led to it, and a client reacts only so often.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Any

from gapless.core.model import MILLISECOND, Event, Micros, NodeId
from gapless.simulation.world import World

TOPIC = "market"
SYMBOLS = ("IBM", "ACME", "INTC", "SAP", "SAN")
VENUES = ("XETRA", "XPAR", "NYSE", "LSE")
REGIONS = ("EU-W", "EU-N", "US-E", "US-W")
MAX_REACTION_DEPTH = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """How many clients do how much, and when."""

    publishers: int
    subscribers: int
    events: int
    opens: Micros
    closes: Micros


def attributes(rng: Random, depth: int = 0) -> dict[str, Any]:
    """The attributes of some event."""
    event: dict[str, Any] = {
        "symbol": rng.choice(SYMBOLS),
        "price": rng.randrange(50, 200),
        "venue": rng.choice(VENUES),
        "urgent": rng.random() < 0.2,
        "desk": {"region": rng.choice(REGIONS)},
        "depth": depth,
    }
    if rng.random() < 0.3:
        event["note"] = rng.choice(("block", "odd lot", "cross"))
    return event


def selector(rng: Random) -> str:
    """Some condition on such events."""
    low = rng.randrange(40, 180)
    forms = (
        "",
        f"symbol = '{rng.choice(SYMBOLS)}'",
        f"price BETWEEN {low} AND {low + rng.randrange(20, 80)}",
        f"price > {low} AND symbol <> '{rng.choice(SYMBOLS)}'",
        f"symbol IN ('{rng.choice(SYMBOLS)}', '{rng.choice(SYMBOLS)}')",
        f"venue LIKE '{rng.choice(('X', 'N', 'L'))}%' AND price < {low + 40}",
        "note IS NULL",
        "note IS NOT NULL AND NOT urgent",
        f"desk.region LIKE '{rng.choice(('EU', 'US'))}-%'",
        f"urgent OR price * 2 >= {2 * low}",
        f"symbol = '{rng.choice(SYMBOLS)}' AND venue = '{rng.choice(VENUES)}'",
    )
    return rng.choice(forms)


class Workload:
    """The clients of a run."""

    def __init__(self, world: World, plan: Plan) -> None:
        self._world = world
        self._plan = plan
        self._rng = world.random("workload")
        self._reactions: dict[NodeId, int] = {}
        self._subscribed: dict[NodeId, int] = {}  # how many subscriptions a client has ever had
        self._open: dict[NodeId, set[str]] = {}
        brokers = world.brokers()
        for i in range(plan.publishers):
            self._add_publisher(f"p{i}", self._rng.choice(brokers))
        for i in range(plan.subscribers):
            self._add_subscriber(f"s{i}", self._rng.choice(brokers))

    def _moment(self) -> Micros:
        return self._rng.randrange(self._plan.opens, self._plan.closes)

    def _add_publisher(self, name: NodeId, home: NodeId) -> None:
        """Publishes single events and bursts, spread over the whole time; one in three also subscribes."""
        world, rng = self._world, self._rng
        host = world.add_client(name, home)
        left = self._plan.events
        while left > 0:
            burst = min(left, rng.choice((1, 1, 1, 5, 20)))
            moment = self._moment()
            for k in range(burst):
                world.at(moment + k * MILLISECOND, self._publish, (name, attributes(rng)))
            left -= burst
        if rng.random() < 1 / 3:
            self._add_subscriptions(name)
            host.on_restart = lambda: self._begin_again(name)

    def _add_subscriber(self, name: NodeId, home: NodeId) -> None:
        """Subscribes; one in three reacts to what it gets."""
        host = self._world.add_client(name, home)
        self._add_subscriptions(name)
        host.on_restart = lambda: self._begin_again(name)
        if self._rng.random() < 1 / 3:
            self._reactions[name] = self._plan.events // 2
            host.on_deliver = lambda _, event: self._react(name, event)

    def _add_subscriptions(self, name: NodeId) -> None:
        """One to three: most before the first event, some in the middle of the traffic, some not for ever."""
        world, rng, plan = self._world, self._rng, self._plan
        for _ in range(rng.randrange(1, 4)):
            subscription = self._new_subscription(name)
            late = rng.random() < 0.4
            begins = self._moment() if late else rng.randrange(plan.opens // 2, plan.opens)
            world.at(begins, self._subscribe, (name, subscription, selector(rng)))
            if rng.random() < 0.15:
                ends = rng.randrange(begins, plan.closes) + 1
                world.at(ends, self._unsubscribe, (name, subscription))

    def _new_subscription(self, name: NodeId) -> str:
        number = self._subscribed.get(name, 0)
        self._subscribed[name] = number + 1
        return f"{name}/{number}"

    def _begin_again(self, name: NodeId) -> None:
        """A client that crashed has lost its subscriptions; it makes one anew."""
        self._open.pop(name, None)
        self._subscribe((name, self._new_subscription(name), selector(self._rng)))

    def _subscribe(self, what: tuple[NodeId, str, str]) -> None:
        client, subscription, condition = what
        if self._world.hosts[client].is_up:
            self._open.setdefault(client, set()).add(subscription)
            self._world.subscribe(client, subscription, TOPIC, condition)

    def _unsubscribe(self, what: tuple[NodeId, str]) -> None:
        client, subscription = what
        if subscription in self._open.get(client, ()) and self._world.hosts[client].is_up:
            self._open[client].discard(subscription)
            self._world.unsubscribe(client, subscription)

    def _publish(self, what: tuple[NodeId, dict[str, Any]]) -> None:
        client, event = what
        self._world.publish(client, client, TOPIC, event)

    def _react(self, client: NodeId, event: Event) -> None:
        depth = event.attributes["depth"] + 1
        if depth <= MAX_REACTION_DEPTH and self._reactions[client] > 0 and self._rng.random() < 0.3:
            self._reactions[client] -= 1
            self._world.publish(client, client, TOPIC, attributes(self._rng, depth))
