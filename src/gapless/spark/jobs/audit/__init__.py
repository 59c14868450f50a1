"""The audit: delivery guarantees over traces of any size, many runs at once.

It holds traces to a promise, violation by violation as :func:`gapless.simulation.checkers.check` does, which
is what most runs are given to, each in one task (:mod:`whole`). That is cheap, but the run must fit into the
memory of a worker. A run that is longer than that (``whole`` lines) is judged by joins and windows, which any
number of machines share; it need not fit into anybody's memory, but Spark must plan and compile them.

:mod:`reading` makes tables of files. For long runs, :mod:`history` has the tables that the checks share:
:mod:`stays` of subscriptions, :mod:`promises` to them, :mod:`matching` of events, and :mod:`given`, the
deliveries. The checks: :mod:`deliveries`, :mod:`missing` (gaps and losses), :mod:`total`, and :mod:`causal`
with :mod:`pasts`.
"""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from gapless.core.model import OrderName
from gapless.selectors import Selector, SelectorError
from gapless.simulation.trace import TraceError
from gapless.spark.jobs.audit import whole as whole_runs
from gapless.spark.jobs.audit.causal import causal
from gapless.spark.jobs.audit.deliveries import numbering, strays, unfounded, wrong_deliveries
from gapless.spark.jobs.audit.history import History
from gapless.spark.jobs.audit.missing import missing, never_live
from gapless.spark.jobs.audit.reading import Survey, read, survey
from gapless.spark.jobs.audit.total import differences, disagreements

__all__ = ["Survey", "read", "survey", "transform"]

WHOLE_LINES = 200_000
"""A run of so many lines is judged in one task: some hundred MB, and a few seconds."""


def transform(
    trace: DataFrame,
    *,
    promise: OrderName | str,
    healed: bool,
    durable: bool = False,
    whole: int = WHOLE_LINES,
) -> DataFrame:
    """The ``VIOLATIONS`` of a promise in a ``TRACE`` table.

    ``healed``: the runs ended with all faults repaired and nothing under way, so what is missing is lost.
    ``durable``: every subscription is durable, not only those whose record says so. ``whole``: a run of so
    many lines is judged in one task.

    The lines are counted and the selectors are looked up at once; all else happens when the result is asked
    for. Tables that several checks of long runs read are persisted, until the session's cache is cleared.
    """
    promise = OrderName(promise)
    _check_selectors(trace)
    counted = trace.groupBy("run").count().where(f.col("count") > whole)
    names = [row.run for row in counted.collect()]
    is_long = f.col("run").isin(names)
    violations = whole_runs.judged(trace.where(~is_long), promise=promise, healed=healed, durable=durable)
    if not names:
        return violations
    history = History(trace.where(is_long), durable=durable)
    return reduce(DataFrame.union, _checks(history, promise, healed=healed), violations)


def _check_selectors(trace: DataFrame) -> None:
    """Raise where a selector is none: before anything is judged, and on the driver, where errors are read."""
    where = f.min(f.struct("run", "line")).alias("where")
    asked = trace.where("kind = 'subscribe' AND selector <> ''").groupBy("selector").agg(where)
    for row in asked.orderBy("where").toLocalIterator():
        try:
            Selector(row.selector)
        except SelectorError as error:
            raise TraceError(f"{row.where.run}, line {row.where.line}: {error}") from error


def _checks(history: History, promise: OrderName, *, healed: bool) -> list[DataFrame]:
    promised = promise is not OrderName.BEST_EFFORT
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
    return checks
