"""Messages of publisher order.

==================  =======================  =============================================================
message             from → to                meaning
==================  =======================  =============================================================
``Log``             both ways, all sessions  the next entries of the sender's log of subscriptions
``LogReceived``     broker → broker          I have your log up to here: publications may follow
``SyncWanted``      broker → broker          tell me when I have all that your other sides know by now
``Synced``          broker → broker          you have: my log, as streamed so far, lacks nothing of theirs
``Confirmed``       towards the client       all behind me know these subscriptions, but for ``pending``
``Attached``        client → its home        my events come on this session from now on
``AttachWanted``    home → client            too much had come before I could take it: attach anew and repeat
``Detached``        client → old home        they come on another one
``Publications``    away from the publisher  runs of events, each with what its sender knew
``Acknowledged``    back to the publisher    all targets behind me have these
``Superseded``      back to the publisher    I know a newer generation: forget the older ones
==================  =======================  =============================================================
"""

from __future__ import annotations

from typing import Annotated

import msgspec

from gapless.core.model import Event, Generation, Incarnation, Micros, NodeId, Partition, Path, SubscriptionId


class Body(msgspec.Struct, frozen=True, array_like=True):
    """A subscription, as it is told to somebody who does not know it."""

    client: NodeId
    topic: str
    selector: str
    path: Path
    """The way to the client; empty where it is not known."""
    home: NodeId = ""
    """The client's own broker, however far it is."""


class LogEntry(msgspec.Struct, frozen=True, array_like=True):
    """One line of the sender's log: its index there, and the body unless the receiver has told it."""

    index: int
    subscription: SubscriptionId
    body: Body | None = None
    ended: bool = False
    news: bool = False
    """From a client: the network need not know the subscription yet."""
    given_up: bool = False
    """It has ended because its client could not be reached."""
    rival: Incarnation = 0
    """Another life under the client's name: that which has ended it, or in spite of which it goes on."""


class Log(msgspec.Struct, frozen=True, array_like=True, tag="log"):
    """The next entries of the sender's log, in order: on every session before any publication."""

    entries: tuple[LogEntry, ...]
    last: bool = False
    """The last piece of a long log, which went at low priority: say when it is there."""


class LogReceived(msgspec.Struct, frozen=True, array_like=True, tag="log-ok"):
    """All pieces of a long log have arrived."""


class Guest(msgspec.Struct, frozen=True, array_like=True):
    """A client that publishes at another broker than before, and since which generation."""

    client: NodeId
    generation: int


class SyncWanted(msgspec.Struct, frozen=True, array_like=True, tag="sync"):
    """Answer when your log, as streamed to me, has all that your sides other than mine know by now."""

    round: int
    """The number of the question, to be given back; of two questions the later one has the higher number."""
    guests: tuple[Guest, ...] = ()
    """Whom it is asked for: they publish at you no longer."""


class Synced(msgspec.Struct, frozen=True, array_like=True, tag="synced"):
    """My log, as streamed so far, has everything that my sides other than yours knew when you asked."""

    round: int
    witnesses: tuple[NodeId, ...] = ()
    """What all of these have known at any time was told now, by one that has forgotten nothing, or was told
    by another what it had forgotten. Empty: there is no such one."""
    is_whole: bool = False
    """Whether everybody on my sides could be asked."""


NOBODY: NodeId = ""
"""Has known nothing at any time."""


class Stay(msgspec.Struct, frozen=True, array_like=True, order=True):
    """A publisher was at another broker than its own."""

    node: NodeId
    """Which one; an empty name: there may have been several."""
    ago: Micros
    """It has published nothing there since, for so long at least."""
    generation: int = 0
    """The generation in which it was there last, or a later one."""
    told_by: tuple[NodeId, ...] | None = None
    """That broker had started, and could not ask everybody what it had known before; it was told what all of
    these have known. ``None``: nothing is said of that."""
    life: Incarnation = 0
    """Since then: in this life of that broker."""


class Taken(msgspec.Struct, frozen=True, array_like=True, order=True):
    """The last event of a publisher that some broker took."""

    numbering: int
    sequence: int
    generation: int = 0
    """The generation in which the publisher was then."""
    home: NodeId = ""
    """The publisher's own broker: the promise goes by it, whoever took the event. Empty: one of several, or
    it may have had another one before."""
    guest: bool = False
    """Whether another broker took it."""
    forgotten: tuple[Stay, ...] = ()
    """Brokers that know that they took events of it as a guest, and no longer how many."""

    @property
    def position(self) -> tuple[int, int]:
        """Where it is in what the publisher has published."""
        return self.numbering, self.sequence

    @property
    def moment(self) -> tuple[int, int, int]:
        """When it was taken: of two generations all of the later one was taken later."""
        return self.numbering, self.generation, self.sequence

    def continues(self, other: Taken) -> bool:
        """Whether the same broker took it after the other, with nothing in between."""
        return self.generation == other.generation and self.home == other.home and not other.forgotten

    def joined(self, other: Taken) -> Taken:
        """The later one. If they have different homes, what was promised before it may go by either."""
        later = max(self, other)
        generation = max(self, other, key=lambda each: each.moment).generation
        forgotten = tuple(dict.fromkeys((*self.forgotten, *other.forgotten)))
        joined = msgspec.structs.replace(later, generation=generation, forgotten=forgotten)
        return joined if self.home == other.home else msgspec.structs.replace(joined, home="", guest=True)


class Confirmation(msgspec.Struct, frozen=True, array_like=True):
    """All behind the sender have the subscription except ``pending``; may be repeated with new values."""

    subscription: SubscriptionId
    pending: tuple[Partition, ...]
    cut: dict[str, Taken]
    """The last event of each publisher that a broker took before it knew the subscription."""
    present: tuple[str, ...] = ()
    """The publishers of the cut that are still where it was taken: their start is exact."""
    aware: tuple[tuple[NodeId, Incarnation], ...] = ()
    """Of the brokers that could not ask everybody what they had known before they started those that know it
    now, and in which life: what they took until then is in the cut."""

    def says_as(self, other: Confirmation | None) -> bool:
        """Whether this is no news after the other: who has left since need not be told."""
        if other is None or self.pending != other.pending or self.cut != other.cut:
            return False
        return all(each in other.aware for each in self.aware)


class Confirmed(msgspec.Struct, frozen=True, array_like=True, tag="confirmed"):
    """Confirmations of several subscriptions."""

    confirmations: tuple[Confirmation, ...]


class Attached(msgspec.Struct, frozen=True, array_like=True, tag="attached"):
    """This session is the client's home session."""

    generation: int
    stays: tuple[Stay, ...] = ()
    """Where else it has published."""


class AttachWanted(msgspec.Struct, frozen=True, array_like=True, tag="attach"):
    """More of the client's events had come than could wait: attach anew and repeat them."""


class Detached(msgspec.Struct, frozen=True, array_like=True, tag="detached"):
    """This session is the client's home session no longer."""


class Header(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What the events of a run have in common: whence they come, and what their sender knew of them."""

    generation: Generation
    entry: NodeId = ""
    """The broker that took them from their publisher; empty on the way there."""
    home: NodeId = ""
    """The broker of the publisher's client, which is their entry unless that failed."""
    stays: tuple[Stay, ...] = ()
    """Where else than at its own broker the publisher was, or is."""
    epoch: int = 0
    """How long the sender's log was when it first handled them."""
    excluded: tuple[SubscriptionId, ...] = ()
    """Subscriptions that some node on the way did not know: never delivered for them."""
    path: tuple[tuple[NodeId, Incarnation], ...] = ()
    """The last 3δ+1 brokers that they came through; incarnation 0: bypassed."""
    tags: tuple[Partition, ...] = ()
    """Partitions that they came out of: not for subscriptions that were confirmed without them."""
    relaxed: bool = False
    """The topic lets them go on beyond δ failures, marked."""
    best_effort: bool = False
    """They have gone on beyond δ failures."""


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Events of one publisher on their way together, in ascending order."""

    header: Header
    events: Annotated[tuple[Event, ...], msgspec.Meta(min_length=1)]
    numbers: tuple[tuple[int, ...], ...]
    """For each event the numbers that the brokers of the path gave it: with the path, its vector."""


class Publications(msgspec.Struct, frozen=True, array_like=True, tag="pubs"):
    """Runs, in the order in which the sender first handled them."""

    runs: tuple[Run, ...]

    @property
    def count(self) -> int:
        """How many events there are in all."""
        return sum(len(run.events) for run in self.runs)


class Acknowledgement(msgspec.Struct, frozen=True, array_like=True):
    """Sequences of one publisher's events, of one generation, as ranges with both ends included."""

    topic: str
    publisher: str
    generation: Generation
    ranges: tuple[tuple[int, int], ...]


class Acknowledged(msgspec.Struct, frozen=True, array_like=True, tag="acks"):
    """All targets behind the sender have these events."""

    acknowledgements: tuple[Acknowledgement, ...]
    given_up: tuple[SubscriptionId, ...] = ()
    """To a client: subscriptions that get nothing of what is acknowledged from now on, while others may still
    think they are there. What the client publishes elsewhere must not go to them, or they would miss
    something in between."""
    told_by: tuple[NodeId, ...] | None = None
    """To a client: the sender has started, and could not ask everybody what it had known before; it was
    told what all of these have known. What it acknowledges may be promised to others, which it lacks."""


class Superseded(msgspec.Struct, frozen=True, array_like=True, tag="superseded"):
    """The sender has seen this newer generation of the publisher."""

    topic: str
    publisher: str
    generation: Generation
    refused: bool = False
    """The sender has taken nothing of what it answers; otherwise it may have, and passed it on."""
