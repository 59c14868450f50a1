"""Random networks for a long simulation of publisher order: every seed is another one, under other faults.

Trees of 3 to 60 brokers, fan-out 1 to 7, δ = 1 … 3, crashes of brokers and clients, cuts, one-way cuts, false
suspicions and slow links, at most δ failures at a time."""

from __future__ import annotations

from random import Random

from gapless.simulation.run import Options


def options_of(seed: int) -> Options:
    """The network and the faults of a seed: mostly small ones, where things are close to each other."""
    rng = Random(f"soak {seed}")
    delta = rng.choice((1, 1, 2, 2, 3))
    most = rng.choice((8, 8, 20, 20, 40, 60))
    return Options(
        delta=delta,
        brokers=rng.randrange(max(3, delta + 2), most + 1),
        fanout=rng.choice((1, 2, 2, 3, 4, 5, 6, 7)),
        publishers=rng.randrange(1, 5),
        subscribers=rng.randrange(1, 6),
        events=rng.choice((40, 100, 200)),
        crashes=rng.randrange(14),
        cuts=rng.randrange(12),
        latency_ms=rng.choice((1.0, 5.0, 20.0)),
    )
