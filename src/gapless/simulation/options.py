"""What a run is made of, and what comes of it."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any

from gapless.core.model import BeyondDelta, OrderName


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """What a run is made of; with a seed it decides everything."""

    order: OrderName = OrderName.PUBLISHER
    repositories: int = 0
    brokers: int = 15
    fanout: int = 3
    delta: int = 1
    publishers: int = 4
    subscribers: int = 6
    events: int = 100
    crashes: int = 0
    cuts: int = 0
    max_down: int | None = None
    beyond_delta: BeyondDelta = BeyondDelta.HOLD
    latency_ms: float = 5.0
    swarm: bool = False
    """Everything else is drawn by the seed; see ``simulation.swarm``."""

    def __post_init__(self) -> None:
        smallest = {"brokers": 1, "fanout": 1, "latency_ms": 0.01}
        for each in fields(self):
            value = getattr(self, each.name)
            least = smallest.get(each.name, 0)
            if isinstance(value, int | float) and value < least:
                raise ValueError(f"{each.name.replace('_', '-')} must be at least {least}, not {value}")

    @property
    def budget(self) -> int:
        """The most failures at a time: δ, unless said otherwise."""
        return self.delta if self.max_down is None else self.max_down

    def as_arguments(self) -> list[str]:
        """The command-line options that differ from the defaults."""
        arguments = []
        for each in fields(self):
            value = getattr(self, each.name)
            if value is True:
                arguments.append(f"--{each.name}")
            elif value != each.default and value is not None:
                arguments += [f"--{each.name.replace('_', '-')}", str(value)]
        return arguments

    def command(self, seed: int) -> str:
        """The one command that runs a seed again."""
        return " ".join(["gapless simulate", *self.as_arguments(), "--seed", str(seed)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What came of a run."""

    seed: int
    verdict: str
    violations: list[dict[str, Any]]
    published: int
    delivered: int
    faults: int
    simulated_seconds: float
    digest: str
    messages: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    resets: int = 0
    """How many promises were withdrawn, and begun anew."""
    kinds: dict[str, int] = field(default_factory=dict)
    """How many faults of each kind there were, of a run that draws them by kinds."""

    @property
    def ok(self) -> bool:
        """Whether every promise was kept."""
        return self.verdict == "ok"
