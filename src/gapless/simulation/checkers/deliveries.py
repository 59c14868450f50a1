"""Checkers of what was delivered: each looks at one subscription and one publisher at a time."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.simulation.checkers.history import NEVER, Epoch, History, Stream, Subscription, between
from gapless.simulation.checkers.violations import Kind, Violation
from gapless.simulation.trace import Confirm, Deliver, Publish


def numbering(history: History) -> Iterator[Violation]:
    """The format of traces: a publisher's sequences of a topic count from 1 without holes, each used once."""
    for index, expected in history.renumbered:
        record = history.records[index]
        assert isinstance(record, Publish)
        event = f"{record.publisher}.{record.sequence}"
        yield Violation(
            kind=Kind.NUMBERING,
            message=f"{event} was published on {record.topic!r} where {record.publisher}.{expected} was due",
            index=index,
            t=record.t,
            publisher=record.publisher,
            sequence=record.sequence,
        )


def phantoms(history: History) -> Iterator[Violation]:
    """Only what was published before is delivered (or confirmed), and only to a client that subscribed."""
    for index in history.unfounded:
        record = history.records[index]
        assert isinstance(record, Confirm)
        yield Violation(
            kind=Kind.PHANTOM,
            message=f"{record.publisher}.{record.sequence} was confirmed but not published",
            index=index,
            t=record.t,
            publisher=record.publisher,
            sequence=record.sequence,
        )
    for index in history.strays:
        record = history.records[index]
        assert isinstance(record, Deliver)
        message = f"{_event(record)} went to {record.client}, which has no subscription {record.subscription}"
        yield violation(history, Kind.PHANTOM, index, message)
    for index, subscription in history.owners.items():
        record = history.records[index]
        assert isinstance(record, Deliver)
        stream = history.streams.get(subscription.topic, {}).get(record.publisher)
        published = stream.published.get(record.sequence, NEVER) if stream else NEVER
        elsewhere = published == NEVER and _elsewhere(history, record, index)
        if published > index and not elsewhere:
            message = f"{record.subscription} got {_event(record)}, which was not published until then"
            yield violation(history, Kind.PHANTOM, index, message)


def wrong_matches(history: History) -> Iterator[Violation]:
    """Only events of the subscription's topic that match its selector are delivered to it."""
    for index, subscription in history.owners.items():
        record = history.records[index]
        assert isinstance(record, Deliver)
        stream = history.streams.get(subscription.topic, {}).get(record.publisher)
        published = stream.published.get(record.sequence) if stream else None
        if published is None:
            if _elsewhere(history, record, index):
                message = (
                    f"{record.subscription} got {_event(record)}, which is not of {subscription.topic!r}"
                )
                yield violation(history, Kind.WRONG_MATCH, index, message)
        elif not history.matches(subscription.selector, published):
            message = (
                f"{record.subscription} got {_event(record)}, but {subscription.selector!r} does not match"
            )
            yield violation(history, Kind.WRONG_MATCH, index, message)


def duplicates(history: History) -> Iterator[Violation]:
    """INV-DUP: no event is delivered twice to the same subscription, flagged or not."""
    for subscription in history.subscriptions:
        for index in subscription.repeated:
            record = history.records[index]
            assert isinstance(record, Deliver)
            message = f"{subscription.name} got {_event(record)} again"
            yield violation(history, Kind.DUPLICATE, index, message)


def early(history: History) -> Iterator[Violation]:
    """Deliveries before the subscription is live are withheld or flagged as best effort."""
    for subscription in history.subscriptions:
        for got in subscription.received.values():
            for index in got.values():
                if index < subscription.live and history.reliable(index):
                    record = history.records[index]
                    assert isinstance(record, Deliver)
                    message = f"{subscription.name} got {_event(record)} before it was live"
                    yield violation(history, Kind.EARLY, index, message)


def order(history: History) -> Iterator[Violation]:
    """INV-FIFO: per subscription and publisher, sequences increase (duplicates are not judged here)."""
    for subscription in history.subscriptions:
        for publisher, got in subscription.received.items():
            highest = 0
            for sequence, index in got.items():
                if not _counts(history, subscription, publisher, sequence, index):
                    continue
                if sequence < highest:
                    message = f"{subscription.name} got {publisher}.{sequence} after {publisher}.{highest}"
                    yield violation(history, Kind.ORDER, index, message)
                highest = max(highest, sequence)


def gaps(history: History) -> Iterator[Violation]:
    """INV-GAP (C1-06, gapless FIFO delivery): nothing that matches is missed between two deliveries.

    Before the first delivery of an epoch, the beginning of the promise takes the place of the earlier one.
    What comes late was missed; what came before, even flagged, was not.
    """
    for subscription in history.subscriptions:
        streams = history.streams.get(subscription.topic, {})
        for publisher in subscription.received:
            if publisher in streams:
                yield from _gaps(history, subscription, streams[publisher])


def _gaps(history: History, subscription: Subscription, stream: Stream) -> Iterator[Violation]:
    got = subscription.received[stream.publisher]
    matching = history.matching(subscription, stream)
    epochs = history.epochs(subscription, stream)
    entered = 0
    floor: int | None = None
    for sequence, index in got.items():
        if sequence not in stream.published or not history.reliable(index):
            continue
        previous = entered
        while entered < len(epochs) and epochs[entered].index < index:
            entered += 1
        if entered > previous:
            floor = _floor(epochs[entered - 1], sequence)
        if floor is None or sequence < floor:
            continue
        for missed in between(matching, floor, sequence):
            if got.get(missed, NEVER) > index and not history.excused(stream, missed):
                event = f"{stream.publisher}.{missed}"
                message = f"{subscription.name} got {stream.publisher}.{sequence} and missed {event}"
                yield violation(history, Kind.GAP, index, message, sequence=missed)
        floor = sequence + 1


def _floor(epoch: Epoch, sequence: int) -> int:
    """The first sequence that must not be missed; a subscription that is given more begins with that."""
    return epoch.start if epoch.by_reset else min(epoch.start, sequence)


def _counts(history: History, subscription: Subscription, publisher: str, sequence: int, index: int) -> bool:
    """Whether a delivery is one of the reliable stream: not flagged, and of an event that exists."""
    stream = history.streams.get(subscription.topic, {}).get(publisher)
    return stream is not None and sequence in stream.published and history.reliable(index)


def _elsewhere(history: History, record: Deliver, index: int) -> bool:
    """Whether the publisher has published that sequence until then, on whatever topic."""
    found = (streams.get(record.publisher) for streams in history.streams.values())
    return any(
        stream is not None and stream.published.get(record.sequence, NEVER) < index for stream in found
    )


def _event(record: Deliver) -> str:
    return f"{record.publisher}.{record.sequence}"


def violation(
    history: History, kind: Kind, index: int, message: str, *, publisher: str = "", sequence: int = 0
) -> Violation:
    """A violation that shows at a delivery; the event is the delivered one unless another is named."""
    record = history.records[index]
    assert isinstance(record, Deliver)
    return Violation(
        kind=kind,
        message=message,
        index=index,
        t=record.t,
        subscription=record.subscription,
        publisher=publisher or record.publisher,
        sequence=sequence or record.sequence,
    )
