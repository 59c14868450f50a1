"""Publisher order: exactly once, in each publisher's order, without a gap, with up to δ failures at a time."""

from gapless.core.orders.publisher.broker import PublisherBroker
from gapless.core.orders.publisher.leaf import PublisherLeaf

__all__ = ["PublisherBroker", "PublisherLeaf"]
