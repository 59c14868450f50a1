"""kill -9 at random moments: what was acknowledged is there, and no batch is there in part (N2-12)."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gapless.storage import StoreInUseError
from storage import writer
from storage.places import Place, PostgresPlace, SqlitePlace
from storage.postgres_server import Server


def where(place: Place) -> str:
    if isinstance(place, PostgresPlace):
        return place.url
    assert isinstance(place, SqlitePlace)
    return str(place.directory)


@contextmanager
def writing(place: Place) -> Iterator[subprocess.Popen[str]]:
    """A process that writes into the store; killed in the end at the latest."""
    command = [sys.executable, str(Path(writer.__file__)), where(place), "b1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def acknowledged(process: subprocess.Popen[str], batches: int) -> int:
    """Wait until so many more batches were acknowledged; the last of them."""
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(batches)]
    assert lines[-1].endswith("\n"), "the writer has failed"
    return int(lines[-1])


def rest_of(process: subprocess.Popen[str], last: int) -> int:
    """What a killed process had acknowledged."""
    assert process.stdout is not None
    whole = [line for line in process.stdout.read().splitlines(keepends=True) if line.endswith("\n")]
    return int(whole[-1]) if whole else last


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "kills"), [("sqlite", 6), ("postgres", 3)])
def test_a_killed_process_loses_nothing(kind: str, kills: int, make_place: Callable[[str], Place]) -> None:
    place = make_place(kind)
    rng = random.Random(5)
    before = 0
    for _ in range(kills):
        with writing(place) as process:
            last = acknowledged(process, rng.randint(1, 40))
            time.sleep(rng.random() * 0.01)  # anywhere within a batch
            process.kill()
            process.wait()
            last = rest_of(process, last)
        with place.open() as store:
            found = writer.assert_batches_are_whole(store)
        assert found in (last, last + 1)
        assert found > before
        before = found


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_the_lock_of_a_live_process_holds_and_that_of_a_killed_one_does_not(
    kind: str, make_place: Callable[[str], Place]
) -> None:
    place = make_place(kind)
    with writing(place) as process:
        acknowledged(process, 1)
        with pytest.raises(StoreInUseError, match="stop that") as refused:
            place.open()
        if kind == "sqlite":
            assert f"process {process.pid}" in str(refused.value)
        acknowledged(process, 1)
        process.kill()
        process.wait()
        with place.open() as store:
            assert writer.assert_batches_are_whole(store) >= 2


@pytest.mark.slow
def test_a_killed_server_loses_nothing(postgres: Server) -> None:
    place = PostgresPlace(postgres.url)
    with writing(place) as process:
        last = acknowledged(process, 30)
        postgres.kill()
        try:
            process.wait(timeout=60)
            assert process.returncode == 1
            last = rest_of(process, last)
        finally:
            postgres.start()
    with place.open() as store:
        assert writer.assert_batches_are_whole(store) in (last, last + 1)
