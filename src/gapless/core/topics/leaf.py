"""A client's topics: ask for them, hear what becomes of them, ask for changes.

A client that was given its topics when it was made does not ask. All others ask every broker they have a
session with, and know the topics when the first of them has told all. Requests go to the home of the client;
when that changes before the answer has come, they go to the next one: to declare twice what is declared, or
to delete what was just deleted, is no mistake.
"""

from __future__ import annotations

from collections.abc import Callable

from gapless.core.effects import Answered, Effect, Send, TopicsChanged
from gapless.core.messages import (
    CreateTopic,
    DeleteTopic,
    TopicAnswer,
    TopicMessage,
    TopicsTold,
    TopicsWanted,
)
from gapless.core.model import Micros, NodeId, Topic
from gapless.core.orders.base import Part
from gapless.core.overlay.overlay import Overlay
from gapless.core.topics.table import Table


class LeafTopics(Part):
    """What one client knows of the topics, and what it has asked for."""

    messages = (TopicsWanted, TopicsTold, CreateTopic, DeleteTopic, TopicAnswer)

    def __init__(
        self,
        overlay: Overlay,
        out: list[Effect],
        *,
        topics: dict[str, Topic],
        given: bool,
        gone: Callable[[Topic, Topic | None, Micros], None],
    ) -> None:
        super().__init__(overlay, out)
        self.known = given
        """Whether this client knows which topics there are."""
        self.pending: dict[int, CreateTopic | DeleteTopic] = {}
        """Requests that are not answered."""
        self._topics = topics
        self._asks = not given
        self._gone = gone
        self._table = Table()
        self._home: NodeId | None = None

    def session_up(self, peer: NodeId, now: Micros) -> None:
        """Ask for the topics."""
        if self._asks:
            self.out.append(Send(peer, TopicsWanted()))

    def frontier_changed(self, now: Micros) -> None:
        """Another home has to be asked; the last one may have done it and not said so."""
        active = self.overlay.frontier.active
        home = active[0] if active else None
        if home == self._home:
            return
        self._home = home
        for request in list(self.pending.values()):
            if isinstance(request, DeleteTopic):
                self.pending[request.request] = DeleteTopic(request.request, request.name, again=True)
        if home is not None:
            self.out += [Send(home, request) for request in self.pending.values()]

    def ask(self, request: CreateTopic | DeleteTopic) -> None:
        """Ask the home, now or when there is one."""
        self.pending[request.request] = request
        if self._home is not None:
            self.out.append(Send(self._home, request))

    def message(self, peer: NodeId, message: TopicMessage, now: Micros) -> None:
        """Learn topics and the fate of requests."""
        match message:
            case TopicsTold():
                self._learn(message, now)
            case TopicAnswer(request=request, error=error):
                if self.pending.pop(request, None) is not None:
                    self.out.append(Answered(request, error))
            case TopicsWanted() | CreateTopic() | DeleteTopic():
                pass  # to brokers

    def _learn(self, message: TopicsTold, now: Micros) -> None:
        changed = not (self.known or message.more)
        self.known = self.known or not message.more
        for declaration in message.declarations:
            name = declaration.topic.name
            if not self._table.learn(declaration):
                continue
            before, after = self._topics.get(name), self._table.topic(name)
            if before == after:
                continue
            changed = True
            if after is not None:
                self._topics[name] = after
            else:
                del self._topics[name]
            if before is not None:
                self._gone(before, after, now)
        if changed:
            self.out.append(TopicsChanged())
