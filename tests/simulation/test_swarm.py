"""Swarm runs: what seeds draw, that a seed decides everything, and that faults do what they say.

Every kind of fault has a run of its own here, in which the protocol keeps its promises."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import fields, replace
from pathlib import Path

import pytest

from gapless.core.effects import Receipt, SubscriptionGivenUp
from gapless.core.limits import Limits
from gapless.core.messages import Ping
from gapless.core.messages.publisher import (
    Acknowledged,
    Acknowledgement,
    Header,
    Log,
    Publications,
    Run,
)
from gapless.core.model import MILLISECOND, SECOND, Event, NodeId
from gapless.core.orders.publisher import PublisherBroker
from gapless.simulation import trace
from gapless.simulation.host import When
from gapless.simulation.network import Latency
from gapless.simulation.swarm import crashes, links, membership, names
from gapless.simulation.swarm.aiming import PHASES, Shot
from gapless.simulation.swarm.features import CALM, FAULTS, RETURNING, Features, features_of
from gapless.simulation.swarm.run import judge, play, prepare, simulate_swarm, untold
from gapless.simulation.swarm.script import Script
from gapless.simulation.swarm.squeezes import BEYOND, KINDS, REST, SQUEEZES
from gapless.simulation.world import World
from simulation.mutants import MUTANTS, broken, noting

TOPIC = features_of(0).topics[0].name
PLAIN = replace(
    features_of(0),
    delta=1,
    max_down=1,
    brokers=3,
    fanout=1,
    clients=3,
    faults=("crash",),
    episodes=8,
    acts=8,
    fault_share=0.4,
    squeezes=0.0,
    background=20,
    window=1_000,
    simple=True,
    topics=features_of(0).topics[:1],
    limits=Limits(),
    latency=Latency(MILLISECOND, 0),
    slow_directions=0,
    lasting=1,
    lines=0,
    proxying=False,
)


def calm(seed: int = 1, **changes: object) -> Script:
    """A world of three brokers in which nothing happens by itself."""
    script = prepare(replace(PLAIN, episodes=0, background=0, **changes), seed)  # type: ignore[arg-type]
    script.stage.world.run(until=SECOND)
    return script


# -- what is drawn -----------------------------------------------------------------------------------------


def test_every_feature_is_drawn_and_left_out() -> None:
    drawn = [features_of(seed) for seed in range(400)]
    for fault in FAULTS:
        assert 0 < sum(fault in each.faults for each in drawn) < len(drawn)
    for each in fields(Features):
        if each.name not in ("faults", "timing", "limits", "topics", "latency"):
            assert len({getattr(features, each.name) for features in drawn}) > 1, each.name
    usual = Limits()
    for each in fields(Limits):
        values = {getattr(features.limits, each.name) for features in drawn}
        assert getattr(usual, each.name) in values
        assert len(values) > 1 or each.name == "strangers", each.name
    assert any(features.is_beyond for features in drawn)
    assert {len(features.topics) for features in drawn} == {1, 2}


def test_no_latency_is_a_suspicion() -> None:
    """What is slow is no failure: the failure detector must not take it for one."""
    for seed in range(200):
        features = features_of(seed)
        slowest = features.latency.most * max(1, features.slack // features.latency.most)
        assert features.timing.ping_every + slowest <= features.timing.suspect_after


def test_a_script_has_every_act() -> None:
    assert set(prepare(PLAIN, 1).acts) == {*FAULTS, *CALM}


def test_squeezes_are_made_of_acts() -> None:
    drawn = [squeeze for seed in range(200) for squeeze in features_of(seed).repertoire]
    slots = {slot for squeeze in (*SQUEEZES, *BEYOND, *drawn) for slot in squeeze}
    assert slots <= {*FAULTS, *CALM, *KINDS, REST}
    assert {act for kind in KINDS.values() for act in kind} <= set(FAULTS)
    assert len(set(drawn)) > len({*SQUEEZES, *BEYOND}), "some are made up"


# -- one seed, one run -------------------------------------------------------------------------------------


def test_a_seed_decides_everything() -> None:
    """Whatever the order of a set is."""
    program = (
        "from gapless.simulation.swarm.run import simulate_swarm\n"
        "print([simulate_swarm(seed)[0].digest for seed in range(40, 52)])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": number},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for number in ("1", "2")
    }
    assert len(told) == 1


@pytest.mark.parametrize("seed", range(60, 80))
def test_no_more_fails_at_a_time_than_the_budget_allows(seed: int) -> None:
    features = features_of(seed)
    script = prepare(features, seed)
    play(script)
    assert script.stage.budget.peak <= features.max_down


# -- each kind of fault by itself ----------------------------------------------------------------------------


@pytest.mark.parametrize("fault", FAULTS)
def test_each_kind_of_fault_happens_and_does_no_harm(fault: str) -> None:
    happened, resets = 0, 0
    faults = ("remove", fault) if fault == RETURNING else (fault,)
    for seed in range(3):
        script = prepare(replace(PLAIN, faults=faults, delta=2, max_down=2, brokers=5), seed)
        outcome = judge(script, {} if play(script) else {"never at rest": 1})
        assert outcome.ok, outcome.counts
        happened += outcome.kinds.get(fault, 0)
        resets += outcome.resets
        assert outcome.delivered > 0
    assert happened > 0


def sends(script: Script, name: NodeId) -> list[type]:
    """What a node sends from now on, by kinds."""
    sent: list[type] = []

    def tap(source: NodeId, _: NodeId, message: object) -> None:
        if source == name and type(message) is not Ping:
            sent.append(type(message))

    script.stage.world.network.tap = tap
    return sent


@pytest.mark.parametrize("when", When)
def test_an_aimed_crash_falls_before_while_or_after(when: When) -> None:
    script = calm()
    world, aims = script.stage.world, script.aims
    client = next(iter(world.homes))
    home = world.homes[client]
    sent = sends(script, home)
    aims.armed.append(Shot("receiver", when, message=Log))
    world.aim = aims
    world.subscribe(client, "aimed", PLAIN.topics[0].name)
    world.run_until(lambda: not world.hosts[home].is_up, within=SECOND)
    assert not aims.armed
    assert world.aim is None
    assert (Log in sent) == (when is When.AFTER)
    crash = [each for each in world.trace if isinstance(each, trace.Crash)]
    assert [each.node for each in crash] == [home]


@pytest.mark.parametrize(("when", "tells"), [(When.BEFORE, 0), (When.WHILE, 1), (When.AFTER, 2)])
def test_a_sender_crashes_before_among_or_after_what_it_sends(when: When, tells: int) -> None:
    """The home of the client would tell the client, and its neighbour or both of them."""
    script = calm(clients=1)
    world, aims = script.stage.world, script.aims
    client, home = next(iter(world.homes.items()))
    sent = sends(script, home)
    aims.armed.append(Shot("sender", when, message=Log))
    world.aim = aims
    world.subscribe(client, "aimed", PLAIN.topics[0].name)
    world.run_until(lambda: not world.hosts[home].is_up, within=SECOND)
    logs = sum(each is Log for each in sent)
    assert logs == tells if tells < 2 else logs >= tells


def test_aims_at_phases_name_what_brokers_go_through() -> None:
    script = calm(faults=("crash",))
    node = script.stage.world.broker("b1")
    assert not any(phase(node) for phase in PHASES.values())
    script.stage.world.crash("b1")
    script.stage.world.restart("b1")
    restarted = script.stage.world.broker("b1")
    assert PHASES["recovering"](restarted)
    assert PHASES["settling"](restarted)


def test_an_aim_waits_for_room_in_the_budget() -> None:
    script = calm()
    world, aims = script.stage.world, script.aims
    links.cut_pair(script.stage, ("b0", "b1"))
    aims.armed.append(Shot("receiver", When.BEFORE, message=Log))
    world.aim = aims
    client = next(iter(world.homes))
    world.subscribe(client, "aimed", PLAIN.topics[0].name)
    world.run_for(100 * MILLISECOND)
    assert aims.armed
    assert all(world.hosts[name].is_up for name in world.brokers())


def test_a_torn_write_keeps_a_prefix_and_does_nothing() -> None:
    script = calm()
    world = script.stage.world
    world.add_broker("new", join=("b0",))
    host = world.hosts["new"]
    host.crash_next, host.keeps = True, 1
    before, sent = len(host.store), sends(script, "new")
    world.run_until(lambda: not host.is_up, within=SECOND)
    assert len(host.store) <= before + 1
    assert sent == []


def test_nobody_leaves_through_whom_another_is_still_to_join(monkeypatch: pytest.MonkeyPatch) -> None:
    """The chain b0, b1, b2 with all clients at b1 has two ends that may leave."""
    script = calm()
    stage, world = script.stage, script.stage.world
    monkeypatch.setattr(world, "home", lambda _: "b1")
    stage.join_points["n0"] = ("b0",)
    assert membership.leave(stage)
    assert list(stage.leaving) == ["b2"]
    assert not membership.leave(stage), "b0 is needed"


def test_nobody_leaves_who_has_the_place_of_a_client_s_home() -> None:
    """The client q knows b0, its own broker, and b1. It does not hear that b0 is removed, and b1 is at the
    edge now: if that left too, nobody could say to q where the network is."""
    script = calm(brokers=4, clients=0)
    stage, world = script.stage, script.stage.world
    world.add_client("q", "b0")
    world.run_for(SECOND)
    world.crash("b0")
    world.run_for(SECOND)
    world.cut("q", "b1")
    world.remove("b0")
    world.run_until(lambda: "b0" in world.departed, within=SECOND)
    assert world.home("q") == "b0"
    while membership.leave(stage):
        pass
    assert "b1" not in stage.leaving


def test_what_is_under_way_is_lost_with_its_machine() -> None:
    for lossy in (False, True):
        script = calm()
        world = script.stage.world
        world.network.slowness["b0", "b1"] = 100
        world.add_client("near", "b0")
        world.run_for(50 * MILLISECOND)
        world.subscribe("near", "lost", PLAIN.topics[0].name)
        world.run_for(10 * MILLISECOND)
        world.cut("near", "b1")
        world.crash("b0", lossy=lossy)
        assert crashes.crash(script.stage) is False, "the budget is used up"
        world.run_for(300 * MILLISECOND)
        order = world.broker("b1").orders["publisher"]
        assert isinstance(order, PublisherBroker)
        knows = [each for each in order.log.subscriptions() if each.startswith("near")]
        assert bool(knows) != lossy


# -- names, and who must not get in --------------------------------------------------------------------------


def test_a_client_that_lost_its_store_counts_anew_from_its_clock_on() -> None:
    script = calm(clients=1, clock_steps=False)
    stage, world = script.stage, script.stage.world
    world.publish("c0", "c0", TOPIC, {"kind": "x"})
    world.run_for(100 * MILLISECOND)
    assert names.lose_a_store(stage)
    world.run_until(lambda: world.hosts["c0"].is_up, within=10 * SECOND)
    assert world.leaf("c0").identity.incarnation > SECOND, "no earlier life of its name began so late"
    world.publish("c0", "c0", TOPIC, {"kind": "x"})
    world.run_for(100 * MILLISECOND)
    published = [(each.publisher, each.sequence) for each in world.trace if isinstance(each, trace.Publish)]
    assert published == [("c0", 1), ("c0#1", 1)]


def test_the_older_of_two_holders_of_a_name_is_fenced_and_the_trace_says_so() -> None:
    script = calm(clients=2, window=1_000)
    stage, world = script.stage, script.stage.world
    for _ in range(2):
        assert script.crowd.share_a_name(stage)
        world.run_for(100 * MILLISECOND)
    assert not script.crowd.share_a_name(stage), "who was told does not begin again"
    for _ in range(20):
        script.crowd.publish(stage)
        world.run_for(100 * MILLISECOND)
    told = [(each.client, each.publisher) for each in world.trace if isinstance(each, trace.Fenced)]
    assert [client for client, _ in told] == [client for client, _ in world.recorder.fenced]
    assert [publisher for _, publisher in told] == ["pen"]
    assert judge(script, {}).ok


@pytest.mark.parametrize("mutant", [None, "any-life-replaces-a-session"])
def test_who_lets_a_second_broker_in_is_noticed(mutant: str | None) -> None:
    with broken(mutant) if mutant else nullcontext():
        script = calm()
        stage = script.stage
        assert names.double_a_broker(stage)
        assert not stage.budget.has_room(), "nothing fails while it is there"
        assert not names.double_a_broker(stage)
        stage.world.run_for(4 * PLAIN.breath)
    assert not stage.intruders
    assert stage.budget.has_room()
    assert bool(stage.trouble) == (mutant is not None)


@pytest.mark.parametrize("mutant", [None, "networks-mix"])
def test_who_lets_a_broker_of_another_network_in_is_noticed(mutant: str | None) -> None:
    with broken(mutant) if mutant else nullcontext():
        script = calm()
        assert names.a_foreign_broker(script.stage)
        script.stage.world.run_for(4 * PLAIN.breath)
    assert bool(script.stage.trouble) == (mutant is not None)
    assert set(script.stage.world.brokers()) == {"b0", "b1", "b2"}


def test_a_second_client_takes_the_name_over_or_gives_up() -> None:
    taken = waited = apart = 0
    for seed in range(1, 17):
        script = calm(seed, clients=1)
        stage, world = script.stage, script.stage.world
        world.run_for(100 * MILLISECOND)
        assert script.crowd.double(stage)
        world.run_for(12 * PLAIN.breath)
        is_apart = world.homes["c0'"] != world.homes["c0"]  # there nobody refuses the second one
        if "c0" in stage.ended or is_apart:
            taken += 1
            apart += is_apart
            assert list(world.taken) == ["c0"]
            assert stage.clients() == ["c0'"]
        else:
            waited += 1
            assert stage.clients() == ["c0"]
    assert taken > apart > 0
    assert waited


def test_a_second_client_gives_up_where_the_first_one_began_later() -> None:
    """It may take the name over, but its clock says that it came first: it is refused, as the rule says."""
    for seed in range(1, 9):
        script = calm(seed, clients=1)
        stage, world = script.stage, script.stage.world
        world.crash("c0")
        world.lose_store("c0")
        world.clock_offset["c0"] = 3_600 * SECOND
        world.restart("c0")
        world.run_for(2 * PLAIN.breath)
        assert script.crowd.double(stage)
        world.run_for(12 * PLAIN.breath)
        assert stage.clients() == ["c0"]
        if world.homes["c0'"] == world.homes["c0"]:
            assert list(stage.ended) == ["c0'"], "and the first one may crash and come back as before"
        else:
            assert list(world.taken) == ["c0'"]


def test_a_black_out_takes_neighbours_within_the_budget() -> None:
    script = calm(brokers=6, max_down=3, delta=3)
    stage = script.stage
    assert crashes.black_out(stage)
    dark = [name for name in stage.world.brokers() if not stage.world.hosts[name].is_up]
    assert 2 <= len(dark) <= 3
    assert stage.budget.peak == len(dark)
    places = sorted(int(name[1:]) for name in dark)
    assert places == list(range(places[0], places[-1] + 1)), "a chain of brokers in a row"


def test_a_broker_that_is_gone_for_good_is_removed() -> None:
    script = calm(brokers=5, clients=2)
    stage = script.stage
    assert membership.remove(stage)
    (victim,) = stage.doomed
    stage.restart(victim)
    assert not stage.world.hosts[victim].is_up, "it does not come back by itself"
    stage.world.run_until(lambda: victim in stage.world.departed, within=20 * SECOND)
    assert stage.budget.used() == 0
    stage.heal_all()
    assert not stage.world.hosts[victim].is_up


def test_nobody_is_removed_who_alone_can_let_another_in() -> None:
    """The chain b0 to b3: n0 asks b1, or b1 and b2, and knows nobody else until it has an answer."""
    for points, safe in ((("b1",), {"b1"}), (("b1", "b2"), set())):
        removed = set()
        for seed in range(30):
            script = calm(seed, brokers=4, max_down=2)
            stage, world = script.stage, script.stage.world
            world.add_broker("n0", join=points)
            stage.join_points["n0"] = points
            assert membership.remove(stage)
            removed |= {*stage.doomed}
        assert {*stage.world.brokers()} - removed == {"n0", *safe}


def test_who_knows_others_does_not_need_its_join_point() -> None:
    removed = set()
    for seed in range(30):
        script = calm(seed, brokers=4, max_down=2)
        stage, world = script.stage, script.stage.world
        world.add_broker("n0", join=("b1",))
        stage.join_points["n0"] = ("b1",)
        world.run_for(SECOND)
        assert membership.remove(stage)
        removed |= {*stage.doomed}
    assert "b1" in removed


def test_nobody_who_knows_nobody_else_comes_to_a_broker_that_is_to_be_removed() -> None:
    """It would not hear who has the place: one that comes for the first time, a second client of a name, or
    one without its store."""
    for seed in range(20):
        script = calm(seed, brokers=5, clients=2, clock_steps=False)
        stage, world = script.stage, script.stage.world
        known = {*world.homes}
        assert membership.remove(stage)
        assert script.crowd.connect(stage)
        assert script.crowd.double(stage)
        assert names.lose_a_store(stage)
        strangers = {*world.homes} - known | {*stage.lost_stores}
        assert not {world.homes[each] for each in strangers} & {*stage.doomed}


# -- what is judged while the run goes on --------------------------------------------------------------------


def publications(
    sequence: int, *, generation: int = 1, marked: bool = False, bypassed: int = 0
) -> Publications:
    path = (("a", 1), *((f"x{k}", 0) for k in range(bypassed)))
    event = Event(TOPIC, "c0", sequence, {}, b"", 0)
    return Publications((Run(Header((7, generation), path=path, best_effort=marked), (event,), ((),)),))


def test_what_goes_beyond_delta_must_be_marked() -> None:
    script = calm()
    for message in (publications(1, bypassed=1), publications(2, bypassed=2, marked=True)):
        script.watch.sends("b0", "b1", message)
    assert not script.stage.trouble
    script.watch.sends("b0", "b1", publications(3, bypassed=2))
    assert script.stage.trouble == {"unmarked beyond δ": 1}


def test_acknowledgements_of_an_older_generation_are_no_reason_to_forget() -> None:
    script = calm()
    script.watch.sends("c0", "b0", publications(1, generation=1))
    script.watch.sends("b0", "c0", Acknowledged((Acknowledgement(TOPIC, "c0", (7, 1), ((1, 1),)),)))
    receive = script.stage.world.hosts["c0"].on_receipt
    assert receive is not None
    receive(Receipt(TOPIC, "c0", 1))
    assert not script.stage.trouble
    script.watch.sends("c0", "b1", publications(1, generation=2))
    receive(Receipt(TOPIC, "c0", 1))
    assert script.stage.trouble == {"forgotten unacknowledged": 1}


def test_who_counts_anew_is_told_before_it_is_delivered() -> None:
    def got(publisher: str, sequence: int, subscription: str = "s") -> trace.Deliver:
        return trace.Deliver(
            t=1,
            client="c",
            subscription=subscription,
            publisher=publisher,
            sequence=sequence,
            best_effort=False,
        )

    told = trace.Reset(t=1, subscription="s", publishers=("p",))
    assert untold([got("p", 1), got("p", 2), got("q#1", 1), got("p#1", 1, "another")]) == 0
    assert untold([got("p", 1), told, got("p#1", 1)]) == 0
    assert untold([got("p", 1), trace.Reset(t=1, subscription="s", publishers=("q",)), got("p#1", 1)]) == 1
    live = trace.Live(t=1, subscription="s", start={"p": 3})
    assert untold([live, got("p#1", 1)]) == 1
    assert untold([live, told, got("p#1", 1)]) == 0


def test_a_starved_channel_carries_signs_of_life_only() -> None:
    script = calm()
    world = script.stage.world
    world.network.starved["b0", "b1"] = None
    client = next((name for name, home in world.homes.items() if home == "b0"), None)
    if client is None:
        client = "late"
        world.add_client(client, "b0")
        world.run_for(100 * MILLISECOND)
    world.subscribe(client, "starved", PLAIN.topics[0].name)
    world.run_for(3 * PLAIN.timing.suspect_after)
    assert "b1" in world.hosts["b0"].sessions
    assert "b0" in world.hosts["b1"].sessions
    assert not any(isinstance(each, trace.Live) and each.subscription == "starved" for each in world.trace)
    world.network.feed("b0", "b1")
    world.run_for(SECOND)
    assert any(isinstance(each, trace.Live) and each.subscription == "starved" for each in world.trace)


# -- judging -----------------------------------------------------------------------------------------------


def verdicts(mutant: str, seeds: range) -> Iterator[str]:
    with broken(mutant):
        for seed in seeds:
            yield from simulate_swarm(seed)[0].counts


@pytest.mark.parametrize(
    ("mutant", "found"),
    [
        (None, {}),
        ("leases-begin-anew", {"waited for longer than a lease"}),
        ("leases-never-begin-anew", {"given up too early"}),
    ],
)
def test_who_waits_longer_or_shorter_than_a_lease_is_noticed(mutant: str | None, found: set[str]) -> None:
    """A client is gone for three leases, and its broker crashes meanwhile; it is back, and goes again."""
    limits = Limits(lease=4 * PLAIN.breath)
    with broken(mutant) if mutant else nullcontext():
        script = calm(limits=limits, clients=1)
        stage, world = script.stage, script.stage.world
        script.crowd.subscribe(stage)
        world.run_for(SECOND)
        for _ in range(2):
            assert crashes.wear_down(stage)
            world.run_for(4 * limits.lease)
            assert world.hosts["c0"].is_up
            world.crash("c0")
            world.run_for(limits.lease // 2)
            world.restart("c0")
            world.run_for(SECOND)
    assert set(stage.trouble) == set(found)


def test_a_broker_that_has_lost_its_store_may_wait_for_a_whole_lease() -> None:
    """c0 is gone, and its broker has waited for most of a lease when it dies with its store; the network has
    not forgotten c0, but nobody else knows for how long it was waited for."""
    limits = Limits(lease=4 * PLAIN.breath)
    script = calm(limits=limits, clients=1)
    stage, world = script.stage, script.stage.world
    script.crowd.subscribe(stage)
    world.run_for(SECOND)
    world.crash("c0")
    world.run_for(limits.lease * 3 // 4)
    home = world.home("c0")
    world.crash(home)
    world.replace(home, join=(stage.neighbours(home)[0],))
    world.run_for(limits.lease * 3 // 4)
    assert given_up(world, home) == []
    world.run_for(limits.lease)
    assert [each.client for each in given_up(world, home)] == ["c0"]
    assert not stage.trouble


def test_who_hears_that_a_subscription_was_given_up_does_not_give_it_up_too_early() -> None:
    """c0 was away for longer than its lease, and is back: its broker may still hear of it from a publisher.
    What nobody has given up before is another matter."""
    limits = Limits(lease=4 * PLAIN.breath)
    script = calm(limits=limits, clients=1)
    stage, world = script.stage, script.stage.world
    script.crowd.subscribe(stage)
    world.run_for(SECOND)
    world.crash("c0")
    world.run_for(2 * limits.lease)
    world.restart("c0")
    world.run_for(SECOND)
    home = world.home("c0")
    (record,) = given_up(world, home)
    world.hosts[home].store.append(record)
    world.run_for(SECOND)
    assert not stage.trouble
    world.hosts[home].store.append(SubscriptionGivenUp("c0:2:1", "c0", TOPIC))
    world.run_for(SECOND)
    assert stage.trouble == {"given up too early": 1}


def given_up(world: World, broker: NodeId) -> list[SubscriptionGivenUp]:
    return [each for each in world.hosts[broker].store if isinstance(each, SubscriptionGivenUp)]


def test_what_is_never_confirmed_is_a_violation() -> None:
    assert any(each.startswith("never") for each in verdicts("no-resend", range(10_000, 10_010)))


def test_a_node_that_spins_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.core.overlay.joining.Joining.wake_at", lambda _: 1)
    outcome, _ = simulate_swarm(3)
    assert not outcome.ok
    assert "for ever" in next(iter(outcome.counts))


def test_runs_keep_promises_rather_than_withdraw_them() -> None:
    """A run in which everything is withdrawn judges nothing. (Publishers that count anew are announced by
    resets, which say nothing about what was promised before.)"""
    played = [simulate_swarm(seed)[0] for seed in range(80, 100)]
    outcomes = [each for each in played if not {"lose a store", "share a name"} & set(each.kinds)]
    assert len(outcomes) >= 10
    assert sum(each.delivered for each in outcomes) > 50 * sum(each.resets for each in outcomes)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [10_003, 10_016])
def test_a_mutant_that_is_not_noted_makes_no_difference(seed: int) -> None:
    """So it need not be run to know that this seed does not find it."""
    as_it_is = simulate_swarm(seed)[0].digest
    with noting(MUTANTS) as different:
        assert simulate_swarm(seed)[0].digest == as_it_is, "to note it changes nothing"
    assert 10 < len(different) < len(MUTANTS) - 10
    for name in MUTANTS.keys() - different:
        with broken(name):
            assert simulate_swarm(seed)[0].digest == as_it_is, name


@pytest.mark.slow
def test_power_finds_a_mutant_and_says_when_it_does_not() -> None:
    root = Path(__file__).parent.parent.parent
    command = [sys.executable, "-m", "tools.power", "--seeds", "8", "--seed", "10000", "--json"]
    found = subprocess.run([*command, "no-resend"], cwd=root, capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stderr
    assert '"found": 1' in found.stdout
    none = [*command, "--seeds", "1", "given-up-and-forgotten"]
    missed = subprocess.run(none, cwd=root, capture_output=True, text=True, check=False)
    assert missed.returncode == 1
    assert '"found": 0' in missed.stdout
    unknown = subprocess.run([*command, "nonsense"], cwd=root, capture_output=True, text=True, check=False)
    assert unknown.returncode == 2
    assert "there is no nonsense" in unknown.stderr
