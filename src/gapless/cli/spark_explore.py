"""``gapless spark simulate --explore``: small networks, with more deviations than one machine can try."""

from __future__ import annotations

import json

import typer
from pyspark.sql import SparkSession
from rich.console import Console

from gapless.cli.explore import chosen_scenarios, show, summary
from gapless.spark.jobs import explore as job
from gapless.spark.progress import watched


def explore_shares(session: SparkSession, names: list[str], deviations: int, *, as_json: bool) -> bool:
    """Explore the scenarios of these names, or all of them; whether every promise was kept."""
    chosen = [each.name for each in chosen_scenarios(names)]
    parts = job.shares(session, chosen, deviations)
    with watched(session, "exploring", tasks=job.SHARES_OF_EACH * len(chosen)):
        table = job.transform(parts).toArrow()
    results = sorted(job.together(table), key=lambda each: chosen.index(each.scenario))
    if as_json:
        typer.echo(json.dumps(summary(results)))
    else:
        show(results, Console())
    return all(each.ok for each in results)
