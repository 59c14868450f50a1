"""Stories of more than δ failures at a time: on a topic that holds nothing may be missed without a word.

p publishes at one end of a chain of brokers, s subscribes towards the other; δ is 1.
"""

from __future__ import annotations

from collections.abc import Callable

from gapless.core.limits import Limits
from gapless.core.model import MILLISECOND, SECOND, NodeId
from simulation.scene import TOPIC, Scene
from support import chain, publisher_order

FIVE = chain("b0", "b1", "b2", "b3", "b4")
SIX = chain(*(f"b{k}" for k in range(6)))
SEVEN = chain(*(f"b{k}" for k in range(7)))


# -- ways that are known only in part ------------------------------------------------------------------------


def a_way_that_is_known_farther_later() -> list[str]:
    """Only b0 has not forgotten s, and it is so far away that b3 hears of the way to s up to b4 only. Then s
    comes to b3 itself. What b3 has kept for b4 must go to s; if it stayed there until it is too much for b4,
    it would be given up, and nobody would be told, since nobody else is behind b4 any more."""
    scene = Scene(FIVE, p="b0", s="b4", limits=Limits(custody=1, look_every=2 * SECOND))
    scene.subscribe("s")
    scene.run(100)
    for name in ("b1", "b2", "b3", "b4"):
        scene.world.crash(name)
    scene.world.cut("s", "b3")
    scene.run(100)
    for name in ("b2", "b3"):
        scene.world.restart(name)
        scene.run(4_000)
    scene.slow(("s", "b3"), milliseconds=300)
    scene.heal(("s", "b3"))
    scene.world.run_until(lambda: "s" in scene.world.hosts["b3"].sessions, within=5 * SECOND)
    scene.publish("x", "x")
    scene.run(5_000)
    scene.end()
    return scene.faults(s=[1, 2])


def a_way_that_ended_at_one_that_is_removed() -> list[str]:
    """b3 hears of the way to s up to b4 only, as above, and keeps an event for it there. Then b4 is removed,
    b3 has its place, and s is a client of b3: what was kept for b4 must go to s, before what comes later."""
    scene = Scene(FIVE, p="b0", s="b4")
    scene.subscribe("s")
    scene.run(100)
    _crash(scene, "b1", "b2", "b3", "b4")
    scene.world.cut("s", "b3")
    for name in ("b2", "b3"):
        scene.world.restart(name)
        scene.run(4_000)
    scene.publish("x")
    scene.run(500)
    scene.world.remove("b4")
    scene.run(500)
    scene.heal(("s", "b3"))
    scene.run(4_000)
    scene.publish("x")
    scene.run(1_000)
    scene.end()
    return scene.faults(s=[1, 2])


def two_behind_one_end() -> list[str]:
    """b4 hears from b5 of the ways to s and t up to b3, and from b2, in one message, of both to their ends.
    What it has kept for b3 is for both of them, though they lie on different ways by now."""
    scene = Scene(chain(*(f"b{k}" for k in range(8))), p="b7", s="b1", t="b3")
    for name in ("t", "s"):
        scene.subscribe(name)
    scene.run(100)
    for name in ("b3", "b4", "b5", "b6"):
        scene.world.crash(name)
    for name in ("b2", "t"):
        scene.world.cut(name, "b4")
    scene.run(100)
    for name in ("b6", "b5", "b4"):
        scene.world.restart(name)
        scene.run(4_000)
    scene.publish("x")
    scene.run(100)
    for name in ("b2", "t"):
        scene.heal((name, "b4"))
        scene.run(4_000)
    scene.end()
    return scene.faults(s=[1], t=[1])


def nothing_overtakes_where_a_way_ends() -> list[str]:
    """Only b7 has not forgotten s, so b4 knows the way to s up to b3, which is down. Event 1 is for s alone
    and waits for b3; 2 is for t too, and would go round b3 to b2, which is soon told the way to s."""
    scene = Scene(chain(*(f"b{k}" for k in range(8))), p="b7", s="b0", t="b2")
    scene.subscribe("s")
    scene.run(100)
    for name in ("b0", "b1", "b2", "b3", "b4", "b5", "b6"):
        scene.world.crash(name)
    scene.run(100)
    for name in ("b6", "b5", "b4", "b2"):
        scene.world.restart(name)
        scene.run(4_000)
    scene.subscribe("t", "kind = 'y'")
    scene.run(500)
    scene.publish("x", "y")
    scene.run(500)
    for name in ("b1", "b0", "b3"):
        scene.world.restart(name)
        scene.run(4_000)
    scene.end()
    return scene.faults(s=[1, 2], t=[2])


def a_way_that_leads_back() -> list[str]:
    """Only b5 has not forgotten s, whose broker a is down, and b0 and b1 do not know where it is. b1 keeps
    for s what came from b0; when s is back at b0, b1 must not wait for b0, which waits for b1."""
    scene = Scene(chain("a", *(f"b{k}" for k in range(6))), p="b0", s="a", t="b1")
    scene.subscribe("s")
    scene.run(100)
    scene.part(("s", "a"), ("s", "b0"))
    for name in ("a", "b0", "b1", "b2", "b3", "b4"):
        scene.world.crash(name)
    scene.run(100)
    for name in ("b4", "b3", "b2", "b1", "b0"):
        scene.world.restart(name)
        scene.run(4_000)
    scene.subscribe("t")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    scene.end()
    return scene.faults(s=[1], t=[1])


def what_must_wait_vanishes_with_its_generation() -> list[str]:
    """b2 may not send round b3 what came round b1. p moves, and repeats it; when a copy comes that b1 has
    passed, it may go on, and nothing of the generation before must still be in its way."""
    scene = Scene(chain(*(f"b{k}" for k in range(6))), p="b0", s="b5")
    scene.subscribe("s")
    scene.run(100)
    for name in ("b1", "b3"):
        scene.world.crash(name)
    scene.run(4_000)
    scene.publish("x")
    scene.run(100)
    scene.part(("p", "b0"))
    scene.heal(("p", "b0"))
    scene.run(4_000)
    scene.world.restart("b1")
    scene.run(4_000)
    found = scene.got("s")
    scene.end()
    return [*scene.faults(s=[1]), *([f"{found} while b3 is down"] if found != [1] else [])]


def nobody_knows_where_a_client_was() -> list[str]:
    """Only b0 has not forgotten s, and it is so far away that nobody hears where s was, b5 neither, at which
    it was. It never comes back; b5 must know that it is its own, or nobody would ever give it up."""
    scene = _where_a_client_was_is_forgotten()
    scene.run(25_000)
    return scene.faults_of_custody()


def a_client_comes_back_where_nobody_knew_it() -> list[str]:
    """As before, but s comes back in time. What waits at b4 must go to b5, which knew the way before s did
    say it."""
    scene = _where_a_client_was_is_forgotten()
    scene.end()
    return scene.faults(s=[1])


def _where_a_client_was_is_forgotten() -> Scene:
    scene = Scene(SIX, p="b0", s="b5", limits=Limits(lease=20 * SECOND))
    scene.subscribe("s")
    scene.run(100)
    scene.part(("s", "b5"), ("s", "b4"))
    _crash(scene, "b1", "b2", "b3", "b4", "b5")
    for name in ("b1", "b2", "b3", "b4", "b5"):
        scene.world.restart(name)
    scene.run(4_000)
    scene.publish("x")
    scene.run(100)
    return scene


# -- who is given up, and what is reached --------------------------------------------------------------------


def all_know_who_was_given_up() -> list[str]:
    """b1 gives s up. Its neighbours know, but b4 does not, when b2 crashes. If b1 had forgotten it by then,
    b4 would bring s back, while p still publishes without it."""
    scene = Scene(
        FIVE, p="b0", s="b4", q="b0", limits=Limits(custody=1, look_every=100 * MILLISECOND, tombstones=1)
    )
    scene.subscribe("s")
    scene.subscribe("q")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    for name in ("b2", "b3"):
        scene.world.crash(name)
    scene.world.cut("b2", "b4")
    scene.run(1_000)
    scene.publish("x", "x")
    scene.run(1_000)
    scene.world.restart("b2")
    scene.run(5_000)
    scene.world.unsubscribe("q", "q")  # the only one that is recognised now as having ended
    scene.run(1_000)
    scene.world.crash("b2")
    scene.world.restart("b3")
    scene.run(5_000)
    scene.publish("x")
    scene.run(1_000)
    scene.end()
    return scene.faults(resets=1, s=[1, 4])


def a_subscription_that_was_given_up_comes_back() -> list[str]:
    """b1 gives s up. It and b0 lose their stores, and b4, which was never told, brings s back; but p still
    publishes without it. So s must be told, and begins anew."""
    scene = Scene(FIVE, p="b0", s="b4", limits=Limits(custody=1, look_every=100 * MILLISECOND))
    scene.subscribe("s")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    for name in ("b2", "b3"):
        scene.world.crash(name)
    scene.world.cut("b2", "b4")
    scene.run(1_000)
    scene.publish("x", "x")
    scene.run(1_000)
    scene.part(("p", "b0"), ("p", "b1"))
    for name in ("b0", "b1"):
        scene.world.crash(name)
    for name, point in (("b1", "b2"), ("b0", "b1")):
        scene.world.replace(name, join=(point,))
    scene.end()
    scene.publish("x")
    scene.run(1_000)
    scene.publish("x")
    scene.end()
    return scene.faults(resets=1, s=[1, 5])


def who_has_given_up_is_down_for_long() -> list[str]:
    """b0 gives s up, tells p, and crashes. p comes to b1, which has not heard of it, only after a lease: it
    must still say so, since b0 cannot."""
    limits = Limits(custody=1, look_every=100 * MILLISECOND, lease=2 * SECOND)
    scene = Scene(FIVE, p="b0", s="b4", limits=limits)
    scene.subscribe("s")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    for name in ("b1", "b2"):
        scene.world.crash(name)
    scene.run(1_000)
    scene.publish("x", "x")
    scene.run(1_000)
    scene.world.crash("b0")
    scene.run(4_000)
    scene.publish("x")
    for name in ("b2", "b1"):
        scene.world.restart(name)
    scene.run(4_000)
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(resets=1, s=[1, 5])


def a_barrier_where_an_island_was() -> list[str]:
    """s goes live round b1, and reaches b0 behind it. Then b3 loses b2 too: to b3, what b0 sends comes from
    behind a barrier that ends with b1. It is promised nevertheless."""
    scene = Scene(FIVE, p="b0", s="b4")
    scene.publish("n")
    scene.world.crash("b1")
    scene.run(1_000)
    scene.subscribe("s", "kind = 'x'")
    scene.run(1_000)
    assert scene.unreachable("s") == ("b1",)
    scene.world.cut("b1", "b3")
    scene.part(("b2", "b3"))
    scene.run(3_000)
    scene.publish("x")
    scene.run(1_000)
    scene.world.restart("b1")
    scene.run(1_000)
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[2, 3])


def a_start_behind_what_was_delivered() -> list[str]:
    """All brokers forget s. p repeats what t, which is away, has not confirmed: event 1, and what came after
    it. s subscribes anew between 1 and 2, and has got 3 long ago: 2 must not be promised to it."""
    scene = Scene([("b0", "b1")], p="b0", s="b1", t="b1", limits=Limits(batch=1))
    scene.subscribe("t", "kind = 't'")
    scene.run(100)
    scene.world.crash("t")
    scene.publish("t", "x")
    scene.run(100)
    scene.subscribe("s", "kind = 'x'")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    network = scene.world.network
    scene.part(("s", "b0"), ("s", "b1"))
    for name in ("b0", "b1"):
        scene.world.crash(name)
    scene.run(100)
    network.us_per_message["p", "b0"] = 50 * MILLISECOND
    for name in ("b0", "b1"):
        scene.world.restart(name)
    entered = publisher_order(scene.world, "b0").forwarding.presence.entered
    scene.world.run_until(lambda: bool(entered), within=20 * SECOND)
    network.starved["p", "b0"] = None
    scene.heal(("s", "b0"), ("s", "b1"))
    scene.run(5_000)
    network.feed("p", "b0")
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(resets=1, s=[3, 4])


def an_older_holder_where_all_have_forgotten() -> list[str]:
    """q takes p's name at b0. p, at b1, has heard nothing of it when the others lose all that they know,
    twice: that s subscribes, then that q has published 2. s begins anew with p in sight, and has 1 of q."""
    scene = Scene([("b0", "b1"), ("b0", "b2")], p="b1", q="b0", s="b0")

    def publish(client: str) -> None:
        scene.world.publish(client, "p", TOPIC, {"kind": "x"})
        scene.run(100)

    def forget() -> None:
        _crash(scene, "b0", "b2")
        for name in ("b0", "b2"):
            scene.world.restart(name)
        scene.run(10_000)

    scene.part(("b0", "b1"), ("b2", "b1"), ("s", "b1"), ("q", "b1"))
    scene.subscribe("s")
    scene.run(100)
    publish("p")
    publish("q")
    scene.part(("s", "b0"), ("s", "b2"))
    forget()
    publish("q")
    scene.heal(("b0", "b1"))
    forget()
    scene.heal(("s", "b0"))
    scene.run(10_000)
    publish("q")
    scene.end()
    found = scene.got("s", "p#1")
    return [*scene.faults(resets=1), *([f"s got {found}"] if found != [1, 3] else [])]


# -- what lies behind a barrier ------------------------------------------------------------------------------


def a_barrier_that_comes_nearer() -> list[str]:
    """s is live without b3, b4 and those behind. Then b1 and b2 fail, and all that b0 sees is b1 and b2: that
    says nothing of b3 and b4."""
    scene = Scene(SEVEN, p="b6", s="b0")
    _crash(scene, "b3", "b4")
    scene.subscribe("s")
    scene.run(100)
    _crash(scene, "b1", "b2")
    return _publishes_behind_a_barrier(scene)


def a_barrier_that_recedes() -> list[str]:
    """s is live without b1, b2 and those behind. Both are back; but b3 and b4, which only they see, are down
    and have not been reached either, nor has p's own broker, b6."""
    scene = Scene(SEVEN, p="b6", s="b0")
    _crash(scene, "b3", "b4", "b1", "b2")
    return _barrier_is_gone(scene)


def one_that_was_behind_a_barrier() -> list[str]:
    """As before, but b6 alone, of which s has not heard, is still not reached: that is no barrier."""
    scene = Scene(SEVEN, p="b6", s="b0")
    _crash(scene, "b1", "b2")
    scene.part(("b5", "b6"))
    scene.world.cut("b4", "b6")
    scene.run(2_000)
    return _barrier_is_gone(scene)


def _crash(scene: Scene, *names: str) -> None:
    for name in names:
        scene.world.crash(name)
    scene.run(2_000)


def _barrier_is_gone(scene: Scene) -> list[str]:
    """s goes live without b1, b2 and those behind; then b1 and b2 are back."""
    scene.subscribe("s")
    scene.run(100)
    for name in ("b1", "b2"):
        scene.world.restart(name)
    scene.run(5_000)
    return _publishes_behind_a_barrier(scene)


def _publishes_behind_a_barrier(scene: Scene) -> list[str]:
    """b6 takes an event of p for nobody, and forgets it."""
    scene.publish("x")
    scene.run(100)
    scene.world.crash("b6")
    scene.run(100)
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[2])


# -- who has lost its store ----------------------------------------------------------------------------------


def a_neighbour_of_which_little_is_known() -> list[str]:
    """b1 has lost its store, and b0, which comes back too, tells it of b2, but not that others lie behind b2:
    it does not know them. b2 is down. b1 must not say that nobody knows more than b1: b5 knows s."""
    scene = _has_lost_its_store("b1")
    return _publishes_at_b0(scene)


def a_store_in_which_links_are_missing() -> list[str]:
    """As before; and b1 crashes again, and starts from the little that it was told."""
    scene = _has_lost_its_store("b1")
    scene.world.crash("b1")
    scene.run(1_000)
    scene.world.restart("b1")
    scene.run(4_000)
    return _publishes_at_b0(scene)


def a_broker_that_does_not_know_all_its_neighbours() -> list[str]:
    """b2 has lost its store, and b0 goes round b1 to it and tells it where it belongs. Of b3, on the other
    side of b2, b0 knows nothing."""
    scene = _has_lost_its_store("b2")
    return _publishes_at_b0(scene)


def live_before_it_is_known_who_there_is() -> list[str]:
    """b1 has lost its store, and b2, which is down, is the last one that it knows. If s went live without b2
    alone, all would be reached once b2 is back, b6 too, which is cut off."""
    scene = Scene(SEVEN, p="b6", s="b0")
    _crash(scene, "b1", "b2", "b3")
    scene.part(("b5", "b6"))
    scene.world.cut("b4", "b6")
    scene.world.replace("b1", join=("b2",))
    scene.run(2_000)
    scene.subscribe("s")
    scene.run(100)
    for name in ("b2", "b3"):
        scene.world.restart(name)
    scene.run(5_000)
    return _publishes_behind_a_barrier(scene)


def one_that_a_removal_has_brought_nearer() -> list[str]:
    """b1 is removed. b2 crashes when it has agreed, before it has told b0 who its other neighbour is."""
    scene = Scene([*SIX, ("b0", "c0")], p="b0", s="b5")
    scene.subscribe("s")
    scene.run(100)
    scene.world.crash("b1")
    scene.run(2_000)
    scene.slow(("b0", "b2"), milliseconds=100)
    scene.world.remove("b1")
    scene.run(150)
    assert "b1" not in scene.world.broker("b0").overlay.topology
    scene.world.crash("b2")
    scene.run(2_000)
    _crash(scene, "b0", "c0", "b3", "b4")
    for name in ("b0", "c0"):
        scene.world.restart(name)
    scene.run(4_000)
    return _publishes_at_b0(scene)


def _has_lost_its_store(lost: NodeId) -> Scene:
    """All but b5 crash, with s known there; then b0 is back, and the one that has lost its store."""
    scene = Scene(SIX, p="b0", s="b5")
    scene.subscribe("s")
    scene.run(100)
    _crash(scene, "b0", "b1", "b2", "b3", "b4")
    scene.world.replace(lost, join=("b3",))
    scene.world.restart("b0")
    scene.run(4_000)
    return scene


def _publishes_at_b0(scene: Scene) -> list[str]:
    scene.publish("x")
    scene.run(1_000)
    scene.end()
    return scene.faults(s=[1])


STORIES: dict[Callable[[], list[str]], tuple[str, ...]] = {
    a_way_that_is_known_farther_later: ("only-the-pathless-go-on",),
    a_way_that_ended_at_one_that_is_removed: ("a-way-ends-at-whoever-is-removed",),
    two_behind_one_end: ("who-is-led-on-first-leaves-the-others",),
    nothing_overtakes_where_a_way_ends: ("who-waits-where-a-way-ends-is-overtaken",),
    a_way_that_leads_back: ("ways-lead-back",),
    nobody_knows_where_a_client_was: ("own-clients-are-strangers",),
    a_client_comes_back_where_nobody_knew_it: ("own-clients-are-a-secret",),
    what_must_wait_vanishes_with_its_generation: ("the-vanished-hold-up",),
    all_know_who_was_given_up: ("forget-the-given-up-when-neighbours-know",),
    a_subscription_that_was_given_up_comes_back: ("publishers-know-of-the-given-up-alone",),
    who_has_given_up_is_down_for_long: ("the-given-up-are-forgotten-after-a-lease",),
    a_barrier_where_an_island_was: ("islands-are-barriers",),
    a_start_behind_what_was_delivered: ("renewed-from-the-cut-alone",),
    an_older_holder_where_all_have_forgotten: ("every-holder-counts-alike",),
    a_barrier_that_comes_nearer: ("what-is-not-seen-is-reached",),
    a_barrier_that_recedes: ("what-is-not-seen-is-reached",),
    one_that_was_behind_a_barrier: ("what-is-not-seen-is-reached",),
    a_neighbour_of_which_little_is_known: ("what-is-told-is-all", "who-is-far-off-vouches"),
    a_store_in_which_links_are_missing: ("doubts-are-forgotten",),
    a_broker_that_does_not_know_all_its_neighbours: ("own-links-are-never-lost",),
    live_before_it_is_known_who_there_is: ("nobody-is-behind-the-blind",),
    one_that_a_removal_has_brought_nearer: ("who-comes-nearer-is-known",),
}
"""Each story, and the mutants that get it wrong."""
