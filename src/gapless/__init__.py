"""gapless: a content-based publish/subscribe network that never leaves a gap.

The design on one page.

*Brokers* form a tree. Each knows the tree within δ+1 hops, so it can walk round up to δ adjacent failures
(``gapless.core.overlay``). *Clients* are leaves of that tree and run the same code: when its broker dies, a
client attaches to that broker's neighbours.

A *topic* declares its *order*; an order is a module behind one interface (``gapless.core.orders``).
*Selectors* say which events a subscription wants (``gapless.selectors``); one index answers which
subscriptions an event matches (``gapless.matching``).

All of this is pure: a node is a state machine that takes inputs and the time and returns effects
(``gapless.core``). The *simulator* drives it with virtual time, one seed and injected faults, and independent
checkers judge what the clients saw (``gapless.simulation``).
"""

from gapless.matching import MatchIndex
from gapless.selectors import Selector, SelectorError

__all__ = ["MatchIndex", "Selector", "SelectorError"]
