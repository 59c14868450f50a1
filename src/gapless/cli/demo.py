"""``gapless demo``: one network under faults, with and without a promise, and what its clients got."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.tree import Tree

from gapless.cli.simulate import command, show
from gapless.core.model import Link, NodeId, OrderName
from gapless.simulation import trace
from gapless.simulation.run import Options, simulate
from gapless.simulation.trees import random_tree
from gapless.simulation.world import World

OPTIONS = Options(
    order=OrderName.PUBLISHER,
    brokers=10,
    fanout=3,
    delta=1,
    publishers=3,
    subscribers=4,
    events=60,
    crashes=6,
    cuts=4,
)


def demo(seed: Annotated[int, typer.Option(help="Decides everything.")] = 7) -> None:
    """Run a network whose brokers crash and whose links break, and show what its clients got."""
    console = Console()
    links = random_tree(OPTIONS.brokers, OPTIONS.fanout, World(seed=seed).random("tree"))
    console.print(_tree(links))
    console.rule("publisher order: brokers crash and links break")
    promised, what_happened = simulate(OPTIONS, seed)
    console.print(_faults(what_happened))
    console.print(_subscriptions(what_happened))
    show(promised, OPTIONS, console)
    console.rule("the same with best effort, which promises nothing")
    options = replace(OPTIONS, order=OrderName.BEST_EFFORT)
    unpromised, _ = simulate(options, seed)
    show(unpromised, options, console)
    as_expected = promised.ok and not unpromised.ok
    if as_expected:
        console.print(
            "The judges see only what the clients saw. They caught the protocol that promises nothing, and "
            "found every promise of publisher order kept."
        )
    console.print(f"Run it again: {command(OPTIONS, seed)}", soft_wrap=True)
    raise typer.Exit(0 if as_expected else 1)


def _tree(links: list[Link]) -> Tree:
    """The primary tree, for people."""
    root = Tree("[bold]b0")
    branches = {"b0": root}
    waiting = list(links)
    while waiting:
        for each in list(waiting):
            parent = next((name for name in each if name in branches), None)
            if parent is not None:
                child = each[0] if each[1] == parent else each[1]
                branches[child] = branches[parent].add(child)
                waiting.remove(each)
    return root


def _faults(run: trace.Trace) -> Table:
    """What broke, and when it was repaired."""
    table = Table(title="faults")
    table.add_column("at", justify="right")
    table.add_column("what")
    for record in run:
        match record:
            case trace.Crash(node=node) | trace.Restart(node=node):
                name = "crash" if isinstance(record, trace.Crash) else "restart"
                table.add_row(f"{record.t / 1e6:.2f} s", f"{name} {node}")
            case trace.Cut(nodes=nodes) | trace.Heal(nodes=nodes):
                name = "cut" if isinstance(record, trace.Cut) else "heal"
                table.add_row(f"{record.t / 1e6:.2f} s", f"{name} {nodes[0]} – {nodes[1]}")
            case _:
                pass
    return table


def _subscriptions(run: trace.Trace) -> Table:
    """What each subscription asked for and got."""
    asked: dict[str, trace.Subscribe] = {}
    live: dict[str, int] = {}
    got: dict[str, list[tuple[NodeId, int]]] = {}
    for record in run:
        match record:
            case trace.Subscribe(subscription=name):
                asked[name] = record
            case trace.Live(subscription=name, t=moment):
                live.setdefault(name, moment)
            case trace.Deliver(subscription=name, publisher=publisher, sequence=sequence):
                got.setdefault(name, []).append((publisher, sequence))
            case _:
                pass
    table = Table(title="subscriptions")
    for column in ("subscription", "at", "selector"):
        table.add_column(column)
    for column in ("live after", "delivered", "twice"):
        table.add_column(column, justify="right")
    for name, subscribe in asked.items():
        events = got.get(name, [])
        latency = f"{(live[name] - subscribe.t) / 1e3:.1f} ms" if name in live else "never"
        twice = len(events) - len(set(events))
        table.add_row(
            name, subscribe.broker, subscribe.selector or "(all)", latency, str(len(events)), str(twice)
        )
    return table
