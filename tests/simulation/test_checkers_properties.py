"""The checkers on random histories: silent on correct ones, and of one mind with the literal definitions."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from gapless.simulation.checkers import Kind, Violation, causal, check, duplicates, gaps, lost, order, total
from gapless.simulation.checkers.history import History
from gapless.simulation.trace import Deliver, Live, Publish, Record
from simulation import definitions
from simulation.histories import chaotic, correct

CORRECT = range(150)
CHAOTIC = range(400)


def found(trace: list[Record], promise: str, *, healed: bool = True) -> set[Kind]:
    return set(check(trace, promise=promise, healed=healed).counts)


def named(history: History, violations: Iterable[Violation]) -> set[definitions.Named]:
    """Violations as the definitions name them: by the beginning of the subscription.

    A delivery lies within its subscription; what never came is missed by the one that is still open.
    """
    result = set()
    for v in violations:
        assert v.publisher is not None
        assert v.sequence is not None
        stays = [s for s in history.subscriptions if s.name == v.subscription]
        delivered = isinstance(history.records[v.index], Deliver)
        here = [s.index for s in stays if (s.index < v.index < s.ended if delivered else s.is_open)]
        assert len(here) == 1
        result.add((here[0], v.publisher, v.sequence))
    return result


@pytest.mark.parametrize("promise", ["best-effort", "publisher", "causal", "total"])
def test_correct_histories_are_clean(promise: str) -> None:
    for seed in CORRECT:
        trace = correct(Random(seed))
        assert not check(trace, promise=promise, healed=True, durable=True), seed
        assert not check(trace[: len(trace) // 2], promise=promise, healed=False), seed


def test_definitions_agree_that_correct_histories_are_clean() -> None:
    for seed in CORRECT:
        world = definitions.World(correct(Random(seed)))
        assert not definitions.gap(world) | definitions.lost(world) | definitions.causal(world), seed
        assert not definitions.disputed(world), seed


def test_gaps_are_those_of_the_definition() -> None:
    for seed in CHAOTIC:
        trace = chaotic(Random(seed))
        history = History(trace)
        assert named(history, gaps(history)) == definitions.gap(definitions.World(trace)), seed


def test_losses_are_those_of_the_definition() -> None:
    for seed in CHAOTIC:
        trace = chaotic(Random(seed))
        history = History(trace)
        world = definitions.World(trace)
        violations = list(lost(history))
        events = [v for v in violations if v.publisher is not None]
        assert named(history, events) == definitions.lost(world), seed
        never_live = [s.first.subscription for s in world.stays if s.end is None and s.live is None]
        assert [v.subscription for v in violations if v.publisher is None] == never_live, seed


def test_causal_violations_are_those_of_the_definition() -> None:
    count = 0
    for seed in CHAOTIC:
        trace = chaotic(Random(seed))
        history = History(trace)
        expected = definitions.causal(definitions.World(trace))
        count += len(expected)
        assert named(history, causal(history, healed=True)) == expected, seed
    assert count > len(CHAOTIC), "the histories hold too little to find"


def test_disagreement_is_found_when_no_total_order_exists() -> None:
    verdicts = set()
    for seed in CHAOTIC:
        trace = chaotic(Random(seed), steps=14)
        disputed = definitions.disputed(definitions.World(trace))
        contradicted = [v for v in total(History(trace), healed=False) if "contradicts" in v.message]
        assert bool(contradicted) == disputed, seed
        verdicts.add(disputed)
    assert verdicts == {False, True}


def test_order_and_duplicates_are_those_of_the_definition() -> None:
    for seed in CHAOTIC:
        trace = chaotic(Random(seed))
        history = History(trace)
        for checker, wrong in ((duplicates, _twice), (order, _backwards)):
            expected = {i for stay in definitions.World(trace).stays for i in wrong(stay)}
            assert {v.index for v in checker(history)} == expected, (seed, checker)


def _twice(stay: definitions.Stay) -> list[int]:
    return [i for i, r in stay.deliveries if stay.when((r.publisher, r.sequence)) != i]


def _backwards(stay: definitions.Stay) -> list[int]:
    got = stay.reliable()
    return [i for i, e in got if any(j < i and f[0] == e[0] and f[1] > e[1] for j, f in got)]


def test_reports_do_not_depend_on_the_order_of_sets() -> None:
    script = (
        "from random import Random; from gapless.simulation.checkers import check;"
        "from simulation.histories import chaotic;"
        "traces = [chaotic(Random(seed)) for seed in range(40)];"
        "orders = ('causal', 'total');"
        "print([[*check(t, promise=order, healed=True, durable=True)] for t in traces for order in orders])"
    )
    tests = str(Path(__file__).parents[1])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": tests},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def deliveries(trace: list[Record], name: str | None = None) -> list[int]:
    return [i for i, r in enumerate(trace) if isinstance(r, Deliver) and name in (None, r.subscription)]


def mutable(seed: int) -> tuple[Random, list[Record], int, Deliver]:
    """A correct history and one of its deliveries."""
    rng = Random(seed)
    trace = correct(rng)
    while not (indices := deliveries(trace)):
        trace = correct(rng)
    index = rng.choice(indices)
    record = trace[index]
    assert isinstance(record, Deliver)
    return rng, trace, index, record


@pytest.mark.parametrize("seed", range(60))
class TestMutations:
    def test_dropped(self, seed: int) -> None:
        _, trace, index, record = mutable(seed)
        del trace[index]
        history = History(trace, durable=True)
        confirmed = history.streams["t"][record.publisher].confirmed
        report = check(trace, promise="publisher", healed=True, durable=True)
        stayed = [s for s in history.subscriptions if s.name == record.subscription and s.is_open]
        later = any(
            isinstance(r, Deliver)
            and r.subscription == record.subscription
            and r.publisher == record.publisher
            for r in trace[index:]
        )
        if stayed and stayed[0].index < index:
            assert Kind.LOST in report.counts
            assert (Kind.DURABLE in report.counts) == (record.sequence in confirmed)
            assert (Kind.GAP in report.counts) == later

    def test_duplicated(self, seed: int) -> None:
        rng, trace, index, record = mutable(seed)
        history = History(trace)
        end = min(history.owners[index].ended, len(trace))
        trace.insert(rng.randint(index + 1, end), record)
        assert found(trace, "total") == {Kind.DUPLICATE}

    def test_swapped(self, seed: int) -> None:
        """Two neighbours of one subscription: the order of a publisher, of causality or of all breaks."""
        rng, trace, _, record = mutable(seed)
        own = deliveries(trace, record.subscription)
        pairs = list(pairwise(own))
        if not pairs:
            return
        i, j = rng.choice(pairs)
        first, second = trace[i], trace[j]
        assert isinstance(first, Deliver)
        assert isinstance(second, Deliver)
        if History(trace).owners[i] is not History(trace).owners[j]:
            return
        pasts = definitions.World(trace).pasts()
        caused = (first.publisher, first.sequence) in pasts[second.publisher, second.sequence]
        trace[i], trace[j] = second, first
        assert (Kind.ORDER in found(trace, "causal")) == (first.publisher == second.publisher)
        if caused:
            assert Kind.CAUSAL in found(trace, "causal")
        if definitions.disputed(definitions.World(trace)):
            assert Kind.TOTAL in found(trace, "total")

    def test_inserted_without_publication(self, seed: int) -> None:
        rng, trace, index, record = mutable(seed)
        bogus = Deliver(
            t=record.t,
            client=record.client,
            subscription=record.subscription,
            publisher=record.publisher,
            sequence=rng.randint(100, 200),
            best_effort=rng.random() < 0.5,
        )
        trace.insert(index, bogus)
        assert found(trace, "total") == {Kind.PHANTOM}

    def test_inserted_without_match(self, seed: int) -> None:
        _, trace, index, record = mutable(seed)
        history = History(trace)
        owner = history.owners[index]
        for publication in (r for r in trace[:index] if isinstance(r, Publish)):
            stream = history.streams["t"][publication.publisher]
            if publication.sequence not in history.matching(owner, stream):
                wrong = Deliver(
                    t=record.t,
                    client=record.client,
                    subscription=record.subscription,
                    publisher=publication.publisher,
                    sequence=publication.sequence,
                    best_effort=True,
                )
                trace.insert(index, wrong)
                assert found(trace, "total") == {Kind.WRONG_MATCH}
                return

    def test_live_too_late(self, seed: int) -> None:
        _, trace, index, record = mutable(seed)
        live = max(
            i
            for i, r in enumerate(trace[:index])
            if isinstance(r, Live) and r.subscription == record.subscription
        )
        trace.insert(index, trace.pop(live))
        assert Kind.EARLY in found(trace, "publisher")
