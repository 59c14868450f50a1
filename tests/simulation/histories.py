"""Small traces in a small language, and random ones: correct by construction, or chaotic.

``play("s+ p.1 s<p.1")`` is a trace, a record a millisecond. The words, with ``s`` a subscription, ``p`` a
publisher and ``p.1`` its first event (a subscription or publisher is its own client unless ``clients`` says
otherwise, so ``p+`` makes the publisher ``p`` a subscriber too):

======== ================================ ========= ==================================
``s?``   subscribe                        ``p.1``   publish
``s!``   live                             ``ok:p.1`` confirm
``s+``   subscribe and live               ``s<p.1`` deliver
``s-``   unsubscribe                      ``s~p.1`` deliver, flagged as best effort
``s^p``  reset of p (``s^p.5``: from 5)   ``x:n``   crash of a node; ``r:n`` its restart
         ..                               ``f:p``   p is told that its name is another's
======== ================================ ========= ==================================
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from random import Random
from typing import Any

from gapless.simulation.trace import (
    Confirm,
    Crash,
    Deliver,
    Fenced,
    Live,
    Publish,
    Record,
    Reset,
    Restart,
    Subscribe,
    Unsubscribe,
)

SELECTORS = ("", "n > 2", "colour = 'red'", "n BETWEEN 2 AND 5 AND colour <> 'blue'")
COLOURS = ("red", "white", "blue")
_WORD = re.compile(r"(ok:|x:|r:|f:)?([a-z]+)([?!+<~^-])?([a-z]+)?(?:\.(\d+))?")


class Story:
    """Makes records, a millisecond apart."""

    def __init__(
        self,
        *,
        selectors: Mapping[str, str] | None = None,
        live: Mapping[str, dict[str, Any]] | None = None,
        clients: Mapping[str, str] | None = None,
        topics: Mapping[str, str] | None = None,
        attributes: Mapping[str, dict[str, Any]] | None = None,
        durable: tuple[str, ...] = (),
    ) -> None:
        self.records: list[Record] = []
        self._selectors = selectors or {}
        self._live = live or {}
        self._clients = clients or {}
        self._topics = topics or {}
        self._attributes = attributes or {}
        self._durable = durable

    def word(self, text: str) -> None:
        """Add what one word says."""
        found = _WORD.fullmatch(text)
        assert found, text
        prefix, name, verb, publisher, number = found.groups()
        t = 1000 * len(self.records)
        sequence = int(number or 0)
        record: Record
        match prefix or verb:
            case "ok:":
                record = Confirm(t=t, publisher=name, sequence=sequence)
            case "x:":
                record = Crash(t=t, node=name)
            case "f:":
                record = Fenced(t=t, client=self._clients.get(name, name), publisher=name)
            case "r:":
                record = Restart(t=t, node=name)
            case "?":
                record = self._subscribe(t, name)
            case "+":
                self.word(f"{name}?")
                return self.word(f"{name}!")
            case "!":
                record = Live(t=t, subscription=name, **self._live.get(name, {}))
            case "-":
                record = Unsubscribe(t=t, subscription=name)
            case "^":
                start = {publisher: sequence} if sequence else {}
                record = Reset(t=t, subscription=name, publishers=(publisher,), start=start)
            case "<" | "~":
                record = self._deliver(t, name, publisher, sequence, verb == "~")
            case _:
                record = self._publish(t, name, sequence)
        self.records.append(record)
        return None

    def _subscribe(self, t: int, name: str) -> Subscribe:
        return Subscribe(
            t=t,
            client=self._clients.get(name, name),
            subscription=name,
            topic=self._topics.get(name, "t"),
            selector=self._selectors.get(name, ""),
            broker="b",
            durable=name if name in self._durable else "",
        )

    def _deliver(self, t: int, name: str, publisher: str, sequence: int, best_effort: bool) -> Deliver:
        return Deliver(
            t=t,
            client=self._clients.get(name, name),
            subscription=name,
            publisher=publisher,
            sequence=sequence,
            best_effort=best_effort,
        )

    def _publish(self, t: int, name: str, sequence: int) -> Publish:
        return Publish(
            t=t,
            client=self._clients.get(name, name),
            publisher=name,
            sequence=sequence,
            topic=self._topics.get(name, "t"),
            attributes=self._attributes.get(f"{name}.{sequence}", {"n": sequence}),
        )


def play(words: str, **options: Any) -> list[Record]:
    """The trace that the words tell."""
    story = Story(**options)
    for word in words.split():
        story.word(word)
    return story.records


def _cast(rng: Random) -> dict[str, Any]:
    """Who plays: selectors, and publishers that are clients of subscriptions too."""
    return {
        "selectors": {name: rng.choice(SELECTORS) for name in "stuabc"},
        "attributes": {
            f"{name}.{n}": {"n": n, "colour": rng.choice(COLOURS)} for name in "abc" for n in range(1, 40)
        },
        "clients": rng.choice(({}, {"c": "b"}, {"s": "a", "u": "b"})),
        "durable": rng.choice(((), ("s", "u"))),
    }


def correct(rng: Random, steps: int = 60) -> list[Record]:
    """A history that keeps every promise: each subscription has all that matches, queued as it was published.

    The queues are in one order, so deliveries are in total order; a cause is published before its effect, so
    they are in causal order. In the end the queues run empty.
    """
    cast = _cast(rng)
    story = Story(**cast)
    queues: dict[str, list[str]] = {}
    counts = dict.fromkeys("abc", 0)
    for _ in range(steps):
        name = rng.choice("stuabc")
        action = rng.random()
        if name not in queues and action < 0.3:
            queues[name] = []
            story.word(f"{name}+")
        elif name in queues and action < 0.05:
            del queues[name]
            story.word(f"{name}-")
        elif queues.get(name) and action < 0.7:
            story.word(f"{name}<{queues[name].pop(0)}")
        elif name in counts:
            counts[name] += 1
            event = f"{name}.{counts[name]}"
            story.word(event)
            for subscriber, queue in queues.items():
                if understands(cast["selectors"][subscriber], cast["attributes"][event]):
                    queue.append(event)
            if action < 0.9:
                story.word(f"ok:{event}")
    while waiting := [name for name, queue in queues.items() if queue]:
        name = rng.choice(waiting)
        story.word(f"{name}<{queues[name].pop(0)}")
    return story.records


def chaotic(rng: Random, steps: int = 50) -> list[Record]:
    """A history that keeps no promise: anything that can be told happens, within few names and numbers."""
    cast = _cast(rng)
    start = {name: rng.randint(1, 6) for name in "abc" if rng.random() < 0.4}
    cast["live"] = {
        name: {"start": start, "unreachable": tuple(rng.choice(("", "", "a", "b")))} for name in "sabc"
    }
    story = Story(**cast)
    published: list[str] = []
    counts = dict.fromkeys("abc", 0)
    opened: list[str] = []
    for _ in range(steps):
        name, other, action = rng.choice("stuabc"), rng.choice("abc"), rng.random()
        if action < 0.3:
            counts[other] += 1
            published.append(f"{other}.{counts[other]}")
            story.word(published[-1])
        elif action < 0.85 and opened and published:
            sign = "~" if rng.random() < 0.15 else "<"
            story.word(f"{rng.choice(opened)}{sign}{rng.choice(published)}")
        elif action < 0.93:
            opened.append(name)
            story.word(f"{name}{rng.choice('?+++')}")
        elif published:
            words = (f"{name}!", f"{name}-", f"{name}^{other}", f"{name}^{other}.{rng.randint(1, 6)}")
            story.word(rng.choice((*words, f"x:{name}", f"f:{other}", f"ok:{rng.choice(published)}")))
    return story.records


def understands(selector: str, attributes: Mapping[str, Any]) -> bool:
    """What the few selectors of these histories mean, told once more."""
    n, colour = attributes.get("n"), attributes.get("colour")
    return {
        "": True,
        "n > 2": n is not None and n > 2,
        "colour = 'red'": colour == "red",
        "n BETWEEN 2 AND 5 AND colour <> 'blue'": n is not None
        and 2 <= n <= 5
        and colour in ("red", "white"),
    }[selector]
