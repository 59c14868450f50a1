"""Random selectors and events of random types, for tests that hold matching to an oracle."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from random import Random
from typing import Any

from gapless.selectors import Selector

SCHEMA = (
    "id LONG, n LONG, m INT, x DOUBLE, s STRING, t STRING, b BOOLEAN, "
    "desk STRUCT<region: STRING, floor: SMALLINT, lead: STRUCT<age: TINYINT>>"
)
TEXTS = ["", "a", "ab", "abc", "b", "B", "a%", "a_", "ä", "\U0001f600", "O'Neil", "EU-W", "EU-E"]
PATTERNS = ["a%", "%b", "a_", "_", "%", "EU-_", "%''%", "%E%", "a!%", "a!_%", "\U0001f600%"]
OPERATORS = ["=", "<>", "<", "<=", ">", ">="]


class Conditions:
    """A seeded source of selectors whose meaning Spark SQL shares."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def condition(self, depth: int = 3) -> str:
        """One condition, nested at most so deep."""
        if depth == 0 or self.random.random() < 0.35:
            return self.random.choice(self.simple)(self)
        if self.random.random() < 0.25:
            return f"NOT ({self.condition(depth - 1)})"
        word = self.random.choice((" AND ", " OR "))
        return word.join(f"({self.condition(depth - 1)})" for _ in range(self.random.randint(2, 3)))

    def number(self) -> str:
        return self.random.choice(("n", "m", "x", "desk.floor", "desk.lead.age"))

    def constant(self) -> str:
        whole = self.random.randint(-4, 4)
        return self.random.choice((f"{whole}", f"{whole + 0.25}", f"{whole}E0", "1000000"))

    def sum(self) -> str:
        """A number, calculated; quarters are exact in decimals and in floats."""
        left, right = self.number(), self.random.choice((self.number(), self.constant()))
        return self.random.choice(
            (left, f"{left} {self.random.choice('+-*')} {right}", f"-{left}", f"{left} / 2")
        )

    def text(self) -> str:
        return self.random.choice(("s", "t", "desk.region"))

    def quoted(self, texts: list[str] = TEXTS) -> str:
        return "'" + self.random.choice(texts).replace("'", "''") + "'"

    def negation(self) -> str:
        return self.random.choice(("", "NOT "))

    simple: tuple[Callable[[Conditions], str], ...] = (
        lambda c: f"{c.sum()} {c.random.choice(OPERATORS)} {c.random.choice((c.constant(), c.sum()))}",
        lambda c: f"{c.constant()} {c.random.choice(OPERATORS)} {c.number()}",
        lambda c: f"{c.sum()} {c.negation()}BETWEEN {c.constant()} AND {c.constant()}",
        lambda c: f"{c.number()} {c.negation()}IN ({', '.join(c.constant() for _ in range(3))})",
        lambda c: f"{c.text()} {c.random.choice(OPERATORS)} {c.random.choice((c.quoted(), c.text()))}",
        lambda c: f"{c.text()} {c.negation()}BETWEEN {c.quoted()} AND {c.quoted()}",
        lambda c: f"{c.text()} {c.negation()}IN ({', '.join(c.quoted() for _ in range(3))})",
        lambda c: f"{c.text()} {c.negation()}LIKE '{c.random.choice(PATTERNS)}' ESCAPE '!'",
        lambda c: (
            f"{c.random.choice((c.text(), c.number(), 'desk', 'desk.lead', 'b'))} IS {c.negation()}NULL"
        ),
        lambda c: c.random.choice(("b", "b = TRUE", "b <> TRUE", "TRUE", "FALSE")),
    )


def events_of(random: Random, count: int) -> list[tuple[Any, ...]]:
    """Rows of ``SCHEMA`` with nulls everywhere."""

    def some(values: list[Any]) -> Any:
        return None if random.random() < 0.2 else random.choice(values)

    def lead() -> tuple[Any]:
        return (some([-1, 0, 2, 10]),)

    quarters = [each / 4 for each in range(-8, 12)]
    return [
        (
            each, some(list(range(-3, 5))), some([-2, 0, 3]), some([*quarters, 1e6, -1e300, math.inf]),
            some(TEXTS), some(TEXTS), some([True, False]),
            some([(some(TEXTS), some([-1, 0, 2]), some([lead()]))]),
        )
        for each in range(count)
    ]  # fmt: skip


# -- every type, and all that Spark SQL means otherwise -----------------------------------------------------

WILD_SCHEMA = (
    "id LONG, n LONG, huge DECIMAL(38, 0), x DOUBLE, f FLOAT, s STRING, b BOOLEAN, "
    "desk STRUCT<region: STRING, floor: INT, `odd name`: STRING>, tags MAP<STRING, STRING>, "
    "blob BINARY, list ARRAY<INT>, at TIMESTAMP, `desk.region` STRING"
)
WILD_NUMBERS = [
    "0", "1", "-1", "1.5", "-0.0", "9007199254740993", "9007199254740992.0", "9223372036854775807",
    "-9223372036854775808", "99999999999999999999999999999999999999", "1E38", "5E-324", "0.1",
    "1.7976931348623157E308",
]  # fmt: skip
WILD_NAMES = ["n", "huge", "x", "f", "s", "b", "desk.region", "desk.floor", 'desk."odd name"', "tags.color"]
WILD_NAMES += ["tags.size", "n.x", "s.t", "missing", '"desk.region"', "desk.missing"]


class WildConditions(Conditions):
    """Selectors over every type, with all that Spark SQL means otherwise."""

    def number(self) -> str:
        return self.random.choice(WILD_NAMES)

    text = number

    def constant(self) -> str:
        return self.random.choice((*WILD_NUMBERS, "'a'", "'1'"))

    def sum(self) -> str:
        left, right = self.number(), self.random.choice((self.number(), self.random.choice(WILD_NUMBERS)))
        return self.random.choice((left, f"{left} {self.random.choice('+-*/')} {right}", f"-{left}"))

    def condition(self, depth: int = 3) -> str:
        if depth == 0 and self.random.random() < 0.1:
            whole = self.random.choice(("desk", "tags", "blob", "list", "at"))
            return f"{whole} IS {self.negation()}NULL"
        return super().condition(depth)


def wild_events(random: Random, count: int) -> list[dict[str, Any]]:
    def some(values: list[Any]) -> Any:
        return None if random.random() < 0.2 else random.choice(values)

    limits = [2**63 - 1, -(2**63), 2**53, 2**53 + 1, 0, 1, -1]
    floats = [math.nan, math.inf, -math.inf, -0.0, 0.1, 1.5, 2.0**53, 5e-324, 1e38, 1.7976931348623157e308]
    return [
        {
            "id": each,
            "n": some(limits),
            "huge": some([10**38 - 1, 1 - 10**38, 2**64, 2**53 + 1, 0, 1]),
            "x": some(floats),
            "f": some([math.nan, math.inf, -0.0, 0.5, 1.5, 2.0**53]),
            "s": some([*TEXTS, "1", "a\\b", "a\nb"]),
            "b": some([True, False]),
            "desk": some([{"region": some(TEXTS), "floor": some([0, 1]), "odd name": some(["a", "1"])}]),
            "tags": some([{}, {"color": "a"}, {"color": "b", "size": None}, {"size": "1"}]),
            "blob": some([b"a"]),
            "list": some([[1]]),
            "at": some([datetime(2027, 1, 1, tzinfo=UTC)]),
            "desk.region": some(TEXTS),
        }
        for each in range(count)
    ]


def tried(source: Conditions, count: int) -> list[str]:
    """So many texts that are selectors; a few are refused as nonsense, such as ``-'a'``."""
    texts: list[str] = []
    while len(texts) < count:
        text = source.condition()
        try:
            Selector(text)
        except ValueError:
            continue
        texts.append(text)
    return texts


def stored(event: dict[str, Any]) -> tuple[Any, ...]:
    """An event as a row: what may have more than 64 bits is a decimal for Spark."""
    huge = event["huge"]
    return tuple({**event, "huge": None if huge is None else Decimal(huge)}.values())
