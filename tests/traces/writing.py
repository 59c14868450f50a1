"""How the golden traces write what nodes know, store and send."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gapless.core.effects import LinkAdded, LinkRemoved, Record
from gapless.core.messages import (
    Acknowledged,
    Attached,
    Confirmed,
    Joined,
    JoinedConfirmed,
    JoinRefused,
    Log,
    Message,
    Neighbourhood,
    PartialTopology,
    PartitionInfo,
    Publications,
    Superseded,
    Synced,
    SyncWanted,
)
from gapless.core.messages.publisher import Confirmation, LogEntry
from gapless.core.model import Event, Link, Partition
from gapless.core.orders.publisher.publishing import GENERATIONS_PER_INCARNATION
from gapless.core.overlay.overlay import Overlay
from gapless.simulation.host import SimulatedHost
from publications import Publication, publications

STATE_COLUMNS: tuple[str, ...] = (
    "node",
    "state",
    "join",
    "incarnation",
    "established",
    "active",
    "down",
    "barriers",
    "links",
)


def names(some: Iterable[str]) -> str:
    return " ".join(some) or "–"


def links(valid: Iterable[Link], marked: Iterable[Link] = ()) -> str:
    return names([*("-".join(each) for each in valid), *("-".join(each) + "*" for each in marked)])


def event(each: Event) -> str:
    return f"{each.publisher}#{each.sequence}"


def record(each: Record) -> str:
    match each:
        case LinkAdded(link=added, marked=marked):
            return links((), [added]) if marked else links([added])
        case LinkRemoved(link=gone):
            return f"no {links([gone])}"
        case _:
            return ""  # the incarnation has a line of its own


def message(sent: Message) -> str:
    """A message as one reads it; those without a case here show their fields in order."""
    name = type(sent).__name__
    match sent:
        case PartialTopology(valid=valid, marked=marked):
            return f"{name} {links(valid, marked)}"
        case Neighbourhood(valid=valid, marked=marked, state=state):
            return f"{name} {links(valid, marked)}, {state}"
        case Joined(node=node, join_point=join_point, incarnation=incarnation):
            return f"{name} {node} at {join_point}, incarnation {incarnation}"
        case JoinedConfirmed(node=node, incarnation=incarnation):
            return f"{name} {node}, incarnation {incarnation}"
        case JoinRefused(reason=reason):
            return f"{name}: {reason}"
        case PartitionInfo(partition=each, distance=distance, is_open=is_open):
            return (
                f"{name} {partition(each)} is {'there' if is_open else 'gone'}, {distance} from its detector"
            )
        case Log(entries=entries):
            return f"{name} {', '.join(map(_entry, entries))}"
        case Confirmed(confirmations=confirmations):
            return f"{name} {', '.join(map(_confirmation, confirmations))}"
        case Publications():
            return f"{name} {', '.join(map(_publication, publications(sent)))}"
        case Acknowledged(acknowledgements=acknowledgements):
            told = [f"{ack.publisher}#{_ranges(ack.ranges)}" for ack in acknowledgements]
            return f"{name} {', '.join(told)}"
        case Attached(generation=generation, stays=stays):
            before = f", was at {', '.join(stay.node or '?' for stay in stays)}" if stays else ""
            return f"{name} in generation {_generation(generation)}{before}"
        case SyncWanted(round=number) | Synced(round=number):
            return f"{name} round {number}"
        case Superseded(publisher=publisher, generation=generation):
            return f"{name} {publisher} by generation {_generation(generation[1])}"
        case _:
            return " ".join([name, *map(_value, msgspec.structs.astuple(sent))])


def partition(each: Partition) -> str:
    return f"{each.detector}.{each.number}<{' '.join(each.nodes)}>"


def _generation(generation: int) -> str:
    """Incarnation of the client, and how many home sessions it has had in it."""
    incarnation, count = divmod(generation, GENERATIONS_PER_INCARNATION)
    return f"{incarnation}.{count}"


def _entry(entry: LogEntry) -> str:
    text = f"{entry.index}: {entry.subscription}"
    if entry.body is not None:
        text += f' "{entry.body.selector}" [{" ".join(entry.body.path)}]'
    return text + (" ended" if entry.ended else "") + (" news" if entry.news else "")


def _confirmation(each: Confirmation) -> str:
    pending = f" but {' '.join(map(partition, each.pending))}" if each.pending else ""
    cut = f" after {' '.join(f'{name}#{last}' for name, last in each.cut.items())}" if each.cut else ""
    return f"{each.subscription}{pending}{cut}"


def _publication(each: Publication) -> str:
    vector = " ".join(f"{node}:{number if life else 'nil'}" for node, life, number in each.vector)
    text = f"{event(each.event)} ({vector})" if vector else event(each.event)
    if each.excluded:
        text += f" not for {' '.join(each.excluded)}"
    if each.tags:
        text += f" out of {' '.join(map(partition, each.tags))}"
    return text + (" best effort" if each.best_effort else "")


def _ranges(ranges: Iterable[tuple[int, int]]) -> str:
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)


def _value(value: object) -> str:
    match value:
        case Event():
            return event(value)
        case tuple():
            return "[" + " ".join(map(_value, value)) + "]"
        case str() if " " in value:
            return f'"{value}"'
        case _:
            return str(value)


def standing(overlay: Overlay) -> tuple[str, ...]:
    """What is worth a line when it changes: the state, the way into the tree, the frontier."""
    frontier = overlay.frontier
    reach = f"active {names(frontier.active)}"
    reach += f", down {names(frontier.down)}" if frontier.down else ""
    reach += f", barriers {names(frontier.barriers)}" if frontier.barriers else ""
    return f"is {overlay.state}", f"is {overlay.joining.state}", reach


def state_of(host: SimulatedHost) -> tuple[str, ...]:
    """A row of the table of states."""
    if host.node is None:
        return (host.name, "crashed", *["–"] * (len(STATE_COLUMNS) - 2))
    overlay = host.node.overlay
    frontier, topology = overlay.frontier, overlay.topology
    return (
        host.name,
        overlay.state,
        overlay.joining.state,
        str(overlay.identity.incarnation),
        names(overlay.sessions.up),
        names(frontier.active),
        names(frontier.down),
        names(frontier.barriers),
        links(topology.links(marked=False), topology.links(marked=True)),
    )
