"""Custody: publications that were taken over and not yet confirmed by all their targets.

A publication is kept, with the targets it must reach, until each has it (000, V; 003, algorithm 1). A
target is the client of a matching subscription, or, far from it, the last known node on the way there. Each
is assigned to the nearest established node on its path. What is decided when a publication is taken over
(targets, exclusions, epoch) stays as it was first decided: deciding anew would let some events of a stream
through and others not.

A publisher's events come in *generations*: each time its home session changes it repeats all that is not
confirmed, in a new generation, which is a stream of its own. Where two generations meet, the older one
vanishes as a whole; a part of it left behind would come as a stream with holes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import msgspec

from gapless.core.messages.publisher import Header
from gapless.core.model import Event, Generation, NodeId, Path
from gapless.core.orders.publisher.vectors import Numbers
from gapless.core.overlay.topology import Topology

Source = tuple[str, str]
"""A stream of events: topic and publisher."""

Targets: TypeAlias = Mapping[Path, Path]
"""Targets, each with who stands before it (``Entry.destination``), and the paths that lead to them."""

Waiting: TypeAlias = Mapping[NodeId | None, Targets]
"""Targets by the peer that was asked to reach them; ``None``: there is nobody to ask now. It is replaced,
never changed: publications that go the same way share it."""


def source_of(event: Event) -> Source:
    """The stream that an event belongs to."""
    return event.topic, event.publisher


def assigned(waiting: Waiting, to: Mapping[Path, NodeId | None]) -> Waiting:
    """The same targets, some of them assigned to others."""
    found: dict[NodeId | None, dict[Path, Path]] = {}
    for hop, targets in waiting.items():
        for target, path in targets.items():
            found.setdefault(to.get(target, hop), {})[target] = path
    return found


def reassigned(waiting: Waiting, next_hop: Callable[[Path], NodeId | None]) -> tuple[Waiting, list[NodeId]]:
    """Every target with its next hop of now, and those hops that have got some."""
    moved: dict[Path, NodeId | None] = {}
    for hop, targets in waiting.items():
        for target, path in targets.items():
            nearest = next_hop(path)
            if nearest != hop:
                moved[target] = nearest
    if not moved:
        return waiting, []
    return assigned(waiting, moved), [hop for hop in dict.fromkeys(moved.values()) if hop is not None]


def mended(waiting: Waiting, mend: Callable[[Path], Path]) -> Waiting:
    """The same targets on their ways of now; whoever was the last known one of a way may be another one."""
    return {
        hop: {((way := mend(path))[:2] or target): way for target, path in targets.items()}
        for hop, targets in waiting.items()
    }


def without(waiting: Waiting, is_gone: Callable[[Path], bool]) -> Waiting:
    """The same without some targets."""
    kept = {
        hop: {each: path for each, path in targets.items() if not is_gone(each)}
        for hop, targets in waiting.items()
    }
    return {hop: targets for hop, targets in kept.items() if targets}


def also(waiting: Waiting, former: Path, destination: Path, path: Path) -> Waiting:
    """The same, and another target with whoever was asked to reach the former one."""
    return {
        hop: {**targets, destination: path} if former in targets else targets
        for hop, targets in waiting.items()
    }


class Held(msgspec.Struct, gc=False):
    """A publication in custody."""

    header: Header
    """As it came, but with what was decided here: epoch, exclusions, tags; shared with others of its run."""
    event: Event
    numbers: Numbers
    """With the path of the header: the vector that it came with."""
    number: int
    """The place in the order in which this broker took publications over."""
    senders: tuple[NodeId, ...]
    waiting: Waiting

    def came_from(self, topology: Topology) -> NodeId | None:
        """The neighbour from whose direction it came; ``None``: from a client. A broker on its path that was
        removed since has no place in the tree, but the one before it has."""
        for node, _ in reversed(self.header.path):
            if way := topology.way(node)[1:]:
                return way[0]
        return None


@dataclass(slots=True)
class Stream:
    """What is known of one publisher's stream. It is remembered for a while after the last event has left:
    copies may still come, and so may the rest of an older generation."""

    generation: Generation
    highest: int = 0
    """The highest sequence of this generation that was handled here."""
    aware_of: int | None = None
    """How long the log was when events of this generation first entered here."""
    told_by: tuple[NodeId, ...] | None = None
    """Whether this broker could not ask everybody then what it had known before it started (``Stay``)."""
    held: dict[int, Held] = field(default_factory=dict)

    def confirmed(self, sequences: Iterable[int], peer: NodeId) -> dict[tuple[NodeId, ...], list[int]]:
        """The peer has reached all its targets of these; returns those whose last targets they were, by their
        senders."""
        done: dict[tuple[NodeId, ...], list[int]] = {}
        for sequence in sequences:
            held = self.held[sequence]
            if peer not in held.waiting:
                continue
            if len(held.waiting) > 1:
                held.waiting = {hop: targets for hop, targets in held.waiting.items() if hop != peer}
                continue
            del self.held[sequence]
            of_senders = done.get(held.senders)
            if of_senders is None:
                of_senders = done[held.senders] = []
            of_senders.append(sequence)
        return done


class Custody:
    """All publications that a broker answers for."""

    def __init__(self) -> None:
        self.streams: dict[Source, Stream] = {}

    def __len__(self) -> int:
        return sum(len(stream.held) for stream in self.streams.values())

    def __bool__(self) -> bool:
        return len(self) > 0

    def in_order(self) -> Iterator[Held]:
        """Everything in custody, in the order in which it was taken over."""
        held = [each for stream in self.streams.values() for each in stream.held.values()]
        return iter(sorted(held, key=lambda each: each.number))

    def by_route(self) -> Iterator[list[Held]]:
        """Everything in custody, those together that wait for the same."""
        groups: dict[int, list[Held]] = {}
        for held in self.in_order():
            groups.setdefault(id(held.waiting), []).append(held)
        return iter(groups.values())

    def unreachable(self) -> dict[NodeId, int]:
        """How many publications wait for each target that nobody can be asked to reach."""
        counts: dict[NodeId, int] = {}
        for stream in self.streams.values():
            for held in stream.held.values():
                for target in dict.fromkeys(destination[0] for destination in held.waiting.get(None, ())):
                    counts[target] = counts.get(target, 0) + 1
        return counts
