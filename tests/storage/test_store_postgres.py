"""A store in PostgreSQL: what only a server can do to it."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from gapless.storage import (
    Append,
    Put,
    StoreCorruptError,
    StoreFullError,
    StoreInUseError,
    StoreUnavailableError,
    open_store,
)
from gapless.storage.postgres import PostgresStore, schema_of
from storage.places import PostgresPlace
from storage.postgres_server import Server

END_CONNECTIONS = (
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gapless b1'"
)


@pytest.fixture
def url(postgres: Server) -> str:
    return PostgresPlace(postgres.url).url


def execute(url: str, *statements: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


@pytest.fixture
def small_tablespace(url: str, small_disk: Path) -> Iterator[str]:
    """The name of a tablespace of the server on the small disk."""
    space = small_disk / "space"
    space.mkdir()
    account = pwd.getpwnam("postgres")
    os.chown(space, account.pw_uid, account.pw_gid)
    execute(url, f"CREATE TABLESPACE small LOCATION '{space}'")
    yield "small"
    execute(url, f'DROP SCHEMA IF EXISTS "{schema_of("b1")}" CASCADE', "DROP TABLESPACE small")


def test_a_full_disk_refuses_a_batch_whole_and_the_store_goes_on_when_there_is_room(
    url: str, small_disk: Path, small_tablespace: str
) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(500_000))
    there = f"{url}?options=-c%20default_tablespace%3D{small_tablespace}"
    noise = os.urandom(50_000)  # or the server would compress it
    with open_store(there, "b1") as store:
        with pytest.raises(StoreFullError, match="make room on the server and try again"):
            for _ in range(100):
                store.write([Append("x", noise), Append("x", b"end of batch")])
        span = store.logs["x"]
        assert len(span) > 2
        assert store.read("x", 1, span.stop - 1) == [noise, b"end of batch"] * (len(span) // 2)
        ballast.unlink()
        store.write([Append("x", noise), Append("x", b"end of batch")])
    with open_store(there, "b1") as store:
        assert store.logs["x"].stop == span.stop + 2
        assert store.read("x", 1, span.stop + 1) == [noise, b"end of batch"] * (len(span) // 2 + 1)


def test_a_lost_connection_is_told_and_the_store_can_be_opened_again(url: str) -> None:
    with open_store(url, "b1") as store:
        store.write([Append("x", b"1")])
        execute(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gapless b1'",
        )
        with pytest.raises(StoreUnavailableError, match="look at the server"):
            store.write([Append("x", b"2")])
        with pytest.raises(StoreUnavailableError, match="must be opened again"):
            store.write([Append("x", b"2")])
        with pytest.raises(StoreUnavailableError, match="must be opened again"):
            store.read("x", 1, 1)
    with open_store(url, "b1") as store:
        assert store.logs["x"] == range(1, 2)
        assert store.write([Append("x", b"2")]) == [2]


def test_a_server_that_does_not_answer_is_named_but_not_the_password(postgres: Server) -> None:
    gone = "postgresql://gapless:secret@127.0.0.1:1/postgres"
    with pytest.raises(StoreUnavailableError, match=r"127\.0\.0\.1.*Start the server") as told:
        open_store(gone, "b1")
    assert "secret" not in str(told.value)
    with pytest.raises(StoreUnavailableError, match='database "nowhere" does not exist'):
        open_store(postgres.url.replace("/postgres", "/nowhere"), "b1")
    with pytest.raises(StoreUnavailableError, match="correct the URL"):
        open_store("postgresql://[", "b1")


def test_nodes_share_a_database_and_do_not_meet(url: str) -> None:
    long = "a very long name " * 20
    nodes = ["b1", "b2", 'b"1', "b.1; --", "日本", long, long + "!"]
    for node in nodes:
        with open_store(url, node) as store:
            store.write([Put("node", node.encode()), Append("x", b"1")])
    stores = [open_store(url, node) for node in nodes]
    for node, store in zip(nodes, stores, strict=True):
        with closing(store):
            assert dict(store.state) == {"node": node.encode()}
            assert store.logs["x"] == range(1, 2)
    assert len({schema_of(node) for node in nodes}) == len(nodes)
    assert all(len(schema_of(node).encode()) <= 63 for node in nodes)


def test_commits_are_synced_whatever_the_database_says(url: str) -> None:
    execute(url, "ALTER DATABASE postgres SET synchronous_commit = off")
    try:
        with open_store(url, "b1") as store:
            assert isinstance(store, PostgresStore)
            assert store._one("SHOW synchronous_commit") == "on"
    finally:
        execute(url, "ALTER DATABASE postgres RESET synchronous_commit")


def test_a_role_without_rights_is_told_which(url: str) -> None:
    execute(url, "DROP ROLE IF EXISTS nobody", "CREATE ROLE nobody LOGIN")
    theirs = url.replace("gapless@", "nobody@")
    try:
        with pytest.raises(StoreUnavailableError, match=r"role 'nobody' may not use.*GRANT CREATE"):
            open_store(theirs, "b1")
        execute(url, f'CREATE SCHEMA "{schema_of("b1")}" AUTHORIZATION nobody')
        with open_store(theirs, "b1") as store:
            store.write([Append("x", b"1")])
    finally:
        execute(url, f'DROP SCHEMA IF EXISTS "{schema_of("b1")}" CASCADE', "DROP ROLE nobody")


def test_a_database_in_another_encoding_is_refused(url: str) -> None:
    execute(url, "CREATE DATABASE latin ENCODING 'LATIN1' LOCALE 'C' TEMPLATE template0")
    try:
        with pytest.raises(StoreUnavailableError, match="ENCODING 'UTF8'"):
            open_store(url.replace("/postgres", "/latin"), "b1")
    finally:
        execute(url, "DROP DATABASE latin")


def test_a_missing_table_is_damage(url: str) -> None:
    open_store(url, "b1").close()
    execute(url, f'DROP TABLE "{schema_of("b1")}".records')
    with pytest.raises(StoreCorruptError, match='relation "records" does not exist'):
        open_store(url, "b1")


def test_a_record_of_no_log_is_damage(url: str) -> None:
    with open_store(url, "b1") as store:
        store.write([Append("x", b"1")])
    execute(url, f'UPDATE "{schema_of("b1")}".records SET id = id + (1::bigint << 41)')
    with pytest.raises(StoreCorruptError, match="record 1 belongs to no log"):
        open_store(url, "b1")


def test_the_lock_goes_with_the_connection(url: str) -> None:
    with open_store(url, "b1"):
        with pytest.raises(StoreInUseError, match="in use by another process"):
            open_store(url, "b1")
        open_store(url, "b2").close()
        execute(
            url,
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'gapless b1'",
        )
        open_store(url, "b1").close()
