"""A pytest fixture for applications: a real broker network for a test, gone when the test ends.

The package registers it with pytest, so a test only has to name it::

    def test_alerts(gapless_network):
        network = gapless_network(brokers=3)
        with network.connect() as client: ...

The network runs in a thread of its own, so asynchronous tests can use it too, by ``network.url``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from gapless.sync import Network


@pytest.fixture
def gapless_network() -> Iterator[Callable[..., Network]]:
    """Start a network: ``gapless_network(brokers=3, fanout=2, delta=1)``; it is stopped after the test."""
    from gapless.sync import Network  # noqa: PLC0415 (only tests that use it pay for loading it)

    with ExitStack() as stack:

        def start(brokers: int = 3, fanout: int = 2, delta: int = 1) -> Network:
            return stack.enter_context(Network(brokers, fanout, delta))

        yield start
