"""What the documents show is what the code does."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from simulation.test_stories import STORIES

ROOT = Path(__file__).parents[1]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = [
    pytest.param(match.group(1), id=f"{path.name}:{number}")
    for path in DOCUMENTS
    for number, match in enumerate(re.finditer(r"```python\n(.*?)```", path.read_text(), re.DOTALL), start=1)
]


@pytest.mark.parametrize("example", EXAMPLES)
def test_python_examples_run(example: str, request: pytest.FixtureRequest) -> None:
    if "open_session" in example:
        request.getfixturevalue("spark")  # a process has one session only
    namespace: dict[str, Any] = {}
    exec(compile(example, "example", "exec"), namespace)
    for name, each in namespace.items():
        if name.startswith("test_"):  # one that shows the fixture
            each(request.getfixturevalue("gapless_network"))


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_between_documents_lead_somewhere(path: Path) -> None:
    for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", path.read_text()):
        assert (path.parent / target).exists(), target


def test_make_help_lists_the_two_commands_of_the_readme() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for command in re.findall(r"^make (\w+)", (ROOT / "README.md").read_text(), re.MULTILINE):
        assert re.search(rf"^{command}:.*## ", makefile, re.MULTILINE), command


def test_each_story_that_the_rules_name_is_told() -> None:
    rules = (ROOT / "docs" / "publisher-order.md").read_text()
    named = [
        name
        for told in re.findall(r"^Stories: (.*?)\.$", rules, re.MULTILINE | re.DOTALL)
        for name in re.findall(r"`(\w+)`", told)
    ]
    assert len(named) == len(set(named)) > 60
    assert set(named) <= {getattr(story, "__name__", "") for story in STORIES}
