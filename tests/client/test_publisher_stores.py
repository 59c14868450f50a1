"""The stores of named publishers belong to one network each."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gapless.client.errors import WrongNetworkError
from gapless.client.journal import PublisherStores
from gapless.core.effects import EventsRetained, Record
from gapless.core.model import Event

EVENT = EventsRetained((Event("t", "p", 1, {}),))


def opened(place: Path, network: str, *append: Record) -> tuple[Record, ...]:
    """What the store of p has in that network; something is added to it."""

    async def main() -> tuple[Record, ...]:
        stores = PublisherStores(str(place))
        try:
            found = await stores.open("p", network)
            await stores.append(list(append))
            return found
        finally:
            await stores.close()

    return asyncio.run(main())


def test_a_store_belongs_to_the_network_in_which_it_was_used_first(tmp_path: Path) -> None:
    assert opened(tmp_path, "one", EVENT) == ()
    assert opened(tmp_path, "one") == (EVENT,)
    with pytest.raises(WrongNetworkError, match=r"belongs to network one .* this network is two") as wrong:
        opened(tmp_path, "two")
    assert str(tmp_path) in str(wrong.value)
    assert opened(tmp_path, "one") == (EVENT,), "it is not locked, and nothing is lost"


def test_a_store_of_an_earlier_version_is_bound_when_the_network_is_known(tmp_path: Path) -> None:
    assert opened(tmp_path, "", EVENT) == ()
    assert opened(tmp_path, "") == (EVENT,)
    assert opened(tmp_path, "one") == (EVENT,)
    with pytest.raises(WrongNetworkError):
        opened(tmp_path, "two")


def test_a_bound_store_is_not_used_where_the_network_is_not_known(tmp_path: Path) -> None:
    opened(tmp_path, "one", EVENT)
    with pytest.raises(WrongNetworkError, match="this network is not known yet"):
        opened(tmp_path, "")
