"""Celery's configuration, read from our settings when Celery first asks; why each line: docs/operations.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kombu import Exchange, Queue

from bus.keys import Keys
from bus.messages.registry import messages
from bus.queues import served_queues
from config.redis.url import broker_form
from config.settings import Settings

MEMORY_BROKER = "memory://"
"""The broker of the one-process mode."""
_SAME_EVERYWHERE: Mapping[str, Any] = {
    "broker_connection_retry_on_startup": True,
    "broker_connection_max_retries": None,
    # A Redis that answers with an error (read-only after a failover, a full disk) may be mended; the worker lives.
    "broker_channel_error_retry": True,
    # It concerns late-acknowledged tasks, so none of ours; off, Celery warns at each loss that this will change.
    "worker_cancel_long_running_tasks_on_connection_loss": True,
    "broker_pool_limit": 4,
    "task_create_missing_queues": False,
    # The run is in SQL, so a message is acknowledged as soon as it is received.
    "task_acks_late": False,
    "task_ignore_result": True,
    "task_store_errors_even_if_ignored": False,
    "task_publish_retry": False,
    "task_serializer": "json",
    "accept_content": ["json"],
    "result_backend": None,
    # Waiting hints stay in Redis, not in a worker that may die or be full.
    "worker_prefetch_multiplier": 1,
    # A forged control message could stop a worker.
    "worker_enable_remote_control": False,
    "worker_send_task_events": False,
    # Celery's own consumer ends the worker at a malformed item, which is requeued and ends the next worker.
    "worker_consumer": "bus.broker.consumer:FilteringConsumer",
    "worker_pool": "threads",
    "worker_hijack_root_logger": False,
    "worker_proc_alive_timeout": 60.0,
    "enable_utc": True,
    "timezone": "UTC",
}
"""Celery settings that are the same in every deployment."""


def celery_config(settings: Settings) -> dict[str, Any]:
    """Return the Celery configuration that plain `celery worker` and the supervisor's workers use."""
    url = broker_url(settings)
    default = queue_of(settings, settings.queue)
    return {
        **_SAME_EVERYWHERE,
        "broker_url": url,
        "broker_transport_options": transport_options(settings, url),
        "include": [*(kind.handler for kind in messages().values()), "handlers.worker.process"],
        "task_queues": [queue_of(settings, name) for name in served_queues(settings).names],
        "task_default_queue": default.name,
        "task_default_exchange": default.name,
        "task_default_routing_key": default.name,
        "worker_disable_prefetch": _is_redis(url),
        "worker_concurrency": settings.slots,
    }


def broker_url(settings: Settings) -> str:
    """Return the broker's URL as Celery wants it."""
    return broker_form(settings.broker) if settings.broker else MEMORY_BROKER


def queue_of(settings: Settings, queue: str) -> Queue:
    """Return a queue of the deployment as the broker knows it; deployments that share a broker have different ones.

    The broker's own list shows it as ``callboard:<deployment>:<queue>``. On Redis the connection adds the prefix
    (``global_keyprefix``); other brokers have no such option, so the prefix is part of the name there, and the plain
    name is an alias, for ``celery worker -Q``.
    """
    name = f"{name_prefix(settings)}{queue}"
    return Queue(name, Exchange(name, type="direct"), routing_key=name, alias=queue)


def name_prefix(settings: Settings) -> str:
    """Return what the broker's name of a queue has before the queue's own."""
    return "" if _is_redis(broker_url(settings)) else Keys(settings.deployment).prefix


def _is_redis(url: str) -> bool:
    return url.startswith(("redis", "rediss"))


def transport_options(settings: Settings, url: str) -> dict[str, Any]:
    """Return the options of the broker's transport."""
    if url.startswith(MEMORY_BROKER):
        return {"polling_interval": 0.01}
    if not _is_redis(url):
        return {}
    return {
        # A message is a hint: the copies kombu keeps of those not yet acknowledged protect nothing that SQL does
        # not, and cost two round trips on the way to the first token (docs/decisions/0002-message-is-a-wake-up.md).
        "ack_emulation": False,
        "visibility_timeout": 300,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
        "socket_timeout": 5,
        "socket_connect_timeout": 2,
        "socket_keepalive": True,
        "health_check_interval": 10,
        "global_keyprefix": Keys(settings.deployment).prefix,
    }
