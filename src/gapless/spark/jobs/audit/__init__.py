"""The audit: delivery guarantees over traces of any size, many runs at once.

It holds traces to a promise as :func:`gapless.simulation.checkers.check` does, violation by violation, but
by joins and windows that any number of machines share: a trace need not fit into anybody's memory, nor a
run onto one machine.

:mod:`reading` makes tables of files. :mod:`history` has the tables that the checks share: :mod:`stays` of
subscriptions, :mod:`promises` to them, :mod:`matching` of events, and :mod:`given`, the deliveries. The
checks: :mod:`deliveries`, :mod:`missing` (gaps and losses), :mod:`total`, and :mod:`causal` with
:mod:`pasts`.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from gapless.core.model import OrderName
from gapless.spark.jobs.audit.causal import causal
from gapless.spark.jobs.audit.deliveries import numbering, strays, unfounded, wrong_deliveries
from gapless.spark.jobs.audit.history import History
from gapless.spark.jobs.audit.missing import missing, never_live
from gapless.spark.jobs.audit.reading import Survey, read, survey
from gapless.spark.jobs.audit.total import differences, disagreements

__all__ = ["Survey", "read", "survey", "transform"]


def transform(
    trace: DataFrame, *, promise: OrderName | str, healed: bool, durable: bool = False
) -> DataFrame:
    """The ``VIOLATIONS`` of a promise in a ``TRACE`` table.

    ``healed``: the runs ended with all faults repaired and nothing under way, so what is missing is lost.
    ``durable``: every subscription is durable, not only those whose record says so.

    The selectors are looked up at once; all else happens when the result is asked for. Tables that several
    checks read are persisted, until the session's cache is cleared.
    """
    promise = OrderName(promise)
    promised = promise is not OrderName.BEST_EFFORT
    history = History(trace, durable=durable)
    checks = [
        numbering(history),
        unfounded(history),
        strays(history),
        wrong_deliveries(history, promised=promised),
    ]
    if promised and healed:
        checks.append(never_live(history))
    if promised or healed:
        checks.append(missing(history, promised=promised, healed=healed))
    if promise is OrderName.CAUSAL:
        checks.append(causal(history, healed=healed))
    if promise is OrderName.TOTAL:
        checks += [disagreements(history), differences(history, healed=healed)]
    return reduce(DataFrame.union, checks)
