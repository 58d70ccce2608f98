"""Rules for Celery's effective configuration, checked by the doctor and by a worker at its start.

``CELERY_CONFIG_MODULE`` cannot override our values. Code that sets ``app.conf``, arguments of ``celery worker``
(``worker.enable_remote_control=1``) and the environment can: Celery reads ``CELERY_BROKER_URL`` before any setting, its
command reads ``BROKER_URL``, and each of its options has a variable (``CELERY_WORKER_PURGE``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Literal

from bus.broker.celery_config import celery_config
from config.redis.url import broker_form, without_password
from config.settings import Settings

PICKLE = ("pickle", "application/x-python-serialize")
JSON = ("json", "application/json")
_UNSET = ("", "0", "false", "no", "off", "n", "f")


Verdict = Literal["warn", "fail"]
"""``fail`` if work is lost or the broker can be abused; ``warn`` if runs get slower or harder to follow."""
Broken = Iterator[tuple[Verdict, str]]
"""Violated rules: each one's verdict, and its problem with the remedy."""

_VALUES: dict[str, tuple[Verdict, str]] = {
    "task_acks_late": ("fail", "with late acknowledgement a busy worker ends itself when its Redis restarts"),
    "worker_enable_remote_control": ("fail", "every client of the broker can stop the workers"),
    "task_serializer": ("fail", "workers accept JSON alone and would refuse every message"),
    "worker_send_task_events": ("warn", "no process reads these events"),
    "task_create_missing_queues": ("warn", "a misspelt name creates a queue without a consumer"),
    "worker_prefetch_multiplier": ("warn", "messages wait in a worker that is full while others are free"),
    "worker_disable_prefetch": ("warn", "messages wait in a worker that is full while others are free"),
    "task_publish_retry": ("warn", "the relay hangs while the broker is away; the outbox is what tries again"),
    "task_ignore_result": ("warn", "outcomes are in the journal, and no process reads these"),
    "worker_consumer": ("fail", "with Celery's own consumer one malformed message ends every worker in turn"),
    "broker_connection_retry_on_startup": ("warn", "a worker that starts before its broker ends"),
    "broker_connection_max_retries": ("warn", "a worker ends when its broker is away for long"),
}
"""Settings with one correct value, ours: the verdict of another value, and its consequence."""


def broken_rules(conf: Any, settings: Settings, environment: Mapping[str, str]) -> Broken:
    """Yield the rules that ``conf``, the effective configuration of an application, or the environment violates."""
    config = celery_config(settings)
    yield from _broker(conf, config["broker_url"], environment)
    yield from _content(conf)
    for name, (verdict, why) in _VALUES.items():
        if name in config and conf[name] != config[name]:
            yield (
                verdict,
                f"{name} is {conf[name]!r} and has to be {config[name]!r}, since {why}. Remove what sets it: code that "
                "changes app.conf, or an argument of the worker's command line.",
            )
    yield from _pool(str(conf["worker_pool"]), "worker_pool")
    yield from _queues(conf, config)
    yield from _transport(conf, config["broker_transport_options"], settings)
    yield from _limits(conf, config)
    yield from _options({queue.alias for queue in config["task_queues"]}, environment)


def _broker(conf: Any, publish_url: str, environment: Mapping[str, str]) -> Broken:
    """Yield a failure if workers use another broker than the relay, which ignores Celery's variables."""
    value = environment.get("CELERY_BROKER_READ_URL") or environment.get("CELERY_BROKER_URL")
    worker_url = environment.get("BROKER_URL") or value or str(conf["broker_read_url"] or conf["broker_url"])
    if broker_form(worker_url) != publish_url:
        names = ("BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_URL")
        variable = next((name for name in names if environment.get(name)), None)
        yield (
            "fail",
            f"{variable or 'code that changes app.conf'} sends workers to {without_password(worker_url)}, but messages "
            f"are published to {without_password(publish_url)}, so no worker gets them. "
            f"{f'Unset {variable}' if variable else 'Remove it'}, and set the broker's URL as CALLBOARD_BROKER_URL.",
        )


def _content(conf: Any) -> Broken:
    accepted = [str(kind) for kind in conf["accept_content"] or JSON]
    pickle = [kind for kind in accepted if kind in PICKLE]
    others = [kind for kind in accepted if kind not in (*PICKLE, *JSON)]
    remedy = "Set accept_content back to ['json']."
    if pickle:
        yield (
            "fail",
            f"accept_content has {pickle[0]}: every client of the broker can run code in the workers. {remedy}",
        )
    if not any(kind in JSON for kind in accepted):
        yield "fail", f"accept_content has no json, so workers refuse every message. {remedy}"
    if others:
        yield "warn", f"accept_content has {', '.join(others)}, which only forged messages use. {remedy}"


def _pool(pool: str, source: str) -> Broken:
    if not any(
        pool_name in pool for pool_name in ("thread", "prefork", "processes", "solo")
    ):  # also as a path of a class
        yield (
            "fail",
            f"{source} is '{pool}', under which the agents' loop cannot run; use threads, prefork or solo.",
        )


def _queues(conf: Any, config: Mapping[str, Any]) -> Broken:
    queue, served = config["task_default_queue"], {each.name for each in config["task_queues"]}
    names = {str(getattr(each, "name", each)) for each in conf["task_queues"] or ()}
    if missing := sorted(served - names):
        listing = ", ".join(sorted(names)) or "none"
        yield (
            "fail",
            f"task_queues has {listing} and not '{missing[0]}', where messages are published; leave task_queues "
            "alone, name the default queue as CALLBOARD_QUEUE and those a worker serves as CALLBOARD_QUEUES.",
        )
    if conf["task_default_queue"] != queue or conf["task_routes"]:
        setting = "task_routes" if conf["task_routes"] else "task_default_queue"
        yield (
            "fail",
            f"{setting} sends messages to another queue than '{queue}', which the workers consume; take it out "
            "and name the queue as CALLBOARD_QUEUE.",
        )
    absent = set(config["include"]) - set(conf["include"] or ())
    if absent:
        yield (
            "fail",
            f"include lacks {', '.join(sorted(absent))}, so workers do not know what to do with a message and "
            "drop it; add to the list instead of replacing it.",
        )


def _transport(conf: Any, config: Mapping[str, Any], settings: Settings) -> Broken:
    options = conf["broker_transport_options"] or {}
    if "global_keyprefix" not in config:
        return
    if options.get("global_keyprefix") != config["global_keyprefix"]:
        yield (
            "fail",
            f"broker_transport_options have global_keyprefix {options.get('global_keyprefix')!r}, but messages are "
            f"published under '{config['global_keyprefix']}', so no worker gets them. Change single options instead of "
            "replacing all.",
        )
    visible_s = options.get("visibility_timeout", 3600)
    if visible_s < settings.lease_s:
        yield (
            "warn",
            f"visibility_timeout is {visible_s:g} s and a lease {settings.lease_s:g} s: messages come back while "
            "their runs are still owned, also those of other applications on this Redis, where the shortest value of "
            f"all counts. Leave it at {config['visibility_timeout']}, or shorten CALLBOARD_LEASE_S.",
        )
    if not options.get("socket_timeout"):
        yield "warn", "socket_timeout is not set, so a frozen Redis blocks a publisher for ever; leave it at 5 s."


def _limits(conf: Any, config: Mapping[str, Any]) -> Broken:
    for name in ("task_time_limit", "task_soft_time_limit"):
        if conf[name]:
            yield (
                "warn",
                f"{name} is {conf[name]:g} s: on prefork it ends runs that take longer, and the third time such "
                "a run is dead. Take it out; an agent's `timeouts:` limit its model and tool calls.",
            )
    if conf.result_backend and not config["result_backend"]:
        yield (
            "warn",
            f"result_backend is {without_password(str(conf.result_backend))}; outcomes are in the journal, and "
            "no process reads these. Unset it (or CELERY_RESULT_BACKEND).",
        )


def _options(queues: set[str], environment: Mapping[str, str]) -> Broken:
    """Yield the violations by variables, from which Celery's command reads each option of a worker."""

    def value(option: str) -> str:
        return environment.get(f"CELERY_WORKER_{option}", "").strip()

    def is_on(option: str) -> bool:
        return value(option).lower() not in _UNSET

    if is_on("PURGE"):
        yield "fail", "CELERY_WORKER_PURGE deletes the waiting messages each time a worker starts; unset it."
    if value("POOL"):
        yield from _pool(value("POOL"), "CELERY_WORKER_POOL")
    consumed = {part.strip() for part in value("QUEUES").split(",") if part.strip()}
    excluded = queues & {part.strip() for part in value("EXCLUDE_QUEUES").split(",")}
    if left := excluded or (queues - consumed if consumed else ()):
        name = "CELERY_WORKER_EXCLUDE_QUEUES" if excluded else "CELERY_WORKER_QUEUES"
        yield (
            "fail",
            f"{name} keeps workers away from '{min(left)}', where messages are published; unset it, and name the "
            "queues that a worker serves as CALLBOARD_QUEUES.",
        )
    if is_on("TASK_EVENTS"):
        yield "warn", "CELERY_WORKER_TASK_EVENTS sends events that no process reads; unset it."
    if value("PREFETCH_MULTIPLIER") not in ("", "1"):
        yield "warn", "CELERY_WORKER_PREFETCH_MULTIPLIER lets messages wait in workers that are full; unset it."
