"""How long a broker waits for a client, over its restarts and whatever its clock says."""

from __future__ import annotations

import pytest

from gapless.core.effects import ClientAway, Effect, Persist, Record
from gapless.core.limits import Limits
from gapless.core.model import Micros
from gapless.core.orders.publisher.patience import PARTS, Patience

LEASE = 800
LIMITS = Limits(lease=LEASE)


class Lives:
    """A broker that looks after client ``c``, life after life, with what it has made durable."""

    def __init__(self, limits: Limits = LIMITS) -> None:
        self.limits = limits
        self.store: list[Record] = []

    def runs(self, span: Micros, *, clock: Micros = 0, connected: bool = False) -> bool:
        """One life, in which c is away, or connected, from the beginning; whether c was given up in it."""
        out: list[Effect] = []
        patience = Patience(self.limits, out, self.store)
        if connected:
            patience.back("c")
        patience.away([] if connected else ["c"], clock, are_all=False)
        patience.plan(clock, something_waits=False)
        given_up = False
        while not given_up and patience.wake_at is not None and patience.wake_at <= clock + span:
            now = patience.wake_at
            given_up = patience.exhausted(now) == ["c"]
            patience.note(now)
            patience.plan(now, something_waits=False)
        self.store += [each.record for each in out if isinstance(each, Persist)]
        return given_up


def test_a_lease_runs_over_the_lives_of_a_broker() -> None:
    lives = Lives()
    assert not any(lives.runs(LEASE // 4) for _ in range(3))
    assert lives.runs(LEASE // 4)


@pytest.mark.parametrize("clock", [-(10**12), 10**12])
def test_only_the_time_that_the_broker_runs_counts(clock: Micros) -> None:
    lives = Lives()
    assert not lives.runs(LEASE // 2)
    assert not lives.runs(LEASE // 2 - 1, clock=clock)
    assert lives.runs(LEASE // 2, clock=2 * clock)


def test_a_life_costs_a_lease_at_most_one_part() -> None:
    lives = Lives()
    part = LEASE // PARTS
    assert [lives.runs(2 * part - 1) for _ in range(PARTS)] == [False] * (PARTS - 1) + [True]


def test_whoever_may_have_come_back_meanwhile_has_a_part_of_a_lease_to_attach() -> None:
    lives = Lives()
    part = LEASE // PARTS
    assert not lives.runs(LEASE - 1)
    assert not any(lives.runs(part - 1) for _ in range(100))
    assert lives.runs(part)


def test_who_is_back_begins_a_new_lease() -> None:
    lives = Lives()
    assert not lives.runs(LEASE - 1)
    assert not lives.runs(0, connected=True)
    assert not lives.runs(LEASE - 1)


def test_nothing_is_durable_of_short_absences_and_in_the_end() -> None:
    lives = Lives()
    assert not lives.runs(LEASE // PARTS - 1)
    assert lives.store == []
    assert lives.runs(LEASE)
    assert lives.store[-1] == ClientAway("c")
    assert len(lives.store) == PARTS


def test_who_is_known_to_be_nobody_to_wait_for_is_forgotten() -> None:
    """A broker that was told all that there is has not heard of a client that it had waited for."""
    out: list[Effect] = []
    patience = Patience(LIMITS, out, [ClientAway("c", LEASE // 2)])
    patience.away([], 0, are_all=False)
    assert out == []
    patience.away([], 0, are_all=True)
    assert out == [Persist(ClientAway("c"))]


@pytest.mark.parametrize("lease", [1, 2, 7, 9, 17])
def test_the_smallest_leases_end(lease: Micros) -> None:
    lives = Lives(Limits(lease=lease))
    assert not lives.runs(lease - 1)
    assert lives.runs(lease)
