"""A broker from start to stop, in this process: joining, errors, status, metrics, the end."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import gapless
from gapless.core.effects import Founded
from gapless.server.broker import BrokerError, BrokerServer
from gapless.server.config import BrokerConfig
from gapless.server.inquiry import InquiryError, status, survey, who
from gapless.server.journal import Journal, Membership
from gapless.server.logs import Log
from gapless.storage import Disk, StoreUnavailableError, open_store
from server.test_metrics import parsed

SECONDS = 20.0
ANYWHERE = "127.0.0.1:0"


def run(main: Coroutine[Any, Any, None]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(3 * SECONDS):
            await main

    asyncio.run(limited())


@asynccontextmanager
async def running(name: str, **settings: Any) -> AsyncIterator[BrokerServer]:
    """A broker that is a member of its network, and ends with the block."""
    server = BrokerServer(BrokerConfig(name, **{"listen": ANYWHERE, **settings}), settings.pop("disk", None))
    await server.start()
    try:
        await asyncio.wait_for(server.joined(), SECONDS)
        yield server
    finally:
        await server.stop()


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)


async def refused(config: BrokerConfig) -> str:
    """Why the broker does not start."""
    with pytest.raises(BrokerError) as raised:
        await BrokerServer(config).start()
    return str(raised.value)


# -- starting -------------------------------------------------------------------------------------------


def test_a_broker_joins_and_is_seen(tmp_path: Path) -> None:
    async def main() -> None:
        async with running("b0", data=tmp_path / "b0") as b0, running("b1", join=(b0.address,)) as b1:
            here = await who(b0.address)
            assert (here.node, here.delta) == ("b0", 1)
            assert {node: address for node, (_, address) in here.book.items()} == {
                "b0": b0.address,
                "b1": b1.address,
            }
            report = await status(b1.address)
            assert (report["id"], report["join"], report["state"]) == ("b1", "joined", "operational")
            assert report["durable"] is False
            assert [each["peer"] for each in report["sessions"]] == ["b0"]
            assert report["links"] == [["b0", "b1"]]

    run(main())


def test_a_member_restarts_from_its_store_at_another_port(tmp_path: Path) -> None:
    """Without a join address: its store knows its neighbours, and they learn where it is now."""

    async def main() -> None:
        async with running("b0", data=tmp_path / "b0") as b0:
            async with running("b1", data=tmp_path / "b1", join=(b0.address,)) as b1:
                first = b1.driver.node.identity.incarnation
            async with running("b1", data=tmp_path / "b1") as b1:
                assert b1.driver.node.identity.incarnation > first
                await until(lambda: "b1" in b0.driver.transport.sessions)
                await until(lambda: b0.driver.transport.book.get("b1") == b1.address)

    run(main())


def test_a_founder_stays_one(tmp_path: Path) -> None:
    async def main() -> None:
        for _ in range(2):
            async with running("b0", data=tmp_path):
                pass

    run(main())


def test_what_is_in_memory_can_be_kept_by_who_embeds_it() -> None:
    async def main() -> None:
        disk = Disk()
        async with running("b0", listen=ANYWHERE) as b0:
            server = BrokerServer(BrokerConfig("b1", listen=ANYWHERE, join=(b0.address,)), disk)
            await server.start()
            await server.joined()
            await server.kill()
            again = BrokerServer(BrokerConfig("b1", listen=ANYWHERE), disk)  # without a join address
            await again.start()
            await asyncio.wait_for(again.joined(), SECONDS)
            await again.stop()

    run(main())


def test_nothing_durable_is_said_to_the_operator(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running("b0"):
            pass

    with caplog.at_level(logging.INFO, "gapless"):
        run(main())
    assert any(each.levelname == "WARNING" and "not durable" in each.message for each in caplog.records)
    assert [each.message for each in caplog.records if each.levelname == "INFO"] == [
        "started",
        "joined",
        "stopped",
    ]


# -- what can be wrong ----------------------------------------------------------------------------------


def test_errors_say_what_to_do(tmp_path: Path) -> None:
    async def main() -> None:
        async with running("b0", data=tmp_path / "b0") as b0:
            at = b0.address
            for config, words in (
                (BrokerConfig("b1", listen=at), ("cannot listen", "in use", "--listen")),
                (BrokerConfig("b1", listen=ANYWHERE, metrics=at), ("cannot listen", "--metrics")),
                (BrokerConfig("b1", listen="192.0.2.1:1"), ("cannot listen at 192.0.2.1:1", "--listen")),
                (BrokerConfig("b1", listen=ANYWHERE, join=(at,), delta=2), ("has delta = 1", "--delta 1")),
                (BrokerConfig("b0", listen=ANYWHERE, join=(at,)), ("there is a broker b0", "--id")),
                (BrokerConfig("b0", listen=ANYWHERE, data=str(tmp_path / "b0")), ("in use by process",)),
            ):
                reason = await refused(config)
                assert all(each in reason for each in words), reason

    run(main())


def test_stores_of_others_are_refused(tmp_path: Path) -> None:
    async def main() -> None:
        async with running("b0", data=tmp_path / "b0"):
            pass
        store = str(tmp_path / "b0")
        assert "belongs to 'b0'" in await refused(BrokerConfig("b1", listen=ANYWHERE, data=store))
        reason = await refused(BrokerConfig("b0", listen=ANYWHERE, data=store, delta=3))
        assert "delta = 1, not 3" in reason
        assert "--delta 1" in reason
        async with running("b0", data=store):
            pass  # nothing of it was harmed or kept

    run(main())


def test_a_broker_that_never_joined_needs_an_address(tmp_path: Path) -> None:
    async def main() -> None:
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"127.0.0.1:{silent.getsockname()[1]}"
            server = BrokerServer(BrokerConfig("b1", listen=ANYWHERE, data=str(tmp_path), join=(address,)))
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(server.start(), 0.5)
        reason = await refused(BrokerConfig("b1", listen=ANYWHERE, data=str(tmp_path)))
        assert "b1 is no member of a network: start it with --join" in reason

    run(main())


def test_a_network_that_comes_later_is_waited_for() -> None:
    async def main() -> None:
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{sock.getsockname()[1]}"
        server = BrokerServer(BrokerConfig("b1", listen=ANYWHERE, join=(address,)))
        starting = asyncio.create_task(server.start())
        async with running("b0", listen=address):
            await asyncio.wait_for(starting, SECONDS)
            await asyncio.wait_for(server.joined(), SECONDS)
            await server.stop()

    run(main())


def test_a_store_that_fails_ends_the_broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        async with running("b0", data=tmp_path) as b0, gapless.connect(b0.address) as client:

            async def fail(_: object) -> None:
                raise StoreUnavailableError("the disk is gone")

            monkeypatch.setattr(b0.driver._journal, "append", fail)
            creating = asyncio.create_task(client.create_topic("t"))
            assert str(await asyncio.wait_for(b0.wait_failed(), SECONDS)) == "the disk is gone"
            with pytest.raises(InquiryError):
                await who(b0.address, 1.0)
            creating.cancel()

    run(main())


# -- status and metrics ---------------------------------------------------------------------------------


def test_status_and_metrics_of_work(tmp_path: Path) -> None:
    async def main() -> None:
        async with (
            running("b0", data=tmp_path, metrics=ANYWHERE) as b0,
            gapless.connect(b0.address, name="worker") as client,
        ):
            await client.create_topic("trades", schema="n BIGINT")
            async with (
                client.subscribe("trades", "n >= 5") as subscription,
                client.publisher("trades") as publisher,
            ):
                for number in range(10):
                    await publisher.publish({"n": number})
                await publisher.flush()
                assert len([await anext(subscription) for _ in range(5)]) == 5
                _check_report((await survey([b0.address])).reports["b0"])
                _check_metrics(parsed(await scrape(b0.metrics_address, "GET /metrics HTTP/1.1")))
            assert "404" in await scrape(b0.metrics_address, "GET /other HTTP/1.1")
            assert await scrape(b0.metrics_address, "x" * 100_000) == ""

    run(main())


async def scrape(address: str, request: str) -> str:
    host, port = address.split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        writer.write(f"{request}\r\nHost: x\r\n\r\n".encode())
        answer = await asyncio.wait_for(reader.read(), SECONDS)
    except ConnectionError:
        return ""
    finally:
        writer.close()
    head, _, body = answer.decode().partition("\r\n\r\n")
    return body if "200 OK" in head else head


def _check_report(report: dict[str, Any]) -> None:
    assert report["session_count"] == {"broker": 0, "client": 1}
    (session,) = report["sessions"]
    assert (session["peer"], session["kind"], session["active"]) == ("worker", "client", True)
    assert min(session[key] for key in ("bytes_in", "bytes_out", "frames_in", "frames_out", "rtt")) > 0
    (topic,) = report["topics"]
    assert (topic["name"], topic["order"], topic["subscriptions"]) == ("trades", "publisher", 1)
    assert "BIGINT" in topic["schema"].upper()
    assert report["totals"]["events_in"] == 10
    assert report["totals"]["deliveries"] == 5
    assert report["subscriptions"] == 1


def _check_metrics(found: dict[str, float]) -> None:
    assert found["gapless_events_in_total"] == 10
    assert found["gapless_deliveries_total"] == 5
    assert found["gapless_sessions[client]"] == 1
    assert found["gapless_subscriptions"] == 1
    assert found["gapless_subscription_seconds_count"] == 1
    assert found["gapless_delivery_seconds_count"] > 0
    assert found["gapless_sync_seconds_count"] > 0
    assert found["gapless_step_seconds_count"] == found["gapless_batches_total"] > 0
    assert found["gapless_bytes_in_total"] > 100


def test_a_stalled_head_is_shown() -> None:
    """A subscriber that vanished is waited for: status says who, how long, and with how much behind it."""

    async def main() -> None:
        async with running("b0") as b0, gapless.connect(b0.address) as client:
            await client.create_topic("t")
            gone = await gapless.connect(b0.address, name="gone")
            await gone.subscribe("t").__aenter__()
            await gone._driver.stop("crash", at_once=True)  # type: ignore[union-attr]
            await until(lambda: "gone" not in b0.driver.transport.sessions)
            publisher = await client.publisher("t", name=None).__aenter__()
            for _ in range(3):
                await publisher.publish({})
            while not (stalled := (await status(b0.address))["stalled"]):
                await asyncio.sleep(0.05)
            assert (stalled[0]["waits_for"], stalled[0]["asked"], stalled[0]["behind"]) == (["gone"], [], 3)
            assert stalled[0]["seconds"] >= 1
            await gone.close()

    run(main())


# -- the end --------------------------------------------------------------------------------------------


def test_peers_are_told_of_an_orderly_end_and_not_of_a_crash(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        async with running("b0") as b0:
            for end in (BrokerServer.stop, BrokerServer.kill):
                b1 = BrokerServer(BrokerConfig("b1", listen=ANYWHERE, join=(b0.address,)))
                await b1.start()
                await b1.joined()
                await until(lambda: "b1" in b0.driver.transport.sessions)
                await end(b1)
                await until(lambda: "b1" not in b0.driver.transport.sessions)

    with caplog.at_level(logging.INFO, "gapless"):
        run(main())
    reasons = [
        each.facts["reason"]  # type: ignore[attr-defined]
        for each in caplog.records
        if each.message == "session down" and each.facts["node"] == "b0"  # type: ignore[attr-defined]
    ]
    assert reasons[0] == "the broker stops"
    assert len(reasons) == 2
    assert reasons[1] != "killed"


def test_a_client_that_leaves_takes_its_subscriptions_with_it() -> None:
    async def main() -> None:
        async with running("b0") as b0:
            for _ in range(3):
                async with gapless.connect(b0.address) as client:
                    await client.create_topic("t")
                    async with client.subscribe("t"), client.publisher("t") as publisher:
                        await publisher.publish({})
                        await asyncio.wait_for(publisher.flush(), SECONDS)
            assert (await status(b0.address))["subscriptions"] == 0

    run(main())


def test_whether_a_broker_is_a_network_by_itself_is_in_its_store(tmp_path: Path) -> None:
    """A founder may be a member of nothing any more; a member whom all others have left goes on alone."""

    async def main() -> None:
        for founder, alone in ((True, False), (False, True)):
            data = str(tmp_path / f"{alone}")
            journal = Journal(open_store(data, "b1"), Log("b1"))
            await journal.begin(Membership(1, founder))
            await journal.append([Founded(alone)])
            await journal.close()
        left = BrokerConfig("b1", listen=ANYWHERE, data=str(tmp_path / "False"))
        assert "b1 is no member of a network" in await refused(left)
        async with running("b1", data=str(tmp_path / "True")) as b1:
            assert (await status(b1.address))["join"] == "joined"

    run(main())
