"""A schedule told in plain words: who sends what to whom, what waits, who crashes."""

from __future__ import annotations

from gapless.core.messages import (
    Acknowledged,
    Confirmed,
    Joined,
    JoinedConfirmed,
    Log,
    Message,
    Publications,
    Superseded,
)
from gapless.core.messages.publisher import Confirmation, LogEntry
from gapless.core.model import SECOND, Identity
from gapless.simulation import trace
from gapless.simulation.explore.deviation import ALWAYS, Deviation
from gapless.simulation.explore.scenario import Scenario
from gapless.simulation.explore.schedule import Move, Scheduler
from gapless.simulation.explore.search import Schedule, replay
from gapless.simulation.explore.state import State

LINES_MAX = 250
"""So many lines of a story are told; a longer one goes round in circles."""


def story(scenario: Scenario, schedule: Schedule) -> list[str]:
    """The lines of the story, and what is wrong in the end."""
    teller = Teller(scenario)
    state, faults = replay(scenario, schedule, teller.watch)
    teller.see(state)
    lines, more = teller.lines[:LINES_MAX], len(teller.lines) - LINES_MAX
    if more > 0:
        lines.append(f"   … and so on, {more:,} lines more")
    return [*lines, *(f"In the end: {fault}" for fault in faults)]


def command(scenario: Scenario, schedule: Schedule) -> str:
    """The one command that runs a schedule again."""
    words = ",".join(map(str, schedule))
    again = f"gapless simulate --explore {scenario.name}"
    return f"{again} --schedule '{words}'" if words else f"{again} --deviations 0"


class Teller:
    """Watches a schedule and writes down what happens."""

    def __init__(self, scenario: Scenario) -> None:
        self.lines = [f"Before: {'; '.join(map(str, scenario.prologue))}."] if scenario.prologue else []
        self._scenario = scenario
        self._seen = -1
        self._position = 0
        self._closing = False

    def watch(self, scheduler: Scheduler, state: State, deviation: Deviation | None) -> None:
        """The schedule has come to this state, and goes on with the deviation or by default."""
        self.see(state)
        if deviation is not None:
            self.lines.append(f"   !! {_deviation(deviation)}")
            return
        move = scheduler.next_move(state)
        if move is not None and move.kind in ("lane", "dial"):
            self.lines.append(f"{state.moves:4d}. {_move(scheduler, state, move)}")

    def see(self, state: State) -> None:
        """What clients have seen since, and which step of the script was taken."""
        records = list(state.trace())
        if self._seen < 0:
            self._seen = len(records)  # what happened before
        for step in self._scenario.script[self._position : state.position]:
            self.lines.append(f"* {step}")
        self._position = state.position
        if state.closing and not self._closing:
            self._closing = True
            self.lines.append("* All is repaired, and nothing waits any more")
        for record in records[self._seen :]:
            words = _record(record)
            if words:
                self.lines.append(f"      {words}")
        self._seen = len(records)


def _deviation(deviation: Deviation) -> str:
    """A deviation in words."""
    who, span = deviation.who, deviation.span
    until = {0: "until all else is quiet", ALWAYS: "to the end"}.get(span, f"through {span} more steps")
    match deviation.kind:
        case "hold":
            low = " at low priority" if len(who) > 2 else ""
            return f"what {who[0]} sends to {who[1]}{low} waits from here on, {until}"
        case "slow":
            return f"what {who[0]} and {who[1]} send to each other waits from here on, {until}"
        case "crash":
            return f"{who[0]} crashes with what it had under way, and is down {until}"
        case "cut":
            notice = "both ends notice" if len(who) > 3 else f"only {who[2]} notices"
            return f"the link {who[0]}–{who[1]} is cut {until}; {notice}"
        case "suspect":
            return f"{who[0]} wrongly believes that {who[1]} has failed"
        case _:
            return "the next step comes already now"


def _move(scheduler: Scheduler, state: State, move: Move) -> str:
    a, b = move.where[:2]
    if move.kind == "dial":
        failed = state.nodes.get(b) is None or (min(a, b), max(a, b)) in state.cut
        return f"{a} dials {b}" + (": no answer" if failed else "")
    item = state.lanes[a, b, bool(move.where[2])][0][1]
    if item is None:
        return f"{b} hears that its session with {a} has ended"
    if isinstance(item, Identity):
        return f"{a} has answered {b}: they have a session"
    return f"{a} → {b}: {words_of(scheduler.network.nodes.items.values[item])}"


def words_of(message: Message) -> str:
    """A message in a few words."""
    match message:
        case Log(entries=entries):
            return f"Log: {', '.join(map(_entry, entries))}"
        case Confirmed(confirmations=confirmations):
            return f"Confirmed: {', '.join(map(_confirmation, confirmations))}"
        case Publications(runs=runs):
            events = [f"{event.publisher}.{event.sequence}" for run in runs for event in run.events]
            generations = sorted({run.header.generation[1] & 0xFFF for run in runs})
            return f"{', '.join(events)} (generation {', '.join(map(str, generations))})"
        case Acknowledged(acknowledgements=acknowledgements):
            done = [
                f"{each.publisher}.{first}" + (f"–{last}" if last > first else "")
                for each in acknowledgements
                for first, last in each.ranges
            ]
            return f"Acknowledged: {', '.join(done)}"
        case Superseded(publisher=publisher, generation=generation):
            return f"Superseded: {publisher} is in generation {generation[1] & 0xFFF}"
        case Joined(node=node, join_point=join_point):
            return f"Joined: {node} at {join_point}"
        case JoinedConfirmed(node=node):
            return f"JoinedConfirmed: {node}"
        case _:
            return type(message).__name__


def _entry(entry: LogEntry) -> str:
    if entry.ended:
        return f"{entry.subscription} has ended"
    return entry.subscription if entry.body is not None else f"{entry.subscription} is known"


def _confirmation(confirmation: Confirmation) -> str:
    missing = [node for partition in confirmation.pending for node in partition.nodes]
    return confirmation.subscription + (f" (without {', '.join(missing)})" if missing else "")


def _record(record: trace.Record) -> str:
    """What a client saw; what it asked for is in the script."""
    match record:
        case trace.Live(subscription=subscription, unreachable=unreachable, t=t):
            without = f", without {', '.join(unreachable)}" if unreachable else ""
            return f"{subscription} is live{without} (at {t / SECOND:g} s)"
        case trace.Deliver(client=client, publisher=publisher, sequence=sequence):
            return f"{client} gets {publisher}.{sequence}"
        case trace.Confirm(publisher=publisher, sequence=sequence):
            return f"{publisher}.{sequence} is confirmed"
        case trace.Reset(subscription=subscription):
            return f"{subscription} gets a Reset"
        case trace.Restart(node=node):
            return f"{node} starts again"
        case trace.Heal(nodes=(a, b)):
            return f"the link {a}–{b} works again"
        case _:
            return ""
