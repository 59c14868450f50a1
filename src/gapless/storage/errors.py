"""What can be wrong with a store. Every message says where it is and what can be done."""

from __future__ import annotations


class StoreError(Exception):
    """Something is wrong with a store; all errors of this package that no caller caused are of this kind."""


class StoreInUseError(StoreError):
    """Another process has the store open."""


class StoreOwnerError(StoreError):
    """The store belongs to another node."""


class StoreVersionError(StoreError):
    """The store was written in a newer format than this program knows."""


class StoreCorruptError(StoreError):
    """What was once durable is damaged. Nothing was changed."""

    def __init__(self, place: str, damage: str) -> None:
        super().__init__(
            f"the store {place} is damaged: {damage}. Nothing was changed. Restore it from a copy, or put it "
            "away and start the node without it: a broker joins again in its place, but events of a "
            "publisher that were not confirmed are lost"
        )
        self.place = place
        self.damage = damage

    def __reduce__(self) -> tuple[type[StoreCorruptError], tuple[str, str]]:
        return type(self), (self.place, self.damage)


class StoreFullError(StoreError):
    """There is no room for the batch. Nothing of it was written; the store goes on when there is room."""


class StoreUnavailableError(StoreError):
    """The disk or the server failed, or the store was closed. The batch that met the failure is durable as a
    whole or not at all, and only opening the store again tells: go on as after a crash."""
