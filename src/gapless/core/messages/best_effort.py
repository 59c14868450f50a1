"""Messages of best-effort topics.

=========================  ==================  ===========================================================
message                    from → to           meaning
=========================  ==================  ===========================================================
``BestEffortSubscribe``    away from the leaf  route what matches this way from now on
``BestEffortSubscribed``   back to the leaf    everybody behind me who could be reached does so
``BestEffortUnsubscribe``  away from the leaf  stop
``BestEffortEvents``       to the subscribers  events, in the order in which the sender handled them
=========================  ==================  ===========================================================
"""

from __future__ import annotations

import msgspec

from gapless.core.model import Event, Path, SubscriptionId


class BestEffortSubscribe(msgspec.Struct, frozen=True, array_like=True, tag="be-sub"):
    """A subscription on its way through the network; ``path`` leads back to its client."""

    subscription: SubscriptionId
    topic: str
    selector: str
    path: Path


class BestEffortSubscribed(msgspec.Struct, frozen=True, array_like=True, tag="be-sub-ok"):
    """The confirmation of a whole branch."""

    subscription: SubscriptionId


class BestEffortUnsubscribe(msgspec.Struct, frozen=True, array_like=True, tag="be-unsub"):
    """The end of a subscription."""

    subscription: SubscriptionId


class BestEffortEvents(msgspec.Struct, frozen=True, array_like=True, tag="be-events"):
    """A batch of events."""

    events: tuple[Event, ...]
