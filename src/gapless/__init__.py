"""gapless: a content-based publish/subscribe network that never leaves a gap.

The design on one page.

*Brokers* form a tree. Each knows the tree within δ+1 hops, so it can walk round up to δ adjacent failures
(``gapless.core.overlay``). *Clients* are leaves of that tree and run the same code: when its broker dies, a
client attaches to that broker's neighbours.

A *topic* declares its *order*; an order is a module behind one interface (``gapless.core.orders``).
*Selectors* say which events a subscription wants (``gapless.selectors``); one index answers which
subscriptions an event matches (``gapless.matching``).

All of this is pure: a node is a state machine that takes inputs and the time and returns effects
(``gapless.core``). Two drivers use it. The *simulator* gives it virtual time, one seed and injected faults,
and independent checkers judge what the clients saw (``gapless.simulation``). The *server* gives it real
time, TCP (``gapless.wire``) and storage (``gapless.storage``); ``gapless.client`` is the API on top of that.
What works on many events or many runs is a Spark job (``gapless.spark``).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from gapless.matching import MatchIndex
from gapless.selectors import Selector, SelectorError
from gapless.version import __version__

if TYPE_CHECKING:
    from gapless.client.client import Client, connect
    from gapless.client.errors import (
        GaplessError,
        NameInUseError,
        NameTakenError,
        NotConnectedError,
        PublisherFenced,
        PublishError,
        SubscribeError,
        TopicError,
        WrongNetworkError,
    )
    from gapless.client.events import Event, Reset
    from gapless.client.network import Network
    from gapless.client.publisher import Publisher, Receipt
    from gapless.client.subscription import Subscription
    from gapless.core.model import Topic

_WHERE = {
    "Client": "gapless.client.client",
    "Event": "gapless.client.events",
    "GaplessError": "gapless.client.errors",
    "NameInUseError": "gapless.client.errors",
    "NameTakenError": "gapless.client.errors",
    "Network": "gapless.client.network",
    "NotConnectedError": "gapless.client.errors",
    "PublishError": "gapless.client.errors",
    "PublisherFenced": "gapless.client.errors",
    "Publisher": "gapless.client.publisher",
    "Receipt": "gapless.client.publisher",
    "Reset": "gapless.client.events",
    "SubscribeError": "gapless.client.errors",
    "Subscription": "gapless.client.subscription",
    "Topic": "gapless.core.model",
    "TopicError": "gapless.client.errors",
    "WrongNetworkError": "gapless.client.errors",
    "connect": "gapless.client.client",
}
"""The live network is loaded when it is first used: selectors and Spark's workers do not need it."""


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'gapless' has no attribute {name!r}")
    return getattr(import_module(_WHERE[name]), name)


def __dir__() -> list[str]:
    return __all__


__all__ = [
    "Client",
    "Event",
    "GaplessError",
    "MatchIndex",
    "NameInUseError",
    "NameTakenError",
    "Network",
    "NotConnectedError",
    "PublishError",
    "Publisher",
    "PublisherFenced",
    "Receipt",
    "Reset",
    "Selector",
    "SelectorError",
    "SubscribeError",
    "Subscription",
    "Topic",
    "TopicError",
    "WrongNetworkError",
    "__version__",
    "connect",
]
