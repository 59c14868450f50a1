"""Who can reach whom after failures, by the definition alone: nothing here is code that brokers run.

Two live brokers are connected iff the primary path between them has no more than δ failed brokers in a row:
"occurrence of more than δ adjacent failures in a chain cannot be bypassed" (000, IX-A). The relation is not
transitive: round a failed broker, a and b may reach each other, and b and c, yet not a and c.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from gapless.core.model import NodeId


def within_reach(
    neighbours: Mapping[NodeId, Sequence[NodeId]], dead: Container[NodeId], start: NodeId, delta: int
) -> set[NodeId]:
    """The live brokers that a live broker can reach, itself included."""
    reached = set()
    ahead: list[tuple[NodeId, NodeId | None, int]] = [(start, None, 0)]
    while ahead:
        node, came_from, run = ahead.pop()
        run = run + 1 if node in dead else 0
        if run > delta:
            continue
        if not run:
            reached.add(node)
        ahead += [(each, node, run) for each in neighbours[node] if each != came_from]
    return reached


def connected_pairs(parents: Sequence[int], dead: NDArray[np.bool_], delta: int) -> NDArray[np.int64]:
    """How many pairs of live brokers are connected, for many sets of failures of one tree at once.

    ``parents`` has the number of each broker's parent, which is smaller than its own; ``dead`` has a row a
    broker and a column a set of failures. One pass from the leaves to the root: each broker keeps how many
    live ones below it have a way to it that is open so far, by the number of failed ones just before it; a
    pair is counted where its two ways meet.
    """
    brokers, sets = dead.shape
    below = np.zeros((brokers, delta + 1, sets), dtype=np.int64)
    below[:, 0] = ~dead  # a live broker has an open way to itself
    pairs = np.zeros(sets, dtype=np.int64)
    for node in range(brokers - 1, 0, -1):
        parent = parents[node]
        arriving = np.zeros((delta + 1, sets), dtype=np.int64)
        arriving[0] = np.where(dead[node], 0, below[node].sum(axis=0))
        arriving[1:] = np.where(dead[node], below[node, :-1], 0)
        # At a live parent any two ways meet. At a dead one the failed before it, itself and those behind it
        # must not be more than δ: with i before it, at most δ - 1 - i behind it.
        at_live = below[parent].sum(axis=0) * arriving.sum(axis=0)
        up_to = np.cumsum(arriving[:delta], axis=0)
        at_dead = (below[parent, :delta] * up_to[::-1]).sum(axis=0)
        pairs += np.where(dead[parent], at_dead, at_live)
        below[parent] += arriving
    return pairs
