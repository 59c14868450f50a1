"""Subscriptions at a broker: accept on arrival, stream on, confirm when all behind have (000, IV; 003, 4.7).

A confirmation goes towards the client when every other side has confirmed. It says what could not be reached
(the partitions that this broker or one behind it detects, P0-41 to P0-47), and the *cut*: for each publisher
the last event that some broker took without knowing the subscription. It is sent again when it changes, which
is the recovery notifier of 000 (P0-86) and carries the start of the recovered part (X-P0-08).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from msgspec.structs import replace

from gapless.core.effects import Effect, Send
from gapless.core.limits import Limits
from gapless.core.messages.publisher import (
    Acknowledged,
    Body,
    Confirmation,
    Confirmed,
    Log,
    LogEntry,
    LogReceived,
)
from gapless.core.model import Incarnation, Micros, NodeId, Partition, Path, SubscriptionId
from gapless.core.orders.base import is_selector, pieces
from gapless.core.orders.publisher.endings import Endings
from gapless.core.orders.publisher.forwarding import Forwarding
from gapless.core.orders.publisher.log import Cut, Entry, PeerLog, SubscriptionLog, made_in
from gapless.core.orders.publisher.settling import Settling
from gapless.core.overlay.overlay import Overlay


@dataclass(slots=True)
class Sides:
    """The sides of this broker, seen from a subscription whose client lies in some direction."""

    towards: list[NodeId]
    """Peers in that direction: all of them, since the client may listen to one that is not active here."""
    others: list[NodeId]
    """Active peers elsewhere: all of them must confirm."""
    partitions: list[Partition]
    """What is down elsewhere."""
    all_tried: bool
    """Whether nothing elsewhere is still to be tried, and it is known what there is."""


class Subscriptions:
    """The subscriptions of one broker and what its sessions say about them."""

    def __init__(
        self,
        overlay: Overlay,
        log: SubscriptionLog,
        peers: dict[NodeId, PeerLog],
        forwarding: Forwarding,
        out: list[Effect],
        *,
        settling: Settling,
        limits: Limits,
    ) -> None:
        self._settling = settling
        self._limits = limits
        self._overlay = overlay
        self._log = log
        self._peers = peers
        self._forwarding = forwarding
        self._out = out
        self._claimed: dict[NodeId, list[LogEntry]] = {}
        """By client its subscriptions that the network should know and this broker does not."""
        self._touched: dict[SubscriptionId, None] = {}
        self._former: dict[SubscriptionId, Path] = {}
        """Subscriptions to whose clients a message has told a longer way, or a removal has taken what was
        known of it, and where it ended until then."""
        self.endings = Endings(log, out, tombstones=limits.tombstones)
        self._given_up_now: dict[SubscriptionId, None] = {}
        """Those that were given up during this batch."""
        self._remembered: dict[NodeId, PeerLog] = {}
        self._has_news = False
        """Whether some session has not carried the whole log."""
        self.has_absent = False
        """Whether a subscription came from a broker whose client may have to be looked after here."""

    # -- the log -----------------------------------------------------------------------------------------

    def session_up(self, peer: NodeId) -> None:
        """A new session carries the whole log, but no body that the peer is known to have."""
        incarnation = self._overlay.sessions.up[peer].incarnation
        earlier = self._remembered.pop(peer, None)
        if earlier is None or earlier.incarnation != incarnation:
            earlier = PeerLog()
        index_of = earlier.index_of
        untold = dict.fromkeys(each for each in self._log.subscriptions() if each not in index_of)
        last_index = max(index_of.values(), default=0)
        peer_log = PeerLog(incarnation, index_of, last_index, untold, ended=earlier.ended)
        self._peers[peer] = peer_log
        if self._overlay.sessions.up[peer].identity.is_leaf:
            self._tell_given_up(peer, tuple(self.endings.given_up))
        self._has_news = True
        if self._is_long(peer, self._log.after(0)):
            self._overlay.hold(peer)

    def session_down(self, peer: NodeId) -> None:
        """What this life of a neighbour has told stays true after the session (P0-80)."""
        peer_log = self._peers.pop(peer)
        self._claimed.pop(peer, None)
        self._settling.forget(("log", peer))
        if peer in self._overlay.topology:
            self._remembered[peer] = peer_log

    def on_log(self, peer: NodeId, log: Log, now: Micros) -> None:
        """Accept on arrival, whoever sent it, but for what a client claims to be known."""
        if log.last:
            self._out.append(Send(peer, LogReceived()))
        is_leaf = self._overlay.sessions.up[peer].identity.is_leaf
        for each in map(self._mended, log.entries):
            if is_leaf and not (each.news or each.ended or self._knows(each.subscription)):
                self._claimed.setdefault(peer, []).append(each)
                self._settling.want(("log", peer))
            else:
                self._on_line(peer, each, now)
        self.use_other_ways(now)

    def _knows(self, subscription: SubscriptionId) -> bool:
        return subscription in self.endings.forgotten or self._log.get(subscription) is not None

    def accept_claims(self, now: Micros) -> None:
        """A client that has moved here says what the network should know. Once all sides have told what they
        know, what is still unknown was lost with those who knew it, and the client is told so. It is not
        taken into the log: if the answer is lost, the next broker must find it unknown too."""
        for peer in list(self._claimed):
            if self._settling.is_settled(("log", peer), beyond_barriers=False):
                self._settling.forget(("log", peer))
                for line in self._claimed.pop(peer):
                    if self._knows(line.subscription):
                        self._on_line(peer, line, now)
                    else:
                        self._out.append(Send(peer, Log((LogEntry(0, line.subscription, ended=True),))))
        self.use_other_ways(now)

    def _on_line(self, peer: NodeId, line: LogEntry, now: Micros) -> None:
        mine, peer_log = self._log.get(line.subscription), self._peers[peer]
        if not self._may_say(peer, line, mine):
            return
        if mine is None:
            if line.ended:
                claimed = self._claimed.get(peer, ())
                self._claimed[peer] = [each for each in claimed if each.subscription != line.subscription]
            if line.subscription in self.endings.forgotten or (line.ended and line.body is None):
                self._answer_forgotten(peer, line)
                return
            if line.body is None or not is_selector(line.body.selector):
                return
            mine = self._accept(line, line.body)
            self._know_own(mine)
        elif mine.ended and not line.ended and line.subscription in peer_log.ended:
            self._tell_again(peer, mine)
        elif line.body is not None:
            self._learn_path(mine, line.body.path, peer)
        if line.ended:
            peer_log.ended[line.subscription] = None
            self.endings.look_at(line.subscription)
            if not line.index:  # the answer of who has forgotten it, since all behind it knew
                peer_log.confirmed[line.subscription] = Confirmation(line.subscription, (), {})
            if not mine.ended:
                is_given_up = line.given_up or self._is_denied(peer, line, mine)
                self._end(line.subscription, now, given_up=is_given_up, rival=line.rival)
        peer_log.told(line.subscription, line.index)
        self._touched[line.subscription] = None

    def _is_denied(self, peer: NodeId, line: LogEntry, mine: Entry) -> bool:
        """Whether a client ends what another one of its name may still have, which must then hear that it has
        missed something: a later one goes on, and an earlier one at another broker does until it is told. At
        its own broker a client has come back: no other one was there."""
        life = made_in(line.subscription)
        if life > line.rival > 0:
            return True
        is_leaf = self._overlay.sessions.up[peer].identity.is_leaf
        return is_leaf and line.rival > life and mine.body.path != (peer,)

    def _mended(self, entry: LogEntry) -> LogEntry:
        """The entry as it is on the tree of now: who told it may know of fewer removals."""
        if entry.body is None:
            return entry
        body = self._on_tree_of_now(entry.body)
        return entry if body is entry.body else replace(entry, body=body)

    def mend(self) -> None:
        """A broker was removed: no way leads through it."""
        for entry in self._log.after(0):
            former = entry.destination
            entry.body = self._on_tree_of_now(entry.body)
            if not entry.ended:
                if entry.destination == (entry.subscription,) != former:
                    self._lose_way(entry, former)
                self._know_own(entry)

    def _lose_way(self, entry: Entry, former: Path) -> None:
        """The way to a client was known up to the broker that was removed, and this one has its place: what
        is kept for that end is for the client, wherever it is."""
        self._log.pathless[entry.subscription] = None
        self._former.setdefault(entry.subscription, former)

    def _on_tree_of_now(self, body: Body) -> Body:
        path, home = self._overlay.mended_path(body.path), self._overlay.mended_home(body.home)
        is_same = path is body.path and home == body.home
        return body if is_same else replace(body, path=path, home=home)

    def _answer_forgotten(self, peer: NodeId, entry: LogEntry) -> None:
        """Who speaks of a subscription that has ended is told so: a broker, which waits until all know it,
        and a client that was given up and is back, or that waits until its end is heard. Only the answer of a
        broker, which has no index, is not answered."""
        is_leaf = self._overlay.sessions.up[peer].identity.is_leaf
        if is_leaf or entry.index or not entry.ended:
            self._out.append(Send(peer, Log((LogEntry(0, entry.subscription, ended=True),))))

    def _tell_again(self, peer: NodeId, mine: Entry) -> None:
        """The peer has forgotten that a subscription has ended, and has taken it again from a client that has
        not heard of its end."""
        self._peers[peer].forget_end(mine.subscription)
        self._out.append(Send(peer, Log((self._line(mine, peer, self._peers[peer]),))))

    def _may_say(self, peer: NodeId, entry: LogEntry, mine: Entry | None) -> bool:
        """A way never leads through this broker itself, and a client speaks of its own subscriptions."""
        body = entry.body
        if body is not None and self._overlay.me in body.path:
            return False
        if not self._overlay.sessions.up[peer].identity.is_leaf:
            return True
        owner = mine.body.client if mine is not None else body.client if body is not None else peer
        return owner == peer

    def _learn_path(self, entry: Entry, path: Path, teller: NodeId) -> None:
        """The way to a client may be known farther now; if none was known, tell it those who may not know it
        either."""
        had_none = not entry.body.path
        former = self._log.learn_path(entry.subscription, path)
        if former is None:
            return
        self._former.setdefault(entry.subscription, former)
        for peer, peer_log in self._peers.items() if had_none else ():
            if peer != teller and peer in self._overlay.topology:
                line = self._line(entry, peer, peer_log, with_body=True)
                self._out.append(Send(peer, Log((line,))))

    def _know_own(self, entry: Entry) -> None:
        """A broker knows the way to its own clients, though all who knew it have forgotten it: nobody else
        looks after one that does not come back."""
        if not entry.body.path and entry.body.home == self._overlay.me:
            self._learn_path(entry, (entry.body.client,), self._overlay.me)
            self.has_absent = True

    def use_other_ways(self, now: Micros) -> None:
        """What was kept where a way had ended goes on."""
        if self._former:
            former, self._former = self._former, {}
            self._forwarding.paths_learned(former, now)

    def _accept(self, line: LogEntry, body: Body) -> Entry:
        if body.client not in self._peers and body.path[:1] == (body.client,):
            self.has_absent |= len(body.path) == 1 or body.path[-1] in self._overlay.frontier.down
        self._has_news = True
        for peer_log in self._peers.values():
            peer_log.untold[line.subscription] = None
        missed = self._forwarding.presence.missed(body.topic)
        return self._log.append(line.subscription, body, missed, line.rival)

    def _end(
        self,
        subscription: SubscriptionId,
        now: Micros,
        *,
        given_up: bool = False,
        rival: Incarnation = 0,
    ) -> None:
        self.use_other_ways(now)  # what is kept for its target is kept for that of now
        destination, body = self._log[subscription].destination, self._log[subscription].body
        self._log.end(subscription, given_up=given_up, rival=rival)
        for peer_log in self._peers.values():  # what was said of it until now does not speak of its end
            peer_log.confirmed.pop(subscription, None)
            peer_log.confirmed_to.pop(subscription, None)
        self.endings.add(subscription, body, given_up=given_up)
        self._touched[subscription] = None
        if given_up:
            self._given_up_now[subscription] = None
        if not self._log.is_wanted(destination):
            self._forwarding.give_up(lambda each: each == destination, now)
        self._has_news = True

    def give_up(self, target: NodeId, now: Micros) -> None:
        """End the subscriptions of a client, or of all that lie behind a node, that cannot be reached."""
        for entry in self._log.after(0):
            if entry.target == target:
                self._give_up(entry, now)

    def hear_of_given_up(self, subscriptions: Iterable[SubscriptionId], now: Micros) -> None:
        """A publisher was told that these were given up. Who did so may have lost its store before it could
        tell anybody else, and the client must be told."""
        for entry in filter(None, map(self._log.get, subscriptions)):
            self._give_up(entry, now)

    def _give_up(self, entry: Entry, now: Micros) -> None:
        if not entry.ended:
            self._end(entry.subscription, now, given_up=True)

    def tell_given_up(self) -> None:
        """Tell all clients who was given up during the batch, ahead of the acknowledgements: some are given
        because of it, now or later, and by then this broker may have forgotten it."""
        if self._given_up_now:
            for peer in self._peers:
                if self._overlay.sessions.up[peer].identity.is_leaf:
                    self._tell_given_up(peer, tuple(self._given_up_now))
            self._given_up_now.clear()

    def _tell_given_up(self, client: NodeId, given_up: Sequence[SubscriptionId]) -> None:
        for piece in pieces(given_up, self._limits.batch):
            self._out.append(Send(client, Acknowledged((), piece)))

    def own_clients(self) -> list[NodeId]:
        """This broker's own clients that have subscriptions."""
        return sorted(
            {
                entry.body.client
                for entry in self._log.after(0)
                if entry.body.path == (entry.body.client,) and not entry.ended
            }
        )

    def absent_clients(self) -> list[NodeId]:
        """The clients that this broker must look after and that have subscriptions and no session here: its
        own, and those of a broker that is down, known to have nobody behind it, and so nobody else either
        that its clients could attach to."""
        self.has_absent = False
        frontier, topology = self._overlay.frontier, self._overlay.topology
        dead_ends = {
            tuple(reversed(topology.path(node)[1:]))
            for node in frontier.down
            if node not in frontier.barriers and not topology.children(node)
        }
        found = dict.fromkeys(
            entry.body.client
            for entry in self._log.after(0)
            if not entry.ended
            and entry.body.path[:1] == (entry.body.client,)
            and (len(entry.body.path) == 1 or entry.body.path[1:] in dead_ends)
        )
        return [client for client in found if client not in self._peers]

    def purge(self) -> None:
        """Forget what has ended once every session knows it and nobody is unreachable (X-P0-19)."""
        frontier, sessions = self._overlay.frontier, self._overlay.sessions.up
        if self.endings.has_news and not (frontier.down or frontier.untried):
            brokers = [each for peer, each in self._peers.items() if not sessions[peer].identity.is_leaf]
            self.endings.purge(brokers, (*self._peers.values(), *self._remembered.values()))

    def stream(self) -> None:
        """Send on every session the entries that it has not carried yet; a client gets only its own."""
        if not self._has_news:
            return
        self._has_news = False
        for peer, peer_log in self._peers.items():
            is_leaf = self._overlay.sessions.up[peer].identity.is_leaf
            if peer_log.awaited or not (is_leaf or peer in self._overlay.topology):
                continue  # who has left the network needs to know nothing
            entries = self._log.after(peer_log.streamed)
            if not entries:
                continue
            peer_log.streamed = self._log.length
            if is_leaf:
                entries = [entry for entry in entries if entry.body.client == peer]
            slowly = peer_log.awaited = peer in self._overlay.held
            lines = [self._line(entry, peer, peer_log) for entry in entries]
            sent = 0
            for piece in pieces(lines, self._limits.piece):
                sent += len(piece)
                is_last = slowly and sent == len(lines)
                log = Log(piece, last=is_last)
                self._out.append(Send(peer, log, low=slowly))

    def _is_long(self, peer: NodeId, entries: Sequence[Entry]) -> bool:
        """Whether so much of the log may take a while, so that others should go round the peer meanwhile."""
        return len(entries) > self._limits.piece and peer in self._overlay.topology

    def on_log_received(self, peer: NodeId) -> None:
        """The peer has what was sent at low priority. What has come since goes at normal priority, so however
        fast the log grows, the peer is not held for ever."""
        peer_log = self._peers[peer]
        if peer_log.awaited:
            peer_log.awaited = False
            self._has_news = True
            self._overlay.release(peer)
            self.sides_changed()

    def _line(self, entry: Entry, peer: NodeId, peer_log: PeerLog, *, with_body: bool = False) -> LogEntry:
        body = None
        if with_body or entry.subscription not in peer_log.index_of:
            body = replace(entry.body, path=self._overlay.extended(entry.body.path, peer))
        return LogEntry(
            entry.index,
            entry.subscription,
            body,
            entry.ended,
            given_up=entry.given_up,
            rival=entry.rival,
        )

    # -- confirmations -------------------------------------------------------------------------------------

    def on_confirmed(self, peer: NodeId, confirmations: Sequence[Confirmation]) -> None:
        """A side has confirmed: that it knows a subscription, or, once it has told of its end, that."""
        peer_log = self._peers[peer]
        for confirmation in confirmations:
            entry = self._log.get(confirmation.subscription)
            if entry is not None and (not entry.ended or entry.subscription in peer_log.ended):
                peer_log.confirmed[confirmation.subscription] = confirmation
                self._touched[confirmation.subscription] = None
                self.endings.look_at(confirmation.subscription)

    def sides_changed(self) -> None:
        """Every subscription may wait for others now; who has left the network need not be remembered."""
        topology = self._overlay.topology
        self._remembered = {peer: each for peer, each in self._remembered.items() if peer in topology}
        self._touched = dict.fromkeys(self._log.subscriptions())
        self.endings.look_at_all()
        self._has_news = True

    def confirm(self) -> None:
        """Confirm what can be, of all that was touched during the batch."""
        if not self._touched or not self._overlay.has_place:
            return
        sides: dict[NodeId | None, Sides] = {}
        outgoing: dict[NodeId, list[Confirmation]] = {}
        for subscription in self._touched:
            entry = self._log.get(subscription)
            if entry is None:
                continue
            for direction in self._to_confirm_to(entry):
                if direction not in sides:
                    sides[direction] = self._sides(direction)
                self._confirm(entry, sides[direction], outgoing)
        self._touched.clear()
        for peer, confirmations in outgoing.items():
            for piece in pieces(confirmations, self._limits.piece):
                self._out.append(Send(peer, Confirmed(piece)))

    def _to_confirm_to(self, entry: Entry) -> list[NodeId | None]:
        """In which directions an entry is confirmed: towards the client; that it was given up, to all."""
        if entry.given_up:
            return list(dict.fromkeys(map(self._overlay.direction, self._overlay.frontier.active)))
        is_known = entry.body.path and not entry.ended
        return [self._overlay.direction(entry.body.path[-1])] if is_known else []

    def _sides(self, direction: NodeId | None) -> Sides:
        overlay, frontier = self._overlay, self._overlay.frontier
        own = overlay.partitions.own

        def is_towards(node: NodeId) -> bool:
            return direction is not None and overlay.direction(node) == direction

        return Sides(
            towards=[
                peer
                for peer in self._peers
                if peer in overlay.topology and peer not in overlay.held and is_towards(peer)
            ],
            others=[peer for peer in frontier.active if not is_towards(peer)],
            partitions=[own[node] for node in frontier.down if not is_towards(node)],
            all_tried=all(is_towards(node) for node in (*frontier.untried, *frontier.blind)),
        )

    def _confirm(self, entry: Entry, sides: Sides, outgoing: dict[NodeId, list[Confirmation]]) -> None:
        if not sides.all_tried or (entry.ended and sides.partitions):
            return
        pending = dict.fromkeys(sides.partitions)
        aware: dict[tuple[NodeId, Incarnation], None] = {}
        if self._settling.has_doubted:
            aware[self._overlay.me, self._overlay.identity.incarnation] = None
        cut = Cut(
            entry.missed.entered, self._forwarding.presence.still_present(entry.body.topic, entry.missed)
        )
        for peer in sides.others:
            answer = self._peers[peer].confirmed.get(entry.subscription)
            if answer is None:
                return
            pending |= dict.fromkeys(answer.pending)
            aware |= dict.fromkeys(answer.aware)
            cut.add(answer.cut, answer.present)
        confirmation = Confirmation(
            entry.subscription, tuple(pending), cut.taken, tuple(cut.present), tuple(aware)
        )
        client = [entry.body.client] if entry.body.client in self._peers and not entry.ended else []
        for peer in (*sides.towards, *client):
            peer_log = self._peers[peer]
            if not confirmation.says_as(peer_log.confirmed_to.get(entry.subscription)):
                peer_log.confirmed_to[entry.subscription] = confirmation
                outgoing.setdefault(peer, []).append(confirmation)
