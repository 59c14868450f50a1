"""Tests of the index look things up, however few there are; ``test_few`` is about the first few."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gapless.matching import index


@pytest.fixture(scope="module", autouse=True)
def always_looked_up(request: pytest.FixtureRequest) -> Iterator[None]:
    """An index asks no subscription by itself."""
    with pytest.MonkeyPatch.context() as patch:
        if request.module.__name__ != "test_few":
            patch.setattr(index, "FEW_MAX", 0)
        yield
