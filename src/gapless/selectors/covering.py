"""Whether one condition is true whenever another is: sound, and complete for simple conditions.

Each condition becomes a disjunction of *boxes*: for some attributes the values allowed, and other tests
that must hold. ``wide`` covers ``narrow`` when nothing of any box of ``narrow`` remains after taking away
the boxes of ``wide`` one after the other. Taking a box away from another leaves at most one box for each
attribute: the part that is outside there. So ``x < 5 OR x >= 5`` covers ``x > 0``, although neither half
does.

**Sound.** ``True`` is never wrong. A box of ``wide`` with other tests takes something away only from boxes
that have the same tests, literally.

**Complete** for conditions made by ``AND``, ``OR`` and ``NOT`` of comparisons of an attribute with a
constant, ``BETWEEN`` and ``IN`` constants, ``LIKE`` without wildcards or with a single ``%`` at the end,
null tests and boolean attributes. Except: where numbers or strings lie so close that no value is between
them (``x > 1 AND x < 1.0000000000000002`` is not seen to be impossible), where an attribute and its parts are
split in several ways at once, and beyond the limits below, where only conditions and parts of conditions
that are literally the same are recognised. Nothing is concluded from the meaning of other tests: ``x * 2 >
4`` is not seen to cover ``x > 3``.
"""

from __future__ import annotations

from dataclasses import dataclass

from gapless.selectors.normal import Conjunction, Other, disjuncts
from gapless.selectors.regions import EVERYTHING, NULL, OPAQUE, Region, region
from gapless.selectors.tree import And, Condition, Or, Path

WIDE_BOXES_MAX = 64
"""Conjunctions of the covering condition, or of each part of it that is joined by ``AND``."""
NARROW_BOXES_MAX = 512
"""Conjunctions of the covered condition."""
STEPS_MAX = 10_000
"""Differences of boxes taken to find an answer."""


def covers(wide: Condition, narrow: Condition) -> bool:
    """Whether ``wide`` is surely true for every event for which ``narrow`` is true."""
    if wide == narrow:
        return True
    conjunctions = disjuncts(narrow, NARROW_BOXES_MAX)
    boxes = None if conjunctions is None else _boxes(conjunctions)
    budget = _Budget(STEPS_MAX)
    parts = wide.operands if isinstance(wide, And) else (wide,)
    return all(_covers_part(part, narrow, boxes, budget) for part in parts)


def _covers_part(wide: Condition, narrow: Condition, boxes: list[_Box] | None, budget: _Budget) -> bool:
    """Covering of the boxes of ``narrow``; only literally where one of the two has too many boxes."""
    conjunctions = disjuncts(wide, WIDE_BOXES_MAX)
    if boxes is None or conjunctions is None:
        alternatives = wide.operands if isinstance(wide, Or) else (wide,)
        necessary = narrow.operands if isinstance(narrow, And) else (narrow,)
        return boxes == [] or not {*alternatives, wide}.isdisjoint({*necessary, narrow})
    taking = _boxes(conjunctions)
    paths = {path: None for box in taking for path in box.regions}
    return all(_covered(box.knowing(paths), taking, budget) for box in boxes)


@dataclass(slots=True)
class _Budget:
    """What may still be spent on an answer."""

    steps: int


@dataclass(frozen=True, slots=True)
class _Box:
    """Events by the values of some attributes and by other tests; attributes not named have any value."""

    regions: dict[Path, Region]
    others: frozenset[Other]

    @classmethod
    def of(cls, conjunction: Conjunction) -> _Box:
        """The events for which the conjunction is true."""
        regions: dict[Path, Region] = {}
        others = set()
        for test in conjunction:
            if isinstance(test, Other):
                others.add(test)
            else:
                regions[test.path] = regions.get(test.path, EVERYTHING) & region(test)
        for path, values in list(regions.items()):
            if not values.null:  # what has parts is a mapping
                for size in range(1, len(path)):
                    regions[path[:size]] = regions.get(path[:size], EVERYTHING) & OPAQUE
        return cls(regions, frozenset(others))

    def knowing(self, paths: dict[Path, None]) -> _Box:
        """This box with what follows for these attributes: what is no mapping has no parts."""
        regions = dict(self.regions)
        for path in paths:
            if any(not regions.get(path[:size], EVERYTHING).opaque for size in range(1, len(path))):
                regions[path] = regions.get(path, EVERYTHING) & NULL
        return _Box(regions, self.others)

    def values(self, path: Path) -> Region:
        """The values that an attribute can have."""
        return self.regions.get(path, EVERYTHING)

    def limited(self, path: Path, values: Region) -> _Box:
        """This box with these values of an attribute only."""
        return _Box({**self.regions, path: values}, self.others)

    def is_empty(self) -> bool:
        """Whether some attribute has no value left."""
        return not all(self.regions.values())

    def is_disjoint(self, other: _Box) -> bool:
        """Whether no event is surely in both."""
        return any(not self.values(path) & values for path, values in other.regions.items())


def _boxes(conjunctions: tuple[Conjunction, ...]) -> list[_Box]:
    """The events for which one of the conjunctions is true."""
    boxes = [_Box.of(conjunction) for conjunction in conjunctions]
    return [box for box in boxes if not box.is_empty()]


def _covered(box: _Box, taking: list[_Box], budget: _Budget, index: int = 0) -> bool:
    """Whether the boxes from ``index`` on leave nothing of ``box``."""
    if box.is_empty():
        return True
    while index < len(taking) and budget.steps > 0:
        taken = taking[index]
        budget.steps -= 1
        index += 1
        if taken.others <= box.others and not box.is_disjoint(taken):
            break
    else:
        return False
    for path, values in taken.regions.items():
        mine = box.values(path)
        outside = mine - values
        if outside and not _covered(box.limited(path, outside), taking, budget, index):
            return False
        box = box.limited(path, mine & values)
    return True
