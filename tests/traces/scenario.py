"""The interpreter of the golden traces: commands in, the story of what happened out.

A story is a text of steps. A **step** is one or more command lines (``> …``) and, indented below them, all
that happened while they were carried out. Comments (``# …``) and empty lines are for the reader; they end a
step. A line of output has the milliseconds since the step began, the subject, and what happened: ``A → B``
is a message that A sent (pings are left out), any other subject is a node that noticed or did something.
Links are written ``A-B``, marked ones ``A-B*``, an event ``publisher#sequence``. What repeats within a step
is written once, at its first moment, with ``× n``. Every message takes 5 ms, so a story never varies.

===============================  =============================================================================
command                          what it does
===============================  =============================================================================
``brokers A-B-C B-D delta=1``    a new world whose tree joined in an earlier life; ``order=…`` of its topic
``join D via C B``               a new broker, which joins through one of these
``client s1 at D``               a new client and its home broker
``subscribe s1 "price > 1"``     ``as x`` names the subscription, otherwise it is named like the client
``unsubscribe s1``               or ``unsubscribe s1 x``
``publish p1 symbol=X price=1``  an event of the publisher that is named like the client
``crash B``                      ``crash B silently``: no session breaks, they fall silent
``restart B``                    from its store
``cut A B``                      ``cut A B one-way``: only what A sends
``heal A B``                     both directions
``suspect A B``                  A's failure detector is wrong about B
``run 300ms``                    time passes; also ``2s``
``until-joined D``               time passes until D has joined
``settle``                       time passes until only pings are sent
``state``                        a table of what all brokers know; ``state A s1``: of these nodes
``verdict publisher``            what the checkers say of all that clients saw, held to that order's promise
``quietly …``                    any command; its lines are only counted
===============================  =============================================================================
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from random import Random

from gapless.core.broker import Broker
from gapless.core.effects import (
    Answered,
    Connect,
    Deliver,
    Disconnect,
    Effect,
    LeaveRefused,
    Live,
    NameTaken,
    Persist,
    PublisherFenced,
    Receipt,
    RemovalAnswered,
    Reset,
    Send,
    Stopped,
    TopicDeleted,
    TopicsChanged,
)
from gapless.core.events import ConnectFailed, Input, SessionDown, SessionUp, SuspectRequested
from gapless.core.leaf import Leaf
from gapless.core.messages import Ping
from gapless.core.model import MILLISECOND, SECOND, Micros, NodeId, OrderName, Refusal, Topic, link
from gapless.simulation.checkers import check
from gapless.simulation.host import SimulatedHost
from gapless.simulation.network import Latency
from gapless.simulation.world import World
from traces import writing

TOPIC = "trades"


class ScenarioError(Exception):
    """The story cannot be carried out; says which line is to blame."""


class ConstantLatency(Latency):
    """Every message takes the same time."""

    def draw(self, rng: Random) -> Micros:
        return self.typical


# -- telling ---------------------------------------------------------------------------------------------


def tell(story: str) -> str:
    """The same story with the output that belongs to its commands now."""
    scenario, told, pending = Scenario(), list[str](), False
    for number, line in enumerate([*story.splitlines(), ""], start=1):
        is_command = line.startswith("> ")
        if pending and not is_command:
            told += scenario.take_output()
            pending = False
        if is_command:
            try:
                scenario.carry_out(line[2:])
            except Exception as error:
                raise ScenarioError(f"line {number}: {type(error).__name__}: {error}") from error
            pending = True
        elif line.startswith("  "):
            if not told or not told[-1].startswith(("> ", "  ")):
                raise ScenarioError(f"line {number}: output without a command")
            continue
        elif line and not line.startswith("#"):
            raise ScenarioError(f"line {number}: neither a command, nor output, nor a comment: {line!r}")
        told.append(line)
    return "\n".join(told)


class Scenario:
    """A world, and the output of the step that is being carried out."""

    def __init__(self) -> None:
        self.begin(World())
        self._lines: dict[tuple[str, str], list[int]] = {}  # who and what -> first moment, count
        self._hidden = 0
        self._tables: list[str] = []
        self._fresh = True

    def begin(self, world: World) -> None:
        """A new world; the step goes on in it."""
        self.world = world
        self._began: Micros = world.now

    def carry_out(self, command: str) -> None:
        """One command; the first one of a step sets its clock to zero."""
        if self._fresh:
            self._began, self._fresh = self.world.now, False
        name, *words = shlex.split(command)
        quietly = name == "quietly"
        if quietly:
            name, *words = words
        if name not in COMMANDS:
            raise ValueError(f"there is no command {name!r}")
        shown, self._lines = self._lines, {} if quietly else self._lines
        COMMANDS[name](self, words)
        if quietly:
            self._hidden += len(self._lines)
            self._lines = shown

    def note(self, who: str, what: str) -> None:
        """Something happened now."""
        moment = (self.world.now - self._began) // MILLISECOND
        self._lines.setdefault((who, what), [moment, 0])[1] += 1

    def show(self, lines: Iterable[str]) -> None:
        """Something else to print, after what happened."""
        self._tables += lines

    def take_output(self) -> list[str]:
        """The output of the step; the next command begins a new one."""
        lines = [
            f"{moment:>7} ms  {who:<8}{what}" + (f"  × {count}" if count > 1 else "")
            for (who, what), (moment, count) in self._lines.items()
        ]
        if self._hidden:
            lines.insert(0, f"  ({self._hidden} lines not shown)")
        output = lines + self._tables
        self._lines, self._hidden, self._tables, self._fresh = {}, 0, [], True
        return output

    # -- watching nodes ----------------------------------------------------------------------------------

    def watch(self, host: SimulatedHost) -> None:
        """Note what the host's node, in this and all later incarnations, is told and does."""
        make = host.make
        host.make = lambda records: self._spied(make(records))
        assert host.node is not None
        self._spied(host.node)
        self._note_effects(host.name, [Connect(peer) for peer in host.dials])

    def _spied(self, node: Broker | Leaf) -> Broker | Leaf:
        me, start, step = node.overlay.me, node.start, node.step

        def watched_start(now: Micros) -> list[Effect]:
            effects = start(now)
            self.note(me, f"starts as {node.overlay.state}, incarnation {node.identity.incarnation}")
            self._note_effects(me, effects)
            return effects

        def watched_step(inputs: Sequence[Input], now: Micros) -> list[Effect]:
            before = writing.standing(node.overlay)
            effects = step(inputs, now)
            self._note_inputs(me, inputs)
            for old, new in zip(before, writing.standing(node.overlay), strict=True):
                if old != new:
                    self.note(me, new)
            self._note_effects(me, effects)
            return effects

        node.start, node.step = watched_start, watched_step  # type: ignore[method-assign]
        return node

    def _note_inputs(self, me: NodeId, inputs: Sequence[Input]) -> None:
        for each in inputs:
            match each:
                case SessionUp(identity=peer):
                    self.note(me, f"session with {peer.node} up, incarnation {peer.incarnation}")
                case SessionDown(peer=peer, reason=reason):
                    self.note(me, f"session with {peer} down: {reason}")
                case ConnectFailed(peer=peer, refusal=Refusal() as refusal):
                    self.note(me, f"is refused by {peer}: {refusal}")
                case ConnectFailed(peer=peer):
                    self.note(me, f"no answer from {peer}")
                case _:
                    pass  # a message was noted when it was sent, a request is a command

    def _note_effects(self, me: NodeId, effects: Sequence[Effect]) -> None:
        kept = [writing.record(each.record) for each in effects if isinstance(each, Persist)]
        if any(kept):
            self.note(me, "stores " + " ".join(filter(None, kept)))
        for each in effects:
            match each:
                case Send(peer=peer, message=message):
                    lost = "" if peer in self.world.hosts[me].sessions else "  (but has no session)"
                    if not isinstance(message, Ping):
                        self.note(f"{me} → {peer}", writing.message(message) + lost)
                case Connect(peer=peer):
                    self.note(me, f"dials {peer}")
                case Disconnect(peer=peer, reason=reason):
                    self.note(me, f"closes the session with {peer}: {reason}")
                case Deliver(subscription=subscription, events=events, best_effort=marked):
                    mark = ", best effort" if marked else ""
                    for event in events:
                        self.note(me, f"gets {writing.event(event)} for {subscription}{mark}")
                case Live(subscription=subscription, start=cut, unreachable=unreachable):
                    runs = " ".join("-".join(each.nodes) for each in unreachable)
                    excepted = f", unreachable {runs}" if runs else ""
                    self.note(me, f"{subscription} is live from {cut.first or 'the first event'}{excepted}")
                case Reset(subscription=subscription, publishers=publishers, start=cut):
                    whose = " ".join(publishers) or "all publishers"
                    self.note(me, f"{subscription} begins anew for {whose} from {cut.first or 'now on'}")
                case Receipt(publisher=publisher, sequence=sequence):
                    self.note(me, f"has the receipt of {publisher}#{sequence}")
                case PublisherFenced(publisher=publisher):
                    self.note(me, f"is not {publisher} any more: somebody else is, since later")
                case LeaveRefused(reason=reason):
                    self.note(me, f"cannot leave: {reason}")
                case RemovalAnswered(node=node, error=error):
                    self.note(me, f"was to remove {node}: {error or 'done'}")
                case Stopped():
                    self.note(me, "has left for good")
                case NameTaken(reason=reason):
                    self.note(me, f"has lost its name: {reason}")
                case Answered(request=request, error=error):
                    self.note(me, f"is answered {request}: {error or 'done'}")
                case TopicDeleted(name=name):
                    self.note(me, f"has lost the topic {name}")
                case Persist() | TopicsChanged():
                    pass


# -- the commands --------------------------------------------------------------------------------------------


def _brokers(scenario: Scenario, words: list[str]) -> None:
    options = dict(word.split("=") for word in words if "=" in word)
    chains = [word.split("-") for word in words if "=" not in word]
    topic = Topic(TOPIC, OrderName(options.pop("order", OrderName.BEST_EFFORT)))
    world = World(latency=ConstantLatency(), topics={TOPIC: topic}, delta=int(options.pop("delta", 1)))
    scenario.begin(world)
    assert not options, f"unknown options {options}"
    links = [link(*pair) for chain in chains for pair in pairwise(chain)]
    world.add_tree(links) if links else world.add_broker(chains[0][0])
    for host in world.hosts.values():
        scenario.watch(host)
    _settle(scenario, [])


def _join(scenario: Scenario, words: list[str]) -> None:
    name, via, *join_points = words
    assert via == "via"
    scenario.watch(scenario.world.add_broker(name, join=tuple(join_points)))


def _client(scenario: Scenario, words: list[str]) -> None:
    name, at, home = words
    assert at == "at"
    scenario.watch(scenario.world.add_client(name, home))


def _subscribe(scenario: Scenario, words: list[str]) -> None:
    client, selector, *name = words
    scenario.world.subscribe(client, name[1] if name else client, TOPIC, selector)


def _unsubscribe(scenario: Scenario, words: list[str]) -> None:
    scenario.world.unsubscribe(words[0], words[-1])


def _publish(scenario: Scenario, words: list[str]) -> None:
    client, *pairs = words
    attributes = dict(pair.split("=", 1) for pair in pairs)
    scenario.world.publish(client, client, TOPIC, {name: _typed(text) for name, text in attributes.items()})


def _typed(text: str) -> int | float | str:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


def _crash(scenario: Scenario, words: list[str]) -> None:
    scenario.world.crash(words[0], silently="silently" in words[1:])


def _restart(scenario: Scenario, words: list[str]) -> None:
    scenario.world.restart(*words)


def _cut(scenario: Scenario, words: list[str]) -> None:
    scenario.world.cut(words[0], words[1], one_way="one-way" in words[2:])


def _heal(scenario: Scenario, words: list[str]) -> None:
    scenario.world.heal(*words)


def _suspect(scenario: Scenario, words: list[str]) -> None:
    suspicious, suspected = words
    scenario.world.hosts[suspicious].receive(SuspectRequested(suspected))


def _run(scenario: Scenario, words: list[str]) -> None:
    (span,) = words
    unit = MILLISECOND if span.endswith("ms") else SECOND
    scenario.world.run_for(int(float(span.rstrip("ms")) * unit))


def _until_joined(scenario: Scenario, words: list[str]) -> None:
    (name,) = words
    scenario.world.run_until(lambda: scenario.world.broker(name).overlay.is_joined)


def _settle(scenario: Scenario, words: list[str]) -> None:
    scenario.world.run_for(4 * SECOND)
    assert scenario.world.settle(), "it never gets quiet"


def _state(scenario: Scenario, words: list[str]) -> None:
    rows = [writing.STATE_COLUMNS]
    rows += [writing.state_of(scenario.world.hosts[name]) for name in words or scenario.world.brokers()]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    scenario.show("  " + "  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)


def _verdict(scenario: Scenario, words: list[str]) -> None:
    (promise,) = words
    report = check(scenario.world.trace, promise=promise, healed=True)
    scenario.show([f"  {each.kind}: {each.message}" for each in report] or ["  every promise was kept"])


COMMANDS: dict[str, Callable[[Scenario, list[str]], None]] = {
    "brokers": _brokers,
    "client": _client,
    "crash": _crash,
    "cut": _cut,
    "heal": _heal,
    "join": _join,
    "publish": _publish,
    "restart": _restart,
    "run": _run,
    "settle": _settle,
    "state": _state,
    "subscribe": _subscribe,
    "suspect": _suspect,
    "unsubscribe": _unsubscribe,
    "until-joined": _until_joined,
    "verdict": _verdict,
}
