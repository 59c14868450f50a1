"""A table of declarations, one a name: the one of the highest rank that was heard of."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gapless.core.messages import TopicsTold
from gapless.core.model import Declaration, Topic
from gapless.core.topics.rules import is_plausible

TOPICS_MAX = 4_096
"""Topics that a broker lets its clients declare."""
DELETED_MAX = 16_384
"""Deleted names that a broker remembers before it refuses to delete another one."""
NAMES_MAX = 2 * (TOPICS_MAX + DELETED_MAX)
"""Names that a table holds at all. Brokers on two sides of a partition may together go beyond what each lets
its clients declare; only who means harm goes beyond this."""

PIECE_COUNT = 256
PIECE_CHARACTERS = 65_536
"""What one message tells of a table."""


class Table:
    """What one node knows of the topics."""

    def __init__(self) -> None:
        self._declarations: dict[str, Declaration] = {}
        self._deleted = 0

    def __len__(self) -> int:
        return len(self._declarations)

    def __bool__(self) -> bool:
        return len(self) > 0

    def __iter__(self) -> Iterator[Declaration]:
        return iter(self._declarations.values())

    def get(self, name: str) -> Declaration | None:
        """What is declared under a name."""
        return self._declarations.get(name)

    def topic(self, name: str) -> Topic | None:
        """The topic of a name, if it is one."""
        known = self._declarations.get(name)
        return known.topic if known is not None and not known.deleted else None

    def topics(self) -> dict[str, Topic]:
        """The topics by name, in the order of their names."""
        return {name: each.topic for name, each in sorted(self._declarations.items()) if not each.deleted}

    @property
    def has_room(self) -> bool:
        """Whether another topic may be declared."""
        return len(self) - self._deleted < TOPICS_MAX

    @property
    def can_delete(self) -> bool:
        """Whether another name may be remembered as deleted."""
        return self._deleted < DELETED_MAX

    def learn(self, declaration: Declaration) -> bool:
        """Take a declaration; False when it is no news."""
        name = declaration.topic.name
        known = self._declarations.get(name)
        if known is None:
            if len(self) >= NAMES_MAX:
                return False
        elif declaration.rank <= known.rank:
            return False
        if not is_plausible(declaration):
            return False
        self._deleted += declaration.deleted - (known is not None and known.deleted)
        self._declarations[name] = declaration
        return True


def pieces(declarations: Iterable[Declaration]) -> Iterator[TopicsTold]:
    """Messages that tell declarations, at least one, each of a limited size."""
    piece: list[Declaration] = []
    characters = 0
    for each in declarations:
        size = len(each.topic.name) + len(each.topic.schema)
        if piece and (len(piece) >= PIECE_COUNT or characters + size > PIECE_CHARACTERS):
            yield TopicsTold(tuple(piece), more=True)
            piece, characters = [], 0
        piece.append(each)
        characters += size
    yield TopicsTold(tuple(piece))
