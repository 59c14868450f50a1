"""Exploration: every schedule of a scenario with up to so many deviations, each state only once."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from gapless.core.model import OrderName
from gapless.simulation import trace
from gapless.simulation.checkers import check
from gapless.simulation.explore.deviation import Deviation
from gapless.simulation.explore.nodes import in_custody
from gapless.simulation.explore.scenario import Scenario
from gapless.simulation.explore.schedule import Move, Scheduler
from gapless.simulation.explore.state import State

Schedule = tuple[Deviation, ...]


@dataclass(slots=True, kw_only=True)
class Found:
    """A schedule that breaks a promise."""

    schedule: Schedule
    moves: int
    faults: list[str]

    @property
    def rank(self) -> tuple[int, int, list[str]]:
        """Of two the lower one is the shorter story."""
        return len(self.schedule), self.moves, list(map(str, self.schedule))


@dataclass(slots=True, kw_only=True)
class Exploration:
    """What came of it."""

    scenario: str
    deviations: int
    schedules: int = 0
    states: int = 0
    moves: int = 0
    steps: int = 0
    """How many different steps of nodes there were; all others are repetitions."""
    seconds: float = 0.0
    """Of the processor."""
    found: Found | None = None
    """The shortest schedule with a violation."""
    violating: int = 0

    @property
    def ok(self) -> bool:
        """Whether every schedule kept every promise."""
        return self.found is None


class Explorer:
    """Explores one scenario."""

    def __init__(self, scenario: Scenario, *, share: tuple[int, int] = (0, 1)) -> None:
        self._scheduler = Scheduler(scenario)
        self._share = share
        self._seen: dict[int, int] = {}
        self.result = Exploration(scenario=scenario.name, deviations=0)

    def run(self, deviations: int) -> Exploration:
        """Every schedule with up to so many deviations; fewer first, and no more once one is found."""
        began = time.process_time()
        result = self.result
        start = self._scheduler.begin()
        for bound in range(deviations + 1):
            result.deviations = bound
            self._seen.clear()
            self._explore(start.copy(), (), bound)
            if result.found is not None:
                break
        result.steps = self._scheduler.network.nodes.steps
        result.states = len(self._seen)
        result.seconds = time.process_time() - began
        return result

    def _explore(self, state: State, schedule: Schedule, left: int) -> None:
        """Go on by default to the end, or to what was seen; then from each new state deviate once more."""
        self.result.schedules += 1
        scheduler, seen = self._scheduler, self._seen
        fresh: list[tuple[State, Move]] = []
        while (move := scheduler.next_move(state)) is not None:
            key = state.key()
            if seen.get(key, -1) >= left:
                break
            seen[key] = left
            if left:
                fresh.append((state.copy(), move))
            self.result.moves += 1
            if not scheduler.advance(state, move):
                self._judge(state, schedule)
                break
        else:
            self._judge(state, schedule)
        for each, move in fresh:
            for number, deviation in enumerate(scheduler.deviations(each, move)):
                if schedule or (each.moves + number) % self._share[1] == self._share[0]:
                    other = each.copy()
                    scheduler.deviate(other, deviation)
                    self._explore(other, (*schedule, deviation), left - 1)

    def _judge(self, state: State, schedule: Schedule) -> None:
        faults = judged(self._scheduler, state)
        if faults:
            self.result.violating += 1
            found = Found(schedule=schedule, moves=state.moves, faults=faults)
            if self.result.found is None or found.rank < self.result.found.rank:
                self.result.found = found


def explore(scenario: Scenario, *, deviations: int = 2, share: tuple[int, int] = (0, 1)) -> Exploration:
    """Try every schedule of a scenario with up to so many deviations from the default one."""
    return Explorer(scenario, share=share).run(deviations)


def judged(scheduler: Scheduler, state: State) -> list[str]:
    """What is wrong at the end of a schedule.

    Within δ nothing may be missed, not even if a ``Reset`` tells of it, unless the scenario allows that.
    """
    if state.error:
        return [state.error]
    records = list(state.trace())
    if not scheduler.scenario.resets:
        records = [each for each in records if not isinstance(each, trace.Reset)]
    report = check(records, promise=OrderName.PUBLISHER, healed=True)
    nodes = scheduler.network.nodes
    custody = {
        name: count
        for name, number in state.nodes.items()
        if number is not None and (count := nodes.noted(number, in_custody))
    }
    published = {(each.publisher, each.sequence) for each in records if isinstance(each, trace.Publish)}
    confirmed = {(each.publisher, each.sequence) for each in records if isinstance(each, trace.Confirm)}
    return [
        *(f"{each.kind}: {each.message}" for each in report),
        *(
            f"{publisher}'s event {number} is never confirmed"
            for publisher, number in sorted(published - confirmed)
        ),
        *(f"{name} answers for {count} events for ever" for name, count in custody.items()),
    ]


def replay(
    scenario: Scenario,
    schedule: Schedule,
    watch: Callable[[Scheduler, State, Deviation | None], None] | None = None,
) -> tuple[State, list[str]]:
    """Run one schedule again; a watcher sees each state, and the deviation that is about to be made there."""
    scheduler = Scheduler(scenario)
    state = scheduler.begin()
    waiting = list(schedule)
    while (move := scheduler.next_move(state)) is not None:
        if waiting and waiting[0].at == state.moves and waiting[0] in scheduler.deviations(state, move):
            deviation = waiting.pop(0)
            if watch:
                watch(scheduler, state, deviation)
            scheduler.deviate(state, deviation)
            continue
        if watch:
            watch(scheduler, state, None)
        if not scheduler.advance(state, move):
            break
    if waiting:
        raise ValueError(f"{waiting[0]} is not possible in this schedule")
    return state, judged(scheduler, state)
