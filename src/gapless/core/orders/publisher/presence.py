"""Who publishes at a broker, and what it took of them: the cut of a subscription that comes now (rule 3).

What entered from a publisher is remembered for a lease after it has left. A subscription that is heard of
later must be told what it has missed here, or events that the publisher sent elsewhere earlier, and that are
still under way, would come to it with a gap.

That a *guest* was here, whose own broker is another one, is durable: its events may have been promised by
that one, and after a crash this broker could not say what it took, but it must say that it took something.
"""

from __future__ import annotations

from collections.abc import Iterable

from gapless.core.effects import Effect, GuestTaken, Persist, Record
from gapless.core.messages.publisher import Stay, Taken
from gapless.core.model import Generation, Micros, NodeId
from gapless.core.orders.publisher.custody import Source
from gapless.core.orders.publisher.log import Missed


class Presence:
    """The publishers of one broker."""

    def __init__(self, me: NodeId, out: list[Effect]) -> None:
        self._me = me
        self._out = out
        self._guests: dict[Source, Generation] = {}
        """Guests whose stay is durable, with the generation of the last one."""
        self._recovered: dict[Source, None] = {}
        """Guests of an earlier life: when they left is not known."""
        self.present: dict[Source, tuple[NodeId, Generation]] = {}
        """The publishers that publish here now, with the client and the generation of each."""
        self.entered: dict[str, dict[str, Taken]] = {}
        """By topic and publisher the last event that this broker took from the publisher itself."""
        self._left: dict[Source, Micros] = {}
        """Publishers that publish here no longer, and since when; the first that left is the first here."""
        self._missed: dict[str, Missed] = {}
        """By topic what a subscription that comes now has missed: one copy for all that come at once."""

    def recover(self, records: Iterable[Record]) -> None:
        """Guests were here in an earlier life."""
        for record in records:
            if isinstance(record, GuestTaken) and record.generation is not None:
                source, (numbering, generation) = (record.topic, record.publisher), record.generation
                stay = Stay(self._me, 0, generation)
                taken = Taken(numbering, 0, generation, record.home, guest=True, forgotten=(stay,))
                self.entered.setdefault(record.topic, {})[record.publisher] = taken
                self._guests[source], self._recovered[source] = record.generation, None
            elif isinstance(record, GuestTaken):
                source = (record.topic, record.publisher)
                self._forget(source)
                del self._guests[source], self._recovered[source]

    def __contains__(self, source: Source) -> bool:
        return source in self.present

    def comes(self, source: Source, client: NodeId, generation: Generation) -> None:
        """The publisher publishes here, in that generation of its client."""
        self.present[source] = (client, generation)
        if self._left:
            self._left.pop(source, None)
        if self._recovered:
            self._recovered.pop(source, None)

    def guest(self, source: Source, generation: Generation, home: NodeId) -> None:
        """The publisher that comes is a guest."""
        if self._guests.get(source) != generation:
            self._guests[source] = generation
            self._out.append(Persist(GuestTaken(*source, generation, home)))

    def took(self, source: Source, taken: Taken) -> None:
        """This broker has taken events of the publisher, up to that one."""
        topic, publisher = source
        entered = self.entered.setdefault(topic, {})
        before = entered.get(publisher)
        entered[publisher] = taken if before is None or taken.continues(before) else taken.joined(before)
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

    def forget(self, now: Micros, *, lease: Micros) -> None:
        """Forget what entered from publishers that left a lease ago: what was under way of them then has
        arrived by now, so nobody can get it out of turn."""
        if self._recovered:
            self._left |= dict.fromkeys(self._recovered, now)
            self._recovered.clear()
        while self._left:
            source, since = next(iter(self._left.items()))
            if since > now - lease:
                break
            del self._left[source]
            self._forget(source)
            if source in self._guests:
                del self._guests[source]
                self._out.append(Persist(GuestTaken(*source)))
            self._missed.clear()

    def _forget(self, source: Source) -> None:
        topic, publisher = source
        del self.entered[topic][publisher]
        if not self.entered[topic]:
            del self.entered[topic]
