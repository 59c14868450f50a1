"""``gapless demo``."""

from __future__ import annotations

from typer.testing import CliRunner

from gapless.cli import app


def test_the_demo_tells_its_story_and_ends_well() -> None:
    result = CliRunner().invoke(app, ["demo"], env={"COLUMNS": "120"})
    assert result.exit_code == 0, result.output
    assert "ok: every promise was kept" in result.output
    assert "violated" in result.output
    assert "crash b" in result.output
