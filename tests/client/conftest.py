"""One network for all tests of the client library; tests that break something start their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator

import pytest

from gapless.sync import Network

_numbers = itertools.count()


@pytest.fixture(scope="session")
def network() -> Iterator[Network]:
    with Network(brokers=3) as started:
        yield started


@pytest.fixture
def topic(network: Network) -> Callable[..., str]:
    """Declare a topic of a name that no other test uses."""

    def declare(**declaration: object) -> str:
        name = f"topic-{next(_numbers)}"
        with network.connect() as client:
            client.create_topic(name, **declaration)
        return name

    return declare
