"""The live driver of a node: asyncio, TCP, storage, configuration, status and metrics.

``Driver`` runs one node, a broker or a client: inputs in batches, one durable write a batch, one write a
socket. ``Transport`` opens and accepts the sessions it needs."""
