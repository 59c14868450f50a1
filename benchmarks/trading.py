"""A stock-trading workload: subscriptions and events for the matching benchmark.

Events have five attributes: ``symbol`` (2,000 of three or four letters), ``price`` (uniform, 1 to 1,000),
``quantity`` (1 to 10,000), ``venue`` (20) and one more, either ``urgent`` or a nested ``desk.region``.

Subscriptions, in percent:

====  =========================================================================================
  42  ``symbol = … AND price BETWEEN … AND venue IN (3)``
  10  ``symbol = … AND quantity >= …``: large orders
  12  ``price BETWEEN … AND venue IN (3)``: a range of a thousandth of all prices, no equality
   6  ``price BETWEEN …``: nothing but a narrow range
   2  ``price > …``: nothing but a high bound
   2  ``symbol IN (3)``: nothing but a set
   8  ``symbol = … AND price < … OR symbol = … AND price > …``
   6  ``symbol LIKE 'AB%' AND price BETWEEN …``
   5  ``desk IS NULL AND symbol = … AND price BETWEEN …``
   3  ``urgent AND symbol = … AND price BETWEEN …``
   2  ``desk.region = … AND price BETWEEN …``
   2  ``symbol = … AND price * quantity > …``: evaluated on candidates
====  =========================================================================================

All choices are uniform, so with n subscriptions an event matches about n / 7,000 of them.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from string import ascii_uppercase
from typing import cast

from gapless.selectors import Selector
from gapless.selectors.evaluation import Predicate, compiled
from gapless.selectors.tree import (
    And,
    Arithmetic,
    Attribute,
    Between,
    Comparison,
    Condition,
    In,
    IsNull,
    Like,
    Literal,
    Or,
    Truth,
)
from gapless.selectors.writer import text_of

VENUES = [f"{city}-{number}" for city in ("NYC", "LON", "TYO", "FRA") for number in range(1, 6)]
REGIONS = ["EU-W", "EU-E", "US-E", "US-W", "APAC"]
SYMBOL = Attribute(("symbol",))
PRICE = Attribute(("price",))
QUANTITY = Attribute(("quantity",))
DESK = Attribute(("desk",))


class Unparsed:
    """Stands in for a selector where only its condition is asked for: parsing is not what is measured."""

    __slots__ = ("condition",)

    def __init__(self, condition: Condition) -> None:
        self.condition = condition

    @property
    def predicate(self) -> Predicate:
        """What says whether an event matches."""
        return compiled(self.condition)


class Trading:
    """A seeded source of subscriptions and events."""

    def __init__(self, seed: int = 7) -> None:
        self._random = Random(seed)
        names = (
            "".join(self._random.choices(ascii_uppercase, k=self._random.choice((3, 4))))
            for _ in range(3_000)
        )
        self._symbols = list(dict.fromkeys(names))[:2_000]

    def selector(self) -> Selector:
        """A parsed selector."""
        return Selector(text_of(self.condition()))

    def unparsed(self) -> Selector:
        """Something that an index takes for a selector, made without parsing."""
        return cast(Selector, Unparsed(self.condition()))

    def condition(self) -> Condition:
        """The condition of one more subscription."""
        dice = self._random.random() * 100
        for percent, shape in SHAPES:
            dice -= percent
            if dice < 0:
                return shape(self)
        raise AssertionError("the shapes do not add up to 100")

    def event(self) -> dict[str, object]:
        """The attributes of one more event."""
        random = self._random
        event: dict[str, object] = {
            "symbol": random.choice(self._symbols),
            "price": round(random.uniform(1, 1_000), 2),
            "quantity": random.randint(1, 10_000),
            "venue": random.choice(VENUES),
        }
        if random.random() < 0.7:
            event["urgent"] = random.random() < 0.2
        else:
            event["desk"] = {"region": random.choice(REGIONS)}
        return event

    def symbol(self) -> Comparison:
        """One symbol."""
        return Comparison("=", SYMBOL, Literal(self._random.choice(self._symbols)))

    def prices(self, width_min: float, width_max: float) -> Between:
        """A range of prices."""
        low = self._random.uniform(1, 1_000)
        high = low + self._random.uniform(width_min, width_max)
        return Between(PRICE, Literal(round(low, 2)), Literal(round(high, 2)))

    def venues(self) -> In:
        """Three venues."""
        return In(Attribute(("venue",)), tuple(self._random.sample(VENUES, 3)))

    def either(self) -> Or:
        """One symbol below a price, or another above."""
        low, high = sorted((self._random.uniform(1, 1_000), self._random.uniform(1, 1_000)))
        below = Comparison("<", PRICE, Literal(round(low, 2)))
        above = Comparison(">", PRICE, Literal(round(high, 2)))
        return Or((And((self.symbol(), below)), And((self.symbol(), above))))

    def quantity(self) -> Comparison:
        """A large order."""
        return Comparison(">=", QUANTITY, Literal(self._random.randint(5_000, 10_000)))

    def high_price(self) -> Comparison:
        """A price that few events reach."""
        return Comparison(">", PRICE, Literal(round(1_000 - self._random.uniform(0, 2), 2)))

    def symbols(self) -> In:
        """Three symbols."""
        return In(SYMBOL, tuple(self._random.sample(self._symbols, 3)))

    def initials(self) -> Like:
        """Symbols that begin alike."""
        return Like(SYMBOL, self._random.choice(self._symbols)[:2] + "%")

    def region(self) -> Comparison:
        """A region of desks."""
        return Comparison("=", Attribute(("desk", "region")), Literal(self._random.choice(REGIONS)))

    def turnover(self) -> Comparison:
        """A least price times quantity."""
        least = self._random.randint(1, 10_000_000)
        return Comparison(">", Arithmetic("*", PRICE, QUANTITY), Literal(least))


SHAPES: tuple[tuple[int, Callable[[Trading], Condition]], ...] = (
    (42, lambda trading: And((trading.symbol(), trading.prices(10, 200), trading.venues()))),
    (10, lambda trading: And((trading.symbol(), trading.quantity()))),
    (12, lambda trading: And((trading.prices(0.5, 1.5), trading.venues()))),
    (6, lambda trading: trading.prices(0.1, 1)),
    (2, lambda trading: trading.high_price()),
    (2, lambda trading: trading.symbols()),
    (8, lambda trading: trading.either()),
    (6, lambda trading: And((trading.initials(), trading.prices(10, 200)))),
    (5, lambda trading: And((IsNull(DESK), trading.symbol(), trading.prices(10, 200)))),
    (3, lambda trading: And((Truth(Attribute(("urgent",))), trading.symbol(), trading.prices(10, 200)))),
    (2, lambda trading: And((trading.region(), trading.prices(0.5, 1.5)))),
    (2, lambda trading: And((trading.symbol(), trading.turnover()))),
)
"""In percent."""
