"""The Celery application: `celery -A bus.celery_app worker` starts a worker of the fleet.

Importing it connects to nothing; the configuration is read when Celery first needs it.
"""

from __future__ import annotations

import sys
from typing import Any

from celery import Celery

from bus.messages import RunAgentMessage
from config.errors import PoolRefused

app = Celery("callboard", set_as_current=False)


def _configuration() -> dict[str, Any]:
    from bus.celery_config import celery_config
    from config.settings import settings

    return celery_config(settings())


app.add_defaults(_configuration)  # called when Celery first looks, not now


def publish(message: RunAgentMessage) -> None:
    """Put a wake-up on the queue; raises what kombu raises when the broker is away."""
    app.send_task(RunAgentMessage.name, args=(message.to_wire(),), ignore_result=True)


def refuse_greenlets() -> None:
    """Return unless this process was patched for gevent or eventlet.

    Raises:
        PoolRefused: it was; the agents' loop cannot run on patched threads.
    """
    gevent = sys.modules.get("gevent.monkey")
    eventlet = sys.modules.get("eventlet.patcher")
    patched = gevent is not None and gevent.is_module_patched("threading")
    patched = patched or (eventlet is not None and eventlet.is_monkey_patched("thread"))
    if patched:
        raise PoolRefused(
            "Callboard does not run on the gevent and eventlet pools: agents share one event loop in a real thread. "
            "Start the worker with `--pool threads` (the default), prefork or solo."
        )
