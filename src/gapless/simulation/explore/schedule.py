"""The default schedule, the script, and where deviations from them are possible.

By default messages arrive in the order of their hops, a script's step is taken when nothing is under way,
and time passes only then. A deviation is made right before a move, by the nodes which that move concerns.
Failures stay within δ at a time, so whatever goes wrong is the protocol's fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from gapless.core.events import PublishRequested, SubscribeRequested
from gapless.core.model import MILLISECOND, SECOND, Identity, Micros, NodeId
from gapless.simulation import trace
from gapless.simulation.explore import scenario as script
from gapless.simulation.explore.deviation import ALWAYS, FAILURE_SPANS, SPANS, Deviation
from gapless.simulation.explore.network import TOPIC, Network
from gapless.simulation.explore.state import Lane, Repair, State

RETURN: Micros = 2_500 * MILLISECOND
"""Longer than the longest pause between two dials: what was repaired is in use again."""
END: Micros = 6 * SECOND
"""Time for all to come to rest."""
MOVES_MAX = 2_000
"""A network that is not at rest after so many moves never is."""


class Move(NamedTuple):
    """What happens next: a message arrives (``lane``), or a ``dial``; a deadline has come (``wake``); or, if
    all is quiet, ``time`` passes, something is over (``end``), the next ``step`` is taken, or all is repaired
    (``close``)."""

    stamp: int
    kind: str
    where: tuple[NodeId, ...] | Lane


class Scheduler:
    """Takes a network through a schedule."""

    def __init__(self, scenario: script.Scenario) -> None:
        self.scenario = scenario
        self.network = Network(scenario)

    def begin(self) -> State:
        """The network before the first step of the script: all brokers and clients are there, at rest."""
        state, scenario = State(), self.scenario
        for name in sorted({name for link in scenario.links for name in link}):
            self.network.add_broker(state, name, tree=scenario.links)
        state.until = state.now + RETURN
        self._rest(state)
        for client, home in scenario.clients.items():
            self.network.add_client(state, client, home)
        state.until = state.now + RETURN
        self._rest(state)
        for action in scenario.prologue:
            self._act(state, action)
            self._rest(state)
        state.moves = 0
        return state

    def _rest(self, state: State) -> None:
        while (move := self.next_move(state)) is not None and move.kind in ("lane", "dial", "wake", "time"):
            self.advance(state, move)

    # -- the default schedule ------------------------------------------------------------------------------

    def next_move(self, state: State) -> Move | None:
        """What is next by default; nothing when it is over."""
        return self._next_event(state) or self._when_quiet(state)

    def _next_event(self, state: State) -> Move | None:
        now, best = state.now, None
        for name, wake_at in state.wakes.items():
            if wake_at <= now and (best is None or (name,) < best.where):
                best = Move(0, "wake", (name,))
        for pair, stamp in state.dials.items():
            if best is None or (stamp, "dial", pair) < best:
                best = Move(stamp, "dial", pair)
        for lane, items in state.lanes.items():
            stamp = items[0][0]
            if best is not None and stamp > best.stamp:
                continue
            if lane in state.holds or (state.cut and _pair(lane) in state.cut) or _waits(state, lane):
                continue
            if best is None or (stamp, "lane", lane) < best:
                best = Move(stamp, "lane", lane)
        return best

    def _when_quiet(self, state: State) -> Move | None:
        if state.now < state.until:
            return Move(0, "time", ())
        if state.position == len(self.scenario.script):
            return None if state.closing else Move(0, "close", ())
        is_due = 0 in state.repairs.values() or 0 in state.holds.values() or self._lacks_room(state)
        return Move(0, "end" if is_due else "step", ())

    def advance(self, state: State, move: Move) -> bool:
        """Make the move; False when something has gone so wrong that there is no going on."""
        match move:
            case (_, "time", _):
                state.now = min([*state.wakes.values(), state.until])
            case (_, "end", _):
                self._end(state)
            case (_, "step", _):
                self._take_step(state)
            case (_, "close", _):
                self._close(state)
            case _:
                self._take(state, move)
        return not state.error

    def _take(self, state: State, move: Move) -> None:
        state.moves += 1
        if state.moves > MOVES_MAX:
            state.error = "never at rest"
        if move.kind == "lane":
            self.network.deliver(state, move.where)  # type: ignore[arg-type]
        elif move.kind == "dial":
            self.network.dial(state, *move.where)
        else:
            self.network.step(state, move.where[0], None, 0)

    def _end(self, state: State) -> None:
        """All is quiet: end what is due, failures first, so that what was held comes after them."""
        every = self._lacks_room(state)
        due = [repair for repair, span in state.repairs.items() if span == 0 or every]
        for repair in due:
            self._mend(state, repair)
        for lane in [] if due else [lane for lane, span in state.holds.items() if span == 0]:
            del state.holds[lane]

    def _lacks_room(self, state: State) -> bool:
        """Whether the next step is a failure for which another one must end first."""
        step = self.scenario.script[state.position]
        fails = isinstance(step, script.Cut) or (
            isinstance(step, script.Crash) and self._is_running(state, step)
        )
        return fails and bool(state.repairs) and not self.network.has_room(state)

    def _is_running(self, state: State, step: script.Crash) -> bool:
        return self.network.is_broker(step.broker) and state.nodes[step.broker] is not None

    def _mend(self, state: State, repair: Repair) -> None:
        del state.repairs[repair]
        if repair.kind == "restart":
            self.network.restart(state, *repair.of)
        elif repair.kind == "heal":
            self.network.heal(state, *repair.of)
        state.until = state.now + RETURN

    def _close(self, state: State) -> None:
        """The script is done: repair everything and let everything arrive."""
        state.closing = True
        state.holds.clear()
        for repair in list(state.repairs):
            self._mend(state, repair)
        for a, b in list(state.cut):
            self.network.heal(state, a, b)
        for name, number in list(state.nodes.items()):
            if number is None:
                self.network.restart(state, name)
        state.until = state.now + END

    # -- the script ----------------------------------------------------------------------------------------

    def _take_step(self, state: State) -> None:
        action = self.scenario.script[state.position]
        state.position += 1
        state.moves += 1
        for spans in (state.holds, state.repairs):
            for key, span in spans.items():
                spans[key] = span - 1 if 0 < span < ALWAYS else span  # type: ignore[index]
        self._act(state, action)

    def _act(self, state: State, action: script.Action) -> None:
        network = self.network
        match action:
            case script.Subscribe():
                self._subscribe(state, action)
            case script.Publish(client=client, kinds=kinds):
                self._publish(state, client, kinds)
            case script.Attach(client=client, home=home):
                network.add_client(state, client, home)
            case script.Join(broker=broker, through=through):
                network.add_broker(state, broker, join=through)
            case script.Crash(broker=broker):
                network.crash(state, broker)
            case script.Restart(broker=broker):
                network.restart(state, broker)
                state.until = state.now + RETURN
            case script.Cut(a=a, b=b):
                network.cut(state, a, b, noticed_by=(a, b))
            case script.Heal(a=a, b=b):
                network.heal(state, a, b)
                state.until = state.now + RETURN
            case script.Wait(seconds=seconds):
                state.until = state.now + int(seconds * SECOND)

    def _subscribe(self, state: State, action: script.Subscribe) -> None:
        client, name = action.client, action.name or action.client
        entry = trace.Subscribe(
            t=state.now,
            client=client,
            subscription=name,
            topic=TOPIC,
            selector=action.selector,
            broker=self.network.homes[client],
        )
        state.record(client, entry)
        self.network.step(state, client, SubscribeRequested(name, TOPIC, action.selector), 0)

    def _publish(self, state: State, client: NodeId, kinds: tuple[str, ...]) -> None:
        home = self.network.homes[client]
        for kind in kinds:
            sequence = state.sequences[client] = state.sequences.get(client, 0) + 1
            state.record(
                client,
                trace.Publish(
                    t=state.now,
                    client=client,
                    publisher=client,
                    sequence=sequence,
                    topic=TOPIC,
                    attributes={"kind": kind},
                    broker=home,
                ),
            )
        contents = [({"kind": kind}, b"") for kind in kinds]
        self.network.step(state, client, PublishRequested(TOPIC, client, contents), 0)

    # -- deviations ----------------------------------------------------------------------------------------

    def deviations(self, state: State, move: Move) -> Iterator[Deviation]:
        """What could be done instead of the move, or before it."""
        if state.closing or move.kind not in ("lane", "dial", "wake", "step"):
            return
        at, left = state.moves, len(self.scenario.script) - state.position
        if left and move.kind != "step" and self._may_hurry(state):
            yield Deviation(at, "hurry")
        if move.kind == "lane":
            a, b, low = move.where
            lane = (a, b, "low") if low else (a, b)
            yield from (Deviation(at, "hold", lane, span) for span in SPANS[: 1 + left])
            if left and self._is_link(state, a, b):
                yield Deviation(at, "slow", (a, b), ALWAYS)
            if self._is_up(state, a, b) and self.network.has_room(state):
                yield Deviation(at, "suspect", (b, a))
        yield from self._failures(state, move, at, left)

    def _failures(self, state: State, move: Move, at: int, left: int) -> Iterator[Deviation]:
        """Of the brokers and the link that the move concerns; before a step of the script, of all."""
        if move.kind == "step":
            names, pairs = list(state.nodes), [(a, b) for a, b in state.up if a < b]
        else:
            names = list(move.where[:2]) if move.kind != "wake" else []
            pairs = [(names[0], names[1])] if names else []
        for name in names:
            if self._may_crash(state, name):
                yield from (Deviation(at, "crash", (name,), span) for span in FAILURE_SPANS[: 1 + left])
        for a, b in pairs:
            if self._is_up(state, a, b) and self.network.has_room(state):
                yield from (Deviation(at, "cut", (a, b, a, b), span) for span in FAILURE_SPANS[: 1 + left])
                if left and self._is_link(state, a, b):
                    yield from (Deviation(at, "cut", (a, b, end), FAILURE_SPANS[1]) for end in (a, b))

    def _is_up(self, state: State, a: NodeId, b: NodeId) -> bool:
        return (a, b) in state.up and (b, a) in state.up

    def _is_link(self, state: State, a: NodeId, b: NodeId) -> bool:
        """Whether two brokers have a session."""
        return self._is_up(state, a, b) and self.network.is_broker(a) and self.network.is_broker(b)

    def _may_crash(self, state: State, name: NodeId) -> bool:
        running = self.network.is_broker(name) and state.nodes.get(name) is not None
        return running and self.network.has_room(state, name)

    def _may_hurry(self, state: State) -> bool:
        match self.scenario.script[state.position]:
            case script.Wait():
                return False
            case script.Cut() | script.Crash():
                return self.network.has_room(state)
            case _:
                return True

    def deviate(self, state: State, deviation: Deviation) -> None:
        """Do it."""
        network, who, span = self.network, deviation.who, deviation.span
        match deviation.kind:
            case "hold":
                state.holds[who[0], who[1], len(who) > 2] = span
            case "slow":
                state.holds |= {(*way, low): span for way in (who, who[::-1]) for low in (False, True)}  # type: ignore[misc]
            case "crash":
                network.crash(state, who[0])
                state.repairs[Repair(who, "restart")] = span
            case "cut":
                a, b, *noticed_by = who
                network.cut(state, a, b, noticed_by=tuple(noticed_by))
                state.repairs[Repair((a, b), "heal")] = span
            case "suspect":
                network.suspect(state, *who)
                state.repairs[Repair(who, "forget")] = span
            case "hurry":
                self._take_step(state)
            case _:
                raise ValueError(f"there is no deviation {deviation.kind!r}")


def _pair(lane: Lane) -> tuple[NodeId, NodeId]:
    a, b, _ = lane
    return (a, b) if a < b else (b, a)


def _waits(state: State, lane: Lane) -> bool:
    """What has low priority waits for the answer to the dial, which is on the other lane."""
    source, target, low = lane
    first = state.lanes.get((source, target, False)) if low else None
    return first is not None and isinstance(first[0][1], Identity)
