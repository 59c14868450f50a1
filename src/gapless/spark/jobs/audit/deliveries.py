"""Checks of what was published, confirmed and delivered, record by record.

They agree with :mod:`gapless.simulation.checkers.deliveries` violation by violation; gaps are in
:mod:`missing`.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as f

from gapless.simulation.checkers import Kind
from gapless.spark.jobs.audit.history import History
from gapless.spark.jobs.audit.keys import NEVER
from gapless.spark.jobs.audit.violations import event, found, found_in_each, quoted, text


def numbering(history: History) -> DataFrame:
    """A publisher's sequences of a topic count from 1 without holes, each used once."""
    rows = history.publications.where(f.col("sequence") != f.col("due"))
    message = text(
        event(), " was published on ", quoted("topic"), " where ", event(sequence="due"), " was due"
    )
    return found(rows, Kind.NUMBERING, message)


def unfounded(history: History) -> DataFrame:
    """Only what was published before is confirmed."""
    rows = history.confirmations.where(f.col("found") == 0)
    return found(rows, Kind.PHANTOM, text(event(), " was confirmed but not published"))


def strays(history: History) -> DataFrame:
    """Events are delivered only to a client that subscribed."""
    message = text(
        event(), " went to ", f.col("client"), ", which has no subscription ", f.col("subscription")
    )
    return found(history.strays, Kind.PHANTOM, message)


def wrong_deliveries(history: History, *, promised: bool) -> DataFrame:
    """What is wrong with deliveries by themselves and, if anything is ``promised``, in their order."""
    got = text(f.col("subscription"), " got ", event())
    verdicts = {
        Kind.PHANTOM: (_is_phantom(), text(got, ", which was not published until then")),
        Kind.WRONG_MATCH: (_is_wrong(), text(got, _why_wrong())),
        Kind.DUPLICATE: (f.col("again"), text(got, " again")),
    }
    if promised:
        early = f.col("early") & ~f.col("again") & ~f.col("best_effort")
        backwards = f.col("counted") & (f.col("sequence") < f.col("highest"))
        verdicts |= {
            Kind.EARLY: (early, text(got, " before it was live")),
            Kind.ORDER: (backwards, text(got, " after ", event(sequence="highest"))),
        }
    wrong = f.lit(False)
    for condition, _ in verdicts.values():
        wrong |= f.coalesce(condition, f.lit(False))
    return found_in_each(history.described(history.deliveries.where(wrong)), verdicts)


def _is_phantom() -> Column:
    """Delivered though not published until then, on whatever topic."""
    return (f.coalesce("published", f.lit(NEVER)) > f.col("line")) & ~f.col("elsewhere")


def _is_wrong() -> Column:
    """Delivered though the topic or the selector of the subscription does not match."""
    return f.col("elsewhere") | (f.col("published").isNotNull() & ~f.col("matched"))


def _why_wrong() -> Column:
    foreign = text(", which is not of ", quoted("topic"))
    return f.when(f.col("elsewhere"), foreign).otherwise(
        text(", but ", quoted("selector"), " does not match")
    )
