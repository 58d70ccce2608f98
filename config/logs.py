"""The application's own log: one line per record, ids as fields, no secrets.

Agents' output is in the logger observer's files instead; message bodies appear at DEBUG only.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from config.clock import stamp
from config.identity.contexts import logged_fields
from config.redaction import redact
from config.text.visible import escaped_json, one_line
from config.tracing import trace_fields

if TYPE_CHECKING:
    from config.settings import Settings

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName", "color_message"}
NOISY = tuple(
    """
    LiteLLM httpx httpx2 httpcore openai kombu amqp asyncio alembic celery.redirected celery.app.trace
    celery.worker.strategy mcp.server.streamable_http
    """.split()
)
"""Loggers that log each call at INFO; Celery's would include the arguments."""


def configure_logging(settings: Settings, process: str, stream: TextIO | None = None) -> None:
    """Make every logger of this process write to stderr in the configured format; a second call replaces the first.

    ``process`` (``web``, ``worker-1``, ``up``) is part of each line.
    """
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(line_format(settings, process))
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.DEBUG if settings.debug else logging.INFO)
    for name in NOISY:
        logging.getLogger(name).setLevel(logging.INFO if settings.debug else logging.WARNING)
    logging.captureWarnings(True)


def line_format(settings: Settings, process: str) -> logging.Formatter:
    """Return the configured format of a log line: text or JSON."""
    return JsonLines(process) if settings.log_format == "json" else TextLines(process)


class TextLines(logging.Formatter):
    """``2026-11-20T12:00:00.123Z INFO  worker-1 bus.relay published the wake-up run_id=r_1``."""

    def __init__(self, process: str) -> None:
        super().__init__()
        self._process = process

    def format(self, record: logging.LogRecord) -> str:
        text = one_line(redact(_text(record)))
        parts = [_at(record), f"{record.levelname:<7}", self._process, record.name, text]
        for name, value in _fields(record):
            if name != "run_id" or f"run_id={value}" not in text:  # many texts have it
                parts.append(f"{name}={_quoted(one_line(redact(str(value))))}")
        if record.exc_info:
            parts.append(f"traceback={_quoted(one_line(redact(self.formatException(record.exc_info))))}")
        return " ".join(parts)


class JsonLines(TextLines):
    """One JSON object per line: ``at``, ``level``, ``process``, ``logger``, ``message``, and the fields."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "at": _at(record),
            "level": record.levelname.lower(),
            "process": self._process,
            "logger": record.name,
            "message": _clean(_text(record)),
        }
        for name, value in _fields(record):
            line[name] = value if isinstance(value, int | float | bool) else _clean(str(value))
        if record.exc_info:
            line["traceback"] = _clean(self.formatException(record.exc_info))
        return escaped_json(orjson.dumps(line).decode())


def _text(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # a wrong %-format is the caller's mistake; keep the line instead of a traceback
        return f"{record.msg} {record.args!r}"


acting_for: ContextVar[tuple[str, str] | None] = ContextVar("callboard_acting_for", default=None)
"""The tenant and the principal whose request or run this context works on; each record of it has both."""


def _fields(record: logging.LogRecord) -> Iterator[tuple[str, Any]]:
    of_context = zip(("tenant", "principal"), acting_for.get() or (), strict=False)
    yield from ((name, value) for name, value in of_context if name not in vars(record))
    yield from ((name, value) for name, value in trace_fields() if name not in vars(record))
    yield from ((name, value) for name, value in logged_fields() if name not in vars(record))
    yield from ((name, value) for name, value in vars(record).items() if name not in _STANDARD and value is not None)


def _at(record: logging.LogRecord) -> str:
    return stamp(int(record.created * 1000))


def _quoted(value: str) -> str:
    """Return the value, in quotes if it has a delimiter or is empty."""
    plain = value and not any(sign in value for sign in ' "=')
    return value if plain else '"' + value.replace('"', '\\"') + '"'


def _clean(text: str) -> str:
    """Return the text without secrets and without lone surrogates, which JSON cannot encode."""
    return redact(text).encode("utf-8", "backslashreplace").decode()
