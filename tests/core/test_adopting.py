"""A client adopts a publisher that another process has left, and releases it."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.effects import (
    Effect,
    EventsConfirmed,
    EventsRetained,
    IncarnationStarted,
    LinkAdded,
    Persist,
    PublisherTaken,
    Record,
    Send,
)
from gapless.core.events import (
    Input,
    MessageReceived,
    PublisherAdopted,
    PublisherReleased,
    PublishRequested,
    SessionUp,
)
from gapless.core.leaf import Leaf
from gapless.core.messages.publisher import (
    Acknowledged,
    Acknowledgement,
    Attached,
    Publications,
    Stay,
)
from gapless.core.model import Event, Identity, OrderName, Topic
from gapless.core.node import NodeConfig
from gapless.core.orders.publisher.publishing import GENERATIONS_PER_INCARNATION as BLOCK
from publications import Publication, publications

TOPICS = {"t": Topic("t"), "fast": Topic("fast", OrderName.BEST_EFFORT)}


def event(sequence: int, publisher: str = "desk") -> Event:
    return Event("t", publisher, sequence, {"n": sequence})


LEFT: tuple[Record, ...] = (
    PublisherTaken("desk", 3),
    EventsRetained(tuple(map(event, range(1, 6)))),
    EventsConfirmed("t", "desk", 2),
)
"""Of five events two are confirmed; a client of incarnation 3 had it."""


def leaf(records: tuple[Record, ...] = (), *, least_incarnation: int = 1, connected: bool = True) -> Leaf:
    config = NodeConfig(node="c", delta=1, home="b", least_incarnation=least_incarnation)
    node = Leaf(config, records, topics=TOPICS, rng=Random(0))
    node.start(0)
    if connected:
        node.step([SessionUp(Identity("b", 1), dialed=True)], 0)
    return node


def homes(effects: list[Effect]) -> list[Attached]:
    return [each.message for each in effects if isinstance(each, Send) and isinstance(each.message, Attached)]


def sent(effects: list[Effect]) -> list[Publication]:
    return [
        publication
        for each in effects
        if isinstance(each, Send) and isinstance(each.message, Publications)
        for publication in publications(each.message)
    ]


def records(effects: list[Effect]) -> list[Record]:
    return [each.record for each in effects if isinstance(each, Persist)]


def named(publications: list[Publication]) -> list[tuple[str, int]]:
    return [(each.event.publisher, each.event.sequence) for each in publications]


def test_what_is_not_confirmed_is_repeated_as_after_a_move() -> None:
    node = leaf(least_incarnation=9)
    node.step([PublishRequested("t", "own", [({}, b"")])], 1)
    effects = node.step([PublisherAdopted("desk", LEFT)], 2)
    (attached,) = homes(effects)
    assert attached == Attached(9 * BLOCK + 2, (Stay("", 0, 9 * BLOCK + 1),))
    assert named(sent(effects)) == [("own", 1), ("desk", 3), ("desk", 4), ("desk", 5)]
    assert {each.generation[1] for each in sent(effects)} == {attached.generation}
    assert records(effects) == [PublisherTaken("desk", 9)]


def test_numbers_go_on_after_the_highest() -> None:
    node = leaf()
    node.step([PublisherAdopted("desk", LEFT)], 1)
    assert named(sent(node.step([PublishRequested("t", "desk", [({}, b"")])], 2))) == [("desk", 6)]


def test_numbers_of_best_effort_go_on_too() -> None:
    node = leaf()
    node.step([PublisherAdopted("desk", (EventsConfirmed("fast", "desk", 41),))], 1)
    assert EventsConfirmed("fast", "desk", 42) in records(
        node.step([PublishRequested("fast", "desk", [({}, b"")])], 2)
    )


def test_generations_are_higher_than_those_of_a_client_that_started_later() -> None:
    """All that the client publishes rises with it, and so do its next life and the next who adopts it."""
    node = leaf(least_incarnation=2)
    effects = node.step([PublisherAdopted("first", ())], 1)
    assert records(effects) == [PublisherTaken("first", 2)]
    assert homes(effects) == [], "nothing to repeat"
    effects = node.step([PublisherAdopted("desk", LEFT)], 2)
    kept = records(effects)
    assert kept == [IncarnationStarted(4), PublisherTaken("first", 4), PublisherTaken("desk", 4)]
    assert homes(effects) == [Attached(4 * BLOCK + 1, (Stay("", 0, 4 * BLOCK),))]
    assert leaf(tuple(kept)).identity.incarnation == 5
    other = leaf(least_incarnation=1)
    effects = other.step([PublisherAdopted("desk", (*LEFT, *(each for each in kept if each == kept[2])))], 3)
    assert homes(effects) == [Attached(5 * BLOCK + 1, (Stay("", 0, 5 * BLOCK),))]


def test_a_client_that_is_made_from_the_records_of_a_publisher_is_later_than_they_are() -> None:
    node = leaf(LEFT, connected=False)
    assert node.identity.incarnation == 4
    effects = node.step([SessionUp(Identity("b", 1), dialed=True)], 1)
    assert homes(effects) == [Attached(4 * BLOCK + 1, (Stay("", 0, 4 * BLOCK),))]
    assert named(sent(effects)) == [("desk", 3), ("desk", 4), ("desk", 5)]


def test_generations_fit_into_the_wire_when_incarnations_are_milliseconds() -> None:
    now_ms = 2_000_000_000_000  # in the year 2033
    node = leaf(least_incarnation=now_ms)
    (attached,) = homes(node.step([PublisherAdopted("desk", (PublisherTaken("desk", now_ms + 5),))], 1))
    assert attached.generation < 1 << 63


def test_a_publisher_is_adopted_before_there_is_a_home() -> None:
    node = leaf(connected=False)
    assert sent(node.step([PublisherAdopted("desk", LEFT)], 1)) == []
    effects = node.step([SessionUp(Identity("b", 1), dialed=True)], 2)
    assert homes(effects) == [Attached(4 * BLOCK + 1, (Stay("", 1, 4 * BLOCK),))]
    assert named(sent(effects)) == [("desk", 3), ("desk", 4), ("desk", 5)]


def confirm(node: Leaf, generation: int, publisher: str, first: int, last: int) -> list[Effect]:
    ack = Acknowledgement("t", publisher, (0, generation), ((first, last),))
    return node.step([MessageReceived("b", Acknowledged((ack,)))], 9)


def test_a_publisher_is_released_when_nothing_is_retained() -> None:
    node = leaf()
    (attached,) = homes(node.step([PublisherAdopted("desk", LEFT)], 1))
    release = PublisherReleased("desk")
    assert node.check(release) == "events of publisher 'desk' are not confirmed yet"
    node.step([release], 2)
    assert node.check(PublisherAdopted("desk", ())) == "publisher 'desk' is open already"
    confirm(node, attached.generation - 1, "desk", 3, 5)
    assert node.check(release) is not None, "a confirmation of an earlier generation says nothing"
    confirm(node, attached.generation, "desk", 3, 5)
    assert node.check(release) is None
    node.step([release], 3)
    again = PublisherAdopted("desk", (PublisherTaken("desk", 4), EventsConfirmed("t", "desk", 5)))
    assert node.check(again) is None
    node.step([again], 4)
    assert named(sent(node.step([PublishRequested("t", "desk", [({}, b"")])], 5))) == [("desk", 6)]


@pytest.mark.parametrize(
    ("request_", "error"),
    [
        (PublisherAdopted("own", ()), "publisher 'own' is open already"),
        (PublisherAdopted("", ()), "a publisher needs a name"),
        (PublisherAdopted("x" * 256, ()), "at most 255 characters"),
        (PublisherAdopted("x", LEFT), "PublisherTaken is no record of publisher 'x'"),
        (PublisherAdopted("x", (LinkAdded(("a", "b")),)), "LinkAdded is no record of publisher 'x'"),
    ],
    ids=range(5),
)
def test_what_cannot_be_adopted_is_named(request_: Input, error: str) -> None:
    node = leaf()
    node.step([PublishRequested("t", "own", [({}, b"")])], 0)
    assert error in (node.check(request_) or "")


def test_to_adopt_a_publisher_twice_is_a_mistake_of_the_driver() -> None:
    node = leaf()
    node.step([PublisherAdopted("desk", LEFT)], 1)
    with pytest.raises(ValueError, match="open already"):
        node.step([PublisherAdopted("desk", LEFT)], 2)
