"""Configuration: three sources, the last one counts, and every mistake is named with where it was made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gapless.server.config import BrokerConfig, ConfigError, load


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "broker.toml"
    path.write_text(text)
    return path


def test_defaults() -> None:
    assert load(None, {}, {"id": "b1"}) == BrokerConfig("b1")
    assert BrokerConfig("b1").listen == "127.0.0.1:7400"
    assert BrokerConfig("b1").delta == 1


def test_options_before_environment_before_file(tmp_path: Path) -> None:
    path = write(tmp_path, 'id = "file"\ndelta = 2\nlisten = "127.0.0.1:1"\njoin = ["a:1", "b:2"]')
    environ = {"GAPLESS_ID": "environment", "GAPLESS_DELTA": "3", "GAPLESS_JOIN": "c:3,d:4", "HOME": "/"}
    config = load(path, environ, {"id": "option", "delta": None})
    assert config == BrokerConfig("option", listen="127.0.0.1:1", join=("c:3", "d:4"), delta=3)


def test_values_of_the_environment_are_texts() -> None:
    environ = {"GAPLESS_PING_EVERY": "0.5", "GAPLESS_SUSPECT_AFTER": "2", "GAPLESS_CONNECTIONS": "99"}
    config = load(None, environ, {"id": "b"})
    assert (config.ping_every, config.suspect_after, config.connections) == (0.5, 2.0, 99)


def test_what_others_put_into_the_environment_is_left_alone() -> None:
    environ = {
        "GAPLESS": "h:1",
        "GAPLESS_PORT": "tcp://10.0.0.1:7400",
        "GAPLESS_SERVICE_HOST": "x",
    }
    assert load(None, environ, {"id": "b"}) == BrokerConfig("b")


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("delat = 1", "there is no key 'delat'; did you mean 'delta'?"),
        ("colour = 1", "there is no key 'colour'"),
        ("delta = -1", "delta: -1 is not a whole number from 0 to 16"),
        ("delta = 1.5", "delta: 1.5 is not a whole number"),
        ("delta = true", "delta: True is not a whole number"),
        ('delta = "many"', "delta: 'many' is not a whole number"),
        ("delta = [1]", "delta: [1] is not a whole number"),
        ('listen = "7400"', "listen: '7400' is not an address; write host:port"),
        ("listen = 7400", "listen: 7400 is not an address"),
        ('join = ["a:1", "b"]', "join: 'b' is not an address"),
        ("join = 5", "join: 5 is not a list of addresses"),
        ('log = "xml"', "log: 'xml' is none of text, json"),
        ('data = "redis://x"', "data: 'redis://x' is not supported"),
        ("data = 1", "data: 1 is neither a directory nor"),
        ('id = "a b"', "id: 'a b' is no name"),
        ('id = "../x"', "id: '../x' is no name"),
        ("suspect_after = 0.3", "must be at least twice ping_every"),
        ("id = ", "is not TOML"),
    ],
)
def test_a_mistake_in_the_file_is_named(tmp_path: Path, text: str, error: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError) as raised:
        load(path, {}, {"id": "b"} if "id =" not in text else {})
    assert error in str(raised.value)
    if "suspect_after" not in text:
        assert str(path) in str(raised.value)


def test_a_mistake_elsewhere_is_named_too() -> None:
    for environ, options, error in (
        ({"GAPLESS_DELTA": "x"}, {"id": "b"}, "environment: GAPLESS_DELTA: 'x' is not"),
        (
            {"GAPLESS_DELAT": "1"},
            {"id": "b"},
            "there is no GAPLESS_DELAT; did you mean 'delta'?",
        ),
        ({}, {"id": "b", "ping_every": 0}, "--ping-every: 0 is not a number from 0.01 to 60"),
        ({}, {}, "a broker needs a name: --id b1, GAPLESS_ID=b1"),
    ):
        with pytest.raises(ConfigError) as raised:
            load(None, environ, options)
        assert error in str(raised.value)


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"cannot read nowhere\.toml: No such file"):
        load(Path("nowhere.toml"), {}, {"id": "b"})


@pytest.mark.parametrize("wrong", [{"delta": 99}, {"listen": "x"}, {"join": ("x",)}])
def test_a_configuration_made_by_a_program_is_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=next(iter(wrong))):
        BrokerConfig("b", **wrong)
