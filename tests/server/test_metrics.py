"""Figures: what is counted, and how Prometheus gets it."""

from __future__ import annotations

import time

import msgspec
import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from gapless.core.messages import Acknowledged, BestEffortEvents, Confirmed, Log, Ping, Publications
from gapless.core.messages.publisher import Acknowledgement, Body, Confirmation, LogEntry
from gapless.core.model import SECOND, Event
from gapless.server.metrics import AWAITED_MAX, Figures, Rates, Tally
from publications import single

EVENT = Event("t", "p", 1, {})


def test_a_tally_is_a_histogram() -> None:
    tally = Tally((1, 10))
    for value in (0.5, 1, 2, 10, 11):
        tally.add(value)
    assert (tally.counts, tally.count, tally.total) == ([2, 2, 1], 5, 24.5)
    samples = {
        (sample.name, sample.labels.get("le")): sample.value for sample in tally.family("x", "An x.").samples
    }
    assert samples == {
        ("x_bucket", "1"): 2,
        ("x_bucket", "10"): 4,
        ("x_bucket", "+Inf"): 5,
        ("x_count", None): 5,
        ("x_sum", None): 24.5,
    }


def test_events_and_confirmations_are_counted_a_message_at_a_time() -> None:
    figures = Figures()
    publications = Publications((single(EVENT, 1),) * 3)
    acks = Acknowledged((Acknowledgement("t", "p", (0, 1), ((1, 3),)),))
    figures.received("c", [publications, Ping(), BestEffortEvents((EVENT,)), acks], is_client=True)
    figures.sent("b", [publications, acks, acks], is_client=False)
    figures.sent("c", [publications, BestEffortEvents((EVENT,))], is_client=True)
    assert (figures.events_in, figures.events_out, figures.deliveries) == (4, 7, 4)
    assert (figures.acknowledgements_in, figures.acknowledgements_out) == (1, 2)


def test_the_age_of_what_is_delivered() -> None:
    figures = Figures()
    old = msgspec.structs.replace(EVENT, published_at=int((time.time() - 2) * SECOND))
    ahead = msgspec.structs.replace(EVENT, published_at=int((time.time() + 60) * SECOND))
    figures.sent("c", [BestEffortEvents((old, ahead)), Publications((single(ahead, 1),))], is_client=True)
    figures.sent("b", [BestEffortEvents((old,))], is_client=False)
    assert figures.delivery_seconds.count == 2
    assert 2 <= figures.delivery_seconds.total < 30, "no age is negative, whatever clocks say"


def subscribe(*names: str) -> Log:
    return Log(tuple(LogEntry(1, name, Body("c", "t", "", ("c",))) for name in names))


def confirm(*names: str) -> Confirmed:
    return Confirmed(tuple(Confirmation(name, (), {}) for name in names))


def test_the_latency_of_a_clients_subscription() -> None:
    figures = Figures()
    figures.received("c", [subscribe("s1", "s2")], is_client=True)
    figures.received("b", [subscribe("s3")], is_client=False)
    figures.sent("b", [confirm("s1")], is_client=False)
    assert figures.subscription_seconds.count == 0
    figures.sent("c", [confirm("s1", "s3")], is_client=True)
    figures.sent("c", [confirm("s1")], is_client=True)
    assert figures.subscription_seconds.count == 1
    figures.forget("c")
    figures.sent("c", [confirm("s2")], is_client=True)
    assert figures.subscription_seconds.count == 1


def test_not_more_subscriptions_are_timed_than_can_be_borne() -> None:
    figures = Figures()
    for number in range(AWAITED_MAX + 10):
        figures.received("c", [subscribe(f"s{number}")], is_client=True)
    figures.sent("c", [confirm(f"s{AWAITED_MAX - 1}", f"s{AWAITED_MAX + 5}")], is_client=True)
    assert figures.subscription_seconds.count == 1


def test_rates_are_of_the_last_seconds() -> None:
    rates = Rates()
    assert rates.now(0.0, 0, 0) == (0.0, 0.0)
    for second in range(20):
        rates.sample(float(second), 100 * second, 10 * second)
    assert rates.now(19.5, 1950, 195) == pytest.approx((100.0, 10.0))
    assert rates.now(24.0, 1900, 190) == pytest.approx((50.0, 5.0))


def parsed(text: str) -> dict[str, float]:
    """The samples of an exposition, by name and labels."""
    return {
        sample.name + "".join(f"[{value}]" for value in sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_tally_can_be_read_by_prometheus() -> None:
    class One:
        def collect(self) -> list[object]:
            return [Tally((1,)).family("x", "An x.")]

    assert parsed(generate_latest(One()).decode())["x_count"] == 0  # type: ignore[arg-type]
