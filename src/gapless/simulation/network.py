"""The simulated network: FIFO sessions with latency, links that are cut, slow or broken.

A link is a pair of nodes; every pair can talk, as over IP, and each direction of a pair can be cut by itself.
A cut link is an infinitely slow one (P0-06): what was sent stays in the session and arrives after the cut is
healed, unless the session was closed meanwhile. So a short cut delays and a long one, through the failure
detector, ends sessions; nothing is lost inside a session that lives (P0-09).

Set-up, collisions of two dials, replacement of an old session and the reset of a stale one follow what
:mod:`gapless.core.events` asks of a driver.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from gapless.core import names
from gapless.core.effects import Send
from gapless.core.events import ConnectFailed, Input, MessageReceived, SessionDown, SessionUp
from gapless.core.messages import Message, Ping
from gapless.core.model import MILLISECOND, SECOND, Identity, Micros, NodeId, Refusal

DIAL_TIMEOUT: Micros = 1 * SECOND


class Host(Protocol):
    """A node as the network sees it."""

    name: NodeId
    connections: dict[NodeId, Connection]
    dials: dict[NodeId, Dial]

    @property
    def is_up(self) -> bool:
        """Whether the node runs."""

    @property
    def identity(self) -> Identity:
        """What the node says of itself."""

    def knows(self, broker: NodeId) -> bool:
        """Whether the node knows where that broker is."""

    def receive(self, each: Input, connection: Connection | None = None) -> None:
        """Hand the node its next input; a new session comes with its connection."""


class Clock(Protocol):
    """Virtual time, and a way to be called later."""

    now: Micros

    def at(self, moment: Micros, call: Callable[[Any], None], argument: Any) -> None:
        """Call back at the moment."""


@dataclass(slots=True, eq=False)
class Dial:
    """An attempt to open a session."""

    dialer: NodeId
    target: NodeId
    via: tuple[NodeId, ...] = ()
    lost: bool = False  # it will not be answered, though the dialer does not know that yet
    refusal: Refusal | None = None


class Channel:
    """One direction of a session."""

    __slots__ = (
        "arrived_last",
        "connection",
        "free_at",
        "is_lost",
        "low",
        "normal",
        "source",
        "stalled",
        "target",
    )

    def __init__(self, connection: Connection, source: NodeId, target: NodeId) -> None:
        self.connection = connection
        self.source = source
        self.target = target
        self.arrived_last: Micros = 0
        self.is_lost = False  # its sender's machine died with all that was under way
        self.free_at: Micros = 0  # when the sender's line is free again, on a link with limited rate
        self.normal: deque[Message | None] = deque()
        self.low: deque[Message | None] = deque()
        self.stalled: deque[Message | None] = deque()  # what a cut holds up; None is the end of the session


class Connection:
    """A session of two nodes, as the wire sees it: direct, or through a proxy.

    Channels and identities go by the names of the machines. Those differ from the names of the nodes where
    two machines run nodes of one name.
    """

    __slots__ = ("channels", "identities", "is_broken", "is_taken", "proxy")

    def __init__(self, dialer: Host, target: Host, proxy: NodeId | None = None) -> None:
        self.proxy = proxy
        self.is_broken = False  # its proxy crashed: nothing passes any more, and nobody says so
        self.is_taken = False  # it ends because another client takes the dialer's name
        a, b = dialer.name, target.name
        self.channels = {a: Channel(self, a, b), b: Channel(self, b, a)}
        self.identities = {a: dialer.identity, b: target.identity}

    def identity_beside(self, machine: NodeId) -> Identity:
        """The node at the other end."""
        return next(identity for name, identity in self.identities.items() if name != machine)


@dataclass(slots=True)
class Latency:
    """How long a message takes: most take about ``typical``, a few in a hundred much longer."""

    typical: Micros = 5 * MILLISECOND
    tail_chance: float = 0.02

    @property
    def most(self) -> Micros:
        """No message takes longer than this."""
        return int(self.typical * 1.5 * (12 if self.tail_chance else 1)) + 1

    def draw(self, rng: Random) -> Micros:
        """A latency of one message."""
        factor = 0.5 + rng.random()
        if rng.random() < self.tail_chance:
            factor *= 4 + 8 * rng.random()
        return int(self.typical * factor) + 1


class Network:
    """All links and sessions of a world."""

    proxying: bool = True
    """Whether brokers pass on what others cannot send each other directly."""

    def __init__(self, clock: Clock, hosts: dict[NodeId, Host], latency: Latency, rng: Random) -> None:
        self.cut: dict[tuple[NodeId, NodeId], None] = {}
        self._proxied: dict[Connection, None] = {}
        self.dark: dict[NodeId, None] = {}  # crashed with their whole machine: nothing answers there
        self.slowness: dict[tuple[NodeId, NodeId], int] = {}
        self.us_per_message: dict[tuple[NodeId, NodeId], Micros] = {}
        self.starved: dict[tuple[NodeId, NodeId], None] = {}  # only signs of life pass at once
        self.messages = 0
        self.in_flight = 0  # messages under way, without signs of life
        self.useful_at: Micros = 0  # when something other than a sign of life was sent last
        self.tap: Callable[[NodeId, NodeId, Message], None] | None = None
        self._clock = clock
        self._hosts = hosts
        self._latency = latency
        self._rng = rng

    # -- faults ----------------------------------------------------------------------------------------

    def cut_link(self, source: NodeId, target: NodeId) -> None:
        """Stop the direction from source to target."""
        self.cut[source, target] = None

    def heal_link(self, source: NodeId, target: NodeId) -> None:
        """Let the direction go again; what waited in the session arrives, in order."""
        self.cut.pop((source, target), None)
        self._go_on(source, target)

    def _go_on(self, source: NodeId, target: NodeId) -> None:
        a, b = self._hosts[source].connections, self._hosts[target].connections
        direct = a.get(target) or b.get(source)
        for connection in (*([direct] if direct is not None else ()), *self._proxied):
            for channel in connection.channels.values():
                if channel.stalled and (source, target) in self._legs(channel):
                    delay = self._channel_delay(channel)
                    self._clock.at(self._clock.now + delay, self._resume, channel)

    def _legs(self, channel: Channel) -> tuple[tuple[NodeId, NodeId], ...]:
        proxy = channel.connection.proxy
        if proxy is None:
            return ((channel.source, channel.target),)
        return (channel.source, proxy), (proxy, channel.target)

    def _is_cut(self, channel: Channel) -> bool:
        if channel.connection.proxy is None:
            return (channel.source, channel.target) in self.cut
        return channel.connection.is_broken or any(leg in self.cut for leg in self._legs(channel))

    def break_session(self, source: NodeId, target: NodeId) -> None:
        """Lose a message inside the session: nothing later may ever arrive on it (P0-09)."""
        channel = self._hosts[source].connections[target].channels[source]
        channel.arrived_last = 1 << 62

    def lose_in_flight(self, source: NodeId) -> None:
        """Lose what the node has sent and nobody has received yet; the end of its sessions still shows."""
        for connection in self._hosts[source].connections.values():
            connection.channels[source].is_lost = True

    def feed(self, source: NodeId, target: NodeId) -> None:
        """End the starving of a direction; what waited arrives, in order."""
        self.starved.pop((source, target), None)
        self._go_on(source, target)

    # -- opening ---------------------------------------------------------------------------------------

    def dial(self, dialer: NodeId, target: NodeId, via: tuple[NodeId, ...] = ()) -> None:
        """Try to open a session; the dialer hears of the outcome in any case."""
        if target in self._hosts[dialer].connections:
            return  # the peer was faster, and the node is about to hear of it
        dial = Dial(dialer, target, via)
        self._hosts[dialer].dials[target] = dial
        self._clock.at(self._clock.now + self._delay(dialer, target), self._dial_arrives, dial)

    def _dial_arrives(self, dial: Dial) -> None:
        is_cut = self._is_pair_cut(dial.dialer, dial.target)
        if dial.target in self.dark or is_cut:
            self._lose(dial, DIAL_TIMEOUT)
            if dial.target not in self.dark and self._proxy_of(dial) is not None:
                dial.lost = False
                self._clock.at(self._clock.now + DIAL_TIMEOUT // 2, self._dial_by_proxy, dial)
            return
        self._dial_reaches(dial, None)

    def _is_pair_cut(self, a: NodeId, b: NodeId) -> bool:
        return (a, b) in self.cut or (b, a) in self.cut

    def _proxy_of(self, dial: Dial) -> NodeId | None:
        """The first of the offered brokers that runs and reaches both ends."""
        for name in dial.via if self.proxying else ():
            cut = self._is_pair_cut(dial.dialer, name) or self._is_pair_cut(name, dial.target)
            if name in self._hosts and self._hosts[name].is_up and not cut:
                return name
        return None

    def _dial_by_proxy(self, dial: Dial) -> None:
        proxy = self._proxy_of(dial)
        if proxy is not None and self._hosts[dial.dialer].dials.get(dial.target) is dial:
            self._dial_reaches(dial, proxy)

    def _dial_reaches(self, dial: Dial, proxy: NodeId | None) -> None:
        dialer, target = self._hosts[dial.dialer], self._hosts.get(dial.target)
        if target is None or not target.is_up:
            self._lose(dial, self._delay(dial.target, dial.dialer))
            return
        if dialer.dials.get(dial.target) is not dial:
            return  # given up meanwhile
        if self._collides(dial):
            self._lose(dial, DIAL_TIMEOUT)  # the dial that comes the other way answers it before that
            return
        name, old = dialer.identity.node, target.connections.get(dialer.identity.node)
        holder = old.identity_beside(dial.target) if old is not None else None
        dial.refusal = names.refusal(target.identity, dialer.identity, holder or self._first(dialer, target))
        if dial.refusal is not None:
            self._lose(dial, self._delay(dial.target, dial.dialer))
            return
        target.dials.pop(name, None)
        if old is not None and holder is not None and names.takes_over(holder, dialer.identity):
            old.is_taken = True
            self._transmit(old.channels[dial.target], None)
        connection = target.connections[name] = Connection(dialer, target, proxy)
        if proxy is not None:
            self._proxied[connection] = None
        channel = connection.channels[dial.target]
        channel.arrived_last = self._clock.now + self._delay(dial.target, dial.dialer)
        self._clock.at(channel.arrived_last, self._dial_succeeds, (dial, connection, target.identity))
        if old is not None:
            target.receive(SessionDown(name, "replaced by a new session"))
        target.receive(SessionUp(dialer.identity, dialed=False), connection)

    def _first(self, dialer: Host, target: Host) -> Identity | None:
        """The broker whose twin the dialer is, if the target can ask it: it knows its address, as live
        brokers do, and asks there before it lets another machine have the name."""
        name = dialer.identity.node
        first = self._hosts.get(name)
        if first is None or first is dialer or not first.is_up or dialer.identity.is_leaf:
            return None
        reachable = not self._is_pair_cut(target.name, name)
        return first.identity if reachable and target.knows(name) else None

    def _collides(self, dial: Dial) -> bool:
        """Whether the target dials back just now and its dial is the one that wins."""
        other = self._hosts[dial.target].dials.get(self._hosts[dial.dialer].identity.node)
        return other is not None and not other.lost and dial.target < dial.dialer

    def _lose(self, dial: Dial, span: Micros) -> None:
        dial.lost = True
        self._clock.at(self._clock.now + span, self._dial_fails, dial)

    def _dial_succeeds(self, outcome: tuple[Dial, Connection, Identity]) -> None:
        dial, connection, identity = outcome
        dialer, target = self._hosts[dial.dialer], self._hosts[dial.target]
        if dialer.dials.get(dial.target) is not dial or not target.is_up:
            name = connection.identities[dial.dialer].node
            if target.connections.get(name) is connection:
                self._reset(target, name)
            self._dial_fails(dial)
            return
        del dialer.dials[dial.target]
        dialer.connections[dial.target] = connection
        dialer.receive(SessionUp(identity, dialed=True), connection)

    def _dial_fails(self, dial: Dial) -> None:
        dialer = self._hosts[dial.dialer]
        if dialer.dials.get(dial.target) is dial:
            del dialer.dials[dial.target]
            dialer.receive(ConnectFailed(dial.target, dial.refusal))

    # -- carrying --------------------------------------------------------------------------------------

    def send(self, source: NodeId, connection: Connection, effect: Send) -> None:
        """Put a message into a session; if that is gone at the other end, nobody will read it."""
        message = effect.message
        self.messages += 1
        if type(message) is not Ping:
            self.useful_at = self._clock.now
        if self.tap is not None:
            self.tap(source, effect.peer, message)
        channel = connection.channels[source]
        rate = self.us_per_message.get((source, effect.peer), 0) if self.us_per_message else 0
        if rate == 0 and not channel.normal and not channel.low:
            self._transmit(channel, message)
            return
        (channel.low if effect.low else channel.normal).append(message)
        if channel.free_at <= self._clock.now:
            channel.free_at = self._clock.now
            self._next_on_line(channel)

    def _next_on_line(self, channel: Channel) -> None:
        """On a link of limited rate: take the next message, a normal one if there is any (D3-10)."""
        if channel.free_at > self._clock.now or not (channel.normal or channel.low):
            return
        self._transmit(channel, (channel.normal or channel.low).popleft())
        channel.free_at = self._clock.now + self.us_per_message.get((channel.source, channel.target), 0)
        self._clock.at(channel.free_at, self._next_on_line, channel)

    def _transmit(self, channel: Channel, item: Message | None) -> None:
        arrival = self._clock.now + self._channel_delay(channel)
        if arrival <= channel.arrived_last:
            arrival = channel.arrived_last + 1
        channel.arrived_last = arrival
        if type(item) is not Ping:
            self.in_flight += 1
        self._clock.at(arrival, self._arrives, (channel, item))

    def _arrives(self, arrival: tuple[Channel, Message | None]) -> None:
        channel, item = arrival
        if type(item) is not Ping:
            self.in_flight -= 1
        self._deliver(channel, item)

    def _deliver(self, channel: Channel, item: Message | None) -> None:
        if (channel.stalled or self._is_cut(channel) or self.starved) and not self._passes(channel, item):
            channel.stalled.append(item)
            return
        if channel.is_lost and item is not None:
            return
        target, connection = self._hosts[channel.target], channel.connection
        source = connection.identities[channel.source].node
        if target.connections.get(source) is not connection:
            self._stale(channel)
        elif item is None:
            del target.connections[source]
            target.receive(SessionDown(source, "closed by the peer", taken=connection.is_taken))
        else:
            target.receive(MessageReceived(source, item))

    def _passes(self, channel: Channel, item: Message | None) -> bool:
        """Whether the item arrives now on a channel that is cut, starved, or has others waiting."""
        is_starved = (channel.source, channel.target) in self.starved
        if self._is_cut(channel) or (channel.stalled and not is_starved):
            return False
        return not is_starved or type(item) is Ping

    def _resume(self, channel: Channel) -> None:
        """The end of a cut: what it held up arrives, before anything that was sent later."""
        if self._is_cut(channel) or (channel.source, channel.target) in self.starved:
            return
        waiting, channel.stalled = channel.stalled, deque()
        for item in waiting:
            self._deliver(channel, item)

    def _stale(self, channel: Channel) -> None:
        """The target runs and no longer has this session: a reset goes back, as TCP does."""
        source, target = self._hosts[channel.source], self._hosts[channel.target]
        name = channel.connection.identities[channel.target].node
        if target.is_up and source.connections.get(name) is channel.connection:
            back = channel.connection.channels[channel.target]
            self._transmit(back, None)

    def _reset(self, host: Host, peer: NodeId) -> None:
        del host.connections[peer]
        if host.is_up:
            host.receive(SessionDown(peer, "reset"))

    # -- closing ---------------------------------------------------------------------------------------

    def close(self, source: NodeId, peer: NodeId, connection: Connection) -> None:
        """End the session after what was sent on it."""
        connections = self._hosts[source].connections
        if connections.get(peer) is connection:
            del connections[peer]
        self._proxied.pop(connection, None)
        channel = connection.channels[source]
        if channel.normal or channel.low:
            channel.low.append(None)
        else:
            self._transmit(channel, None)

    def crashed(self, name: NodeId, *, silently: bool) -> None:
        """The node is gone. Its operating system may still close its sessions, or nothing does."""
        host = self._hosts[name]
        host.dials.clear()
        if silently:
            self.dark[name] = None
        for connection in [each for each in self._proxied if each.proxy == name]:
            connection.is_broken = True
            del self._proxied[connection]
        for peer, connection in list(host.connections.items()):
            del host.connections[peer]
            if not silently:
                self._transmit(connection.channels[name], None)

    def _channel_delay(self, channel: Channel) -> Micros:
        proxy = channel.connection.proxy
        if proxy is None:
            return self._delay(channel.source, channel.target)
        return self._delay(channel.source, proxy) + self._delay(proxy, channel.target)

    def _delay(self, source: NodeId, target: NodeId) -> Micros:
        delay = self._latency.draw(self._rng)
        if self.slowness:
            delay *= self.slowness.get((source, target), 1)
        return delay
