"""Run the benchmarks: ``python -m benchmarks [--quick] [--json] [NAME …]``."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from typing import Any

from rich.console import Console
from rich.table import Table

MODULES = ("matching", "simulation", "storage", "live", "compiled", "spark_match", "audit")
"""Each has ``run(quick)``: its figures, and as ``"met"``, where it has bars, whether they are met."""


def main() -> int:
    """Exit code 0 when every bar is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller, for a first impression")
    parser.add_argument("--json", action="store_true", help="print one object with all figures")
    parser.add_argument("only", nargs="*", metavar="NAME", help=f"one of {', '.join(MODULES)}; default: all")
    options = parser.parse_args()
    unknown = sorted(set(options.only) - set(MODULES))
    if unknown:
        parser.error(f"no benchmark {', '.join(unknown)}")
    results: dict[str, dict[str, Any]] = {}
    for name in options.only or MODULES:
        module = importlib.import_module(f"benchmarks.{name}")
        results[name] = module.run(quick=options.quick)
        if not options.json:
            getattr(module, "show", _show)(results[name])
    if options.json:
        print(json.dumps(results, indent=2))
    return 0 if all(figures.get("met", True) for figures in results.values()) else 1


def _show(figures: dict[str, Any]) -> None:
    table = Table(show_header=False)
    for name, value in figures.items():
        table.add_row(name.replace("_", " "), f"{value:,.1f}" if isinstance(value, float) else f"{value}")
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
