"""The selector: a condition that was parsed once, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Mapping

from gapless.selectors.covering import covers
from gapless.selectors.errors import SelectorError
from gapless.selectors.evaluation import Predicate, compiled
from gapless.selectors.lexer import TEXT_MAX
from gapless.selectors.parser import parse
from gapless.selectors.tree import Condition
from gapless.selectors.writer import text_of

_SURELY_SHORT = TEXT_MAX // 8
"""Below this length, a text stays below ``TEXT_MAX`` when it is written canonically (1E9: 1000000000.0)."""


class Selector:
    """The condition of a subscription, as an immutable value.

    Two selectors are equal when their conditions are, whatever their spelling. ``str()`` is the canonical
    text, which parses to an equal selector. Small, as a broker may hold a million: the function that
    matches is only made when it is first used, and not pickled.
    """

    __slots__ = ("_condition", "_predicate")

    _condition: Condition
    _predicate: Predicate | None

    def __init__(self, text: str) -> None:
        if not isinstance(text, str):
            raise TypeError(f"a selector is a str, not {type(text).__name__}")
        self._condition = parse(text)
        self._predicate = None
        if len(text) > _SURELY_SHORT and len(str(self)) > TEXT_MAX:
            raise SelectorError(
                f"written canonically, the selector has over {TEXT_MAX:,} characters", text, 0
            )

    @property
    def condition(self) -> Condition:
        """The syntax tree."""
        return self._condition

    @property
    def predicate(self) -> Predicate:
        """What ``matches`` asks: a plain function, for those who ask often."""
        predicate = self._predicate
        if predicate is None:
            predicate = self._predicate = compiled(self._condition)
        return predicate

    def matches(self, attributes: Mapping[str, object]) -> bool:
        """Whether the condition is true for an event with these attributes. Never fails."""
        return (self._predicate or self.predicate)(attributes)

    def covers(self, other: Selector) -> bool:
        """Whether this surely matches every event that ``other`` matches. ``False`` may mean: not known."""
        return covers(self._condition, other._condition)

    def __eq__(self, other: object) -> bool:
        return self._condition == other._condition if isinstance(other, Selector) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._condition)

    def __str__(self) -> str:
        return text_of(self._condition)

    def __repr__(self) -> str:
        return f"Selector({str(self)!r})"

    def __reduce__(self) -> tuple[type[Selector], tuple[str]]:
        return type(self), (str(self),)
