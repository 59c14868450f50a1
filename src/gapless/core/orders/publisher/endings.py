"""Subscriptions that have ended: each is remembered until nobody can bring it back (X-P0-19).

A broker that still has a subscription which has ended elsewhere would tell it to others, as news. So the end
of a subscription is an entry of the log like any other, and is forgotten only when every session knows it and
nobody is unreachable.

One that was *given up* must not come back at all: what waited for it is acknowledged. Every broker remembers
it durably, until each of its sides has said that all behind it know.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gapless.core.effects import Effect, Persist, Record, SubscriptionGivenUp, SubscriptionPurged
from gapless.core.messages.publisher import Body
from gapless.core.model import SubscriptionId
from gapless.core.orders.publisher.log import NOTHING_MISSED, PeerLog, SubscriptionLog


class Endings:
    """The subscriptions that have ended, as one broker knows them."""

    def __init__(self, log: SubscriptionLog, out: list[Effect], *, tombstones: int) -> None:
        self.given_up: dict[SubscriptionId, None] = {}
        """Those that were given up, for as long as some broker may not know it."""
        self.forgotten: dict[SubscriptionId, None] = {}
        """The last ones that everybody knew to have ended: whoever still speaks of one is told."""
        self._log = log
        self._out = out
        self._tombstones = tombstones
        self._remembered: dict[SubscriptionId, None] = {}
        self._to_look_at: dict[SubscriptionId, None] = {}
        """Those of which more may be known than when they were looked at last."""

    def recover(self, records: Iterable[Record]) -> None:
        """What an earlier life has heard to be given up stays so."""
        for record in records:
            if isinstance(record, SubscriptionGivenUp):
                body = Body(record.client, record.topic, "", ())
                self._log.append(record.subscription, body, NOTHING_MISSED)
                self._log.end(record.subscription, given_up=True)
                self.given_up[record.subscription] = self._remembered[record.subscription] = None
            elif isinstance(record, SubscriptionPurged):
                self._log.purge(record.subscription)
                del self.given_up[record.subscription], self._remembered[record.subscription]

    def add(self, subscription: SubscriptionId, body: Body, *, given_up: bool) -> None:
        """One more has ended."""
        self._remembered[subscription] = self._to_look_at[subscription] = None
        if given_up:
            self.given_up[subscription] = None
            self._out.append(Persist(SubscriptionGivenUp(subscription, body.client, body.topic)))

    def look_at(self, subscription: SubscriptionId) -> None:
        """A session has said something of it."""
        self._to_look_at[subscription] = None

    def look_at_all(self) -> None:
        """Other sessions must know now."""
        self._to_look_at |= self._remembered

    @property
    def has_news(self) -> bool:
        """Whether one of those that have ended may be known to all by now."""
        return bool(self._to_look_at)

    def purge(self, sessions: Sequence[PeerLog], all_logs: Collection[PeerLog]) -> None:
        """Forget those that all sessions with brokers know to have ended; nobody is unreachable."""
        looked_at, self._to_look_at = self._to_look_at, {}
        for subscription in looked_at:
            if subscription in self._remembered and all(self._is_known(subscription, to) for to in sessions):
                self._forget(subscription)
                for each in all_logs:
                    each.forget(subscription)

    def _is_known(self, subscription: SubscriptionId, session: PeerLog) -> bool:
        """Whether the peer knows that a subscription has ended, and, if it was given up, all behind it do: if
        one of them still told of it, and nobody remembered that it was given up, it would be back."""
        is_known = subscription in session.ended
        return is_known and (subscription not in self.given_up or subscription in session.confirmed)

    def _forget(self, subscription: SubscriptionId) -> None:
        del self._remembered[subscription]
        if subscription in self.given_up:
            del self.given_up[subscription]
            self._out.append(Persist(SubscriptionPurged(subscription)))
        self.forgotten[subscription] = None
        if len(self.forgotten) > self._tombstones:
            del self.forgotten[next(iter(self.forgotten))]
        self._log.purge(subscription)
