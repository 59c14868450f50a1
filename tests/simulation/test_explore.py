"""Exploration: it is complete, repeats itself, finds what is broken, and tells how."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from itertools import islice

import pytest
from typer.testing import CliRunner

from gapless.cli import app
from gapless.core.model import SECOND
from gapless.simulation import trace
from gapless.simulation.explore import SCENARIOS, Deviation, Exploration, Scenario, explore, replay, story
from gapless.simulation.explore.deviation import ALWAYS
from gapless.simulation.explore.nodes import Nodes
from gapless.simulation.explore.scenario import Cut, Heal, Publish, Subscribe
from gapless.simulation.explore.schedule import Scheduler
from gapless.simulation.explore.state import State
from simulation.mutants import broken

SMALL = Scenario(
    name="small",
    about="two brokers and one event",
    links=(("a", "b"),),
    clients={"p": "a", "s": "b"},
    prologue=(Subscribe("s"),),
    script=(Publish("p"),),
)


def states_of(scheduler: Scheduler, state: State) -> list[State]:
    """The states of the default schedule."""
    found = []
    while (move := scheduler.next_move(state)) is not None:
        found.append(state.copy())
        assert scheduler.advance(state, move)
    return found


def failures(scheduler: Scheduler, state: State) -> int:
    down = [name for name, node in state.nodes.items() if node is None and scheduler.network.is_broker(name)]
    return len(down) + len(state.cut)


# -- the default schedule ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", SCENARIOS)
def test_every_scenario_works_by_default(name: str) -> None:
    state, faults = replay(SCENARIOS[name], ())
    assert faults == []
    records = list(state.trace())
    assert any(isinstance(each, trace.Deliver) for each in records)
    assert any(isinstance(each, trace.Confirm) for each in records)


def test_what_is_sent_arrives_in_order() -> None:
    scenario = replace(SMALL, script=(Publish("p", ("x", "x")), Publish("p")))
    state, faults = replay(scenario, ())
    assert faults == []
    assert [each.sequence for each in state.trace() if isinstance(each, trace.Deliver)] == [1, 2, 3]


def test_a_link_that_is_cut_carries_nothing() -> None:
    scenario = replace(SMALL, delta=1, script=(Cut("a", "b"), Publish("p"), Heal("a", "b")))
    state, faults = replay(scenario, ())
    assert faults == []
    kinds = [type(each) for each in state.trace() if isinstance(each, trace.Heal | trace.Deliver)]
    assert kinds == [trace.Heal, trace.Deliver]


# -- deviations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["first-publish", "away-from-home"])
def test_failures_stay_within_delta(name: str) -> None:
    scheduler = Scheduler(SCENARIOS[name])
    worst = 0
    for state in states_of(scheduler, scheduler.begin()):
        move = scheduler.next_move(state)
        assert move is not None
        for deviation in scheduler.deviations(state, move):
            other = state.copy()
            scheduler.deviate(other, deviation)
            worst = max(worst, failures(scheduler, other))
    assert worst == SCENARIOS[name].delta


def test_failures_of_the_script_wait_until_others_are_over() -> None:
    scenario = SCENARIOS["moves-twice"]
    scheduler = Scheduler(scenario)
    tried = 0
    for state in states_of(scheduler, scheduler.begin()):
        move = scheduler.next_move(state)
        assert move is not None
        for deviation in scheduler.deviations(state, move):
            if deviation.kind == "cut" and deviation.span == 1 and state.position < 3:
                other = state.copy()
                scheduler.deviate(other, deviation)
                counted = [failures(scheduler, each) for each in states_of(scheduler, other)]
                assert max(counted) == scenario.delta
                tried += 1
    assert tried > 20


def test_a_copy_is_independent_and_equal() -> None:
    scheduler = Scheduler(SMALL)
    state = scheduler.begin()
    copy = state.copy()
    assert copy.key() == state.key()
    move = scheduler.next_move(state)
    assert move is not None
    scheduler.advance(state, move)
    assert copy.key() != state.key()
    scheduler.advance(copy, move)
    assert copy.key() == state.key()


def test_a_lane_that_is_held_waits_and_loses_nothing() -> None:
    scenario = replace(SMALL, script=(Publish("p"), Publish("p")))
    held = Deviation(2, "hold", ("a", "b"), ALWAYS)
    _, faults = replay(scenario, (held,))
    assert faults == []
    lines = story(scenario, (held,))
    waits = next(number for number, line in enumerate(lines) if "waits from here on" in line)
    repaired = next(number for number, line in enumerate(lines) if "All is repaired" in line)
    arrives = next(number for number, line in enumerate(lines) if "a → b: p.1" in line)
    assert waits < repaired < arrives


def test_deviations_are_read_as_they_are_written() -> None:
    scheduler = Scheduler(SCENARIOS["unreached-entry"])
    for state in states_of(scheduler, scheduler.begin()):
        move = scheduler.next_move(state)
        assert move is not None
        for deviation in scheduler.deviations(state, move):
            assert Deviation.parse(str(deviation)) == deviation


@pytest.mark.parametrize("words", ["17", "x:crash:b", "1:fly:a", "1:crash:nobody", "900:crash:a"])
def test_a_schedule_that_is_none_is_refused(words: str) -> None:
    with pytest.raises(ValueError, match=r"no deviation|not possible"):
        replay(SMALL, (Deviation.parse(words),))


# -- nodes as values -----------------------------------------------------------------------------------------


def test_a_node_that_was_frozen_is_the_same() -> None:
    scheduler = Scheduler(SCENARIOS["long-log"])
    state = scheduler.begin()
    nodes: Nodes = scheduler.network.nodes
    for number in state.nodes.values():
        assert number is not None
        first, second = nodes.thawed(number), nodes.thawed(nodes._freeze(nodes.thawed(number)))
        assert (first.identity, first.wake_at()) == (second.identity, second.wake_at())
        assert first.step([], 10 * SECOND) == second.step([], 10 * SECOND)


def test_what_does_not_concern_each_other_may_come_in_any_order() -> None:
    """Messages for different nodes: whichever comes first, the network is in the same state after both."""
    scheduler = Scheduler(SCENARIOS["join"])
    network, compared = scheduler.network, 0
    for state in states_of(scheduler, scheduler.begin()):
        lanes = [lane for lane in state.lanes if not lane[2]]
        for one, two in islice(((a, b) for a in lanes for b in lanes if a[1] < b[1]), 3):
            orders = []
            for first, second in ((one, two), (two, one)):
                other = state.copy()
                network.deliver(other, first)
                if second in other.lanes:
                    network.deliver(other, second)
                orders.append(other.key())
            compared += 1
            assert orders[0] == orders[1]
    assert compared > 5


# -- exploring -----------------------------------------------------------------------------------------------


def counts(result: Exploration) -> tuple[int, int, int, int]:
    return result.schedules, result.states, result.moves, result.steps


@pytest.mark.parametrize("name", ["pair", "chain"])
def test_no_schedule_with_one_deviation_breaks_a_promise(name: str) -> None:
    result = explore(SCENARIOS[name], deviations=1)
    assert result.ok, result.found
    assert result.schedules > 100
    assert result.states > 10 * result.schedules


def test_shares_are_the_whole() -> None:
    whole = explore(SMALL, deviations=1)
    shares = [explore(SMALL, deviations=1, share=(number, 3)) for number in range(3)]
    default = 2  # with no deviation, and before the first one: done in every share
    assert sum(each.schedules - default for each in shares) == whole.schedules - default


def test_two_explorations_are_the_same() -> None:
    assert counts(explore(SMALL, deviations=1)) == counts(explore(SMALL, deviations=1))


def test_no_order_of_a_set_has_any_influence() -> None:
    command = [
        sys.executable,
        "-m",
        "gapless",
        "simulate",
        "--explore",
        "chain",
        "--deviations",
        "1",
        "--json",
    ]
    outputs = []
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        network = json.loads(done.stdout)["networks"][0]
        del network["seconds"]
        outputs.append(network)
    assert outputs[0] == outputs[1]


MUTANTS = {
    "strangers-are-not-heard": "two-join-points",
    "publications-before-log": "chain",
    "confirm-without-the-others": "chain",
    "no-duplicate-check-at-the-client": "chain",
    "confirm-on-take-over": "chain",
}
"""Known faults, and the network in which one deviation is enough."""


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_fault_is_found_and_its_schedule_finds_it_again(mutant: str) -> None:
    scenario = SCENARIOS[MUTANTS[mutant]]
    with broken(mutant):
        result = explore(scenario, deviations=1)
        assert result.found is not None
        assert len(result.found.schedule) == 1
        schedule = tuple(Deviation.parse(str(each)) for each in result.found.schedule)
        _, faults = replay(scenario, schedule)
        lines = story(scenario, schedule)
    assert faults == result.found.faults
    assert [line for line in lines if line.startswith("In the end")] == [
        f"In the end: {each}" for each in faults
    ]
    assert sum("!!" in line for line in lines) == 1


# -- the command ---------------------------------------------------------------------------------------------


def test_the_command_tells_a_story_that_can_be_repeated() -> None:
    runner = CliRunner()
    with broken("deliver-before-live"):
        found = runner.invoke(app, ["simulate", "--explore", "chain", "--deviations", "1", "--workers", "1"])
        assert found.exit_code == 1
        words = found.stdout.split("--schedule '")[1].split("'")[0]
        again = runner.invoke(app, ["simulate", "--explore", "chain", "--schedule", words])
        assert again.exit_code == 1
        assert "before it was live" in again.stdout
    assert runner.invoke(app, ["simulate", "--explore", "chain", "--schedule", words]).exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--explore", "nowhere"], "there is no scenario"),
        (["--explore", "--schedule", "1:crash:a"], "name it"),
        (["--explore", "pair", "--schedule", "soon"], "is no deviation"),
        (["pair"], "only --explore takes scenarios"),
    ],
)
def test_the_command_says_what_is_wrong(arguments: list[str], complaint: str) -> None:
    done = CliRunner().invoke(app, ["simulate", *arguments])
    assert done.exit_code == 2
    assert complaint in " ".join(done.stderr.replace("│", " ").split())
