"""What can be declared: the rules for requests, and what a broker takes from a peer at all."""

from __future__ import annotations

from collections.abc import Collection

from gapless.core.model import Declaration, Topic
from gapless.core.schema import TEXT_MAX, Schema, SchemaError

NAME_MAX = 255
VERSION_MAX = 1 << 62
REPOSITORIES_MAX = 255

_SHOWN_MAX = 200


def check_name(name: str, what: str = "topic") -> str | None:
    """What is wrong with a name; ``None``: nothing."""
    if not name:
        return f"a {what} needs a name"
    if len(name) > NAME_MAX:
        return f"the name of a {what} has at most {NAME_MAX} characters, not {len(name)}"
    if not name.isprintable():
        return f"the name of a {what} has only printable characters: {name!a}"
    return None


def check_topic(topic: Topic, orders: Collection[str]) -> str | None:
    """Why the topic cannot be declared in a network that has these orders; ``None``: it can."""
    flaw = check_name(topic.name)
    if flaw is not None:
        return flaw
    if topic.order not in orders:
        return f"order {str(topic.order)!r} is not built yet; there are {', '.join(sorted(orders))}"
    if topic.repositories:
        return f"durable topics are not built yet: repositories must be 0, not {topic.repositories}"
    try:
        Schema.parse(topic.schema) if topic.schema else None
    except SchemaError as error:
        return f"the schema cannot be read: {error}"
    return None


def canonical(topic: Topic) -> Topic:
    """The same topic, written in the one way in which declarations are compared."""
    if not topic.schema:
        return topic
    schema = str(Schema.parse(topic.schema))
    return Topic(topic.name, topic.order, topic.beyond_delta, topic.repositories, schema)


def difference(declared: Topic, asked: Topic) -> str:
    """In what two topics of one name differ, for people."""
    parts = [
        f"{label} is {_shown(old)}, not {_shown(new)}"
        for label, old, new in (
            ("order", declared.order, asked.order),
            ("beyond_delta", declared.beyond_delta, asked.beyond_delta),
            ("repositories", str(declared.repositories), str(asked.repositories)),
            ("schema", declared.schema or "(none)", asked.schema or "(none)"),
        )
        if old != new
    ]
    return f"there is a topic {declared.name!r} already, and it is another one: {'; '.join(parts)}"


def _shown(value: str) -> str:
    return value if len(value) <= _SHOWN_MAX else f"{value[:_SHOWN_MAX]}…"


def is_plausible(declaration: Declaration) -> bool:
    """Whether a broker would have made it; only a hostile or broken one tells others."""
    topic = declaration.topic
    return (
        check_name(topic.name) is None
        and 0 < declaration.version <= VERSION_MAX
        and 0 <= topic.repositories <= REPOSITORIES_MAX
        and len(topic.schema) <= TEXT_MAX
    )
