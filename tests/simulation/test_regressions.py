"""Seeds in which a promise was once broken, each by another cause; they stay clean."""

from __future__ import annotations

import pytest

from gapless.simulation.run import Options, simulate

ONCE_BROKEN = [
    # a subscription that is streamed back towards its client must not invent a way
    pytest.param({"crashes": 4, "cuts": 3}, 14, id="way back"),
    # what came before the subscription was live must not count as promised
    pytest.param({}, 14, id="before live"),
    # a better copy must not lend its numbers
    pytest.param(
        {"delta": 2, "brokers": 38, "fanout": 6, "publishers": 3, "subscribers": 4, "crashes": 13, "cuts": 9}
        | {"latency_ms": 20.0},
        5089,
        id="numbers of a better copy",
    ),
    # a start is exact only where the publisher has stayed
    pytest.param(
        {"brokers": 5, "fanout": 1, "publishers": 3, "subscribers": 4, "events": 40, "crashes": 12}
        | {"latency_ms": 1.0},
        6143,
        id="publisher that moved",
    ),
    # the orders must hear of every change of the frontier, not only of the active sessions
    pytest.param(
        {"delta": 3, "brokers": 6, "fanout": 5, "publishers": 1, "subscribers": 2, "crashes": 10, "cuts": 5}
        | {"latency_ms": 1.0},
        5113,
        id="frontier without active change",
    ),
    # a partition behind an unreached broker is not that broker
    pytest.param(
        {"brokers": 8, "fanout": 2, "delta": 3, "publishers": 1, "subscribers": 5, "events": 200}
        | {"crashes": 10, "cuts": 9},
        101014,
        id="tag of a longer partition",
    ),
    # all who knew a live subscription crash together, and who hears of it anew is not settled just then
    pytest.param(
        {"brokers": 2, "publishers": 1, "subscribers": 1, "events": 20, "crashes": 6, "max_down": 2}
        | {"latency_ms": 60.0},
        81,
        id="lost by everybody",
    ),
    # events that waited for admission were taken over after their client had left
    pytest.param(
        {"brokers": 7, "fanout": 2, "subscribers": 5, "events": 200, "crashes": 6, "cuts": 5}
        | {"latency_ms": 20.0},
        302545,
        id="left while waiting",
    ),
]


@pytest.mark.parametrize(("options", "seed"), ONCE_BROKEN)
def test_a_seed_that_was_broken_once_is_clean(options: dict[str, float], seed: int) -> None:
    outcome, _ = simulate(Options(**options), seed)  # type: ignore[arg-type]
    assert outcome.ok, outcome.violations
