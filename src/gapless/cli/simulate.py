"""``gapless simulate``: run a network under seeded faults and judge what its clients saw."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from gapless.cli.explore import explore_all, run_again
from gapless.core.broker import ORDERS
from gapless.core.model import BeyondDelta, OrderName
from gapless.simulation.many import run_many
from gapless.simulation.run import Options, Outcome
from gapless.simulation.run import simulate as simulate_once
from gapless.simulation.swarm.features import features_of

SHOWN = 10
"""How many violations, or failing seeds, a person is shown."""


def simulate(
    scenarios: Annotated[
        list[str] | None, typer.Argument(help="With --explore: the scenarios to explore.", show_default="all")
    ] = None,
    order: Annotated[OrderName, typer.Option(help="The order of the topic.")] = OrderName.PUBLISHER,
    repositories: Annotated[int, typer.Option(help="Copies of a durable topic; 0: not durable.")] = 0,
    brokers: Annotated[int, typer.Option(help="Number of brokers, in a random tree.")] = 15,
    fanout: Annotated[int, typer.Option(help="The most children of a broker.")] = 3,
    delta: Annotated[int, typer.Option(help="δ: concurrent failures that must do no harm.")] = 1,
    publishers: Annotated[int, typer.Option(help="Publishing clients.")] = 4,
    subscribers: Annotated[int, typer.Option(help="Subscribing clients, some of which react.")] = 6,
    events: Annotated[int, typer.Option(help="Events of each publisher.")] = 100,
    crashes: Annotated[int, typer.Option(help="Broker crashes.")] = 0,
    cuts: Annotated[int, typer.Option(help="Link faults: cuts, one-way cuts, suspicions, slow links.")] = 0,
    max_down: Annotated[int | None, typer.Option(help="Most failures at a time.", show_default="δ")] = None,
    beyond_delta: Annotated[
        BeyondDelta, typer.Option(help="What the topic does beyond δ failures.")
    ] = BeyondDelta.HOLD,
    latency_ms: Annotated[float, typer.Option(help="Typical latency of a message.")] = 5.0,
    swarm: Annotated[
        bool, typer.Option("--swarm", help="The seed draws everything: network, limits, faults, traffic.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Decides everything.")] = 0,
    seeds: Annotated[int, typer.Option(help="Run this many seeds, from --seed on, in parallel.", min=1)] = 1,
    explore: Annotated[
        bool, typer.Option("--explore", help="Try every schedule of small networks instead.")
    ] = False,
    deviations: Annotated[int, typer.Option(help="With --explore: from the default schedule.", min=0)] = 2,
    schedule: Annotated[str, typer.Option(help="With --explore: run this one again.")] = "",
    workers: Annotated[
        int | None, typer.Option(help="With --explore: processes.", min=1, show_default="a core each")
    ] = None,
    trace: Annotated[Path | None, typer.Option(help="Write what happened as JSON lines.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Run a simulated network under seeded faults; exit code 1 when a promise was broken."""
    if explore:
        if schedule:
            kept = run_again(scenarios or [], schedule, as_json=as_json)
        else:
            kept = explore_all(scenarios or [], deviations=deviations, workers=workers, as_json=as_json)
        raise typer.Exit(0 if kept else 1)
    if scenarios:
        raise typer.BadParameter(f"{scenarios[0]}: only --explore takes scenarios")
    options = checked(
        order=order,
        repositories=repositories,
        brokers=brokers,
        fanout=fanout,
        delta=delta,
        publishers=publishers,
        subscribers=subscribers,
        events=events,
        crashes=crashes,
        cuts=cuts,
        max_down=max_down,
        beyond_delta=beyond_delta,
        latency_ms=latency_ms,
        swarm=swarm,
    )
    if seeds > 1:
        if trace is not None:
            raise typer.BadParameter("--trace writes one run; leave --seeds out")
        ok = _many(options, range(seed, seed + seeds), as_json)
    else:
        ok = _one(options, seed, trace, as_json)
    raise typer.Exit(0 if ok else 1)


def checked(**values: Any) -> Options:
    """The options of a run, or a clear word on what is wrong with them."""
    try:
        options = Options(**values)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    if options.swarm and options != Options(swarm=True):
        raise typer.BadParameter("--swarm draws everything by the seed; leave the other options of a run out")
    available = [each.name for each in ORDERS]
    if options.order not in available:
        raise typer.BadParameter(f"{options.order} is not built yet; there is: {', '.join(available)}")
    if options.repositories > 0:
        raise typer.BadParameter("durable topics are not built yet; leave --repositories out")
    return options


def _one(options: Options, seed: int, path: Path | None, as_json: bool) -> bool:
    outcome, trace = simulate_once(options, seed)
    if path is not None:
        trace.write(path)
    if as_json:
        typer.echo(json.dumps(asdict(outcome)))
    else:
        show(outcome, options, Console())
    return outcome.ok


def show(outcome: Outcome, options: Options, console: Console) -> None:
    """One run for people."""
    drawn = features_of(outcome.seed) if options.swarm else None
    brokers, delta, budget = (
        (drawn.brokers, drawn.delta, drawn.max_down)
        if drawn is not None
        else (options.brokers, options.delta, options.budget)
    )
    table = Table(title=f"{options.order} order, {brokers} brokers, δ = {delta}", show_header=False)
    table.add_row("published", f"{outcome.published:,}")
    table.add_row("delivered", f"{outcome.delivered:,}")
    table.add_row("faults", f"{outcome.faults:,} (at most {budget} at a time)")
    if drawn is not None:
        table.add_row("promises withdrawn", f"{outcome.resets:,}")
        table.add_row("what happened", ", ".join(f"{count} {kind}" for kind, count in outcome.kinds.items()))
    table.add_row("messages between nodes", f"{outcome.messages:,}")
    table.add_row("simulated time", f"{outcome.simulated_seconds:.1f} s")
    table.add_row("digest of the trace", outcome.digest)
    verdict = "[green]ok: every promise was kept" if outcome.ok else f"[red]violated: {_kinds(outcome)}"
    table.add_row("verdict", verdict)
    console.print(table)
    for violation in outcome.violations[:SHOWN]:
        console.print(
            f"  [red]{violation['kind']}[/] at {violation['t'] / 1e6:.3f} s: {violation['message']}"
        )
    if not outcome.ok:
        console.print(f"again: [bold]{options.command(outcome.seed)} --trace run.jsonl", soft_wrap=True)


def _kinds(outcome: Outcome) -> str:
    return ", ".join(f"{count} {kind}" for kind, count in outcome.counts.items())


def _many(options: Options, seeds: range, as_json: bool) -> bool:
    console = Console(stderr=True)
    outcomes: list[Outcome] = []
    columns = (TextColumn("simulating"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[failed]}"), console=console) as progress:
        task = progress.add_task("", total=len(seeds), failed="")
        for outcome in run_many(options, seeds):
            outcomes.append(outcome)
            failed = sum(not each.ok for each in outcomes)
            progress.update(task, advance=1, failed=f"[red]{failed} violated" if failed else "")
    failing = [outcome for outcome in outcomes if not outcome.ok]
    if as_json:
        typer.echo(json.dumps(_summary(outcomes, failing)))
    else:
        _show_many(options, outcomes, failing)
    return not failing


def _summary(outcomes: list[Outcome], failing: list[Outcome]) -> dict[str, Any]:
    return {
        "verdict": "violated" if failing else "ok",
        "seeds": len(outcomes),
        "violated": [outcome.seed for outcome in failing],
        "published": sum(outcome.published for outcome in outcomes),
        "delivered": sum(outcome.delivered for outcome in outcomes),
        "faults": sum(outcome.faults for outcome in outcomes),
        "simulated_seconds": sum(outcome.simulated_seconds for outcome in outcomes),
        "resets": sum(outcome.resets for outcome in outcomes),
        "runs": [asdict(outcome) for outcome in outcomes],
    }


def _show_many(options: Options, outcomes: list[Outcome], failing: list[Outcome]) -> None:
    console = Console()
    published = sum(outcome.published for outcome in outcomes)
    delivered = sum(outcome.delivered for outcome in outcomes)
    faults = sum(outcome.faults for outcome in outcomes)
    resets = sum(outcome.resets for outcome in outcomes)
    console.print(
        f"{len(outcomes):,} seeds: {published:,} events published, {delivered:,} delivered, "
        f"{faults:,} faults, {resets:,} promises withdrawn",
        soft_wrap=True,
    )
    if not failing:
        console.print("[green]ok: every promise was kept in every seed")
        return
    console.print(
        f"[red]violated in {len(failing):,} of {len(outcomes):,} seeds; the first, each by one command:"
    )
    for outcome in failing[:SHOWN]:
        console.print(f"  {options.command(outcome.seed)}   [red]{_kinds(outcome)}", soft_wrap=True)
