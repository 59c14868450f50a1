"""Which gapless this is: its version, and whether its pure part runs compiled (``make compile``)."""

from importlib import import_module

__version__ = "0.1.0"


def build() -> str:
    """``compiled`` if mypyc has compiled the modules that decide, else ``interpreted``."""
    source = import_module("gapless.core.node").__file__ or ""
    return "interpreted" if source.endswith(".py") else "compiled"
