"""Golden traces: each file of this directory is a story that must happen literally as it is written.

``scenario.py`` has the commands and the format.
"""

from __future__ import annotations

import difflib
from pathlib import Path

import pytest

from traces.scenario import ScenarioError, tell

STORIES = sorted(Path(__file__).parent.glob("*.txt"))


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_trace(path: Path, request: pytest.FixtureRequest) -> None:
    written = path.read_text(encoding="utf-8")
    happened = tell(written)
    if happened == written:
        return
    if request.config.getoption("--rewrite-traces"):
        path.write_text(happened, encoding="utf-8")
        return
    lines = difflib.unified_diff(
        written.splitlines(), happened.splitlines(), f"{path.name} as written", "as it happens", lineterm=""
    )
    pytest.fail(
        "\n".join(lines) + "\n\nThe story goes differently now. `pytest tests/traces --rewrite-traces` writes"
        " down what happens;\nonly commit the change if you understand what caused it.",
        pytrace=False,
    )


def test_there_are_stories() -> None:
    assert len(STORIES) >= 8


def test_the_same_story_is_told_twice() -> None:
    story = "> brokers A-B-C delta=1\n> crash B silently\n> run 3s\n> state\n"
    told = tell(story)
    assert told == tell(told)


@pytest.mark.parametrize(
    ("story", "complaint"),
    [
        ("> brokers A\n> dance A\n", "line 2: ValueError: there is no command 'dance'"),
        ("> brokers A-B\n\n> crash C\n", "line 3: KeyError: 'C'"),
        ("    0 ms  A       dials B\n", "line 1: output without a command"),
        ("brokers A\n", "line 1: neither a command, nor output, nor a comment: 'brokers A'"),
    ],
)
def test_a_mistake_in_a_story_is_named(story: str, complaint: str) -> None:
    with pytest.raises(ScenarioError) as error:
        tell(story)
    assert str(error.value) == complaint
