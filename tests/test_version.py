"""Which gapless runs."""

from __future__ import annotations

from typer.testing import CliRunner

import gapless
from gapless.cli import app
from gapless.version import build


def test_the_version_says_how_the_pure_part_runs() -> None:
    result = CliRunner().invoke(app, ["--version"])
    assert result.exit_code == 0
    assert result.stdout == f"gapless {gapless.__version__}, {build()}\n"
    assert build() in ("compiled", "interpreted")
