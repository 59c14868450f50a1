"""The report: every figure beside what the paper says of it, as Markdown and as one HTML file.

Both are written from the same blocks. The HTML has its pictures inside, so it can be sent as it is.
"""

from __future__ import annotations

import csv
import re
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TypeAlias

from gapless.experiments.figure import Figure, Row, Size, Table

ABOUT = """
Paper 000 is “Partition-tolerant distributed publish/subscribe” (Kazemzadeh and Jacobsen, 2011). Its section
IX asks what happens once more than δ brokers have failed. It says how many brokers its networks have and
which fan-out, and not how their trees were made. So there are two models here, named in every caption: the
**complete k-ary tree**, in which every inner broker has as many children as the fan-out says, and **random
attachment**, in which each broker joins at a random one that has fewer. The paper’s plots are known by its
text only, so it is the text that is compared.
"""

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; color: #222 }
body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
h1, h2 { line-height: 1.2 }
h2 { margin-top: 3rem; border-top: 1px solid #d9d9d9; padding-top: 1.5rem }
img { width: 100%; height: auto }
figure { margin: 1rem 0 }
figcaption { color: #555 }
table { border-collapse: collapse; margin: 1rem 0; width: 100% }
caption { text-align: left; padding-bottom: .3rem; font-weight: 600 }
th, td { text-align: left; vertical-align: top; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid #ddd }
code { background: #f3f3f3; padding: .1rem .3rem; border-radius: 3px; font-size: .9em }
"""


@dataclass(frozen=True, slots=True)
class Made:
    """A figure that was computed."""

    figure: Figure
    size: Size
    rows: Sequence[Row]
    command: str
    """What makes it again."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A title; level 1 is that of the whole."""

    level: int
    text: str


@dataclass(frozen=True, slots=True)
class Picture:
    """A picture file beside the report."""

    path: Path
    caption: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list."""

    items: list[str]


Block: TypeAlias = Heading | Picture | Items | Table | str


def write(made: Sequence[Made], out: Path, command: str) -> list[Path]:
    """Write everything into a directory; return the files."""
    out.mkdir(parents=True, exist_ok=True)
    files = [file for each in made for file in (_write_csv(each, out), _draw(each, out))]
    blocks = list(_blocks(made, out, command))
    for name, text in (("report.md", markdown(blocks)), ("report.html", html(blocks))):
        (out / name).write_text(text, encoding="utf-8")
        files.append(out / name)
    return files


def _write_csv(made: Made, out: Path) -> Path:
    path = out / f"{made.figure.stem}.csv"
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(made.figure.columns)
        writer.writerows([row[name] for name in made.figure.columns] for row in made.rows)
    return path


def _draw(made: Made, out: Path) -> Path:
    path = out / f"{made.figure.stem}.png"
    made.figure.draw(made.rows, made.size).savefig(path)
    return path


# -- what it says ------------------------------------------------------------------------------------------


def _blocks(made: Sequence[Made], out: Path, command: str) -> Iterator[Block]:
    yield Heading(1, "Figures of paper 000, made again")
    yield f"Made by `{command}`."
    yield " ".join(ABOUT.split())
    if any(each.size != each.figure.full for each in made):
        yield "**A quick run**: smaller networks than the paper’s; what is not the same means little."
    yield Heading(2, "Where the paper’s text and the measured values differ")
    differ = [
        f"Figure {each.figure.number}, {finding.where}: “{finding.claim}”. {finding.measured}"
        for each in made
        for finding in each.figure.findings(each.rows, each.size)
        if not finding.agrees
    ]
    yield Items(differ) if differ else "Nowhere, as far as the text says something that can be measured."
    for each in made:
        yield from _section(each, out)


def _section(made: Made, out: Path) -> Iterator[Block]:
    figure, size = made.figure, made.size
    yield Heading(2, f"Figure {figure.number}: {figure.title}")
    caption = (
        f"Figure {figure.number} of paper 000, by gapless: {size.brokers:,} brokers; top: complete k-ary "
        "tree, bottom: random attachment; left: fan-out 3, right: fan-out 7; "
        f"{figure.told(figure.caption, size)}."
    )
    yield Picture(out / f"{figure.stem}.png", caption)
    yield figure.told(figure.method, size)
    yield figure.table(made.rows, size)
    findings = figure.findings(made.rows, size)
    lines = [
        (f"“{each.claim}”", each.where, each.measured, "yes" if each.agrees else "**no**")
        for each in findings
    ]
    yield Table(
        "The paper’s text and the measured values", ("the paper", "where", "measured", "the same"), lines
    )
    yield f"Values: `{figure.stem}.csv`. Again: `{made.command}`."


# -- how it is written ---------------------------------------------------------------------------------------


def markdown(blocks: Sequence[Block]) -> str:
    """The blocks as Markdown."""
    return "\n\n".join(_markdown(block) for block in blocks) + "\n"


def _markdown(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"{'#' * level} {text}"
        case Picture(path, caption):
            return f"![{caption}]({path.name})\n\n*{caption}*"
        case Items(items):
            return "\n".join(f"- {each}" for each in items)
        case Table(title, header, lines):
            rows = [header, ("---",) * len(header), *lines]
            return f"**{title}**\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)
        case str():
            return block


def html(blocks: Sequence[Block]) -> str:
    """The blocks as one HTML page that needs no other file."""
    title = next(block.text for block in blocks if isinstance(block, Heading))
    body = "\n".join(_html(block) for block in blocks)
    return (
        f'<!doctype html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style></head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _html(block: Block) -> str:
    match block:
        case Heading(level, text):
            return f"<h{level}>{_inline(text)}</h{level}>"
        case Picture(path, caption):
            data = b64encode(path.read_bytes()).decode()
            image = f'<img alt="{escape(caption)}" src="data:image/png;base64,{data}">'
            return f"<figure>{image}<figcaption>{_inline(caption)}</figcaption></figure>"
        case Items(items):
            return f"<ul>{''.join(f'<li>{_inline(each)}</li>' for each in items)}</ul>"
        case Table(title, header, lines):
            head = "".join(f"<th>{_inline(cell)}</th>" for cell in header)
            rows = "".join(
                f"<tr>{''.join(f'<td>{_inline(cell)}</td>' for cell in line)}</tr>" for line in lines
            )
            return f"<table><caption>{_inline(title)}</caption><tr>{head}</tr>{rows}</table>"
        case str():
            return f"<p>{_inline(block)}</p>"


def _inline(text: str) -> str:
    """Code and strong words."""
    text = re.sub(r"`([^`]*)`", r"<code>\1</code>", escape(text))
    return re.sub(r"\*\*([^*]*)\*\*", r"<strong>\1</strong>", text)
