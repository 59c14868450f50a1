"""``gapless simulate --explore``: every schedule of some small networks with up to k deviations."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from gapless.simulation.explore import (
    SCENARIOS,
    Deviation,
    Exploration,
    Scenario,
    Schedule,
    command,
    explore,
    story,
)


def explore_all(names: list[str], *, deviations: int, workers: int | None, as_json: bool) -> bool:
    """Explore the scenarios of these names, or all of them; whether every promise was kept."""
    chosen = chosen_scenarios(names)
    results: dict[str, Exploration] = {}
    columns = (TextColumn("exploring"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[last]}"), console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=len(chosen), last="")
        for result in _explored(chosen, deviations, workers or os.cpu_count() or 1):
            results[result.scenario] = result
            progress.update(task, advance=1, last=f"{result.scenario}: {verdict(result)}")
    in_order = [results[each.name] for each in chosen]
    if as_json:
        typer.echo(json.dumps(summary(in_order)))
    else:
        show(in_order, Console())
    return all(each.ok for each in in_order)


def chosen_scenarios(names: list[str]) -> list[Scenario]:
    """The scenarios of these names, or all of them."""
    unknown = [name for name in names if name not in SCENARIOS]
    if unknown:
        raise typer.BadParameter(f"there is no scenario {unknown[0]!r}; there is: {', '.join(SCENARIOS)}")
    return [SCENARIOS[name] for name in dict.fromkeys(names)] or list(SCENARIOS.values())


def _explored(chosen: list[Scenario], deviations: int, workers: int) -> Iterator[Exploration]:
    """The results as they come, one process a scenario."""
    if min(workers, len(chosen)) <= 1:
        yield from (explore(each, deviations=deviations) for each in chosen)
        return
    with ProcessPoolExecutor(workers) as pool:
        for each in as_completed([pool.submit(explore, each, deviations=deviations) for each in chosen]):
            yield each.result()


def verdict(result: Exploration) -> str:
    """In a word or two."""
    return "ok" if result.found is None else result.found.faults[0]


def summary(results: list[Exploration]) -> dict[str, Any]:
    """The results as one JSON object."""
    networks = []
    for each in results:
        row = asdict(each) | {"verdict": "ok" if each.ok else "violated"}
        if each.found is not None:
            row["found"]["command"] = command(SCENARIOS[each.scenario], each.found.schedule)
            row["found"]["schedule"] = list(map(str, each.found.schedule))
        networks.append(row)
    return {"verdict": "ok" if all(each.ok for each in results) else "violated", "networks": networks}


def show(results: list[Exploration], console: Console) -> None:
    """A table for people, and the story of each violation."""
    table = Table(title=f"up to {max(each.deviations for each in results)} deviations")
    table.add_column("network", no_wrap=True)
    for name in ("schedules", "states", "moves", "steps", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("verdict")
    for each in results:
        counts = (each.schedules, each.states, each.moves, each.steps)
        word = "[green]ok" if each.ok else f"[red]{verdict(each)}"
        table.add_row(each.scenario, *(f"{count:,}" for count in counts), f"{each.seconds:.1f}", word)
    console.print(table)
    for each in results:
        if each.found is not None:
            console.print()
            tell(SCENARIOS[each.scenario], each.found.schedule, console)


def tell(scenario: Scenario, schedule: Schedule, console: Console) -> None:
    """The story of one schedule, and how to run it again."""
    console.print(f"[bold]{scenario.name}[/]: {scenario.about}; δ = {scenario.delta}")
    for line in story(scenario, schedule):
        console.print(line, highlight=False, markup=False, soft_wrap=True)
    console.print(f"again: [bold]{command(scenario, schedule)}", soft_wrap=True, highlight=False)


def run_again(names: list[str], words: str, *, as_json: bool) -> bool:
    """Run one schedule again and tell its story; whether every promise was kept."""
    if len(names) != 1:
        raise typer.BadParameter("--schedule is one of one scenario: name it")
    scenario = chosen_scenarios(names)[0]
    try:
        schedule = tuple(Deviation.parse(word.strip()) for word in words.split(",") if word.strip())
        lines = story(scenario, schedule)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    ok = not any(line.startswith("In the end") for line in lines)
    if as_json:
        typer.echo(json.dumps({"verdict": "ok" if ok else "violated", "story": lines}))
    else:
        tell(scenario, schedule, Console())
    return ok
