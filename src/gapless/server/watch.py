"""What a broker's operator gets to see: it counts what the driver does and logs what changes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from gapless.core.messages import Message
from gapless.core.model import Identity, NodeId, Partition, Refusal
from gapless.core.overlay.frontier import Frontier
from gapless.server.connection import Connection
from gapless.server.driver import Driver
from gapless.server.logs import Log
from gapless.server.metrics import Figures
from gapless.server.observer import Observer
from gapless.server.status import Reading, Reporter


class BrokerObserver(Observer):
    """Observes the driver of one broker."""

    def __init__(self, log: Log, figures: Figures, driver: Driver, *, durable: bool) -> None:
        self.reading = Reading(driver, figures)
        self.joined = asyncio.Event()
        """Set when the broker is a full member of its network, and no peer takes it for a second one of its
        name."""
        self._log = log
        self._figures = figures
        self._reporter = Reporter(self.reading, durable)
        self._sessions: dict[NodeId, Connection] = {}
        self._frontier: Frontier | None = None
        self._partitions: dict[NodeId, Partition] = {}
        self._unreached: dict[NodeId, None] = {}
        self._refusals: dict[NodeId, tuple[Refusal, str]] = {}  # peers that give this broker no session

    # -- sessions ----------------------------------------------------------------------------------------

    def session_up(self, identity: Identity, connection: Connection, *, dialed: bool) -> None:
        """Somebody is there."""
        peer, address = identity.node, connection.peer_address
        self._sessions[peer] = connection
        self._unreached.pop(peer, None)
        self._refusals.pop(peer, None)
        if identity.is_leaf:
            self._log.noise("client attached", peer=peer, address=address, home=identity.home)
        else:
            self._log.noise(
                "session up", peer=peer, address=address, dialed=dialed, via=connection.via or None
            )

    def session_down(self, peer: NodeId, reason: str) -> None:
        """Somebody is gone."""
        connection = self._sessions.pop(peer, None)
        if connection is None:
            return
        self._log.noise("client left" if connection.is_client else "session down", peer=peer, reason=reason)
        figures = self._figures
        figures.sessions_lost += 1
        figures.bytes_in += connection.bytes_in
        figures.bytes_out += connection.bytes_out
        figures.forget(peer)

    def connect_failed(self, peer: NodeId, reason: str, refusal: Refusal | None = None) -> None:
        """Say it once, until the peer is there again."""
        if refusal is not None and self._refusals.get(peer) != (refusal, reason):
            self._refusals[peer] = (refusal, reason)
            self._log.warn("no session", peer=peer, reason=reason)
        elif refusal is None:
            self._refusals.pop(peer, None)
        if peer not in self._unreached and refusal is None:
            self._unreached[peer] = None
            self._log.noise("not reached", peer=peer, reason=reason)

    @property
    def dispute(self) -> str:
        """Why this broker should not run at all; empty: nobody says so. A peer has a live session with
        another broker of its name, or whoever answers belongs to another network."""
        found = [reason for refusal, reason in self._refusals.values() if refusal is Refusal.NAME]
        if not any(not each.is_client for each in self._sessions.values()):
            found += [reason for refusal, reason in self._refusals.values() if refusal is Refusal.NETWORK]
        overlay = self.reading.overlay
        if not overlay.is_joined:
            found.append(overlay.joining.is_member_elsewhere)
        return found[0] if found else ""

    def refused(self, who: str, reason: str) -> None:
        """Somebody was sent away."""
        self._figures.refusals += 1
        self._log.noise("refused", address=who, reason=reason)

    # -- work --------------------------------------------------------------------------------------------

    def received(self, peer: NodeId, messages: Sequence[Message]) -> None:
        """Count."""
        self._figures.received(peer, messages, is_client=self._is_client(peer))

    def sent(self, peer: NodeId, messages: Sequence[Message]) -> None:
        """Count."""
        self._figures.sent(peer, messages, is_client=self._is_client(peer))

    def _is_client(self, peer: NodeId) -> bool:
        connection = self._sessions.get(peer)
        return connection is not None and connection.is_client

    def stepped(self, inputs: int, seconds: float) -> None:
        """Count."""
        self._figures.batch_size.add(inputs)
        self._figures.step_seconds.add(seconds)

    def performed(self) -> None:
        """Look whether something has changed that an operator cares about."""
        overlay = self.reading.overlay
        if overlay.frontier is self._frontier:
            return
        self._frontier = overlay.frontier
        self._note_partitions()
        if (
            overlay.is_joined
            and not self.joined.is_set()
            and not overlay.frontier.untried
            and not self.dispute
        ):
            self.joined.set()
            self._log.say("joined", state=overlay.state)

    def _note_partitions(self) -> None:
        overlay = self.reading.overlay
        now = dict(overlay.partitions.own)
        for node, each in self._partitions.items():
            if now.get(node) != each:
                self._log.noise("partition closed", number=each.number, nodes=",".join(each.nodes))
        for node, each in now.items():
            if self._partitions.get(node) != each:
                kind = "island" if overlay.partitions.is_island(each, overlay.frontier) else "barrier"
                self._log.noise("partition open", number=each.number, nodes=",".join(each.nodes), kind=kind)
        self._partitions = now

    def status(self) -> dict[str, Any]:
        """For ``gapless status``."""
        return self._reporter.report()
