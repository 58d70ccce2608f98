"""The web server as threads of a process that is not gunicorn's, for `up` with a single process."""

from __future__ import annotations

import logging
import os
import selectors
import socket
import threading
from typing import Any

from gunicorn.config import Config

from web.server.worker import ThreadWorker

STOP_S = 5.0
SHARED = (
    *("threads", "worker_connections", "keepalive", "graceful_timeout", "worker_tmp_dir"),
    *("forwarded_allow_ips", "forwarder_headers", "secure_scheme_headers"),
)
"""The settings of web/gunicorn_conf.py that apply."""


class InProcessServer:
    """Serves an application on a listening socket, which the caller closes."""

    def __init__(self, listener: socket.socket, app: Any) -> None:
        from web import gunicorn_conf  # it reads the settings

        config = Config()
        for name in SHARED:
            config.set(name, getattr(gunicorn_conf, name))
        self._worker = _Worker(0, os.getppid(), [listener.dup()], None, 0, config, _Log())
        self._worker.wsgi = app
        self._worker.tpool = self._worker.get_thread_pool()
        self._worker.poller = selectors.DefaultSelector()
        self._worker.method_queue.init()
        self._thread = threading.Thread(target=self._worker.run, name="web", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Accept no more requests, and wait up to ``STOP_S`` for those in progress."""
        self._worker.handle_exit(None, None)
        self._thread.join(STOP_S)
        self._worker.tmp.close()


class _Worker(ThreadWorker):
    """The worker without an arbiter."""

    def is_parent_alive(self) -> bool:
        """Return True: the parent is no arbiter but a shell or program that may end first."""
        return True


class _Log(logging.LoggerAdapter[logging.Logger]):
    """gunicorn's log, passed to this process's log without access lines."""

    def __init__(self) -> None:
        super().__init__(logging.getLogger("gunicorn.error"))

    def access(self, *_: Any) -> None:
        """Requests are not logged, as in the web processes."""
