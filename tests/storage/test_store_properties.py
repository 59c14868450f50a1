"""Every store does what a dictionary and some lists would do, whatever is asked of it in whatever order."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    rule,
    run_state_machine_as_test,
)

from gapless.storage import Append, Change, Delete, Disk, MemoryStore, Put, Store, Truncate
from storage.conftest import KINDS
from storage.places import Place

names = st.sampled_from(["a", "b", "c"])
data = st.binary(max_size=20) | st.builds(lambda size: b"." * size, st.integers(0, 9000))
changes: st.SearchStrategy[Change] = st.one_of(
    st.builds(Put, names, data),
    st.builds(Delete, names),
    st.builds(Append, names, data),
    st.builds(Truncate, names, st.integers(0, 30)),
)
batches = st.lists(changes, max_size=12)

BRIEF = settings(stateful_step_count=20, deadline=None, derandomize=True, database=None)


class Model:
    """What a store means, as plainly as can be."""

    def __init__(self) -> None:
        self.state: dict[str, bytes] = {}
        self.logs: dict[str, list[bytes | None]] = {}
        """All that was ever appended; ``None`` where it was dropped."""

    def write(self, batch: list[Change]) -> list[int]:
        positions = []
        for change in batch:
            match change:
                case Put(key=key, data=value):
                    self.state[key] = value
                case Delete(key=key):
                    self.state.pop(key, None)
                case Append(log=log, data=value):
                    self.logs.setdefault(log, []).append(value)
                    positions.append(len(self.logs[log]))
                case Truncate(log=log, up_to=up_to):
                    kept = self.logs.setdefault(log, [])[up_to:]
                    self.logs[log] = [*[None] * up_to, *kept]
        return positions

    def copy(self) -> Model:
        copy = Model()
        copy.state = dict(self.state)
        copy.logs = {log: list(records) for log, records in self.logs.items()}
        return copy

    def assert_equals(self, store: Store) -> None:
        assert dict(store.state) == self.state
        assert set(store.logs) == set(self.logs)
        for log, records in self.logs.items():
            span = store.logs[log]
            assert span.stop == len(records) + 1
            kept = [each for each in records if each is not None]
            assert store.read(log, span.start, span.stop - 1) == kept


class Writing(RuleBasedStateMachine):
    """Batches, and opening again."""

    make: Callable[[], Place]

    @initialize()
    def begin(self) -> None:
        self.place = type(self).make()
        self.model = Model()
        self.store = self.place.open()

    @rule(batch=batches)
    def write(self, batch: list[Change]) -> None:
        assert self.store.write(batch) == self.model.write(batch)

    @rule(batch=batches)
    def write_too_much(self, batch: list[Change]) -> None:
        with pytest.raises(ValueError, match="needs a name"):
            self.store.write([*batch, Put("", b"")])

    @rule()
    def reopen(self) -> None:
        self.store.close()
        self.store = self.place.open()
        assert self.store.cut is None

    @invariant()
    def is_as_it_should_be(self) -> None:
        self.model.assert_equals(self.store)

    def teardown(self) -> None:
        self.store.close()


@pytest.mark.parametrize("kind", KINDS)
def test_a_store_is_a_dictionary_and_some_lists(kind: str, make_place: Callable[[str], Place]) -> None:
    class Here(Writing):
        make = partial(make_place, kind)

    run_state_machine_as_test(Here, settings=settings(BRIEF, max_examples=25 if kind == "memory" else 8))


class Crashing(RuleBasedStateMachine):
    """A disk in memory that loses what was not synced, batch by batch from the end."""

    @initialize()
    def begin(self) -> None:
        self.disk = Disk()
        self.store = MemoryStore("b1", self.disk)
        self.histories = [Model()]
        """What is durable, then one more for each batch that is not."""

    @rule(batch=batches)
    def stage(self, batch: list[Change]) -> None:
        later = self.histories[-1].copy()
        assert self.store.stage(batch) == later.write(batch)
        self.histories.append(later)

    @rule(batch=batches)
    def write(self, batch: list[Change]) -> None:
        later = self.histories[-1].copy()
        assert self.store.write(batch) == later.write(batch)
        self.histories = [later] if batch else [*self.histories[:-1], later]

    @rule()
    def sync(self) -> None:
        self.store.sync()
        del self.histories[:-1]

    @rule(keep=st.integers(0, 4))
    def crash(self, keep: int) -> None:
        self.disk.crash(keep)
        self.histories = [self.histories[min(keep, len(self.histories) - 1)]]
        self.store = MemoryStore("b1", self.disk)

    @invariant()
    def is_as_it_should_be(self) -> None:
        self.histories[-1].assert_equals(self.store)


def test_a_disk_in_memory_loses_only_what_was_not_synced() -> None:
    run_state_machine_as_test(Crashing, settings=settings(BRIEF, max_examples=25))
