"""A small world in which a story happens: constant latencies, and faults at chosen moments."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from gapless.core.events import SuspectRequested
from gapless.core.limits import Limits
from gapless.core.model import MILLISECOND, BeyondDelta, Link, Micros, NodeId, OrderName, Topic
from gapless.simulation import trace
from gapless.simulation.checkers import check
from gapless.simulation.network import Latency
from gapless.simulation.world import World
from support import RECOVERED, in_custody

TOPIC = "t"


class Constant(Latency):
    """Every message takes the same time."""

    def draw(self, rng: Random) -> Micros:
        return self.typical


class Scene:
    """A small world in which a story happens: one publisher's events have a ``kind``."""

    def __init__(
        self,
        links: list[Link],
        *,
        delta: int = 1,
        beyond: BeyondDelta = BeyondDelta.HOLD,
        limits: Limits | None = None,
        **clients: NodeId,
    ) -> None:
        topic = Topic(TOPIC, OrderName.PUBLISHER, beyond)
        self.world = World(delta=delta, latency=Constant(MILLISECOND), topics={TOPIC: topic}, limits=limits)
        self.world.network.proxying = False  # a link that is cut stays so
        self.world.add_tree(links)
        self.run(1_000)
        for client, home in clients.items():
            self.world.add_client(client, home)
        self.run(1_000)

    def run(self, milliseconds: int) -> None:
        self.world.run_for(milliseconds * MILLISECOND)

    # -- what clients do -------------------------------------------------------------------------------

    def subscribe(self, client: NodeId, selector: str = "") -> None:
        self.world.subscribe(client, client, TOPIC, selector)

    def publish(self, *kinds: str, client: NodeId = "p") -> None:
        for kind in kinds:
            self.world.publish(client, client, TOPIC, {"kind": kind})

    # -- what happens to the network -------------------------------------------------------------------

    def part(self, *pairs: tuple[NodeId, NodeId]) -> None:
        """Cut links, and let both ends notice at once."""
        for a, b in pairs:
            self.world.cut(a, b)
            self.suspect(a, b)
            self.suspect(b, a)

    def suspect(self, a: NodeId, b: NodeId) -> None:
        if b in self.world.hosts[a].sessions:
            self.world.hosts[a].receive(SuspectRequested(b))

    def slow(self, *ways: tuple[NodeId, NodeId], milliseconds: int) -> None:
        """Let a message take so long on the way from the first to the second."""
        for way in ways:
            self.world.network.slowness[way] = milliseconds

    def heal(self, *pairs: tuple[NodeId, NodeId]) -> None:
        for a, b in pairs:
            self.world.heal(a, b)

    def end(self) -> None:
        """Repair everything, and let everything arrive."""
        for a, b in list(self.world.network.cut):
            if a < b or (b, a) not in self.world.network.cut:
                self.world.heal(a, b)
        self.world.network.slowness.clear()
        for name, host in self.world.hosts.items():
            if not host.is_up:
                self.world.restart(name)
        self.world.run_for(RECOVERED)
        self.world.settle()

    # -- what came of it -------------------------------------------------------------------------------

    def got(self, subscription: str, publisher: str = "p") -> list[int]:
        return [
            each.sequence
            for each in self.world.trace
            if isinstance(each, trace.Deliver)
            and (each.subscription, each.publisher) == (subscription, publisher)
        ]

    def is_live(self, subscription: str) -> bool:
        return any(
            isinstance(each, trace.Live) and each.subscription == subscription for each in self.world.trace
        )

    def unreachable(self, subscription: str) -> tuple[NodeId, ...]:
        """Who was unreachable when the subscription went live last."""
        return [
            each.unreachable
            for each in self.world.trace
            if isinstance(each, trace.Live) and each.subscription == subscription
        ][-1]

    def faults(self, *, resets: int = 0, **expected: Sequence[int]) -> list[str]:
        """What is wrong in the end: other deliveries than expected, what the checkers say, and promises that
        were taken back, which hardly a story needs."""
        found = {name: self.got(name) for name in expected}
        wrong = [f"{name} got {found[name]}" for name in expected if found[name] != list(expected[name])]
        report = check(self.world.trace, promise=OrderName.PUBLISHER, healed=True)
        taken_back = [str(each) for each in self.world.trace if isinstance(each, trace.Reset)]
        if len(taken_back) != resets:
            wrong += [f"{len(taken_back)} resets", *taken_back]
        return [*wrong, *map(str, report), *self.faults_of_custody()]

    def faults_of_custody(self) -> list[str]:
        """What brokers still answer for."""
        waiting = in_custody(self.world)
        return [f"waiting for ever: {waiting}"] if waiting else []
