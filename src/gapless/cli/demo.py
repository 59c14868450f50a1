"""``gapless demo``: a market on real brokers that are killed while it trades, and who got what."""

from __future__ import annotations

import asyncio
import json
import tempfile
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text
from rich.tree import Tree

from gapless.cli.network import AsJson, run
from gapless.demo import story as play
from gapless.demo.story import Story

COLOURS = {"up": "green", "killed": "bold red", "starting": "yellow"}
NEWS_SHOWN = 12


def demo(
    per_second: Annotated[float, typer.Option(help="Trades a second of each desk.", min=1)] = 200,
    pause: Annotated[float, typer.Option(help="Seconds between faults and repairs.", min=0.1)] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Start seven brokers, trade, kill -9 brokers while it runs, and judge what the subscribers got."""
    story = Story()
    run(_play(story, per_second, pause, quiet=as_json))
    if as_json:
        typer.echo(json.dumps(_as_dict(story)))
    else:
        _show(story)
    raise typer.Exit(0 if story.ok else 1)


async def _play(story: Story, per_second: float, pause: float, *, quiet: bool) -> None:
    console = Console()
    with tempfile.TemporaryDirectory(prefix="gapless-demo-") as directory:
        playing = asyncio.create_task(play.run(story, Path(directory), per_second=per_second, pause=pause))
        if quiet:
            await playing
        elif console.is_terminal:
            with Live(console=console, refresh_per_second=8) as live:
                while not playing.done():
                    live.update(_view(story))
                    await asyncio.wait([playing], timeout=0.12)
                live.update(_view(story))
            playing.result()
        else:
            await _print_news(story, playing, console)


async def _print_news(story: Story, playing: asyncio.Task[None], console: Console) -> None:
    """Without a terminal: a line for everything that happens."""
    told = 0
    while True:
        done = playing.done()
        for seconds, what in story.news[told:]:
            console.print(f"{seconds:5.1f} s  {what}", highlight=False)
        told = len(story.news)
        if done:
            break
        await asyncio.wait([playing], timeout=0.1)
    playing.result()


# -- pictures --------------------------------------------------------------------------------------------


def _view(story: Story) -> Group:
    news = Text()
    for seconds, what in story.news[-NEWS_SHOWN:]:
        news.append(f"{seconds:5.1f} s  ", "dim")
        news.append(f"{what}\n", "red" if what.startswith("kill") else "")
    side = Table.grid(padding=(0, 4))
    side.add_row(_tree(story), news)
    return Group(side, _progress(story))


def _tree(story: Story) -> Tree | Text:
    if not story.brokers:
        return Text("starting …")
    branches: list[Tree] = []
    for number, broker in enumerate(story.brokers):
        label = f"[{COLOURS[broker.state]}]{broker.name} {broker.state}"
        if number == 0:
            branches.append(Tree(label))
        else:
            branches.append(branches[(number - 1) // play.FANOUT].add(label))
    return branches[0]


def _progress(story: Story) -> Table:
    title = f"{story.published:,} trades published, {story.confirmed:,} confirmed"
    table = Table(title=title, title_justify="left")
    for column in ("subscription", "at", "selector"):
        table.add_column(column)
    for column in ("delivered", "longest stall"):
        table.add_column(column, justify="right")
    for each in story.readers:
        stall = f"{each.longest_stall:.2f} s"
        table.add_row(each.name, each.broker, each.selector or "(all)", f"{len(each.got):,}", stall)
    return table


def _show(story: Story) -> None:
    console = Console()
    title = f"verdict: {story.published:,} published, {story.confirmed:,} confirmed"
    table = Table(title=title, box=box.SIMPLE, pad_edge=False, collapse_padding=True)  # fits into 80 columns
    table.add_column("subscriber", no_wrap=True)
    faults = ("missing", "twice", "out of order", "extra", "resets")
    for column in ("got", *faults, "longest stall", "live after"):
        table.add_column(column, justify="right")
    for each in story.verdicts:
        reader = each.reader
        table.add_row(
            f"[{'green' if each.ok else 'red'}]{reader.name}",
            f"{len(reader.got):,}",
            *map(str, (each.missing, each.twice, each.out_of_order, each.unwanted, reader.resets)),
            f"{reader.longest_stall:.2f} s",
            f"{(reader.subscription.latency or 0) * 1000:.0f} ms",
        )
    console.print(table)
    if story.ok:
        console.print("[green]ok: every subscriber got every matching trade exactly once, in order")
    else:
        console.print("[red]violated: see the table")


def _as_dict(story: Story) -> dict[str, object]:
    return {
        "verdict": "ok" if story.ok else "violated",
        "published": story.published,
        "confirmed": story.confirmed,
        "killed": [what for _, what in story.news if what.startswith("kill")],
        "subscriptions": [
            {
                "name": each.reader.name,
                "broker": each.reader.broker,
                "selector": each.reader.selector,
                "delivered": len(each.reader.got),
                "missing": each.missing,
                "duplicates": each.twice,
                "out_of_order": each.out_of_order,
                "unwanted": each.unwanted,
                "resets": each.reader.resets,
                "longest_stall": round(each.reader.longest_stall, 3),
                "latency": each.reader.subscription.latency,
            }
            for each in story.verdicts
        ],
    }
