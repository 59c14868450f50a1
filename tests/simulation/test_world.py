"""The world: stores, batches, crashes between the halves of a batch, and one seed for everything."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence

import pytest

from gapless.core.broker import Broker
from gapless.core.effects import Effect, IncarnationStarted, LinkAdded, Record
from gapless.core.events import Input, MessageReceived, SubscribeRequested
from gapless.core.leaf import Leaf
from gapless.core.messages import JoinRequest, PartialTopology, Ping
from gapless.core.model import MILLISECOND, SECOND, Micros, OrderName, Partition, Topic
from gapless.simulation import trace
from gapless.simulation.host import BUSY
from gapless.simulation.partitioned import brokers_in
from gapless.simulation.run import Options, simulate
from gapless.simulation.world import World
from support import RECOVERED, Messages, assert_primary_only, established, start_chain

TOPICS = {"t": Topic("t", OrderName.BEST_EFFORT)}
STORMY = Options(brokers=9, publishers=2, subscribers=3, events=20, crashes=3, cuts=3, max_down=2)


# -- crashes and stores --------------------------------------------------------------------------------------


@pytest.mark.parametrize("crash", [True, False])
def test_a_crash_between_the_halves_of_a_batch_keeps_the_records_and_sends_nothing(
    crash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = start_chain("a", "m")
    sent = Messages(world)
    host = world.hosts["m"]
    before = list(host.store)
    world.add_broker("n", join=("m",))
    node = host.node
    assert node is not None
    step = node.step

    def crash_at_the_request(inputs: Sequence[Input], now: Micros) -> list[Effect]:
        asked = [each for each in inputs if isinstance(each, MessageReceived)]
        host.crash_next = crash and any(isinstance(each.message, JoinRequest) for each in asked)
        return step(inputs, now)

    monkeypatch.setattr(node, "step", crash_at_the_request)
    world.run_until(lambda: len(host.store) > len(before))
    assert host.store[: len(before) + 1] == [*before, LinkAdded(("m", "n"), marked=True)]
    assert len(sent.of(PartialTopology)) == (0 if crash else 1)
    assert host.is_up != crash
    assert [type(each) for each in world.trace] == ([trace.Crash] if crash else [])


def test_a_restart_knows_what_the_store_knows_and_nothing_else() -> None:
    world = start_chain("a", "b", "c", topics=TOPICS)
    world.add_client("s", "b")
    world.run_for(SECOND)
    world.subscribe("s", "s1", "t", "")
    world.run_for(SECOND)
    host = world.hosts["b"]
    records = list(host.store)
    world.crash("b")
    assert host.node is None
    assert host.store == records
    assert host.connections == {}
    assert list(host.inbox) == []
    world.restart("b")
    overlay = world.broker("b").overlay
    assert set(overlay.topology.links()) == {each.link for each in records if isinstance(each, LinkAdded)}
    assert overlay.sessions.up == {}
    assert host.store == [*records, IncarnationStarted(2)]


def test_the_incarnation_grows_with_every_start() -> None:
    world = World()
    host = world.add_broker("a")
    for life in range(1, 6):
        assert world.broker("a").identity.incarnation == life
        world.crash("a", silently=life % 2 == 0)
        world.restart("a")
    assert [each.incarnation for each in host.store if isinstance(each, IncarnationStarted)] == [
        1,
        2,
        3,
        4,
        5,
        6,
    ]


def test_a_store_is_not_shared_with_the_node_that_reads_it() -> None:
    records: list[Record] = [LinkAdded(("a", "b"))]
    world = World()
    world.add_broker("a", records=records)
    world.crash("a")
    assert world.hosts["a"].store == [LinkAdded(("a", "b")), IncarnationStarted(1)]


def test_inputs_for_a_dead_node_are_lost() -> None:
    world = start_chain("a", "b", topics=TOPICS)
    client = world.add_client("c", "a")
    world.run_for(SECOND)
    world.crash("c")
    client.receive(SubscribeRequested("s", "t", ""))
    assert list(client.inbox) == []
    world.restart("c")
    world.run_for(SECOND)
    assert not [each for each in world.trace if isinstance(each, trace.Live)]


def test_starting_a_node_twice_is_a_mistake() -> None:
    world = World()
    world.add_broker("a")
    with pytest.raises(AssertionError, match="runs already"):
        world.hosts["a"].start()


# -- time ----------------------------------------------------------------------------------------------------


def test_what_is_due_at_one_moment_happens_in_the_order_of_asking() -> None:
    world, seen = World(), list[int]()
    for k in (3, 1, 2):
        world.at(5, seen.append, k)
    world.at(4, seen.append, 0)
    world.run(until=4)
    assert (world.now, seen) == (4, [0])
    world.run_for(1)
    assert (world.now, seen) == (5, [0, 3, 1, 2])


def test_inputs_wait_while_a_node_is_busy_and_form_the_next_batch() -> None:
    world = start_chain("a", "b", topics=TOPICS)
    client = world.add_client("c", "a")
    world.run_for(SECOND)
    steps: list[int] = []
    client.stepped = lambda _: steps.append(world.now)
    begin = world.now
    for k in range(5):
        client.receive(SubscribeRequested(f"s{k}", "t", ""))
    assert steps == [begin], "the first is handled at once"
    assert len(client.inbox) == 4
    world.run_for(BUSY)
    assert steps == [begin, begin + BUSY], "the others together"


def test_waiting_for_what_never_happens_ends_with_an_error() -> None:
    world = World()
    with pytest.raises(TimeoutError, match="2 simulated seconds"):
        world.run_until(lambda: False, within=2 * SECOND)


def test_a_world_settles_when_only_signs_of_life_are_sent() -> None:
    world = start_chain("a", "b", "c")
    sent = Messages(world)
    assert world.settle(quiet=SECOND)
    quiet_since = world.now - SECOND
    late = [message for moment, _, _, message in sent.sent if moment > quiet_since]
    assert late
    assert all(isinstance(message, Ping) for message in late)

    def chatter(_: None) -> None:
        world.network.useful_at = world.now
        world.at(world.now + 100 * MILLISECOND, chatter)

    chatter(None)
    assert not world.settle(within=5 * SECOND)


def test_brokers_that_are_crashed_or_recovering_are_down() -> None:
    world = start_chain("a", "b", "c")
    assert world.down() == []
    world.crash("b")
    assert world.down() == ["b"]
    world.restart("b")
    assert world.down() == ["b"], "it has to recover first"


def test_a_link_that_is_cut_and_healed_is_used_again() -> None:
    world = start_chain("a", "b")
    world.cut("a", "b")
    world.run_for(3 * SECOND)
    assert established(world, "a") == established(world, "b") == set()
    world.heal("a", "b")
    world.run_for(RECOVERED)
    assert_primary_only(world, [("a", "b")])
    assert [type(each).__name__ for each in world.trace] == ["Cut", "Heal"]


# -- one seed decides everything -----------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_trace_and_another_one_does_not() -> None:
    first, again, other = (simulate(STORMY, seed)[0] for seed in (1, 1, 2))
    assert first == again
    assert first.digest != other.digest


def test_one_more_draw_in_one_place_changes_nothing_elsewhere() -> None:
    world = World(seed=3)
    assert world.random("network").random() == world.random("network").random()
    assert world.random("network").random() != world.random("faults").random()


def test_the_order_of_sets_has_no_influence() -> None:
    """The same run under two hash seeds, joins included."""
    program = """
import json, sys
from gapless.simulation.run import Options, simulate
from gapless.simulation.world import World
outcomes = []
for seed in range(3):
    options = Options(brokers=9, publishers=2, subscribers=3, events=20, crashes=3, cuts=3, delta=2)
    outcome, _ = simulate(options, seed)
    outcomes.append([outcome.digest, outcome.messages])
world = World(seed=5, delta=2)
sent = []
world.network.tap = lambda *what: sent.append(repr(what))
for k in range(12):
    world.add_broker(f"b{k}", join=tuple(f"b{j}" for j in range(k)[-2:]))
world.run(until=5_000_000)
print(json.dumps([outcomes, sent]))
"""
    outputs = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(path for path in sys.path if path)},
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert len(json.loads(outputs[0])[1]) > 100
    assert outputs[0] == outputs[1]


def test_a_step_is_seen_by_whoever_hangs_on_it() -> None:
    world, steps = start_chain("a", "b"), list[Broker | Leaf]()
    world.hosts["a"].stepped = steps.append
    world.run_for(SECOND)
    assert steps
    assert set(map(id, steps)) == {id(world.broker("a"))}


def test_whom_a_partition_cuts_off_is_found_though_a_join_closes_a_circle() -> None:
    """b4 is about to join b2 as well, behind all that b0 knows."""
    world = start_chain(*(f"b{k}" for k in range(5)))
    world.hosts["b4"].store.append(LinkAdded(("b2", "b4")))
    assert brokers_in(world, [Partition("b0", 1, ("b1", "b2"))], "c") == ("b1", "b2", "b3", "b4")
