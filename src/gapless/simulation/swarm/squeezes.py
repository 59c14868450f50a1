"""Squeezes: acts that are dangerous one after the other, close together.

Somebody is not reached, somebody else hears late, a subscription comes just then, publishers move, and who
knows most crashes. A slot of a squeeze is an act, or a kind of acts of which the run draws one; ``rest`` lets
the failure detector do its work. A seed has a few squeezes, some of them made up by itself, and comes back to
them: what nearly went wrong once has more than one chance.
"""

from __future__ import annotations

from random import Random
from typing import TypeAlias

Squeeze: TypeAlias = tuple[str, ...]

REST = "rest"
KINDS: dict[str, tuple[str, ...]] = {
    "break": (
        "crash",
        "crash silently",
        "crash and lose what is under way",
        "crash in a batch",
        "cut",
        "cut one way",
        "cut noticed",
        "suspect",
        "move a client",
        "aim at a message",
        "aim at a phase",
    ),
    "down": ("crash", "crash silently", "crash and lose what is under way", "crash in a batch", "black out"),
    "part": ("cut", "cut one way", "cut noticed", "cut noticed", "suspect"),
    "hamper": ("slow down", "slow line", "starve"),
    "grow": ("join", "replace", "leave", "remove"),
    "name": ("lose a store", "share a name", "double a client", "double a broker", "adopt"),
}
SQUEEZES: tuple[Squeeze, ...] = (
    ("break", "hamper", "subscribe", "break", "publish", "publish"),
    ("break", "hamper", "subscribe", "connect", "break", "publish", "publish"),
    ("break", "hamper", "heal", "subscribe", "publish", "break", "publish"),
    ("hamper", "grow", "connect", "publish", "break", "publish", "publish"),
    ("grow", "connect", "publish", "subscribe", "publish", "publish"),
    ("break", "break", "burst", "hamper", "break", "burst", "heal", "publish"),
    ("subscribe", "break", "hamper", "burst", "heal", "break", "publish"),
    ("cut noticed", "hamper", "subscribe", "move a client", "publish", "publish"),
    ("cut noticed", "hamper", "subscribe", "connect", "crash", "publish", "publish"),
    ("cut noticed", "hamper", "heal", "subscribe", "hamper", "crash", "publish", "publish"),
    ("move a client", "burst", "hamper", "move a client", "burst", "publish"),
    # a peer whose long log is under way, and a restart beside it
    (
        "cut noticed",
        REST,
        "slow line",
        "heal",
        "hamper",
        "subscribe",
        "publish",
        "down",
        "publish",
        "publish",
    ),
    # guests of brokers that are not reached
    ("move a client", REST, "publish", "cut noticed", "subscribe", "publish", REST, "publish"),
    ("cut noticed", "move a client", "hamper", "publish", "heal", "subscribe", "publish", "heal", "publish"),
    # too much waits for somebody, and who gave up does not tell in time
    ("part", "burst", "burst", REST, "hamper", "heal", "down", "publish", "publish"),
    ("aim at a phase", "part", "burst", "burst", "hamper", REST, "heal", "publish", "publish"),
    ("part", "burst", "burst", REST, "publish", "move a client", "publish", "publish"),
    # what only those know who are lost
    ("cut noticed", "subscribe", "hamper", "heal", "down", "publish", REST, "down", "publish"),
    # names
    ("publish", "name", "publish", "name", "publish", "break", "publish"),
)
PLAIN = tuple(each for each in SQUEEZES if "name" not in each)
"""Those that need no promise to be withdrawn."""


BEYOND: tuple[Squeeze, ...] = (
    ("down", "down", REST, "publish", "publish", REST, "publish"),
    ("subscribe", "down", "down", "publish", "publish", "subscribe", REST, "publish", "publish"),
    ("aim at a phase", "black out", "aim at a phase", "publish", REST, "publish", "publish"),
    ("black out", "publish", REST, "publish", "publish", REST, "publish", "publish"),
    ("subscribe", "cut off a client", "black out", REST, "burst", REST, "burst", "publish"),
    ("connect", "subscribe", "black out", REST, "publish", "publish", "black out", REST, "burst"),
    (
        "cut off a client",
        "down",
        "down",
        "down",
        "down",
        "down",
        REST,
        "publish",
        REST,
        "burst",
        REST,
        "publish",
    ),
    ("subscribe", "down", "part", "down", REST, "burst", "heal", "publish", "publish"),
)
"""A row of failures, and what is published before all are back."""


def repertoire(rng: Random, *, beyond: bool) -> tuple[Squeeze, ...]:
    """The squeezes of a seed: most of them known, some made up."""
    found = []
    for _ in range(rng.choice((1, 2, 4))):
        known = BEYOND if beyond and rng.random() < 0.6 else SQUEEZES
        found.append(rng.choice(known) if rng.random() < 0.75 else _made_up(rng))
    return tuple(found)


def _made_up(rng: Random) -> Squeeze:
    slots = (*KINDS, *KINDS, REST, "publish", "publish", "burst", "subscribe", "subscribe", "connect", "heal")
    return (*(rng.choice(slots) for _ in range(rng.randrange(4, 9))), "publish", "publish")
