"""Links: cut in one or both directions, suspected, slow, of limited rate, or starved."""

from __future__ import annotations

from functools import partial

from gapless.core.events import SuspectRequested
from gapless.core.model import Micros, NodeId
from gapless.simulation.swarm.budget import Pair
from gapless.simulation.swarm.stage import Stage


def cut(stage: Stage, *, one_way: bool = False, noticed: bool = False) -> bool:
    """Cut a link that carries a session; a client's home link sometimes."""
    pair = _breakable(stage)
    if pair is None:
        return False
    cut_pair(stage, pair, one_way=one_way, noticed=noticed)
    return True


def cut_one_way(stage: Stage) -> bool:
    """Only one direction carries nothing any more."""
    return cut(stage, one_way=True)


def cut_noticed(stage: Stage) -> bool:
    """One end, or both, know at once."""
    return cut(stage, noticed=True)


def cut_pair(stage: Stage, pair: Pair, *, one_way: bool = False, noticed: bool = False) -> None:
    """Cut this link for a while."""
    stage.budget.spend(pair)
    stage.focus = pair
    stage.world.cut(*pair, one_way=one_way)
    if noticed:
        _suspect(stage, pair)
        if stage.rng.random() < 0.6:
            _suspect(stage, pair[::-1])
    stage.world.at(stage.world.now + stage.span(), partial(_heal, stage), pair)


def _heal(stage: Stage, pair: Pair) -> None:
    if pair in stage.budget.links:
        stage.budget.refund(pair)
        stage.world.heal(*pair)


def heal_early(stage: Stage) -> bool:
    """One of the cut links works again before its time."""
    broken = [each for each in stage.budget.links if each in stage.world.network.cut]
    if not broken:
        return True
    _heal(stage, stage.rng.choice(broken))
    return True


def _breakable(stage: Stage) -> Pair | None:
    brokers = stage.running() if stage.rng.random() < 0.8 else None
    pair = stage.session(among=brokers)
    if pair is None or stage.budget.is_broken(pair) or not stage.budget.has_room():
        return None
    return pair


def _suspect(stage: Stage, pair: Pair) -> None:
    host = stage.world.hosts[pair[0]]
    if pair[1] in host.sessions:
        host.receive(SuspectRequested(pair[1]))


def suspect(stage: Stage) -> bool:
    """One end takes the other for dead, without a reason."""
    pair = _breakable(stage)
    if pair is None:
        return False
    stage.budget.spend_for(pair, 2 * stage.features.breath + 2 * stage.features.timing.redial_most)
    _suspect(stage, pair)
    return True


# -- slow, not broken --------------------------------------------------------------------------------------


def slowest(stage: Stage) -> int:
    """The factor by which a direction may be slow without being suspected."""
    return max(1, stage.features.slack // stage.features.latency.most)


def slow_down(stage: Stage) -> bool:
    """Some directions are slow for a while."""
    slowness = stage.world.network.slowness
    for _ in range(stage.rng.randrange(1, 4)):
        pair = stage.session()
        if pair is not None and pair not in slowness:
            slowness[pair] = stage.rng.randrange(1, slowest(stage) + 1)
            stage.world.at(stage.world.now + 2 * stage.span(), partial(_speed_up, stage), pair)
    return bool(slowness)


def _speed_up(stage: Stage, pair: Pair) -> None:
    stage.world.network.slowness.pop(pair, None)


def slow_line(stage: Stage) -> bool:
    """Some directions carry few messages a second for a while."""
    rates = stage.world.network.us_per_message
    for _ in range(stage.rng.randrange(1, 3)):
        pair = stage.session()
        if pair is not None and pair not in rates:
            rates[pair] = line_rate(stage)
            stage.world.at(stage.world.now + 2 * stage.span(), partial(_widen, stage), pair)
    return bool(rates)


def line_rate(stage: Stage) -> Micros:
    """The time that a message occupies a slow line."""
    most = max(stage.features.slack - stage.features.latency.most, 1_000)
    return min(most, stage.gap(most))


def _widen(stage: Stage, pair: Pair) -> None:
    stage.world.network.us_per_message.pop(pair, None)


def starve(stage: Stage) -> bool:
    """A direction carries only signs of life for a while: nobody suspects it, and nothing arrives.

    One at a time, and not for long against a lease: what is under way longer than that is forgotten.
    """
    pair = stage.session()
    network = stage.world.network
    if pair is None or network.starved:
        return False
    network.starved[pair] = None
    span = min(2 * stage.span(), stage.features.limits.lease // 4)
    stage.world.at(stage.world.now + span, partial(_feed, stage), pair)
    return True


def _feed(stage: Stage, pair: Pair) -> None:
    if pair in stage.world.network.starved:
        stage.world.network.feed(*pair)


# -- clients -----------------------------------------------------------------------------------------------


def move_a_client(stage: Stage) -> bool:
    """A client loses its home for a while, and lives elsewhere."""
    clients = [name for name in stage.clients() if stage.world.hosts[name].connections]
    if not clients or not stage.budget.has_room():
        return False
    client = stage.rng.choice(clients)
    pair = client, stage.world.home(client)
    if stage.budget.is_broken(pair):
        return False
    cut_pair(stage, pair, noticed=stage.rng.random() < 0.7)
    return True


def cut_off_a_client(stage: Stage) -> bool:
    """Nobody reaches a client for a while, shorter or longer than its lease."""
    clients = stage.clients()
    if not clients:
        return False
    client = stage.rng.choice(clients)
    brokers = stage.world.brokers()
    for broker in brokers:
        if not stage.budget.is_broken((client, broker)):
            stage.world.cut(client, broker)
    lease = stage.features.limits.lease
    lasts = stage.rng.choice((stage.span(), min(2 * lease, 6 * stage.features.breath)))
    stage.world.at(stage.world.now + lasts, partial(_let_back, stage, brokers), client)
    return True


def _let_back(stage: Stage, brokers: list[NodeId], client: NodeId) -> None:
    for broker in brokers:
        if not stage.budget.is_broken((client, broker)):
            stage.world.heal(client, broker)
