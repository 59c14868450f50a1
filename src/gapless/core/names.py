"""Who may have a session: one network, and one live node per name.

Drivers ask this when a session is set up, so the live network and the simulated one follow the same rule.

- Two nodes of different networks never share a session. A node that does not know its network yet may talk to
  anybody, and learns it from the first broker of its network that it meets.
- A name belongs to the node that has a live session. The same incarnation may replace its own session: one
  end has noticed a break before the other. Any other incarnation waits until that session is closed, or until
  the failure detector suspects it. Otherwise a second node that was given the name by mistake would cut off
  the first, and each would undo the other's work.
- A client may take the name over, if it asks for that and is the later one. The other client is told.
- Of two clients of one name at different brokers, where nobody could refuse one of them, the later one keeps
  it. They meet as soon as one of them has a subscription, and the other one is told (``Subscribing``).
"""

from __future__ import annotations

from gapless.core.model import Identity, NodeId, Refusal

SHORT = 8
"""How many characters of a network's id people are shown."""


def refusal(me: Identity, newcomer: Identity, holder: Identity | None) -> Refusal | None:
    """Why the newcomer gets no session here; ``holder`` has the live session of its name, if there is one."""
    if are_apart(me, newcomer):
        return Refusal.NETWORK
    if holder is None or is_same_life(holder, newcomer) or takes_over(holder, newcomer):
        return None
    return Refusal.NAME


def are_apart(a: Identity, b: Identity) -> bool:
    """Whether the two belong to different networks."""
    return bool(a.network and b.network) and a.network != b.network


def is_same_life(holder: Identity, newcomer: Identity) -> bool:
    """Whether both are one incarnation of one node."""
    return holder.is_leaf == newcomer.is_leaf and holder.incarnation == newcomer.incarnation


def takes_over(holder: Identity, newcomer: Identity) -> bool:
    """Whether one client takes the name of another. It must be the later one: numbers that a client has
    given never mix with those of a later one."""
    both_are_clients = holder.is_leaf and newcomer.is_leaf
    return both_are_clients and newcomer.take_over and newcomer.incarnation > holder.incarnation


def short(network: str) -> str:
    """The id of a network as people see it."""
    return f"{network[:SHORT]}\u2026" if len(network) > SHORT else network or "not known yet"


def apart(me: Identity, other: Identity) -> str:
    """Why two nodes of different networks have no session."""
    kind = "client" if other.is_leaf else "broker"
    hint = "" if other.is_leaf else ": its data directory belongs to another network"
    return (
        f"this is network {short(me.network)}, the {kind} {other.node} belongs to network "
        f"{short(other.network)}{hint}"
    )


def running(broker: NodeId, address: str) -> str:
    """Why a second broker of a name has no session."""
    return (
        f"a broker named {broker} is running already, at {address}; if it is another machine's, give this "
        "one another --id"
    )


def in_use(holder: Identity, newcomer: Identity, address: str) -> str:
    """Why a second node of a name has no session."""
    if not newcomer.is_leaf:
        return running(newcomer.node, address)
    if newcomer.take_over and newcomer.incarnation <= holder.incarnation:
        return (
            f"a client named {newcomer.node} is connected already, from {address}, and started later than "
            "this one: is this machine's clock behind?"
        )
    return (
        f"a client named {newcomer.node} is connected already, from {address}; give this one another name, "
        "or take the name over"
    )
