"""Topics: a table of declarations that every broker has, and clients learn.

A topic is declared at one broker, on request of a client. That broker gives the declaration a version later
than any it knows of the name, makes it durable, tells it to all its peers and answers. Who hears something
new makes it durable and passes it on; a session begins with the whole table. Of two declarations of a name
that of the higher rank holds, so all brokers come to the same table, in whatever order they hear, also after
partitions and crashes. A deletion is a declaration too, and stays as one, or a broker that was away would
bring the topic back.

Nothing is locked: two clients that declare one name differently on two sides of a partition are both told
that it is done, and when the sides meet one declaration holds. Clients of the other are told so
(``TopicDeleted`` with ``replaced_by``).
"""

from gapless.core.topics.broker import BrokerTopics
from gapless.core.topics.leaf import LeafTopics

__all__ = ["BrokerTopics", "LeafTopics"]
