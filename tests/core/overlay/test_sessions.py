from __future__ import annotations

from random import Random

import pytest

from gapless.core.effects import Connect, Disconnect, Effect, Send
from gapless.core.messages import Ping
from gapless.core.model import MILLISECOND, SECOND, Identity
from gapless.core.overlay.sessions import RETIRED, Sessions, Timing

TIMING = Timing()


class Fixture:
    """Sessions, with what they want done."""

    def __init__(self) -> None:
        self.out: list[Effect] = []
        self.sessions = Sessions(TIMING, Random(0), self.out)

    def take(self) -> list[Effect]:
        effects = self.out[:]
        self.out.clear()
        return effects

    def up(self, *peers: str, dialed: bool = True, now: int = 0) -> None:
        for peer in peers:
            self.sessions.opened(Identity(peer, 1), dialed, now)


@pytest.fixture
def made() -> Fixture:
    return Fixture()


def test_a_wanted_peer_is_dialed_once(made: Fixture) -> None:
    made.sessions.want(["a", "b"], [], 0)
    made.sessions.want(["a", "b"], [], 1)
    assert made.take() == [Connect("a"), Connect("b")]
    made.up("a")
    made.sessions.want(["b"], ["a"], 2)
    assert made.take() == []


def test_pauses_between_dials_double_up_to_a_limit(made: Fixture) -> None:
    sessions, now, pauses = made.sessions, 0, []
    for _ in range(9):
        sessions.want(["a"], [], now)
        assert made.take() == [Connect("a")]
        sessions.dial_failed("a", now)
        due = sessions.wake_at()
        assert due is not None
        sessions.want(["a"], [], due - 1)
        assert made.take() == []
        pauses.append(due - now)
        now = due
    expected = [min(TIMING.redial_first << k, TIMING.redial_most) for k in range(9)]
    assert all(least <= pause <= least * 5 // 4 for least, pause in zip(expected, pauses, strict=True))
    made.up("a", now=now)
    sessions.lost("a", now)
    sessions.want(["a"], [], now)
    assert made.take() == [], "who was sent away without a word comes back after the pause"
    made.up("a", now=now)
    sessions.up["a"].has_been_heard = True
    sessions.lost("a", now)
    sessions.want(["a"], [], now)
    assert made.take() == [Connect("a")], "a session that broke is dialed again at once"


def test_a_failed_peer_that_nobody_wants_is_forgotten(made: Fixture) -> None:
    made.up("a")
    made.sessions.lost("a", 5)
    assert list(made.sessions.failed) == ["a"]
    made.sessions.want([], [], 6)
    assert made.sessions.failed == {}
    assert made.sessions.wake_at() == TIMING.ping_every


def test_a_late_failure_of_a_dial_does_not_harm_the_session_that_the_peer_opened(made: Fixture) -> None:
    made.sessions.want(["a"], [], 0)
    made.up("a", dialed=False)
    made.sessions.dial_failed("a", 1)
    assert list(made.sessions.up) == ["a"]
    assert made.sessions.failed == {}


def test_signs_of_life_are_regular_and_silence_is_suspected(made: Fixture) -> None:
    made.up("a", "b")
    now = 0
    for _ in range(10):
        now += TIMING.ping_every
        made.sessions.up["a"].heard_at = now
        assert made.sessions.ping(now - 1) == []
        silent = made.sessions.ping(now)
        assert silent == (["b"] if now >= TIMING.suspect_after else [])
        assert made.take() == [Send(peer, Ping()) for peer in ("a", "b") if peer not in silent]


def test_pings_stop_with_the_last_session_and_begin_again(made: Fixture) -> None:
    made.up("a")
    made.sessions.lost("a", 1)
    made.sessions.want([], [], 1)
    assert made.sessions.ping(TIMING.ping_every) == []
    assert made.sessions.wake_at() is None
    made.up("a", now=SECOND)
    assert made.sessions.wake_at() == SECOND + TIMING.ping_every


def test_only_the_side_that_dialed_retires_an_unneeded_session(made: Fixture) -> None:
    made.up("mine")
    made.up("theirs", dialed=False)
    made.sessions.want([], ["mine"], 0)
    assert made.sessions.retire(TIMING.retire_after) == []
    made.sessions.want([], [], 10)
    assert made.sessions.retire(TIMING.retire_after + 9) == []
    assert made.sessions.retire(TIMING.retire_after + 10) == ["mine"]
    assert made.take() == [Disconnect("mine", RETIRED)]
    assert list(made.sessions.up) == ["theirs"]


def test_a_session_that_is_needed_again_is_kept(made: Fixture) -> None:
    made.up("a")
    made.sessions.want([], [], 0)
    made.sessions.want([], ["a"], 10)
    assert made.sessions.retire(2 * TIMING.retire_after) == []


def test_closing_a_suspected_session_leaves_the_peer_failed(made: Fixture) -> None:
    made.up("a")
    made.sessions.close("a", "silent", 7)
    assert made.take() == [Disconnect("a", "silent")]
    assert list(made.sessions.failed) == ["a"]
    assert "a" not in made.sessions.up


def test_two_sessions_with_one_peer_are_the_drivers_mistake(made: Fixture) -> None:
    made.up("a")
    with pytest.raises(AssertionError, match="old session down first"):
        made.up("a")


def test_patience_must_exceed_the_pause_between_two_signs_of_life() -> None:
    with pytest.raises(ValueError, match="twice"):
        Timing(ping_every=100 * MILLISECOND, suspect_after=150 * MILLISECOND)
