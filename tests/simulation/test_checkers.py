"""Each invariant on small traces: some keep it, others break it. See ``histories`` for the words."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.simulation.checkers import History, Kind, causal, check, gaps
from gapless.simulation.trace import Confirm, Publish, Subscribe, Trace
from simulation.histories import play


def kinds(words: str, promise: str = "publisher", *, healed: bool = True, **options: Any) -> list[str]:
    """The kinds of violations in a trace, each once."""
    return [kind.value for kind in check(play(words, **options), promise=promise, healed=healed).counts]


CLEAN = "s+ t+ p.1 ok:p.1 p.2 ok:p.2 s<p.1 t<p.1 t<p.2 s<p.2"


@pytest.mark.parametrize("promise", ["best-effort", "publisher", "causal", "total"])
def test_a_clean_trace(promise: str) -> None:
    report = check(play(CLEAN), promise=promise, healed=True, durable=True)
    assert report == []
    assert (report.ok, report.total, report.counts) == (True, 0, {})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        # phantom
        ("s+ p.1 s<p.1 s~p.2", ["phantom"]),
        ("s+ s<p.1 p.1", ["phantom"]),
        ("p.1 s<p.1", ["phantom"]),
        ("s+ p.1 s- s<p.1", ["phantom"]),
        ("s+ p.1 ok:p.2 s<p.1", ["phantom"]),
        ("s+ x:s p.1 s<p.1", ["phantom"]),
        # duplicate, flagged or not; a new stay of the same name is another subscription
        ("s+ p.1 s<p.1 s<p.1", ["duplicate"]),
        ("s+ p.1 s<p.1 s~p.1", ["duplicate"]),
        ("s+ p.1 s<p.1 s- s+ s<p.1", []),
        # early
        ("s? p.1 s<p.1 s!", ["early"]),
        ("s? p.1 s~p.1 s!", []),
        # order, and with it a gap at the moment of the delivery that came too soon
        ("s+ p.1 p.2 s<p.2 s<p.1", ["order", "gap"]),
        ("s+ p.1 p.2 s~p.2 s<p.1", []),
        ("s+ p.1 q.1 s<q.1 s<p.1", []),
        # gap
        ("s+ p.1 p.2 p.3 s<p.1 s<p.3", ["gap", "lost"]),
        ("s+ p.1 p.2 s<p.2", ["gap", "lost"]),
        ("s+ p.1 p.2 p.3 s<p.1 s~p.2 s<p.3", []),
        ("s+ p.1 p.2 p.3 s<p.1 s<p.3 s~p.2", ["gap"]),
        ("s+ p.1 p.2 p.3 s<p.1 s^p.3 s<p.3", []),
        ("s+ p.1 p.2 p.3 s<p.1 s^q.3 s<p.3", ["gap", "lost"]),
        ("s+ p.1 p.2 s<p.1 s^p p.3 s<p.3", []),
        ("s+ p.1 p.2 p.3 s<p.1 s^p.2 s<p.3", ["gap", "lost"]),
        ("p.1 p.2 s+ s<p.1 p.3 s<p.3", ["gap"]),
        ("s+ p.1 s! s+ p.2 s<p.2", ["gap", "lost"]),
        # lost
        ("s+ p.1", ["lost"]),
        ("p.1 s+", []),
        ("s+ p.1 s-", []),
        ("s+ p.1 p.2 s<p.1 s^p", []),
        ("s+ p.1 p.2 s<p.1 s^p.2", ["lost"]),
        ("s?", ["lost"]),
        ("s? s-", []),
        # what its publisher did not see confirmed when it crashed may be lost
        ("s+ p.1 x:p r:p p.2 s<p.2", []),
        ("s+ p.1 ok:p.1 x:p r:p p.2 s<p.2", ["gap", "lost"]),
        ("s+ p.1 x:b", ["lost"]),
        # or when it was told that its name is somebody else's since
        ("s+ p.1 f:p", []),
        ("s+ p.1 ok:p.1 f:p", ["lost"]),
        ("s+ p.1 f:q", ["lost"]),
        ("s+ f:p p.1", ["lost"]),
        # a subscription ends with its client
        ("s+ x:s p.1", []),
        # numbering
        ("s+ p.2 s<p.2", ["numbering"]),
        ("s+ p.1 p.1 s<p.1", ["numbering"]),
        ("s+ p.1 p.3 s<p.1 s<p.3", ["numbering"]),
    ],
)
def test_publisher_order(words: str, expected: list[str]) -> None:
    assert kinds(words) == expected


def test_best_effort_promises_only_what_cannot_be_wrong() -> None:
    assert kinds("s+ p.1 p.2 p.3 s<p.3 s<p.1", "best-effort") == []
    assert kinds("s+ p.1 s<p.1 s<p.1 s<p.2", "best-effort") == ["phantom", "duplicate"]


def test_nothing_is_lost_while_the_run_is_not_healed() -> None:
    assert kinds("s+ p.1 t?", "publisher", healed=False) == []
    assert kinds("s+ p.1 p.2 s<p.2", "publisher", healed=False) == ["gap"]


class TestSelectors:
    def test_what_does_not_match_is_neither_missed_nor_delivered(self) -> None:
        selectors = {"s": "n > 1"}
        assert kinds("s+ p.1 p.2 p.3 s<p.2 s<p.3", selectors=selectors) == []
        for sign in "<~":
            assert kinds(f"s+ p.1 p.2 s{sign}p.1 s<p.2", selectors=selectors) == ["wrong-match"]
        assert kinds("s+ p.1 p.2 p.3 s<p.3", selectors=selectors) == ["gap", "lost"]

    def test_topics_are_apart(self) -> None:
        assert kinds("s+ p.1 s<p.1", topics={"s": "t", "p": "elsewhere"}) == ["wrong-match"]
        assert kinds("s+ p.1", topics={"s": "t", "p": "elsewhere"}) == []

    def test_a_changed_selector_is_another_subscription(self) -> None:
        trace = play("s+ p.1 s<p.1 p.2", selectors={"s": "n = 1"})
        again = play("s+ p.2", selectors={"s": "n = 2"})
        assert check([*trace, *again[:2]], promise="publisher", healed=True).ok


class TestStart:
    """The beginning of a promise: the starting cut, what is unreachable, and resets (C1-04)."""

    def test_the_cut_says_where_a_publisher_starts(self) -> None:
        live = {"s": {"start": {"p": 2}}}
        assert kinds("p.1 p.2 s+ p.3 s<p.2 s<p.3", live=live) == []
        assert kinds("p.1 p.2 s+ p.3 s<p.3", live=live) == ["gap", "lost"]
        assert kinds("p.1 p.2 s+", live=live) == ["lost"]
        assert kinds("s+ p.1 p.2 s<p.2", live=live) == []

    @pytest.mark.parametrize("name", ["p", "client"])
    def test_unreachable_publishers_are_not_promised_until_a_start_is_told(self, name: str) -> None:
        options: dict[str, Any] = {"live": {"s": {"unreachable": (name,)}}, "clients": {"p": "client"}}
        assert kinds("s+ p.1 p.2 s<p.2 q.1 s<q.1", **options) == []
        assert kinds("s+ p.1 q.1", **options) == ["lost"]
        assert kinds("s+ p.1 s^p.2 p.2", **options) == ["lost"]
        assert kinds("s+ p.1 s^p.2 p.2 s<p.2", **options) == []

    def test_a_reset_without_a_start_reaches_nobody(self) -> None:
        live = {"s": {"unreachable": ("p",)}}
        trace = play("s+ p.1 s^p p.2 q.1 s<q.1 s^q q.2 s<q.2", live=live)
        assert check(trace, promise="publisher", healed=True).ok
        trace += play("s!") + play("p.1 p.2 p.3")[2:]
        assert check(trace, promise="publisher", healed=True).counts == {Kind.LOST: 1}

    def test_unreachable_brokers_are_those_of_the_publication(self) -> None:
        trace = play("s+", live={"s": {"unreachable": ("b",)}})
        event: dict[str, Any] = {
            "client": "p",
            "publisher": "p",
            "sequence": 1,
            "topic": "t",
            "attributes": {},
        }
        near, far = Publish(t=9, broker="a", **event), Publish(t=9, broker="b", **event)
        assert check([*trace, far], promise="publisher", healed=True).ok
        assert check([*trace, near], promise="publisher", healed=True).counts == {Kind.LOST: 1}

    def test_another_live_promises_what_was_unreachable_and_takes_nothing_back(self) -> None:
        trace = play("s+ p.1 q.1 s<q.1 q.2", live={"s": {"unreachable": ("p",)}})
        trace += play("s!") + play("p.1 p.2")[1:]
        assert check(trace, promise="publisher", healed=True).counts == {Kind.LOST: 2}


class TestDurable:
    def test_a_confirmed_event_comes_sooner_or_later(self) -> None:
        durable = ("s",)
        assert kinds("s+ p.1 ok:p.1 x:s r:s s? s<p.1", durable=durable) == []
        assert kinds("s+ p.1 ok:p.1 x:s r:s s?", durable=durable) == ["lost", "durable"]
        assert kinds("s+ p.1 x:p", durable=durable) == []
        assert kinds("s+ p.1 ok:p.1 s-", durable=durable) == []

    def test_a_reset_is_no_excuse(self) -> None:
        words = "s+ p.1 ok:p.1 s^p p.2 s<p.2"
        assert kinds(words) == []
        assert kinds(words, durable=("s",)) == ["durable"]
        assert check(play(words), promise="publisher", healed=True, durable=True).counts == {Kind.DURABLE: 1}

    def test_events_before_the_registration_and_unreachable_ones_are_not_owed(self) -> None:
        assert kinds("p.1 ok:p.1 s+", durable=("s",)) == []
        live = {"s": {"unreachable": ("p",)}}
        assert kinds("s+ p.1 ok:p.1", durable=("s",), live=live) == []

    def test_a_confirmation_names_its_topic_where_it_must(self) -> None:
        both = play("s+ p.1 s^p", topics={"p": "t"}) + play("p.1", topics={"p": "other"})
        confirmations = [Confirm(t=9, publisher="p", sequence=1, topic=topic) for topic in ("", "other", "t")]
        found = [
            check([*both, c], promise="publisher", healed=True, durable=True).counts for c in confirmations
        ]
        assert found == [{}, {}, {Kind.DURABLE: 1}]


class TestCausal:
    """e.g. ``b+ … b<a.1 b.1``: b reacts to a.1 with b.1."""

    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("s+ b+ a.1 b<a.1 b.1 b<b.1 s<a.1 s<b.1", []),
            ("s+ b+ a.1 b<a.1 b.1 b<b.1 s<b.1 s<a.1", ["causal"]),
            # without a delivery there is no cause
            ("s+ b+ a.1 b.1 b<a.1 b<b.1 s<b.1 s<a.1", []),
            # a chain of two, and one through an event before the one that was given
            ("s+ b+ c+ a.1 b<a.1 b.1 c<b.1 c.1 s<b.1 s<c.1", ["lost", "causal"]),
            ("s+ b+ c+ a.1 b<a.1 b.1 c<b.1 c.1 s<c.1 s<a.1 s<b.1", ["lost", "causal"]),
            ("s+ b+ a.1 a.2 b<a.2 b.1 b<b.1 s<b.1 s<a.1 s<a.2", ["gap", "lost", "causal"]),
            # what a flagged delivery told is known; a flagged delivery itself is not judged
            ("s+ b+ a.1 b~a.1 b.1 b<b.1 s<b.1 s<a.1", ["causal"]),
            ("s+ b+ a.1 b<a.1 b.1 b<b.1 s~b.1 s<a.1", []),
            ("s+ b+ a.1 b<a.1 b.1 b<b.1 s~a.1 s<b.1", []),
            # a reset withdraws the promise of the cause, if it comes in time
            ("s+ b+ a.1 b<a.1 b.1 b<b.1 s^a s<b.1", []),
            ("s+ b+ a.1 b<a.1 b.1 b<b.1 s<b.1 s^a", ["causal"]),
            ("s+ b+ a.1 b<a.1 b.1 b<b.1 s^a b.2 b<b.2 s<b.1 s^a.1 s<b.2", ["lost", "causal"]),
        ],
    )
    def test_reactions_come_after_their_causes(self, words: str, expected: list[str]) -> None:
        assert kinds(words, "causal") == expected
        assert "causal" not in kinds(words, "publisher")

    def test_what_is_promised_anew_is_missed_once(self) -> None:
        trace = play("s+ b+ a.1 b<a.1 b.1 b<b.1 s^a s<b.1 s^a.1 b.2 b<b.2 s<b.2 b.3 b<b.3 s<b.3")
        (found,) = check(trace, promise="causal", healed=False)
        assert (found.kind, found.publisher, found.sequence, found.index) == (Kind.CAUSAL, "a", 1, 13)

    def test_the_violation_names_the_cause(self) -> None:
        trace = play("s+ b+ a.1 b<a.1 b.1 b<b.1 s<b.1 s<a.1")
        (found,) = check(trace, promise="causal", healed=True)
        assert (found.subscription, found.publisher, found.sequence) == ("s", "a", 1)
        assert (found.index, found.t) == (8, 8000)
        assert str(found) == "line 9, t=8000: causal: s got b.1 without its cause a.1"

    def test_effects_of_what_was_delivered_are_owed_before_the_start_too(self) -> None:
        live = {"s": {"start": {"a": 1, "b": 2}}}
        words = "b+ a.1 b<a.1 b.1 b<b.1 s+ s<a.1"
        assert kinds(words, "causal", live=live) == ["causal"]
        assert kinds(words, "causal", live=live, healed=False) == []
        assert kinds(f"{words} s<b.1", "causal", live=live) == []
        assert kinds(f"{words} b.2 b<b.2 s<b.2", "causal", live=live, healed=False) == ["causal"]

    @pytest.mark.parametrize(
        ("cut", "deliveries", "gfd", "gcd"),
        [
            ({"a": 3, "b": 2, "c": 2}, "s<a.3 s<b.2 s<c.2 s<c.3", True, True),
            ({"a": 3, "b": 1, "c": 3}, "s<a.3 s<b.1 s<b.2 s<c.3", True, False),
        ],
    )
    def test_C1_08_the_two_cuts_of_figure_1(
        self, cut: dict[str, int], deliveries: str, gfd: bool, gcd: bool
    ) -> None:
        """Cut {e1.3, e2.2, e3.2} is gapless causal; {e1.3, e2.1, e3.3} is gapless FIFO and not causal.

        e2.1 → e3.2 → e3.3, and the second history has e2.1 and e3.3 without e3.2. Publishers 1, 2, 3 are
        a, b, c here. Reference: section II-B, figure 1.
        """
        graph = "c+ a.1 b.1 c.1 c<b.1 c.2 a.2 b.2 a.3 c.3"
        history = History(
            play(f"{graph} s+ {deliveries}", live={"s": {"start": cut}, "c": {"start": {"c": 9}}})
        )
        assert bool(list(gaps(history))) is not gfd
        violations = [v for v in causal(history, healed=False) if v.subscription == "s"]
        assert bool(violations) is not gcd
        assert [(v.publisher, v.sequence) for v in violations] == ([] if gcd else [("c", 2)])


class TestTotal:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ("s+ t+ p.1 q.1 s<p.1 s<q.1 t<p.1 t<q.1", []),
            ("s+ t+ p.1 q.1 s<p.1 s<q.1 t<q.1 t<p.1", ["total"]),
            # three which disagree only together
            ("p.1 q.1 r.1 s+ t+ u+ s<p.1 s<q.1 t<q.1 t<r.1 u<r.1 u<p.1", ["total"]),
            ("p.1 q.1 r.1 s+ t+ u+ s<p.1 s<q.1 t<q.1 t<r.1 u<p.1 u<r.1", []),
            # flagged deliveries are not judged
            ("p.1 q.1 s+ t+ s<p.1 s<q.1 t~q.1 t<p.1", []),
        ],
    )
    def test_all_agree(self, words: str, expected: list[str]) -> None:
        assert kinds(words, "total") == expected
        assert kinds(words, "publisher") == []

    def test_the_same_selector_and_the_same_start_give_the_same(self) -> None:
        """G4-56: C2 and C3 get one stream."""
        words = "p.1 q.1 s+ t+ s<p.1 s<q.1 t<q.1"
        live = {"s": {"position": 7}, "t": {"position": 7}}
        assert kinds(words, "total", live=live) == ["total"]
        assert kinds(words, "total", live={"s": {"position": 7}, "t": {"position": 8}}) == []
        assert kinds(words, "total", live=live, selectors={"s": "n > 0"}) == []
        assert kinds("p.1 q.1 s+ t+ s<p.1 s<q.1 t<p.1 t-", "total", live=live) == []
        assert kinds("p.1 q.1 s+ t+ s<p.1 t<p.1 t<q.1", "total", live=live) == ["total"]
        assert kinds("p.1 q.1 s+ t+ s<p.1 t<p.1 t<q.1", "total", live=live, healed=False) == []


class TestReport:
    def test_all_are_counted_and_some_are_reported(self) -> None:
        trace = play("s+ p.1 " + "s<p.1 " * 50 + "s<q.1")
        report = check(trace, promise="publisher", healed=True, limit=3)
        assert report.counts == {Kind.PHANTOM: 1, Kind.DUPLICATE: 49}
        assert (len(report), report.total, report.ok) == (4, 50, False)
        assert [v.index for v in report] == [53, 4, 5, 6]

    def test_any_iterable_of_records_is_a_trace(self) -> None:
        assert check(Trace(play(CLEAN)), promise="total", healed=True).ok
        assert check(iter(play(CLEAN)), promise="total", healed=True).ok

    def test_a_promise_that_does_not_exist_is_refused(self) -> None:
        with pytest.raises(ValueError, match="eventually"):
            check([], promise="eventually", healed=True)

    def test_a_delivery_to_another_client_is_a_phantom(self) -> None:
        trace = play("s+ p.1") + play("s<p.1", clients={"s": "thief"})
        assert check(trace, promise="best-effort", healed=True).counts == {Kind.PHANTOM: 1}
        moved = Subscribe(t=9, client="thief", subscription="s", topic="t", selector="", broker="b")
        assert check([*trace[:-1], moved, trace[-1]], promise="total", healed=True).ok
