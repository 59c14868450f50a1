"""How a broker is, as one dictionary: what ``gapless status`` shows and monitoring may rely on.

==================  =======================================================================================
key                 value
==================  =======================================================================================
``id``              the broker's name
``address``         where others dial it
``version``         of the program
``build``           ``compiled`` or ``interpreted``
``network``         the id of the network; empty while the broker does not know it
``incarnation``     which life of the broker this is
``state``           ``operational`` or ``recovering``
``join``            ``detached``, ``attached`` or ``joined``
``delta``           δ of the network
``durable``         whether its store survives it
``uptime``          seconds
``addresses``       the brokers of its neighbourhood, itself included, and where they listen
``links``           the links of the tree that it knows, as pairs
``sessions``        a list of ``peer``, ``kind`` (``broker``, ``client``), ``address``, ``active``,
                    ``dialed_via`` (a proxy, or empty), ``rtt`` (seconds or null), ``bytes_in``,
                    ``bytes_out``, ``frames_in``, ``frames_out``, ``unsent`` (bytes); brokers first, at most a
                    thousand
``session_count``   ``broker`` and ``client``: how many there are in all
``passed_on``       sessions of others that go through this broker as a proxy
``partitions``      own ones: ``detector``, ``number``, ``nodes``, ``kind`` (``island``, ``barrier``)
``topics``          ``name``, ``order``, ``beyond_delta``, ``schema``, ``subscriptions``
``subscriptions``   how many this broker knows
``custody``         ``events`` not confirmed yet, ``oldest`` (seconds since it was published, or null)
``stalled``         heads of streams that wait for longer than a second: ``topic``, ``publisher``,
                    ``sequence``, ``seconds``, ``behind`` (events of the stream that wait, itself included),
                    ``waits_for`` (targets), ``asked`` (peers that should confirm; none: nobody can be asked);
                    oldest first
``rates``           ``events_in``, ``events_out`` a second, over the last five
``totals``          ``events_in``, ``events_out``, ``deliveries``, ``bytes_in``, ``bytes_out``, ``batches``,
                    ``inputs``, ``refusals``
``waiting``         inputs that wait for the next batch
==================  =======================================================================================
"""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass
from typing import Any, cast

from gapless.core.broker import Broker
from gapless.core.model import NodeId, OrderName
from gapless.core.orders.best_effort import BestEffortBroker
from gapless.core.orders.publisher import PublisherBroker
from gapless.core.orders.publisher.custody import Held, Source
from gapless.core.overlay.overlay import Overlay
from gapless.server.driver import Driver
from gapless.server.metrics import Figures
from gapless.version import __version__, build

SESSIONS_MAX = 1_000
STALLED_MAX = 100
STALLED_SECONDS = 1.0
FRESH_SECONDS = 0.2
"""A report that is not older than this is given again: whoever asks costs little."""


class Reading:
    """Reads figures off a running broker."""

    def __init__(self, driver: Driver, figures: Figures) -> None:
        self.driver = driver
        self.figures = figures
        self.broker = cast(Broker, driver.node)
        self._began = time.monotonic()

    @property
    def overlay(self) -> Overlay:
        """Where the broker is in the network."""
        return self.broker.overlay

    @property
    def _publisher_order(self) -> PublisherBroker:
        return cast(PublisherBroker, self.broker.orders[OrderName.PUBLISHER])

    @property
    def _best_effort(self) -> BestEffortBroker:
        return cast(BestEffortBroker, self.broker.orders[OrderName.BEST_EFFORT])

    def uptime(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self._began

    def bytes_in(self) -> int:
        """Of all sessions that there were."""
        return self.figures.bytes_in + sum(each.bytes_in for each in self.driver.transport.sessions.values())

    def bytes_out(self) -> int:
        """Of all sessions that there were."""
        return self.figures.bytes_out + sum(
            each.bytes_out for each in self.driver.transport.sessions.values()
        )

    def unsent(self) -> int:
        """Bytes that the peers have not taken."""
        return sum(each.unsent for each in self.driver.transport.sessions.values())

    def sessions_by_kind(self) -> dict[str, int]:
        """How many sessions with brokers and with clients there are."""
        clients = sum(each.is_client for each in self.driver.transport.sessions.values())
        return {"broker": len(self.driver.transport.sessions) - clients, "client": clients}

    def subscriptions_by_topic(self) -> Counter[str]:
        """Subscriptions that this broker knows."""
        log = self._publisher_order.log
        entries = (log[each] for each in log.subscriptions())
        counts = Counter(entry.body.topic for entry in entries if not entry.ended)
        counts.update(route.message.topic for route in self._best_effort.routes.values())
        return counts

    def subscriptions(self) -> int:
        """How many there are."""
        return self.subscriptions_by_topic().total()

    def custody(self) -> int:
        """Events that are not confirmed."""
        return len(self._publisher_order.forwarding.custody)

    def heads(self) -> list[tuple[float, Source, int, Held]]:
        """The first event of each stream that is not confirmed, the oldest first: its age in seconds, the
        stream, and how many of it wait."""
        now = self.driver.clock.now()
        found = []
        for source, stream in self._publisher_order.forwarding.custody.streams.items():
            head = next(iter(stream.held.values()), None)
            if head is not None:
                age = max(0.0, (now - head.event.published_at) / 1e6)
                found.append((age, source, len(stream.held), head))
        return sorted(found, key=lambda each: -each[0])

    def oldest_seconds(self) -> float:
        """Age of the oldest event that is not confirmed."""
        heads = self.heads()
        return heads[0][0] if heads else 0.0


@dataclass(slots=True)
class Reporter:
    """Makes reports of one broker."""

    reading: Reading
    durable: bool
    _made: tuple[float, dict[str, Any]] | None = None

    def report(self) -> dict[str, Any]:
        """How the broker is now, or was a moment ago."""
        now = time.monotonic()
        if self._made is None or now - self._made[0] > FRESH_SECONDS:
            self._made = (now, self._report())
        return self._made[1]

    def _report(self) -> dict[str, Any]:
        reading, transport = self.reading, self.reading.driver.transport
        overlay = reading.overlay
        heads = reading.heads()
        return {
            "id": overlay.me,
            "address": transport.address,
            "version": __version__,
            "build": build(),
            "network": overlay.identity.network,
            "incarnation": overlay.identity.incarnation,
            "state": str(overlay.state),
            "join": str(overlay.joining.state),
            "delta": overlay.topology.delta,
            "durable": self.durable,
            "uptime": round(reading.uptime(), 3),
            "addresses": {
                node: address for node, (_, address) in transport.book.of(overlay.topology.nodes()).items()
            },
            "links": [list(each) for each in overlay.topology.links()],
            "sessions": self._sessions(),
            "session_count": reading.sessions_by_kind(),
            "passed_on": transport.proxied,
            "partitions": self._partitions(),
            "topics": self._topics(),
            "subscriptions": reading.subscriptions(),
            "custody": {"events": reading.custody(), "oldest": round(heads[0][0], 3) if heads else None},
            "stalled": [_stalled(*each) for each in heads[:STALLED_MAX] if each[0] >= STALLED_SECONDS],
            **self._counters(),
        }

    def _counters(self) -> dict[str, Any]:
        reading, figures = self.reading, self.reading.figures
        rates = figures.rates.now(time.monotonic(), figures.events_in, figures.events_out)
        return {
            "rates": {"events_in": round(rates[0], 1), "events_out": round(rates[1], 1)},
            "totals": {
                "events_in": figures.events_in,
                "events_out": figures.events_out,
                "deliveries": figures.deliveries,
                "bytes_in": reading.bytes_in(),
                "bytes_out": reading.bytes_out(),
                "batches": reading.driver.batches,
                "inputs": reading.driver.inputs,
                "refusals": figures.refusals,
            },
            "waiting": reading.driver.waiting,
        }

    def _sessions(self) -> list[dict[str, Any]]:
        active = set(self.reading.overlay.frontier.active)
        sessions = sorted(self.reading.driver.transport.sessions.items(), key=lambda each: each[1].is_client)
        return [
            {
                "peer": peer,
                "kind": "client" if connection.is_client else "broker",
                "address": connection.peer_address,
                "active": peer in active or connection.is_client,
                "dialed_via": connection.via,
                "rtt": connection.rtt,
                "bytes_in": connection.bytes_in,
                "bytes_out": connection.bytes_out,
                "frames_in": connection.frames_in,
                "frames_out": connection.frames_out,
                "unsent": connection.unsent,
            }
            for peer, connection in sessions[:SESSIONS_MAX]
        ]

    def _partitions(self) -> list[dict[str, Any]]:
        overlay = self.reading.overlay
        return [
            {
                "detector": each.detector,
                "number": each.number,
                "nodes": list(each.nodes),
                "kind": "island" if overlay.partitions.is_island(each, overlay.frontier) else "barrier",
            }
            for each in overlay.partitions.own.values()
        ]

    def _topics(self) -> list[dict[str, Any]]:
        counts = self.reading.subscriptions_by_topic()
        return [
            {
                "name": name,
                "order": str(topic.order),
                "beyond_delta": str(topic.beyond_delta),
                "schema": topic.schema,
                "subscriptions": counts[name],
            }
            for name, topic in self.reading.broker.topics.table.topics().items()
        ]


def _stalled(age: float, source: Source, behind: int, head: Held) -> dict[str, Any]:
    asked: list[NodeId] = [hop for hop in head.waiting if hop is not None]
    return {
        "topic": source[0],
        "publisher": source[1],
        "sequence": head.event.sequence,
        "seconds": round(age, 3),
        "behind": behind,
        "waits_for": list(dict.fromkeys(each[0] for targets in head.waiting.values() for each in targets)),
        "asked": asked,
    }
