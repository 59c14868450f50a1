"""Each rule of a removal is needed: without it a story goes wrong, or the checkers notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from gapless.core.events import RemoveRequested
from gapless.core.messages import Removal
from gapless.core.model import SECOND
from gapless.core.node import Node
from gapless.core.orders.publisher.forwarding import Forwarding
from gapless.core.overlay.fates import Fates
from gapless.core.overlay.joining import Joining
from gapless.core.overlay.removing import Removing
from gapless.simulation.checkers import check
from gapless.simulation.world import World
from simulation.mutants import Mutant
from simulation.scene import Scene
from simulation.test_removal import STAR, commit, crash_for_good, run_with_farewells, without
from support import (
    BYPASSED,
    RECOVERED,
    chain,
    delivered,
    own_links,
    publish_all,
    start_network,
    subscribe_all,
)


def those_near(
    original: Callable[..., list[Removal]], removing: Removing, told: Sequence[Removal]
) -> list[Removal]:
    """A removal is noted by those who know one of the neighbours."""
    near = removing._overlay.topology
    return original(removing, [each for each in told if any(node in near for node, _ in each.neighbours)])


def as_if_it_had_joined_there(
    original: Callable[..., bool], joining: Joining, removal: Removal, *about: Any, **how: Any
) -> bool:
    """Whoever has a link to a removed broker that the removal does not name goes to the centre."""
    joining._joined_at = removal.node
    return original(joining, removal, *about, **how)


def void_by_any_other(_: Callable[..., bool], fates: Fates, removal: Removal) -> bool:
    """A removal is void where any other one says that the broker was there in a later life."""
    others = (each for other in fates.removals() for each in other.neighbours)
    return any(name == removal.node and life > removal.incarnation for name, life in others)


MUTANTS = {
    each.name: each
    for each in (
        Mutant("ways-through-who-is-gone", Fates, "mended", lambda _, self, path, me: path),
        Mutant("centre-takes-all-for-seen", Forwarding, "begin_anew", lambda *_: None),
        Mutant("centre-listens-at-once", Removing, "is_outdated", lambda *_: False),
        Mutant("nothing-said-again", Node, "_begin_anew", lambda *_: None),
        Mutant("no-fence", Joining, "be_removed", lambda *_: None),
        Mutant("home-for-ever", Fates, "heir", lambda _, self, node: node),
        Mutant("links-come-back", Fates, "current", lambda _, self, link, besides=None: link),
        Mutant(
            "who-leaves-is-gone-at-once",
            Fates,
            "current",
            lambda original, self, link, besides=None: original(self, link),
        ),
        Mutant("who-leaves-is-held-where-it-was", Joining, "_go_on_leaving", lambda *_: None),
        Mutant("votes-do-not-count", Removing, "_why_not", lambda *_: None),
        Mutant("who-is-not-known-is-not-there", Removing, "_may_have_others", lambda *_: False),
        Mutant("gone-round-for-ever", Forwarding, "mend", lambda *_: None),
        Mutant("told-before-two-have-it", Removing, "_is_shared", lambda *_: True),
        Mutant("only-those-near-hear-of-it", Removing, "heard", those_near),
        Mutant("whoever-had-a-link-moves", Joining, "mend", as_if_it_had_joined_there),
        Mutant("what-is-made-is-mine", Joining, "_made", lambda _, self, removal: list(removal.made)),
        Mutant("void-by-any-other", Fates, "_is_void", void_by_any_other),
        Mutant("void-and-valid", Fates, "_is_void", lambda *_: False),
    )
}


def removed(world: World, name: str) -> None:
    world.remove(name)
    world.run_for(RECOVERED)


def a_client_of_who_is_gone() -> bool:
    world = start_network(STAR, {"p": "a", "s": "x", "t": "f"})
    subscribe_all(world, {"s": "", "t": ""})
    crash_for_good(world, "x")
    removed(world, "x")
    crash_for_good(world, "b")
    publish_all(world, "p", 3)
    world.run_for(RECOVERED)
    return delivered(world, "s") == delivered(world, "t") == [1, 2, 3]


def who_is_gone_starts_again() -> bool:
    world = start_network(STAR, {})
    crash_for_good(world, "x")
    removed(world, "x")
    world.restart("x")
    world.run_for(RECOVERED)
    return not world.hosts["x"].is_up and own_links(world) == set(without(STAR, "x"))


def who_is_gone_begins_anew_far_away() -> bool:
    """x is removed at one end of a chain. Without its store, it asks to join at the other: there too its name
    is used up."""
    world = start_network(chain("x", "a", "b", "c", "d", "e"), {})
    crash_for_good(world, "x")
    removed(world, "x")
    world.replace("x", join=("e",))
    world.run_for(RECOVERED)
    return not world.hosts["x"].is_up and own_links(world) == {*chain("a", "b", "c", "d", "e")}


def who_is_gone_joins_where_nobody_has_heard_of_it(*restarted: str) -> bool:
    """c is down when x is removed, and x joins e without its store: behind c nobody knows better. When c is
    back, x is sent away, and the tree is one; also if e has restarted since."""
    scene = Scene(chain("x", "a", "b", "c", "d", "e"), p="a", s="e")
    world = scene.world
    scene.subscribe("s")
    scene.run(1_000)
    crash_for_good(world, "x")
    for near in "ab":
        for far in "de":
            world.cut(near, far)
    world.crash("c")
    scene.run(3_000)
    removed(world, "x")
    world.replace("x", join=("e",))
    scene.run(5_000)
    assert "x" in world.broker("e").overlay.topology.neighbours()
    for each in restarted:
        world.crash(each)
        scene.run(500)
        world.restart(each)
        scene.run(3_000)
    for near in "ab":
        for far in "de":
            world.heal(near, far)
    world.restart("c")
    world.run_for(RECOVERED)
    scene.publish("1")
    scene.run(1_000)
    has_place = world.hosts["x"].is_up or own_links(world) != {*chain("a", "b", "c", "d", "e")}
    return not has_place and scene.got("s") == [1]


def who_is_gone_gets_another_neighbour() -> bool:
    """x is removed, which w has not heard of. x joins e without its store, behind k, which is down; and when
    e is removed there, d. That x was d's neighbour then does not mean that it was not removed."""
    scene = Scene(chain("w", "x", "a", "b", "k", "d", "e"), p="a", s="d", r="w")
    world = scene.world
    scene.subscribe("s")
    scene.subscribe("r")
    scene.run(1_000)
    crash_for_good(world, "x")
    apart = [(near, far) for near in "abw" for far in "de"]
    for pair in apart:
        world.cut(*pair)
    world.crash("k")
    scene.run(3_000)
    commit(world, "x", crashing="w")
    scene.run(3_000)
    world.replace("x", join=("e",))
    scene.run(3_000)
    crash_for_good(world, "e")
    removed(world, "e")
    assert world.broker("d").overlay.topology.neighbours() == ["k", "x"]
    for pair in apart:
        world.heal(*pair)
    world.restart("k")
    scene.run(5_000)
    world.restart("w")
    world.run_for(RECOVERED)
    scene.publish("1", "2")
    world.run_for(RECOVERED)
    is_one = own_links(world) == {*chain("w", "a", "b", "k", "d")}
    return is_one and scene.got("s") == scene.got("r") == [1, 2] and not scene.faults()


def who_has_left_comes_back_far_away() -> bool:
    """A removal gives b a link to a, and b leaves a. Back under its name, far away, it hears of the removal,
    which is not about the b of now: it joins e."""
    scene = Scene(chain("b", "x", "a", "f", "g", "h", "e"), p="a", s="e")
    world = scene.world
    crash_for_good(world, "x")
    removed(world, "x")
    world.leave("b")
    scene.run(5_000)
    assert not world.hosts["b"].is_up
    world.replace("b", join=("e",))
    scene.run(5_000)
    world.add_client("q", "b")
    scene.subscribe("s")
    scene.run(1_000)
    scene.publish("1", client="q")
    scene.run(1_000)
    return scene.got("s", "q") == [1] and own_links(world) == {*chain("a", "f", "g", "h", "e", "b")}


def each_has_the_other_removed() -> bool:
    """b decides that a is removed, and crashes before c has heard of it. a, started again, has b removed.
    When b is back, it is gone, and what it says of a is void."""
    scene = Scene(chain("a", "b", "c", "d"), p="d", s="a")
    world = scene.world
    scene.subscribe("s")
    scene.run(500)
    crash_for_good(world, "a")
    world.cut("b", "c", one_way=True)
    world.cut("b", "d", one_way=True)
    world.remove("a")
    scene.run(50)
    assert world.broker("b").overlay.joining.fates.removal("a") is not None
    crash_for_good(world, "b")
    world.heal("b", "c")
    world.heal("b", "d")
    world.restart("a")
    scene.run(3_000)
    world.hosts["a"].receive(RemoveRequested("b"))
    scene.run(3_000)
    assert world.removals["b"] == ""
    world.restart("b")
    world.run_for(RECOVERED)
    scene.publish("1", "2")
    scene.run(2_000)
    stands = world.hosts["a"].is_up and own_links(world) == {("a", "c"), ("c", "d")}
    return stands and not world.hosts["b"].is_up and scene.got("s") == [1, 2]


def who_leaves_hears_of_a_removal() -> bool:
    """d leaves, and before a knows, it hears that x is removed. It must not take itself to be gone: b loses
    its store, and a would be the only one left to say that d is not coming back."""
    scene = Scene(chain("x", "a", "b", "d"), p="b", s="a")
    world = scene.world
    crash_for_good(world, "x")
    scene.slow(("b", "a"), milliseconds=500)
    world.leave("d")
    scene.run(10)
    world.remove("x")
    scene.run(50)
    world.crash("b", lossy=True)
    scene.slow(("b", "a"), milliseconds=1)
    scene.run(3_000)
    world.replace("b", join=("a",))
    scene.run(5_000)
    scene.subscribe("s")
    scene.run(1_000)
    scene.publish("1")
    world.run_for(RECOVERED)
    return "d" in world.departed and own_links(world) == {("a", "b")} and not scene.faults(s=[1])


def who_leaves_gets_another_neighbour() -> bool:
    """d agrees that x be removed, sees it again, and leaves it. x cannot tell c, which removes it: so d is a
    neighbour of c now, and leaves that."""
    scene = Scene(chain("a", "c", "x", "d"))
    world = scene.world
    for name in "ac":
        world.cut(name, "x")
    crash_for_good(world, "x")
    scene.slow(("d", "c"), milliseconds=500)
    world.remove("x")
    scene.run(2)
    world.restart("x")
    scene.run(50)
    scene.slow(("x", "d"), milliseconds=700)
    world.leave("d")
    scene.run(400)
    assert world.broker("d").overlay.joining.is_leaving
    world.run_for(RECOVERED)
    return {*world.departed} == {"d", "x"} and own_links(world) == {("a", "c")}


def one_neighbour_sees_it() -> bool:
    world = start_network(STAR, {})
    for name in "abcdf":
        world.cut(name, "x")
    world.network.proxying = False
    world.run_for(BYPASSED)
    removed(world, "x")
    return "x" in world.brokers()


def a_neighbour_that_has_come_nearer_is_gone_too() -> bool:
    """x is removed, and c is a's neighbour from then on. It crashes before it has said that d is its own: a
    must not take it for the last one, for a and d could not find each other."""
    scene = Scene(chain("a", "x", "c", "d"))
    world = scene.world
    crash_for_good(world, "x")
    scene.slow(("a", "c"), milliseconds=100)
    world.remove("x")
    scene.run(150)
    assert world.broker("a").overlay.topology.neighbours() == ["c"]
    crash_for_good(world, "c")
    removed(world, "c")
    world.restart("c")
    world.run_for(RECOVERED)
    return own_links(world) == {("a", "c"), ("c", "d")}


def the_next_failure_is_the_first_again() -> bool:
    """Events have gone round b and stand before e and f, which are the only ones down once b is removed."""
    world = start_network(chain(*"abcdefg"), {"p": "a", "s": "g"}, delta=2)
    subscribe_all(world, {"s": ""})
    crash_for_good(world, "b", "e", "f")
    publish_all(world, "p", 3)
    world.run_for(SECOND)
    waited = delivered(world, "s") == []
    removed(world, "b")
    return waited and delivered(world, "s") == [1, 2, 3]


def the_centre_forgets_it() -> bool:
    """b decides that x is removed, and loses its store before c has heard of it. s is a client of x."""
    scene = Scene(chain("b", "x", "c"), p="c", s="x")
    world = scene.world
    scene.subscribe("s")
    scene.run(500)
    crash_for_good(world, "x")
    scene.slow(("c", "b"), milliseconds=100)
    world.remove("x")
    scene.run(50)
    world.cut("b", "c", one_way=True)  # c has voted, and hears nothing more
    scene.run(100)
    has_decided = world.broker("b").overlay.joining.fates.removal("x") is not None
    world.crash("b")
    was_answered = "x" in world.removals
    scene.run(2_000)
    scene.slow(("c", "b"), milliseconds=1)
    scene.heal(("b", "c"))
    world.replace("b", join=("c",))
    scene.run(5_000)
    assert has_decided
    assert "x" in world.brokers()
    scene.publish("1", "2", "3")
    scene.run(2_000)
    came = scene.got("s") == [1, 2, 3]
    removed(world, "x")
    scene.publish("4")
    scene.run(2_000)
    is_removed = world.removals["x"] == "" and own_links(world) == {("b", "c")}
    return came and not was_answered and is_removed and not scene.faults(s=[1, 2, 3, 4])


def nothing_is_lost(seed: int) -> bool:
    try:
        world = run_with_farewells(seed, brokers=7)
    except (AssertionError, KeyError):
        return False
    return not check(world.trace, promise="publisher", healed=True)


Story = Callable[..., bool]

CAUGHT: dict[str, tuple[Story, tuple[Any, ...]]] = {
    "ways-through-who-is-gone": (a_client_of_who_is_gone, ((),)),
    "no-fence": (who_is_gone_starts_again, ((),)),
    "home-for-ever": (a_client_of_who_is_gone, ((),)),
    "links-come-back": (who_is_gone_starts_again, ((),)),
    "who-leaves-is-gone-at-once": (who_leaves_hears_of_a_removal, ((),)),
    "who-leaves-is-held-where-it-was": (who_leaves_gets_another_neighbour, ((),)),
    "votes-do-not-count": (one_neighbour_sees_it, ((),)),
    "who-is-not-known-is-not-there": (a_neighbour_that_has_come_nearer_is_gone_too, ((),)),
    "gone-round-for-ever": (the_next_failure_is_the_first_again, ((),)),
    "told-before-two-have-it": (the_centre_forgets_it, ((),)),
    "only-those-near-hear-of-it": (who_is_gone_begins_anew_far_away, ((),)),
    "whoever-had-a-link-moves": (who_is_gone_joins_where_nobody_has_heard_of_it, ((), ("e",))),
    "what-is-made-is-mine": (who_has_left_comes_back_far_away, ((),)),
    "void-by-any-other": (who_is_gone_gets_another_neighbour, ((),)),
    "void-and-valid": (each_has_the_other_removed, ((),)),
    "centre-takes-all-for-seen": (nothing_is_lost, ((2813,), (2889,))),
    "centre-listens-at-once": (nothing_is_lost, ((2578,), (2880,))),
    "nothing-said-again": (nothing_is_lost, ((2016,), (2051,))),
}
"""Where each mutant is caught."""


def test_every_mutant_is_caught_somewhere() -> None:
    assert set(CAUGHT) == set(MUTANTS)


@pytest.mark.slow
@pytest.mark.parametrize("is_broken", [False, True], ids=["whole", "broken"])
@pytest.mark.parametrize("name", CAUGHT)
def test_the_rule_is_needed(name: str, is_broken: bool) -> None:
    """On some pinned run at least: a change elsewhere may make one of them harmless, not all."""
    story, runs = CAUGHT[name]
    with pytest.MonkeyPatch.context() if is_broken else nullcontext() as patch:
        if patch is not None:
            MUTANTS[name].install(patch)
        went_well = [story(*arguments) for arguments in runs]
    assert all(went_well) != is_broken
