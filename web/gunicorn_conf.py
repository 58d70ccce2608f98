"""gunicorn's configuration; `./callboard web` and `./callboard up` pass the socket, a Procfile the address."""

from __future__ import annotations

import os
import tempfile
import threading
from contextlib import suppress
from typing import Any

from gunicorn import glogging

from bus.gc_tuning import collect_rarely, freeze_gc, return_large_blocks
from bus.liveness import start_liveness
from bus.loop import process_loop
from config.errors import CallboardError
from config.logs import line_format
from config.settings import settings

collect_rarely()  # gunicorn reads this file before it imports the application


class ServerLog(glogging.Logger):  # type: ignore[misc]  # gunicorn has no types
    """gunicorn's own log in Callboard's format: its times in UTC, its lines JSON where that is configured."""

    def setup(self, cfg: Any) -> None:
        """Open the log; gunicorn calls it at the start and after a reload of the configuration."""
        super().setup(cfg)
        for handler in self.error_log.handlers:
            handler.setFormatter(line_format(settings(), "web"))


bind = f"{settings().host}:{settings().port}"
workers = int(os.environ.get("WEB_CONCURRENCY", "1"))
worker_class = "web.server.worker.ThreadWorker"
threads = 20
"""Requests are short, and no thread waits for a client: a stream's socket moves to the process's event loop."""
worker_connections = 512
"""Connections that are no streams; web/feeds/viewers.py keeps descriptors for them."""
keepalive = 5
forwarded_allow_ips = forwarder_headers = ""
secure_scheme_headers: dict[str, str] = {}
"""gunicorn itself believes no proxy, also on a unix socket: web/proxies.py decides."""
timeout = 30
"""Seconds until a stuck process is killed; without a supervisor only (bus/liveness.py)."""
graceful_timeout = 3
"""Seconds for requests in progress at shutdown; clients resume streams elsewhere by their cursor."""
backlog = 2048
proc_name = "callboard-web"
accesslog = None
logger_class = ServerLog
control_socket_disable = True
"""gunicorn 27 would create one in the user's home."""
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
"""Heartbeat files on a disk can block the arbiter."""


def post_worker_init(worker: Any) -> None:
    """Compress the page and open the database and Redis before the first request, which would take a second longer.

    The processes that answer requests send the liveness bytes, so a stuck arbiter alone does not end them.
    """
    return_large_blocks()
    start_liveness(process_loop(), settings().lease_s)
    threading.Thread(target=_open_early, args=(worker.wsgi,), name="open-early", daemon=True).start()


def worker_exit(_server: Any, worker: Any) -> None:
    """End the streams, so that other processes do not count their viewers any more when these connect there."""
    with suppress(TimeoutError):
        worker.wsgi.extensions["callboard"].end_streams()


def _open_early(app: Any) -> None:
    from web.page_files import page_files  # imports Flask, which the process that forks does not need

    page_files()
    try:
        app.extensions["callboard"].require_ready()
    except CallboardError as error:
        app.logger.warning("not ready yet; requests are answered with this error until it is corrected: %s", error)
    freeze_gc()
