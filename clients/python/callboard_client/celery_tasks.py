"""Publishes the tasks of a Celery application as a JSON file, so that Callboard's agents can call them.

    from callboard_client.celery_tasks import publish_tasks

    publish_tasks(app, "callboard/celery_tasks/shop.json")

or, without a line of code, ``python -m callboard_client.celery_tasks shop.celery_app:app FILE``. What the model reads
is taken from signatures and docstrings. ``@app.task(callboard={...})`` adds to one task what its file in Callboard
could say, such as ``{"effect": "idempotent", "timeout_s": 120}``.
"""

from __future__ import annotations

import inspect
import json
import os
import sys
from collections.abc import Collection
from importlib import import_module
from pathlib import Path
from typing import Any

from callboard_client.signature import Undescribed, arguments_schema, read_docstring

FORMAT = 1
"""The version of the file's format."""


class TaskUndescribed(Undescribed):
    """A task cannot be called with keyword arguments alone, or a type of it has no JSON Schema."""


def publish_tasks(app: Any, path: str | os.PathLike[str], *, only: Collection[str] | None = None) -> int:
    """Write the tasks of ``app`` to the file at ``path``, in place of what it held, and return their number.

    ``only``: the names of the tasks to publish; None publishes all but Celery's own.

    Raises:
        TaskUndescribed: the message names the task and what to change.
    """
    described = describe_tasks(app, only=only)
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = target.with_name(f".{target.name}.{os.getpid()}")
    beside.write_text(json.dumps(described, indent=2, ensure_ascii=False, default=str) + "\n", encoding="utf-8")
    beside.replace(target)
    return len(described["tasks"])


def describe_tasks(app: Any, *, only: Collection[str] | None = None) -> dict[str, Any]:
    """Return what ``publish_tasks`` writes: for each task its arguments, its queue and what its docstring says.

    Raises:
        TaskUndescribed: the message names the task and what to change.
    """
    app.loader.import_default_modules()
    named = [task for name, task in sorted(app.tasks.items()) if not name.startswith("celery.")]
    missing = sorted(set(only or ()) - {task.name for task in named})
    if missing:
        raise TaskUndescribed(f"the application has no task {', '.join(missing)}")
    chosen = [task for task in named if only is None or task.name in only]
    has_results = type(app.backend).__name__ != "DisabledBackend"
    return {
        "callboard_tasks": FORMAT,
        "application": app.main,
        "tracks_starts": all(bool(task.track_started) for task in chosen),
        "results": _results(app),
        "tasks": {task.name: _described(app, task, has_results) for task in chosen},
    }


def _results(app: Any) -> dict[str, Any]:
    """Return where results are kept, without hosts and passwords, so that Callboard notices a wrong result backend."""
    kind = type(app.backend).__name__
    expires = {"expires_s": _seconds(getattr(app.backend, "expires", None))}
    if kind == "RedisBackend":
        prefix = (app.conf.result_backend_transport_options or {}).get("global_keyprefix", "")
        return {"kind": "redis", "db": int(app.backend.connparams.get("db") or 0), "key_prefix": prefix} | expires
    if kind == "DatabaseBackend":
        table = (app.conf.database_table_names or {}).get("task", "celery_taskmeta")
        schema = (app.conf.database_table_schemas or {}).get("task")
        return {"kind": "database", "table": f"{schema}.{table}" if schema else table} | expires
    return {"kind": kind}


def _seconds(expires: Any) -> float:
    """Return Celery's ``result_expires`` in seconds; 0: results are kept for ever."""
    return float(expires.total_seconds() if hasattr(expires, "total_seconds") else expires or 0)


def _described(app: Any, task: Any, has_results: bool) -> dict[str, Any]:
    text, arguments = read_docstring(inspect.getdoc(task.run) or "")
    try:
        schema = arguments_schema(task.run, task.name, arguments)
    except Undescribed as error:
        raise TaskUndescribed(str(error)) from error
    facts: dict[str, Any] = {"description": text or task.name, "schema": schema}
    facts |= _routing(app, task)
    if task.ignore_result or not has_results:
        facts["waits"] = False
    return facts | dict(getattr(task, "callboard", None) or {})


def _routing(app: Any, task: Any) -> dict[str, Any]:
    """Return the queue to which the application itself would send the task, by its routes."""
    own = {name: getattr(task, name, None) for name in ("queue", "exchange", "routing_key", "priority")}
    route = app.amqp.router.route({k: v for k, v in own.items() if v is not None}, task.name, (), {}, task)
    queue, exchange = route.get("queue"), route.get("exchange")
    options = {"priority": route["priority"]} if route.get("priority") is not None else {}
    if queue is not None:
        return options | {"queue": getattr(queue, "name", queue)}
    return options | {"exchange": getattr(exchange, "name", exchange), "routing_key": route.get("routing_key")}


def main(arguments: list[str] | None = None) -> int:
    """``python -m callboard_client.celery_tasks PACKAGE.MODULE:APP FILE [TASK ...]``."""
    words = sys.argv[1:] if arguments is None else arguments
    if len(words) < 2 or ":" not in words[0]:
        print("usage: python -m callboard_client.celery_tasks PACKAGE.MODULE:APP FILE [TASK ...]", file=sys.stderr)
        return 2
    sys.path.insert(0, os.getcwd())
    module, _, name = words[0].partition(":")
    try:
        count = publish_tasks(getattr(import_module(module), name), words[1], only=words[2:] or None)
    except (TaskUndescribed, ImportError, AttributeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{count} {'task is' if count == 1 else 'tasks are'} published in {words[1]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
