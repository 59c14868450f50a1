"""Log lines for operators: one a thing that happened, with its facts as fields.

``say("session up", peer="b1")`` becomes ``… INFO session up node=b2 peer=b1`` or a JSON object. What a peer
can cause as often as it likes goes through ``Throttle``, so that nobody can fill a disk from outside; values
that came from outside are cut and written so that they stay on their line."""

from __future__ import annotations

import json
import logging
import sys
import time
from collections.abc import Callable
from typing import Any, TextIO

VALUE_MAX = 300
"""The most characters of a value."""

_logger = logging.getLogger("gapless")


class Log:
    """The lines of one node."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._throttle = Throttle()

    def say(self, what: str, level: int = logging.INFO, **facts: Any) -> None:
        """Something has happened."""
        if _logger.isEnabledFor(level):
            _logger.log(level, what, extra={"facts": {"node": self._node, **facts}})

    def warn(self, what: str, **facts: Any) -> None:
        """Something that an operator should look at."""
        self.say(what, logging.WARNING, **facts)

    def noise(self, what: str, **facts: Any) -> None:
        """Something that a peer may cause again and again."""
        left_out = self._throttle.admit(what)
        if left_out is not None:
            self.say(what, **facts, **({"left_out_before": left_out} if left_out else {}))


class Throttle:
    """Lets a burst of each kind of line through, and then one every few seconds.

    Kinds are texts of this program, so there are few of them."""

    def __init__(
        self, burst: int = 50, every: float = 1.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst = burst
        self._every = every
        self._clock = clock
        self._kinds: dict[str, tuple[float, float, int]] = {}  # tokens, when, left out since

    def admit(self, kind: str) -> int | None:
        """How many lines of this kind were left out before this one; ``None``: so is this one."""
        now = self._clock()
        tokens, at, left_out = self._kinds.get(kind, (float(self._burst), now, 0))
        tokens = min(self._burst, tokens + (now - at) / self._every)
        if tokens < 1:
            self._kinds[kind] = (tokens, now, left_out + 1)
            return None
        self._kinds[kind] = (tokens - 1, now, 0)
        return left_out


class TextFormatter(logging.Formatter):
    """For people: time, level, what, facts."""

    def format(self, record: logging.LogRecord) -> str:
        """One line, or one and a traceback."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        facts = "".join(f" {key}={_word(value)}" for key, value in _facts(record).items())
        line = f"{moment}.{int(record.msecs):03d}Z {record.levelname:<7} {record.getMessage()}{facts}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonFormatter(logging.Formatter):
    """For machines: one object a line."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{moment}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "what": record.getMessage(),
            **{key: _cut(value) for key, value in _facts(record).items()},
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line)


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return getattr(record, "facts", {})


def _cut(value: Any) -> Any:
    if isinstance(value, bool | int | float) or value is None:
        return value
    text = str(value)
    return text if len(text) <= VALUE_MAX else text[:VALUE_MAX] + "…"


def _word(value: Any) -> str:
    """A value as one word, quoted where it needs to be."""
    text = str(_cut(value))
    plain = text.isprintable() and not set(text) & set(' "=')
    return text if plain and text else json.dumps(text)


def set_up(style: str, stream: TextIO | None = None) -> None:
    """Write the lines of this process in that style, to standard error unless told."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonFormatter() if style == "json" else TextFormatter())
    _logger.handlers = [handler]
    _logger.setLevel(logging.INFO)
    _logger.propagate = False
