"""The node as its driver sees it: batches in, effects out, nothing performed inside."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.broker import Broker
from gapless.core.effects import (
    Connect,
    Deliver,
    Disconnect,
    Effect,
    IncarnationStarted,
    LinkAdded,
    Live,
    Persist,
    Receipt,
    Record,
    Send,
)
from gapless.core.events import (
    ConnectFailed,
    Input,
    MessageReceived,
    PublishRequested,
    SessionDown,
    SessionUp,
    SubscribeRequested,
    SuspectRequested,
    UnsubscribeRequested,
)
from gapless.core.leaf import Leaf
from gapless.core.messages import BestEffortEvents, BestEffortSubscribed, Neighbourhood, Ping, Status
from gapless.core.messages.overlay import NodeState
from gapless.core.model import Event, Identity, OrderName, Topic
from gapless.core.node import NodeConfig
from gapless.core.overlay.sessions import Timing

TIMING = Timing()
TOPICS = {"t": Topic("t", OrderName.BEST_EFFORT)}


def broker(name: str = "b", *, records: list[Record] | None = None, delta: int = 1) -> Broker:
    return Broker(NodeConfig(node=name, delta=delta), records or [], rng=Random(0))


def leaf() -> Leaf:
    node = Leaf(NodeConfig(node="c", delta=1, home="b"), [], topics=TOPICS, rng=Random(0))
    node.start(0)
    node.step([SessionUp(Identity("b", 1), dialed=True)], 0)
    return node


def neighbourhood(*links: tuple[str, str], known: tuple[str, ...] = ()) -> Neighbourhood:
    return Neighbourhood(links, (), NodeState.OPERATIONAL, known=known)


def of(kind: type, effects: list[Effect]) -> list[Effect]:
    return [each for each in effects if isinstance(each, kind)]


def test_a_start_is_durable_before_anything_of_it_leaves() -> None:
    node = broker(records=[LinkAdded(("a", "b"))])
    assert node.start(0) == [Persist(IncarnationStarted(1)), Connect("a")]


def test_every_start_is_a_new_incarnation() -> None:
    records: list[Record] = []
    for life in (1, 2, 3):
        node = broker(records=records)
        effects = node.start(0)
        records += [each.record for each in effects if isinstance(each, Persist)]
        assert node.identity == Identity("b", life)


def test_a_session_begins_with_the_links_that_the_peer_should_know() -> None:
    node = broker(records=[LinkAdded(("a", "b")), LinkAdded(("b", "d"))])
    node.start(0)
    sent = of(Send, node.step([SessionUp(Identity("a", 1), dialed=True)], 0))
    assert sent[0] == Send("a", neighbourhood(("a", "b"), ("b", "d"), known=("a", "b")))


def test_a_batch_is_handled_in_order() -> None:
    node = broker(records=[LinkAdded(("a", "b"))])
    node.start(0)
    up, down = SessionUp(Identity("a", 1), dialed=True), SessionDown("a")
    effects = node.step([up, down, up, MessageReceived("a", neighbourhood())], 0)
    told = Send("a", neighbourhood(("a", "b"), known=("a", "b")))
    assert [each for each in effects if each in (told, Connect("a"))] == [told, Connect("a"), told]
    assert node.overlay.frontier.active == ["a"]


def test_a_message_of_a_session_that_this_side_closed_is_dropped() -> None:
    node = broker(records=[LinkAdded(("a", "b"))])
    node.start(0)
    node.step([SessionUp(Identity("a", 1), dialed=True)], 0)
    effects = node.step([SuspectRequested("a"), MessageReceived("a", Status(NodeState.FAILED))], 1)
    assert [each.peer for each in effects if isinstance(each, Disconnect)] == ["a"]
    assert "a" not in node.overlay.sessions.up


@pytest.mark.parametrize("late", [SessionDown("x"), ConnectFailed("x"), SuspectRequested("x")])
def test_reports_on_a_stranger_change_nothing(late: Input) -> None:
    node = broker(records=[LinkAdded(("a", "b"))])
    node.start(0)
    assert node.step([late], 0) == []


def test_the_driver_is_told_when_to_come_back() -> None:
    node = broker(records=[LinkAdded(("a", "b"))])
    node.start(0)
    assert node.wake_at() is None
    node.step([SessionUp(Identity("a", 1), dialed=True)], 0)
    due = node.wake_at()
    assert due == TIMING.ping_every
    assert node.step([], due - 1) == []
    assert node.step([], due) == [Send("a", Ping())]
    assert node.wake_at() == 2 * TIMING.ping_every


def test_a_silent_peer_is_suspected_bypassed_and_dialed_again() -> None:
    node = broker(records=[LinkAdded(("a", "b")), LinkAdded(("a", "z"))])
    node.start(0)
    node.step([SessionUp(Identity("a", 1), dialed=True)], 0)
    effects: list[Effect] = []
    now = 0
    while not of(Disconnect, effects):
        due = node.wake_at()
        assert due is not None
        now = due
        effects = node.step([], now)
    assert TIMING.suspect_after <= now <= TIMING.suspect_after + TIMING.ping_every
    assert of(Connect, effects) == [Connect("a", via=("z",)), Connect("z")]


def test_a_returning_broker_has_settled_when_all_who_could_tell_it_something_did() -> None:
    records: list[Record] = [IncarnationStarted(1), LinkAdded(("a", "b")), LinkAdded(("b", "d"))]
    node = broker(records=records)
    node.start(0)
    assert node.overlay.state is NodeState.RECOVERING
    settled = [node.overlay.settled]
    node.step([SessionUp(Identity("a", 1), dialed=True), MessageReceived("a", neighbourhood())], 0)
    settled.append(node.overlay.settled)  # nobody knows yet whether d can be reached
    node.step([ConnectFailed("d")], 0)
    settled.append(node.overlay.settled)
    assert settled == [False, False, True]


def test_a_broker_serves_no_application() -> None:
    node = broker()
    node.start(0)
    with pytest.raises(TypeError, match="PublishRequested"):
        node.step([PublishRequested("t", "p", [({}, b"")])], 0)


def test_a_stranger_is_not_served_as_a_client() -> None:
    node = broker(records=[LinkAdded(("a", "b"))])
    node.start(0)
    (effect,) = node.step([SessionUp(Identity("c", 1, home="far"), dialed=False)], 0)
    assert isinstance(effect, Disconnect)
    assert "c" not in node.overlay.sessions.up


def test_a_client_attaches_to_the_neighbours_of_its_home_when_the_home_fails() -> None:
    node = leaf()
    node.step([MessageReceived("b", neighbourhood(("a", "b"), ("b", "d")))], 0)
    effects = node.step([SessionDown("b")], 1)
    assert of(Connect, effects) == [Connect("b", via=("a", "d")), Connect("a"), Connect("d")]


def test_a_client_publishes_and_gets_only_what_a_live_subscription_wants() -> None:
    node = leaf()
    effects = node.step([PublishRequested("t", "p", [({"x": 1}, b"")])], 5)
    assert of(Send, effects) == [Send("b", BestEffortEvents((Event("t", "p", 1, {"x": 1}, b"", 5),)))]
    assert of(Receipt, effects) == [Receipt("t", "p", 1)]
    node.step([SubscribeRequested("s", "t", "x > 1")], 6)
    events = BestEffortEvents((Event("t", "p", 1, {"x": 1}), Event("t", "p", 2, {"x": 2})))
    assert node.step([MessageReceived("b", events)], 7) == [], "not live yet"
    (live,) = node.step([MessageReceived("b", BestEffortSubscribed("s"))], 8)
    assert isinstance(live, Live)
    assert node.step([MessageReceived("b", events)], 9) == [Deliver("s", events.events[1:])]
    node.step([UnsubscribeRequested("s")], 10)
    assert node.step([MessageReceived("b", events)], 11) == []


def test_a_client_is_told_what_it_does_wrong() -> None:
    node = leaf()
    with pytest.raises(ValueError, match="no topic 'u'"):
        node.step([PublishRequested("u", "p", [({}, b"")])], 0)
    node.step([SubscribeRequested("s", "t", "")], 0)
    with pytest.raises(ValueError, match="already"):
        node.step([SubscribeRequested("s", "t", "")], 0)


def test_a_configuration_that_makes_no_sense_is_refused() -> None:
    with pytest.raises(ValueError, match="name"):
        NodeConfig(node="", delta=1)
    with pytest.raises(ValueError, match="delta"):
        NodeConfig(node="b", delta=-1)
    with pytest.raises(ValueError, match="no home"):
        Broker(NodeConfig(node="b", delta=1, home="a"), [], rng=Random(0))
    with pytest.raises(ValueError, match="home broker"):
        Leaf(NodeConfig(node="c", delta=1), [], topics={}, rng=Random(0))
