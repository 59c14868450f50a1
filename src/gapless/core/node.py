"""What brokers and clients have in common: an overlay, some orders, and one way to step.

A step takes a batch of inputs and the time, and returns the effects of the whole batch. Within the batch
everything is handled in order, one input at a time; a change of sessions is told to the orders before the
next input is looked at. What is gathered during the batch (events for a peer, confirmations) leaves at its
end, so that the cost of a message is shared by many events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Generic, TypeVar

from gapless.core.effects import Disconnect, Effect, NameTaken, Record
from gapless.core.events import (
    ConnectFailed,
    Input,
    MessageReceived,
    SessionDown,
    SessionUp,
    SuspectRequested,
)
from gapless.core.limits import Limits
from gapless.core.messages import Message, OverlayMessage, Ping
from gapless.core.model import Identity, Incarnation, Micros, NodeId, Refusal
from gapless.core.orders.base import Order, Part
from gapless.core.overlay.overlay import Overlay
from gapless.core.overlay.sessions import Timing


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeConfig:
    """What a node is told when it is made."""

    node: NodeId
    delta: int
    home: NodeId | None = None
    """The broker of a client; ``None`` for a broker."""
    join_points: tuple[NodeId, ...] = ()
    """Brokers to join through."""
    founder: bool = False
    """The first broker of a network, at each of its starts: a member without asking anybody."""
    least_incarnation: Incarnation = 1
    """Where incarnations begin without a store: a clock's reading, if an earlier store may be lost, so that
    no number is ever used twice."""
    take_over: bool = False
    """Whether a client may end the session of another live client of its name."""
    limits: Limits = field(default_factory=Limits)
    timing: Timing = field(default_factory=Timing)

    def __post_init__(self) -> None:
        if not self.node:
            raise ValueError("a node needs a name")
        if self.delta < 0:
            raise ValueError(f"delta must be 0 or more, not {self.delta}")


OrderT = TypeVar("OrderT", bound=Order)
PartT = TypeVar("PartT", bound=Part)


class Node(Generic[OrderT]):
    """A state machine: inputs and the time go in, effects come out."""

    def __init__(
        self,
        config: NodeConfig,
        records: Iterable[Record],
        *,
        orders: Sequence[Callable[[Overlay, list[Effect]], OrderT]],
        rng: Random,
    ) -> None:
        self.config = config
        self._out: list[Effect] = []
        self._wake_at: Micros | None = None
        self._is_over = False  # its name was taken
        self.overlay = Overlay(
            config.node,
            delta=config.delta,
            home=config.home,
            join_points=config.join_points,
            founder=config.founder,
            least_incarnation=config.least_incarnation,
            take_over=config.take_over,
            timing=config.timing,
            records=records,
            rng=rng,
            out=self._out,
        )
        self._strangers: dict[NodeId, list[Message]] = {}
        """Sessions with brokers that are no neighbours yet, and what they have sent to the parts: a broker
        that joins knows its neighbours before they know it, and says nothing twice."""
        self._parts: list[Part] = []
        self._part_of: dict[type, Part] = {}
        self._part_wakes: dict[Part, Micros | None] = {}
        made = [self._add(make(self.overlay, self._out)) for make in orders]
        self.orders: dict[str, OrderT] = {order.name: order for order in made}

    def _add(self, part: PartT) -> PartT:
        """Make it a part of this node."""
        self._parts.append(part)
        self._part_of |= dict.fromkeys(part.messages, part)
        return part

    @property
    def identity(self) -> Identity:
        """What this node says of itself when a session is set up."""
        return self.overlay.identity

    @property
    def is_awaited(self) -> bool:
        """Whether others may wait for this node if it stops now, though it has told them that it does."""
        return False

    def start(self, now: Micros) -> list[Effect]:
        """Begin this incarnation."""
        self.overlay.start(now)
        return self._take_effects(now)

    def step(self, inputs: Sequence[Input], now: Micros) -> list[Effect]:
        """Handle a batch of inputs, and whatever deadline has passed."""
        if self._is_over:
            return []
        idle = True
        for each in inputs:
            if type(each) is not MessageReceived:
                self._on_input(each, now)
                idle = False
            elif type(each.message) is Ping:
                self._heard(each.peer, now)
            else:
                self._on_message(each, now)
                idle = False
        if self._wake_at is not None and self._wake_at <= now:
            self._on_deadline(now)
        elif idle:
            return []
        return self._take_effects(now)

    def wake_at(self) -> Micros | None:
        """The earliest deadline; the driver then calls ``step``, if only with an empty batch."""
        return self._wake_at

    def _take_effects(self, now: Micros) -> list[Effect]:
        """End the batch: flush what was gathered, note the next deadline, hand the effects over."""
        self._flush(now)
        self._end_batch(now)
        moment = self.overlay.wake_at
        for part_moment in self._part_wakes.values():
            if part_moment is not None and (moment is None or part_moment < moment):
                moment = part_moment
        self._wake_at = moment if not self._is_over else None
        effects = self._out[:]
        self._out.clear()
        return effects

    def _flush(self, now: Micros) -> None:
        for part in self._parts:
            if part.touched:
                part.touched = False
                part.flush(now)
                self._part_wakes[part] = part.wake_at()

    def _end_batch(self, now: Micros) -> None:
        """The parts have said all they had to say about the batch."""

    # -- inputs ----------------------------------------------------------------------------------------

    def _heard(self, peer: NodeId, now: Micros) -> bool:
        """Note a sign of life; False when the session was closed from this side meanwhile."""
        session = self.overlay.sessions.up.get(peer)
        if session is None:
            return False
        session.heard_at = now
        session.has_been_heard = True
        return True

    def _on_message(self, received: MessageReceived, now: Micros) -> None:
        peer, message = received.peer, received.message
        if not self._heard(peer, now):
            return
        part = self._part_of.get(type(message))
        if part is None:
            assert isinstance(message, OverlayMessage), f"nobody handles {type(message).__name__}"
            self.overlay.message(peer, message, now)
            if self.overlay.mended:
                self._mend(now)
            if self._strangers:
                self._introduce(now)
            self._refresh(now)
        elif peer in self.overlay.outdated:
            pass  # it says all again once it lives in the tree of now
        elif peer in self._strangers:
            self._keep(peer, message)
        else:
            self._hand_over(part, peer, message, now)

    def _hand_over(self, part: Part, peer: NodeId, message: Message, now: Micros) -> None:
        part.touched = True
        part.message(peer, message, now)
        if self.overlay.has_changed:
            self._refresh(now)

    def _keep(self, stranger: NodeId, message: Message) -> None:
        """Until it is introduced. If too much comes, its next session begins with all of it again."""
        kept = self._strangers[stranger]
        if len(kept) < self.config.limits.strangers:
            kept.append(message)
        else:
            self.overlay.dismiss(stranger, "it says more than can wait until it is a neighbour")

    def _on_input(self, each: Input, now: Micros) -> None:
        match each:
            case SessionUp(identity=identity, dialed=dialed):
                if self.overlay.session_up(identity, dialed, now):
                    self._strangers[identity.node] = []
                    self._introduce(now)
                self._refresh(now)
            case SessionDown(taken=True, reason=reason) if self.overlay.is_leaf:
                self._name_taken(reason)
            case SessionDown(peer=peer):
                if peer in self.overlay.sessions.up:
                    self.overlay.session_down(peer, now)
                    self._session_gone(peer, now)
            case ConnectFailed(peer=peer, refusal=Refusal.NAME):
                if self.overlay.is_leaf and self.overlay.sessions.has_been_up:
                    self._name_taken(f"another client named {self.overlay.me} is connected to {peer}")
                else:
                    self.overlay.sessions.dial_refused(peer, now)
                    self._refresh(now)
            case ConnectFailed(peer=peer):
                self.overlay.sessions.dial_failed(peer, now)
                self._refresh(now)
            case SuspectRequested(peer=peer):
                if peer in self.overlay.sessions.up:
                    self.overlay.suspect(peer, now)
                    self._session_gone(peer, now)
            case _:
                self._on_request(each, now)

    def _name_taken(self, reason: str) -> None:
        """Another client has this one's name now: end, or the two would undo each other's work."""
        self._out += [Disconnect(peer, reason) for peer in self.overlay.sessions.up]
        self._out.append(NameTaken(reason))
        self._is_over = True

    def _on_request(self, request: Input, now: Micros) -> None:
        """A request of the application; only clients serve one."""
        raise TypeError(f"{self.overlay.me} does not serve {type(request).__name__}")

    def _on_deadline(self, now: Micros) -> None:
        for peer in self.overlay.deadline(now):
            self._session_gone(peer, now)
        if self.overlay.is_waiting:
            self._refresh(now)
        for part in self._parts:
            moment = part.wake_at()
            if moment is not None and moment <= now:
                part.touched = True
                part.deadline(now)

    def _introduce(self, now: Micros) -> None:
        """Tell the parts of sessions with clients and neighbours; others have no business with them.

        A broker that is joining has a session with its join point before it is a neighbour. What it has said
        until then counts from now on.
        """
        for peer in list(self._strangers):
            if peer in self.overlay.outdated:
                self._strangers[peer].clear()
                continue
            if peer in self.overlay.topology or self.overlay.sessions.up[peer].identity.is_leaf:
                said = self._strangers.pop(peer)
                for part in self._parts:
                    part.touched = True
                    part.session_up(peer, now)
                if said:
                    self._refresh(now)
                for message in said:
                    self._hand_over(self._part_of[type(message)], peer, message, now)

    def _mend(self, now: Micros) -> None:
        """Others have taken the places of brokers that are gone: let the parts follow, before anything is
        sent on the new tree. The centre begins anew with those on whose way the broker was, and they with it;
        and whoever is no neighbour any more has no business with the parts."""
        overlay = self.overlay
        removals, overlay.mended = overlay.mended, []
        for removal in removals:
            for part in self._parts:
                part.touched = True
                part.broker_removed(removal, now)
            centre = removal.centre
            if (
                centre != overlay.me
                and not overlay.is_leaf
                and removal.is_between(overlay.topology.way(centre))
            ):
                self._begin_anew(centre, now)
        for peer, session in list(overlay.sessions.up.items()):
            if session.identity.is_leaf or peer in self._strangers:
                continue
            if peer not in overlay.topology or overlay.removing.is_outdated(peer):
                overlay.part_with(peer, now)
                self._session_gone(peer, now)
        overlay.refresh(now)
        for part in self._parts:
            part.frontier_changed(now)

    def _begin_anew(self, peer: NodeId, now: Micros) -> None:
        """Let the parts say again all that they have said to the peer: it has not listened."""
        if peer in self.overlay.sessions.up and peer not in self._strangers:
            for part in self._parts:
                part.session_down(peer, now)
                part.session_up(peer, now)

    def _session_gone(self, peer: NodeId, now: Micros) -> None:
        if peer in self._strangers:
            del self._strangers[peer]
        else:
            for part in self._parts:
                part.touched = True
                part.session_down(peer, now)
        self._refresh(now)

    def _refresh(self, now: Micros) -> None:
        if self.overlay.refresh(now):
            for part in self._parts:
                part.touched = True
                part.frontier_changed(now)
