"""How the records of a node are kept, so that nothing grows for ever.

What is true once is state: the incarnation, the links, the topics, the publishers that a client has. The
events that a publisher retains are a log for each topic and publisher, in which the position is the sequence;
a confirmation drops its beginning, and a publisher that retains nothing (best effort) still keeps its number,
as the place where its log would go on.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import assert_never

import msgspec

from gapless.core.effects import (
    BrokerRemoved,
    ClientAway,
    ConfirmedWithout,
    EventsConfirmed,
    EventsRetained,
    Founded,
    GuestTaken,
    IncarnationStarted,
    JoinedAt,
    LeaveWanted,
    LinkAdded,
    LinkRemoved,
    NetworkBound,
    NumberingBegun,
    PartlyKnown,
    PublisherTaken,
    Record,
    SubscriptionGivenUp,
    SubscriptionPurged,
    TopicDeclared,
)
from gapless.core.model import Event
from gapless.storage.contract import Store
from gapless.storage.plan import Append, Change, Delete, Put, Truncate

STATE = "record "
"""What the keys begin with."""
FATES = f'{STATE}["fate"'
"""What version 0.1.0 kept of brokers that had left; nothing rests on it any more."""
EVENTS = "events "
"""What the names of the logs begin with."""
EVENTS_AT_A_TIME = 1000

_encode = msgspec.msgpack.Encoder().encode
_kept = msgspec.msgpack.Decoder(
    IncarnationStarted
    | LinkAdded
    | LeaveWanted
    | BrokerRemoved
    | JoinedAt
    | PartlyKnown
    | Founded
    | NetworkBound
    | PublisherTaken
    | NumberingBegun
    | ConfirmedWithout
    | TopicDeclared
    | SubscriptionGivenUp
    | ClientAway
    | GuestTaken
)
_event = msgspec.msgpack.Decoder(Event)
_source = msgspec.json.Decoder(tuple[str, str])


def changes(records: Iterable[Record]) -> Iterator[Change]:
    """The changes that make the records durable."""
    for record in records:
        yield from _changes(record)


def _changes(record: Record) -> Iterator[Change]:
    match record:
        case EventsRetained(events=events):
            log = _log(events[0].topic, events[0].publisher)
            for event in events:
                yield Append(log, _encode(event), at=event.sequence)
        case EventsConfirmed(topic=topic, publisher=publisher, sequence=sequence):
            yield Truncate(_log(topic, publisher), sequence)
        case IncarnationStarted():
            yield Put(_key("incarnation"), _encode(record))
        case LinkAdded(link=link):
            yield Put(_key("link", *link), _encode(record))
        case LinkRemoved(link=link):
            yield Delete(_key("link", *link))
        case LeaveWanted():
            yield Put(_key("leave wanted"), _encode(record))
        case BrokerRemoved(removal=removal):
            yield Put(_key("removal", removal.node), _encode(record))
        case JoinedAt():
            yield Put(_key("joined at"), _encode(record))
        case PartlyKnown(nodes=nodes):
            key = _key("partly known")
            yield Put(key, _encode(record)) if nodes else Delete(key)
        case Founded():
            yield Put(_key("founded"), _encode(record))
        case NetworkBound():
            yield Put(_key("network"), _encode(record))
        case PublisherTaken(publisher=publisher):
            yield Put(_key("publisher", publisher), _encode(record))
        case NumberingBegun(publisher=publisher):
            yield Put(_key("numbering", publisher), _encode(record))
        case ConfirmedWithout(publisher=publisher, subscriptions=subscriptions):
            key = _key("without", publisher)
            yield Put(key, _encode(record)) if subscriptions else Delete(key)
        case TopicDeclared(declaration=declaration):
            yield Put(_key("topic", declaration.topic.name), _encode(record))
        case SubscriptionGivenUp(subscription=subscription):
            yield Put(_key("given up", subscription), _encode(record))
        case SubscriptionPurged(subscription=subscription):
            yield Delete(_key("given up", subscription))
        case GuestTaken(topic=topic, publisher=publisher, generation=generation):
            key = _key("guest", topic, publisher)
            yield Put(key, _encode(record)) if generation is not None else Delete(key)
        case ClientAway(client=client, lasted=lasted):
            key = _key("away", client)
            yield Put(key, _encode(record)) if lasted else Delete(key)
        case _:
            assert_never(record)


def restored(store: Store) -> Iterator[Record]:
    """Records from which a node is made as it would be from all that were written."""
    for key, value in store.state.items():
        if key.startswith(STATE) and not key.startswith(FATES):
            yield _kept.decode(value)
    for log, span in store.logs.items():
        if log.startswith(EVENTS):
            topic, publisher = _source.decode(log.removeprefix(EVENTS))
            if span.start > 1:
                yield EventsConfirmed(topic, publisher, span.start - 1)
            for first in range(span.start, span.stop, EVENTS_AT_A_TIME):
                last = min(first + EVENTS_AT_A_TIME, span.stop) - 1
                yield EventsRetained(tuple(map(_event.decode, store.read(log, first, last))))


def _log(topic: str, publisher: str) -> str:
    """Names may contain anything, so they are written as a list."""
    return EVENTS + msgspec.json.encode((topic, publisher)).decode()


def _key(*names: str) -> str:
    return STATE + msgspec.json.encode(names).decode()
