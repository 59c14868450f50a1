"""LIKE against a regular expression on small alphabets, and the time it takes on large texts."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.selectors.like import matcher, segments


def by_expression(pattern: str, text: str) -> bool:
    parts = [
        ".*" if character == "%" else "." if character == "_" else re.escape(character)
        for character in pattern
    ]
    return re.fullmatch("".join(parts), text, re.DOTALL) is not None


@settings(max_examples=800, deadline=None)
@given(pattern=st.text("ab%_\n", max_size=8), text=st.text("ab\n", max_size=12))
def test_like_is_the_regular_expression(pattern: str, text: str) -> None:
    assert matcher(pattern, None)(text) == by_expression(pattern, text)


@pytest.mark.parametrize(
    ("pattern", "escape", "text", "expected"),
    [
        ("", None, "", True),
        ("", None, "a", False),
        ("%", None, "", True),
        ("a!%b", "!", "a%b", True),
        ("a!%b", "!", "axb", False),
        ("a!!%", "!", "a!b", True),
        ("!__", "!", "_x", True),
        ("%%_", "%", "%x", True),
        ("_", None, "\U0001f600", True),
        (".*", None, "ab", False),
        ("A", None, "a", False),
        ("ab%ba", None, "aba", False),
    ],
)
def test_examples(pattern: str, escape: str | None, text: str, expected: bool) -> None:
    assert matcher(pattern, escape)(text) is expected


def test_a_wrong_escape_is_refused() -> None:
    with pytest.raises(ValueError, match="before %, _ or itself"):
        segments("a!b", "!")


@pytest.mark.parametrize(
    ("pattern", "limit_seconds"),
    [
        ("%a%a%a%a%a%b", 0.1),
        ("%" + "a" * 200 + "b%", 0.1),
        ("%a" * 127 + "%b", 0.1),
        ("%" + "a_" * 120 + "b%", 1.0),
    ],
)
def test_no_pattern_is_slow_on_a_million_characters(pattern: str, limit_seconds: float) -> None:
    text = "a" * 1_000_000
    like = matcher(pattern, None)
    started = time.process_time()
    assert not like(text)
    assert time.process_time() - started < limit_seconds
