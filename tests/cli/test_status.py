"""What ``gapless status`` shows, of networks in every state."""

from __future__ import annotations

from typing import Any

import pytest
from rich.console import Console

from gapless.cli.status import _duration, _size, as_object, rendered
from gapless.server.inquiry import Survey


def report(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "id": name,
        "address": "127.0.0.1:7400",
        "state": "operational",
        "join": "joined",
        "delta": 1,
        "durable": True,
        "uptime": 3723.0,
        "session_count": {"broker": 0, "client": 0},
        "sessions": [],
        "partitions": [],
        "topics": [],
        "subscriptions": 0,
        "custody": {"events": 0, "oldest": None},
        "stalled": [],
        "rates": {"events_in": 0.0, "events_out": 0.0},
        **changes,
    }


def session(peer: str, kind: str, **changes: Any) -> dict[str, Any]:
    return {
        "peer": peer,
        "kind": kind,
        "active": True,
        "dialed_via": "",
        "rtt": 0.0015,
        "bytes_in": 1500,
        "bytes_out": 0,
        "unsent": 0,
        **changes,
    }


def shown(found: Survey) -> str:
    console = Console(width=160, force_terminal=False)
    with console.capture() as capture:
        console.print(rendered(found))
    return capture.get()


def test_tables_without_rows_are_left_out() -> None:
    text = shown(Survey({"b0": report("b0")}))
    assert "brokers" in text
    assert "1:02:03" in text
    for title in ("sessions", "partitions", "topics", "stalled"):
        assert title not in text


def test_everything_at_once() -> None:
    stalled = {
        "topic": "trades", "publisher": "desk", "sequence": 7, "seconds": 61.0, "behind": 1200,
        "waits_for": ["billing"], "asked": [],
    }  # fmt: skip
    topic = {"name": "trades", "order": "publisher", "beyond_delta": "hold", "schema": "n BIGINT"}
    partition = {"detector": "b0", "number": 3, "nodes": ["b1", "b2"], "kind": "barrier"}
    first = report(
        "b0",
        sessions=[
            session("b3", "broker", dialed_via="b4", unsent=2_000_000),
            session("c1", "client", rtt=None),
        ],
        session_count={"broker": 1, "client": 1},
        partitions=[partition],
        topics=[{**topic, "subscriptions": 1}],
        stalled=[stalled],
        rates={"events_in": 1234.4, "events_out": 2.0},
    )
    second = report("b3", join="attached", durable=False, topics=[{**topic, "subscriptions": 5}])
    text = shown(Survey({"b0": first, "b3": second}, {"b1": ("127.0.0.1:1", "nobody answers")}))
    rows = [" ".join(line.replace("│", " ").split()) for line in text.splitlines()]
    assert "b1 127.0.0.1:1 unreachable" in rows
    assert "b0 b3 broker via b4 yes 1.5 ms 1.5 kB 0 B 2.0 MB" in rows
    assert "b0 c1 client yes 1.5 kB 0 B" in rows
    assert "b0 3 barrier b1, b2" in rows
    assert "trades publisher hold n BIGINT 5" in rows
    assert "b0 trades desk 7 1:01 1,200 billing nobody" in rows
    assert any("attached, in memory" in row for row in rows)
    assert any(row.endswith("1,234 2") for row in rows)


def test_many_clients_are_counted() -> None:
    sessions = [session(f"c{number}", "client") for number in range(50)]
    text = shown(Survey({"b0": report("b0", sessions=sessions, session_count={"broker": 0, "client": 5000})}))
    assert "c19" in text
    assert "c20" not in text
    assert "and 4,980 more" in text


def test_names_cannot_play_with_the_terminal() -> None:
    name = "[red]x[/]\x1b[2J\n"
    text = shown(Survey({name: report(name)}, {name + "y": (name, name)}))
    assert "[red]x[/]�[2J�" in text
    assert "\x1b" not in text


def test_for_machines() -> None:
    found = as_object(Survey({"b0": report("b0")}, {"b1": ("h:1", "why")}))
    assert found["brokers"]["b0"]["id"] == "b0"
    assert found["unreachable"] == {"b1": {"address": "h:1", "error": "why"}}


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (12_345_678, "12.3 MB")]
)
def test_sizes(count: int, text: str) -> None:
    assert _size(count) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.05, "0.1 s"), (59.9, "59.9 s"), (75, "1:15"), (7261, "2:01:01")]
)
def test_durations(seconds: float, text: str) -> None:
    assert _duration(seconds) == text


def test_the_network_is_named_by_the_beginning_of_its_id() -> None:
    one = report("b0", network="0123456789abcdef")
    assert "brokers of network 01234567…" in shown(Survey({"b0": one}))
    assert "network" not in shown(Survey({"b0": report("b0")})), "version 0.1.0 does not say"
    both = shown(Survey({"b0": one, "b1": report("b1", network="fedcba9876543210")}))
    assert "brokers of network 01234567…, fedcba98…" in both
