"""``gapless status``: ask one broker, and through it all others, how the network is."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from gapless.client.client import addresses_of
from gapless.core.names import short
from gapless.server.inquiry import InquiryError, Survey, survey

CLIENTS_SHOWN = 20
"""Sessions of clients that a person is shown, of each broker."""
STALLED_SHOWN = 20
WATCH_SECONDS = 1.0
WIDTH = 160
UNITS = ("B", "kB", "MB", "GB", "TB")


def status(
    address: Annotated[
        str, typer.Argument(envvar="GAPLESS", help="A broker of the network, or several with commas.")
    ] = "127.0.0.1:7400",
    watch: Annotated[bool, typer.Option(help="Show it anew every second, until Ctrl-C.")] = False,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for each broker.", min=0.1)] = 2.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object, with --watch one a line.")
    ] = False,
) -> None:
    """Show brokers, sessions, partitions, topics, rates and stalled heads of the network."""
    try:
        addresses = addresses_of(address)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    try:
        if watch:
            asyncio.run(_watch(addresses, timeout, as_json))
        else:
            _show(asyncio.run(survey(addresses, timeout)), as_json)
    except InquiryError as error:
        typer.echo(
            f"error: {error}\nGive the address of a broker that runs: gapless status HOST:PORT, or GAPLESS=…",
            err=True,
        )
        raise typer.Exit(1) from error
    except KeyboardInterrupt:
        raise typer.Exit(0) from None


def _show(found: Survey, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(as_object(found)))
    else:
        _console().print(rendered(found))


async def _watch(addresses: Sequence[str], timeout: float, as_json: bool) -> None:
    if as_json:
        while True:
            typer.echo(json.dumps(as_object(await survey(addresses, timeout))))
            await asyncio.sleep(WATCH_SECONDS)
    found = await survey(addresses, timeout)
    console = _console()
    with Live(rendered(found), console=console, screen=console.is_terminal, auto_refresh=False) as live:
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            try:
                found = await survey([*addresses, *_addresses(found)], timeout)
                live.update(rendered(found), refresh=True)
            except InquiryError as error:
                live.update(Text(str(error), style="red"), refresh=True)


def _console() -> Console:
    """As wide as the terminal, or as wide as the tables where there is none."""
    console = Console()
    return console if console.is_terminal else Console(width=WIDTH)


def _addresses(found: Survey) -> list[str]:
    """Where to go on when the broker that was asked is gone."""
    return [report["address"] for report in found.reports.values()][:8]


def as_object(found: Survey) -> dict[str, Any]:
    """For machines: the reports of :mod:`gapless.server.status` by broker, and who does not answer."""
    return {
        "brokers": found.reports,
        "unreachable": {
            node: {"address": address, "error": error} for node, (address, error) in found.unreachable.items()
        },
    }


# -- for people -----------------------------------------------------------------------------------------


def rendered(found: Survey) -> RenderableType:
    """All tables that have something to say."""
    reports = [found.reports[node] for node in sorted(found.reports)]
    tables = (
        _brokers(reports, found),
        _sessions(reports),
        _partitions(reports),
        _topics(reports),
        _stalled(reports),
    )
    return Group(*(table for table in tables if table.row_count))


def _brokers(reports: Sequence[dict[str, Any]], found: Survey) -> Table:
    table = _table(
        _title(reports), "broker", "address", "state", "δ", ">up", ">brokers", ">clients", ">subscriptions",
        ">in custody", ">events in/s", ">events out/s",
    )  # fmt: skip
    for report in reports:
        sessions, rates = report["session_count"], report["rates"]
        table.add_row(
            _name(report["id"]),
            _name(report["address"]),
            _state(report),
            str(report["delta"]),
            _duration(report["uptime"]),
            str(sessions["broker"]),
            str(sessions["client"]),
            f"{report['subscriptions']:,}",
            f"{report['custody']['events']:,}",
            f"{rates['events_in']:,.0f}",
            f"{rates['events_out']:,.0f}",
        )
    for node, (address, _) in sorted(found.unreachable.items()):
        table.add_row(_name(node), _name(address), Text("unreachable", style="red"))
    return table


def _title(reports: Sequence[dict[str, Any]]) -> str:
    """Which network this is; brokers of version 0.1.0 do not say."""
    networks = sorted({report.get("network") or "" for report in reports})
    title = "brokers of network " + ", ".join(map(short, networks)) if any(networks) else "brokers"
    builds = sorted({f"{each['version']} {each['build']}" for each in reports if "build" in each})
    return f"{title}, gapless {', '.join(builds)}" if builds else title


def _state(report: dict[str, Any]) -> Text:
    state = report["state"] if report["join"] == "joined" else report["join"]
    durable = "" if report["durable"] else ", in memory"
    return Text(state + durable, style="green" if state == "operational" else "yellow")


def _sessions(reports: Sequence[dict[str, Any]]) -> Table:
    table = _table(
        "sessions", "broker", "peer", "kind", "active", ">round trip", ">in", ">out", ">unsent"
    )  # fmt: skip
    for report in reports:
        sessions = report["sessions"]
        clients = [each for each in sessions if each["kind"] == "client"]
        for each in (*(one for one in sessions if one["kind"] == "broker"), *clients[:CLIENTS_SHOWN]):
            via = f" via {each['dialed_via']}" if each["dialed_via"] else ""
            table.add_row(
                _name(report["id"]),
                _name(each["peer"]),
                each["kind"] + via,
                "yes" if each["active"] else "no",
                f"{1000 * each['rtt']:.1f} ms" if each["rtt"] is not None else "",
                _size(each["bytes_in"]),
                _size(each["bytes_out"]),
                _size(each["unsent"]) if each["unsent"] else "",
            )
        left_out = report["session_count"]["client"] - CLIENTS_SHOWN
        if left_out > 0:
            table.add_row(_name(report["id"]), f"… and {left_out:,} more", "client")
    return table


def _partitions(reports: Sequence[dict[str, Any]]) -> Table:
    table = _table("partitions", "detector", "number", "kind", "brokers that it does not reach")
    for report in reports:
        for each in report["partitions"]:
            style = "yellow" if each["kind"] == "island" else "red"
            nodes = _name(", ".join(each["nodes"]))
            table.add_row(
                _name(each["detector"]), str(each["number"]), Text(each["kind"], style=style), nodes
            )
    return table


def _topics(reports: Sequence[dict[str, Any]]) -> Table:
    table = _table("topics", "topic", "order", "beyond δ", "schema", ">subscriptions")
    topics: dict[str, dict[str, Any]] = {}
    for report in reports:
        for each in report["topics"]:
            known = topics.setdefault(each["name"], each)
            if each["subscriptions"] > known["subscriptions"]:
                topics[each["name"]] = each
    for name, each in sorted(topics.items()):
        schema = _name(each["schema"])
        table.add_row(_name(name), each["order"], each["beyond_delta"], schema, f"{each['subscriptions']:,}")
    return table


def _stalled(reports: Sequence[dict[str, Any]]) -> Table:
    table = _table(
        "stalled heads", "broker", "topic", "publisher", ">event", ">for", ">waiting", "waits for", "asked"
    )
    every = [(report["id"], each) for report in reports for each in report["stalled"]]
    for broker, each in sorted(every, key=lambda pair: -pair[1]["seconds"])[:STALLED_SHOWN]:
        table.add_row(
            _name(broker),
            _name(each["topic"]),
            _name(each["publisher"]),
            f"{each['sequence']:,}",
            _duration(each["seconds"]),
            f"{each['behind']:,}",
            _name(", ".join(each["waits_for"])),
            _name(", ".join(each["asked"])) if each["asked"] else Text("nobody", style="red"),
        )
    return table


def _table(title: str, *columns: str) -> Table:
    """A column that begins with '>' is of numbers."""
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column.removeprefix(">"), justify="right" if column.startswith(">") else "left")
    return table


def _name(text: str) -> Text:
    """What others have named, with nothing in it that a terminal would obey."""
    return Text("".join(_printable(text)))


def _printable(text: str) -> Iterator[str]:
    for character in text:
        yield character if character.isprintable() else "�"


def _size(count: int) -> str:
    value, unit = float(count), 0
    while value >= 1000 and unit < len(UNITS) - 1:
        value, unit = value / 1000, unit + 1
    return f"{value:.0f} {UNITS[unit]}" if unit == 0 else f"{value:.1f} {UNITS[unit]}"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
