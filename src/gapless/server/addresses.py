"""Where nodes listen. The overlay speaks of names; this book knows how to reach them.

Each node says its own address when a session begins; brokers tell their peers the addresses of everybody in
their neighbourhood, so a node can dial whom it has never met. An address belongs to an incarnation: what a
later life of a node said replaces what an earlier one did, whoever tells it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from gapless.core.model import Incarnation, NodeId
from gapless.wire.control import Address

BOOK_MAX = 100_000
ADDRESS_MAX = 300


class AddressBook:
    """The addresses that one node knows."""

    def __init__(self, known: Mapping[NodeId, Address] | None = None) -> None:
        self._known: dict[NodeId, Address] = dict(known or {})

    def __getitem__(self, node: NodeId) -> str:
        return self._known[node][1]

    def get(self, node: NodeId) -> str | None:
        """The address of a node, if it is known."""
        entry = self._known.get(node)
        return entry[1] if entry is not None else None

    def former(self, node: NodeId, incarnation: Incarnation, address: str) -> str | None:
        """Where another life of the node listens or listened, if that is somewhere else."""
        entry = self._known.get(node)
        return entry[1] if entry is not None and entry[0] != incarnation and entry[1] != address else None

    def learn(self, node: NodeId, incarnation: Incarnation, address: str) -> bool:
        """Take an address; True when it is news."""
        if not is_address(address):
            return False
        earlier = self._known.get(node)
        if earlier is None and len(self._known) >= BOOK_MAX:
            return False
        if earlier is not None and (incarnation, address) <= earlier:
            return False
        self._known[node] = (incarnation, address)
        return True

    def of(self, nodes: Iterable[NodeId]) -> dict[NodeId, Address]:
        """The part of the book about these nodes."""
        return {node: self._known[node] for node in nodes if node in self._known}


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``host:port``; IPv6 hosts in brackets."""
    host, colon, port = text.strip().rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{text!r} is not an address; write host:port, such as 127.0.0.1:7400")
    return host.strip("[]"), int(port)


def is_address(text: str) -> bool:
    """Whether somebody can be dialed there."""
    try:
        parse_address(text)
    except ValueError:
        return False
    return len(text) <= ADDRESS_MAX


def format_address(host: str, port: int) -> str:
    """The text of an address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
