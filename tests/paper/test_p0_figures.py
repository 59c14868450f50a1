"""Paper 000, section IX: the figures, beside answers computed from the definitions. A test or more a row.

The paper does not say how the trees of its figures were made (X-P0-20); the model is named in each test.
"""

from __future__ import annotations

from collections import Counter
from random import Random
from statistics import mean, quantiles

import pytest

from experiments.definitions import connected, distances, expected_disconnected
from gapless.experiments.connectivity import count
from gapless.experiments.delivery import Crowd, Delivery
from gapless.experiments.figure import Task
from gapless.experiments.neighbourhoods import Neighbourhoods
from gapless.experiments.networks import DELTAS, FANOUTS, MODELS, RUNS_A_TREE, Network
from gapless.experiments.overlays import routed_pairs, topologies
from gapless.experiments.sessions import Sessions
from gapless.simulation.checkers import check
from support import active_by_definition, paths_from, tree_of

PAPER_RUNS = 100
"""Each point of the paper's Figure 8 is an average of so many runs."""


# -- Figure 8 ----------------------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("fanout", FANOUTS)
def test_p0_98_disconnected_pairs_are_as_many_as_expected(fanout: int) -> None:
    """1,000 brokers in a complete k-ary tree, 170 of them failed: the exact expectation lies where 99 % of
    the averages of 100 runs do, and near the mean of all runs.

    Reference: 000, section IX-A, Fig. 8 (P0-98)
    """
    network, rng = Network("kary", fanout, 1000, seed=98), Random(0)
    far = distances(tree_of(network.links(0)))
    found = count(network, range(RUNS_A_TREE, 1000), (170,))
    for delta in DELTAS:
        exact = expected_disconnected(far, 1000, 170, delta)
        shares = (100 - 100 * found[delta][:, 0] / (830 * 829 / 2)).tolist()
        averages = [mean(rng.choices(shares, k=PAPER_RUNS)) for _ in range(400)]
        band = quantiles(averages, n=200)
        assert band[0] <= exact <= band[-1], delta
        assert mean(shares) == pytest.approx(exact, rel=0.3), delta


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("fanout", FANOUTS)
def test_p0_98_each_set_of_failures_is_counted_exactly(model: str, fanout: int) -> None:
    """Per failure set, exactly: the definition, the counting and the overlay agree, for every δ.

    Reference: 000, section IX-A, Fig. 8 (P0-98)
    """
    network, points = Network(model, fanout, 80, seed=8), (0, 8, 14, 40)
    links = network.links(0)
    for delta, by_run in count(network, range(2), points).items():
        known = topologies(links, delta)
        for run in range(2):
            for failures, counted in zip(points, by_run[run].tolist(), strict=True):
                dead = set(network.failures(run)[:failures])
                assert 2 * counted == len(connected(tree_of(links), dead, delta))
                assert 2 * counted == routed_pairs(known, dead)


def test_p0_98_more_delta_connects_more() -> None:
    """Increasing δ improves connectivity, in every run.

    Reference: 000, section IX-A, Fig. 8 (P0-98)
    """
    for model in MODELS:
        found = count(Network(model, 3, 300, seed=1), range(20, 40), (15, 30, 51))
        for delta in DELTAS[1:]:
            assert (found[delta] >= found[delta - 1]).all()
        assert found[3].sum() > found[1].sum() > found[0].sum()


# -- Figure 9 ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("delta", DELTAS)
def test_p0_99_what_can_be_delivered_is_delivered(delta: int) -> None:
    """All-to-all: a publisher and a subscriber at every live broker, 17 % dead, relaxed legitimacy. Delivered
    is never more than deliverable for the same failures, and at least 99 % of it, once and in order.

    60 brokers in a complete ternary tree.

    Reference: 000, section IX-B, Fig. 9 (P0-99)
    """
    crowd = Crowd(Network("kary", 3, 60, seed=9), run=0, delta=delta, most=10, subscribers=60)
    assert len(crowd.subscribers) == len(crowd.publishers) == 50
    for failures in (0, 5, 10):
        crowd.fail(failures)
        possible = connected(crowd.neighbours, set(crowd.dead), delta) & crowd.pairs()
        assert crowd.deliverable() == possible
        assert crowd.delivered() <= possible
        assert len(crowd.delivered()) >= 0.99 * len(possible)
    assert len(possible) < len(crowd.pairs()) or delta > 0, "without δ, failures do disconnect"
    assert list(check(crowd.world.trace, promise="publisher", healed=False)) == []


def test_p0_99_delta_3_delivers_almost_everything_and_delta_0_little() -> None:
    """With 17 % dead, δ = 3 delivers at least 97 % of what live brokers publish for each other, on average;
    a smaller δ never delivers more, and δ = 0 collapses.

    Random attachment, 100 brokers, fan-out 3.

    Reference: 000, section IX-B, Fig. 9 (P0-99)
    """
    shares = []
    for delta in DELTAS:
        delivered = pairs = 0
        for run in range(2):
            crowd = Crowd(Network("random", 3, 100, seed=9), run=run, delta=delta, most=17, subscribers=8)
            crowd.fail(17)
            delivered += len(crowd.delivered())
            pairs += len(crowd.pairs())
        shares.append(delivered / pairs)
    assert shares[3] >= 0.97
    assert shares[0] < 0.7
    assert shares == sorted(shares)


@pytest.mark.slow
def test_p0_99_in_the_paper_s_network() -> None:
    """500 brokers in a complete ternary tree, of which 17 % die in steps, δ = 3: a run of the figure itself.

    Reference: 000, section IX-B, Fig. 9 (P0-99, P0-95)
    """
    figure, size = Delivery(), Delivery.full
    rows = figure.work(Task(Network("kary", 3, size.brokers, 0), size.failures, range(1), delta=3))
    assert [row["failures"] for row in rows] == [0, 17, 34, 51, 68, 85]
    for row in rows:
        assert 0.99 <= row["delivered"] / row["deliverable"] <= 1
        assert row["delivered"] / row["pairs"] >= 0.97


# -- Figure 10 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "fanout", "brokers", "deltas"),
    [
        ("kary", 3, 1000, (1, 3)),
        ("kary", 7, 1000, (3,)),
        ("random", 3, 300, DELTAS),
        ("random", 7, 300, DELTAS),
    ],
)
def test_p0_100_neighbourhoods_are_as_large_as_equation_1_says(
    model: str, fanout: int, brokers: int, deltas: tuple[int, ...]
) -> None:
    """The sizes are the numbers of other brokers within δ+1.

    Reference: 000, section IX-C, Fig. 10 (P0-100)
    """
    network = Network(model, fanout, brokers, seed=0)
    tree = tree_of(network.links(0))
    for delta in deltas:
        rows = Neighbourhoods().work(Task(network, (), range(1), delta))
        expected = Counter(len(paths_from(tree, name, delta + 1)) - 1 for name in tree)
        assert {row["size"]: row["brokers"] for row in rows} == expected


def test_p0_100_small_for_fanout_3_and_large_for_some_with_fanout_7() -> None:
    """Fan-out 3: almost all below 100 brokers. Fan-out 7 and δ = 3: some are very large.

    Complete k-ary trees of 1,000. The paper does not say what is large: 22 brokers around the root know more
    than a quarter of the network, and 119 more know at least 100.

    Reference: 000, section IX-C, Fig. 10 (P0-100)
    """
    sizes = {}
    for fanout in FANOUTS:
        task = Task(Network("kary", fanout, 1000, seed=0), (), range(1), delta=3)
        sizes[fanout] = {row["size"]: row["brokers"] for row in Neighbourhoods().work(task)}
    small = sum(brokers for size, brokers in sizes[3].items() if size < 100)
    assert small >= 950
    assert max(sizes[7]) == 999, "the root knows everybody"
    assert sum(brokers for size, brokers in sizes[7].items() if size > 250) == 22
    assert sum(brokers for size, brokers in sizes[7].items() if 100 <= size <= 250) == 119


# -- Figure 11 ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("model", "fanout", "brokers"), [("kary", 3, 1000), ("random", 7, 300)])
def test_p0_101_active_sessions_are_the_nearest_live_brokers(model: str, fanout: int, brokers: int) -> None:
    """δ = 3, 16 and 60 failures: each live broker has an active session with every nearest live one.

    Reference: 000, section IX-D, Fig. 11 (P0-101)
    """
    network = Network(model, fanout, brokers, seed=11)
    tree, order = tree_of(network.links(0)), network.failures(0)
    rows = Sessions().work(Task(network, (16, 60), range(1), delta=3))
    for failures in (16, 60):
        live = set(order[failures:])
        expected = Counter(len(active_by_definition(tree, name, 3, live)) for name in live)
        assert {row["sessions"]: row["found"] for row in rows if row["failures"] == failures} == expected


@pytest.mark.parametrize("fanout", FANOUTS)
def test_p0_101_most_brokers_have_few_active_sessions(fanout: int) -> None:
    """The number of active sessions remains very low for the majority of brokers.

    Complete k-ary trees of 1,000: most brokers are leaves, with one session unless theirs has failed.

    Reference: 000, section IX-D, Fig. 11 (P0-101)
    """
    rows = Sessions().work(Task(Network("kary", fanout, 1000, seed=0), (16, 60), range(3), delta=3))
    for failures in (16, 60):
        found = {row["sessions"]: row["found"] for row in rows if row["failures"] == failures}
        assert sum(found.values()) == 3 * (1000 - failures)
        assert sum(brokers for sessions, brokers in found.items() if sessions <= 1) > 1500
        assert max(found) > fanout + 1, "those beside a failed broker have more"
