"""``gapless broker remove``: take a broker that is gone for good out of the network."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Annotated

import typer

from gapless.cli.network import DEFAULT_NETWORK, AsJson, Network, run
from gapless.client.client import addresses_of
from gapless.client.errors import GaplessError
from gapless.server.inquiry import InquiryError, Survey, survey
from gapless.server.inquiry import remove as ask_to_remove

MAY_WAIT = "who has removed a broker answers when a second one knows: see that one runs, and ask again"


class RemovalError(GaplessError):
    """The broker was not removed, and why."""


def remove(
    name: Annotated[str, typer.Argument(help="The broker that is gone for good.")],
    broker: Network = DEFAULT_NETWORK,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for each broker.", min=0.1)] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Remove a broker that is gone for good and cannot leave by itself: others take its place, and its
    clients get another home. Refused while it lives."""

    async def work() -> None:
        await removal(name, addresses_of(broker), timeout)
        typer.echo(json.dumps({"removed": name}) if as_json else f"broker {name} is removed")

    run(work())


async def removal(name: str, addresses: Sequence[str], timeout: float) -> None:
    """Find the broker that is to have the place, and ask it; return when that is done, and durable
    at two brokers."""
    found = await survey(addresses, timeout)
    if name in found.reports:
        where = found.reports[name]["address"]
        raise RemovalError(f"{name} is alive: it answers at {where}. Stop it, or let it leave by itself")
    neighbours = _neighbours(found, name)
    if not neighbours:
        await _check_removed(found, name, timeout)
        return
    missing = [each for each in neighbours if each not in found.reports]
    if missing:
        raise RemovalError(
            f"{missing[0]}, a neighbour of {name}, does not answer, and the tree cannot be mended without "
            f"it: start {missing[0]} first (without its store if that is lost), then ask again"
        )
    try:
        error = await ask_to_remove(found.reports[neighbours[0]]["address"], name, 5 * timeout)
    except InquiryError as silence:
        raise RemovalError(f"{silence}; {MAY_WAIT}") from None
    if error:
        raise RemovalError(error)


def _neighbours(found: Survey, name: str) -> list[str]:
    """The neighbours of a broker, as those who know it say."""
    links = (each for report in found.reports.values() for each in report["links"] if name in each)
    return sorted({node for each in links for node in each if node != name})


async def _check_removed(found: Survey, name: str, timeout: float) -> None:
    """Nobody has a link to it: somebody may remember that it was removed."""
    answers = await asyncio.gather(
        *(ask_to_remove(report["address"], name, timeout) for report in found.reports.values()),
        return_exceptions=True,
    )
    if "" not in answers:
        problems = [f"{each}; {MAY_WAIT}" for each in answers if isinstance(each, InquiryError)]
        known = ", ".join(sorted(found.reports))
        sentence = f"there is no broker {name}; those that answer are: {known}"
        raise RemovalError("; ".join([sentence, *problems]))
