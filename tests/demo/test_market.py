"""The verdict of the demonstration: a judge that says what is wrong with what a subscriber got."""

from __future__ import annotations

from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from gapless.cli import app
from gapless.demo import story as play
from gapless.demo.market import Desk, Reader, Verdict
from gapless.demo.story import Story

WANTED = [("desk", sequence) for sequence in (4, 6, 8, 10)]
"""Every second trade matches, and the promise begins with the third."""


def judged(got: list[tuple[str, int]], resets: int = 0) -> tuple[Verdict, Desk]:
    publisher: Any = SimpleNamespace(confirmed=10)
    desk = Desk("desk", publisher, Random(0), [{"n": n, "even": n % 2 == 0} for n in range(1, 11)])
    subscription: Any = SimpleNamespace(start={"desk": 3}, latency=0.1)
    reader = Reader("even", "b0", "even", subscription, got, resets)
    return reader.judge([desk]), desk


def faults(verdict: Verdict) -> dict[str, int]:
    counts = {name: getattr(verdict, name) for name in ("missing", "twice", "out_of_order", "unwanted")}
    return {name: count for name, count in counts.items() if count}


def test_all_that_is_wanted_and_nothing_else_is_right() -> None:
    verdict, _ = judged(WANTED)
    assert verdict.ok
    assert faults(verdict) == {}


@pytest.mark.parametrize(
    ("got", "wrong"),
    [
        (WANTED[:-1], {"missing": 1}),
        ([*WANTED, WANTED[-1]], {"twice": 1}),
        ([WANTED[1], WANTED[0], *WANTED[2:]], {"out_of_order": 1}),
        ([("desk", 2), *WANTED], {"unwanted": 1}),
        ([*WANTED, ("desk", 11)], {"unwanted": 1}),
        ([], {"missing": 4}),
    ],
)
def test_what_is_wrong_is_counted(got: list[tuple[str, int]], wrong: dict[str, int]) -> None:
    verdict, _ = judged(got)
    assert not verdict.ok
    assert faults(verdict) == wrong


def test_a_reset_is_wrong_too() -> None:
    assert not judged(WANTED, resets=1)[0].ok


@pytest.mark.parametrize(("got", "code"), [(WANTED, 0), (WANTED[1:], 1)])
def test_the_exit_code_is_the_verdict(
    got: list[tuple[str, int]], code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def played(story: Story, *_: Any, **__: Any) -> None:
        verdict, desk = judged(got)
        story.desks, story.readers, story.verdicts = [desk], [verdict.reader], [verdict]

    monkeypatch.setattr(play, "run", played)
    done = CliRunner().invoke(app, ["demo"])
    assert done.exit_code == code, done.output
    assert "10 published, 10 confirmed" in done.output
    assert ("violated: see the table" in done.output) is bool(code)
