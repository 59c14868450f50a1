"""A market: desks that publish trades, subscribers that want some of them, and what each should have got.

What a subscription should get is worked out apart from the network: every trade from its starting cut on
that its selector matches, by evaluating the selector itself."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Any

import gapless

SYMBOLS = ("AAPL", "IBM", "NVDA", "SAP", "TSLA")
VENUES = ("EU-W", "EU-C", "US-E", "ASIA")
SCHEMA = "symbol STRING, price DOUBLE, quantity BIGINT, side STRING, venue STRING"


@dataclass
class Desk:
    """A publisher of trades."""

    name: str
    publisher: gapless.Publisher
    rng: Random
    trades: list[dict[str, Any]] = field(default_factory=list)
    """What was published; the sequence of the first is 1."""

    async def trade(self, per_second: float, until: asyncio.Event) -> None:
        """Publish until it is time to close."""
        prices = {symbol: 100.0 * (1 + self.rng.random()) for symbol in SYMBOLS}
        while not until.is_set():
            for _ in range(max(1, round(per_second / 50))):
                symbol = self.rng.choice(SYMBOLS)
                prices[symbol] *= 1 + self.rng.gauss(0, 0.002)
                trade = {
                    "symbol": symbol,
                    "price": round(prices[symbol], 2),
                    "quantity": self.rng.randrange(1, 1000),
                    "side": self.rng.choice(("buy", "sell")),
                    "venue": self.rng.choice(VENUES),
                }
                self.trades.append(trade)
                await self.publisher.publish(trade)
            await asyncio.sleep(1 / 50)


@dataclass
class Reader:
    """A subscriber, and the trades that it has got."""

    name: str
    broker: str
    selector: str
    subscription: gapless.Subscription
    got: list[tuple[str, int]] = field(default_factory=list)
    resets: int = 0
    longest_stall: float = 0.0
    """Seconds between two trades, at most."""

    async def read(self) -> None:
        """Take what comes."""
        last = time.monotonic()
        async for item in self.subscription:
            now = time.monotonic()
            self.longest_stall = max(self.longest_stall, now - last)
            last = now
            if isinstance(item, gapless.Event):
                self.got.append((item.publisher, item.sequence))
            else:
                self.resets += 1

    def judge(self, desks: list[Desk]) -> Verdict:
        """Compare what came with what should have come."""
        selector = gapless.Selector(self.selector)
        missing = out_of_order = unwanted = 0
        for desk in desks:
            first = self.subscription.start.get(desk.name, 1)
            wanted = [
                sequence
                for sequence, trade in enumerate(desk.trades, 1)
                if sequence >= first and selector.matches(trade)
            ]
            came = [sequence for publisher, sequence in self.got if publisher == desk.name]
            missing += len(set(wanted) - set(came))
            unwanted += len(set(came) - set(wanted))
            out_of_order += sum(later < earlier for earlier, later in pairwise(came))
        twice = len(self.got) - len(set(self.got))
        return Verdict(self, missing, twice, out_of_order, unwanted)


@dataclass(frozen=True)
class Verdict:
    """What is wrong with what a subscriber got."""

    reader: Reader
    missing: int
    twice: int
    out_of_order: int
    unwanted: int

    @property
    def ok(self) -> bool:
        """Every matching trade, once, in order, and nothing else."""
        return not (self.missing or self.twice or self.out_of_order or self.unwanted or self.reader.resets)
