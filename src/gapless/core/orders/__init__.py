"""The orders that a topic can promise: one interface (``base``), one module each."""
