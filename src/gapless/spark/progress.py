"""A bar for what Spark is doing: it advances with every task that ends.

A driver in this process is asked four times a second; a server of Spark Connect tells by itself. Where nobody
looks at a terminal, a line a minute says the same."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import count
from threading import Event, Thread
from typing import Any

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql.utils import is_remote
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

PERIOD_SECONDS = 0.25
LINE_SECONDS = 60.0
"""How often a line is written where there is no terminal."""

_groups = count(1)


@contextmanager
def watched(session: SparkSession, what: str, *, tasks: int | None = None) -> Iterator[None]:
    """Show on standard error how far the actions of this block are.

    ``tasks``: how many tasks the one stage has that matters, so that the bar counts these and no others;
    without it, the bar counts all tasks that Spark knows of so far.
    """
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    told = time.monotonic()
    with Progress(*columns, console=console) as progress:
        bar = progress.add_task(what, total=tasks)

        def show(stages: Iterable[tuple[int, int]]) -> None:
            nonlocal told
            done, of = _counted(stages, tasks)
            progress.update(bar, completed=done, total=of or None)
            if not console.is_terminal and time.monotonic() - told >= LINE_SECONDS:
                told = time.monotonic()
                console.print(f"{what}: {done:,} of {of:,} tasks")

        with _told_by_server(session, show) if is_remote() else _asked(session.sparkContext, show):
            yield
        progress.update(bar, completed=progress.tasks[bar].total)


def _counted(stages: Iterable[tuple[int, int]], tasks: int | None) -> tuple[int, int]:
    """Tasks that have ended and all tasks, of stages as (tasks, ended)."""
    if tasks is not None:
        return max((ended for of, ended in stages if of == tasks), default=0), tasks
    known = list(stages)
    return sum(ended for _, ended in known), sum(of for of, _ in known)


@contextmanager
def _asked(context: SparkContext, show: Any) -> Iterator[None]:
    """Ask the driver in this process, in a thread of its own, until the block ends."""
    group, over = f"gapless-{next(_groups)}", Event()

    def ask() -> None:
        while not over.wait(PERIOD_SECONDS):
            show(_stages(context, group))

    thread = Thread(target=ask, name="spark-progress", daemon=True)
    context.setJobGroup(group, group)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
        context.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]


def _stages(context: SparkContext, group: str) -> Iterator[tuple[int, int]]:
    tracker = context.statusTracker()
    for job in tracker.getJobIdsForGroup(group):
        known = tracker.getJobInfo(job)
        for stage in known.stageIds if known is not None else ():
            state = tracker.getStageInfo(stage)
            if state is not None:
                yield state.numTasks, state.numCompletedTasks


@contextmanager
def _told_by_server(session: SparkSession, show: Any) -> Iterator[None]:
    """Let the server of Spark Connect tell, until the block ends."""

    def told(stages: Any, inflight_tasks: int, operation_id: str | None, done: bool) -> None:
        show((stage.num_tasks, stage.num_completed_tasks) for stage in stages or ())

    handler: Any = told
    session.registerProgressHandler(handler)
    try:
        yield
    finally:
        session.removeProgressHandler(handler)
