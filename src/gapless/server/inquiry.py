"""Questions to a broker that need no session: which broker is at this address, and how is it?

A connection, one question, one answer. What can go wrong (nobody there, no gapless broker, another version,
silence) is an ``InquiryError`` that says so in a sentence. ``survey`` asks all brokers of a network, from one
to those that it knows."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from gapless.core.model import NodeId
from gapless.server.addresses import parse_address
from gapless.server.connection import Connection
from gapless.wire.codec import WireMessage
from gapless.wire.control import (
    VERSIONS,
    Goodbye,
    Here,
    RemovalReport,
    RemoveBroker,
    StatusQuery,
    StatusReport,
    Who,
)

BROKERS_MAX = 5_000
"""The most brokers of a survey."""
QUESTIONS_AT_A_TIME = 64

AnswerT = TypeVar("AnswerT", bound=WireMessage)


class InquiryError(ConnectionError):
    """The question was not answered."""


async def who(address: str, timeout: float = 2.0) -> Here:
    """Which broker listens at the address, and where those near it do."""
    return await _ask(address, Who(VERSIONS), Here, timeout)


async def status(address: str, timeout: float = 2.0) -> dict[str, Any]:
    """How the broker at the address is: see :mod:`gapless.server.status`."""
    return (await _ask(address, StatusQuery(), StatusReport, timeout)).report


async def remove(address: str, node: NodeId, timeout: float = 10.0) -> str:
    """Have the broker at the address take the place of another one; what stands against it, or nothing."""
    return (await _ask(address, RemoveBroker(node), RemovalReport, timeout)).error


@dataclass(slots=True)
class Survey:
    """How the brokers of a network are."""

    reports: dict[NodeId, dict[str, Any]] = field(default_factory=dict)
    unreachable: dict[NodeId, tuple[str, str]] = field(default_factory=dict)
    """Brokers that others know and that do not answer: where they should be, and why not."""


async def survey(addresses: Sequence[str], timeout: float = 2.0) -> Survey:
    """Ask the first of the addresses that answers, then whomever it knows, and so on."""
    errors = []
    for address in addresses:
        try:
            first = await status(address, timeout)
            break
        except InquiryError as error:
            errors.append(str(error))
    else:
        raise InquiryError("; ".join(errors))
    found = Survey({first["id"]: first})
    asked = {(str(first["id"]), str(first["address"]))}
    wave = _known(first) - asked
    while wave and len(asked) < BROKERS_MAX:
        asked |= wave
        wave = await _ask_wave(found, sorted(wave), timeout) - asked
    return found


async def _ask_wave(
    found: Survey, wave: Sequence[tuple[NodeId, str]], timeout: float
) -> set[tuple[NodeId, str]]:
    limit = asyncio.Semaphore(QUESTIONS_AT_A_TIME)
    further: set[tuple[NodeId, str]] = set()

    async def ask(node: NodeId, address: str) -> None:
        if node in found.reports:
            return  # somebody has an old address of it
        try:
            async with limit:
                report = await status(address, timeout)
        except InquiryError as error:
            found.unreachable[node] = (address, str(error))
            return
        found.reports[report["id"]] = report
        further.update(_known(report))

    await asyncio.gather(*(ask(node, address) for node, address in wave))
    for node in found.reports:
        found.unreachable.pop(node, None)
    return further


def _known(report: dict[str, Any]) -> set[tuple[NodeId, str]]:
    return {(str(node), str(address)) for node, address in report["addresses"].items()}


async def _ask(address: str, question: WireMessage, answer: type[AnswerT], timeout: float) -> AnswerT:
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    waiting = _Waiting(loop.create_future())
    connection: Connection | None = None
    try:
        async with asyncio.timeout(timeout):
            _, connection = await loop.create_connection(lambda: Connection(waiting), host, port)
            connection.send((question,))
            message = await waiting.answer
    except TimeoutError:
        raise InquiryError(f"nobody answers at {address} within {timeout:g} s") from None
    except InquiryError as error:
        raise InquiryError(f"{address} does not answer: {error}") from None
    except (OSError, ValueError) as error:  # an impossible host name is a ValueError of the codec for names
        reason = getattr(error, "strerror", None) or error
        raise InquiryError(f"nobody can be reached at {address}: {reason}") from None
    finally:
        if connection is not None:
            connection.abort("asked")
    if isinstance(message, answer):
        return message
    reason = message.reason if isinstance(message, Goodbye) else "it is no broker of this version"
    raise InquiryError(f"{address} does not answer: {reason}")


class _Waiting:
    """Owns the connection until the answer is there."""

    def __init__(self, answer: asyncio.Future[WireMessage]) -> None:
        self.answer = answer

    def received(self, connection: Connection, messages: list[WireMessage]) -> None:
        if not self.answer.done():
            self.answer.set_result(messages[0])

    def ended(self, connection: Connection, reason: str) -> None:
        if not self.answer.done():
            self.answer.set_exception(InquiryError(reason))
