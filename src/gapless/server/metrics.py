"""Figures of one broker, and the endpoint where Prometheus asks for them.

Counting costs an addition a message or a batch, nothing an event. What can be read off the broker (sessions,
partitions, custody) is read when somebody asks. There is a registry for each broker, so several brokers of
one process do not mix, and the endpoint is served by the broker's own loop, so nothing needs a lock."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST
from prometheus_client.registry import Collector

from gapless.core.messages import BestEffortEvents, BestEffortSubscribe, BestEffortSubscribed, Message
from gapless.core.messages.publisher import Acknowledged, Confirmed, Log, Publications
from gapless.core.model import SECOND, NodeId, SubscriptionId
from gapless.server.addresses import format_address, parse_address
from gapless.version import __version__, build

if TYPE_CHECKING:
    from gapless.server.status import Reading

SECONDS = (0.0001, 0.0003, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
AWAITED_MAX = 10_000
"""The most subscriptions whose latency is measured at a time."""
RATE_SECONDS = 5
REQUEST_MAX = 8 << 10
REQUEST_SECONDS = 5.0
SCRAPES_MAX = 16


class Tally:
    """A histogram that costs a bisection to add to."""

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.total = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)

    def family(self, name: str, what: str) -> HistogramMetricFamily:
        """As Prometheus wants it: each bucket with all that is smaller."""
        so_far, buckets = 0, []
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            so_far += count
            buckets.append(("+Inf" if bound == float("inf") else str(bound), float(so_far)))
        family = HistogramMetricFamily(name, what)
        family.add_metric([], buckets, self.total)
        return family


class Figures:
    """What one broker has counted since it started."""

    def __init__(self) -> None:
        self.events_in = self.events_out = self.deliveries = 0
        self.acknowledgements_in = self.acknowledgements_out = 0
        self.bytes_in = self.bytes_out = 0
        """Of sessions that are gone; those of the others are read from them."""
        self.refusals = self.sessions_lost = 0
        self.batch_size = Tally(SIZES)
        self.step_seconds = Tally(SECONDS)
        self.sync_seconds = Tally(SECONDS)
        self.delivery_seconds = Tally(SECONDS)
        self.subscription_seconds = Tally(SECONDS)
        self.rates = Rates()
        self._awaited: dict[NodeId, dict[SubscriptionId, float]] = {}

    def received(self, peer: NodeId, messages: Sequence[Message], *, is_client: bool) -> None:
        """Count what came; note when a client's subscription was accepted."""
        for message in messages:
            kind = type(message)
            if kind is Publications:
                self.events_in += message.count  # type: ignore[union-attr]
            elif kind is Acknowledged:
                self.acknowledgements_in += len(message.acknowledgements)  # type: ignore[union-attr]
            elif kind is BestEffortEvents:
                self.events_in += len(message.events)  # type: ignore[union-attr]
            elif is_client and isinstance(message, Log):
                self._await(peer, [each.subscription for each in message.entries if each.body is not None])
            elif is_client and isinstance(message, BestEffortSubscribe):
                self._await(peer, [message.subscription])

    def sent(self, peer: NodeId, messages: Sequence[Message], *, is_client: bool) -> None:
        """Count what left; a client's subscription may be confirmed by it."""
        for message in messages:
            kind = type(message)
            if isinstance(message, (Publications, BestEffortEvents)):
                count = message.count if isinstance(message, Publications) else len(message.events)
                self.events_out += count
                if is_client and count:
                    self.deliveries += count
                    self._delivered(message)
            elif kind is Acknowledged:
                self.acknowledgements_out += len(message.acknowledgements)  # type: ignore[union-attr]
            elif is_client and isinstance(message, Confirmed):
                self._confirmed(peer, [each.subscription for each in message.confirmations])
            elif is_client and isinstance(message, BestEffortSubscribed):
                self._confirmed(peer, [message.subscription])

    def _delivered(self, message: Publications | BestEffortEvents) -> None:
        """Note the age of the first event, which has waited longest; clocks of machines may differ."""
        events = message.runs[0].events if isinstance(message, Publications) else message.events
        self.delivery_seconds.add(max(time.time() - events[0].published_at / SECOND, 0.0))

    def forget(self, peer: NodeId) -> None:
        """The session is gone."""
        self._awaited.pop(peer, None)

    def _await(self, peer: NodeId, subscriptions: Sequence[SubscriptionId]) -> None:
        if sum(map(len, self._awaited.values())) + len(subscriptions) <= AWAITED_MAX:
            now = time.monotonic()
            waiting = self._awaited.setdefault(peer, {})
            for subscription in subscriptions:
                waiting.setdefault(subscription, now)

    def _confirmed(self, peer: NodeId, subscriptions: Sequence[SubscriptionId]) -> None:
        waiting = self._awaited.get(peer, {})
        for subscription in subscriptions:
            began = waiting.pop(subscription, None)
            if began is not None:
                self.subscription_seconds.add(time.monotonic() - began)


class Rates:
    """Events a second, over the last few seconds."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int, int]] = deque(maxlen=RATE_SECONDS + 1)

    def sample(self, now: float, events_in: int, events_out: int) -> None:
        """How far the counters are; once a second."""
        self._samples.append((now, events_in, events_out))

    def now(self, now: float, events_in: int, events_out: int) -> tuple[float, float]:
        """Events in and out a second, up to this moment."""
        if not self._samples:
            return 0.0, 0.0
        began, first_in, first_out = self._samples[0]
        seconds = max(now - began, 0.001)
        return (events_in - first_in) / seconds, (events_out - first_out) / seconds


class BrokerCollector(Collector):
    """Reads a broker when Prometheus asks."""

    def __init__(self, figures: Figures, reading: Reading) -> None:
        self._figures = figures
        self._reading = reading

    def describe(self) -> Iterator[Metric]:
        """Nothing is read at registration."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """All families."""
        yield from self._counters()
        yield from self._gauges()
        figures = self._figures
        yield figures.batch_size.family("gapless_batch_inputs", "Inputs of a batch.")
        yield figures.step_seconds.family("gapless_step_seconds", "Time of a step of the node.")
        yield figures.sync_seconds.family(
            "gapless_sync_seconds", "Time until a batch of records was durable."
        )
        yield figures.delivery_seconds.family(
            "gapless_delivery_seconds",
            "Time from publishing to sending to a client, of the first in a message.",
        )
        yield figures.subscription_seconds.family(
            "gapless_subscription_seconds", "Time from a client's subscription to its confirmation here."
        )

    def _counters(self) -> Iterator[Metric]:
        figures, reading = self._figures, self._reading
        for name, what, value in (
            ("gapless_events_in", "Events received, copies too.", figures.events_in),
            ("gapless_events_out", "Events sent, copies too.", figures.events_out),
            ("gapless_deliveries", "Events sent to clients.", figures.deliveries),
            ("gapless_confirmations_in", "Ranges of confirmations received.", figures.acknowledgements_in),
            ("gapless_confirmations_out", "Ranges of confirmations sent.", figures.acknowledgements_out),
            ("gapless_bytes_in", "Bytes received on sessions.", reading.bytes_in()),
            ("gapless_bytes_out", "Bytes sent on sessions.", reading.bytes_out()),
            ("gapless_batches", "Batches of inputs handled.", reading.driver.batches),
            ("gapless_inputs", "Inputs handled.", reading.driver.inputs),
            ("gapless_sessions_lost", "Sessions that ended.", figures.sessions_lost),
            ("gapless_refusals", "Connections that were sent away.", figures.refusals),
        ):
            yield CounterMetricFamily(name, what, value=value)

    def _gauges(self) -> Iterator[Metric]:
        reading = self._reading
        overlay = reading.overlay
        info = GaugeMetricFamily(
            "gapless_broker_info",
            "1; the labels say which broker this is, of which network, version and build.",
            labels=["broker", "network", "version", "build"],
        )
        info.add_metric([overlay.me, overlay.identity.network, __version__, build()], 1)
        yield info
        sessions = GaugeMetricFamily("gapless_sessions", "Sessions by kind.", labels=["kind"])
        for kind, count in reading.sessions_by_kind().items():
            sessions.add_metric([kind], count)
        yield sessions
        for name, what, value in (
            ("gapless_joined", "1: a full member of the network.", int(reading.overlay.is_joined)),
            (
                "gapless_partitions",
                "Partitions that this broker detects.",
                len(reading.overlay.partitions.own),
            ),
            ("gapless_subscriptions", "Subscriptions that this broker knows.", reading.subscriptions()),
            ("gapless_custody_events", "Events that are not confirmed yet.", reading.custody()),
            ("gapless_oldest_event_seconds", "Age of the oldest of them.", reading.oldest_seconds()),
            ("gapless_unsent_bytes", "Bytes that peers have not taken yet.", reading.unsent()),
            ("gapless_inbox", "Inputs that wait for the next batch.", reading.driver.waiting),
            ("gapless_uptime_seconds", "Time since the start.", reading.uptime()),
        ):
            yield GaugeMetricFamily(name, what, value=value)


class MetricsEndpoint:
    """``GET /metrics`` by HTTP, for few and short questions."""

    def __init__(self, collector: BrokerCollector) -> None:
        self.registry = CollectorRegistry(auto_describe=False)
        self.registry.register(collector)
        self.address = ""
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.StreamWriter] = set()

    async def listen(self, address: str) -> None:
        """Answer at the address."""
        host, port = parse_address(address)
        self._server = await asyncio.start_server(self._serve, host, port, limit=REQUEST_MAX)
        self.address = format_address(host, self._server.sockets[0].getsockname()[1])

    async def close(self) -> None:
        """Answer no more."""
        if self._server is not None:
            self._server.close()
            for writer in list(self._open):
                writer.transport.abort()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._open) >= SCRAPES_MAX:
            writer.transport.abort()
            return
        self._open.add(writer)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(request))
                await writer.drain()
        except (OSError, EOFError, asyncio.LimitOverrunError):
            writer.transport.abort()
        finally:
            self._open.discard(writer)
            writer.close()

    def _answer(self, request: bytes) -> bytes:
        method, _, rest = request.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0]
        if method not in (b"GET", b"HEAD") or path not in (b"/metrics", b"/"):
            return _response("404 Not Found", "text/plain", b"ask for /metrics\n")
        body = generate_latest(self.registry)
        return _response("200 OK", CONTENT_TYPE_LATEST, body, with_body=method == b"GET")


def _response(status: str, kind: str, body: bytes, *, with_body: bool = True) -> bytes:
    head = (
        f"HTTP/1.1 {status}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Connection: close",
    )
    return "\r\n".join((*head, "", "")).encode() + (body if with_body else b"")
