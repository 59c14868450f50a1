"""Two nodes of one name, and two networks in one place, as stories: nobody is cut off, nothing is mixed.

Like ``test_stories``: the protocol tells each story right, and the mutants that it names do not.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from gapless.core.effects import LinkAdded, NetworkBound
from gapless.core.model import MILLISECOND, SECOND, Micros, NodeId, link
from gapless.simulation.faults import Faults, Window
from gapless.simulation.run import Options, simulate
from gapless.simulation.trace import Confirm
from gapless.simulation.world import World
from simulation.mutants import MUTANTS, broken
from simulation.scene import TOPIC, Scene
from simulation.test_stories import Story, _name
from support import chain


def sessions(world: World, machine: NodeId) -> list[NodeId]:
    """The peers of the node on that machine."""
    node = world.hosts[machine].node
    return sorted(node.overlay.sessions.up) if node is not None else []


def publish_meanwhile(scene: Scene, rounds: int = 40) -> int:
    """Some seconds of traffic; returns how many events there were."""
    for _ in range(rounds):
        scene.publish("any")
        scene.run(100)
    return rounds


def a_twin_does_not_evict_the_first() -> list[str]:
    """A second broker b, without a store, wants to join beside the first one."""
    scene = Scene(chain("a", "b", "c"), p="a", s="c")
    scene.subscribe("s")
    scene.run(500)
    before = scene.world.broker("b").identity.incarnation
    scene.world.add_twin("b", join=("a",))
    count = publish_meanwhile(scene)
    held = [scene.world.broker(name).overlay.sessions.up["b"].incarnation for name in ("a", "c")]
    evicted = [f"the second b has {held}"] if held != [before, before] else []
    entered = sessions(scene.world, "b'")
    scene.end()
    return [*evicted, *entered, *scene.faults(s=range(1, count + 1))]


def a_twin_does_not_go_round_those_who_refuse_it() -> list[str]:
    """A second broker b has a copy of the first one's store; d, behind c, cannot ask the first."""
    scene = Scene(chain("a", "b", "c", "d"), p="a", s="d")
    scene.subscribe("s")
    scene.run(500)
    scene.world.cut("b", "d")
    scene.world.add_twin("b", copied=True)
    count = publish_meanwhile(scene)
    entered = [f"{peer} has a session with the second b" for peer in sessions(scene.world, "b'")]
    scene.world.hosts["b'"].crash()
    del scene.world.hosts["b'"]
    scene.end()
    return [*entered, *scene.faults(s=range(1, count + 1))]


def a_twin_does_not_get_in_far_from_the_first() -> list[str]:
    """d knows b and has no session with it: it asks b whether it is alive before it talks to another b."""
    scene = Scene(chain("a", "b", "c", "d"), p="a", s="d")
    scene.subscribe("s")
    scene.run(500)
    scene.world.add_twin("b", join=("d",))
    scene.run(200)
    entered = [f"{peer} has a session with the second b" for peer in sessions(scene.world, "b'")]
    count = publish_meanwhile(scene)
    scene.world.hosts["b'"].crash()
    del scene.world.hosts["b'"]
    scene.end()
    return [*entered, *scene.faults(s=range(1, count + 1))]


def a_silent_crash_delays_a_restart_until_it_is_suspected() -> list[str]:
    """The neighbours cannot tell a restarted broker from a second one, until they suspect the first."""
    scene = Scene(chain("a", "b", "c"), p="a", s="c")
    scene.subscribe("s")
    scene.run(500)
    scene.world.crash("b", silently=True)
    scene.run(50)
    scene.world.restart("b")
    began = scene.world.now
    scene.publish("any")
    scene.world.run_until(lambda: sessions(scene.world, "b") == ["a", "c"], within=5 * SECOND)
    took = scene.world.now - began
    limit = scene.world.timing.suspect_after + 2 * scene.world.timing.ping_every + 500 * MILLISECOND
    late = [f"back after {took / MILLISECOND:g} ms"] if took > limit else []
    scene.end()
    return [*late, *scene.faults(s=[1])]


def a_twin_takes_the_place_of_the_dead() -> list[str]:
    """The first b is dead for good; another machine gets its place with a copy of its store."""
    scene = Scene(chain("a", "b", "c"), p="a", s="c")
    scene.subscribe("s")
    scene.run(500)
    scene.world.crash("b", silently=True)
    scene.world.add_twin("b", copied=True)
    count = publish_meanwhile(scene)
    found = sessions(scene.world, "b'")
    missing = [] if found == ["a", "c"] else [f"the second b has sessions with {found} only"]
    wrong = [f"s got {scene.got('s')}"] if scene.got("s") != list(range(1, count + 1)) else []
    return [*missing, *wrong]


def networks_do_not_mix() -> list[str]:
    """z has the store of another network, in which its neighbour was called a too."""
    scene = Scene(chain("a", "b"), p="a", s="b")
    scene.subscribe("s")
    scene.run(500)
    scene.world.add_broker("z", records=[NetworkBound("another"), LinkAdded(link("a", "z"))])
    count = publish_meanwhile(scene)
    mixed = [f"{peer} has a session with z" for peer in sessions(scene.world, "z")]
    known = ["a knows z"] if "z" in scene.world.broker("a").overlay.topology else []
    return [*mixed, *known, *scene.faults(s=range(1, count + 1))]


def a_second_client_waits() -> list[str]:
    """Another client s, at the same home, gets no session; the first one goes on."""
    scene = Scene(chain("a", "b"), p="a", s="b")
    scene.subscribe("s")
    scene.run(500)
    scene.world.add_client_twin("s")
    count = publish_meanwhile(scene)
    entered = sessions(scene.world, "s'")
    ended = [f"{name} has ended" for name in scene.world.taken]
    return [*entered, *ended, *scene.faults(s=range(1, count + 1))]


def a_client_whose_name_is_taken_ends() -> list[str]:
    """Another client s takes the name over: the first one is told, and ends."""
    scene = Scene(chain("a", "b"), p="a", s="b")
    scene.subscribe("s")
    scene.run(500)
    scene.world.add_client_twin("s", take_over=True)
    scene.run(3_000)
    wrong = [] if sessions(scene.world, "s'") == ["b"] else ["the second s has no session"]
    if scene.world.hosts["s"].is_up or list(scene.world.taken) != ["s"]:
        wrong.append("the first s has not ended")
    return wrong


def a_client_that_was_cut_off_learns_that_its_name_is_taken() -> list[str]:
    """The first s hears nothing of the take-over; it learns it when it comes back."""
    scene = Scene(chain("a", "b"), p="a", s="b")
    scene.subscribe("s")
    scene.run(500)
    for broker in ("a", "b"):
        scene.part(("s", broker))
    scene.world.add_client_twin("s")
    scene.run(3_000)
    for broker in ("a", "b"):
        scene.heal(("s", broker))
    scene.run(5_000)
    wrong = [] if sessions(scene.world, "s'") == ["b"] else ["the second s has no session"]
    return wrong if list(scene.world.taken) == ["s"] else [*wrong, "the first s has not ended"]


def two_clients_at_different_brokers(
    *subscribers: NodeId, clock: Micros = 0, keeps: NodeId = "s'"
) -> list[str]:
    """Another client s starts at another home, where nobody knows the first one. One of the two keeps the
    name, and works; the other one is told. ``clock``: how far that of the first one is ahead."""
    scene = Scene(chain("a", "b", "c"), p="b")
    world = scene.world
    world.clock_offset["s"] = clock
    world._by_clock["s"] = None
    world.add_client("s", "a")
    world.add_client_twin("s", home="c")
    for name in subscribers:
        scene.subscribe(name)
    scene.run(1_000)
    sent = world.network.messages
    scene.run(2_000)
    wrong = ["the two undo each other's work"] if world.network.messages - sent > 1_000 else []
    others = {"s", "s'"} - {keeps}
    if set(world.taken) != others:
        wrong.append(f"{list(world.taken)} were told, not {list(others)}")
        return wrong
    scene.run(1_000)
    scene.publish("x")
    scene.run(1_000)
    return wrong if keeps not in subscribers or scene.got(keeps) == [1] else [*wrong, f"{keeps} got nothing"]


def the_later_of_two_clients_keeps_the_name() -> list[str]:
    return two_clients_at_different_brokers("s", "s'")


def the_later_one_keeps_the_name_though_it_does_not_subscribe() -> list[str]:
    return two_clients_at_different_brokers("s")


def the_later_one_keeps_the_name_though_only_it_subscribes() -> list[str]:
    """The first one has nothing that could be ended: it hears that the later one goes on."""
    return two_clients_at_different_brokers("s'")


def the_clocks_say_who_is_the_later_one() -> list[str]:
    return two_clients_at_different_brokers("s", "s'", clock=3_600 * SECOND, keeps="s")


def a_client_that_comes_back_at_another_broker() -> list[str]:
    """s dies while events wait for it, and comes back under its name at another broker. It has ended what it
    had subscribed before: nobody waits for that any more, and the publisher goes on."""
    scene = Scene(chain("a", "b", "c"), p="b", s="a")
    scene.subscribe("s")
    scene.run(100)
    scene.world.crash("s", silently=True)
    scene.publish("x", "x")
    scene.run(100)
    scene.world.add_client_twin("s", home="c")
    scene.subscribe("s'")
    scene.run(1_000)
    scene.publish("x")
    scene.run(1_000)
    receipts = [each.sequence for each in scene.world.trace if isinstance(each, Confirm)]
    got = scene.got("s'")
    wrong = [] if got == [3] else [f"s' got {got}"]
    return wrong if receipts == [1, 2, 3] else [*wrong, f"{receipts} are confirmed"]


def nothing_is_delivered_once_the_name_is_lost() -> list[str]:
    """The later s ends what the first one has. The first is so busy that it hears of that together with an
    event that has come for its next subscription, and follows one that nobody has brought it."""
    scene = Scene(chain("a", "b", "c"), p="b", s="a")
    world = scene.world
    scene.subscribe("s")
    scene.run(100)
    scene.slow(("s", "a"), milliseconds=100)
    world.subscribe("s", "next", TOPIC, "")
    scene.run(1)
    first = world.hosts["s"]
    first.busy_until = world.now + SECOND
    world.add_client_twin("s", home="c")
    scene.run(50)
    scene.publish("x")
    scene.slow(("c", "s'"), milliseconds=300)
    scene.run(80)
    scene.publish("x")
    scene.run(2_000)
    got = scene.got("s")
    return [f"s got {got}"] if got else []


def _confirm_and_crash(scene: Scene, broker: str, client: str) -> None:
    """The broker confirms an event, and crashes with the client before it has told b why; then it is back."""
    scene.publish("x")
    scene.run(100)
    for name in (broker, client):
        scene.world.crash(name)
    scene.run(2_000)
    scene.publish("x")
    scene.run(2_000)
    scene.slow((broker, "b"), milliseconds=1)
    scene.world.restart(broker)
    scene.run(2_000)
    scene.publish("x")
    scene.run(10_000)


def what_an_earlier_client_denies() -> list[str]:
    """s ends at a what the later s has subscribed at c, and a confirms an event that nobody is left for. Then
    both crash before a has told b. The later s keeps the name: it must hear that it has missed something."""
    scene = Scene(chain("a", "b", "c"), p="a", s="a")
    scene.world.add_client_twin("s", home="c")
    scene.slow(("s", "a"), milliseconds=300)
    scene.subscribe("s'")
    scene.run(100)
    assert scene.is_live("s'")
    scene.slow(("a", "b"), milliseconds=5_000)
    scene.run(500)
    _confirm_and_crash(scene, "a", "s")
    return scene.faults(resets=1, **{"s'": [3]})


def what_a_later_client_denies() -> list[str]:
    """The later s ends at c what the first one has subscribed at a, and c confirms an event that nobody is
    left for. Then both crash before c has told b. The first s goes on: it must hear that it has missed
    something."""
    scene = Scene(chain("a", "b", "c"), p="c", s="a")
    scene.subscribe("s")
    scene.run(100)
    assert scene.is_live("s")
    scene.slow(("c", "b"), milliseconds=5_000)
    scene.world.add_client_twin("s", home="c")
    scene.run(100)
    _confirm_and_crash(scene, "c", "s'")
    return scene.faults(resets=1, s=[3])


def what_a_second_client_does_not_reach() -> list[str]:
    """The second s is at a, since its own broker is down, and so is the next one. It is told that whatever
    lies behind c is not promised. The trace must say so of d, though the first s, which is there, knows d."""
    scene = Scene(chain("a", "b", "c", "d"), p="d", s="d")
    scene.world.add_client_twin("s", home="b")
    scene.run(500)
    for broker in ("b", "c"):
        scene.world.crash(broker)
    scene.run(500)
    scene.subscribe("s'")
    scene.run(2_000)
    unreachable = scene.unreachable("s'")
    scene.world.crash("s")
    scene.publish("x")
    scene.run(500)
    for broker in ("b", "c"):
        scene.world.restart(broker)
    scene.run(5_000)
    scene.publish("x")
    scene.run(1_000)
    named = [] if unreachable == ("b", "c", "d") else [f"{unreachable} are said to be unreachable"]
    return [*named, *scene.faults(resets=0, **{"s'": [2]})]


STORIES: dict[Story, tuple[str, ...]] = {
    what_an_earlier_client_denies: ("denied-and-forgotten",),
    what_a_later_client_denies: ("denied-and-forgotten", "the-earlier-one-is-gone"),
    a_twin_does_not_evict_the_first: ("any-life-replaces-a-session",),
    a_twin_does_not_go_round_those_who_refuse_it: ("go-round-who-refuses",),
    a_twin_does_not_get_in_far_from_the_first: ("nobody-is-asked-first",),
    a_silent_crash_delays_a_restart_until_it_is_suspected: (),
    a_twin_takes_the_place_of_the_dead: (),
    networks_do_not_mix: ("networks-mix",),
    a_second_client_waits: ("any-life-replaces-a-session",),
    a_client_whose_name_is_taken_ends: ("names-are-never-taken", "taken-clients-go-on"),
    a_client_that_was_cut_off_learns_that_its_name_is_taken: ("taken-clients-go-on",),
    the_later_of_two_clients_keeps_the_name: ("rivals-never-yield",),
    the_later_one_keeps_the_name_though_it_does_not_subscribe: ("rivals-never-yield",),
    the_later_one_keeps_the_name_though_only_it_subscribes: ("rivals-do-not-hear-of-each-other",),
    the_clocks_say_who_is_the_later_one: ("rivals-never-yield",),
    nothing_is_delivered_once_the_name_is_lost: ("who-has-lost-its-name-goes-on",),
    a_client_that_comes_back_at_another_broker: ("names-alone-tell-clients",),
    what_a_second_client_does_not_reach: (),
}
"""Each story, and the mutants that get it wrong."""


@pytest.mark.parametrize("story", STORIES, ids=_name)
def test_the_rule_about_names_is_kept(story: Story) -> None:
    assert story() == []


@pytest.mark.parametrize(
    ("story", "mutant"),
    [
        pytest.param(story, mutant, id=f"{_name(story)}-{mutant}")
        for story, mutants in STORIES.items()
        for mutant in mutants
    ],
)
def test_without_its_rule_names_or_networks_mix(story: Story, mutant: str) -> None:
    assert mutant in MUTANTS
    with broken(mutant):
        assert story()


# -- random runs ---------------------------------------------------------------------------------------------

TWINS = 4
"""How many second brokers come in a random run."""


class Twins(Faults):
    """Starts second brokers of names in use, which end after some seconds as live ones do.

    Their first ones do not crash meanwhile, and nothing is cut: then nobody has a reason to let them in.
    """

    entered: list[NodeId]
    started = 0

    def __init__(self, world: World, *, window: Window, **others: Any) -> None:
        super().__init__(world, window=window, **others)
        self._luck = world.random("twins")
        self._second: dict[NodeId, NodeId] = {}  # by the first one's name
        for _ in range(TWINS):
            world.at(self._luck.randrange(window.opens, window.closes), self._start_second)

    def _has_room(self, *besides: NodeId) -> bool:
        return not any(each in self._second for each in besides) and super()._has_room(*besides)

    def _start_second(self, _: None) -> None:
        world = self._world
        running = [name for name in world.brokers() if world.hosts[name].is_up and name not in self._second]
        free = [
            name for name in running if not world.hosts[name].crash_next and f"{name}'" not in world.hosts
        ]
        if free:
            first = self._luck.choice(free)
            near = [each for each in world.broker(first).overlay.topology.nodes() if each != first]
            copied = self._luck.random() < 0.5
            join = () if copied else (self._luck.choice(near),)
            self._second[first] = world.add_twin(first, join=join, copied=copied).name
            Twins.started += 1
            world.at(world.now + 4 * SECOND, self._end_second, first)

    def _end_second(self, first: NodeId) -> None:
        machine = self._second.pop(first)
        Twins.entered += sessions(self._world, machine)
        self._world.departed[machine] = None
        self._world.hosts[machine].crash()


def random_runs(seeds: range) -> list[str]:
    """What went wrong in some runs with twins."""
    Twins.entered, Twins.started = [], 0
    found = []
    for seed in seeds:
        options = Options(
            brokers=4 + seed % 6,
            delta=1 + seed % 2,
            publishers=3,
            subscribers=4,
            events=60,
            crashes=4,
            cuts=0,
        )
        found += [f"seed {seed}: {each}" for each in simulate(options, seed)[0].violations[:1]]
    assert Twins.started >= len(seeds), "there were some"
    return found + [f"{peer} has a session with a second broker" for peer in Twins.entered]


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [None, "any-life-replaces-a-session", "nobody-is-asked-first"])
def test_second_brokers_do_no_harm_in_random_runs(
    monkeypatch: pytest.MonkeyPatch, mutant: str | None
) -> None:
    monkeypatch.setattr("gapless.simulation.run.Faults", Twins)
    with broken(mutant) if mutant else nullcontext():
        assert bool(random_runs(range(20))) == (mutant is not None)
