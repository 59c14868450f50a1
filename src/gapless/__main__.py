"""``python -m gapless`` is ``gapless``."""

from gapless.cli import app

app(prog_name="gapless")
