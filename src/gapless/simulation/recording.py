"""Writes the trace of a run: what clients asked for and saw, at the moment when their node handled it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec

from gapless.core.effects import (
    Answered,
    Deliver,
    Effect,
    Live,
    NumberingBegun,
    Persist,
    Receipt,
    Reset,
    TopicDeleted,
)
from gapless.core.events import (
    Input,
    MessageReceived,
    PublishRequested,
    SubscribeRequested,
    UnsubscribeRequested,
)
from gapless.core.model import NodeId
from gapless.simulation import trace
from gapless.simulation.partitioned import brokers_in
from gapless.simulation.sources import Sources

if TYPE_CHECKING:
    from gapless.simulation.host import SimulatedHost
    from gapless.simulation.world import World


class Recorder:
    """What the clients of a world do and see."""

    def __init__(self, world: World) -> None:
        self.sources = Sources()
        self.answers: dict[NodeId, dict[int, str]] = {}
        """What clients were answered: the errors of their requests, empty where all went well."""
        self.fenced: dict[tuple[NodeId, str], None] = {}
        """Clients, and publishers that somebody else is since later."""
        self.members: set[NodeId] = set()
        """The brokers that have joined at some time."""
        self._world = world
        self._add = world.trace.append
        self._sequences: dict[tuple[str, str], int] = {}
        self._confirmed: dict[tuple[str, str], int] = {}

    def told(self, client: NodeId, effect: Answered | TopicDeleted) -> None:
        """A client was told something about topics."""
        if isinstance(effect, Answered):
            self.answers.setdefault(client, {})[effect.request] = effect.error
        else:
            for subscription in effect.subscriptions:
                self._add(trace.Unsubscribe(t=self._world.now, subscription=subscription))

    def requested(self, client: NodeId, batch: list[Input], effects: Sequence[Effect]) -> None:
        """A client handles requests of its application now: that is when they happen."""
        for effect in effects:
            if type(effect) is Persist and type(effect.record) is NumberingBegun:
                self.sources.begins(client, effect.record)
        for each in batch:
            if type(each) is MessageReceived:
                continue
            match each:
                case PublishRequested():
                    self._published(client, each)
                case SubscribeRequested(subscription=subscription, topic=topic, selector=selector):
                    self._add(
                        trace.Subscribe(
                            t=self._world.now,
                            client=client,
                            subscription=subscription,
                            topic=topic,
                            selector=selector,
                            broker=self._world.home(client),
                        )
                    )
                case UnsubscribeRequested(subscription=subscription):
                    self._add(trace.Unsubscribe(t=self._world.now, subscription=subscription))
                case _:
                    pass

    def _published(self, client: NodeId, request: PublishRequested) -> None:
        if (client, request.publisher) in self.fenced:
            return
        name = self.sources.current(client, request.publisher)
        key = (name, request.topic)
        for attributes, _ in request.contents:
            sequence = self._sequences[key] = self._sequences.get(key, 0) + 1
            self._add(
                trace.Publish(
                    t=self._world.now,
                    client=client,
                    publisher=name,
                    sequence=sequence,
                    topic=request.topic,
                    attributes=attributes,
                    broker=self._world.home(client),
                )
            )

    def promised(self, client: NodeId, effect: Live | Reset) -> None:
        """A client was told from where on its subscription is promised."""
        if isinstance(effect, Reset):
            self._add(
                trace.Reset(
                    t=self._world.now,
                    subscription=effect.subscription,
                    publishers=effect.publishers,
                    start=self.sources.start_of_reset(effect),
                )
            )
        else:
            self._add(
                trace.Live(
                    t=self._world.now,
                    subscription=effect.subscription,
                    start=self.sources.start(effect.start),
                    unreachable=brokers_in(self._world, effect.unreachable, client),
                )
            )

    def joined(self, broker: NodeId, neighbour: NodeId) -> None:
        """A broker has joined: whoever was told that its neighbour cannot be reached was told that of all
        behind that one, and so of this one."""
        if broker in self.members:
            return
        self.members.add(broker)
        records = self._world.trace.records
        for index, each in enumerate(records):
            if isinstance(each, trace.Live) and neighbour in each.unreachable:
                unreachable = tuple(sorted({*each.unreachable, broker}))
                records[index] = msgspec.structs.replace(each, unreachable=unreachable)

    def confirmed(self, client: NodeId, receipt: Receipt) -> None:
        """A publisher was told that the network has its events up to one of them."""
        name = self.sources.current(client, receipt.publisher)
        key = (name, receipt.topic)
        for sequence in range(self._confirmed.get(key, 0) + 1, receipt.sequence + 1):
            self._add(
                trace.Confirm(t=self._world.now, publisher=name, sequence=sequence, topic=receipt.topic)
            )
        self._confirmed[key] = max(receipt.sequence, self._confirmed.get(key, 0))

    def publisher_fenced(self, client: NodeId, publisher: str) -> None:
        """A client was told that somebody else is this publisher: what is not confirmed is not promised."""
        self.fenced[client, publisher] = None
        name = self.sources.current(client, publisher)
        self._add(trace.Fenced(t=self._world.now, client=client, publisher=name))

    def unconfirmed(self, client: NodeId, publisher: str, topic: str) -> int:
        """How many events a client has published under that name that it has no receipt of."""
        key = (self.sources.current(client, publisher), topic)
        return self._sequences.get(key, 0) - self._confirmed.get(key, 0)

    def delivered(self, host: SimulatedHost, effect: Deliver) -> None:
        """A client's application was given events."""
        for event in effect.events:
            self._add(
                trace.Deliver(
                    t=self._world.now,
                    client=host.name,
                    subscription=effect.subscription,
                    publisher=self.sources.name(event.publisher, effect.numbering),
                    sequence=event.sequence,
                    best_effort=effect.best_effort,
                )
            )
            if host.on_deliver is not None:
                host.on_deliver(effect.subscription, event)
