"""The networks of the experiments: which tree, and in which order its brokers fail.

Paper 000 says how many brokers and which fan-out, not how the tree was made (X-P0-20). Two models:

- ``kary``: complete, fan-out is the number of children; all runs have the same tree.
- ``random``: each broker joins at a random one that has fewer children; a new tree every so many runs.

The brokers of a run fail one after the other in a random order, the same for every δ: a point of a figure
is the network after the first few of them, so points of one run can be compared. Everything follows from
the seed and the number of the run, whatever task computes it.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from gapless.core.model import Link, NodeId
from gapless.simulation.trees import kary_tree, random_tree

MODELS = ("kary", "random")
FANOUTS = (3, 7)
DELTAS = (0, 1, 2, 3)
RUNS_A_TREE = 20

MODEL_NAMES = {"kary": "complete k-ary tree", "random": "random attachment"}


@dataclass(frozen=True, slots=True)
class Network:
    """A family of runs: how their trees are made, and the seed of all that is random in them."""

    model: str
    fanout: int
    brokers: int
    seed: int

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise ValueError(f"the models are {', '.join(MODELS)}, not {self.model}")

    def links(self, tree: int) -> list[Link]:
        """The links of the tree of that number; every parent comes before its children."""
        if self.model == "kary":
            return kary_tree(self.brokers, self.fanout)
        return random_tree(self.brokers, self.fanout, self._random(f"tree/{tree}"))

    def failures(self, run: int) -> list[NodeId]:
        """All brokers, in the order in which they fail in a run."""
        return self._random(f"failures/{run}").sample(self.names(), self.brokers)

    def names(self) -> list[NodeId]:
        """All brokers."""
        return [f"b{number}" for number in range(self.brokers)]

    def _random(self, purpose: str) -> Random:
        return Random(f"{self.seed}/{self.model}/{self.fanout}/{self.brokers}/{purpose}")


def number_of(broker: NodeId) -> int:
    """The place of a broker among all, its parent's being smaller."""
    return int(broker[1:])


def neighbours_of(links: list[Link]) -> dict[NodeId, list[NodeId]]:
    """The tree that the links make: each broker with its neighbours."""
    neighbours: dict[NodeId, list[NodeId]] = {}
    for a, b in links:
        neighbours.setdefault(a, []).append(b)
        neighbours.setdefault(b, []).append(a)
    return neighbours


def parents_of(links: list[Link]) -> list[int]:
    """The number of each broker's parent; the root, which has none, has its own."""
    parents = [0] * (len(links) + 1)
    for each in links:
        parent, child = sorted(map(number_of, each))
        parents[child] = parent
    return parents
