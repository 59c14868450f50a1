"""How the golden traces write what nodes know, store and send."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from gapless.core.effects import LinkAdded, LinkRemoved, Record
from gapless.core.messages import (
    Joined,
    JoinedConfirmed,
    JoinRefused,
    Message,
    Neighbourhood,
    PartialTopology,
)
from gapless.core.model import Event, Link
from gapless.core.overlay.overlay import Overlay
from gapless.simulation.world import SimulatedHost

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
        case _:
            return " ".join([name, *map(_value, msgspec.structs.astuple(sent))])


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
