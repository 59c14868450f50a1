"""Each rule of a removal is needed: without it a story goes wrong, or the checkers notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import pytest

from gapless.core.limits import Limits
from gapless.core.messages import Joined, Removal
from gapless.core.model import MILLISECOND, SECOND, Micros, NodeId, Path
from gapless.core.node import Node
from gapless.core.orders.publisher.forwarding import Forwarding
from gapless.core.overlay.fates import Fates, RemovalKeys
from gapless.core.overlay.joining import Joining
from gapless.core.overlay.mending import Mending
from gapless.core.overlay.overlay import Overlay
from gapless.core.overlay.removing import Removing
from gapless.simulation.checkers import check
from gapless.simulation.world import World
from simulation.mutants import Mutant
from simulation.scene import Scene
from simulation.test_removal import STAR, crash_for_good, run_with_farewells, without
from support import (
    BYPASSED,
    RECOVERED,
    TOPIC,
    chain,
    delivered,
    own_links,
    publish_all,
    publisher_order,
    start_network,
    subscribe_all,
)


def joined_in(fates: Fates, node: str) -> int:
    """The latest life in which the broker has joined."""
    return max((each.incarnation for each in fates.all() if each.node == node and not each.left), default=0)


def remember_one(original: Callable[..., None], fates: Fates, removal: Removal) -> None:
    """Of each name the last removal that was heard of."""
    for key in [key for key in fates._removed if key[0] == removal.node]:
        del fates._removed[key]
    original(fates, removal)


def without_own_joins(
    original: Callable[..., None], overlay: Overlay, peer: NodeId, told: Sequence[Joined], now: Micros
) -> None:
    """What others say of the joins of this broker is not listened to: it should know better."""
    original(overlay, peer, [each for each in told if each.node != overlay.me], now)


def mended(mending: Mending, path: Path) -> Path:
    """The path without anybody who was removed and has not been heard of since."""
    return mending._overlay.joining.fates.mended(path, mending._overlay.me)


def unless_back(original: Callable[..., Path], mending: Mending, path: Path, removal: Removal) -> Path:
    """Who is in the network now is taken for the one that a path from before means."""
    is_back = mending._overlay.joining.fates.removal(removal.node) is None
    return path if is_back else original(mending, path, removal)


def by_any_news(_: Callable[..., Path], mending: Mending, path: Path, removal: Removal) -> Path:
    """Whoever a path names was there before the removal was heard of, and so before the removal."""
    return mending._overlay.joining.fates.mended_by(removal, path, mending._overlay.me)


def known_by_now(original: Callable[..., RemovalKeys], mending: Mending, peer: NodeId, _: int) -> RemovalKeys:
    """What a peer has said has overtaken nothing."""
    return original(mending, peer, len(mending._overlay.sessions.up[peer].removals))


MUTANTS = {
    each.name: each
    for each in (
        Mutant("ways-through-who-is-gone", Mending, "mended_path", lambda _, self, path, removal: path),
        Mutant("centre-takes-all-for-seen", Forwarding, "begin_anew", lambda *_: None),
        Mutant("centre-listens-at-once", Removing, "is_outdated", lambda *_: False),
        Mutant("nothing-said-again", Node, "_begin_anew", lambda *_: None),
        Mutant("no-fence", Joining, "be_removed", lambda *_: None),
        Mutant("home-for-ever", Fates, "heir", lambda _, self, node: node),
        Mutant("links-come-back", Fates, "current", lambda _, self, link: link),
        Mutant("votes-do-not-count", Removing, "_why_not", lambda *_: None),
        Mutant("who-is-not-known-is-not-there", Removing, "_may_have_others", lambda *_: False),
        Mutant("gone-round-for-ever", Forwarding, "mend", lambda *_: None),
        Mutant("nobody-hears-of-its-own-joins", Overlay, "_on_fates", without_own_joins),
        Mutant("told-before-two-have-it", Removing, "_is_shared", lambda *_: True),
        Mutant("only-the-last-removal-of-a-name", Fates, "_remember", remember_one),
        Mutant("who-is-back-is-gone", Mending, "told_path", lambda _, self, path, known: mended(self, path)),
        Mutant(
            "every-removal-counts-again", Mending, "mended_path", lambda _, self, path, __: mended(self, path)
        ),
        Mutant("who-is-back-was-never-gone", Mending, "mended_path", unless_back),
        Mutant("news-is-news-to-all-ways", Mending, "unknown", lambda *_: frozenset()),
        Mutant("who-joined-here-is-gone", Mending, "mended_path", by_any_news),
        Mutant("told-then-is-told-now", Mending, "known_to", known_by_now),
        Mutant(
            "only-joins-say-who-is-back", Fates, "_joined_in", lambda _, self, node: joined_in(self, node)
        ),
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


def a_name_is_removed_twice() -> bool:
    """b was c's neighbour, is removed, and joins x; when x is removed, b has its place, and is c's neighbour
    again. It stays so when x joins c and is removed once more."""
    world = start_network(chain("b", "c", "d"), {})
    crash_for_good(world, "b")
    removed(world, "b")
    world.add_broker("x", join=("c",))
    world.run_for(RECOVERED)
    world.replace("b", join=("x",))
    world.run_for(RECOVERED)
    crash_for_good(world, "x")
    removed(world, "x")
    world.replace("x", join=("c",))
    world.run_for(RECOVERED)
    crash_for_good(world, "x")
    removed(world, "x")
    return own_links(world) == {("b", "c"), ("c", "d")}


def who_was_removed_and_is_back_loses_its_store() -> bool:
    """b is removed and joins c again; then x joins b. When b has lost its store, x tells it of its removal,
    and that it has joined c since: it is the neighbour of both."""
    world = start_network(chain("b", "c", "d"), {})
    crash_for_good(world, "b")
    removed(world, "b")
    world.replace("b", join=("c",))
    world.run_for(RECOVERED)
    world.add_broker("x", join=("b",))
    world.run_for(RECOVERED)
    world.crash("b")
    world.run_for(RECOVERED)
    world.replace("b", join=("x",))
    world.run_for(RECOVERED)
    return world.broker("b").overlay.topology.neighbours() == ["c", "x"]


def two_have_had_each_others_place() -> bool:
    """b is removed, and c has its place; b is back; c is removed, and b has its place."""
    fates = Fates([], (), [Removal("b", 1, "c", (("c", 2),)), Removal("c", 2, "b", (("b", 3), ("d", 1)))])
    try:
        return fates.mended(("k", "c"), "h") == ("k", "b")
    except RecursionError:
        return False


def who_is_back_out_of_sight(*gone: str) -> bool:
    """x was c's neighbour, is removed, and joins m. b knows that it was removed, and lies too far from m to
    hear that it is back. The way to s, a client of x, leads through m nevertheless, also when another broker
    is removed; or c, when it has forgotten all, hears from b of a way through itself, and nothing else."""
    scene = Scene([*chain("m", "c", "b", "d"), ("c", "x")], p="b")
    world = scene.world
    crash_for_good(world, "x")
    removed(world, "x")
    world.replace("x", join=("m",))
    scene.run(5_000)
    world.add_client("s", "x")
    scene.run(1_000)
    scene.subscribe("s")
    scene.run(1_000)
    assert world.broker("b").overlay.joining.fates.removal("x") is not None
    for each in gone:
        crash_for_good(world, each)
        removed(world, each)
    world.crash("c")
    scene.run(3_000)
    world.restart("c")
    scene.run(5_000)
    scene.publish("1")
    scene.end()
    return not scene.faults(s=[1])


def a_newcomer_hears_of_an_old_removal() -> bool:
    """x was c's neighbour, is removed, and joins m. n joins c, and is told of the removal before it knows
    that it lies near; then of the way to s, a client of x. When d is removed it is told of all removals
    again."""
    scene = Scene([*chain("m", "c", "x"), ("c", "d")])
    world = scene.world
    crash_for_good(world, "x")
    removed(world, "x")
    world.replace("x", join=("m",))
    scene.run(5_000)
    world.add_client("s", "x")
    scene.run(1_000)
    scene.subscribe("s")
    world.add_broker("n", join=("c",))
    scene.run(5_000)
    world.add_client("p", "n")
    crash_for_good(world, "d")
    removed(world, "d")
    assert world.broker("n").overlay.joining.fates.knows("x")
    world.crash("c")
    scene.run(3_000)
    world.restart("c")
    scene.run(5_000)
    scene.publish("1")
    scene.end()
    return not scene.faults(s=[1])


def who_was_far_away_hears_of_an_old_removal() -> bool:
    """x is removed at one end of a chain, and joins at the other, where nobody has heard of that. The word of
    it comes when brokers between them are removed: it does not mean the x that is there by now."""
    scene = Scene(chain("x", "a", "b", "c", "d", "e"), p="e")
    world = scene.world
    crash_for_good(world, "x")
    removed(world, "x")
    world.replace("x", join=("e",))
    scene.run(5_000)
    world.add_client("s", "x")
    scene.run(1_000)
    scene.subscribe("s")
    scene.run(1_000)
    for each in "cb":
        crash_for_good(world, each)
        removed(world, each)
    assert world.broker("e").overlay.joining.fates.knows("x")
    scene.publish("1")
    scene.end()
    return not scene.faults(s=[1])


def who_was_away_hears_that_it_is_back() -> bool:
    """t is cut off while x, which was between c and r, is removed and joins c again. It hears of both at
    once. Its way to s, a client of r, led through the x of before, and must not lead to that of now when c
    fails."""
    scene = Scene(chain("t", "c", "x", "r"), p="t", s="r")
    world = scene.world
    scene.subscribe("s")
    scene.run(1_000)
    for each in "cxr":
        world.cut("t", each)
    scene.run(3_000)
    crash_for_good(world, "x")
    removed(world, "x")
    world.replace("x", join=("c",))
    scene.run(5_000)
    for each in "cxr":
        world.heal("t", each)
    scene.run(8_000)
    crash_for_good(world, "c")
    scene.publish("1")
    scene.run(2_000)
    scene.end()
    return not scene.faults(s=[1])


def a_way_that_is_overtaken() -> bool:
    """r has forgotten all, and b tells it its long log again, slowly. Meanwhile x is removed, and the word of
    that comes to r before the ways through x that b knew earlier."""
    world = start_network(chain("x", "c", "b", "r"), {"s": "x"}, limits=Limits(piece=1))
    for k in range(20):
        world.subscribe("s", f"s/{k}", TOPIC, f"n = {k}")
    world.run_for(SECOND)
    crash_for_good(world, "x", "r")
    world.network.us_per_message["b", "r"] = 50 * MILLISECOND
    world.restart("r")
    world.run_until(lambda: "r" in world.broker("b").overlay.held)
    world.remove("x")
    world.run_until(lambda: world.broker("r").overlay.joining.fates.knows("x"))
    log = publisher_order(world, "r").log
    is_early = log.length < 20
    world.run_for(RECOVERED)
    ways = {log[each].body.path for each in log.subscriptions()}
    return is_early and ways == {("s", "c", "b")}


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
    has_decided = world.broker("b").overlay.joining.fates.knows("x")
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
    "votes-do-not-count": (one_neighbour_sees_it, ((),)),
    "who-is-not-known-is-not-there": (a_neighbour_that_has_come_nearer_is_gone_too, ((),)),
    "gone-round-for-ever": (the_next_failure_is_the_first_again, ((),)),
    "told-before-two-have-it": (the_centre_forgets_it, ((),)),
    "only-the-last-removal-of-a-name": (a_name_is_removed_twice, ((),)),
    "nobody-hears-of-its-own-joins": (who_was_removed_and_is_back_loses_its_store, ((),)),
    "who-is-back-is-gone": (who_is_back_out_of_sight, ((),)),
    "every-removal-counts-again": (who_is_back_out_of_sight, (("d",),)),
    "who-is-back-was-never-gone": (who_was_away_hears_that_it_is_back, ((),)),
    "news-is-news-to-all-ways": (a_newcomer_hears_of_an_old_removal, ((),)),
    "who-joined-here-is-gone": (who_was_far_away_hears_of_an_old_removal, ((),)),
    "told-then-is-told-now": (a_way_that_is_overtaken, ((),)),
    "only-joins-say-who-is-back": (two_have_had_each_others_place, ((),)),
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
