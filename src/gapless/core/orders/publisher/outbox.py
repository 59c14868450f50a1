"""What leaves a node at the end of a batch: publications a peer, acknowledgements as ranges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gapless.core.effects import Effect, Send
from gapless.core.messages.publisher import (
    Acknowledged,
    Acknowledgement,
    Publication,
    Publications,
    Superseded,
)
from gapless.core.model import NodeId
from gapless.core.orders.base import pieces
from gapless.core.orders.publisher.custody import Source


def ranges(sequences: Iterable[int]) -> tuple[tuple[int, int], ...]:
    """Numbers as ranges with both ends included, in ascending order."""
    found: list[tuple[int, int]] = []
    for number in sorted(sequences):
        if found and found[-1][1] + 1 >= number:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return tuple(found)


def within(sequences: Mapping[int, object], first: int, last: int) -> list[int]:
    """Those of the sequences that lie in a range, whatever range a peer may have sent."""
    if last - first < len(sequences):
        return [each for each in range(first, last + 1) if each in sequences]
    return [each for each in sequences if first <= each <= last]


BATCH = 512
"""How many publications a message has at most: a frame on the wire has a limit."""


class Outbox:
    """Gathers during a batch, sends at its end."""

    def __init__(self, out: list[Effect]) -> None:
        self._out = out
        self._publications: dict[NodeId, list[Publication]] = {}
        self._acks: dict[NodeId, dict[tuple[str, str, int], list[int]]] = {}
        self._superseded: dict[tuple[NodeId, Source], int] = {}

    def publish(self, peer: NodeId, publication: Publication) -> None:
        """Send the publication to the peer, after those that were given before it."""
        self._publications.setdefault(peer, []).append(publication)

    def acknowledge(self, peer: NodeId, publication: Publication) -> None:
        """Tell the peer that all targets behind here have the event."""
        event = publication.event
        key = (event.topic, event.publisher, publication.generation)
        self._acks.setdefault(peer, {}).setdefault(key, []).append(event.sequence)

    def supersede(self, peer: NodeId, source: Source, generation: int) -> None:
        """Tell the peer of a newer generation."""
        self._superseded[peer, source] = generation

    def forget(self, peer: NodeId) -> None:
        """The session is gone, and what was to be sent on it with it."""
        self._publications.pop(peer, None)
        self._acks.pop(peer, None)
        for key in [key for key in self._superseded if key[0] == peer]:
            del self._superseded[key]

    def flush(self) -> None:
        """Send it all."""
        for peer, batch in self._publications.items():
            for piece in pieces(batch, BATCH):
                self._out.append(Send(peer, Publications(piece)))
        for peer, acks in self._acks.items():
            told = tuple(Acknowledgement(*key, ranges(sequences)) for key, sequences in acks.items())
            self._out.append(Send(peer, Acknowledged(told)))
        for (peer, source), generation in self._superseded.items():
            self._out.append(Send(peer, Superseded(*source, generation)))
        self._publications.clear()
        self._acks.clear()
        self._superseded.clear()
