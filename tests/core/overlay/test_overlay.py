"""What a broker makes of the overlay's messages, one by one, without a network."""

from __future__ import annotations

from random import Random

import pytest

from gapless.core.broker import Broker
from gapless.core.effects import Effect, LinkAdded, PartlyKnown, Persist, Send
from gapless.core.events import ConnectFailed, MessageReceived, SessionUp
from gapless.core.messages import Joined, JoinedConfirmed, Message, Neighbourhood, PartialTopology
from gapless.core.messages.overlay import NodeState
from gapless.core.model import Identity, Link, NodeId
from gapless.core.node import NodeConfig
from support import chain


def broker(
    name: NodeId, links: list[Link] | None = None, *, delta: int = 1, join: str = "", up: str = ""
) -> Broker:
    """A running broker that has sessions with some."""
    config = NodeConfig(node=name, delta=delta, join_points=tuple(join))
    made = Broker(config, [LinkAdded(each) for each in links or []], rng=Random(0))
    made.start(0)
    for peer in up:
        made.step([SessionUp(Identity(peer, 1), dialed=False)], 0)
    return made


def tell(node: Broker, peer: NodeId, message: Message) -> list[Effect]:
    return node.step([MessageReceived(peer, message)], 0)


def links(*valid: Link, marked: tuple[Link, ...] = (), known: tuple[NodeId, ...] = ()) -> Neighbourhood:
    return Neighbourhood(valid, marked, NodeState.OPERATIONAL, known=known)


def sent(effects: list[Effect], kind: type) -> list[tuple[NodeId, Message]]:
    return [
        (each.peer, each.message)
        for each in effects
        if isinstance(each, Send) and isinstance(each.message, kind)
    ]


def test_news_are_passed_on_to_all_who_should_know_them() -> None:
    """Also to a peer that has not told its own links yet: it was told ours before the news came."""
    node = broker("m", [("a", "m"), ("b", "m")], delta=2, up="ab")
    told = links(("a", "x"), ("a", "m"), known=("a",))
    assert sent(tell(node, "a", links(("a", "m"), ("a", "x"))), Neighbourhood) == [("b", told)]
    assert sent(tell(node, "a", links(("a", "m"), ("a", "x"))), Neighbourhood) == [], "no news"


def test_news_that_are_too_far_for_a_peer_are_not_passed_on() -> None:
    node = broker("m", [("a", "m"), ("b", "m")], delta=1, up="ab")
    effects = tell(node, "a", links(("a", "x")))
    assert node.overlay.topology.is_valid(("a", "x"))
    assert sent(effects, Neighbourhood) == []


def test_a_stranger_that_turns_out_to_be_a_neighbour_is_told_the_links() -> None:
    """A node that was forgotten while it was away must catch up before it is a member."""
    node = broker("m", [("a", "m")], up="n")
    node.step([ConnectFailed("a")], 0)
    effects = tell(node, "n", Joined("n", "m", 2))
    answers = [each.message for each in effects if isinstance(each, Send) and each.peer == "n"]
    told = links(("a", "m"), marked=(("m", "n"),), known=("m", "n"))
    assert answers.index(told) < answers.index(JoinedConfirmed("n", 2))


def test_hearsay_does_not_make_a_node_a_neighbour() -> None:
    """Of a join at this node only the joining node itself can tell."""
    node = broker("m", [("a", "m")], up="a")
    tell(node, "a", links(marked=(("m", "n"), ("a", "k"))))
    assert node.overlay.topology.links(marked=True) == [("a", "k")]


def test_a_detached_node_believes_only_the_join_point_that_it_asked() -> None:
    node = broker("n", join="yz", up="yz")
    tell(node, "z", links(("a", "z"), marked=(("n", "z"),)))
    assert node.overlay.topology.links() == []
    tell(node, "y", PartialTopology((), (("n", "y"),)))
    assert node.overlay.topology.links() == [("n", "y")]


def test_who_has_lost_its_store_knows_of_whom_it_has_not_heard_all() -> None:
    """a tells of c that it is there, and not who else is behind it; c says itself that nobody is."""
    node = broker("b", join="c", up="a")
    effects = tell(node, "a", links(("a", "b"), ("b", "c"), known=("a", "b")))
    assert Persist(PartlyKnown(("c",))) in effects
    node.step([ConnectFailed("c")], 0)
    assert node.overlay.frontier.barriers == ["c"]
    node.step([SessionUp(Identity("c", 1), dialed=False)], 0)
    effects = tell(node, "c", links(("a", "b"), ("b", "c"), known=("b", "c")))
    assert Persist(PartlyKnown(())) in effects
    assert node.overlay.topology.partly_known == set()


def test_who_is_told_its_place_from_afar_may_have_more_neighbours() -> None:
    node = broker("c", join="b", up="a")
    tell(node, "a", links(("a", "b"), ("b", "c"), known=("b",)))
    assert node.overlay.is_joined
    assert node.overlay.frontier.barriers == ["c"]


def test_who_joins_anew_knows_all_that_its_join_point_knows() -> None:
    node = broker("n", join="y", up="y", delta=2)
    tell(node, "y", PartialTopology((("k", "y"), ("x", "y")), (("n", "y"),), partly_known=("k",)))
    assert node.overlay.topology.partly_known == {"k"}


def test_a_detached_node_holds_no_wave_up_and_is_told_again_when_it_is_in() -> None:
    node = broker("n", join="y", up="y")
    joined, confirmed = Joined("k", "y", 1), ("y", JoinedConfirmed("k", 1))
    assert sent(tell(node, "y", joined), JoinedConfirmed) == [confirmed]
    tell(node, "y", PartialTopology((), (("n", "y"), ("k", "y"))))
    assert node.overlay.topology.is_marked(("k", "y"))
    assert sent(tell(node, "y", joined), JoinedConfirmed) == [confirmed]
    assert node.overlay.topology.is_valid(("k", "y"))


def test_an_announcement_overrules_a_join_that_was_given_up_even_before_it_is_confirmed() -> None:
    node = broker("m", chain("m", "x", "y"), delta=2, up="x")
    tell(node, "x", links(marked=(("n", "y"),)))
    assert node.overlay.topology.links(marked=True) == [("n", "y")]
    node.overlay.joining.on_joined("x", Joined("n", "x", 1), 0)
    assert node.overlay.topology.links(marked=True) == [("n", "x")]


@pytest.mark.parametrize(
    ("delta", "point", "asked"), [(1, "a", ""), (1, "b", ""), (2, "a", ""), (2, "b", "c")]
)
def test_a_wave_never_turns_back(delta: int, point: NodeId, asked: str) -> None:
    """Also where the joining node is out of view: it lies behind its join point (X-D3-05)."""
    node = broker("m", chain("a", "b", "m", "c"), delta=delta, up="bc")
    effects = tell(node, "b", Joined("n", point, 1))
    assert [peer for peer, _ in sent(effects, Joined)] == list(asked)
    confirmed = [] if asked else [("b", JoinedConfirmed("n", 1))]
    assert sent(effects, JoinedConfirmed) == confirmed
