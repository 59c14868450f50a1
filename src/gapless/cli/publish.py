"""``gapless publish``: one event from the command line, or many from JSON lines."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import Progress, TextColumn, TimeElapsedColumn

from gapless.cli.network import DEFAULT_NETWORK, AsJson, Network, run
from gapless.cli.pipes import numbered_lines
from gapless.client.client import connect
from gapless.client.errors import PublishError
from gapless.client.publisher import Publisher


def publish(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    attributes: Annotated[
        list[str] | None, typer.Argument(help="name=text, or name:=JSON; a.b=… is nested.")
    ] = None,
    payload: Annotated[str, typer.Option(help="The payload, as text.")] = "",
    from_jsonl: Annotated[
        Path | None,
        typer.Option(
            help="Publish a JSON object a line: its members are the attributes; - is standard input. "
            'Or {"attributes": {…}, "payload": text, "payload_base64": text} with --envelope.',
            allow_dash=True,
        ),
    ] = None,
    envelope: Annotated[bool, typer.Option(help="Lines have attributes and payload apart.")] = False,
    name: Annotated[
        str | None, typer.Option(help="Publish under this name, exactly once over restarts.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Where a name keeps what is not confirmed.")] = None,
    broker: Network = DEFAULT_NETWORK,
    as_json: AsJson = False,
) -> None:
    """Publish, and wait until everything is confirmed."""
    if bool(attributes or payload) == (from_jsonl is not None):
        raise typer.BadParameter("give attributes (name=text, name:=JSON) or --payload, or --from-jsonl FILE")
    event = parse_attributes(attributes or []), payload.encode()

    async def work() -> None:
        async with connect(broker, data=data) as client, client.publisher(topic, name=name) as publisher:
            before = publisher.published
            if from_jsonl is None:
                await publisher.publish(*event)
            else:
                await _publish_lines(publisher, from_jsonl, envelope)
            await publisher.flush()
            done = {
                "topic": topic,
                "publisher": publisher.name,
                "published": publisher.published - before,
                "sequence": publisher.published,
            }
            typer.echo(json.dumps(done) if as_json else f"{done['published']:,} confirmed on {topic}")

    run(work())


async def _publish_lines(publisher: Publisher, path: Path, envelope: bool) -> None:
    columns = (TextColumn("{task.completed:,.0f} published"), TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("", total=None)
        async for number, line in numbered_lines(path):
            try:
                await publisher.publish(*_event(json.loads(line), envelope))
            except (ValueError, RecursionError, PublishError) as error:
                await publisher.flush()
                raise ValueError(f"{path}, line {number}: {error}; what came before is published") from None
            progress.advance(task)


def _event(line: Any, envelope: bool) -> tuple[dict[str, Any], bytes]:
    if not isinstance(line, dict):
        raise ValueError("a line must be a JSON object")
    if not envelope:
        return line, b""
    payload, encoded = line.get("payload", ""), line.get("payload_base64", "")
    if not isinstance(payload, str) or not isinstance(encoded, str):
        raise ValueError('"payload" and "payload_base64" must be text')
    attributes = line.get("attributes")
    if not isinstance(attributes, dict):
        raise ValueError('an envelope needs "attributes": {…}')
    return attributes, base64.b64decode(encoded, validate=True) or payload.encode()


def parse_attributes(words: list[str]) -> dict[str, Any]:
    """``symbol=IBM price:=131.2 desk.region=EU-W`` as attributes."""
    attributes: dict[str, Any] = {}
    for word in words:
        name, equals, text = word.partition("=")
        is_json = name.endswith(":")
        path = (name[:-1] if is_json else name).split(".")
        if not equals or not all(path):
            raise typer.BadParameter(f"{word!r} is no attribute; write name=text or name:=JSON")
        try:
            value = json.loads(text) if is_json else text
        except ValueError:
            raise typer.BadParameter(f"{word!r}: {text!r} is not JSON; write name=text for text") from None
        inner = attributes
        for step in path[:-1]:
            inner = inner.setdefault(step, {})
            if not isinstance(inner, dict):
                raise typer.BadParameter(f"{word!r}: {step} has a value already")
        inner[path[-1]] = value
    return attributes
