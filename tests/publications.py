"""Publications one by one: most rules speak of a single event on its way, messages carry runs of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec

from gapless.core.messages.publisher import Header, Publications, Run
from gapless.core.model import Event, Generation, NodeId, Partition, SubscriptionId
from gapless.core.orders.publisher.vectors import Vector, vector_of


class Publication(msgspec.Struct, frozen=True):
    """An event of a run, with all that its header says."""

    event: Event
    generation: Generation
    entry: NodeId
    home: NodeId
    epoch: int
    excluded: tuple[SubscriptionId, ...]
    vector: Vector
    tags: tuple[Partition, ...]
    relaxed: bool
    best_effort: bool


def nil(node: NodeId) -> tuple[NodeId, int, int]:
    """A bypassed broker in a vector."""
    return node, 0, 0


def publication(header: Header, event: Event, numbers: tuple[int, ...]) -> Publication:
    """One event with its header."""
    return Publication(
        event,
        header.generation,
        header.entry,
        header.home,
        header.epoch,
        header.excluded,
        vector_of(header.path, numbers),
        header.tags,
        header.relaxed,
        header.best_effort,
    )


def single(event: Event, generation: int, **header: Any) -> Run:
    """A run of one event, that comes from its publisher unless the header says more."""
    return Run(Header((0, generation), **header), (event,), ((),))


def singles(run: Run) -> Iterator[Run]:
    """The events of a run as runs of their own."""
    for event, numbers in zip(run.events, run.numbers, strict=True):
        yield Run(run.header, (event,), (numbers,))


def publications(message: Publications) -> list[Publication]:
    """The single publications of a message."""
    return [
        publication(run.header, event, numbers)
        for run in message.runs
        for event, numbers in zip(run.events, run.numbers, strict=True)
    ]
