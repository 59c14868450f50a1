"""Both sides of the join protocol, message by message, without a network."""

from __future__ import annotations

from typing import Any

import pytest

from gapless.core.effects import Effect, LinkAdded, LinkRemoved, Persist, Send
from gapless.core.messages import (
    Joined,
    JoinedConfirmed,
    JoinRefused,
    JoinRequest,
    PartialTopology,
)
from gapless.core.messages.overlay import Removal
from gapless.core.model import SECOND, Link, link
from gapless.core.overlay.frontier import walk
from gapless.core.overlay.joining import JOIN_TRANSITIONS, Joining, JoinState
from gapless.core.overlay.sessions import Timing
from gapless.core.overlay.topology import Topology
from support import chain

TIMING = Timing()


class Fixture:
    """The joining of one node, with a fixed set of sessions."""

    def __init__(
        self, me: str, *, links: list[Link] | None = None, delta: int = 1, up: str = "", join: str = ""
    ) -> None:
        self.out: list[Effect] = []
        self.topology = Topology(me, delta)
        self.topology.add(links or [])
        self.joining = Joining(self.topology, 1, tuple(join), TIMING, self.out)
        self.up = set(up)
        self.joining.start(0)

    def advance(self, now: int = 0) -> list[Effect]:
        failed = set(self.topology.nodes()) - self.up
        self.joining.advance(walk(self.topology, self.up, failed), self.up, now)
        effects = self.out[:]
        self.out.clear()
        return effects


def sent(effects: list[Effect]) -> list[tuple[str, Any]]:
    return [(each.peer, each.message) for each in effects if isinstance(each, Send)]


def records(effects: list[Effect]) -> list[Any]:
    return [each.record for each in effects if isinstance(each, Persist)]


def test_the_first_broker_is_joined_at_once() -> None:
    founder = Joining(Topology("a", 1), 1, (), TIMING, [], founder=True)
    founder.start(0)
    assert founder.state is JoinState.VALID_JOINED


def test_who_has_neither_a_store_nor_somebody_to_ask_waits_to_be_told() -> None:
    made = Fixture("b")
    assert made.joining.state is JoinState.DETACHED
    made.joining.learn((), (("a", "b"),), 0)
    made.joining.was_told()
    states = [made.joining.state]  # a join that is not complete is nobody's word
    made.joining.learn((("a", "b"),), (), 0)
    made.joining.was_told()
    assert [*states, made.joining.state] == [JoinState.DETACHED, JoinState.VALID_JOINED]


def test_a_joining_node_asks_one_reachable_join_point_at_a_time() -> None:
    made = Fixture("n", join="xyz", up="yz")
    assert sent(made.advance()) == [("y", JoinRequest("n"))]
    assert sent(made.advance()) == []


def test_a_refused_node_pauses_and_asks_the_next() -> None:
    made = Fixture("n", join="yz", up="yz")
    made.advance()
    made.joining.on_refused("y", JoinRefused("not now"), 5)
    assert sent(made.advance(5)) == []
    due = made.joining.wake_at()
    assert due == 5 + TIMING.redial_first
    assert sent(made.advance(due)) == [("z", JoinRequest("n"))]


def test_an_answer_that_was_not_asked_for_is_ignored() -> None:
    made = Fixture("n", join="yz", up="yz")
    made.advance()
    made.joining.on_partial("z", PartialTopology((), (("n", "z"),)), 0)
    made.joining.on_refused("z", JoinRefused("not now"), 0)
    assert made.joining.state is JoinState.DETACHED
    assert made.topology.links() == []


def test_a_lost_join_point_in_phase_1_is_replaced() -> None:
    made = Fixture("n", join="yz", up="yz")
    made.advance()
    made.up.discard("y")
    made.joining.session_down("y")
    assert sent(made.advance()) == [("z", JoinRequest("n"))]


def test_nobody_joins_at_a_broker_that_was_removed_whether_that_knows_it_or_not() -> None:
    made = Fixture("n", join="yz", up="yz")
    made.advance()
    made.joining.fates.note(Removal("y", 1, "z", (("z", 1),), 1))
    made.joining.on_partial("y", PartialTopology((), (("n", "y"),)), 0)
    assert made.joining.state is JoinState.DETACHED
    made.joining.session_down("y")
    assert sent(made.advance()) == [("z", JoinRequest("n"))]


def test_phase_1_at_the_join_point_marks_the_link_durably_before_it_answers() -> None:
    made = Fixture("m", links=chain("m", "x", "y"), up="xn", delta=2)
    made.joining.on_request("n", JoinRequest("n"), 0)
    effects = made.advance()
    assert records(effects) == [LinkAdded(("m", "n"), marked=True)]
    assert sent(effects) == [("n", PartialTopology((("m", "x"), ("x", "y")), (("m", "n"),)))]
    assert isinstance(effects[0], Persist)


@pytest.mark.parametrize("state", [JoinState.DETACHED, JoinState.ATTACHED])
def test_a_node_that_is_no_member_refuses(state: JoinState) -> None:
    made = Fixture("m", join="x", up="x")
    made.advance()
    if state is JoinState.ATTACHED:
        made.joining.on_partial("x", PartialTopology((), (("m", "x"),)), 0)
    assert made.joining.state is state
    made.joining.on_request("n", JoinRequest("n"), 0)
    assert [(peer, type(each)) for peer, each in sent(made.advance()) if peer == "n"] == [("n", JoinRefused)]


def test_a_member_elsewhere_is_refused_and_a_repeated_request_is_not() -> None:
    made = Fixture("m", links=chain("m", "x", "n"), up="x")
    made.joining.on_request("n", JoinRequest("n"), 0)
    assert [type(each) for _, each in sent(made.advance())] == [JoinRefused]
    made.joining.on_request("k", JoinRequest("k"), 0)
    made.joining.on_request("k", JoinRequest("k"), 0)
    assert [type(each) for _, each in sent(made.advance())] == [PartialTopology, PartialTopology]


def test_a_wave_waits_for_all_behind_and_then_confirms() -> None:
    made = Fixture("m", links=[*chain("a", "m"), *chain("b", "m")], up="abn")
    made.joining.on_request("n", JoinRequest("n"), 0)
    made.advance()
    joined = Joined("n", "m", 1)
    made.joining.on_joined("n", joined, 0)
    assert sent(made.advance()) == [("a", joined), ("b", joined)]
    made.joining.on_confirmed("a", JoinedConfirmed("n", 1))
    assert made.advance() == []
    made.joining.on_confirmed("b", JoinedConfirmed("n", 1))
    effects = made.advance()
    assert records(effects) == [LinkAdded(("m", "n"))]
    assert sent(effects) == [("n", JoinedConfirmed("n", 1))]


def test_a_repeated_wave_is_confirmed_at_once() -> None:
    made = Fixture("a", links=chain("a", "m"), up="m")
    for _ in range(2):
        made.joining.on_joined("m", Joined("n", "m", 1), 0)
        assert sent(made.advance()) == [("m", JoinedConfirmed("n", 1))]


def test_a_second_sender_of_a_wave_is_confirmed_too() -> None:
    made = Fixture("m", links=[*chain("a", "m"), *chain("b", "m")], up="abn", delta=2)
    joined = Joined("n", "b", 1)
    made.joining.on_joined("b", joined, 0)
    made.joining.on_joined("n", joined, 0)
    assert sent(made.advance()) == [("a", joined)]
    made.joining.on_confirmed("a", JoinedConfirmed("n", 1))
    assert sorted(sent(made.advance())) == [("b", JoinedConfirmed("n", 1)), ("n", JoinedConfirmed("n", 1))]


def test_an_older_announcement_does_not_displace_a_newer_one() -> None:
    """A node that joined again after a crash waits for the confirmation of its new life."""
    made = Fixture("m", links=[*chain("a", "m"), *chain("b", "m")], up="abn")
    made.joining.on_joined("n", Joined("n", "m", 2), 0)
    made.joining.on_joined("b", Joined("n", "m", 1), 0)
    made.advance()
    for peer in "ab":
        made.joining.on_confirmed(peer, JoinedConfirmed("n", 2))
    assert ("n", JoinedConfirmed("n", 2)) in sent(made.advance())


def test_a_failed_branch_is_asked_through_whoever_stands_in() -> None:
    made = Fixture("m", links=[*chain("m", "x", "y")], delta=2, up="xn")
    joined = Joined("n", "m", 1)
    made.joining.on_joined("n", joined, 0)
    assert sent(made.advance()) == [("x", joined)]
    made.up = {"y", "n"}
    made.joining.session_down("x")
    assert sent(made.advance()) == [("y", joined)]


def test_a_lost_joining_node_is_forgotten_in_phase_1_only() -> None:
    made = Fixture("m", links=chain("m", "x"), up="xn")
    made.joining.on_request("n", JoinRequest("n"), 0)
    made.joining.session_down("n")
    assert records(made.advance()) == [LinkAdded(("m", "n"), marked=True), LinkRemoved(("m", "n"))]
    assert made.topology.links() == [("m", "x")]
    made.joining.on_joined("n", Joined("n", "m", 1), 0)
    made.joining.session_down("n")
    assert made.topology.links() == [("m", "n"), ("m", "x")]


def test_a_marked_link_without_a_wave_is_given_up_after_a_while() -> None:
    made = Fixture("m", links=chain("m", "x"), up="x")
    made.joining.learn((), [("n", "x")], 3)
    due = made.joining.wake_at()
    assert due == 3 + TIMING.give_up_join_after
    assert records(made.advance(due - 1)) == [LinkAdded(("n", "x"), marked=True)]
    assert records(made.advance(due)) == [LinkRemoved(("n", "x"))]
    assert made.joining.wake_at() is None


def test_an_attached_node_has_no_deadline_for_the_joins_of_others() -> None:
    """It forgets nothing before it is a member, so there is nothing to wake up for."""
    made = Fixture("n", join="m", up="m")
    made.advance()
    made.joining.on_partial("m", PartialTopology((), (("m", "n"), ("k", "m"))), 0)
    made.advance()
    assert made.joining.wake_at() is None
    made.advance(60 * SECOND)
    assert made.topology.is_marked(link("k", "m"))


def test_an_announcement_overrules_an_older_join_that_was_given_up() -> None:
    made = Fixture("m", links=chain("m", "x"), up="x")
    made.joining.on_request("n", JoinRequest("n"), 0)
    made.advance()
    made.joining.on_joined("x", Joined("n", "x", 1), 1)
    effects = made.advance(1)
    assert LinkRemoved(("m", "n")) in records(effects)
    assert made.topology.is_valid(("n", "x"))
    assert ("m", "n") not in made.topology.links()


def test_a_member_that_restarts_forgets_the_joins_that_had_begun_at_it() -> None:
    topology, out = Topology("m", 1), list[Effect]()
    topology.add(valid=[("m", "x")], marked=[("m", "n"), ("k", "x")])
    Joining(topology, 2, ("x",), TIMING, out).start(0)
    assert records(out) == [LinkRemoved(("m", "n"))]
    assert topology.links() == [("k", "x"), ("m", "x")]


def test_the_first_broker_stays_a_member_whatever_had_begun_at_it() -> None:
    topology, out = Topology("m", 1), list[Effect]()
    topology.add(marked=[("m", "n")])
    joining = Joining(topology, 2, (), TIMING, out, founder=True)
    joining.start(0)
    assert joining.state is JoinState.VALID_JOINED
    assert records(out) == [LinkRemoved(("m", "n"))]


def test_an_attached_node_goes_on_where_it_stopped() -> None:
    topology, out = Topology("n", 1), list[Effect]()
    topology.add(marked=[("m", "n")])
    joining = Joining(topology, 2, ("k", "m"), TIMING, out)
    joining.start(0)
    assert joining.state is JoinState.ATTACHED
    joining.advance(walk(topology, {"m"}, ()), {"m"}, 0)
    assert sent(out) == [("m", Joined("n", "m", 2))]


def test_figure_4_has_no_way_back() -> None:
    order = list(JoinState)
    for state, following in JOIN_TRANSITIONS.items():
        assert all(order.index(each) > order.index(state) for each in following)
