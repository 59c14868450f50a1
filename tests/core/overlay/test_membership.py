"""A network has an id: its founder makes it, everybody else learns it once and keeps it."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.broker import Broker
from gapless.core.effects import (
    Disconnect,
    Effect,
    LinkAdded,
    NameTaken,
    NetworkBound,
    Persist,
    Record,
    Send,
)
from gapless.core.events import ConnectFailed, Input, MessageReceived, SessionDown, SessionUp
from gapless.core.leaf import Leaf
from gapless.core.messages import JoinRefused, JoinRequest, Neighbourhood
from gapless.core.messages.overlay import NodeState
from gapless.core.model import Identity, Refusal
from gapless.core.node import NodeConfig

LINK = LinkAdded(("a", "b"))


def broker(*records: Record, founder: bool = False, join: tuple[str, ...] = (), seed: int = 0) -> Broker:
    config = NodeConfig(node="b", delta=1, founder=founder, join_points=join)
    return Broker(config, records, rng=Random(seed))


def bound(effects: list[Effect]) -> list[str]:
    records = [each.record for each in effects if isinstance(each, Persist)]
    return [each.network for each in records if isinstance(each, NetworkBound)]


def up(peer: str, network: str = "", home: str | None = None) -> Input:
    return SessionUp(Identity(peer, 1, home, network), dialed=False)


def closed(effects: list[Effect]) -> dict[str, str]:
    return {each.peer: each.reason for each in effects if isinstance(each, Disconnect)}


def told(network: str) -> Neighbourhood:
    return Neighbourhood((), (), NodeState.OPERATIONAL, network=network)


def test_a_founder_makes_the_id_and_keeps_it() -> None:
    first = broker(founder=True)
    assert first.identity.network == "", "nobody is told of it before it is durable"
    (network,) = bound(first.start(0))
    assert first.identity.network == network
    assert len(network) == 16
    again = broker(NetworkBound(network), founder=True, seed=1)
    assert bound(again.start(0)) == []
    assert again.identity.network == network
    (other,) = bound(broker(founder=True, seed=1).start(0))
    assert other != network


def test_a_founder_with_a_store_of_an_earlier_version_makes_one_too() -> None:
    assert len(bound(broker(LINK, founder=True).start(0))) == 1


def test_a_broker_that_joins_learns_the_id_of_its_join_point() -> None:
    node = broker(join=("a",))
    assert bound(node.start(0)) == []
    assert bound(node.step([up("a", "one")], 0)) == ["one"]
    assert node.identity == Identity("b", 1, None, "one")
    assert bound(node.step([SessionDown("a"), up("a", "one")], 1)) == [], "once is enough"


def test_a_broker_whose_store_has_none_learns_it_from_a_neighbour() -> None:
    node = broker(LINK)
    node.start(0)
    assert bound(node.step([up("a", "one")], 0)) == ["one"]


def test_a_broker_learns_nothing_from_strangers_and_from_clients() -> None:
    node = broker(LINK)
    node.start(0)
    assert bound(node.step([up("stranger", "two")], 0)) == []
    assert bound(node.step([up("c", "two", home="b")], 0)) == []
    assert bound(node.step([up("a", "one")], 0)) == ["one"]


def test_a_broker_that_is_told_where_it_belongs_learns_which_network_that_is() -> None:
    node = broker()
    node.start(0)
    assert bound(node.step([up("a", "one")], 0)) == []
    links = Neighbourhood((("a", "b"),), (), NodeState.OPERATIONAL)
    assert bound(node.step([MessageReceived("a", links)], 0)) == ["one"]


def test_a_client_learns_it_from_the_first_broker() -> None:
    node = Leaf(NodeConfig(node="c", delta=1, home="b"), [], rng=Random(0))
    node.start(0)
    assert bound(node.step([up("b", "one")], 0)) == ["one"]
    assert list(closed(node.step([SessionDown("b"), up("a", "two")], 1))) == ["a"]


def test_who_has_a_session_and_does_not_know_its_network_is_told() -> None:
    """A broker may have sessions before it has joined anything."""
    node = broker(join=("a",))
    node.start(0)
    node.step([up("x"), up("c", home="b")], 0)
    effects = node.step([up("a", "one")], 0)
    who = [each.peer for each in effects if isinstance(each, Send) and each.message == told("one")]
    assert who == ["x", "c"]
    node = broker(LINK)
    node.start(0)
    node.step([up("a")], 0)
    assert bound(node.step([MessageReceived("a", told("one"))], 0)) == ["one"]


@pytest.mark.parametrize("peer", ["a", "stranger"])
def test_a_session_with_another_network_ends_at_once(peer: str) -> None:
    node = broker(LINK, NetworkBound("one"))
    node.start(0)
    reasons = closed(node.step([up(peer, "two")], 0))
    assert list(reasons) == [peer]
    assert "this is network one" in reasons[peer]
    assert "network two" in reasons[peer]
    assert peer not in node.overlay.sessions.up


def test_a_session_ends_when_its_network_turns_out_to_be_another_one() -> None:
    node = broker(LINK, NetworkBound("one"))
    node.start(0)
    node.step([up("a")], 0)
    node.step([MessageReceived("a", told("two"))], 0)
    assert list(closed(node.step([], 1))) == ["a"]
    joining = broker(join=("a",))
    joining.start(0)
    joining.step([up("x", "two")], 0)
    joining.step([up("a", "one")], 0)
    assert list(closed(joining.step([], 1))) == ["x"]


# -- names ---------------------------------------------------------------------------------------------------


def test_nothing_goes_round_a_peer_that_refuses_this_broker_because_of_its_name() -> None:
    node = broker(LINK, LinkAdded(("a", "z")))
    node.start(0)
    refused = node.step([ConnectFailed("a", Refusal.NAME)], 0)
    assert refused == [], "z, behind a, is not dialed"
    assert node.overlay.frontier.untried == ["a"]
    due = node.wake_at()
    assert due is not None
    assert [type(each).__name__ for each in node.step([], due)] == ["Connect"], "it asks again"
    gone_round = node.step([ConnectFailed("a")], due)
    assert [getattr(each, "peer", "") for each in gone_round] == ["z"]


def test_a_client_whose_name_was_taken_makes_no_further_step() -> None:
    node = Leaf(NodeConfig(node="c", delta=1, home="b"), [], rng=Random(0))
    node.start(0)
    node.step([up("b")], 0)
    effects = node.step([SessionDown("b", "somebody has taken over", taken=True)], 1)
    assert NameTaken("somebody has taken over") in effects
    assert node.wake_at() is None
    assert node.step([up("b")], 2) == []


def test_a_client_that_finds_another_one_of_its_name_ends_only_if_it_was_connected() -> None:
    node = Leaf(NodeConfig(node="c", delta=1, home="b"), [], rng=Random(0))
    node.start(0)
    assert node.step([ConnectFailed("b", Refusal.NAME)], 0) == []
    due = node.wake_at()
    assert due is not None
    node.step([], due)
    node.step([up("b")], due)
    node.step([SessionDown("b")], due)
    effects = node.step([ConnectFailed("b", Refusal.NAME)], due)
    assert [type(each) for each in effects] == [NameTaken]


def test_a_broker_that_is_a_member_elsewhere_is_told_where() -> None:
    member = broker(LINK, LinkAdded(("a", "z")))
    member.start(0)
    member.step([up("a"), up("z")], 0)
    (answer,) = [
        each.message
        for each in member.step([MessageReceived("z", JoinRequest("z"))], 0)
        if isinstance(each, Send)
    ]
    assert isinstance(answer, JoinRefused)
    assert answer.is_member
    assert "beside a" in answer.reason
    node = broker(join=("j",))
    node.start(0)
    node.step([up("j")], 0)
    node.step([MessageReceived("j", JoinRefused("not now"))], 0)
    assert node.overlay.joining.is_member_elsewhere == ""
    due = node.wake_at()
    assert due is not None
    node.step([], due)
    node.step([MessageReceived("j", answer)], due)
    assert node.overlay.joining.is_member_elsewhere == answer.reason
