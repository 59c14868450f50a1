"""The papers know no proxies: a link that is cut is gone round by bypassing the broker at its end."""

from __future__ import annotations

import pytest

from gapless.simulation.network import Network


@pytest.fixture(autouse=True)
def _no_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Network, "proxying", False)
