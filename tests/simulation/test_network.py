"""The promises of a driver (``gapless.core.events``), kept by the simulated network."""

from __future__ import annotations

from itertools import pairwise, product
from random import Random

import pytest

from gapless.core.events import ConnectFailed, Input, MessageReceived, SessionDown, SessionUp
from gapless.core.messages import BestEffortUnsubscribe, Message
from gapless.core.model import MILLISECOND, SECOND, Identity, NodeId, Refusal
from gapless.simulation.network import DIAL_TIMEOUT, Latency
from support import Wire


def note(number: int) -> Message:
    """A message that can be told from others."""
    return BestEffortUnsubscribe(str(number))


def numbers(inputs: list[Input]) -> list[int]:
    messages = [each.message for each in inputs if isinstance(each, MessageReceived)]
    return [int(each.subscription) for each in messages if isinstance(each, BestEffortUnsubscribe)]


def sessions(inputs: list[Input], peer: NodeId) -> list[Input]:
    """What a host was told about its sessions with one peer."""
    return [
        each
        for each in inputs
        if (isinstance(each, SessionUp) and each.identity.node == peer)
        or (isinstance(each, SessionDown | ConnectFailed) and each.peer == peer)
    ]


def assert_promises(inputs: list[Input], peer: NodeId) -> None:
    """One session at a time, the old one down before the new one is up, messages only inside one."""
    up = False
    for each in inputs:
        match each:
            case SessionUp(identity=identity) if identity.node == peer:
                assert not up
                up = True
            case SessionDown(peer=other) if other == peer:
                assert up
                up = False
            case MessageReceived(peer=other) if other == peer:
                assert up
            case _:
                pass


@pytest.fixture
def wire() -> Wire:
    made = Wire("a", "b")
    made.connect("a", "b")
    return made


def test_a_session_is_reported_to_both_ends_with_the_identity_of_the_other(wire: Wire) -> None:
    assert wire.hosts["a"].inputs == [SessionUp(Identity("b", 1), dialed=True)]
    assert wire.hosts["b"].inputs == [SessionUp(Identity("a", 1), dialed=False)]


@pytest.mark.parametrize("seed", range(10))
def test_messages_of_a_session_arrive_in_order(seed: int) -> None:
    wire = Wire("a", "b", seed=seed, latency=Latency(tail_chance=0.5))
    wire.connect("a", "b")
    for k in range(200):
        wire.send("a", "b", note(k))
        wire.send("b", "a", note(k))
        wire.run_for(Random(k).randrange(3 * MILLISECOND))
    wire.run_for(SECOND)
    assert numbers(wire.hosts["a"].inputs) == numbers(wire.hosts["b"].inputs) == list(range(200))


@pytest.mark.parametrize("seed", range(20))
def test_two_dials_at_once_make_one_session(seed: int) -> None:
    wire = Wire("a", "b", seed=seed)
    first, second = ("a", "b") if seed % 2 else ("b", "a")
    wire.network.dial(first, second)
    wire.run_for(seed % 3 * MILLISECOND)
    wire.network.dial(second, first)
    wire.run_for(SECOND)
    for host, peer in (("a", "b"), ("b", "a")):
        assert [type(each) for each in sessions(wire.hosts[host].inputs, peer)] == [SessionUp]
    assert wire.hosts["a"].connections["b"] is wire.hosts["b"].connections["a"]
    wire.send("a", "b", note(1))
    wire.run_for(SECOND)
    assert numbers(wire.hosts["b"].inputs) == [1]


def test_of_two_simultaneous_dials_that_of_the_smaller_id_wins() -> None:
    wire = Wire("a", "b", latency=Latency(tail_chance=0.0))
    wire.network.dial("b", "a")
    wire.network.dial("a", "b")
    wire.run_for(SECOND)
    assert [each.dialed for each in wire.hosts["a"].inputs if isinstance(each, SessionUp)] == [True]
    assert [each.dialed for each in wire.hosts["b"].inputs if isinstance(each, SessionUp)] == [False]


def test_a_dial_that_is_lost_already_wins_over_nobody() -> None:
    """It went to a machine that was dead then; the dial of that machine, back again, is accepted."""
    wire = Wire("a", "b", latency=Latency(tail_chance=0.0))
    wire.crash("b", silently=True)
    wire.network.dial("a", "b")
    wire.run_for(DIAL_TIMEOUT // 2)
    wire.restart("b")
    wire.network.dial("b", "a")
    wire.run_for(DIAL_TIMEOUT // 4)
    assert wire.hosts["a"].inputs == [SessionUp(Identity("b", 2), dialed=False)]
    wire.run_for(10 * DIAL_TIMEOUT)
    assert len(wire.hosts["a"].inputs) == len(wire.hosts["b"].inputs) == 1


@pytest.mark.parametrize("target", ["down", "nowhere"])
def test_a_dial_that_finds_nobody_is_reported(target: NodeId) -> None:
    wire = Wire("a", "down")
    wire.crash("down")
    wire.network.dial("a", target)
    wire.run_for(2 * DIAL_TIMEOUT)
    assert wire.hosts["a"].inputs == [ConnectFailed(target)]


@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("b", "a")])
def test_a_dial_over_a_cut_link_fails_in_time(source: NodeId, target: NodeId) -> None:
    wire = Wire("a", "b")
    wire.network.cut_link(source, target)
    wire.network.dial("a", "b")
    wire.run_for(2 * DIAL_TIMEOUT)
    assert wire.hosts["a"].inputs == [ConnectFailed("b")]
    assert wire.hosts["b"].inputs == []


def lose_one_end(wire: Wire) -> None:
    """a has noticed a break of its session with b, and b has not."""
    del wire.hosts["a"].connections["b"]


def test_an_old_session_is_reported_down_before_a_new_one(wire: Wire) -> None:
    lose_one_end(wire)
    wire.network.dial("a", "b")
    wire.run_for(SECOND)
    _, down, up = sessions(wire.hosts["b"].inputs, "a")
    assert isinstance(down, SessionDown)
    assert up == SessionUp(Identity("a", 1), dialed=False)


def test_another_incarnation_waits_until_the_session_of_the_first_one_has_ended(wire: Wire) -> None:
    wire.crash("a", silently=True)
    wire.restart("a")
    wire.network.dial("a", "b")
    wire.run_for(SECOND)
    assert sessions(wire.hosts["b"].inputs, "a") == [SessionUp(Identity("a", 1), dialed=False)]
    assert wire.hosts["a"].inputs[-1] == ConnectFailed("b", Refusal.NAME)
    wire.close("b", "a")  # it suspects the first one
    wire.network.dial("a", "b")
    wire.run_for(SECOND)
    assert wire.hosts["b"].inputs[-1] == SessionUp(Identity("a", 2), dialed=False)


def test_nodes_of_different_networks_have_no_session() -> None:
    wire = Wire("a", "b")
    wire.hosts["a"].network, wire.hosts["b"].network = "one", "two"
    wire.network.dial("a", "b")
    wire.run_for(SECOND)
    assert wire.hosts["a"].inputs == [ConnectFailed("b", Refusal.NETWORK)]
    assert wire.hosts["b"].inputs == []


def test_the_new_session_is_there_when_the_old_one_is_reported_down(wire: Wire) -> None:
    """So a node that dials at once because of the report does not make a second one."""
    wire.hosts["b"].on_input = lambda each: (
        wire.network.dial("b", "a") if isinstance(each, SessionDown) else None
    )
    lose_one_end(wire)
    wire.network.dial("a", "b")
    wire.run_for(3 * SECOND)
    assert wire.hosts["b"].dials == {}
    assert [type(each) for each in sessions(wire.hosts["b"].inputs, "a")] == [
        SessionUp,
        SessionDown,
        SessionUp,
    ]


def test_nothing_of_an_old_session_is_reported_in_a_new_one(wire: Wire) -> None:
    wire.network.slowness["a", "b"] = 100
    wire.send("a", "b", note(1))
    wire.network.slowness.clear()
    wire.close("b", "a")
    wire.run_for(100 * MILLISECOND)
    wire.connect("a", "b")
    wire.send("a", "b", note(2))
    wire.run_for(SECOND)
    assert numbers(wire.hosts["b"].inputs) == [2]


def test_a_closed_session_ends_after_what_was_sent_on_it(wire: Wire) -> None:
    for k in range(10):
        wire.send("a", "b", note(k))
    wire.close("a", "b")
    wire.run_for(SECOND)
    assert numbers(wire.hosts["b"].inputs) == list(range(10))
    assert isinstance(wire.hosts["b"].inputs[-1], SessionDown)
    assert sessions(wire.hosts["a"].inputs, "b")[1:] == [], "the side that closes is not told"


@pytest.mark.parametrize("silently", [True, False])
def test_a_crash_is_noticed_only_if_the_machine_still_says_goodbye(wire: Wire, silently: bool) -> None:
    wire.crash("b", silently=silently)
    wire.send("a", "b", note(1))
    wire.run_for(10 * SECOND)
    told = sessions(wire.hosts["a"].inputs, "b")[1:]
    assert [type(each) for each in told] == ([] if silently else [SessionDown])


def test_a_stale_session_is_reset_when_it_is_used(wire: Wire) -> None:
    wire.crash("b", silently=True)
    wire.restart("b")
    wire.run_for(SECOND)
    assert sessions(wire.hosts["a"].inputs, "b")[1:] == []
    wire.send("a", "b", note(1))
    wire.run_for(SECOND)
    assert [type(each) for each in sessions(wire.hosts["a"].inputs, "b")[1:]] == [SessionDown]
    assert numbers(wire.hosts["b"].inputs) == []


def test_a_session_names_the_life_that_accepted_it() -> None:
    wire = Wire("a", "b", latency=Latency(tail_chance=0.0))
    wire.network.slowness["b", "a"] = 50
    wire.network.dial("a", "b")
    wire.run_for(20 * MILLISECOND)
    wire.crash("b", silently=True)
    wire.restart("b")
    wire.run_for(SECOND)
    assert [each.identity for each in wire.hosts["a"].inputs if isinstance(each, SessionUp)] == [
        Identity("b", 1)
    ]


@pytest.mark.parametrize("seed", range(20))
def test_a_cut_delays_and_then_delivers_in_order(seed: int) -> None:
    """Also what was sent just before the end of the cut, and is under way when it ends."""
    wire = Wire("a", "b", seed=seed, latency=Latency(tail_chance=0.3))
    wire.connect("a", "b")
    rng = Random(seed)
    for k in range(120):
        if k in (20, 70):
            wire.cut("a", "b")
        if k in (40, 71):
            wire.heal("a", "b")
        wire.send("a", "b", note(k))
        wire.run_for(rng.randrange(4 * MILLISECOND))
        if k == 39:
            assert all(number < 20 for number in numbers(wire.hosts["b"].inputs))
    wire.run_for(SECOND)
    assert numbers(wire.hosts["b"].inputs) == list(range(120))


def test_a_cut_of_one_direction_leaves_the_other(wire: Wire) -> None:
    wire.network.cut_link("a", "b")
    wire.send("a", "b", note(1))
    wire.send("b", "a", note(2))
    wire.run_for(SECOND)
    assert numbers(wire.hosts["a"].inputs) == [2]
    assert numbers(wire.hosts["b"].inputs) == []


def test_what_a_cut_holds_up_is_lost_with_the_session(wire: Wire) -> None:
    wire.cut("a", "b")
    wire.send("a", "b", note(1))
    wire.close("b", "a")
    wire.run_for(SECOND)
    wire.heal("a", "b")
    wire.run_for(SECOND)
    assert numbers(wire.hosts["b"].inputs) == []
    assert isinstance(wire.hosts["a"].inputs[-1], SessionDown)


def test_after_a_loss_inside_a_session_nothing_later_arrives(wire: Wire) -> None:
    wire.send("a", "b", note(1))
    wire.network.break_session("a", "b")
    for k in range(2, 20):
        wire.send("a", "b", note(k))
    wire.send("b", "a", note(100))
    wire.run_for(100 * SECOND)
    assert numbers(wire.hosts["b"].inputs) == [1]
    assert numbers(wire.hosts["a"].inputs) == [100]


@pytest.mark.parametrize("seed", range(40))
def test_the_promises_hold_whatever_happens(seed: int) -> None:
    """Dials, closes, crashes, cuts and messages at random."""
    rng = Random(seed)
    wire = Wire("a", "b", "c", seed=seed, latency=Latency(rng.choice((1, 5, 30)) * MILLISECOND, 0.2))
    names = sorted(wire.hosts)
    for name in names:  # a node that loses a session, or fails to get one, dials again
        wire.hosts[name].keep_dialing(wire)
    for k in range(400):
        a, b = rng.sample(names, 2)
        host, kind = wire.hosts[a], rng.random()
        if kind < 0.6 and host.is_up and b in host.connections:
            wire.send(a, b, note(k))
        elif kind < 0.7 and host.is_up and b not in host.connections and b not in host.dials:
            wire.network.dial(a, b)
        elif kind < 0.74 and host.is_up and b in host.connections:
            wire.close(a, b)
            host.inputs.append(SessionDown(b, "closed by this side"))
        elif kind < 0.78 and host.is_up:
            wire.crash(a, silently=rng.random() < 0.5)
            host.inputs.clear()
        elif kind < 0.88 and not host.is_up:
            wire.restart(a)
        elif kind < 0.94:
            wire.network.cut_link(a, b)
        else:
            wire.network.heal_link(a, b)
        wire.run_for(rng.randrange(20 * MILLISECOND))
    for a, b in product(names, names):
        if a != b:
            assert_promises(wire.hosts[a].inputs, b)
            arrived = numbers(
                [i for i in wire.hosts[a].inputs if not isinstance(i, MessageReceived) or i.peer == b]
            )
            assert all(x < y for x, y in pairwise(arrived))
