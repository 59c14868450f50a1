"""Independent judges of a run: they know the trace and the definitions, and nothing of any protocol.

Each invariant is a function from a ``History`` (a trace, indexed once) to violations. What is checked is
chosen by the promise to judge by, not by the protocol that ran, so that a protocol which promises nothing
can be held to a promise and must fail. Deliveries flagged as best effort are outside the reliable stream:
their order and what lies between them is not judged, but they are deliveries: of something published and
matching, once.

A promise ends in three ways only: with the subscription (an unsubscribe, a crash of its client if it is not
durable), with the trace, or by a reset that names the publisher. An event that is not confirmed when its
publisher's client crashes, or is told that the publisher is somebody else's since, may be lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeAlias

from gapless.core.model import OrderName
from gapless.selectors import Selector
from gapless.simulation.checkers.causal import causal
from gapless.simulation.checkers.deliveries import (
    duplicates,
    early,
    gaps,
    numbering,
    order,
    phantoms,
    wrong_matches,
)
from gapless.simulation.checkers.history import History, Matcher
from gapless.simulation.checkers.liveness import durable as durable_losses
from gapless.simulation.checkers.liveness import lost
from gapless.simulation.checkers.total import total
from gapless.simulation.checkers.violations import Kind, Report, Violation
from gapless.simulation.trace import Record

__all__ = [
    "History",
    "Kind",
    "Report",
    "Violation",
    "causal",
    "check",
    "duplicates",
    "durable_losses",
    "early",
    "gaps",
    "lost",
    "numbering",
    "order",
    "phantoms",
    "total",
    "wrong_matches",
]

Checker: TypeAlias = Callable[[History], Iterator[Violation]]

ALWAYS: tuple[Checker, ...] = (numbering, phantoms, wrong_matches, duplicates)
"""What holds even when nothing is promised."""

RELIABLE: tuple[Checker, ...] = (early, order, gaps)
"""What every promised order includes."""


def check(
    trace: Iterable[Record],
    *,
    promise: OrderName | str,
    healed: bool,
    durable: bool = False,
    limit: int = 20,
    selectors: Callable[[str], Matcher] = Selector,
) -> Report:
    """Hold a trace to a promise.

    ``healed``: the run ended with all faults repaired and nothing under way, so what is missing is lost.
    ``durable``: every subscription is durable, not only those whose record says so. At most ``limit``
    violations of each kind are reported; all are counted.
    """
    promise = OrderName(promise)
    history = History(trace, durable=durable, selectors=selectors)
    report = Report()
    for checker in ALWAYS:
        report.add(checker(history), limit)
    if promise is not OrderName.BEST_EFFORT:
        for checker in RELIABLE:
            report.add(checker(history), limit)
        if healed:
            report.add(lost(history), limit)
    if promise is OrderName.CAUSAL:
        report.add(causal(history, healed=healed), limit)
    if promise is OrderName.TOTAL:
        report.add(total(history, healed=healed), limit)
    if healed:
        report.add(durable_losses(history), limit)
    return report
