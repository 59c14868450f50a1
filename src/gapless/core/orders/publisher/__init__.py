"""Publisher order: exactly once, in each publisher's order, without a gap, under up to δ failures.

``docs/publisher-order.md`` has the rules and how they relate to papers 000 and 003.
"""

from gapless.core.orders.publisher.broker import PublisherBroker
from gapless.core.orders.publisher.leaf import PublisherLeaf

__all__ = ["PublisherBroker", "PublisherLeaf"]
