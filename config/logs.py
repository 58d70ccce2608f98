"""The application's own log: one line a record whatever is in it, ids as fields, no secrets.

What agents said is not here but in the logger observer's files; bodies appear at DEBUG only.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from config.clock import stamp
from config.redaction import redact

if TYPE_CHECKING:
    from config.settings import Settings

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
_CONTROL = {code: f"\\x{code:02x}" for code in (*range(32), 127, *range(128, 160))}
_CONTROL |= {
    ord("\n"): "\\n",
    ord("\r"): "\\r",
    ord("\t"): "\\t",
    0x2028: "\\u2028",
    0x2029: "\\u2029",
    0x202E: "\\u202e",
}
_UNSAFE_IN_JSON = {code: f"\\u{code:04x}" for code in (*range(127, 160), 0x2028, 0x2029, 0x202E)}
"""What JSON lets through and some readers of lines, and terminals, do not."""
NOISY = (
    "LiteLLM", "httpx", "httpcore", "openai", "kombu", "amqp", "asyncio", "alembic", "celery.redirected",
    "celery.app.trace", "celery.worker.strategy",
)  # fmt: skip
"""Loggers whose INFO is a line for each call; Celery's would also hold the arguments."""


def configure_logging(settings: Settings, process: str, stream: TextIO | None = None) -> None:
    """Every logger of this process writes to stderr as the settings say; a second call replaces the first.

    ``process`` (``web``, ``worker-1``, ``up``) stands in each line.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines(process) if settings.log_format == "json" else TextLines(process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if settings.debug else logging.INFO)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.INFO if settings.debug else logging.WARNING)
    logging.captureWarnings(True)


def one_line(text: str) -> str:
    """Return the text without anything that ends a line or moves a terminal's cursor."""
    return _without_surrogates(text).translate(_CONTROL)


class TextLines(logging.Formatter):
    """``2026-11-20T12:00:00.123Z INFO  worker-1 bus.relay published the wake-up run_id=r_1``."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        parts = [_at(record), f"{record.levelname:<7}", self._process, record.name, one_line(redact(_text(record)))]
        parts += [f"{name}={_quoted(one_line(redact(str(value))))}" for name, value in _fields(record)]
        if record.exc_info:
            parts.append(f"traceback={_quoted(one_line(redact(self.formatException(record.exc_info))))}")
        return " ".join(parts)


class JsonLines(logging.Formatter):
    """The same as one JSON object a line: ``at``, ``level``, ``process``, ``logger``, ``message``, and the fields."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": redact(_text(record)),
        }
        line.update({name: _plain(value) for name, value in _fields(record)})
        if record.exc_info:
            line["traceback"] = redact(self.formatException(record.exc_info))
        return orjson.dumps(_encodable(line)).decode().translate(_UNSAFE_IN_JSON)


def _text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # a wrong %-format is a slip in the caller; the line is worth more than the traceback
        return f"{record.msg} {record.args!r}"


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    return ((name, value) for name, value in vars(record).items() if name not in _STANDARD and value is not None)


def _at(record: logging.LogRecord) -> str:
    return stamp(int(record.created * 1000))


def _quoted(value: str) -> str:
    """Return the value as it stands, or in quotes where a reader could not tell where it ends."""
    plain = value and not any(sign in value for sign in ' "=')
    return value if plain else '"' + value.replace('"', '\\"') + '"'


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | float | bool) else redact(str(value))


def _encodable(line: dict[str, Any]) -> dict[str, Any]:
    """Return the line without lone surrogates, which no JSON may hold."""
    return {name: _without_surrogates(value) if isinstance(value, str) else value for name, value in line.items()}


def _without_surrogates(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode()
