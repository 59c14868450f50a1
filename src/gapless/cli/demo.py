"""``gapless demo``: a network under faults, told as a story, with the verdict."""

from __future__ import annotations


def demo() -> None:
    """Show a network under faults and what its clients got."""
