"""Logs longer than a message go in pieces, at low priority, and round whoever does not have them yet (D3-74).

Pieces of one entry make every log a long one, and slow lines let everything else overtake them.
"""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.limits import Limits
from gapless.core.messages import Log, LogReceived, Publications
from gapless.core.model import MILLISECOND, SECOND
from gapless.simulation import run
from gapless.simulation.run import Options, simulate
from gapless.simulation.world import World
from support import (
    RECOVERED,
    TOPIC,
    Messages,
    active,
    assert_promises,
    chain,
    delivered,
    lives,
    publish_all,
    publisher_order,
    start_network,
    subscribe_all,
)

LINES = (1 * MILLISECOND, 5 * MILLISECOND, 20 * MILLISECOND)


PIECES_OF_ONE = Limits(piece=1)


def slow_lines(world: World) -> None:
    """Some links carry only so many messages a second."""
    rng = world.random("lines")
    for a in world.hosts:
        for b in world.hosts:
            if a != b and rng.random() < 0.4:
                world.network.us_per_message[a, b] = rng.choice(LINES)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(12))
def test_no_promise_is_broken_while_long_logs_are_under_way(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    build = run.build

    def with_slow_lines(options: Options, seed: int) -> World:
        world = build(options, seed, limits=PIECES_OF_ONE)
        slow_lines(world)
        return world

    monkeypatch.setattr(run, "build", with_slow_lines)
    rng = Random(seed)
    options = Options(
        brokers=rng.randrange(3, 10), delta=1 + seed % 2, subscribers=5, events=60, crashes=5, cuts=4
    )
    outcome, _ = simulate(options, seed)
    assert outcome.ok, outcome.violations[:3]


def recovering(world: World, count: int) -> Messages:
    """a–r–c with many subscriptions at c; r restarts, and the line from a to r is slow."""
    subscribe_all(world, {"s": ""})
    for k in range(count):
        world.subscribe("many", f"many/{k}", TOPIC, f"n = {-1 - k}")
    world.run_until(lambda: all(lives(world, f"many/{k}") for k in range(count)))
    world.crash("r")
    world.run_for(4 * SECOND)
    world.network.us_per_message["a", "r"] = 50 * MILLISECOND
    sent = Messages(world)
    world.restart("r")
    return sent


def test_who_receives_a_long_log_is_gone_round() -> None:
    world = start_network(chain("a", "r", "c"), {"p": "a", "s": "c", "many": "c"}, limits=PIECES_OF_ONE)
    sent = recovering(world, 20)
    world.run_until(lambda: "r" in world.broker("a").overlay.held)
    assert active(world, "a") == ["c"]
    publish_all(world, "p", 3)
    world.run_for(100 * MILLISECOND)
    assert delivered(world, "s") == [1, 2, 3], "at once, and not by r"
    world.run_until(lambda: active(world, "a") == ["r"])
    told = [each for source, target, each in sent.of(Log) if (source, target) == ("a", "r")]
    assert max(len(each.entries) for each in told) == 1
    answers = [(source, target) for source, target, _ in sent.of(LogReceived)]
    assert ("r", "a") in answers
    publish_all(world, "p", 3)
    world.run_for(RECOVERED)
    assert delivered(world, "s") == [1, 2, 3, 4, 5, 6]
    assert_promises(world)


def test_what_comes_while_a_long_log_is_under_way_follows_it() -> None:
    """A new subscription, and an event for it: r has the one before the other."""
    world = start_network(
        chain("a", "r", "c"), {"p": "a", "s": "c", "many": "c", "new": "r"}, limits=PIECES_OF_ONE
    )
    sent = recovering(world, 20)
    world.run_until(lambda: "r" in world.broker("a").overlay.held)
    world.subscribe("new", "new", TOPIC, "")
    world.run_for(RECOVERED)
    assert lives(world, "new")
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    assert delivered(world, "new") == [1, 2, 3]
    order = [
        type(each) for source, target, each in sent.of(Log, Publications) if (source, target) == ("a", "r")
    ]
    assert order.index(Publications) >= 20
    assert publisher_order(world, "r").log.length >= 21
    assert_promises(world)


def test_a_log_that_fits_into_a_message_waits_for_nobody() -> None:
    world = start_network(chain("a", "r", "c"), {"p": "a", "s": "c", "many": "c"})
    sent = recovering(world, 20)
    world.run_for(RECOVERED)
    assert sent.of(LogReceived) == []
    assert world.broker("a").overlay.held == {}
