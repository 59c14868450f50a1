"""``gapless topic``: declare, list, show and delete topics."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gapless.cli.network import DEFAULT_NETWORK, AsJson, Network, run
from gapless.client.client import connect
from gapless.client.errors import TopicError
from gapless.core.model import BeyondDelta, OrderName, Topic

app = typer.Typer(help="Declare, list, show and delete topics.", no_args_is_help=True)

Name = Annotated[str, typer.Argument(help="The name of the topic.")]


@app.command()
def create(
    name: Name,
    order: Annotated[OrderName, typer.Option(help="What the topic promises.")] = OrderName.PUBLISHER,
    schema: Annotated[str, typer.Option(help="Spark DDL, such as 'symbol STRING, price DOUBLE'.")] = "",
    beyond_delta: Annotated[
        BeyondDelta, typer.Option(help="Beyond δ failures: hold events, or mark them.")
    ] = BeyondDelta.HOLD,
    repositories: Annotated[int, typer.Option(help="Copies of a durable topic; 0: not durable.")] = 0,
    broker: Network = DEFAULT_NETWORK,
    as_json: AsJson = False,
) -> None:
    """Declare a topic to the whole network."""

    async def work() -> None:
        async with connect(broker) as client:
            topic = await client.create_topic(
                name, order=order, schema=schema, beyond_delta=beyond_delta, repositories=repositories
            )
            typer.echo(json.dumps(_as_dict(topic)) if as_json else f"topic {name}: {order} order")

    run(work())


@app.command("list")
def list_topics(broker: Network = DEFAULT_NETWORK, as_json: AsJson = False) -> None:
    """List the topics."""

    async def work() -> None:
        async with connect(broker) as client:
            topics = [_as_dict(topic) for _, topic in sorted(client.topics().items())]
            if as_json:
                typer.echo(json.dumps(topics))
            else:
                _show(topics)

    run(work())


@app.command()
def show(name: Name, broker: Network = DEFAULT_NETWORK, as_json: AsJson = False) -> None:
    """Show one topic."""

    async def work() -> None:
        async with connect(broker) as client:
            topic = client.topics().get(name)
            if topic is None:
                raise TopicError(f"there is no topic {name!r}; `gapless topic list` shows which there are")
            if as_json:
                typer.echo(json.dumps(_as_dict(topic)))
            else:
                _show([_as_dict(topic)])

    run(work())


@app.command()
def delete(name: Name, broker: Network = DEFAULT_NETWORK, as_json: AsJson = False) -> None:
    """Delete a topic; its subscriptions end."""

    async def work() -> None:
        async with connect(broker) as client:
            await client.delete_topic(name)
            typer.echo(json.dumps({"deleted": name}) if as_json else f"topic {name} deleted")

    run(work())


def _as_dict(topic: Topic) -> dict[str, Any]:
    return {
        "name": topic.name,
        "order": str(topic.order),
        "beyond_delta": str(topic.beyond_delta),
        "repositories": topic.repositories,
        "schema": topic.schema,
    }


def _show(topics: list[dict[str, Any]]) -> None:
    table = Table(title="topics")
    for column in ("name", "order", "beyond δ", "copies", "schema"):
        table.add_column(column)
    for topic in topics:
        table.add_row(*(Text(str(value)) for value in topic.values()))
    Console().print(table if topics else "no topics yet; `gapless topic create NAME` makes one")
