"""Messages about topics: what is declared, and what clients ask to be declared.

==================  =====================  ===============================================================
message             from → to              meaning
==================  =====================  ===============================================================
``TopicsWanted``    client → its brokers   tell me the topics, and what becomes of them
``TopicsTold``      broker → its peers     declarations: all that I know when a session begins, then news
``CreateTopic``     client → its home      declare this
``DeleteTopic``     client → its home      let that be no topic any more
``TopicAnswer``     home → client          it is done and durable; or why not
==================  =====================  ===============================================================
"""

from __future__ import annotations

import msgspec

from gapless.core.model import Declaration, Topic


class TopicsWanted(msgspec.Struct, frozen=True, array_like=True, tag="topics-wanted"):
    """The client has not been given its topics: it asks for them."""


class TopicsTold(msgspec.Struct, frozen=True, array_like=True, tag="topics"):
    """Declarations; of the same name the one with the higher rank holds, whoever told it when."""

    declarations: tuple[Declaration, ...]
    more: bool = False
    """Another piece of the same table follows."""


class CreateTopic(msgspec.Struct, frozen=True, array_like=True, tag="create-topic"):
    """Declare the topic."""

    request: int
    topic: Topic


class DeleteTopic(msgspec.Struct, frozen=True, array_like=True, tag="delete-topic"):
    """Delete the topic; ``again``: another broker was asked before and may have done it."""

    request: int
    name: str
    again: bool = False


class TopicAnswer(msgspec.Struct, frozen=True, array_like=True, tag="topic-answer"):
    """The request is done and durable where it was asked; or ``error`` says why not."""

    request: int
    error: str = ""
