"""What the run of a seed has: which acts, which limits and timings, what network and which topics."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from gapless.core.limits import Limits
from gapless.core.model import MILLISECOND, SECOND, BeyondDelta, Micros, OrderName, Topic
from gapless.core.overlay.sessions import Timing
from gapless.simulation.network import Latency
from gapless.simulation.swarm.squeezes import PLAIN, REST, Squeeze, repertoire

USUAL = (
    "crash",
    "crash silently",
    "crash and lose what is under way",
    "crash in a batch",
    "crash in a write",
    "black out",
    "crash a client",
    "cut",
    "cut one way",
    "cut noticed",
    "suspect",
    "slow down",
    "slow line",
    "starve",
    "cut off a client",
    "move a client",
    "adopt",
    "lose a store",
    "share a name",
    "double a client",
    "double a broker",
    "foreign broker",
    "join",
    "leave",
    "replace",
    "remove",
    "aim at a message",
    "aim at a phase",
)
WEARING = "wear a broker down"
"""What only seeds have whose leases are short: in others no lease ends."""
RETURNING = "start a removed broker"
"""What only seeds have that remove some."""
WITHDRAWING = ("adopt", "lose a store", "share a name", "double a client", "replace")
"""Acts because of which promises may be withdrawn, whatever else happens."""
FAULTS = (*USUAL, WEARING, RETURNING)
"""Acts that a seed may have or not."""
CALM = ("publish", "burst", "subscribe", "unsubscribe", "connect", "heal")
"""Acts that every seed has."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Features:
    """All that is drawn before the run begins."""

    delta: int
    max_down: int
    brokers: int
    fanout: int
    clients: int
    faults: tuple[str, ...]
    episodes: int
    acts: int
    """How many acts an episode has."""
    fault_share: float
    """The part of the acts that are faults."""
    squeezes: float
    """The part of the episodes that are squeezes."""
    repertoire: tuple[Squeeze, ...]
    """The squeezes that the seed comes back to."""
    background: int
    """How many events are published at any time, besides those of the acts."""
    window: int
    """How many events of a publisher may be unconfirmed; what it would publish beyond is left out."""
    simple: bool
    """Whether selectors are few and simple, so that most events matter to somebody."""
    topics: tuple[Topic, ...]
    limits: Limits
    timing: Timing
    latency: Latency
    lasting: int
    """How many times longer than usual failures last."""
    slow_directions: int
    lines: int
    """How many directions have a limited rate."""
    proxying: bool
    clock_steps: bool

    @property
    def is_beyond(self) -> bool:
        """Whether more may fail at a time than δ."""
        return self.max_down > self.delta

    @property
    def breath(self) -> Micros:
        """The unit of time of the run: after so long a silence a peer is suspected."""
        return self.timing.suspect_after

    @property
    def slack(self) -> Micros:
        """How late a message may be without a suspicion; what is slower than that is a failure."""
        return max(1, (self.timing.suspect_after - self.timing.ping_every) * 9 // 10)


def features_of(seed: int) -> Features:
    """What the seed has."""
    rng = Random(f"swarm {seed}")
    beyond = rng.random() < 0.35
    delta = rng.choice((1, 1, 1, 2) if beyond else (1, 1, 1, 2, 2, 3, 3))
    latency, timing = _times(rng)
    share = rng.choice((0.15, 0.4, 0.7))
    faults = tuple(each for each in USUAL if rng.random() < share) or (rng.choice(USUAL),)
    features = Features(
        delta=delta,
        max_down=delta + (rng.choice((1, 1, 2, 5, 6, 6)) if beyond else 0),
        brokers=rng.choice((3, 5, 6, 7, 8, 8) if beyond else (2, 3, 3, 3, 4, 4, 5, 6, 8)),
        fanout=rng.choice((1, 1, 1, 2) if beyond else (1, 2, 3)),
        clients=rng.randrange(4, 9) if beyond else rng.randrange(2, 6),
        faults=faults,
        episodes=rng.randrange(3, 13),
        acts=rng.choice((4, 8, 16)),
        fault_share=rng.choice((0.2, 0.35, 0.5)),
        squeezes=rng.choice((0.2, 0.5, 0.9)),
        repertoire=repertoire(rng, beyond=beyond),
        background=rng.choice((0, 0, 20, 60)),
        window=rng.choice((1, 4, 20, 1_000, 1_000)),
        simple=rng.random() < 0.8,
        topics=_topics(rng, beyond=beyond),
        limits=_limits(rng, timing),
        timing=timing,
        latency=latency,
        lasting=rng.choice((1, 2, 4) if beyond else (1, 1, 1, 3)),
        slow_directions=rng.choice((0, 0, 1, 2, 4)),
        lines=rng.choice((0, 0, 0, 1, 3)),
        proxying=rng.random() < 0.3,
        clock_steps=rng.random() < 0.5,
    )
    features = _plain(features, Random(f"swarm {seed} plain"))
    features = _wearing(features, Random(f"swarm {seed} {WEARING}"))
    return _returning(features, Random(f"swarm {seed} {RETURNING}"))


def _plain(features: Features, rng: Random) -> Features:
    """Most seeds within δ have hardly anything because of which a promise may be withdrawn: what a `Reset`
    announces hides what is lost besides."""
    if features.is_beyond or rng.random() < 0.35:
        return features
    usual = Limits()
    return replace(
        features,
        faults=tuple(each for each in features.faults if each not in WITHDRAWING) or ("crash",),
        squeezes=rng.choice((0.5, 0.9)),
        repertoire=tuple(rng.choice(PLAIN) for _ in range(rng.choice((1, 1, 2)))),
        limits=replace(features.limits, lease=usual.lease, custody=usual.custody),
        proxying=False,
    )


def _wearing(features: Features, rng: Random) -> Features:
    """With a generator of its own: all that has nothing to do with it stays as it is drawn."""
    if features.limits.lease > 10 * features.breath or rng.random() < 0.5:
        return features
    squeeze = (WEARING, "publish", REST, "publish", REST, "publish", REST, "publish")
    return replace(features, faults=(*features.faults, WEARING), repertoire=(*features.repertoire, squeeze))


def _returning(features: Features, rng: Random) -> Features:
    """With a generator of its own, too."""
    if "remove" not in features.faults or rng.random() < 0.5:
        return features
    squeeze = ("remove", REST, REST, rng.choice(("part", "down")), RETURNING, "publish", "publish", RETURNING)
    return replace(features, faults=(*features.faults, RETURNING), repertoire=(*features.repertoire, squeeze))


def _times(rng: Random) -> tuple[Latency, Timing]:
    """Latencies, and a failure detector that takes none of them for a failure."""
    latency = Latency(
        int(rng.choice((0.5, 1, 1, 5, 20)) * MILLISECOND), tail_chance=rng.choice((0, 0, 0.02, 0.1))
    )
    suspect_after = max(rng.choice((300, 900, 900, 1_500)) * MILLISECOND, 3 * latency.most)
    ping_every = suspect_after // rng.choice((3, 4, 5))
    return latency, Timing(
        ping_every=ping_every,
        suspect_after=suspect_after,
        redial_first=rng.choice((20, 100)) * MILLISECOND,
        redial_most=rng.choice((200, 2_000)) * MILLISECOND,
        retire_after=rng.choice((100, 1_000)) * MILLISECOND,
        give_up_join_after=rng.choice((3, 10)) * SECOND,
    )


def _topics(rng: Random, *, beyond: bool) -> tuple[Topic, ...]:
    hold = Topic("market", OrderName.PUBLISHER, BeyondDelta.HOLD)
    mark = Topic("tape", OrderName.PUBLISHER, BeyondDelta.MARK)
    alone = ((hold,), (hold,), (hold,), (mark,))
    return rng.choice((*alone, *[(hold, mark)] * (4 if beyond else 1)))


def _limits(rng: Random, timing: Timing) -> Limits:
    """Each bound by itself is usual or tiny."""
    usual = Limits()
    lease = rng.choice((1, 1, 1, 1, 4)) * usual.lease
    if rng.random() < 0.15:
        lease = 4 * timing.suspect_after
    return Limits(
        lease=lease,
        custody=rng.choice((usual.custody,) * 4 + (2, 2, 5, 40)),
        waiting=rng.choice((usual.waiting, usual.waiting, 1, 5)),
        look_every=rng.choice((usual.look_every, 100 * MILLISECOND)),
        piece=rng.choice((usual.piece, 1, 1, 2, 5)),
        batch=rng.choice((usual.batch, 1, 2, 2, 8)),
        tombstones=rng.choice((usual.tombstones, usual.tombstones, 1, 5)),
        strangers=usual.strangers,
    )
