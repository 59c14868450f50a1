"""Compiles the pure part with mypyc when a wheel is built with GAPLESS_COMPILE=1; without it all is Python.

The modules that decide (orders, overlay, topics, nodes, matching) are ordinary typed Python and run as they
are. Compiled they are faster and do the same. They are compiled in a copy of the sources, so that no outdated
extension can stay behind beside them.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

COMPILED = (
    "gapless/core/broker.py",
    "gapless/core/leaf.py",
    "gapless/core/node.py",
    "gapless/core/orders/**/*.py",
    "gapless/core/overlay/*.py",
    "gapless/core/topics/*.py",
    "gapless/matching/*.py",
)
SETUP = """
import sys
from mypyc.build import mypycify
from setuptools import setup
arguments = ["build_ext", "--build-lib", "compiled"]
extensions = mypycify(sys.argv[1:], debug_level="0")
setup(name="gapless", packages=[], ext_modules=extensions, script_args=arguments)
"""


class CompiledHook(BuildHookInterface):  # type: ignore[type-arg]
    """Puts the extensions into the wheel."""

    def dependencies(self) -> list[str]:
        """What the compiler needs."""
        return ["mypy>=1.18,<3", "setuptools"] if _is_wanted() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile in a directory of its own, which lives until the wheel is written."""
        if not _is_wanted() or version == "editable":
            return
        copy = Path(mkdtemp(prefix="gapless-build-"))
        self._copy = copy
        shutil.copytree(Path(self.root, "src", "gapless"), copy / "gapless")
        sources = sorted(str(each.relative_to(copy)) for some in COMPILED for each in copy.glob(some))
        subprocess.run([sys.executable, "-c", SETUP, *sources], cwd=copy, check=True)
        compiled = copy / "compiled"
        for each in compiled.rglob("*.so"):
            build_data["force_include"][str(each)] = str(each.relative_to(compiled))
        build_data |= {"infer_tag": True, "pure_python": False}

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """The wheel is written."""
        if _is_wanted() and version != "editable":
            shutil.rmtree(self._copy)


def _is_wanted() -> bool:
    return os.environ.get("GAPLESS_COMPILE", "0") == "1"
