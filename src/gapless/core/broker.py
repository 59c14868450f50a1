"""A broker: a node of the overlay that forwards."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from gapless.core.effects import Record
from gapless.core.messages.overlay import NodeState
from gapless.core.node import Node, NodeConfig
from gapless.core.orders.base import BrokerOrder
from gapless.core.orders.best_effort import BestEffortBroker
from gapless.core.orders.publisher import PublisherBroker

ORDERS: tuple[type[BrokerOrder], ...] = (BestEffortBroker, PublisherBroker)


class Broker(Node[BrokerOrder]):
    """The overlay and the forwarding side of every order."""

    def __init__(self, config: NodeConfig, records: Iterable[Record], *, rng: Random) -> None:
        if config.home is not None:
            raise ValueError("a broker has no home; make a Leaf for a client")
        super().__init__(config, records, orders=ORDERS, rng=rng)

    def _end_batch(self) -> None:
        if self.overlay.state is NodeState.RECOVERING and all(
            order.settled for order in self.orders.values()
        ):
            self.overlay.maybe_operational()
