"""A broker's topics: serve clients, make durable, tell everybody.

Peers that are told: every broker with a session, and every client that has asked. Only brokers are believed;
clients may ask for something, and get an answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from gapless.core.effects import Effect, Persist, Record, Send, TopicDeclared
from gapless.core.messages import (
    CreateTopic,
    DeleteTopic,
    TopicAnswer,
    TopicMessage,
    TopicsTold,
    TopicsWanted,
)
from gapless.core.model import Declaration, Micros, NodeId, Topic
from gapless.core.orders.base import Part
from gapless.core.overlay.overlay import Overlay
from gapless.core.topics.rules import VERSION_MAX, canonical, check_topic, difference
from gapless.core.topics.table import DELETED_MAX, TOPICS_MAX, Table, pieces

WAITING_MAX = 1_024
"""Requests that wait until this broker has joined."""


class BrokerTopics(Part):
    """The table of one broker."""

    messages = (TopicsWanted, TopicsTold, CreateTopic, DeleteTopic, TopicAnswer)

    def __init__(
        self, overlay: Overlay, out: list[Effect], *, records: Iterable[Record], orders: Collection[str]
    ) -> None:
        super().__init__(overlay, out)
        self.table = Table()
        for record in records:
            if isinstance(record, TopicDeclared):
                self.table.learn(record.declaration)
        self._orders = orders
        self._told: dict[NodeId, None] = {}
        """Peers that have the table and get the news."""
        self._waiting: list[tuple[NodeId, TopicsWanted | CreateTopic | DeleteTopic]] = []

    def session_up(self, peer: NodeId, now: Micros) -> None:
        """Another broker is told the whole table; a client asks for it."""
        if not self._is_leaf(peer):
            self._told[peer] = None
            if len(self.table):
                self._tell_all(peer)

    def session_down(self, peer: NodeId, now: Micros) -> None:
        """Who comes back is told everything again."""
        self._told.pop(peer, None)
        self._waiting = [each for each in self._waiting if each[0] != peer]

    def _is_leaf(self, peer: NodeId) -> bool:
        return self.overlay.sessions.up[peer].identity.is_leaf

    def _tell_all(self, peer: NodeId) -> None:
        self.out += [Send(peer, piece) for piece in pieces(self.table)]

    # -- messages ----------------------------------------------------------------------------------------

    def message(self, peer: NodeId, message: TopicMessage, now: Micros) -> None:
        """Believe a broker, note what a client asks for."""
        match message:
            case TopicsTold(declarations=declarations):
                if not self._is_leaf(peer):
                    self._learn(declarations, peer)
            case TopicsWanted() | CreateTopic() | DeleteTopic():
                if self._is_leaf(peer):
                    self._note(peer, message)
            case TopicAnswer():
                pass  # to clients

    def _learn(self, declarations: Sequence[Declaration], teller: NodeId | None = None) -> None:
        """Make news durable and pass them on."""
        news = [each for each in declarations if self.table.learn(each)]
        self.out += [Persist(TopicDeclared(each)) for each in news]
        if news:
            told = [peer for peer in self._told if peer != teller]
            self.out += [Send(peer, piece) for piece in pieces(news) for peer in told]

    def _note(self, leaf: NodeId, message: TopicsWanted | CreateTopic | DeleteTopic) -> None:
        if len(self._waiting) < WAITING_MAX:
            self._waiting.append((leaf, message))
        elif not isinstance(message, TopicsWanted):
            self._answer(leaf, message.request, "the broker is still joining; too many requests wait for it")

    # -- clients -----------------------------------------------------------------------------------------

    def serve(self, now: Micros) -> None:
        """Serve clients, as soon as this broker has joined: then it has heard the table of its join point."""
        if not self._waiting or not self.overlay.is_joined:
            return
        waiting, self._waiting = self._waiting, []
        for leaf, message in waiting:
            match message:
                case TopicsWanted():
                    self._told[leaf] = None
                    self._tell_all(leaf)
                case CreateTopic(request=request, topic=topic):
                    self._answer(leaf, request, self._create(topic, now))
                case DeleteTopic(request=request, name=name, again=again):
                    self._answer(leaf, request, self._delete(name, now, again=again))

    def _answer(self, leaf: NodeId, request: int, error: str) -> None:
        self.out.append(Send(leaf, TopicAnswer(request, error)))

    def _create(self, topic: Topic, now: Micros) -> str:
        """Declare a topic; the error, if there is one.

        What is declared already is declared again: a deletion that this broker has not heard of is older.
        """
        flaw = check_topic(topic, self._orders)
        if flaw is not None:
            return flaw
        topic = canonical(topic)
        declared = self.table.topic(topic.name)
        if declared is not None and declared != topic:
            return difference(declared, topic)
        if declared is None and not self.table.has_room:
            return f"there are {TOPICS_MAX:,} topics already, and there can be no more; delete some"
        return self._declare(topic, now)

    def _delete(self, name: str, now: Micros, *, again: bool) -> str:
        known = self.table.get(name)
        if known is None or (known.deleted and not again):
            return f"there is no topic {name[:255]!r}"
        if not known.deleted and not self.table.can_delete:
            return (
                f"{DELETED_MAX:,} names of deleted topics are remembered already, and there can be no more;"
                " a topic that is created under one of them makes room"
            )
        return self._declare(Topic(name), now, deleted=True)

    def _declare(self, topic: Topic, now: Micros, *, deleted: bool = False) -> str:
        known = self.table.get(topic.name)
        version = max(now, 1, known.version + 1 if known is not None else 0)
        if version > VERSION_MAX:
            return f"the name {topic.name!r} has had too many versions; use another one"
        self._learn([Declaration(topic, version, deleted)])
        return ""
