"""``gapless subscribe``: print the events of a topic that a selector matches."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime
from typing import Annotated, Any

import typer

from gapless.cli.network import DEFAULT_NETWORK, AsJson, Network, run
from gapless.cli.pipes import print_line
from gapless.client.client import connect
from gapless.client.events import Event, Reset
from gapless.client.subscription import Subscription


def subscribe(
    topic: Annotated[str, typer.Argument(help="The topic.")],
    selector: Annotated[str, typer.Argument(help='A condition, such as "price > 100"; empty: all.')] = "",
    durable: Annotated[str | None, typer.Option(help="The name of a durable subscription.")] = None,
    count: Annotated[int | None, typer.Option(help="End after this many events.", min=1)] = None,
    broker: Network = DEFAULT_NETWORK,
    as_json: AsJson = False,
) -> None:
    """Subscribe, say from when the promise holds, and print events until --count or Ctrl-C."""

    async def work() -> None:
        async with (
            connect(broker) as client,
            client.subscribe(topic, selector, durable=durable) as subscription,
        ):
            _announce(subscription, as_json)
            left = count
            async for item in subscription:
                await print_line(json.dumps(_as_dict(item)) if as_json else _in_words(item))
                if isinstance(item, Event) and left is not None:
                    left -= 1
                    if left == 0:
                        return

    run(work())


def _announce(subscription: Subscription, as_json: bool) -> None:
    unreachable = [list(each.nodes) for each in subscription.unreachable]
    if as_json:
        live = {"kind": "live", "start": subscription.start, "latency": subscription.latency}
        typer.echo(json.dumps({**live, "unreachable": unreachable}))
    else:
        latency = (subscription.latency or 0) * 1000
        text = f"live after {latency:.1f} ms: every matching event from now on, once and in order"
        if unreachable:
            text += "; not yet from behind " + " and ".join(", ".join(nodes) for nodes in unreachable)
        typer.secho(text, fg="green", err=True)


def _in_words(item: Event | Reset) -> str:
    if isinstance(item, Reset):
        whose = ", ".join(item.publishers) or "all publishers"
        return f"reset: events of {whose} may be missing; the promise begins anew"
    moment = datetime.fromtimestamp(item.published_at, UTC).strftime("%H:%M:%S.%f")[:-3]
    payload = f" {item.payload!r}" if item.payload else ""
    mark = " (best effort)" if item.best_effort else ""
    attributes = json.dumps(item.attributes, ensure_ascii=False)
    return f"{moment} {item.publisher} {item.sequence}{mark} {attributes}{payload}"


def _as_dict(item: Event | Reset) -> dict[str, Any]:
    if isinstance(item, Reset):
        return {"kind": "reset", "publishers": list(item.publishers), "start": item.start}
    return {
        "kind": "event",
        "topic": item.topic,
        "publisher": item.publisher,
        "sequence": item.sequence,
        "published_at": item.published_at,
        "best_effort": item.best_effort,
        "attributes": item.attributes,
        "payload_base64": base64.b64encode(item.payload).decode(),
    }
