"""Keeps the SDK's log lines few and short: it logs what a server sends, with tracebacks that quote it."""

from __future__ import annotations

import logging
import time
from functools import cache

LOGGERS = """
    client mcp.client.streamable_http mcp.client.sse mcp.client.session mcp.shared.jsonrpc_dispatcher
    mcp.client.auth.oauth2
""".split()
MAX_LINES, WINDOW_S = 20, 60.0
"""Lines of each logger, and in how many seconds."""
MAX_CHARS = 300


class _Few(logging.Filter):
    """Lets warnings and errors of the SDK pass: few, short and without tracebacks."""

    def __init__(self) -> None:
        super().__init__()
        self._window_s, self._passed = 0.0, 0

    def filter(self, record: logging.LogRecord) -> bool:
        if "/mcp/" not in record.pathname.replace("\\", "/"):
            return True  # another library's logger of that name
        now_s = time.monotonic()
        if now_s - self._window_s > WINDOW_S:
            self._window_s, self._passed = now_s, 0
        self._passed += 1
        if record.levelno < logging.WARNING or self._passed > MAX_LINES:
            return False
        record.msg, record.args = record.getMessage()[:MAX_CHARS], ()
        record.exc_info = record.exc_text = None
        return True


@cache
def limit_sdk_logging() -> None:
    """Filter the SDK's loggers, once in a process."""
    for name in LOGGERS:
        logging.getLogger(name).addFilter(_Few())


def silence_sdk_logging() -> None:
    """Log none of the SDK's lines, in a command that says itself what is wrong with a server."""
    for name in LOGGERS:
        logging.getLogger(name).setLevel(logging.CRITICAL)
