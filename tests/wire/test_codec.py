"""Frames: whatever was encoded comes back; whatever else comes is a ``FrameError`` and nothing worse."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gapless.core.attributes import INT_MAX, INT_MIN, NESTING_MAX
from gapless.core.messages import BestEffortEvents, Log, Ping, Publications
from gapless.core.messages.publisher import Body, Header, LogEntry, Run
from gapless.core.model import Event
from gapless.wire.codec import (
    FRAME_FULL,
    FRAME_MAX,
    FrameError,
    FrameReader,
    WireMessage,
    check_events,
    encode,
)
from gapless.wire.control import VERSIONS, Goodbye, Who, common_version
from publications import single, singles
from wire.messages import CLASSES, MESSAGES, of_class

HEADER = struct.Struct(">IB")
BATCHES = st.lists(MESSAGES, max_size=5)


def frame(body: bytes, version: int = VERSIONS[1]) -> bytes:
    return HEADER.pack(len(body), version) + body


def lengths(data: bytes) -> list[int]:
    """Of the bodies of the frames."""
    found = []
    while data:
        length, _ = HEADER.unpack_from(data)
        found.append(length)
        data = data[HEADER.size + length :]
    return found


# -- what was encoded comes back ------------------------------------------------------------------------


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.__name__)
def test_every_message_comes_back(kind: type[msgspec.Struct]) -> None:
    @settings(max_examples=25)
    @given(of_class(kind))
    def comes_back(message: Any) -> None:
        (back,) = FrameReader().feed(encode([message]))
        assert back == message
        assert type(back) is kind

    comes_back()


def test_every_message_has_a_tag_of_its_own() -> None:
    tags = [msgspec.inspect.type_info(kind).tag for kind in CLASSES]  # type: ignore[attr-defined]
    assert len(set(tags)) == len(CLASSES)


@given(BATCHES)
def test_byte_by_byte(batch: list[WireMessage]) -> None:
    reader = FrameReader()
    data = encode(batch)
    assert [each for at in range(len(data)) for each in reader.feed(data[at : at + 1])] == batch
    assert reader.rest() == b""


@given(st.lists(BATCHES, max_size=4), st.data())
def test_in_pieces_of_any_size(batches: list[list[WireMessage]], data: st.DataObject) -> None:
    stream = b"".join(map(encode, batches))
    cuts = data.draw(st.lists(st.integers(0, len(stream)), max_size=6).map(sorted))
    reader = FrameReader()
    got = [
        each for first, last in pairwise([0, *cuts, len(stream)]) for each in reader.feed(stream[first:last])
    ]
    assert got == [message for batch in batches for message in batch]
    assert reader.frames == sum(map(bool, batches))


def test_what_is_left_can_be_taken_out() -> None:
    data = encode([Goodbye("x")])
    reader = FrameReader()
    assert reader.feed(data + data[:3]) == [Goodbye("x")]
    assert reader.rest() == data[:3]
    assert reader.feed(data) == [Goodbye("x")]


# -- large batches --------------------------------------------------------------------------------------


def run_of(count: int, size: int) -> Run:
    events = tuple(Event("t", "p", n, {"n": n}, b"x" * size) for n in range(count))
    return Run(Header((0, 1), path=(("a", 1), ("b", 1))), events, tuple((n, n + 1) for n in range(count)))


def singles_of(messages: list[WireMessage]) -> list[Run]:
    return [each for part in messages for run in part.runs for each in singles(run)]  # type: ignore[union-attr]


@pytest.mark.parametrize("runs", [[3000], [1] * 3000, [1, 2000, 30, 969]])
def test_a_large_batch_is_parted_in_order(runs: list[int]) -> None:
    message = Publications(tuple(run_of(count, 1000) for count in runs))
    data = encode([message, Goodbye("end")])
    *parts, last = FrameReader().feed(data)
    assert len(parts) > 5
    assert singles_of(parts) == singles_of([message])
    assert last == Goodbye("end")
    assert max(lengths(data)) <= FRAME_FULL + 1000


def test_a_large_log_is_parted_too() -> None:
    entries = tuple(LogEntry(n, f"s{n}", Body("c", "t", "a = 'x'" * 100, ("c",))) for n in range(2000))
    parts = FrameReader().feed(encode([Log(entries, last=True)]))
    assert tuple(each for part in parts for each in part.entries) == entries  # type: ignore[union-attr]
    assert len(parts) > 1
    assert [part.last for part in parts] == [False] * (len(parts) - 1) + [True]  # type: ignore[union-attr]


def test_many_messages_are_spread_over_frames() -> None:
    messages = [Goodbye(f"{n}" * 100) for n in range(2000)]
    data = encode(messages)
    assert len(lengths(data)) > 1
    assert max(lengths(data)) <= FRAME_FULL + 1000
    assert FrameReader().feed(data) == messages


def test_one_event_may_be_larger_than_a_full_frame() -> None:
    message = Publications((run_of(2, FRAME_FULL * 2),))
    first, second = FrameReader().feed(encode([message]))
    assert singles_of([first, second]) == singles_of([message])


@pytest.mark.parametrize(
    "message",
    [Goodbye("x" * FRAME_MAX), Publications((run_of(1, FRAME_MAX),))],
    ids=["message", "event"],
)
def test_what_fits_into_no_frame_is_refused_by_the_sender(message: WireMessage) -> None:
    with pytest.raises(FrameError, match="larger than a frame"):
        encode([message])


# -- whatever else comes --------------------------------------------------------------------------------


def test_another_version_is_refused() -> None:
    for version in (0, VERSIONS[1] + 1, 255):
        with pytest.raises(FrameError, match=f"version {version} is not spoken here"):
            FrameReader().feed(encode([Who(VERSIONS)], version))


def test_a_frame_that_claims_too_much_is_refused_before_it_comes() -> None:
    with pytest.raises(FrameError, match="larger than"):
        FrameReader().feed(HEADER.pack(FRAME_MAX + 1, VERSIONS[1]))
    with pytest.raises(FrameError, match="larger than 10"):
        FrameReader(largest=10).feed(HEADER.pack(11, VERSIONS[1]))


DEEP = b"\x91\x92\xa7status!\x81\xa1a"
BOMBS = {
    "a list of 4 G": b"\xdd\xff\xff\xff\xff",
    "a batch of 4 G": b"\x91\x92\xa4pubs\xdd\xff\xff\xff\xff",
    "a map of 4 G": b"\x91\x92\xa7status!\xdf\xff\xff\xff\xff",
    "a list of 4 G anywhere": DEEP + b"\xdd\xff\xff\xff\xff",
    "a pair of 4 G": b"\x91\x97\xa5hello\xdd\xff\xff\xff\xff",
    "bytes of 4 G": DEEP + b"\xc6\xff\xff\xff\xff",
    "text of 4 G": DEEP + b"\xdb\xff\xff\xff\xff",
    "nesting": DEEP + b"\x91" * 50_000,
    "nested maps": DEEP + b"\x81\xa1a" * 50_000,
    "a map as key": DEEP + b"\x81\x80\x01",
    "a list with a map as key": DEEP + b"\x81\x91\x80\x01",
    "an extension": DEEP + b"\xd4\x05\x05",
    "a moment that is none": DEEP + b"\xd7\xff" + b"\xff" * 8,
    "no text": DEEP + b"\xa1\xff",
    "no code": DEEP + b"\xc1",
    "no list": b"\x01",
    "no message": b"\x91\x91\xa3foo",
    "too many": b"\x91\x91\xa4ping\x00",
    "nothing": b"",
}


@pytest.mark.parametrize("body", BOMBS.values(), ids=BOMBS.keys())
def test_a_malformed_frame_costs_nothing_but_an_error(body: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(FrameError, match="malformed frame"):
            FrameReader().feed(frame(body))
        assert tracemalloc.get_traced_memory()[1] < 8 << 20
    finally:
        tracemalloc.stop()


@settings(max_examples=300)
@given(st.binary(max_size=300))
@example(b"\x00" * 5)
def test_random_bytes(data: bytes) -> None:
    swallow(data)
    swallow(frame(data))


@settings(max_examples=300)
@given(BATCHES.filter(bool), st.data())
def test_mutated_frames(batch: list[WireMessage], data: st.DataObject) -> None:
    mutated = bytearray(encode(batch))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(mutated) - 1))
        mutated[at] = data.draw(st.integers(0, 255))
    swallow(bytes(mutated))


@given(BATCHES.filter(bool), st.data())
def test_a_truncated_frame_waits_for_the_rest(batch: list[WireMessage], data: st.DataObject) -> None:
    whole = encode(batch)
    reader = FrameReader()
    cut = data.draw(st.integers(0, len(whole) - 1))
    early = reader.feed(whole[:cut])
    assert early == batch[: len(early)]
    assert early + reader.feed(whole[cut:]) == batch


@given(BATCHES.filter(bool), st.data())
def test_a_body_that_is_cut_is_an_error(batch: list[WireMessage], data: st.DataObject) -> None:
    body = encode(batch)[HEADER.size :]
    with pytest.raises(FrameError):
        FrameReader().feed(frame(body[: data.draw(st.integers(0, len(body) - 1))]))


def swallow(data: bytes) -> None:
    """Messages or a ``FrameError``, in one piece and byte by byte alike; no more than the bytes is kept."""
    outcomes = []
    for pieces in ([data], [data[at : at + 1] for at in range(len(data))]):
        reader = FrameReader()
        messages: list[WireMessage] = []
        try:
            for piece in pieces:
                messages += reader.feed(piece)
        except FrameError as error:
            outcomes.append(str(error))
        else:
            assert len(reader.rest()) <= len(data)
            outcomes.append(repr(messages))
    assert outcomes[0] == outcomes[1]


# -- versions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "common"),
    [
        (VERSIONS, VERSIONS[1]),
        ((VERSIONS[0], VERSIONS[1] + 5), VERSIONS[1]),
        ((VERSIONS[1] + 1, VERSIONS[1] + 2), None),
        ((0, VERSIONS[0] - 1), None),
        ((5, 1), None),
    ],
)
def test_the_highest_version_that_both_speak(theirs: tuple[int, int], common: int | None) -> None:
    assert common_version(theirs) == common


# -- events of clients ----------------------------------------------------------------------------------


def nested(levels: int, inner: Any = 1) -> Any:
    for _ in range(levels):
        inner = {"a": inner}
    return inner


def test_a_run_of_several_publishers() -> None:
    events = (Event("t", "p", 1, {}), Event("t", "q", 2, {}))
    with pytest.raises(FrameError, match="several publishers"):
        check_events([Publications((Run(Header((0, 1)), events, ((), ())),))])


@pytest.mark.parametrize("sequences", [(1, 1), (2, 1), (1, 3, 2)])
def test_a_run_out_of_order(sequences: tuple[int, ...]) -> None:
    events = tuple(Event("t", "p", each, {}) for each in sequences)
    with pytest.raises(FrameError, match="follow each other"):
        check_events([Publications((Run(Header((0, 1)), events, ((),) * len(events)),))])


def test_a_run_of_nothing_is_no_run() -> None:
    with pytest.raises(FrameError, match="length"):
        FrameReader().feed(encode([Publications((Run(Header((0, 1)), (), ()),))]))


@pytest.mark.parametrize("wrap", [lambda e: Publications((single(e, 1),)), lambda e: BestEffortEvents((e,))])
def test_events_that_a_client_cannot_mean(wrap: Callable[[Event], WireMessage]) -> None:
    def read(attributes: Any) -> list[WireMessage]:
        return FrameReader().feed(encode([Ping(), wrap(Event("t", "p", 1, attributes))]))

    for good in (
        {"a": 1, "b": "x", "c": None, "d": True, "e": -0.5, "f": INT_MIN, "g": INT_MAX},
        nested(NESTING_MAX),
    ):
        assert read(good) == [Ping(), wrap(Event("t", "p", 1, good))]
    deep = (nested(NESTING_MAX + 1), {"a": nested(400)})
    for bad in (*deep, {"a": [1]}, {"a": b"x"}, {"a": INT_MAX + 1}, {"a": {1: 1}}, {1: 1}):
        with pytest.raises(FrameError, match="malformed frame: Expected"):
            read(bad)
