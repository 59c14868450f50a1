"""What is wrong with the text of a selector, and where."""

from __future__ import annotations

_EXCERPT_BEFORE = 40
_EXCERPT_AFTER = 30


class SelectorError(ValueError):
    """The text is no selector. Says what is wrong (``reason``) at which ``line`` and ``column``, from 1."""

    def __init__(self, reason: str, text: str, offset: int) -> None:
        start = text.rfind("\n", 0, offset) + 1
        self.reason = reason
        self.line = text.count("\n", 0, offset) + 1
        self.column = offset - start + 1
        super().__init__(
            f"{reason} (line {self.line}, column {self.column})\n{_excerpt(text, start, offset)}"
        )
        self._arguments = (reason, text[: offset + _EXCERPT_AFTER], offset)

    def __reduce__(self) -> tuple[type[SelectorError], tuple[str, str, int]]:
        return type(self), self._arguments


def _excerpt(text: str, start: int, offset: int) -> str:
    """The part of the line around the place, with a caret below the place."""
    first = max(start, offset - _EXCERPT_BEFORE)
    line = text[first : offset + _EXCERPT_AFTER].split("\n", 1)[0]
    shown = "".join(
        character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in line
    )
    return f"  {shown}\n  {' ' * (offset - first)}^"
