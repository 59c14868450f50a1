"""Texts and events meant to hurt: a clean error, or an answer, soon."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.selectors import DEPTH_MAX, TEXT_MAX, Selector, SelectorError

HOSTILE = {
    "long": "x = 1 AND " * 20_000,
    "long blank": " " * 1_000_000,
    "many terms": " OR ".join(["x = 1"] * 50_000),
    "many short terms": "OR ".join(["x "] * 4000),
    "parentheses": "(" * 5_000 + "x" + ")" * 5_000,
    "only parentheses": "(" * TEXT_MAX,
    "closing": ")" * TEXT_MAX,
    "NOT": "NOT " * 100_000 + "x",
    "NOT within the length": "NOT " * 4_000 + "x",
    "minus": "x = " + "-" * 16_000 + "1",
    "minus apart": "x = " + "- " * 8_000 + "1",
    "plus": "x = " + "+" * 16_000 + "1",
    "sum": "x = 1" + "+1" * 8_000,
    "product": "x = " + "1*" * 8_000,
    "nested sum": "x = " + "1+(" * 5_000,
    "right nested": "x OR y AND NOT z = 1 + 2 * (" * 500,
    "dots": "a" + ".a" * 8_000,
    "digits": "x = " + "9" * 16_000,
    "exponent": "x = 1e" + "9" * 16_000,
    "fraction": "x = 0." + "9" * 16_000,
    "pattern": "x LIKE '" + "%_" * 8_000 + "'",
    "name": "a" * 16_000 + " = 1",
    "list": "x IN (" + "1," * 8_000,
    "quotes": "'" * 16_383,
    "double quotes": '"' * 16_383,
    "open string": "x = '" + "a''" * 5_000,
    "comment": "x = 1 /* " + "*/ /* " * 2_000,
    "comment to the end": "x = 1 --" + "-" * 16_000,
    "template comment": "{#" * 8_000,
    "template comments": "{##}" * 4_000,
    "subquery": "x IN (SELECT y FROM z WHERE " * 500,
    "function": "f(" * 8_000,
    "casts": "x" + "::int" * 3_000,
    "null bytes": "\0" * 16_000,
    "null byte": "x = 'a\0'",
    "surrogate": "x = '\ud800'",
    "emoji": "\U0001f600" * 16_000,
    "combining": "x" + "\u0301" * 16_000 + "=",
    "new lines": "\n" * 16_000 + "!",
    "between": "x BETWEEN " * 1_600,
    "and": "AND " * 4_000,
    "comparisons": "x" + "<x" * 8_000,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_ends_soon_in_an_error(name: str) -> None:
    elapsed = []
    for _ in range(3):
        started = time.process_time()
        with pytest.raises(SelectorError) as raised:
            Selector(HOSTILE[name])
        elapsed.append(time.process_time() - started)
    assert min(elapsed) < 0.1
    assert len(str(raised.value)) < 400


WORDS = """
    x y.z 1 2.5 'a' TRUE NULL ( ) = <> < + - * / , AND OR NOT IN LIKE ESCAPE IS BETWEEN "q" . -- ! # ' " x y
"""


@settings(max_examples=300, deadline=None)
@given(st.one_of(st.text(max_size=40), st.lists(st.sampled_from(WORDS.split()), max_size=12).map(" ".join)))
def test_any_text_is_a_selector_or_an_error(text: str) -> None:
    try:
        selector = Selector(text)
    except SelectorError as error:
        assert 1 <= error.line <= text.count("\n") + 1
        assert 1 <= error.column <= len(text) + 1
    else:
        assert Selector(str(selector)) == selector
        assert selector.matches({"x": 1, "y": {"z": "a"}}) in (True, False)


@pytest.mark.parametrize(
    ("part", "depth"), [("x OR y AND (", DEPTH_MAX), ("x OR y AND NOT (", DEPTH_MAX // 2), ("1 + 2 * (", 32)]
)
def test_the_deepest_selectors_parse_on_a_deep_stack(part: str, depth: int) -> None:
    """All levels of precedence between each two parentheses, and a caller deep in its own stack."""
    start, end = ("x = ", "1") if "*" in part else ("", "x")
    selector = at_depth(350, start + part * depth + end + ")" * depth)
    assert selector.matches({}) is False


def at_depth(frames: int, text: str) -> Selector:
    return Selector(text) if frames == 0 else at_depth(frames - 1, text)


HOSTILE_EVENTS: dict[str, tuple[str, object]] = {
    "power": ("x" + " * x" * 60 + " > 0", 1 << 4000),
    "power of what is too large": ("x" + " * x" * 60 + " > 0", 1 << 10_000_000),
    "quotient": ("1" + " / x" * 60 + " > 0", 3**2500),
    "sum of fractions": ("1 / x" + " + 1 / x" * 30 + " > 0", 3**2500),
    "many sums": (" OR ".join(["x + x * x - x > y"] * 200), 10**500),
    "large integer": ("x IN (1, 2) OR x = 1.5 OR x > 1e300", 1 << 10_000_000),
    "large text": ("x = 'a' OR x < 'b' OR x IN ('a', 'b')", "a" * 10_000_000),
    "pattern": ("x LIKE '%a%a%a%a%a%b'", "a" * 1_000_000),
}


@pytest.mark.parametrize("name", HOSTILE_EVENTS)
def test_hostile_events_are_matched_soon(name: str) -> None:
    text, value = HOSTILE_EVENTS[name]
    selector = Selector(text)
    selector.matches({})
    started = time.process_time()
    assert selector.matches({"x": value}) in (True, False)
    assert time.process_time() - started < 0.2


def test_nested_events_do_not_recurse() -> None:
    event: dict[str, object] = {}
    event["a"] = event
    assert Selector("a.a.a.a IS NOT NULL AND a.a.x IS NULL").matches(event)
