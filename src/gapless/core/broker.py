"""A broker: a node of the overlay that forwards."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from random import Random

from gapless.core.effects import Effect, Record
from gapless.core.events import Input, LeaveRequested, RemoveRequested
from gapless.core.model import Micros
from gapless.core.node import Node, NodeConfig
from gapless.core.orders.base import BrokerOrder
from gapless.core.orders.best_effort import BestEffortBroker
from gapless.core.orders.publisher import PublisherBroker
from gapless.core.overlay.overlay import Overlay
from gapless.core.topics import BrokerTopics

ORDERS: tuple[type[BrokerOrder], ...] = (BestEffortBroker, PublisherBroker)


class Broker(Node[BrokerOrder]):
    """The overlay and the forwarding side of every order."""

    def __init__(self, config: NodeConfig, records: Iterable[Record], *, rng: Random) -> None:
        if config.home is not None:
            raise ValueError("a broker has no home; make a Leaf for a client")
        kept = list(records)
        orders: list[Callable[[Overlay, list[Effect]], BrokerOrder]] = [
            BestEffortBroker,
            partial(PublisherBroker, limits=config.limits, records=kept),
        ]
        super().__init__(config, kept, orders=orders, rng=rng)
        names = frozenset(order.name for order in ORDERS)
        self.topics = self._add(BrokerTopics(self.overlay, self._out, records=kept, orders=names))

    def _on_request(self, request: Input, now: Micros) -> None:
        if isinstance(request, RemoveRequested):
            self.overlay.removing.request(request.node, now)
            if self.overlay.mended:
                self._mend(now)
            self._refresh(now)
            return
        if not isinstance(request, LeaveRequested):
            super()._on_request(request, now)
            return
        self.overlay.leaving.request(self._why_needed)

    def _is_settled(self) -> bool:
        return all(order.settled for order in self.orders.values())

    def _why_needed(self) -> str | None:
        """What this broker still has to do for others; one that has lost its store is told it by them."""
        if not self._is_settled():
            return f"{self.overlay.me} does not know its own clients yet: ask again in some seconds"
        reasons = (each.why_not_leave() for each in self.orders.values())
        return next((each for each in reasons if each is not None), None)

    def _end_batch(self, now: Micros) -> None:
        self.topics.serve(now)
        if self._is_settled():
            self.overlay.maybe_operational()
            self.overlay.leaving.maybe_ask(self._why_needed)
        while self.overlay.leaving.let_go(now):  # like a request of its own
            self._mend(now)
            self._flush(now)
