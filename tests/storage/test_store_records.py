"""The records of a node in a store: a node that is made from it is the node that wrote it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gapless.core.effects import (
    ClientAway,
    ConfirmedWithout,
    EventsConfirmed,
    EventsRetained,
    GuestTaken,
    IncarnationStarted,
    LinkAdded,
    LinkRemoved,
    PublisherTaken,
    Record,
    TopicDeclared,
)
from gapless.core.model import Declaration, Event, OrderName, Topic
from gapless.simulation.host import SimulatedHost
from gapless.simulation.run import Options, simulate
from gapless.storage import MemoryStore, Store, changes, open_store, restored


def kept(store: Store, records: Sequence[Record]) -> list[Record]:
    store.write(changes(records))
    return list(restored(store))


def event(sequence: int, topic: str = "t", publisher: str = "p", **attributes: Any) -> Event:
    return Event(topic, publisher, sequence, attributes, b"payload", 7)


def test_only_what_still_holds_is_kept(tmp_path: Path) -> None:
    topic = Declaration(Topic("t", schema="price DOUBLE"), 1)
    records: list[Record] = [
        IncarnationStarted(1),
        LinkAdded(("a", "b"), marked=True),
        LinkAdded(("b", "c")),
        IncarnationStarted(2),
        LinkAdded(("a", "b")),
        LinkRemoved(("b", "c")),
        TopicDeclared(topic),
        TopicDeclared(Declaration(topic.topic, 2, deleted=True)),
        PublisherTaken("p", 5),
        PublisherTaken("p", 6),
        EventsRetained((event(1),)),
        EventsRetained(tuple(map(event, range(2, 6)))),
        EventsConfirmed("t", "p", 3),
        EventsConfirmed("loose", "p", 1),
        EventsConfirmed("loose", "p", 2),
        ConfirmedWithout("p", ("c1:1:1",)),
        ConfirmedWithout("q", ("c1:1:1",)),
        ConfirmedWithout("p", ()),
        ConfirmedWithout("q", ("c1:1:1", "c2:1:1")),
        ClientAway("c1", 7),
        ClientAway("c2", 7),
        ClientAway("c1"),
        ClientAway("c2", 9),
        GuestTaken("t", "p", (1, 2), "b"),
        GuestTaken("t", "p", (1, 4), "b"),
        GuestTaken("t", "q", (1, 2), "b"),
        GuestTaken("t", "q"),
    ]
    expected = [
        IncarnationStarted(2),
        LinkAdded(("a", "b")),
        TopicDeclared(Declaration(topic.topic, 2, deleted=True)),
        PublisherTaken("p", 6),
        EventsConfirmed("t", "p", 3),
        EventsRetained((event(4), event(5))),
        EventsConfirmed("loose", "p", 2),
        ConfirmedWithout("q", ("c1:1:1", "c2:1:1")),
        ClientAway("c2", 9),
        GuestTaken("t", "p", (1, 4), "b"),
    ]
    with open_store(tmp_path, "b1") as store:
        assert sorted(kept(store, records), key=str) == sorted(expected, key=str)
    with open_store(tmp_path, "b1") as store:
        assert sorted(restored(store), key=str) == sorted(expected, key=str)


def test_attributes_survive() -> None:
    values: dict[str, Any] = {
        "text": "é",
        "whole": -(2**63),
        "real": 1.5,
        "yes": True,
        "none": None,
    }
    attributes = {**values, "nested": {"deep": values}}
    record = EventsRetained((event(1, **attributes),))
    assert kept(MemoryStore("b1"), [record]) == [record]


def test_names_do_not_run_into_each_other() -> None:
    names = ["a", 'a"', "a,b", "b", '["a","b"]', "", " ", "é\n\0"]
    records: list[Record] = [EventsRetained((event(1, topic, name),)) for topic in names for name in names]
    records += [LinkAdded((a, b)) for a in names for b in names]
    records += [TopicDeclared(Declaration(Topic(name), 1)) for name in names]
    assert sorted(kept(MemoryStore("b1"), records), key=str) == sorted(records, key=str)


def test_many_retained_events_come_back_in_order() -> None:
    retained = EventsRetained(tuple(map(event, range(1, 2502))))
    found = [each for each in kept(MemoryStore("b1"), [retained]) if isinstance(each, EventsRetained)]
    assert sum((each.events for each in found), ()) == retained.events
    assert [len(each.events) for each in found] == [1000, 1000, 501], "not all in one record"


@pytest.mark.parametrize("wrong", [1, 3, 5])
def test_a_sequence_that_does_not_follow_is_refused(wrong: int) -> None:
    store = MemoryStore("b1")
    store.write(changes([EventsRetained((event(1), event(2))), EventsConfirmed("t", "p", 3)]))
    with pytest.raises(ValueError, match=f"next position.*is 4, not {wrong}"):
        store.write(changes([EventsRetained((event(wrong),))]))


def start_from_stores(monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, list[Record]]]:
    """Let every simulated node start from what a store keeps of its records; how many they were, and that."""
    start = SimulatedHost.start
    found: list[tuple[int, list[Record]]] = []

    def start_from_store(host: SimulatedHost) -> None:
        before = len(host.store)
        host.store = kept(MemoryStore(host.name), host.store)
        found.append((before, list(host.store)))
        start(host)

    monkeypatch.setattr(SimulatedHost, "start", start_from_store)
    return found


@pytest.mark.parametrize("order", [OrderName.PUBLISHER, OrderName.BEST_EFFORT])
def test_a_network_whose_nodes_restart_from_stores_behaves_the_same(
    order: OrderName, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = Options(order=order, brokers=5, subscribers=2, events=60, crashes=12)
    seeds = (2, 29)
    expected = [simulate(options, seed)[0].digest for seed in seeds]
    starts = start_from_stores(monkeypatch)
    assert [simulate(options, seed)[0].digest for seed in seeds] == expected
    assert sum(len(records) < before for before, records in starts) > len(seeds), (
        "there was much to leave out"
    )
    if order is OrderName.PUBLISHER:
        assert any(isinstance(each, EventsRetained) for _, records in starts for each in records)
