"""What Celery's configuration may not become: for the doctor, and for a worker that says so when it starts.

Our values are defaults that ``CELERY_CONFIG_MODULE`` cannot override. What can: code that sets ``app.conf``, words
behind ``celery worker`` (``worker.enable_remote_control=1``), and the environment. Celery reads ``CELERY_BROKER_URL``
before any setting, its command reads ``BROKER_URL``, and each of its options has a variable (``CELERY_WORKER_PURGE``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from bus.celery_config import celery_config
from config.redis_url import broker_form, without_password
from config.settings import Settings

PICKLE = ("pickle", "application/x-python-serialize")
JSON = ("json", "application/json")
_UNSET = ("", "0", "false", "no", "off", "n", "f")


@dataclass(frozen=True, kw_only=True, slots=True)
class BrokenRule:
    """One thing that is not as it has to be."""

    verdict: Literal["warn", "fail"]
    """``fail`` where work is lost or the broker can be abused, ``warn`` where things get slower or stranger."""
    text: str
    """A sentence with the remedy."""


Broken = Iterator[BrokenRule]

_VALUES: dict[str, tuple[Literal["warn", "fail"], str]] = {
    "task_acks_late": ("fail", "with late acknowledgement a busy worker ends itself when its Redis restarts"),
    "worker_enable_remote_control": ("fail", "whoever can write to the broker can stop the workers"),
    "task_serializer": ("fail", "workers accept JSON alone and would refuse every wake-up"),
    "worker_send_task_events": ("warn", "it is traffic that nobody reads"),
    "task_create_missing_queues": ("warn", "a slip of the pen makes a queue that nobody consumes"),
    "worker_prefetch_multiplier": ("warn", "wake-ups wait in a worker that is full while others are free"),
    "worker_disable_prefetch": ("warn", "wake-ups wait in a worker that is full while others are free"),
    "task_publish_retry": ("warn", "the relay hangs while the broker is away; the outbox is what tries again"),
    "task_ignore_result": ("warn", "outcomes are in the journal, and nobody collects these"),
    "worker_consumer": ("fail", "with Celery's own one item of garbage in the queue ends every worker in turn"),
    "broker_connection_retry_on_startup": ("warn", "a worker that starts before its broker ends"),
    "broker_connection_max_retries": ("warn", "a worker ends when its broker is away for long"),
}
"""Settings with one right value, ours: how bad another is, and what it does."""


def broken_rules(conf: Any, settings: Settings, environment: Mapping[str, str]) -> Broken:
    """Yield what ``conf``, an application's configuration as Celery will use it, and the environment make wrong."""
    wanted = celery_config(settings)
    yield from _broker(conf, wanted["broker_url"], environment)
    yield from _content(conf)
    for name, (verdict, why) in _VALUES.items():
        if name in wanted and conf[name] != wanted[name]:
            yield _other(verdict, name, conf[name], wanted[name], why)
    yield from _pool(str(conf["worker_pool"]), "worker_pool")
    yield from _queues(conf, wanted["task_default_queue"])
    yield from _transport(conf, wanted["broker_transport_options"], settings)
    yield from _limits(conf, wanted)
    yield from _options(wanted["task_default_queue"], environment)


def _other(verdict: Literal["warn", "fail"], name: str, found: object, wanted: object, why: str) -> BrokenRule:
    return BrokenRule(
        verdict=verdict,
        text=f"{name} is {found!r} and has to be {wanted!r}, since {why}. Take out what sets it: code that changes "
        f"app.conf, or a word of the worker's command line.",
    )


def _broker(conf: Any, wanted: str, environment: Mapping[str, str]) -> Broken:
    """Workers and the relay have to mean the same broker; the relay takes ours, whatever Celery's variables say."""
    said = environment.get("CELERY_BROKER_READ_URL") or environment.get("CELERY_BROKER_URL")
    found = environment.get("BROKER_URL") or said or str(conf["broker_read_url"] or conf["broker_url"])
    if broker_form(found) != wanted:
        names = ("BROKER_URL", "CELERY_BROKER_READ_URL", "CELERY_BROKER_URL")
        variable = next((name for name in names if environment.get(name)), None)
        yield BrokenRule(
            verdict="fail",
            text=f"{variable or 'code that changes app.conf'} sends workers to {without_password(found)}, but wake-ups "
            f"are published to {without_password(wanted)}, where nobody would hear them. "
            f"{f'Unset {variable}' if variable else 'Take it out'}, and write the broker's address as "
            "CALLBOARD_BROKER_URL.",
        )


def _content(conf: Any) -> Broken:
    accepted = [str(kind) for kind in conf["accept_content"] or JSON]
    pickle = [kind for kind in accepted if kind in PICKLE]
    others = [kind for kind in accepted if kind not in (*PICKLE, *JSON)]
    remedy = "Set accept_content back to ['json']."
    if pickle:
        text = f"accept_content has {pickle[0]}: whoever can write to the broker runs code in the workers. {remedy}"
        yield BrokenRule(verdict="fail", text=text)
    if not any(kind in JSON for kind in accepted):
        text = f"accept_content has no json, so workers refuse every wake-up. {remedy}"
        yield BrokenRule(verdict="fail", text=text)
    if others:
        text = f"accept_content has {', '.join(others)}, which nobody of ours writes: only forgeries. {remedy}"
        yield BrokenRule(verdict="warn", text=text)


def _pool(pool: str, source: str) -> Broken:
    if not any(known in pool for known in ("thread", "prefork", "processes", "solo")):  # also as a path of a class
        yield BrokenRule(
            verdict="fail",
            text=f"{source} is '{pool}', under which the agents' loop cannot run; use threads, prefork or solo.",
        )


def _queues(conf: Any, queue: str) -> Broken:
    declared = conf["task_queues"] or ()
    names = {str(getattr(each, "name", each)) for each in declared}
    if queue not in names:
        listing = ", ".join(sorted(names)) or "none"
        yield BrokenRule(
            verdict="fail",
            text=f"task_queues has {listing} and not '{queue}', where wake-ups are published; leave task_queues alone "
            "and name the queue as CALLBOARD_QUEUE.",
        )
    if conf["task_default_queue"] != queue or conf["task_routes"]:
        setting = "task_routes" if conf["task_routes"] else "task_default_queue"
        yield BrokenRule(
            verdict="fail",
            text=f"{setting} sends wake-ups to another queue than '{queue}', which the workers consume; take it out "
            "and name the queue as CALLBOARD_QUEUE.",
        )
    missing = {"handlers.run_agent", "handlers.worker_process"} - set(conf["include"] or ())
    if missing:
        yield BrokenRule(
            verdict="fail",
            text=f"include lacks {', '.join(sorted(missing))}, so workers do not know what to do with a wake-up and "
            "drop it; add to the list instead of replacing it.",
        )


def _transport(conf: Any, wanted: Mapping[str, Any], settings: Settings) -> Broken:
    found = conf["broker_transport_options"] or {}
    if "global_keyprefix" not in wanted:
        return
    if found.get("global_keyprefix") != wanted["global_keyprefix"]:
        yield BrokenRule(
            verdict="fail",
            text=f"broker_transport_options have global_keyprefix {found.get('global_keyprefix')!r}, but wake-ups are "
            f"published under '{wanted['global_keyprefix']}', where nobody would hear them. Change single options, and "
            "not the whole of them.",
        )
    visible_s = found.get("visibility_timeout", 3600)
    if visible_s < settings.lease_s:
        yield BrokenRule(
            verdict="warn",
            text=f"visibility_timeout is {visible_s:g} s and a lease {settings.lease_s:g} s: messages come back while "
            "their runs are still owned, also those of other applications on this Redis, where the shortest value of "
            f"all counts. Leave it at {wanted['visibility_timeout']}, or shorten CALLBOARD_LEASE_S.",
        )
    if not found.get("socket_timeout"):
        text = "socket_timeout is not set, so a frozen Redis blocks a publisher for ever; leave it at 5 s."
        yield BrokenRule(verdict="warn", text=text)


def _limits(conf: Any, wanted: Mapping[str, Any]) -> Broken:
    for name in ("task_time_limit", "task_soft_time_limit"):
        if conf[name]:
            yield BrokenRule(
                verdict="warn",
                text=f"{name} is {conf[name]:g} s: on prefork it ends runs that take longer, and the third time such "
                "a run is dead. Take it out; an agent's `timeouts:` limit its model and tool calls.",
            )
    if conf.result_backend and not wanted["result_backend"]:
        yield BrokenRule(
            verdict="warn",
            text=f"result_backend is {without_password(str(conf.result_backend))}; outcomes are in the journal, and "
            "nobody reads these. Unset it (or CELERY_RESULT_BACKEND).",
        )


def _options(queue: str, environment: Mapping[str, str]) -> Broken:
    """Celery's command reads each option of a worker from the environment as well."""

    def said(option: str) -> str:
        return environment.get(f"CELERY_WORKER_{option}", "").strip()

    def is_on(option: str) -> bool:
        return said(option).lower() not in _UNSET

    if is_on("PURGE"):
        text = "CELERY_WORKER_PURGE throws the waiting wake-ups away each time a worker starts; unset it."
        yield BrokenRule(verdict="fail", text=text)
    if said("POOL"):
        yield from _pool(said("POOL"), "CELERY_WORKER_POOL")
    consumed = [part.strip() for part in said("QUEUES").split(",") if part.strip()]
    excluded = [part.strip() for part in said("EXCLUDE_QUEUES").split(",")]
    if (consumed and queue not in consumed) or queue in excluded:
        name = "CELERY_WORKER_EXCLUDE_QUEUES" if queue in excluded else "CELERY_WORKER_QUEUES"
        text = f"{name} keeps workers away from '{queue}', where wake-ups are published; unset it."
        yield BrokenRule(verdict="fail", text=text)
    if is_on("TASK_EVENTS"):
        text = "CELERY_WORKER_TASK_EVENTS makes traffic that nobody reads; unset it."
        yield BrokenRule(verdict="warn", text=text)
    if said("PREFETCH_MULTIPLIER") not in ("", "1"):
        text = "CELERY_WORKER_PREFETCH_MULTIPLIER lets wake-ups wait in workers that are full; unset it."
        yield BrokenRule(verdict="warn", text=text)
