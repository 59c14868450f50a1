"""What the publishers of a run are called in its trace.

A publisher that has lost its store counts anew, under the same name. In the trace that is another source with
another name (p, p#1, p#2 …), since a source counts from 1 without holes.
"""

from __future__ import annotations

from collections.abc import Sequence

from gapless.core.effects import NumberingBegun, Record, Reset
from gapless.core.model import NodeId, StartCut

AT_NO_TIME = 2**62
"""A sequence that nobody publishes."""


class Sources:
    """The numberings of a run and their names."""

    def __init__(self) -> None:
        self._names: dict[tuple[str, int], str] = {}  # by publisher and numbering
        self._current: dict[tuple[NodeId, str], str] = {}  # by client and publisher

    def begins(self, client: NodeId, record: NumberingBegun) -> None:
        """A client begins to count a publisher's events; who only gives way to another numbering goes on."""
        publisher = record.publisher
        name = self._current.get((client, publisher))
        if name is None:
            others = {each for (source, _), each in self._names.items() if source == publisher}
            name = self._current[client, publisher] = f"{publisher}#{len(others)}" if others else publisher
        self._names[publisher, record.numbering] = name

    def adopted(self, client: NodeId, publisher: str, records: Sequence[Record]) -> None:
        """A client goes on with what another one has counted."""
        for each in records:
            if isinstance(each, NumberingBegun) and (publisher, each.numbering) in self._names:
                self._current[client, publisher] = self._names[publisher, each.numbering]

    def lost(self, client: NodeId) -> None:
        """The client has lost its store."""
        for key in [key for key in self._current if key[0] == client]:
            del self._current[key]

    def current(self, client: NodeId, publisher: str) -> str:
        """What a client publishes as, when it publishes under that name."""
        return self._current.get((client, publisher), publisher)

    def name(self, publisher: str, numbering: int) -> str:
        """The publisher under that numbering."""
        return self._names.get((publisher, numbering), publisher)

    def start(self, cut: StartCut) -> dict[str, int]:
        """A starting cut, by the names of the trace."""
        return {self.name(each, cut.numberings.get(each, 0)): at for each, at in cut.first.items()}

    def start_of_reset(self, reset: Reset) -> dict[str, int]:
        """A reset that names a publisher ends what was promised of its other numberings."""
        named = {each: reset.start.numberings.get(each, 0) for each in reset.publishers}
        others = [
            name
            for (publisher, _), name in self._names.items()
            if publisher in named and name != self.name(publisher, named[publisher])
        ]
        return {**dict.fromkeys(others, AT_NO_TIME), **self.start(reset.start)}
