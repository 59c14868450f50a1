"""Checkers of what was not delivered: they judge a run that ended healed and quiet."""

from __future__ import annotations

from collections.abc import Iterator

from gapless.simulation.checkers.history import NEVER, History, Stream, Subscription, between
from gapless.simulation.checkers.violations import Kind, Violation


def lost(history: History) -> Iterator[Violation]:
    """INV-LIVE: once all is healed, every open subscription is live and has all that it was promised."""
    for subscription in history.subscriptions:
        if not subscription.is_open:
            continue
        if subscription.live == NEVER:
            yield Violation(
                kind=Kind.LOST,
                message=f"{subscription.name} never went live",
                index=subscription.index,
                t=history.records[subscription.index].t,
                subscription=subscription.name,
            )
            continue
        for stream in history.streams.get(subscription.topic, {}).values():
            epochs = history.epochs(subscription, stream)
            for missed in _missing(history, subscription, stream, epochs[-1].start if epochs else NEVER):
                if not history.excused(stream, missed):
                    yield never_came(history, Kind.LOST, subscription, stream, missed)


def durable(history: History) -> Iterator[Violation]:
    """INV-DUR: every confirmed event comes to every durable subscription that matches it, resets or not."""
    for subscription in history.subscriptions:
        if not subscription.is_open or not subscription.durable:
            continue
        for stream in history.streams.get(subscription.topic, {}).values():
            epochs = history.epochs(subscription, stream)
            for missed in _missing(history, subscription, stream, epochs[0].start if epochs else NEVER):
                if missed in stream.confirmed:
                    yield never_came(history, Kind.DURABLE, subscription, stream, missed)


def _missing(history: History, subscription: Subscription, stream: Stream, start: int) -> Iterator[int]:
    """What matches from ``start`` on and was never delivered."""
    got = subscription.received.get(stream.publisher, {})
    return (seq for seq in between(history.matching(subscription, stream), start, NEVER) if seq not in got)


def never_came(
    history: History, kind: Kind, subscription: Subscription, stream: Stream, sequence: int, *, why: str = ""
) -> Violation:
    """A violation that shows nowhere but at the publication: the event never came."""
    index = stream.published[sequence]
    return Violation(
        kind=kind,
        message=f"{subscription.name} never got {stream.publisher}.{sequence}{why}",
        index=index,
        t=history.records[index].t,
        subscription=subscription.name,
        publisher=stream.publisher,
        sequence=sequence,
    )
