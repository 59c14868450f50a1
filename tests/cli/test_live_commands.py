"""The commands of the live network against one real broker process."""

from __future__ import annotations

import base64
import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
import typer
from typer.testing import CliRunner, Result

from gapless.cli import app
from live.harness import LiveNetwork, free_ports

SECONDS = 30
COMMANDS = (
    "broker", "topic", "publish", "subscribe", "status", "simulate", "figures", "spark", "demo",
)  # fmt: skip
_numbers = itertools.count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a broker."""
    with LiveNetwork(tmp_path_factory.mktemp("broker")) as network:
        yield network.tree(1)[0].address


@pytest.fixture
def gapless(broker: str, tmp_path: Path) -> Callable[..., Result]:
    """Run a command in this process; the broker is in its own."""

    def run(arguments: str, *more: str) -> Result:
        environ = {"GAPLESS": broker, "GAPLESS_PUBLISHERS": str(tmp_path / "data"), "COLUMNS": "200"}
        return CliRunner().invoke(app, [*shlex.split(arguments), *more], env=environ)

    return run


@pytest.fixture
def topic(gapless: Callable[..., Result]) -> str:
    """A topic that no other test uses."""
    name = f"topic-{next(_numbers)}"
    said(gapless(f"topic create {name}"))
    return name


def said(result: Result) -> str:
    """What a command that succeeded has printed."""
    assert result.exit_code == 0, result.output
    return result.stdout


def refused(result: Result, *words: str, code: int = 1) -> None:
    """A command that failed says why in one sentence on standard error, and nothing else."""
    assert result.exit_code == code, result.output
    assert isinstance(result.exception, SystemExit)
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    if code == 1:
        sentence, *picture = result.stderr.splitlines()
        assert sentence.startswith("error: ")
        assert all(line.startswith("  ") for line in picture), "only what shows where"
    for word in words:
        assert word in result.stderr, result.stderr


@contextmanager
def process(
    broker: str, *words: str, stdin: int | IO[str] = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[str]]:
    """A command as a process of its own."""
    with subprocess.Popen(
        [sys.executable, "-m", "gapless", *words, "--broker", broker],
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as started:
        try:
            yield started
        finally:
            started.kill()


@contextmanager
def subscribed(broker: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """A subscriber that is live."""
    with process(broker, "subscribe", *words, "--json") as subscriber:
        live = next_item(subscriber)
        assert live["kind"] == "live"
        assert live["latency"] > 0
        assert live["unreachable"] == []
        yield subscriber


def next_item(subscriber: subprocess.Popen[str]) -> dict[str, Any]:
    assert subscriber.stdout is not None
    line = subscriber.stdout.readline()
    assert line, subscriber.communicate(timeout=SECONDS)
    item: dict[str, Any] = json.loads(line)
    return item


def rest_of(subscriber: subprocess.Popen[str], code: int = 0) -> list[dict[str, Any]]:
    """What it prints until it ends by itself."""
    stdout, stderr = subscriber.communicate(timeout=SECONDS)
    assert (subscriber.returncode, stderr) == (code, "")
    return [json.loads(line) for line in stdout.splitlines()]


# -- topics -----------------------------------------------------------------------------------------------


def test_the_life_of_a_topic(gapless: Callable[..., Result]) -> None:
    declared = {
        "name": "trades",
        "order": "publisher",
        "beyond_delta": "mark",
        "repositories": 0,
        "schema": "symbol STRING, price DOUBLE",
    }
    create = f"topic create trades --schema '{declared['schema']}' --beyond-delta mark"
    assert said(gapless(create)) == "topic trades: publisher order\n"
    assert json.loads(said(gapless(create + " --json"))) == declared, "declared like this already is fine"
    assert declared in json.loads(said(gapless("topic list --json")))
    assert json.loads(said(gapless("topic show trades --json"))) == declared
    for table in (said(gapless("topic show trades")), said(gapless("topic list"))):
        (row,) = [line for line in table.splitlines() if " trades " in line]
        cells = [cell.strip() for cell in row.strip("│").split("│")]
        assert cells == [str(value) for value in declared.values()]
    assert json.loads(said(gapless("topic delete trades --json"))) == {"deleted": "trades"}
    refused(gapless("topic show trades"), "no topic 'trades'", "gapless topic list")
    assert "trades" not in [each["name"] for each in json.loads(said(gapless("topic list --json")))]


def test_a_topic_is_deleted_in_words(gapless: Callable[..., Result], topic: str) -> None:
    assert said(gapless(f"topic delete {topic}")) == f"topic {topic} deleted\n"


def test_a_best_effort_topic(gapless: Callable[..., Result]) -> None:
    assert said(gapless("topic create fast --order best-effort")) == "topic fast: best-effort order\n"


def test_names_are_shown_as_they_are(gapless: Callable[..., Result]) -> None:
    said(gapless("topic create '[red]x[/red]'"))
    assert "[red]x[/red]" in said(gapless("topic show '[red]x[/red]'"))


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ("show nowhere", "no topic 'nowhere'"),
        ("delete nowhere", "no topic 'nowhere'"),
        ("create x --schema 'price NUMBERS'", "NUMBERS"),
        ("create x --schema 'price'", "schema"),
        ("create x --order total", "'total' is not built yet; there are best-effort, publisher"),
        ("create x --repositories 3", "durable topics are not built yet"),
        ("create ''", "needs a name"),
        (f"create {'x' * 256}", "at most 255 characters"),
    ],
)
def test_what_cannot_be_declared(gapless: Callable[..., Result], arguments: str, why: str) -> None:
    refused(gapless(f"topic {arguments}"), why)


def test_another_declaration_of_the_same_name(gapless: Callable[..., Result], topic: str) -> None:
    refused(gapless(f"topic create {topic} --schema 'n INT'"), f"topic '{topic}' already", "schema")
    refused(gapless(f"topic create {topic} --order best-effort"), "order is publisher, not best-effort")


@pytest.mark.parametrize(
    "arguments",
    [
        "topic create x --order alphabetical",
        "topic create x --beyond-delta explode",
        "topic create",
        "topic rename x y",
        "publish t",
        "publish t a=1 --from-jsonl x",
        "publish t novalue",
        "publish t =1",
        "publish t a..b=1",
        "publish t n:=one",
        "publish t a=1 a.b=2",
        "subscribe t --count 0",
        "status nowhere:x",
        "nonsense",
    ],
)
def test_what_is_written_wrongly(gapless: Callable[..., Result], arguments: str) -> None:
    refused(gapless(arguments), "Usage:", code=2)


# -- publish and subscribe --------------------------------------------------------------------------------


def test_attributes_from_the_command_line(gapless: Callable[..., Result], broker: str, topic: str) -> None:
    with subscribed(broker, topic, "--count", "2") as subscriber:
        published = json.loads(
            said(
                gapless(
                    f"publish {topic} --json --payload päyload symbol=IBM price:=131.25 big:={2**62} "
                    'none:=null desk.region=EU-W desk.head.id:=7 "text=a=b c" flag:=true empty= '
                    """struct:='{"a": {"b": 1}}'"""
                )
            )
        )
        assert (published["topic"], published["published"], published["sequence"]) == (topic, 1, 1)
        assert said(gapless(f"publish {topic} --payload only")) == f"1 confirmed on {topic}\n"
        event, bare = rest_of(subscriber)
    assert event["attributes"] == {
        "symbol": "IBM",
        "price": 131.25,
        "big": 2**62,
        "none": None,
        "desk": {"region": "EU-W", "head": {"id": 7}},
        "text": "a=b c",
        "flag": True,
        "empty": "",
        "struct": {"a": {"b": 1}},
    }
    assert base64.b64decode(event.pop("payload_base64")).decode() == "päyload"
    assert (event["kind"], event["topic"], event["publisher"]) == ("event", topic, published["publisher"])
    assert (event["sequence"], event["best_effort"]) == (1, False)
    assert event["published_at"] > 1.7e9
    assert (bare["attributes"], bare["payload_base64"]) == ({}, base64.b64encode(b"only").decode())


def test_what_may_not_be_published(gapless: Callable[..., Result]) -> None:
    said(gapless("topic create typed --schema 'n INT NOT NULL'"))
    refused(gapless("publish typed n=text"), "typed", "'n'")
    refused(gapless("publish typed m:=1"), "typed", "'m'")
    refused(gapless("publish typed n:=[1]"), "typed", "'n'")
    refused(gapless("publish nowhere n:=1"), "no topic 'nowhere'; there are: ")


def test_json_lines_from_a_file(
    gapless: Callable[..., Result], broker: str, topic: str, tmp_path: Path
) -> None:
    file, count = tmp_path / "events.jsonl", 1000  # more than a pipe holds, less than a queue
    lines = [json.dumps({"n": n, "text": "é" * (n % 50), "desk": {"n": n}}) for n in range(count)]
    file.write_text("\n\n" + "\n".join(lines))  # no line end at the end
    with subscribed(broker, topic, "n >= 100", "--count", str(count - 100)) as subscriber:
        assert said(gapless(f"publish {topic} --from-jsonl {file}")) == f"1,000 confirmed on {topic}\n"
        events = rest_of(subscriber)
    assert [event["attributes"] for event in events] == [json.loads(line) for line in lines[100:]]
    assert [event["sequence"] for event in events] == list(range(101, count + 1))


def test_json_lines_from_standard_input_as_they_come(broker: str, topic: str) -> None:
    """A line is published while the next one is not there yet."""
    with (
        subscribed(broker, topic, "--count", "3") as subscriber,
        process(broker, "publish", topic, "--from-jsonl", "-", stdin=subprocess.PIPE) as publisher,
    ):
        assert publisher.stdin is not None
        for n in range(3):
            publisher.stdin.write(json.dumps({"n": n})[:4])
            publisher.stdin.flush()
            publisher.stdin.write(json.dumps({"n": n})[4:] + "\n")
            publisher.stdin.flush()
            assert next_item(subscriber)["attributes"] == {"n": n}
        stdout, stderr = publisher.communicate(timeout=SECONDS)
        assert (publisher.returncode, stdout, stderr) == (0, f"3 confirmed on {topic}\n", "")


def test_it_can_be_interrupted_while_nothing_comes(broker: str, topic: str) -> None:
    with (
        subscribed(broker, topic, "--count", "1") as subscriber,
        process(broker, "publish", topic, "--from-jsonl", "-", stdin=subprocess.PIPE) as publisher,
    ):
        assert publisher.stdin is not None
        publisher.stdin.write('{"n": 1}\n')
        publisher.stdin.flush()
        assert next_item(subscriber)["attributes"] == {"n": 1}
        publisher.send_signal(signal.SIGINT)
        assert publisher.wait(SECONDS) == 130
        assert publisher.stderr is not None
        assert "Traceback" not in publisher.stderr.read()


def test_lines_with_payloads(gapless: Callable[..., Result], broker: str, topic: str, tmp_path: Path) -> None:
    file, payload = tmp_path / "envelopes.jsonl", bytes(range(256))
    lines = [
        {"attributes": {"n": 1}, "payload_base64": base64.b64encode(payload).decode()},
        {"attributes": {"n": 2}, "payload": "text"},
        {"attributes": {}},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with subscribed(broker, topic, "--count", "3") as subscriber:
        said(gapless(f"publish {topic} --from-jsonl {file} --envelope"))
        events = rest_of(subscriber)
    assert [base64.b64decode(event["payload_base64"]) for event in events] == [payload, b"text", b""]
    assert [event["attributes"] for event in events] == [{"n": 1}, {"n": 2}, {}]


@pytest.mark.parametrize(
    "bad",
    [
        (b"{", "", "line 3: "),
        (b"[1]", "", "line 3: a line must be a JSON object"),
        (b"\xff{}", "", "line 3: "),
        (b"[" * 100_000, "", "line 3: "),
        (b'{"n": [1]}', "", "line 3: "),
        (b'{"n": 99999999999999999999}', "", "64 bits"),
        (b'{"n": 1}', "--envelope", "attributes"),
        (b'{"attributes": {}, "payload_base64": "?"}', "--envelope", "line 3: "),
        (b'{"attributes": {}, "payload_base64": 5}', "--envelope", "must be text"),
    ],
)
def test_a_bad_line_is_named_and_what_came_before_is_published(
    gapless: Callable[..., Result], topic: str, tmp_path: Path, bad: tuple[bytes, str, str]
) -> None:
    line, options, why = bad
    file = tmp_path / "bad.jsonl"
    good = b'{"attributes": {"n": 1}}\n' if options else b'{"n": 1}\n'
    file.write_bytes(2 * good + line + b"\n" + good)
    refused(
        gapless(f"publish {topic} --from-jsonl {file} {options} --name feed"),
        *(f"{file}, line 3: ", why, "what came before is published"),
    )
    again = json.loads(said(gapless(f"publish {topic} n:=2 --name feed --json")))
    assert (again["published"], again["sequence"]) == (1, 3), "two were published before"


def test_a_file_that_is_not_there(gapless: Callable[..., Result], topic: str, tmp_path: Path) -> None:
    refused(gapless(f"publish {topic} --from-jsonl {tmp_path}/none"), "none", "No such file")
    refused(gapless(f"publish {topic} --from-jsonl {tmp_path}"), "Is a directory")


def test_a_name_goes_on_from_run_to_run(
    gapless: Callable[..., Result], broker: str, topic: str, tmp_path: Path
) -> None:
    file = tmp_path / "events.jsonl"
    file.write_text("".join(f'{{"n": {n}}}\n' for n in range(300)))
    with subscribed(broker, topic, "--count", "600") as subscriber:
        for run in (1, 2):
            done = json.loads(said(gapless(f"publish {topic} --name desk-1 --json --from-jsonl {file}")))
            assert done == {
                "topic": topic,
                "publisher": "desk-1",
                "published": 300,
                "sequence": 300 * run,
            }
        events = rest_of(subscriber)
    assert [event["sequence"] for event in events] == list(range(1, 601))
    assert [event["attributes"]["n"] for event in events] == 2 * list(range(300))
    assert {event["publisher"] for event in events} == {"desk-1"}


def test_a_bad_name(gapless: Callable[..., Result], topic: str) -> None:
    refused(gapless(f"publish {topic} n:=1 --name ''"), "a publisher needs a name")
    refused(gapless(f"publish {topic} n:=1 --name {'x' * 256}"), "at most 255 characters")
    refused(gapless(f"publish {topic} n:=1 --name x --data mysql://x"), "mysql://x")


def test_the_starting_cut_and_output_for_people(
    gapless: Callable[..., Result], broker: str, topic: str
) -> None:
    said(gapless(f"publish {topic} n:=1 --name desk"))
    with process(broker, "subscribe", topic, "n > 1", "--count", "1") as subscriber:
        assert subscriber.stderr is not None
        live = subscriber.stderr.readline()
        assert live.startswith("live after ")
        assert live.endswith(" ms: every matching event from now on, once and in order\n")
        said(gapless(f"publish {topic} n:=1 --name desk"))
        said(gapless(f"publish {topic} n:=2 text=é --payload hi --name desk"))
        stdout, stderr = subscriber.communicate(timeout=SECONDS)
    assert (subscriber.returncode, stderr) == (0, "")
    moment, _, rest = stdout.partition(" ")
    assert len(moment) == len("12:34:56.789")
    assert rest == 'desk 3 {"n": 2, "text": "é"} b\'hi\'\n'


def test_a_subscriber_ends_with_its_topic(gapless: Callable[..., Result], broker: str, topic: str) -> None:
    with subscribed(broker, topic) as subscriber:
        said(gapless(f"topic delete {topic}"))
        stdout, stderr = subscriber.communicate(timeout=SECONDS)
    assert (subscriber.returncode, stdout) == (1, "")
    assert stderr == f"error: the topic '{topic}' was deleted\n"


def test_a_subscriber_is_interrupted(broker: str, topic: str) -> None:
    with subscribed(broker, topic) as subscriber:
        subscriber.send_signal(signal.SIGINT)
        assert rest_of(subscriber, code=130) == []


def test_a_subscriber_whose_reader_has_enough(
    gapless: Callable[..., Result], broker: str, topic: str
) -> None:
    with subscribed(broker, topic) as subscriber:
        assert subscriber.stdout is not None
        subscriber.stdout.close()
        said(gapless(f"publish {topic} n:=1"))
        assert subscriber.wait(SECONDS) == 1
        assert subscriber.stderr is not None
        assert subscriber.stderr.read() == ""


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("subscribe {topic} 'price >'", ["line 1", "column"]),
        ("subscribe {topic} 'a = 1 AND\n b = = 2'", ["line 2", "column"]),
        ("subscribe {topic} --durable billing", ["durable"]),
        ("subscribe nowhere", ["no topic 'nowhere'; there are: "]),
    ],
)
def test_what_cannot_be_subscribed_to(
    gapless: Callable[..., Result], topic: str, arguments: str, words: Sequence[str]
) -> None:
    refused(gapless(arguments.format(topic=topic)), *words)


# -- no broker, and status --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "command", ["topic list", "topic create t", "publish t n:=1", "subscribe t", "status"]
)
def test_no_broker_can_be_reached(command: str) -> None:
    address = f"127.0.0.1:{free_ports(1)[0]}"
    result = CliRunner().invoke(app, shlex.split(command), env={"GAPLESS": address})
    assert result.exit_code == 1
    assert result.stdout == ""
    assert f"nobody can be reached at {address}" in result.stderr
    assert "Traceback" not in result.stderr


def test_an_address_that_is_none(gapless: Callable[..., Result]) -> None:
    refused(gapless("topic list --broker http://x"), "write gapless://host:port")


def test_status_of_one_broker(gapless: Callable[..., Result], broker: str, topic: str) -> None:
    report = json.loads(said(gapless("status --json")))
    assert report["unreachable"] == {}
    assert report["brokers"]["b0"]["address"] == broker
    assert report["brokers"]["b0"]["state"] == "operational"
    assert topic in [each["name"] for each in report["brokers"]["b0"]["topics"]]
    text = said(gapless("status"))
    (row,) = [line for line in text.splitlines() if broker in line]
    assert "b0" in row
    assert "operational" in row
    assert topic in text


def test_status_again_and_again(broker: str) -> None:
    words = [sys.executable, "-m", "gapless", "status", broker, "--watch", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as watching:
        try:
            assert watching.stdout is not None
            for _ in range(2):
                assert "b0" in json.loads(watching.stdout.readline())["brokers"]
            watching.send_signal(signal.SIGINT)
            assert watching.wait(SECONDS) == 0
        finally:
            watching.kill()


# -- help, and a machine with less ------------------------------------------------------------------------


def test_help_lists_every_command() -> None:
    words = [sys.executable, "-m", "gapless", "--help"]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=SECONDS)
    listed = [line.strip("│ ").split(" ")[0] for line in done.stdout.splitlines() if line.startswith("│ ")]
    assert set(COMMANDS) <= set(listed), done.stdout


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    for name, command in group.commands.items():
        yield (*path, name), command
        if hasattr(command, "commands"):
            yield from commands(command, (*path, name))


@pytest.mark.parametrize(
    "path",
    [path for path, _ in commands(typer.main.get_command(app)) if path[0] not in ("spark", "figures")],
    ids=" ".join,
)
def test_every_command_explains_itself_and_its_options(path: tuple[str, ...]) -> None:
    result = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "200"})
    assert result.exit_code == 0
    assert f"gapless {' '.join(path)}" in result.stdout
    command = dict(commands(typer.main.get_command(app)))[path]
    assert command.help
    if not hasattr(command, "commands"):
        assert "--json" in result.stdout
    for parameter in command.params:
        assert getattr(parameter, "help", None), f"{path}: {parameter.name} is not explained"


def test_the_live_commands_need_neither_spark_nor_postgres(broker: str, tmp_path: Path) -> None:
    """All of them at once, where the extra packages are not there."""
    without = (
        "import sys\n"
        "for name in ('matplotlib', 'numpy', 'pandas', 'py4j', 'pyarrow', 'pyspark', 'psycopg'):\n"
        "    sys.modules[name] = None\n"
        "from gapless.cli import app\n"
        "app()\n"
    )
    environ = {**os.environ, "GAPLESS": broker, "GAPLESS_PUBLISHERS": str(tmp_path)}
    wanted = ("topic list", "status", "demo --help")
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", without, *command.split()],
                    env=environ,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for command in wanted
        ]
        for each in processes:
            stack.callback(each.kill)
        for command, each in zip(wanted, processes, strict=True):
            stdout, stderr = each.communicate(timeout=SECONDS)
            assert (each.returncode, stderr) == (0, ""), command
            assert stdout
