"""What rows are told apart by, and put together by.

Numbers and what varies most come first: rows are sorted by such keys, and the first column decides most
comparisons.
"""

from __future__ import annotations

from pyspark.sql import Window

NEVER = 2**63 - 1
"""A sequence that no event has and a line that no trace has."""

NAME = ("sequence", "publisher", "run")
"""An event as deliveries and confirmations know it: the topic is missing."""
EVENT = (*NAME, "topic")
STREAM = ("publisher", "topic", "run")
"""What one publisher publishes on one topic."""
FLOW = ("stay", "publisher", "run")
"""What one stay gets of one publisher."""

EARLIER = (Window.unboundedPreceding, -1)
"""The rows of a window before the current one."""
