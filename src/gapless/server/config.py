"""The configuration of a broker: a TOML file, then the environment, then options; the last one counts.

Keys are the same everywhere: ``delta = 1`` in the file, ``GAPLESS_DELTA=1`` in the environment, ``--delta 1``
as an option. Whatever cannot be meant is a ``ConfigError`` that names the key and where it came from. In the
environment only what looks like a slip of the pen is refused, since others put names there too: a Kubernetes
service that is called gapless makes ``GAPLESS_PORT``."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from gapless.server.addresses import parse_address

PREFIX = "GAPLESS_"
DELTA_MAX = 16
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


class ConfigError(ValueError):
    """A configuration that cannot be meant."""


# -- what a value may be --------------------------------------------------------------------------------


def _name(value: Any) -> str:
    if not isinstance(value, str) or not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is no name; use letters, digits, '.', '_' and '-', such as b1")
    return value


def _address(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"{value!r} is not an address; write host:port, such as 127.0.0.1:7400")
    parse_address(value)
    return value.strip()


def _address_or_none(value: Any) -> str:
    return _address(value) if value else ""


def _addresses(value: Any) -> tuple[str, ...]:
    """A list, or a text with commas, as environments have them."""
    each = value.split(",") if isinstance(value, str) else value
    if not isinstance(each, list | tuple):
        raise ValueError(f"{value!r} is not a list of addresses")
    return tuple(_address(one) for one in each if one)


def _place(value: Any) -> str:
    if not isinstance(value, str | Path):
        raise ValueError(f"{value!r} is neither a directory nor a postgresql:// address")
    place = str(value)
    if "://" in place and not place.startswith(("postgresql://", "postgres://")):
        raise ValueError(f"{place!r} is not supported; give a directory or postgresql://…")
    return place


def _number(kind: type[int] | type[float], least: float, most: float) -> Callable[[Any], Any]:
    def read(value: Any) -> int | float:
        try:
            number = kind(value) if isinstance(value, str | int | float) else None
        except ValueError:
            number = None
        if number is None or isinstance(value, bool) or number != float(value) or not least <= number <= most:
            what = "a whole number" if kind is int else "a number"
            raise ValueError(f"{value!r} is not {what} from {least:g} to {most:g}")
        return number

    return read


def _choice(*choices: str) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in choices:
            raise ValueError(f"{value!r} is none of {', '.join(choices)}")
        return str(value)

    return read


def _key(read: Callable[[Any], Any], default: Any) -> Any:
    return field(default=default, metadata={"read": read})


@dataclass(frozen=True, slots=True)
class BrokerConfig:
    """What a broker is told. Reading a value also checks it, wherever it came from."""

    id: str = field(metadata={"read": _name})
    """Its name, which stays the same over restarts and is unique in the network."""
    listen: str = _key(_address, "127.0.0.1:7400")
    """Where it accepts sessions; port 0: any free one."""
    advertise: str = _key(_address_or_none, "")
    """What others are told to dial, when that is not what it listens at."""
    join: tuple[str, ...] = _key(_addresses, ())
    """Brokers of the network; none for its first broker."""
    data: str = _key(_place, "")
    """Where it keeps what must survive: a directory or postgresql://…; empty: nowhere."""
    delta: int = _key(_number(int, 0, DELTA_MAX), 1)
    """How many failures at a time must do no harm: the same at all brokers of the network."""
    metrics: str = _key(_address_or_none, "")
    """Where Prometheus may ask; empty: nowhere."""
    log: str = _key(_choice("text", "json"), "text")
    """How log lines are written."""
    ping_every: float = _key(_number(float, 0.01, 60), 0.2)
    """Seconds between signs of life."""
    suspect_after: float = _key(_number(float, 0.02, 600), 0.9)
    """Seconds of silence after which a peer is bypassed."""
    lease: float = _key(_number(float, 1, 86_400), 20)
    """Seconds that publishers wait for a subscriber that has vanished; when it returns later, it is told that
    events are missing."""
    connections: int = _key(_number(int, 8, 1_000_000), 10_000)
    """The most connections at a time."""
    unsent_megabytes: int = _key(_number(int, 1, 100_000), 256)
    """A session whose peer reads so slowly that more than this waits for it is closed."""

    def __post_init__(self) -> None:
        for each in fields(self):
            try:
                object.__setattr__(self, each.name, each.metadata["read"](getattr(self, each.name)))
            except ValueError as error:
                raise ConfigError(f"{each.name}: {error}") from None
        if self.suspect_after < 2 * self.ping_every:
            raise ConfigError(
                f"suspect_after ({self.suspect_after:g} s) must be at least twice ping_every "
                f"({self.ping_every:g} s), or every pause is taken for a failure"
            )


_READ: dict[str, Callable[[Any], Any]] = {each.name: each.metadata["read"] for each in fields(BrokerConfig)}


def load(path: Path | None, environ: Mapping[str, str], options: Mapping[str, Any]) -> BrokerConfig:
    """The configuration from all its sources; options that are ``None`` were not given."""
    values: dict[str, Any] = {}
    for where, key, value in (*_of_file(path), *_of_environment(environ), *_of_options(options)):
        try:
            values[key] = _READ[key](value)
        except ValueError as error:
            raise ConfigError(f"{where}: {error}") from None
    if "id" not in values:
        raise ConfigError('a broker needs a name: --id b1, GAPLESS_ID=b1, or id = "b1" in its file')
    return BrokerConfig(**values)


def _of_file(path: Path | None) -> Iterator[tuple[str, str, Any]]:
    if path is None:
        return
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise ConfigError(f"cannot read {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from None
    for key, value in content.items():
        if key not in _READ:
            raise ConfigError(f"{path}: there is no key {key!r}{_meant(key)}")
        yield f"{path}: {key}", key, value


def _of_environment(environ: Mapping[str, str]) -> Iterator[tuple[str, str, Any]]:
    for name, value in sorted(environ.items()):
        if name.startswith(PREFIX):
            key = name.removeprefix(PREFIX).lower()
            if key in _READ:
                yield f"environment: {name}", key, value
            elif _meant(key):
                raise ConfigError(f"environment: there is no {name}{_meant(key)}")


def _of_options(options: Mapping[str, Any]) -> Iterator[tuple[str, str, Any]]:
    for key, value in options.items():
        if value is not None:
            yield f"--{key.replace('_', '-')}", key, value


def _meant(key: str) -> str:
    close = get_close_matches(key, _READ, n=1, cutoff=0.75)
    return f"; did you mean {close[0]!r}?" if close else ""
