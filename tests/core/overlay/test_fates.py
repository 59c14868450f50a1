"""Who was removed, what became of its links, and whatever somebody who was away still tells."""

from __future__ import annotations

from itertools import permutations

import pytest

from gapless.core.effects import BrokerRemoved, Effect, Persist
from gapless.core.messages.overlay import Removal
from gapless.core.overlay.fates import FATES_MAX, Fates, replaced
from gapless.core.overlay.topology import Topology

X_GONE = Removal("x", 5, "b", (("b", 3), ("c", 2), ("e", 7)))
"""x is gone: b has its place, and the links b–c and b–e."""


def fates_of(*removals: Removal) -> Fates:
    made = Fates([])
    for each in removals:
        assert made.note(each)
    return made


def test_a_removal_says_what_became_of_each_link() -> None:
    fates = fates_of(X_GONE)
    assert fates.current(("c", "x")) == ("b", "c")
    assert fates.current(("e", "x")) == ("b", "e")
    assert fates.current(("b", "x")) is None
    assert fates.current(("b", "c")) == ("b", "c")
    assert fates.current(("a", "b")) == ("a", "b")
    assert X_GONE.made == [("b", "c"), ("b", "e")]
    assert X_GONE.is_between(["d", "c", "b"])
    assert X_GONE.is_between(["b", "e"])
    assert not X_GONE.is_between(["a", "b"])


@pytest.mark.parametrize("order", list(permutations(range(3))))
def test_removals_one_after_the_other_have_one_outcome_in_whatever_order_they_are_heard(
    order: tuple[int, ...],
) -> None:
    """x is removed, then b, which had its place, then c, which had that of b."""
    removals = (
        X_GONE,
        Removal("b", 3, "a", (("a", 1), ("c", 2), ("e", 7))),
        Removal("a", 1, "c", (("c", 2), ("e", 7))),
    )
    fates = fates_of(*(removals[each] for each in order))
    assert fates.current(("e", "x")) == ("c", "e")
    assert fates.current(("b", "e")) == ("c", "e")
    assert fates.current(("c", "x")) is None
    assert fates.heir("x") == fates.heir("b") == "c"
    assert fates.mended(("k", "x", "c", "d"), "h") == ("k", "c", "d")


def test_it_is_durable_and_told_once() -> None:
    out: list[Effect] = []
    fates = Fates(out)
    assert fates.note(X_GONE)
    assert not fates.note(X_GONE)
    assert out == [Persist(BrokerRemoved(X_GONE))]
    assert fates.removals() == (X_GONE,)
    assert Fates([], fates.removals()).current(("c", "x")) == ("b", "c")


def test_who_had_no_link_to_it_has_none_now() -> None:
    assert fates_of(X_GONE).current(("f", "x")) is None


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_removal_is_void_where_another_one_says_that_the_broker_was_there_later(
    order: tuple[int, ...],
) -> None:
    """c decides that b is removed, and crashes before anybody has heard of it. b, started again, has c
    removed. When c is back, they do not have each other's place."""
    removals = (Removal("b", 1, "c", (("c", 2),)), Removal("c", 2, "b", (("b", 3), ("d", 1))))
    fates = Fates([])
    for each in order:
        fates.note(removals[each])
    assert fates.removals() == (removals[1],)
    assert fates.heir("b") == fates.heir("c") == "b"
    assert fates.mended(("k", "b"), "h") == fates.mended(("k", "c"), "h") == ("k", "b")
    assert fates.current(("c", "d")) == ("b", "d")
    fates.note(Removal("b", 3, "d", (("d", 1),)))
    assert fates.heir("b") == fates.heir("c") == "d"


def test_two_that_have_removed_each_other_do_not_stop_others() -> None:
    """Each side of a partition has removed the other. Both stop when they hear of it."""
    fates = fates_of(Removal("b", 1, "c", (("c", 2),)), Removal("c", 2, "b", (("b", 1), ("d", 1))))
    assert fates.mended(("k", "b"), "h") in (("k", "b"), ("k", "c"))


def test_who_was_let_go_and_goes_on_because_nobody_heard_of_it_has_the_place_of_the_other() -> None:
    """c lets b go, which lives on in life 1 until it hears of that, and crashes. b has c removed."""
    fates = fates_of(Removal("b", 0, "c", (("c", 2),)), Removal("c", 2, "b", (("b", 1), ("d", 1))))
    assert fates.heir("b") == fates.heir("c") == "b"


@pytest.mark.parametrize("order", [1, -1])
def test_the_latest_are_remembered_in_whatever_order_they_are_heard(order: int) -> None:
    """So that two brokers that tell each other all that they have do not go on for ever."""
    fates = Fates([])
    all_of_them = [Removal(f"x{n:03}", 1, "b", (("b", 1),), n) for n in range(FATES_MAX + 3)]
    for each in all_of_them[::order]:
        fates.note(each)
    assert set(fates.removals()) == set(all_of_them[3:])
    assert not fates.note(all_of_them[0])


@pytest.mark.parametrize("order", [1, -1])
def test_of_two_removals_of_a_name_the_later_one_holds(order: int) -> None:
    removals = (Removal("x", 5, "b", (("b", 3), ("c", 2))), Removal("x", 7, "c", (("c", 2), ("d", 2))))
    fates = Fates([])
    for each in removals[::order]:
        fates.note(each)
    assert fates.removals() == (removals[1],)


@pytest.mark.parametrize(
    ("me", "path", "expected"),
    [
        ("b", ("client", "x"), ("client",)),
        ("b", ("client", "h", "c", "x"), ("client", "h", "c")),
        ("c", ("client", "x"), ("client", "b")),
        ("c", ("client", "h", "e", "x"), ("client", "h", "e", "b")),
        ("c", ("client", "h", "b", "x"), ("client", "h", "b")),
        ("d", ("client", "b", "x", "c"), ("client", "b", "c")),
        ("d", ("client", "e", "x", "c"), ("client", "e", "b", "c")),
        ("a", ("client", "e", "x", "b"), ("client", "e", "b")),
        ("a", ("client", "h", "b"), ("client", "h", "b")),
    ],
)
def test_the_centre_stands_in_every_path_where_the_broker_stood(
    me: str, path: tuple[str, ...], expected: tuple[str, ...]
) -> None:
    assert replaced(path, "x", "b", me) == expected
    assert fates_of(X_GONE).mended(path, me) == expected


def test_a_topology_can_be_built_anew() -> None:
    topology = Topology("a", 1)
    topology.add([("a", "b"), ("b", "x")])
    topology.rebuild({("a", "b"): False, ("b", "c"): True, ("c", "d"): False, ("y", "z"): False})
    assert topology.links(marked=False) == [("a", "b")]
    assert topology.links(marked=True) == [("b", "c")]
    assert topology.way("c") == ["a", "b", "c"]
    assert topology.way("x") == []
