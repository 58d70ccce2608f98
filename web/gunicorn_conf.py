"""How gunicorn serves the doors; `./callboard web` and `./callboard up` name the socket, a Procfile the address."""

from __future__ import annotations

import os
import tempfile
import threading
from typing import Any

from bus.heap import return_large_blocks, settle_heap
from bus.loop import process_loop
from bus.pulse import start_pulse
from config.errors import CallboardError
from config.settings import settings

bind = f"{settings().host}:{settings().port}"
workers = int(os.environ.get("WEB_CONCURRENCY", "1"))
worker_class = "web.server.worker.ThreadWorker"
threads = 20
"""Requests are short, and no thread waits for a client: a stream's socket leaves its thread for the process's loop."""
worker_connections = 512
"""Connections that are no streams; web/hub.py keeps descriptors for them."""
keepalive = 5
forwarded_allow_ips = os.environ.get("FORWARDED_ALLOW_IPS", "")
"""Addresses of proxies whose SCRIPT_NAME, PATH_INFO and X-Forwarded-Proto count; without one, no client's do."""
timeout = 30
"""Seconds a stopped process is left alone where no supervisor listens (bus/pulse.py)."""
graceful_timeout = 3
"""Seconds for requests under way at the end; streams are resumed elsewhere by their cursor."""
backlog = 2048
proc_name = "callboard-web"
accesslog = None
control_socket_disable = True
"""gunicorn 27 would put one into the user's home."""
worker_tmp_dir = "/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir()
"""Heartbeat files on a disk can block the arbiter."""


def post_worker_init(worker: Any) -> None:
    """Open everything before the first request asks for it, which would be slower by most of a second.

    Pulses come from the processes that answer requests: while the arbiter is stuck they do, so it is left alone.
    """
    return_large_blocks()
    start_pulse(process_loop(), settings().lease_s)
    threading.Thread(target=_open_early, args=(worker.wsgi,), name="open-early", daemon=True).start()


def _open_early(app: Any) -> None:
    try:
        app.extensions["callboard"].require_ready()
    except CallboardError as wrong:
        app.logger.warning("not ready yet; requests are answered with this until it is mended: %s", wrong)
    settle_heap()
