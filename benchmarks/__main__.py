"""Run every benchmark: ``python -m benchmarks [--quick] [--json]``."""

from __future__ import annotations

import argparse
import importlib
import json
import sys

MODULES = ("matching",)
"""Each has ``run(quick)``, which returns its figures with ``"passed"`` among them, and ``show(figures)``."""


def main() -> int:
    """Exit code 0 when every bar is met."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller, for a first impression")
    parser.add_argument("--json", action="store_true", help="print one object with all figures")
    parser.add_argument("only", nargs="*", metavar="NAME", help=f"of: {', '.join(MODULES)}")
    options = parser.parse_args()
    unknown = set(options.only) - set(MODULES)
    if unknown:
        parser.error(f"no benchmark {', '.join(sorted(unknown))}")
    results: dict[str, dict[str, object]] = {}
    for name in options.only or MODULES:
        module = importlib.import_module(f"benchmarks.{name}")
        results[name] = module.run(quick=options.quick)
        if not options.json:
            module.show(results[name])
    if options.json:
        print(json.dumps(results, indent=2))
    return 0 if all(figures["passed"] for figures in results.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
