"""Who publishes at a broker, and what it took of them: the cut of a subscription that comes now (rule 3).

What entered from a publisher is remembered for a lease after it has left. A subscription that is heard of
later must be told what it has missed here, or events that the publisher sent elsewhere earlier, and that are
still under way, would come to it with a gap.
"""

from __future__ import annotations

from gapless.core.messages.publisher import Taken
from gapless.core.model import Generation, Micros, NodeId
from gapless.core.orders.publisher.custody import Source
from gapless.core.orders.publisher.log import Missed


class Presence:
    """The publishers of one broker."""

    def __init__(self) -> None:
        self.present: dict[Source, tuple[NodeId, Generation]] = {}
        """The publishers that publish here now, with the client and the generation of each."""
        self.entered: dict[str, dict[str, Taken]] = {}
        """By topic and publisher the last event that this broker took from the publisher itself."""
        self._left: dict[Source, Micros] = {}
        """Publishers that publish here no longer, and since when; the first that left is the first here."""
        self._missed: dict[str, Missed] = {}
        """By topic what a subscription that comes now has missed: one copy for all that come at once."""

    def __contains__(self, source: Source) -> bool:
        return source in self.present

    def comes(self, source: Source, client: NodeId, generation: Generation) -> None:
        """The publisher publishes here, in that generation of its client."""
        self.present[source] = (client, generation)
        if self._left:
            self._left.pop(source, None)

    def took(self, source: Source, taken: Taken) -> None:
        """This broker has taken events of the publisher, up to that one."""
        topic, publisher = source
        entered = self.entered.setdefault(topic, {})
        entered[publisher] = taken.joined(entered.get(publisher, taken))
        self._missed.clear()

    def leaves(self, source: Source, now: Micros) -> None:
        """The publisher publishes elsewhere: its client says so, or is gone, or a later generation has come.
        What it publishes next is not what follows the last event that entered here."""
        if self.present.pop(source, None) is not None:
            self._missed.clear()
            if source[1] in self.entered.get(source[0], ()):
                self._left[source] = now

    def of(self, client: NodeId, before: int | None) -> list[Source]:
        """The publishers of a client that publish here, or that came in an earlier generation than that."""
        return [
            source
            for source, (who, (_, came_in)) in self.present.items()
            if who == client and (before is None or came_in < before)
        ]

    def missed(self, topic: str) -> Missed:
        """What a subscription that comes now has missed here, and who publishes here at this moment."""
        found = self._missed.get(topic)
        if found is None:
            here = {publisher: who for (where, publisher), who in self.present.items() if where == topic}
            found = self._missed[topic] = Missed(dict(self.entered.get(topic, ())), here)
        return found

    def still_present(self, topic: str, missed: Missed) -> list[str]:
        """Which publishers have published here, and nowhere else, since that moment."""
        return [each for each, who in missed.present.items() if self.present.get((topic, each)) == who]

    def forget(self, before: Micros) -> None:
        """Forget what entered from publishers that left before a moment: what was under way of them then has
        arrived by now, so nobody can get it out of turn."""
        while self._left:
            (topic, publisher), since = next(iter(self._left.items()))
            if since > before:
                break
            del self._left[topic, publisher]
            del self.entered[topic][publisher]
            if not self.entered[topic]:
                del self.entered[topic]
            self._missed.clear()
