"""Who may have a session: one network, and one live node per name."""

from __future__ import annotations

import pytest

from gapless.core import names
from gapless.core.model import Identity, Refusal

ME = Identity("b", 7, network="one")
BROKER = Identity("x", 5, network="one")
CLIENT = Identity("c", 5, home="b", network="one")


def test_a_name_that_nobody_has_is_free() -> None:
    assert names.refusal(ME, BROKER, None) is None
    assert names.refusal(ME, CLIENT, None) is None


@pytest.mark.parametrize("incarnation", [4, 6])
@pytest.mark.parametrize("take_over", [False, True])
def test_another_life_of_a_broker_waits_for_the_end_of_the_first(incarnation: int, take_over: bool) -> None:
    newcomer = Identity("x", incarnation, network="one", take_over=take_over)
    assert names.refusal(ME, newcomer, BROKER) is Refusal.NAME


def test_the_same_life_may_replace_its_own_session() -> None:
    assert names.refusal(ME, BROKER, BROKER) is None
    assert names.refusal(ME, CLIENT, CLIENT) is None


@pytest.mark.parametrize(
    ("incarnation", "take_over", "expected"),
    [(6, True, None), (6, False, Refusal.NAME), (4, True, Refusal.NAME), (4, False, Refusal.NAME)],
)
def test_a_client_takes_over_if_it_asks_for_it_and_is_the_later_one(
    incarnation: int, take_over: bool, expected: Refusal | None
) -> None:
    newcomer = Identity("c", incarnation, home="b", network="one", take_over=take_over)
    assert names.refusal(ME, newcomer, CLIENT) is expected


def test_a_client_never_takes_a_brokers_name_nor_the_other_way_round() -> None:
    client = Identity("x", 9, home="b", take_over=True)
    assert names.refusal(ME, client, BROKER) is Refusal.NAME
    assert names.refusal(ME, Identity("c", 5, network="one"), CLIENT) is Refusal.NAME


def test_two_networks_share_no_session_and_who_does_not_know_its_network_may_come() -> None:
    assert names.refusal(ME, Identity("x", 1, network="two"), None) is Refusal.NETWORK
    assert names.refusal(ME, Identity("x", 1), None) is None
    assert names.refusal(Identity("b", 7), Identity("x", 1, network="two"), None) is None


def test_people_see_the_beginning_of_an_id() -> None:
    assert names.short("0123456789abcdef") == "01234567…"
    assert names.short("short") == "short"
    assert names.short("") == "not known yet"
    assert "network 01234567…" in names.apart(
        Identity("b", 1, network="0123456789abcdef"), Identity("x", 1, network="two")
    )


def test_a_client_is_told_what_to_do_about_its_name() -> None:
    late = Identity("c", 4, home="b", take_over=True)
    assert "take the name over" in names.in_use(CLIENT, Identity("c", 6, home="b"), "host:1")
    assert "clock behind" in names.in_use(CLIENT, late, "host:1")
    assert "another --id" in names.in_use(BROKER, Identity("x", 6), "host:1")
