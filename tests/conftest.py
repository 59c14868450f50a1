"""Options of the whole test suite."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite-traces", action="store_true", help="write what happens now into tests/traces/*.txt"
    )
