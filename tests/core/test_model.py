from __future__ import annotations

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gapless.core.messages import Joined, Message
from gapless.core.model import Event, Identity, StartCut, link

names = st.text(min_size=1, max_size=4)
cuts = st.dictionaries(st.sampled_from("pqrs"), st.integers(0, 9))


@settings(deadline=None)
@given(names, names)
def test_a_link_has_no_direction(a: str, b: str) -> None:
    if a == b:
        with pytest.raises(ValueError, match="itself"):
            link(a, b)
    else:
        assert link(a, b) == link(b, a) == tuple(sorted((a, b)))


@settings(deadline=None)
@given(names, names)
def test_a_join_announces_the_link_of_the_topology(a: str, b: str) -> None:
    if a != b:
        assert Joined(a, b, 1).link == link(a, b)


def test_an_unnamed_source_is_promised_from_the_beginning() -> None:
    cut = StartCut({"p": 3})
    assert [cut.promises("p", position) for position in (2, 3, 4)] == [False, True, True]
    assert cut.promises("q", 0)


@settings(deadline=None)
@given(cuts, cuts, st.sampled_from("pqrs"), st.integers(0, 10))
def test_a_raised_cut_promises_what_both_promise(
    ours: dict[str, int], theirs: dict[str, int], source: str, position: int
) -> None:
    raised = StartCut(ours).raised(theirs)
    both = StartCut(ours).promises(source, position) and StartCut(theirs).promises(source, position)
    assert raised.promises(source, position) == both


def test_a_client_is_known_by_its_home() -> None:
    assert Identity("c", 1, home="b").is_leaf
    assert not Identity("b", 1).is_leaf


def test_values_go_over_the_wire_and_back() -> None:
    event = Event("t", "p", 7, {"price": 1.5, "desk": {"region": "EU"}}, b"x", 12)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(event), type=Event) == event
    message = Joined("n", "m", 2)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(message), type=Message) == message
