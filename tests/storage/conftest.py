"""Stores of every kind, and the server that one of them needs."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from storage.places import MemoryPlace, Place, PostgresPlace, SqlitePlace
from storage.postgres_server import HOW_TO_GET_IT, Server, find_programs, running_server

KINDS = ["memory", "sqlite", "postgres"]


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    programs = find_programs()
    if programs is None:
        pytest.skip(HOW_TO_GET_IT)
    with running_server(programs) as server:
        yield server


@pytest.fixture
def make_place(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Place]:
    """Makes places that nothing is in yet; in the database of PostgreSQL there is one at a time."""
    made: list[Place] = []

    def make(kind: str) -> Place:
        if kind == "memory":
            made.append(MemoryPlace())
        elif kind == "sqlite":
            made.append(SqlitePlace(tmp_path / f"store-{len(made)}"))
        else:
            made.append(PostgresPlace(request.getfixturevalue("postgres").url))
        return made[-1]

    return make


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, make_place: Callable[[str], Place]) -> Place:
    return make_place(request.param)


@pytest.fixture
def small_disk() -> Iterator[Path]:
    """A real file system of two megabytes, which other users can reach too."""
    directory = Path(tempfile.mkdtemp(prefix="gapless-disk-"))
    command = ["mount", "-t", "tmpfs", "-o", "size=2m,mode=755", "tmpfs", str(directory)]
    try:
        if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
            pytest.skip("needs the right to mount a small file system: run the tests as root")
        directory.chmod(0o755)
        try:
            yield directory
        finally:
            subprocess.run(["umount", "--lazy", str(directory)], check=True)
    finally:
        directory.rmdir()
