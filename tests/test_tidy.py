"""The style of the code base, as far as a program can see it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SOURCES = sorted((ROOT / "src").rglob("*.py"))
MODULE_LINES_MAX = 500
FUNCTION_LINES_MAX = 70
COMPILED = [each for each in SOURCES if each.relative_to(ROOT / "src").parts[1] in ("core", "matching")]
LEFTOVERS = re.compile(r"\b(TODO|FIXME|XXX|breakpoint\(\)|pdb)\b")


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_module_is_small_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    tree = ast.parse(text)
    assert ast.get_docstring(tree), "the module docstring explains the idea"
    assert len(text.splitlines()) <= MODULE_LINES_MAX
    assert not LEFTOVERS.findall(text)
    for function in functions(tree):
        lines = (function.end_lineno or function.lineno) - function.lineno + 1
        assert lines <= FUNCTION_LINES_MAX, f"{function.name} does not fit on a screen"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_is_used(path: Path) -> None:
    """A file that no other file imports is dead, unless it is where Python or a user enters."""
    if path.name in ("__init__.py", "__main__.py"):
        return
    module = path.relative_to(ROOT / "src").with_suffix("").as_posix().replace("/", ".")
    package, _, name = module.rpartition(".")
    wanted = (f"{module} import", f"import {module}", f"from {package} import {name}")
    users = [
        other for other in SOURCES if other != path and any(each in other.read_text() for each in wanted)
    ]
    imported_in_list = [
        other
        for other in SOURCES
        if re.search(rf"from {re.escape(package)} import [^\n]*\b{name}\b", other.read_text())
    ]
    is_entrance = f'= "{module}"' in (ROOT / "pyproject.toml").read_text()
    assert users or imported_in_list or is_entrance, f"nothing imports {module}"


@pytest.mark.parametrize("path", COMPILED, ids=lambda path: str(path.relative_to(ROOT)))
def test_it_means_the_same_when_it_is_compiled(path: Path) -> None:
    """mypyc asks an object with ``__len__`` for ``__bool__`` only, and runs over what a loop has rebound."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ClassDef):
            methods = {each.name for each in functions(node)}
            assert "__len__" not in methods or "__bool__" in methods, node.name
        if isinstance(node, ast.For) and isinstance(node.iter, ast.Name):
            names = [each for part in node.body for each in ast.walk(part) if isinstance(each, ast.Name)]
            rebound = {each.id for each in names if isinstance(each.ctx, ast.Store)}
            assert node.iter.id not in rebound, f"line {node.lineno}"
