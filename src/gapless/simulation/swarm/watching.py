"""Rules that are judged while a run goes on, because what clients see in the end tells too little of them.

- What is not marked has gone round at most δ of 2δ+1 brokers (rule 9).
- A publisher forgets only what was acknowledged in the generation in which it sent it last (rule 10).
- What waits beyond δ does so for a reason of its own stream; other streams pass (rule 9).
"""

from __future__ import annotations

from functools import partial
from typing import TypeAlias

from gapless.core.effects import Receipt
from gapless.core.messages import Acknowledged, Message, Publications
from gapless.core.model import Generation, Micros, NodeId, OrderName
from gapless.core.orders.publisher import PublisherBroker
from gapless.core.orders.publisher.vectors import bypassed
from gapless.simulation.host import SimulatedHost
from gapless.simulation.swarm.stage import Stage

MOST_MESSAGES = 150_000
"""No run needs a tenth of that; one that has more goes round in circles, and would take minutes."""
Publisher: TypeAlias = tuple[str, str]
"""A topic, and who publishes on it."""


class Watch:
    """Looks at what nodes send, at receipts, and now and then at what brokers hold back."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self._window = 2 * stage.features.delta + 1
        self._latest: dict[tuple[NodeId, Publisher], Generation] = {}
        """By client and publisher the generation that it sent last."""
        self._sent: dict[tuple[Publisher, Generation], dict[int, None]] = {}
        """What clients have sent of each generation, as long as it is not acknowledged in that generation."""
        stage.world.network.tap = self.sends

    def looks_at(self, host: SimulatedHost) -> None:
        """Look at the receipts of a client."""
        host.on_receipt = partial(self._receipt, host.name)

    def look_every(self, span: Micros) -> None:
        """Look at what brokers hold back, from now on."""
        self._held_back(span)

    # -- messages ----------------------------------------------------------------------------------------

    def sends(self, source: NodeId, peer: NodeId, message: Message) -> None:
        """A node sends a message."""
        if self._stage.world.network.messages > MOST_MESSAGES:
            raise RuntimeError(f"more than {MOST_MESSAGES:,} messages")
        if type(message) is Publications:
            is_client = source in self._stage.world.homes
            for run in message.runs:
                header = run.header
                is_beyond = bypassed(header.path[-self._window :]) > self._stage.features.delta
                if is_beyond and not header.best_effort:
                    self._stage.trouble["unmarked beyond δ"] += 1
                if is_client:
                    about = (run.events[0].topic, run.events[0].publisher)
                    self._latest[source, about] = header.generation
                    sent = self._sent.setdefault((about, header.generation), {})
                    sent |= dict.fromkeys(event.sequence for event in run.events)
        elif type(message) is Acknowledged and peer in self._stage.world.homes:
            for each in message.acknowledgements:
                sent = self._sent.get(((each.topic, each.publisher), each.generation), {})
                for first, last in each.ranges:
                    for sequence in [each for each in sent if first <= each <= last]:
                        del sent[sequence]

    def _receipt(self, client: NodeId, receipt: Receipt) -> None:
        """The client has forgotten all up to some event: each was acknowledged since it was sent last."""
        about = (receipt.topic, receipt.publisher)
        generation = self._latest.get((client, about))
        left = self._sent.get((about, generation), {}) if generation is not None else {}
        if any(sequence <= receipt.sequence for sequence in left):
            self._stage.trouble["forgotten unacknowledged"] += 1

    # -- what waits ------------------------------------------------------------------------------------

    def _held_back(self, span: Micros) -> None:
        stage = self._stage
        for name in stage.running():
            order = stage.world.broker(name).orders[OrderName.PUBLISHER]
            assert isinstance(order, PublisherBroker)
            if found := waiting_for_others(order):
                stage.trouble["held back for others"] += found
        if stage.is_open:
            stage.world.at(stage.world.now + span, self._held_back, span)


def waiting_for_others(order: PublisherBroker) -> int:
    """How many streams a broker holds back of which the first event may go on, and nothing is before it."""
    forwarding, found = order.forwarding, 0
    for (hop, source), waiting in forwarding._blocked.items():
        stream = forwarding.custody.streams.get(source)
        held = [each for _, each in sorted(waiting.items()) if hop in each.waiting]
        if stream is None or not held or held[0].event.sequence not in stream.held:
            continue  # gone since
        may_go = forwarding._onward(hop, held[0].header) is not None
        found += may_go and not forwarding._follows_the_pathless(hop, source, held[0])
    return found
