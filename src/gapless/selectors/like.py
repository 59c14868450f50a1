"""``LIKE`` in time linear in the text, whatever the pattern: there is no backtracking.

A pattern is cut at its ``%`` into *segments*, runs of given and of free (``_``) characters. The first
segment stands at the beginning, the last at the end, and each of the others at its leftmost place after the
one before: taking the leftmost place never spoils a later one. A segment without ``_`` is found by
``str.find``; one with ``_`` by the Shift-And automaton, whose states are the bits of one integer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

Segment: TypeAlias = tuple[str | None, ...]
"""Characters in a row; ``None`` is any one character."""


def segments(pattern: str, escape: str | None) -> tuple[Segment, ...]:
    """The pattern cut at ``%``: one segment without ``%``, and one more for each ``%``.

    Raises ``ValueError`` where ``escape`` is not followed by ``%``, ``_`` or itself, as SQL-92 demands.
    """
    done: list[Segment] = []
    current: list[str | None] = []
    characters = iter(pattern)
    for character in characters:
        if character == escape:
            escaped = next(characters, "")
            if escaped not in ("%", "_", escape):
                raise ValueError(f"the escape character {escape!r} must stand before %, _ or itself")
            current.append(escaped)
        elif character == "%":
            done.append(tuple(current))
            current = []
        else:
            current.append(None if character == "_" else character)
    return (*done, tuple(current))


def literal(segment: Segment) -> str | None:
    """The text of a segment without free characters, else ``None``."""
    return None if None in segment else "".join(character or "" for character in segment)


def matcher(pattern: str, escape: str | None) -> Callable[[str], bool]:
    """A function that says whether a text is like the pattern."""
    first, *others = segments(pattern, escape)
    begins = _comparer(first)
    first_size = len(first)
    if not others:
        return lambda text: len(text) == first_size and begins(text, 0)
    if others == [()] and (prefix := literal(first)) is not None:
        return lambda text: text.startswith(prefix)
    *middle, last = others
    ends = _comparer(last)
    last_size = len(last)
    finders = [_finder(segment) for segment in middle if segment]

    def matches(text: str) -> bool:
        end = len(text) - last_size
        if end < first_size or not begins(text, 0) or not ends(text, end):
            return False
        position = first_size
        for find in finders:
            position = find(text, position, end)
            if position < 0:
                return False
        return True

    return matches


def _comparer(segment: Segment) -> Callable[[str, int], bool]:
    """Whether the segment stands in a text, which is long enough, at a position."""
    text = literal(segment)
    if text is not None:
        return lambda value, position: value.startswith(text, position)
    given = [(offset, character) for offset, character in enumerate(segment) if character is not None]
    return lambda value, position: all(value[position + offset] == character for offset, character in given)


def _finder(segment: Segment) -> Callable[[str, int, int], int]:
    """The end of the leftmost place of the segment in ``text[start:end]``, or a negative number."""
    needle = literal(segment)
    size = len(segment)
    if needle is not None:

        def find_literal(text: str, start: int, end: int) -> int:
            place = text.find(needle, start, end)
            return place + size if place >= 0 else -1

        return find_literal

    free = sum(1 << bit for bit, character in enumerate(segment) if character is None)
    masks = {character: free for character in segment if character is not None}
    for bit, character in enumerate(segment):
        if character is not None:
            masks[character] |= 1 << bit
    found = 1 << (size - 1)

    def find_free(text: str, start: int, end: int) -> int:
        state = 0  # bit i: the last i + 1 characters are the first i + 1 of the segment
        for position in range(start, end):
            state = (state << 1 | 1) & masks.get(text[position], free)
            if state & found:
                return position + 1
        return -1

    return find_free
