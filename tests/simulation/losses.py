"""Stories of confirmed events that were once lost without a word, each by a rule that was missing.

Names of brokers: b is the publisher's own, y1 and y2 are its neighbours; s subscribes, p publishes.
"""

from __future__ import annotations

from collections.abc import Callable

from gapless.core.effects import publisher_of
from gapless.core.limits import Limits
from gapless.core.model import MILLISECOND, SECOND, BeyondDelta, Link, Micros, NodeId, OrderName, Topic
from gapless.simulation import trace
from gapless.simulation.world import World
from simulation.scene import TOPIC, Constant, Scene
from support import chain

STAR = [("b", "y1"), ("b", "y2")]


# -- what a stranger says ------------------------------------------------------------------------------------


def a_stranger_is_heard() -> list[str]:
    """x joins with two join points. What it tells j2 comes before the wave that makes it a neighbour there;
    then j1 dies, and j2 must know that x knows s."""
    scene = Scene(chain("j1", "j2"), s="j2")
    scene.subscribe("s")
    scene.run(1_000)
    world = scene.world
    world.add_broker("x", join=("j1", "j2"))
    world.run_until(lambda: world.broker("x").overlay.is_joined, within=5 * SECOND)
    scene.run(50)
    world.crash("j1")
    world.add_client("p", "x")
    scene.run(2_000)
    scene.publish("x")
    scene.run(2_000)
    scene.publish("x")
    scene.run(2_000)
    scene.end()
    return scene.faults(s=[1, 2])


# -- whom a client knows -------------------------------------------------------------------------------------


def a_client_that_came_before_its_broker_had_joined() -> list[str]:
    """x has nothing to tell p of its neighbours yet. It joins, and is lost: p must go on at b."""
    scene = _comes_before_its_broker_has_joined()
    scene.run(1_000)
    assert scene.world.broker("x").overlay.is_joined
    return _goes_on_without(scene, "x")


def a_client_whose_broker_is_lost_while_it_joins() -> list[str]:
    """x has its place beside b, but y1 has not confirmed that yet: p must go on at b even so."""
    scene = _comes_before_its_broker_has_joined()
    scene.slow(("y1", "b"), milliseconds=300)
    scene.world.run_until(lambda: scene.world.broker("x").overlay.has_place, within=SECOND)
    scene.run(20)
    assert not scene.world.broker("x").overlay.is_joined
    return _goes_on_without(scene, "x")


def _comes_before_its_broker_has_joined() -> Scene:
    """p is at x, and x waits for the answer of b."""
    scene = Scene(chain("b", "y1"), s="y1")
    scene.subscribe("s")
    scene.run(1_000)
    world = scene.world
    scene.slow(("x", "b"), milliseconds=50)
    world.add_broker("x", join=("b",))
    world.add_client("p", "x")
    world.run_until(lambda: "x" in world.hosts["p"].sessions, within=SECOND)
    assert not world.broker("x").overlay.has_place
    return scene


def a_client_that_came_before_a_neighbour_of_its_broker() -> list[str]:
    """x joins b when p has long been there. When b and y1 are lost (δ = 2), p must go on at x."""
    scene = Scene(chain("b", "y1"), delta=2, p="b")
    world = scene.world
    world.add_broker("x", join=("b",))
    world.run_until(lambda: world.broker("x").overlay.is_joined, within=5 * SECOND)
    world.add_client("s", "x")
    scene.run(1_000)
    scene.subscribe("s")
    scene.run(1_000)
    return _goes_on_without(scene, "b", "y1")


def _goes_on_without(scene: Scene, *brokers: NodeId) -> list[str]:
    """What p publishes comes to s while these brokers are down."""
    for name in brokers:
        scene.world.crash(name)
    scene.publish("x")
    scene.run(5_000)
    meanwhile = scene.got("s")
    scene.end()
    return _differs(meanwhile, [1]) + scene.faults(s=[1])


# -- what a broker could not ask -----------------------------------------------------------------------------


def a_broker_that_could_not_ask_who_knew() -> list[str]:
    """All that b and y1 knew of s is lost, and y2, which knows it, is cut off (δ = 3). b takes an event of
    its client p, which then moves to y2 and goes on there: s must hear that it has missed something."""
    return _moves_to_who_could_not_be_asked(_loses_what_it_knew(STAR, p="b"))


def a_guest_of_one_that_could_not_ask_who_knew() -> list[str]:
    """The same, but p is a client of y2, and has been a guest."""
    return _moves_to_who_could_not_be_asked(_loses_what_it_knew(STAR, p="y2"))


def one_that_could_ask_its_neighbours() -> list[str]:
    """The same, but y2 is behind y1: b could ask all its neighbours, and y1 could not."""
    return _moves_to_who_could_not_be_asked(_loses_what_it_knew(chain("y2", "y1", "b"), p="b"))


def one_that_is_told_too_late() -> list[str]:
    """The same, but b is down again when y1 hears of s, and p moves to y1: nobody knows what b took."""
    scene = _loses_what_it_knew(STAR, p="b")
    scene.world.crash("b")
    scene.heal(("y1", "y2"))
    scene.run(3_000)
    return _has_missed_one(scene)


def a_publisher_that_stays_where_s_was_lost() -> list[str]:
    """The same, but p stays at b. What it publishes when b has just heard of s from y2 is there before b can
    say what it took, since y1 has not confirmed yet."""
    scene = _loses_what_it_knew(STAR, p="b")
    scene.part(("s", "b"), ("s", "y1"))
    scene.slow(("y1", "b"), milliseconds=200)
    scene.heal(("b", "y2"))
    scene.world.run_until(lambda: "y2" in scene.world.hosts["b"].sessions, within=5 * SECOND)
    scene.run(20)
    return _has_missed_one(scene)


def a_witness_that_never_knew() -> list[str]:
    """y1 has forgotten nothing, but s went live without it: what it tells b, which has lost s, is not all."""
    scene = Scene(STAR, delta=3, p="b", s="y2")
    scene.part(("b", "y1"), ("y1", "y2"))
    scene.run(1_000)
    scene.subscribe("s")
    scene.run(1_000)
    assert scene.unreachable("s") == ("y1",)
    scene.publish("x")
    scene.run(1_000)
    scene.heal(("b", "y1"))
    return _moves_to_who_could_not_be_asked(_crash_without_y2(scene, "b"))


def a_witness_has_forgotten_nothing() -> list[str]:
    """y3 has not crashed, and tells b and y1 of s: nothing is missed, and nobody must be told that it was."""
    scene = Scene([*STAR, ("b", "y3")], delta=3, p="b", s="y2")
    scene.subscribe("s", "kind = 'x'")
    scene.run(1_000)
    scene.publish("x")
    scene.run(1_000)
    _crash_without_y2(scene, "b", "y1", kind="n")
    _moves_to_y2(scene)
    scene.end()
    return scene.faults(s=[1, 3])


def one_that_came_after_what_was_lost() -> list[str]:
    """t subscribes when b and y1 are back, and b knows it when p publishes there: t has missed nothing."""
    scene = Scene(STAR, delta=3, p="b", t="y1")
    scene.publish("n")
    scene.run(1_000)
    _restart_without_y2(scene, "b", "y1")
    scene.subscribe("t", "kind = 'x'")
    scene.run(1_000)
    scene.publish("n")
    scene.run(1_000)
    scene.part(("p", "b"))
    scene.run(3_000)
    scene.publish("x")
    scene.run(1_000)
    scene.end()
    return scene.faults(t=[3])


def _loses_what_it_knew(links: list[Link], *, p: NodeId) -> Scene:
    """s is at y2. b and y1 crash, cannot reach y2 when they are back, and p publishes at one of them."""
    scene = Scene(links, delta=3, p=p, s="y2")
    scene.subscribe("s")
    scene.run(1_000)
    scene.publish("x")
    scene.run(1_000)
    return _crash_without_y2(scene, "b", "y1")


def _crash_without_y2(scene: Scene, *names: NodeId, kind: str = "x") -> Scene:
    _restart_without_y2(scene, *names)
    scene.publish(kind)
    scene.run(1_000)
    return scene


def _restart_without_y2(scene: Scene, *names: NodeId) -> None:
    for name in names:
        scene.world.crash(name)
    scene.part(*((name, "y2") for name in scene.world.hosts if name not in ("s", "y2")))
    for name in names:
        scene.world.restart(name)
    scene.run(3_000)


def _moves_to_y2(scene: Scene) -> None:
    scene.heal(("p", "y2"))
    scene.part(*(("p", name) for name in scene.world.hosts if name not in ("p", "s", "y2")))
    scene.run(3_000)
    scene.publish("x")
    scene.run(3_000)


def _moves_to_who_could_not_be_asked(scene: Scene) -> list[str]:
    _moves_to_y2(scene)
    scene.end()
    return scene.faults(resets=1, s=[1, 3])


def _has_missed_one(scene: Scene) -> list[str]:
    scene.publish("x")
    scene.run(3_000)
    scene.end()
    return scene.faults(resets=1, s=[1, 3])


# -- whom a broker takes events from -------------------------------------------------------------------------


def a_first_event_elsewhere() -> list[str]:
    """p publishes for the first time when its broker is dead, at y1, which s has not reached."""
    return _moves_while_s_is_under_way(before=())


def a_move_while_a_subscription_is_under_way() -> list[str]:
    """y1 has settled long ago, but what b knew last has not come: s is live, and y1 was not reached."""
    return _moves_while_s_is_under_way(before=("n",))


def _moves_while_s_is_under_way(before: tuple[str, ...]) -> list[str]:
    """δ = 1 and never two failures at a time: the link b–y1 is cut and healed, then b crashes."""
    scene = Scene(STAR, p="b", s="y2")
    scene.part(("b", "y1"))
    scene.run(50)
    assert "y2" in scene.world.hosts["y1"].sessions
    scene.slow(("y1", "y2"), ("y2", "y1"), ("b", "y1"), milliseconds=700)
    scene.subscribe("s", "kind = 'x'")
    scene.run(20)
    assert scene.unreachable("s") == ("y1",)
    scene.publish(*before)
    scene.run(20)
    scene.heal(("b", "y1"))
    scene.run(300)
    scene.world.crash("b")
    scene.world.run_until(lambda: "y1" in scene.world.hosts["p"].sessions, within=SECOND)
    scene.publish("x")
    scene.run(3_000)
    scene.publish("x")
    scene.end()
    first = len(before) + 1
    return scene.faults(s=[first, first + 1])


def a_side_asks_its_own_sides() -> list[str]:
    """z suspects y2 and goes round it, to b: s is live without y2, which has not noticed, and y1. When b
    crashes, y1 asks y2, which must not answer from what z said long ago."""
    scene = Scene(chain("y1", "b", "y2", "z"), delta=2, p="b", s="z")
    scene.part(("b", "y1"))
    scene.run(100)
    scene.world.cut("y2", "z")
    scene.suspect("z", "y2")
    scene.run(50)
    scene.slow(("b", "y1"), ("y2", "y1"), ("y1", "y2"), milliseconds=100)
    scene.slow(("z", "y1"), ("y1", "z"), milliseconds=800)
    scene.subscribe("s", "kind = 'x'")
    scene.run(20)
    assert "y2" in scene.unreachable("s")
    assert "y1" in scene.unreachable("s")
    scene.publish("n")
    scene.run(10)
    scene.heal(("b", "y1"))
    scene.world.crash("b")
    scene.run(150)
    scene.publish("x")
    scene.run(4_000)
    scene.publish("x")
    scene.end()
    return scene.faults(s=[2, 3])


def a_guest_of_an_unreached_broker() -> list[str]:
    """p is at y1, since its link to b is cut; b cuts y1 off and y1 has not noticed, when s goes live. What p
    publishes then is promised, because b was reached, and cannot come: s is told by a reset."""
    scene = Scene(STAR, delta=2, p="b", s="y2")
    scene.part(("p", "b"))
    scene.run(100)
    scene.publish("n")
    scene.run(100)
    scene.world.cut("b", "y1")
    scene.suspect("b", "y1")
    scene.run(10)
    scene.subscribe("s", "kind = 'x'")
    scene.run(20)
    scene.publish("x")
    scene.run(3_000)
    scene.publish("x")
    scene.end()
    return scene.faults(s=[3], resets=1)


def a_guest_of_a_broker_that_has_forgotten_it() -> list[str]:
    """As before, but y1 loses its store before it is reached: no cut tells what it took, and only p knows
    that it was there."""
    scene = Scene(STAR, delta=2, p="b", s="y2")
    scene.part(("p", "b"))
    scene.run(100)
    scene.publish("n")
    scene.run(100)
    scene.world.cut("b", "y1")
    scene.suspect("b", "y1")
    scene.run(10)
    scene.subscribe("s", "kind = 'x'")
    scene.run(20)
    scene.publish("x")
    scene.run(100)
    scene.world.crash("y1")
    scene.heal(("b", "y1"))
    scene.world.replace("y1", join=("b",))
    scene.end()
    scene.publish("n", "x")
    scene.end()
    return scene.faults(s=[4], resets=1)


def a_guest_that_says_nothing_more() -> list[str]:
    """As before, but p publishes nothing more: y1 must remember that p was there."""
    scene = Scene(STAR, delta=2, p="b", s="y2")
    scene.part(("p", "b"))
    scene.run(100)
    scene.publish("n")
    scene.run(100)
    scene.world.cut("b", "y1")
    scene.suspect("b", "y1")
    scene.run(10)
    scene.subscribe("s", "kind = 'x'")
    scene.run(20)
    scene.publish("x")
    scene.run(100)
    scene.world.crash("y1")
    scene.end()
    return scene.faults(s=[], resets=1)


def what_was_told_once_is_not_told_again() -> list[str]:
    """As before. When p comes home once more, what it left at y1 lies before what s has got."""
    scene = Scene(STAR, delta=2, p="b", s="y2")
    scene.part(("p", "b"))
    scene.run(100)
    scene.publish("n")
    scene.run(100)
    scene.world.cut("b", "y1")
    scene.suspect("b", "y1")
    scene.run(10)
    scene.subscribe("s", "kind = 'x'")
    scene.run(20)
    scene.publish("x")
    scene.run(100)
    scene.world.crash("y1")
    scene.end()
    scene.publish("x")
    scene.run(1_000)
    scene.part(("p", "b"))
    scene.end()
    scene.publish("n", "x")
    scene.end()
    return scene.faults(s=[3, 5], resets=1)


def who_was_given_up_is_not_known_there_when_it_begins_anew() -> list[str]:
    """y1, which nobody reaches, gives s up; q, which comes home from there, tells. s begins anew without y1,
    where p goes on in the generation of which s has an event. Then y1 forgets what it took."""
    limits = Limits(custody=1, look_every=100 * MILLISECOND)
    scene = Scene(STAR, delta=4, p="b", q="b", s="y2", limits=limits)
    scene.subscribe("s", "kind = 'x'")
    scene.part(("p", "b"), ("q", "b"))
    scene.run(100)
    scene.publish("x")
    scene.publish("n", client="q")
    scene.run(100)
    scene.part(("b", "y1"), ("y1", "y2"))
    scene.run(3_000)
    scene.publish("x", "x")
    scene.run(1_000)
    scene.heal(("q", "b"))
    scene.run(3_000)
    scene.publish("n", client="q")
    scene.run(1_000)
    scene.publish("x")
    scene.run(100)
    scene.world.crash("y1")
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1, 5], resets=2)


def a_start_that_lies_before_what_was_left_elsewhere() -> list[str]:
    """b has not noticed that p is at y1, which b and y2 cannot reach: s is told a start that lies before what
    p has published there, and y1 forgets that."""
    scene = Scene(STAR, delta=3, p="b", s="y2")
    scene.publish("n")
    scene.run(100)
    scene.part(("b", "y1"), ("y1", "y2"))
    scene.run(3_000)
    scene.world.cut("p", "b")
    scene.suspect("p", "b")
    scene.run(50)
    scene.publish("x")
    scene.run(20)
    scene.subscribe("s", "kind = 'x'")
    scene.run(20)
    assert scene.unreachable("s") == ("y1",)
    scene.world.crash("y1")
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[3], resets=1)


def a_start_that_lies_before_what_a_lost_store_had() -> list[str]:
    """As before, but y1 is back, without its store, when s goes live."""
    scene = Scene(STAR, delta=3, p="b", s="y2")
    scene.publish("n")
    scene.run(100)
    scene.part(("b", "y1"), ("y1", "y2"))
    scene.run(3_000)
    scene.world.cut("p", "b")
    scene.suspect("p", "b")
    scene.run(50)
    scene.publish("x")
    scene.run(20)
    scene.world.crash("y1")
    scene.heal(("b", "y1"), ("y1", "y2"))
    scene.world.replace("y1", join=("b",))
    scene.world.run_until(lambda: scene.world.broker("y1").overlay.is_joined, within=SECOND)
    scene.subscribe("s", "kind = 'x'")
    scene.run(20)
    assert scene.unreachable("s") == ()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[3], resets=1)


def a_partition_that_names_a_reached_broker() -> list[str]:
    """s goes live with z reached round b and c. Then it hears from b, which cannot reach z, of a partition in
    which z lies behind c. What comes from z is promised nevertheless, though that partition is open."""
    scene = Scene(chain("a", "b", "c", "z"), delta=2, p="z", s="a")
    scene.part(("a", "b"))
    scene.world.crash("c")
    scene.run(500)
    scene.subscribe("s")
    scene.run(100)
    assert scene.unreachable("s") == ("b", "c")
    scene.world.cut("b", "z")
    scene.suspect("b", "z")
    scene.heal(("a", "b"))
    scene.world.run_until(lambda: "c" in scene.unreachable("s") != ("b", "c"), within=10 * SECOND)
    scene.publish("x")
    scene.run(3_000)
    scene.end()
    return scene.faults(s=[1])


def a_guest_that_has_gone_home() -> list[str]:
    """As before, but p publishes nothing more until all is healed and s knows what y1 took."""
    scene = Scene(STAR, delta=2, p="b", s="y2")
    scene.part(("p", "b"))
    scene.run(100)
    scene.publish("n")
    scene.run(100)
    scene.world.cut("b", "y1")
    scene.suspect("b", "y1")
    scene.run(10)
    scene.subscribe("s", "kind = 'x'")
    scene.run(20)
    scene.publish("x")
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[3], resets=1)


def a_guest_that_its_own_broker_takes_to_be_there() -> list[str]:
    """p has gone to y1, and b has not noticed that its link to p is cut. But y1 has told b that p is there,
    before it took anything. When y1 is gone and s comes, b must not say that p goes on where it was."""
    scene = Scene(STAR, p="b", s="y2")
    scene.publish("x")
    scene.run(100)
    scene.world.cut("p", "b")
    scene.suspect("p", "b")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    _comes_after_a_guest(scene)
    return scene.faults(s=[3])


def an_adopted_publisher_that_its_old_broker_takes_to_be_there() -> list[str]:
    """p has died, and b has not noticed; q, which is at y1, goes on with its publisher. All that b knows is
    that it has seen what was published at y1."""
    scene = Scene(STAR, p="b", q="b", s="y2", t="y2")
    scene.part(("q", "b"))
    scene.subscribe("t")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    scene.world.crash("p", silently=True)
    _adopt(scene)
    scene.world.publish("q", "p", TOPIC, {"kind": "x"})
    scene.run(100)
    _comes_after_a_guest(scene, "q")
    return scene.faults(s=[3], t=[1, 2, 3])


def _comes_after_a_guest(scene: Scene, client: NodeId = "p") -> None:
    """y1 is gone, with its store, when s comes; then the client publishes at another broker."""
    scene.world.crash("y1")
    scene.run(20)
    scene.subscribe("s")
    scene.run(50)
    assert scene.is_live("s")
    scene.world.publish(client, "p", TOPIC, {"kind": "x"})
    scene.world.replace("y1", join=("b",))
    scene.end()


def _adopt(scene: Scene) -> None:
    """q goes on with the publisher of p, and has its records."""
    store = scene.world.hosts["p"].store
    records = [each for each in store if publisher_of(each) == "p"]
    store[:] = [each for each in store if each not in records]
    scene.world.adopt("q", "p", records)


def an_adopted_publisher() -> list[str]:
    """s has reached b and not y1 when p publishes at b and dies. A client of y1 that is at b goes on with p:
    what it repeats is promised as before, whoever repeats it."""
    scene = _adopted_at("b")
    scene.end()
    return scene.faults(s=[1, 2])


def an_adopted_publisher_out_of_reach() -> list[str]:
    """As before, but q is at y1: what it repeats there cannot come to s, which is told so."""
    scene = _adopted_at("y1")
    scene.end()
    return scene.faults(s=[], resets=1)


def _adopted_at(broker: NodeId) -> Scene:
    """p publishes 1 and 2, which nobody hears of; q, a client of y1, goes on with p, at some broker."""
    scene = Scene(STAR, delta=2, p="b", s="y2", q="y1")
    scene.part(("b", "y1"), ("y2", "y1"), ("q", {"b": "y1", "y1": "b"}[broker]), ("q", "y2"))
    scene.run(3_000)
    scene.subscribe("s")
    scene.run(50)
    assert scene.unreachable("s") == ("y1",)
    scene.world.cut("p", "b")
    scene.publish("x", "x")
    scene.run(5)
    scene.world.crash("p")
    _adopt(scene)
    scene.run(3_000)
    return scene


def an_adopted_publisher_whose_start_was_told() -> list[str]:
    """As in the first one, but q goes on with p while s is on its way to b, which takes p to be there and
    says so: what q repeats at b is promised by that."""
    scene = Scene(STAR, delta=2, p="b", s="y2", q="y1")
    scene.publish("x")
    scene.part(("b", "y1"), ("y2", "y1"), ("q", "y1"), ("q", "y2"))
    scene.run(3_000)
    scene.world.cut("p", "b")
    scene.publish("x", "x")
    scene.run(5)
    scene.world.crash("p", silently=True)
    scene.slow(("y2", "b"), milliseconds=100)
    scene.subscribe("s")
    scene.run(50)
    _adopt(scene)
    scene.run(3_000)
    scene.end()
    return scene.faults(s=[2, 3])


def a_guest_whose_name_is_taken() -> list[str]:
    """As before, but q, of y1 itself, takes the name there after p: of q, s was promised nothing, and that
    must not hide what it missed of p."""
    scene = Scene(STAR, delta=2, p="b", q="y1", s="y2")

    def publish(client: str) -> None:
        scene.world.publish(client, "name", TOPIC, {})
        scene.run(100)

    scene.part(("p", "b"))
    scene.run(100)
    scene.publish("n")
    scene.run(100)
    scene.world.cut("b", "y1")
    scene.suspect("b", "y1")
    scene.run(10)
    scene.subscribe("s")
    scene.run(20)
    assert "y1" in scene.unreachable("s")
    publish("p")
    publish("q")
    scene.end()
    publish("q")
    scene.end()
    return scene.faults(resets=1) + _differs(scene.got("s", "name#1"), [2])


def the_held_are_asked_too() -> list[str]:
    """The log is longer than a piece: when the link b1–b2 is healed, each end holds the other until it has
    the log. b0 restarts, and b1 must not say that it knows everything before it has heard from b2."""
    scene = Scene(chain("b0", "b1", "b2"), p="b0", s="b2", many="b1", limits=Limits(piece=2))
    world = scene.world
    for k in range(5):
        world.subscribe("many", f"m{k}", TOPIC, f"n = {k}")
    scene.run(200)
    scene.part(("b1", "b2"))
    scene.run(300)
    assert "b0" in world.hosts["b2"].sessions
    lines = world.network.us_per_message
    lines["b1", "b2"] = lines["b2", "b1"] = 150 * MILLISECOND
    scene.heal(("b1", "b2"))
    while not {"b1", "b2"} <= {*world.hosts["b1"].sessions, *world.hosts["b2"].sessions}:
        world.run_for(MILLISECOND // 4)
    scene.slow(("b0", "b1"), milliseconds=800)
    scene.subscribe("s", "kind = 'x'")
    scene.run(20)
    scene.publish("n")
    scene.run(5)
    scene.slow(("p", "b1"), ("b1", "p"), milliseconds=900)
    world.crash("b0")
    scene.suspect("b1", "b0")
    del world.network.slowness["b0", "b1"]
    scene.run(30)
    world.restart("b0")
    scene.publish("x")
    scene.run(200)
    lines.clear()
    scene.run(3_000)
    scene.publish("x")
    scene.end()
    return scene.faults(s=[2, 3])


def too_much_waits() -> list[str]:
    """More events wait for admission than the bound: p is asked to repeat them, and they are taken then."""
    scene = Scene(STAR, p="b", s="y2", limits=Limits(waiting=1))
    scene.subscribe("s")
    scene.run(100)
    scene.world.crash("b")
    scene.publish("x", "x", "x")
    scene.run(6_000)
    scene.end()
    return scene.faults(s=[1, 2, 3])


def too_much_waits_and_more_is_published() -> list[str]:
    """As before, but p is busy, and finds two things in one batch: that it is asked to repeat, and another
    event to publish. What it has written of that must not come ahead of what it repeats."""
    scene = Scene(STAR, p="b", s="y2", limits=Limits(waiting=1))
    scene.subscribe("s")
    scene.run(100)
    scene.part(("p", "b"))
    scene.publish("x", "x", "x")
    scene.run(5)  # y1 has them, and asks b before it takes them
    scene.world.hosts["p"].busy_until = scene.world.now + 50 * MILLISECOND
    scene.publish("x")
    scene.run(1_000)
    scene.end()
    return scene.faults(s=[1, 2, 3, 4])


# -- what nobody knows any more ------------------------------------------------------------------------------


def a_subscription_that_only_its_client_knows() -> list[str]:
    """s went live without y, which was cut off. b crashes, the only broker that knew s; y has taken what p
    published meanwhile, and crashes before it can say so."""
    scene = Scene(chain("b", "y"), p="b", s="b")
    scene.part(("b", "y"), ("s", "y"))
    scene.run(50)
    scene.subscribe("s")
    scene.run(20)
    assert scene.unreachable("s") == ("y",)
    scene.slow(("b", "y"), ("y", "b"), milliseconds=100)
    scene.heal(("b", "y"))
    scene.world.crash("b")
    scene.run(300)
    scene.publish("x")
    scene.run(300)
    confirmed = [each.sequence for each in scene.world.trace if isinstance(each, trace.Confirm)]
    scene.world.restart("b")
    scene.run(60)
    scene.world.crash("y")
    scene.run(2_000)
    scene.publish("x")
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[3], resets=1) if confirmed == [1] else [f"{confirmed} are confirmed"]


def a_loss_of_which_the_word_is_lost() -> list[str]:
    """Only b knew s, and forgets it, and then what it took without it. What it says to s, that it does not
    know it, is lost with their session."""
    scene = Scene(chain("b", "y"), p="b", s="b")
    scene.part(("b", "y"), ("s", "y"))
    scene.run(50)
    scene.subscribe("s")
    scene.run(20)
    scene.part(("s", "b"))
    scene.world.crash("b")
    scene.heal(("b", "y"))
    scene.run(100)
    scene.world.restart("b")
    scene.run(3_000)
    scene.publish("x")
    scene.run(100)
    scene.world.crash("b")
    scene.run(100)
    scene.world.restart("b")
    scene.run(3_000)
    scene.slow(("b", "s"), milliseconds=500)
    scene.heal(("s", "b"))
    scene.world.run_until(lambda: "s" in scene.world.hosts["b"].sessions, within=5 * SECOND)
    scene.run(600)
    scene.part(("s", "b"))
    scene.slow(("b", "s"), milliseconds=0)
    scene.run(500)
    scene.heal(("s", "b"))
    scene.run(3_000)
    scene.publish("x")
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[2, 3], resets=1)


def a_client_that_was_given_up_before_a_crash() -> list[str]:
    """b1 gives s up, because too much waits for it behind the cut, and acknowledges that. Then the cut is
    healed, and b1 crashes before b0 has heard of it."""
    scene = Scene(chain("b0", "b1"), p="b1", s="b0", limits=Limits(custody=2))
    scene.subscribe("s")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    scene.part(("b0", "b1"), ("s", "b1"), ("p", "b0"))
    scene.publish("x", "x", "x", "x")
    scene.run(3_000)
    assert not scene.faults_of_custody()
    scene.slow(("b1", "b0"), milliseconds=500)
    scene.heal(("b0", "b1"))
    scene.run(100)
    scene.world.crash("b1")
    scene.run(500)
    scene.world.restart("b1")
    scene.run(3_000)
    scene.publish("x")
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1, 6, 7], resets=1)


def a_publisher_that_moves_after_a_client_was_given_up() -> list[str]:
    """b2 gives s up, behind a cut, and confirms what waited for it. p moves to b1, the broker of s, which has
    not heard of it: s must not get what follows before it is told that it has missed something."""
    scene = _s_is_given_up()
    scene.publish("x")  # 6
    scene.run(100)
    scene.part(("p", "b2"))
    scene.run(1_000)
    scene.publish("x")
    scene.run(1_000)
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1, 8], resets=1)


def a_publisher_that_comes_back_after_a_client_was_given_up() -> list[str]:
    """As before, but p crashes before it goes on at b1: its store knows that s was given up."""
    scene = _s_is_given_up()
    scene.world.crash("p")
    scene.world.cut("p", "b2")
    scene.run(1_000)
    scene.world.restart("p")
    scene.run(5_000)
    scene.publish("x")
    scene.run(1_000)
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1, 7], resets=1)


def a_publisher_that_is_adopted_after_a_client_was_given_up() -> list[str]:
    """As before, but q, which is at b1, goes on with what p's store knows."""
    scene = _s_is_given_up()
    scene.world.add_client("q", "b1")
    scene.run(1_000)
    scene.world.crash("p")
    _adopt(scene)
    for _ in range(2):
        scene.world.publish("q", "p", TOPIC, {"kind": "x"})
        scene.run(1_000)
    scene.end()
    return scene.faults(s=[1, 7], resets=1)


def a_client_that_asks_where_its_end_is_forgotten() -> list[str]:
    """a gives s up before s is live, and forgets that when all know it. b does not forget it yet, since what
    d says on their session of c's failure is slow. s is back and asks a once more: b must tell a again that
    this subscription has ended, or s waits for ever."""
    limits = Limits(lease=650 * MILLISECOND, look_every=50 * MILLISECOND, tombstones=1)
    scene = Scene(chain("a", "b", "c", "d"), p="d", s="a", q="a", limits=limits)
    scene.subscribe("q")
    scene.world.crash("c")
    scene.run(3_000)
    scene.slow(("a", "s"), milliseconds=50)
    scene.subscribe("s")
    scene.run(20)
    scene.part(("s", "a"), ("s", "b"))
    scene.slow(("d", "b"), milliseconds=600)
    scene.run(680)
    scene.world.restart("c")
    scene.run(20)
    scene.world.unsubscribe("q", "q")  # the only one that is recognised now as having ended
    scene.run(20)
    scene.heal(("s", "a"))
    scene.run(3_000)
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1], resets=1)


def _s_is_given_up() -> Scene:
    """By b2, behind a cut, with events of p that b2 has confirmed."""
    scene = Scene(chain("b1", "b2"), p="b2", s="b1", limits=Limits(custody=2))
    scene.subscribe("s")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    scene.part(("b1", "b2"), ("s", "b2"))
    scene.publish("x", "x", "x", "x")
    scene.run(3_000)
    assert not scene.faults_of_custody()
    return scene


def a_client_that_was_given_up_by_who_has_lost_its_store() -> list[str]:
    """As before, but b2 loses its store and joins anew: only p knows that s was given up, and says so."""
    scene = _s_is_given_up()
    scene.world.crash("b2")
    scene.heal(("b1", "b2"), ("s", "b2"))
    scene.run(1_000)
    scene.world.replace("b2", join=("b1",))
    scene.run(3_000)
    scene.publish("x")
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1, 7], resets=1)


def a_client_that_all_neighbours_know_to_be_given_up() -> list[str]:
    """b1 gives s up; b0, which has no other neighbour, forgets it at once, and only then confirms what waited
    for s. p must have been told by then, for it moves to b2, where s is as live as ever."""
    scene = Scene(chain("b0", "b1", "b2"), delta=2, p="b0", s="b2", limits=Limits(custody=2))
    scene.subscribe("s")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    scene.part(("b1", "b2"), ("b0", "b2"), ("s", "b1"), ("s", "b0"))
    scene.publish("x", "x", "x", "x")
    scene.run(3_000)
    assert not scene.faults_of_custody()
    scene.part(("p", "b0"), ("p", "b1"))
    scene.run(1_000)
    scene.publish("x")
    scene.run(1_000)
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1, 7], resets=1)


def many_that_were_given_up() -> list[str]:
    """As before, but s has more subscriptions than a message may have."""
    scene = Scene(chain("b1", "b2"), p="b2", s="b1", limits=Limits(custody=2, batch=1, piece=1))
    scene.subscribe("s")
    scene.world.subscribe("s", "other", TOPIC, "kind = 'y'")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    scene.part(("b1", "b2"), ("s", "b2"))
    scene.publish("x", "x", "x", "x")
    scene.run(3_000)
    assert not scene.faults_of_custody()
    scene.publish("x")  # 6
    scene.run(100)
    scene.part(("p", "b2"))
    scene.run(1_000)
    scene.publish("x")
    scene.run(1_000)
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1, 8], resets=2)


def a_stand_in_that_was_not_reached() -> list[str]:
    """s went live without y1. When b crashes, s comes to y1, which does not know it; but y2 does, so nothing
    is lost, and nothing begins anew."""
    scene = Scene(STAR, p="y2", s="b")
    scene.part(("b", "y1"))
    scene.run(50)
    scene.slow(("y2", "y1"), ("y1", "y2"), milliseconds=300)
    scene.subscribe("s")
    scene.run(20)
    assert scene.unreachable("s") == ("y1",)
    scene.publish("x")
    scene.run(20)
    scene.heal(("b", "y1"))
    scene.world.crash("b")
    scene.run(3_000)
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1, 2])


def a_way_that_ends_before_the_client() -> list[str]:
    """Only b0 and b1 still know s, and of the way to it only that it leads to b5. When b4 goes round b5 to
    tell b6, it must not say that s lies at b5: it is b6 that s comes to."""
    names = [f"b{k}" for k in range(7)]
    scene = Scene(chain(*names), p="b0", s="b6")
    scene.subscribe("s")
    scene.run(100)
    scene.publish("x")
    scene.run(100)
    for name in names[2:]:
        scene.world.crash(name)
    scene.publish("x")
    scene.run(2_000)
    for name in (*names[2:5], "b6"):
        scene.world.restart(name)
    scene.run(5_000)
    scene.world.restart("b5")
    scene.run(5_000)
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1, 2, 3])


# -- old generations -----------------------------------------------------------------------------------------


def a_generation_that_was_superseded() -> list[str]:
    """b has dropped what it had of an old generation, because y2 knows a newer one; the rest of the old one
    comes to b before the new one does."""
    scene = Scene(STAR, delta=3, p="b", s="b", t="y2", limits=Limits(batch=4))
    scene.subscribe("s", "kind = 'x'")
    scene.subscribe("t", "kind = 'y'")
    scene.run(100)
    scene.publish("x")  # 1
    scene.run(50)
    scene.part(("p", "b"), ("s", "b"))  # p goes to y1; s is away from b for a while
    scene.run(100)
    assert "y1" in scene.world.hosts["p"].sessions
    scene.slow(("y2", "t"), ("t", "y2"), milliseconds=600)
    scene.publish("y", *"zzzzzz", *"xxxx")  # 2, 3 to 8, 9 to 12
    scene.run(20)
    scene.slow(("y1", "b"), milliseconds=880)
    scene.publish("x")  # 13 is under way from y1 to b
    scene.run(5)
    scene.world.network.us_per_message["p", "y2"] = 600 * MILLISECOND
    scene.part(("p", "y1"))  # p goes to y2
    for _ in range(60):
        scene.run(50)
        stream = scene.world.broker("b").orders[OrderName.PUBLISHER].forwarding.custody.streams  # type: ignore[attr-defined]
        if not stream.get((TOPIC, "p")) or 9 not in stream[TOPIC, "p"].held:
            break
    scene.heal(("s", "b"))
    scene.run(3_000)
    scene.world.network.us_per_message.clear()
    scene.end()
    return scene.faults(s=[1, 9, 10, 11, 12, 13], t=[2])


def a_publisher_that_seems_to_be_there() -> list[str]:
    """p has gone home from y1, which has seen what p published there, but not that p has left. Then b, where
    that was taken, crashes: s must not be told that it begins where y1 left off."""
    scene = Scene(STAR, p="b", t="y1", s="y2")
    scene.subscribe("t")
    scene.run(100)
    scene.world.crash("b")
    scene.run(2_000)
    scene.publish("x")
    scene.run(100)
    scene.slow(("p", "y1"), milliseconds=900)
    scene.world.restart("b")
    home = scene.world.leaf("p").orders[OrderName.PUBLISHER].publishing  # type: ignore[attr-defined]
    scene.world.run_until(lambda: home.home == "b", within=5 * SECOND)
    scene.publish("x")
    scene.world.run_until(lambda: 2 in scene.got("t"), within=SECOND)
    scene.run(50)
    scene.world.crash("b")
    scene.run(100)
    scene.subscribe("s")
    scene.run(300)
    assert scene.unreachable("s") == ("b",)
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(t=[1, 2, 3], s=[3])


def an_older_holder_is_not_the_later_one() -> list[str]:
    """q publishes at y2. p takes the name, first at y1, since b is down, then at b. Nobody has told q, which
    is still there when b is down again: that says nothing of where p has left off."""
    scene = Scene(STAR, p="b", q="y2", s="y2")

    def publish(client: str) -> None:
        scene.world.publish(client, "name", TOPIC, {})
        scene.run(100)

    publish("q")
    scene.world.crash("b")
    scene.run(2_000)
    publish("p")
    scene.world.restart("b")
    scene.run(5_000)
    publish("p")
    scene.world.crash("b")
    scene.run(2_000)
    scene.subscribe("s")
    scene.run(100)
    assert scene.unreachable("s") == ("b",)
    scene.end()
    publish("p")
    scene.end()
    return scene.faults(resets=0) + _differs(scene.got("s", "name#1"), [3])


# -- names that come back ------------------------------------------------------------------------------------


def a_name_whose_store_is_lost() -> list[str]:
    """p crashes and comes back without its store: it counts from 1 again, and s is told so."""
    return _back_without_its_store(clock=0)


def a_clock_that_was_set_back() -> list[str]:
    """As before, but by its clock the new numbering is older than the old one: it is told, and gives way."""
    return _back_without_its_store(clock=-2 * SECOND)


def _back_without_its_store(*, clock: Micros) -> list[str]:
    scene = Scene(chain("a", "b"), p="a", s="b")
    scene.subscribe("s")
    scene.run(100)
    scene.publish("x", "x", "x")
    scene.run(100)
    scene.world.crash("p")
    scene.world.lose_store("p")
    scene.run(100)
    scene.world.clock_offset["p"] = clock
    scene.world.restart("p")
    scene.run(1_000)
    scene.publish("x", "x", "x", "x")
    scene.end()
    return scene.faults(s=[1, 2, 3], resets=1) + _differs(scene.got("s", "p#1"), [1, 2, 3, 4])


def two_holders_of_a_name() -> list[str]:
    """p and q publish under one name, each with a store of its own: the older holder is told, and no event of
    the one is taken for an event of the other."""
    scene = Scene(chain("a", "b"), p="a", q="b", s="b")
    scene.subscribe("s")
    scene.run(100)
    for client, count in (("p", 3), ("q", 4), ("p", 2), ("q", 1)):
        for _ in range(count):
            scene.world.publish(client, "name", TOPIC, {"kind": "x"})
        scene.run(100)
    scene.end()
    fenced = list(scene.world.recorder.fenced)
    return (
        scene.faults(resets=1)
        + _differs(scene.got("s", "name"), [1, 2, 3])
        + _differs(scene.got("s", "name#1"), [1, 2, 3, 4, 5])
        + _differs(fenced, [("p", "name")])
    )


def a_holder_that_publishes_on() -> list[str]:
    """p and q publish under one name at the same broker. What p published first has come to s, and is not
    confirmed; what it publishes next is refused. It was told before that the name is taken: it must not
    publish the same under another numbering, now or when it begins again."""
    scene = Scene(chain("a", "b"), p="a", q="a", s="b", t="a")
    scene.subscribe("s")
    scene.subscribe("t")
    scene.run(100)
    scene.slow(("a", "t"), milliseconds=2_000)
    scene.world.publish("p", "name", TOPIC, {"kind": "x"})
    scene.run(100)
    scene.slow(("a", "p"), milliseconds=20)
    scene.world.publish("q", "name", TOPIC, {"kind": "x"})
    scene.run(10)
    scene.world.publish("p", "name", TOPIC, {"kind": "x"})
    scene.run(100)
    scene.world.crash("p")
    scene.run(100)
    scene.world.restart("p")
    scene.end()
    fenced = list(scene.world.recorder.fenced)
    return (
        scene.faults(resets=1)
        + _differs(scene.got("s", "name"), [1])
        + _differs(scene.got("s", "name#1"), [1])
        + _differs(fenced, [("p", "name")])
    )


def a_new_holder_that_came_too_early() -> list[str]:
    """s went live without y1, the broker of q. What q publishes first under the name of p comes too early;
    what it publishes when y1 is reached is told to be of another source nevertheless."""
    scene = Scene(STAR, delta=2, p="b", q="y1", s="y2")
    scene.part(("b", "y1"), ("y2", "y1"), ("q", "y1"), ("q", "y2"))
    scene.run(500)
    scene.subscribe("s")
    scene.run(100)
    assert scene.unreachable("s") == ("y1",)
    for client in ("p", "q"):
        scene.world.publish(client, "name", TOPIC, {"kind": "x"})
        scene.run(100)
    scene.end()
    scene.world.publish("q", "name", TOPIC, {"kind": "x"})
    scene.end()
    return (
        scene.faults(resets=1)
        + _differs(scene.got("s", "name"), [1])
        + _differs(scene.got("s", "name#1"), [2])
    )


def a_holder_that_begins_again() -> list[str]:
    """As before, but what p published has come to s and not yet to t, so it is not confirmed, when p is told
    that the name is taken. p begins again from its store: although nothing of it is confirmed, it must not
    publish the same under another numbering."""
    scene = Scene(chain("a", "b"), p="a", q="b", s="b", t="a")
    scene.subscribe("s")
    scene.subscribe("t")
    scene.run(100)
    scene.slow(("a", "t"), milliseconds=2_000)
    for client in ("p", "q"):
        scene.world.publish(client, "name", TOPIC, {"kind": "x"})
        scene.run(200)
    scene.world.crash("p")
    scene.run(100)
    scene.world.restart("p")
    scene.run(1_000)
    scene.end()
    return (
        scene.faults(resets=1)
        + _differs(scene.got("s", "name"), [1])
        + _differs(scene.got("s", "name#1"), [1])
        + _differs(list(scene.world.recorder.fenced), [("p", "name")])
    )


def a_name_that_an_unreached_client_takes() -> list[str]:
    """p publishes, and s gets it. q, of y1, which s has not reached, takes the name: what comes of that is
    too early for s. When y1 is back and q goes on, s must be told that this is another source."""
    return _taken_by_an_unreached_client(before=0, got=[1])


def a_start_that_another_client_takes_over() -> list[str]:
    """As before, but all that s knows of p is that it was there when s went live."""
    return _taken_by_an_unreached_client(before=1, got=[])


def _taken_by_an_unreached_client(*, before: int, got: list[int]) -> list[str]:
    scene = Scene(STAR, p="b", q="y1", s="y2")

    def publish(client: str) -> None:
        scene.world.publish(client, "name", TOPIC, {})
        scene.run(100)

    scene.world.crash("y1")
    scene.run(2_000)
    for _ in range(before):
        publish("p")
    scene.subscribe("s")
    scene.run(100)
    assert scene.unreachable("s") == ("y1",)
    for _ in range(1 - before):
        publish("p")
    publish("q")
    scene.world.restart("y1")
    scene.run(3_000)
    assert not scene.unreachable("s")
    publish("q")
    scene.end()
    return (
        scene.faults(resets=1)
        + _differs(scene.got("s", "name"), got)
        + _differs(scene.got("s", "name#1"), [2])
    )


def two_lives_that_give_way() -> list[str]:
    """p's clock is behind q's, so what p publishes on t gives way to what q did. p loses its store and gives
    way to the same once more, on u. What it then publishes on t is not what its earlier life did."""
    topics = {"t": Topic("t"), "u": Topic("u")}
    world = World(delta=1, latency=Constant(MILLISECOND), topics=topics)
    world.add_tree(chain("a", "b"))
    world.run_for(SECOND)
    for client, home in (("p", "a"), ("q", "a"), ("s", "b")):
        world.clock_offset[client] = 3_600 * SECOND if client == "q" else 0
        world.add_client(client, home)
    world.subscribe("s", "s", "t")
    world.run_for(SECOND)

    def publish(client: str, *on: str) -> None:
        for topic in on:
            world.publish(client, "name", topic, {})
            world.run_for(100 * MILLISECOND)

    publish("q", "u", "t")
    publish("p", "t")
    world.crash("p")
    world.lose_store("p")
    world.run_for(100 * MILLISECOND)
    world.restart("p")
    world.run_for(100 * MILLISECOND)
    publish("p", "u", "t")
    world.run_for(2 * SECOND)
    sources = [each.publisher for each in world.trace if isinstance(each, trace.Deliver)]
    return _differs(sources, ["name", "name#1", "name#2"])


def _differs(found: object, expected: object) -> list[str]:
    return [f"{found} instead of {expected}"] if found != expected else []


# -- beyond δ ------------------------------------------------------------------------------------------------


def the_pathless_comes_first() -> list[str]:
    """b5 keeps 3 for s, and does not know the way; 4 for t may turn out to go the same way, and must not be
    there first."""
    scene = Scene(chain(*(f"b{k}" for k in range(8))), p="b0", s="b7", t="b7")
    scene.subscribe("s", "kind = 'x'")
    scene.subscribe("t", "kind = 'y'")
    scene.run(100)
    scene.publish("x", "y")
    scene.run(100)
    scene.part(("s", "b6"), ("s", "b7"), ("t", "b6"), ("t", "b7"))
    for name in ("b2", "b3", "b4", "b5", "b6", "b7"):
        scene.world.crash(name)
    scene.run(500)
    for name in ("b3", "b4", "b5", "b6"):
        scene.world.restart(name)
        scene.run(4_000)
    scene.heal(("t", "b6"))
    scene.run(4_000)
    scene.publish("x")
    scene.run(100)
    scene.publish("y")
    scene.run(1_000)
    scene.heal(("s", "b6"), ("s", "b7"), ("t", "b7"))
    scene.run(4_000)
    scene.end()
    scene.publish("x")
    scene.end()
    return scene.faults(s=[1, 3, 5], t=[2, 4])


def other_streams_pass() -> list[str]:
    """b2 must hold what p published on a topic that holds. What is published on one that marks goes on, and
    what was held is no duplicate when it comes after it."""
    topics = {"t": Topic("t"), "m": Topic("m", beyond_delta=BeyondDelta.MARK)}
    world = World(delta=1, latency=Constant(MILLISECOND), topics=topics)
    world.network.proxying = False
    world.add_tree(chain(*(f"b{k}" for k in range(6))))
    world.run_for(SECOND)
    world.add_client("p", "b0")
    world.add_client("s", "b5")
    world.run_for(SECOND)
    for topic in topics:
        world.subscribe("s", f"s{topic}", topic)
    world.run_for(SECOND)
    for name in ("b1", "b3"):
        world.crash(name)
    world.run_for(4 * SECOND)
    for topic in topics:
        world.publish("p", "p", topic, {})
        world.run_for(SECOND)
    marked = _deliveries(world)
    for name in ("b1", "b3"):
        world.restart(name)
    world.run_for(10 * SECOND)
    expected = [("sm", True)], [("sm", True), ("st", False)]
    found = marked, _deliveries(world)
    return [f"{found} instead of {expected}"] if found != expected else []


def _deliveries(world: World) -> list[tuple[str, bool]]:
    return [(each.subscription, each.best_effort) for each in world.trace if isinstance(each, trace.Deliver)]


STORIES: dict[Callable[[], list[str]], tuple[str, ...]] = {
    a_stranger_is_heard: ("strangers-are-not-heard",),
    a_client_that_came_before_its_broker_had_joined: ("clients-do-not-hear-of-joins",),
    a_client_whose_broker_is_lost_while_it_joins: ("clients-do-not-hear-of-joins",),
    a_client_that_came_before_a_neighbour_of_its_broker: ("clients-do-not-hear-of-joins",),
    a_broker_that_could_not_ask_who_knew: ("whoever-has-settled-knows-all",),
    a_guest_of_one_that_could_not_ask_who_knew: ("whoever-has-settled-knows-all",),
    one_that_could_ask_its_neighbours: ("neighbours-are-all", "whoever-has-settled-knows-all"),
    one_that_is_told_too_late: ("whoever-has-settled-knows-all",),
    a_publisher_that_stays_where_s_was_lost: ("own-publishers-leave-nothing",),
    a_witness_that_never_knew: ("a-witness-knows-all",),
    one_that_came_after_what_was_lost: ("who-could-not-ask-knows-nothing",),
    a_witness_has_forgotten_nothing: ("there-are-no-witnesses",),
    a_first_event_elsewhere: ("admit-who-publishes-for-the-first-time", "settled-once-is-settled"),
    a_move_while_a_subscription_is_under_way: ("settled-once-is-settled", "admit-whoever-moved"),
    a_side_asks_its_own_sides: (),
    a_guest_of_an_unreached_broker: ("guests-begin-silently", "who-is-known-now-was-known-then"),
    a_guest_of_a_broker_that_has_forgotten_it: ("who-is-reached-now-was-reached-then",),
    who_was_given_up_is_not_known_there_when_it_begins_anew: ("who-knew-what-was-lost-knows-what-is-new",),
    what_was_told_once_is_not_told_again: ("every-stay-counts-for-ever",),
    a_guest_that_says_nothing_more: ("guests-are-forgotten",),
    a_start_that_lies_before_what_was_left_elsewhere: (),
    a_start_that_lies_before_what_a_lost_store_had: ("starts-lie-at-live",),
    a_partition_that_names_a_reached_broker: ("all-of-a-partition-are-unreached",),
    a_guest_that_its_own_broker_takes_to_be_there: ("guests-are-not-named",),
    an_adopted_publisher_that_its_old_broker_takes_to_be_there: ("who-has-moved-is-still-here",),
    an_adopted_publisher: ("the-adopted-are-too-early", "the-adopted-are-taken-for-ones-own"),
    an_adopted_publisher_whose_start_was_told: ("who-was-told-a-start-waits",),
    an_adopted_publisher_out_of_reach: ("the-adopted-are-taken-for-ones-own",),
    a_guest_that_has_gone_home: ("guests-are-not-missed",),
    a_guest_whose_name_is_taken: ("the-last-home-hides-the-others",),
    the_held_are_asked_too: ("the-held-are-left-out",),
    too_much_waits_and_more_is_published: ("what-was-written-comes-first",),
    too_much_waits: ("wait-again-after-repeating",),
    a_subscription_that_only_its_client_knows: ("claims-are-believed",),
    a_loss_of_which_the_word_is_lost: ("claims-are-believed-the-second-time",),
    a_client_that_was_given_up_before_a_crash: ("given-up-and-forgotten",),
    a_publisher_that_moves_after_a_client_was_given_up: ("publishers-forget-the-given-up",),
    a_publisher_that_comes_back_after_a_client_was_given_up: ("the-next-life-forgets-the-given-up",),
    a_publisher_that_is_adopted_after_a_client_was_given_up: ("the-next-life-forgets-the-given-up",),
    a_client_that_was_given_up_by_who_has_lost_its_store: ("publishers-know-of-the-given-up-alone",),
    a_client_that_asks_where_its_end_is_forgotten: ("who-forgets-an-end-is-not-told-again",),
    a_client_that_all_neighbours_know_to_be_given_up: ("who-is-there-is-not-told-of-the-given-up",),
    many_that_were_given_up: ("only-the-last-given-up-is-told",),
    a_stand_in_that_was_not_reached: (),
    a_way_that_ends_before_the_client: ("ways-end-at-the-last-that-is-known",),
    a_generation_that_was_superseded: ("superseded-and-forgotten",),
    a_publisher_that_seems_to_be_there: (),
    an_older_holder_is_not_the_later_one: ("who-was-there-is-there",),
    a_name_whose_store_is_lost: ("numberings-are-all-alike", "new-numberings-are-not-told"),
    a_clock_that_was_set_back: ("the-older-holder-is-not-told",),
    two_holders_of_a_name: ("numberings-are-all-alike", "the-older-holder-is-not-told"),
    a_holder_that_publishes_on: ("the-fenced-begin-anew",),
    a_new_holder_that_came_too_early: ("what-is-too-early-is-known",),
    a_name_that_an_unreached_client_takes: ("what-is-too-early-is-known",),
    a_start_that_another_client_takes_over: ("what-is-too-early-is-known",),
    two_lives_that_give_way: ("every-life-gives-way-alike",),
    a_holder_that_begins_again: ("earlier-lives-have-sent-nothing",),
    the_pathless_comes_first: ("the-pathless-is-overtaken",),
    other_streams_pass: ("one-held-stream-holds-all", "numbers-alone-tell-duplicates"),
}
"""Each story, and the mutants that get it wrong."""
