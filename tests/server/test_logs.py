"""Log lines: one a thing, with facts, and no more of them than a disk can bear."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator

import pytest

from gapless.server.logs import Log, Throttle, set_up


@pytest.fixture
def lines() -> Iterator[io.StringIO]:
    logger = logging.getLogger("gapless")
    before = (logger.handlers, logger.level, logger.propagate)
    yield io.StringIO()
    logger.handlers, logger.level, logger.propagate = before


def test_text_for_people(lines: io.StringIO) -> None:
    set_up("text", lines)
    Log("b1").say("session up", peer="b2", dialed=True, reason="two words")
    (line,) = lines.getvalue().splitlines()
    assert line.endswith('INFO    session up node=b1 peer=b2 dialed=True reason="two words"')


def test_json_for_machines(lines: io.StringIO) -> None:
    set_up("json", lines)
    Log("b1").warn("store cut", bytes=17, error=ValueError("x"))
    (line,) = map(json.loads, lines.getvalue().splitlines())
    assert line.pop("time").endswith("Z")
    assert line == {"level": "warning", "what": "store cut", "node": "b1", "bytes": 17, "error": "x"}


@pytest.mark.parametrize("style", ["text", "json"])
def test_what_came_from_outside_stays_on_its_line(lines: io.StringIO, style: str) -> None:
    set_up(style, lines)
    Log("b1").say("refused", reason="x\nINFO stopped\x1b[2J" + "y" * 10_000)
    (line,) = lines.getvalue().splitlines()
    assert line.isprintable()
    assert len(line) < 600


@pytest.mark.parametrize("style", ["text", "json"])
def test_an_exception_is_shown(lines: io.StringIO, style: str) -> None:
    set_up(style, lines)
    try:
        raise ValueError("why")
    except ValueError as error:
        logging.getLogger("gapless").error("b1 stops", exc_info=error)
    assert "ValueError: why" in lines.getvalue()


def test_a_throttle_lets_a_burst_through_and_then_counts() -> None:
    now = 0.0
    throttle = Throttle(burst=3, every=2.0, clock=lambda: now)
    assert [throttle.admit("x") for _ in range(5)] == [0, 0, 0, None, None]
    assert throttle.admit("another kind") == 0
    now = 2.0
    assert [throttle.admit("x") for _ in range(2)] == [2, None]
    now = 1000.0
    assert [throttle.admit("x") for _ in range(4)] == [1, 0, 0, None]


def test_noise_says_how_much_was_left_out(lines: io.StringIO) -> None:
    set_up("text", lines)
    log = Log("b1")
    for _ in range(1000):
        log.noise("refused", address="x")
    assert 50 <= len(lines.getvalue().splitlines()) < 60
