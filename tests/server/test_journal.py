"""The journal of a broker: what was appended is there after a restart, and so are neighbours' addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from pathlib import Path

import pytest

from gapless.core.effects import IncarnationStarted, LinkAdded, LinkRemoved, TopicDeclared
from gapless.core.model import Declaration, Topic
from gapless.server.journal import Journal, Membership
from gapless.server.logs import Log
from gapless.storage import (
    Change,
    Disk,
    MemoryStore,
    Store,
    StoreFullError,
    StoreUnavailableError,
    open_store,
)

MEMBER = Membership(1, founder=False)


def journal_at(path: Path) -> Journal:
    return Journal(open_store(path, "b1"), Log("b1"))


def test_records_and_addresses_survive(tmp_path: Path) -> None:
    topic = TopicDeclared(Declaration(Topic("t"), 1))

    async def first() -> None:
        journal = journal_at(tmp_path)
        assert journal.membership is None
        assert await journal.begin(MEMBER) == ([], {})
        await journal.append([IncarnationStarted(5), LinkAdded(("b0", "b1"), marked=True)])
        await journal.append([LinkAdded(("b0", "b1")), LinkAdded(("b1", "b2")), topic])
        await journal.append([LinkRemoved(("b1", "b2")), IncarnationStarted(6)])
        journal.learned({"b0": (3, "h:1"), "far": (1, "h:9")})
        journal.learned({"b0": (4, "h:2")})
        await journal.close()

    async def second() -> None:
        journal = journal_at(tmp_path)
        assert journal.membership == MEMBER
        records, addresses = await journal.begin(MEMBER)
        assert sorted(map(str, records)) == sorted(
            map(str, [IncarnationStarted(6), LinkAdded(("b0", "b1")), topic])
        )
        assert addresses == {"b0": (4, "h:2")}  # of neighbours only
        await journal.close()

    asyncio.run(first())
    asyncio.run(second())


def test_the_store_does_not_grow(tmp_path: Path) -> None:
    async def main() -> None:
        journal = journal_at(tmp_path)
        await journal.begin(MEMBER)
        for number in range(200):
            await journal.append(
                [IncarnationStarted(number), LinkAdded(("a", "b1")), LinkRemoved(("a", "b1"))]
            )
        await journal.close()
        store = open_store(tmp_path, "b1")
        assert len(store.state) == 2  # the incarnation and the membership
        store.close()

    asyncio.run(main())


def test_syncs_are_measured() -> None:
    async def main() -> None:
        seconds: list[float] = []
        journal = Journal(MemoryStore("b1"), Log("b1"), seconds.append)
        await journal.begin(MEMBER)
        await journal.append([])
        await journal.append([IncarnationStarted(1)])
        assert len(seconds) == 2  # the membership and the record, but not nothing
        await journal.close()

    asyncio.run(main())


class Flaky(MemoryStore):
    """Fails with an error as often as told."""

    def __init__(self, error: Exception, times: int) -> None:
        super().__init__("b1", Disk())
        self.error = error
        self.times = times

    def write(self, batch: Iterable[Change]) -> list[int]:
        if self.times:
            self.times -= 1
            raise self.error
        return super().write(batch)


def test_room_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gapless.server.journal.ROOM_SECONDS", 0.01)

    async def main() -> None:
        store: Store = Flaky(StoreFullError("no room"), 3)
        journal = Journal(store, Log("b1"))
        await journal.append([IncarnationStarted(1)])
        assert len(store.state) == 1
        await journal.close()

    asyncio.run(main())


def test_room_is_not_waited_for_at_the_end() -> None:
    async def main() -> None:
        journal = Journal(Flaky(StoreFullError("no room"), 10**9), Log("b1"))
        waiting = asyncio.create_task(journal.append([IncarnationStarted(1)]))
        await asyncio.sleep(0)
        journal.give_up()
        with pytest.raises(StoreFullError):
            await asyncio.wait_for(waiting, 5)
        await journal.close()

    asyncio.run(main())


def test_another_failure_is_told_at_once() -> None:
    async def main() -> None:
        journal = Journal(Flaky(StoreUnavailableError("gone"), 1), Log("b1"))
        with pytest.raises(StoreUnavailableError):
            await journal.append([IncarnationStarted(1)])
        await journal.close()

    asyncio.run(main())


def test_addresses_that_cannot_be_kept_harm_nobody() -> None:
    async def main() -> None:
        store = Flaky(StoreUnavailableError("gone"), 1)
        journal = Journal(store, Log("b1"))
        journal.learned({"b0": (1, "h:1")})
        while store.times:
            await asyncio.sleep(0)
        journal.learned({"b2": (1, "h:2")})
        await journal.close()
        assert [key for key in store.state if "b2" in key]

    asyncio.run(main())
