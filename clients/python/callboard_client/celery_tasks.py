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
import re
import sys
import types
from collections.abc import Collection, Iterable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from enum import Enum
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints, is_typeddict
from uuid import UUID

FORMAT = 1
"""The version of the file's format."""

_PLAIN: Mapping[Any, Mapping[str, Any]] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    type(None): {"type": "null"},
    datetime: {"type": "string", "format": "date-time"},
    date: {"type": "string", "format": "date"},
    time: {"type": "string", "format": "time"},
    UUID: {"type": "string", "format": "uuid"},
    Decimal: {"type": "string"},
}
_SECTION = re.compile(r"^(Args|Arguments|Parameters|Returns|Raises|Yields|Examples?|Notes?):\s*$")
_ARGUMENT = re.compile(r"^(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)$")


class TaskUndescribed(ValueError):
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
    if kind == "RedisBackend":
        prefix = (app.conf.result_backend_transport_options or {}).get("global_keyprefix", "")
        return {"kind": "redis", "db": int(app.backend.connparams.get("db") or 0), "key_prefix": prefix}
    if kind == "DatabaseBackend":
        table = (app.conf.database_table_names or {}).get("task", "celery_taskmeta")
        schema = (app.conf.database_table_schemas or {}).get("task")
        return {"kind": "database", "table": f"{schema}.{table}" if schema else table}
    return {"kind": kind}


def _described(app: Any, task: Any, has_results: bool) -> dict[str, Any]:
    text, arguments = _read_docstring(inspect.getdoc(task.run) or "")
    facts: dict[str, Any] = {"description": text or task.name, "schema": _schema(task, arguments)}
    facts |= _routing(app, task)
    if task.ignore_result or not has_results:
        facts["waits"] = False
    return facts | dict(getattr(task, "callboard", None) or {})


def _routing(app: Any, task: Any) -> dict[str, Any]:
    """Return the queue to which the application itself would send the task, by its routes."""
    own = {name: getattr(task, name, None) for name in ("queue", "exchange", "routing_key", "priority")}
    route = app.amqp.router.route({k: v for k, v in own.items() if v is not None}, task.name, (), {}, task)
    queue, exchange = route.get("queue"), route.get("exchange")
    found = {"priority": route["priority"]} if route.get("priority") is not None else {}
    if queue is not None:
        return found | {"queue": getattr(queue, "name", queue)}
    return found | {"exchange": getattr(exchange, "name", exchange), "routing_key": route.get("routing_key")}


def _schema(task: Any, described: Mapping[str, str]) -> dict[str, Any]:
    """Return the JSON Schema of a task's keyword arguments."""
    try:
        hints = get_type_hints(task.run, include_extras=True)
        parameters = inspect.signature(task.run).parameters.values()
    except Exception as error:
        raise TaskUndescribed(f"{task.name}: its signature cannot be read ({error})") from error
    properties: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    required, is_open = [], False
    for parameter in parameters:
        if parameter.kind is parameter.POSITIONAL_ONLY:
            raise TaskUndescribed(f"{task.name}: takes {parameter.name} by position only; remove the '/'")
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            is_open |= parameter.kind is parameter.VAR_KEYWORD
            continue
        one = _of(hints.get(parameter.name, Any), f"{task.name}: {parameter.name}", definitions)
        if parameter.name in described:
            one["description"] = described[parameter.name]
        if parameter.default is parameter.empty:
            required.append(parameter.name)
        elif isinstance(parameter.default, str | int | float | bool | None):
            one["default"] = parameter.default
        properties[parameter.name] = one
    schema = {"type": "object", "properties": properties, "required": required, "additionalProperties": is_open}
    return schema | ({"$defs": definitions} if definitions else {})


def _of(hint: Any, where: str, definitions: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON Schema of a type; named parts of it go to ``definitions``."""
    origin, inside = get_origin(hint), get_args(hint)
    if hint in (Any, inspect.Parameter.empty, object):
        return {}
    if isinstance(hint, type) and hint in _PLAIN:
        return dict(_PLAIN[hint])
    if origin is Annotated:
        notes = [note for note in inside[1:] if isinstance(note, str)]
        return _of(inside[0], where, definitions) | ({"description": notes[0]} if notes else {})
    if origin is Literal:
        return {"enum": list(inside)}
    if origin in (Union, types.UnionType):
        return {"anyOf": [_of(one, where, definitions) for one in inside]}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return {"enum": [member.value for member in hint]}
    if hasattr(hint, "model_json_schema"):  # a pydantic model, of a task with ``pydantic=True``
        found: dict[str, Any] = hint.model_json_schema()
        definitions |= found.pop("$defs", {})
        return found
    if is_typeddict(hint):
        fields = {name: _of(one, where, definitions) for name, one in get_type_hints(hint).items()}
        return {"type": "object", "properties": fields, "required": sorted(hint.__required_keys__)}
    return _of_collection(origin or hint, inside, where, definitions)


def _of_collection(kind: Any, inside: tuple[Any, ...], where: str, definitions: dict[str, Any]) -> dict[str, Any]:
    if isinstance(kind, type) and issubclass(kind, Mapping):
        return {"type": "object"} | ({"additionalProperties": _of(inside[1], where, definitions)} if inside else {})
    if isinstance(kind, type) and issubclass(kind, Iterable) and kind is not bytes:
        items = [one for one in inside if one is not Ellipsis]
        return {"type": "array"} | ({"items": _of(items[0], where, definitions)} if len(items) == 1 else {})
    raise TaskUndescribed(f"{where} has a type without a JSON Schema; use str, int, float, bool, list or dict")


def _read_docstring(text: str) -> tuple[str, dict[str, str]]:
    """Return what stands before the first section, and the arguments' descriptions of a section ``Args:``."""
    before: list[str] = []
    arguments: dict[str, str] = {}
    section, name = "", ""
    for line in text.splitlines():
        heading = _SECTION.match(line)
        if heading is not None:
            section = heading[1]
        elif not section:
            before.append(line)
        elif section in ("Args", "Arguments", "Parameters") and line.strip():
            found = _ARGUMENT.match(line.strip())
            if found is not None:
                name, arguments[found[1]] = found[1], found[2]
            elif name:
                arguments[name] += f" {line.strip()}"
    return "\n".join(before).strip(), arguments


def main(arguments: list[str] | None = None) -> int:
    """``python -m callboard_client.celery_tasks PACKAGE.MODULE:APP FILE [TASK ...]``."""
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) < 2 or ":" not in given[0]:
        print("usage: python -m callboard_client.celery_tasks PACKAGE.MODULE:APP FILE [TASK ...]", file=sys.stderr)
        return 2
    sys.path.insert(0, os.getcwd())
    module, _, name = given[0].partition(":")
    try:
        count = publish_tasks(getattr(import_module(module), name), given[1], only=given[2:] or None)
    except (TaskUndescribed, ImportError, AttributeError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    print(f"{count} {'task is' if count == 1 else 'tasks are'} published in {given[1]}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
