"""What is written: files with fixed names and columns, and a report that says where the paper differs."""

from __future__ import annotations

import csv
import re
from base64 import b64decode
from pathlib import Path

import pytest

from gapless.experiments.catalogue import FIGURES
from gapless.experiments.figure import Row, Size, Table
from gapless.experiments.networks import DELTAS, FANOUTS, MODELS
from gapless.experiments.report import Block, Heading, Items, Made, html, markdown, write

COLUMNS = {
    "000-fig8.csv": "model,fanout,delta,failures,runs,disconnected_percent",
    "000-fig9.csv": "model,fanout,delta,failures,deliverable_percent,delivered_percent",
    "000-fig10.csv": "model,fanout,delta,size,brokers",
    "000-fig11.csv": "model,fanout,failures,sessions,brokers",
}
PNG = b"\x89PNG\r\n\x1a\n"


def every(**values: list[int]) -> list[Row]:
    """A row for each model, fan-out and combination of the values."""
    made: list[Row] = [{"model": model, "fanout": fanout} for model in MODELS for fanout in FANOUTS]
    for name, some in values.items():
        made = [{**row, name: value} for row in made for value in some]
    return made


def computed() -> list[Made]:
    """Figures with numbers that are easy to foresee."""
    points = every(delta=list(DELTAS), failures=[0, 10])
    for row in points:
        lost = 20.0 / (1 + row["delta"]) if row["failures"] else 0.0
        row |= {"runs": 5, "disconnected_percent": lost, "error": 0.1}
        row |= {"deliverable_percent": 100 - lost, "delivered_percent": 100 - lost}
        row |= {"deliverable": 100, "delivered": 100}
    sizes = [{**row, "brokers": 25} for row in every(delta=list(DELTAS), size=[1, 4, 30, 170])]
    active = [{**row, "brokers": 30.5} for row in every(failures=[0, 10], sessions=[1, 4, 9])]
    size = Size(100, (0, 10), 5)
    rows: dict[str, list[Row]] = {"000.8": points, "000.9": points, "000.10": sizes, "000.11": active}
    return [
        Made(FIGURES[name], size, rows[name], f"gapless figures --only {name} --seed 0") for name in FIGURES
    ]


@pytest.fixture(scope="module")
def out(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("figures") / "new" / "directory"
    files = write(computed(), path, "gapless figures --seed 0")
    assert sorted(files) == sorted(path.iterdir())
    return path


def test_the_files_have_their_fixed_names_and_columns(out: Path) -> None:
    for name, columns in COLUMNS.items():
        lines = (out / name).read_text().splitlines()
        assert lines[0] == columns
        assert all(len(row) == columns.count(",") + 1 for row in csv.reader(lines))
        assert lines[1].startswith("kary,3,")
    assert {file.name for file in out.iterdir()} == {
        *COLUMNS,
        *(name.replace("csv", "png") for name in COLUMNS),
        "report.md",
        "report.html",
    }


def test_the_pictures_are_pictures(out: Path) -> None:
    for name in COLUMNS:
        picture = (out / name.replace("csv", "png")).read_bytes()
        assert picture.startswith(PNG)
        width, height = (int.from_bytes(picture[at : at + 4]) for at in (16, 20))
        assert (width, height) == (1470, 1064)
        assert len(picture) > 20_000, "there is something on it"


def test_the_html_needs_no_other_file(out: Path) -> None:
    page = (out / "report.html").read_text()
    assert not re.search(r'(src|href)="(?!data:)', page)
    pictures = re.findall(r'src="data:image/png;base64,([^"]+)"', page)
    assert [b64decode(each) for each in pictures] == [
        (out / name.replace("csv", "png")).read_bytes() for name in COLUMNS
    ]


def test_the_report_names_models_commands_and_the_paper(out: Path) -> None:
    text = (out / "report.md").read_text()
    for name in FIGURES:
        assert f"`gapless figures --only {name} --seed 0`" in text
    assert "**A quick run**" in text, "100 brokers are not the paper's 1,000"
    assert text.count("top: complete k-ary tree, bottom: random attachment") == 2 * len(FIGURES)
    for place in ("IX-A", "IX-B", "IX-C", "IX-D"):
        assert f"section {place}" in text
    for picture in re.findall(r"!\[[^]]*\]\(([^)]+)\)", text):
        assert (out / picture).exists()
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        assert len({line.count("|") for line in table.splitlines()}) == 1, table


def test_the_report_says_first_where_the_paper_differs(out: Path) -> None:
    """The numbers above: no step of about 4 %, little lost at δ = 0, 25 of 100 brokers that know 170."""
    text = (out / "report.md").read_text()
    differ = text.split("differ")[1].split("\n## ")[0]
    assert "steps of about 4%" in differ
    assert "vast throughput degradation" in differ
    assert "From δ = 3 to 2 by 1.7 points, from 2 to 1 by 3.3." in differ
    assert "almost all brokers’ neighborhoods" in differ
    assert (
        "complete k-ary tree: 50 know a quarter of the network or more, 25 know 100 brokers or more" in differ
    )
    assert "increasing δ improves" not in differ
    assert "97% of publications" in differ, "95 % is less than 97 %"


def test_what_was_measured_decides_what_differs() -> None:
    made = computed()[0]
    worse = [{**row, "disconnected_percent": float(row["delta"])} for row in made.rows]
    (finding,) = made.figure.findings(worse, made.size)
    assert not finding.agrees
    assert made.figure.findings(made.rows, made.size)[0].agrees


def test_text_is_escaped_and_code_is_code() -> None:
    blocks: list[Block] = [
        Heading(1, "a < b"),
        Items(["`x > 1` and **no**"]),
        Table("t", ("h",), [("&",)]),
        "<script>",
    ]
    page = html(blocks)
    assert "<h1>a &lt; b</h1>" in page
    assert "<li><code>x &gt; 1</code> and <strong>no</strong></li>" in page
    assert "<td>&amp;</td>" in page
    assert "<script>" not in page
    assert markdown(blocks).startswith(
        "# a < b\n\n- `x > 1` and **no**\n\n**t**\n\n| h |\n| --- |\n| & |\n\n<scr"
    )
