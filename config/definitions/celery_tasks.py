"""The Celery applications whose tasks agents may call: one YAML file each, in ``config/celery_tasks``.

A file names the application's broker and result backend, and its tasks. What it leaves out of a task comes from the
JSON file that the application published (``callboard_client.celery_tasks``).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Self, TypeVar
from urllib.parse import urlsplit

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable
from config.definitions.plugins import restart_this
from config.definitions.schemas.json_schema import JsonSchema
from config.definitions.yaml_lines import LinedYaml, Mistakes, read_yaml
from config.effects import LABEL, Classification, Effect
from config.identity.principal import Role
from config.redaction import register_secrets, secrets_in_url

PREFIX = "celery:"
"""How a definition writes that a tool is a task of a Celery application."""
M = TypeVar("M", bound=BaseModel)

PUBLISHED_MAX_BYTES = 4 * 1024 * 1024
"""Largest accepted file of an application's published tasks."""

_Seconds = Annotated[float, Field(strict=True, gt=0, le=7 * 86_400)]
_Line = Annotated[str, Field(min_length=1, max_length=255)]
_Flag = Annotated[bool, Field(strict=True)]
_Variable = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,127}$")]


class CelerySection(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class CeleryTask(CelerySection):
    """A task as agents call it; each field is the published one where the file leaves it out."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]{0,63}$")] | None = None
    """What the model calls it; the last part of the task's name by default."""
    description: Annotated[str, Field(min_length=1, max_length=4000)] | None = None
    """What it does, for the model."""
    input_schema: JsonSchema | None = Field(default=None, alias="schema")
    """JSON Schema 2020-12 of its keyword arguments."""
    output_schema: JsonSchema | None = None
    """JSON Schema 2020-12 that its result has to fit."""
    queue: _Line | None = None
    """The queue that the application's workers consume; Celery's default, ``celery``, where none is said."""
    exchange: _Line | None = None
    """The exchange, where the task is not sent to the queue by its name."""
    routing_key: _Line | None = None
    """With ``exchange``; the queue's name by default."""
    priority: Annotated[int, Field(strict=True, ge=0, le=255)] | None = None
    """The message's priority."""
    effect: Effect | None = None
    """The effect class; ``checkable`` by default, ``unsafe`` where the call does not wait for the result."""
    timeout_s: _Seconds | None = None
    """Seconds until the task has to have ended, waiting in its queue included; the agent's ``tool_s`` by default."""
    confirm: _Flag = False
    """Whether a person has to approve each call."""
    roles: frozenset[Role] = frozenset()
    """The roles of which a run's principal needs one; none: all principals may call it."""
    classification: Classification = Classification.INTERNAL
    """Of its data; a person has to approve each call of a ``RESTRICTED`` one."""
    labels: frozenset[Annotated[str, Field(pattern=rf"^{LABEL}$")]] = frozenset()
    """What its result is, for policies: ``untrusted`` where it does not say ``trusted``."""
    waits: _Flag = True
    """Whether the call lasts until the task has ended; ``false``: until the broker has its message."""

    @field_validator("input_schema")
    @classmethod
    def _is_of_an_object(cls, value: dict[str, Any] | None) -> dict[str, Any] | None:
        if value is not None and value.get("type") != "object":
            raise ValueError("the schema needs `type: object` at its top: a task is called with keyword arguments")
        return value

    @model_validator(mode="after")
    def _can_be_checked(self) -> Self:
        if not self.waits and self.effect is Effect.CHECKABLE:
            raise ValueError("a call that does not wait for its task has no result to check; write another `effect`")
        if self.routing_key is not None and self.exchange is None:
            raise ValueError("`routing_key` needs an `exchange`; a queue is named as `queue`")
        return self

    def over(self, published: CeleryTask) -> CeleryTask:
        """Return this task with the published value of each field that it leaves out."""
        left_out = {name: getattr(published, name) for name in type(self).model_fields.keys() - self.model_fields_set}
        return self.model_copy(update=left_out)


class ApplicationFields(CelerySection):
    """The fields of an application's file."""

    broker: _Line | None = None
    """The broker's URL, without a password; Callboard's own broker by default."""
    broker_env: _Variable | None = None
    """Name of the environment variable that holds the broker's URL."""
    result_backend: _Line | None = None
    """The result backend's URL, without a password: ``redis://…`` or ``db+postgresql://…``; the broker's where that is
    a Redis."""
    result_backend_env: _Variable | None = None
    """Name of the environment variable that holds the result backend's URL."""
    broker_key_prefix: Annotated[str, Field(max_length=200)] = ""
    """The application's ``broker_transport_options["global_keyprefix"]``, on Redis."""
    result_key_prefix: Annotated[str, Field(max_length=200)] = ""
    """The application's ``result_backend_transport_options["global_keyprefix"]``, on Redis."""
    result_table: Annotated[str, Field(max_length=127, pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)?$")] = "celery_taskmeta"
    """The application's table of results, in a database: ``database_table_names["task"]``."""
    tracks_starts: _Flag | None = None
    """Whether the application sets ``task_track_started`` for all of its tasks."""
    result_expires_s: Annotated[float, Field(ge=0)] = 86_400.0
    """Seconds that the application's ``result_expires`` keeps a result; 0: for ever. By default Celery's own."""
    terminate: _Flag = False
    """Whether a revoked task that has begun is terminated."""
    published: _Line | None = None
    """The published tasks: a JSON file beside this one."""
    tasks: dict[_Line, CeleryTask] = Field(default_factory=dict)
    """By the task's name in Celery."""

    @field_validator("broker", "result_backend")
    @classmethod
    def _has_no_password(cls, value: str | None) -> str | None:
        parts = urlsplit(value or "")
        if value is not None and not parts.scheme:
            raise ValueError("has to be a URL, such as redis://localhost:6379/0")
        if parts.password and (parts.username, parts.password) != ("guest", "guest"):
            raise ValueError("may not hold a password; name the variable that holds the URL, with `_env` at the end")
        return value

    @model_validator(mode="after")
    def _named_once(self) -> Self:
        for name in ("broker", "result_backend"):
            if getattr(self, name) is not None and getattr(self, f"{name}_env") is not None:
                raise ValueError(f"`{name}` and `{name}_env` exclude each other; keep one")
        return self


class PublishedResults(BaseModel):
    """Where an application keeps its results, as it publishes that."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    kind: Annotated[str, Field(max_length=80)] = ""
    """``redis``, ``database``, or another backend of Celery's."""
    db: int | None = None
    """The number of the Redis database."""
    key_prefix: Annotated[str, Field(max_length=200)] | None = None
    table: Annotated[str, Field(max_length=130)] | None = None
    expires_s: Annotated[float, Field(ge=0)] | None = None
    """Seconds that it keeps a result; 0: for ever."""


class Published(BaseModel):
    """What an application publishes; members that this release does not know are ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", defer_build=True)

    callboard_tasks: Annotated[int, Field(ge=1, le=1)]
    """The version of the format."""
    tracks_starts: bool = False
    results: PublishedResults = Field(default_factory=PublishedResults)
    tasks: dict[_Line, dict[str, Any]]


class CeleryApplication(ApplicationFields):
    """An application's file, with what it published."""

    id: str
    """The file's name without its extension."""
    file: str
    published_results: PublishedResults = Field(default_factory=PublishedResults)
    """Where the application says that its results are."""

    def url(self, name: str) -> str | None:
        """Return the URL that the field ``name`` or its variable has; None where neither is there.

        Raises:
            DefinitionInvalid: the variable is not set.
        """
        variable = getattr(self, f"{name}_env")
        if variable is None:
            text: str | None = getattr(self, name)
            return text
        value = os.environ.get(variable, "").strip()
        if not value:
            problem = f"the variable {variable} is not set.{restart_this()}"
            raise DefinitionInvalid(self.file, None, f"{name}_env", problem)
        register_secrets(secrets_in_url(value))
        return value


def load_application(path: Path) -> CeleryApplication:
    """Return the application that ``path`` describes.

    Raises:
        DefinitionInvalid: the message names the file, the line, the field and what to write instead.
    """
    written = read_yaml(path, "`published: ...` or `tasks: ...`")
    fields = _validated(ApplicationFields, written.data, str(path), written)
    published = _read_published(path.parent / fields.published, str(path), written) if fields.published else None
    values = {name: getattr(fields, name) for name in fields.model_fields_set}
    if published is not None:
        offered = _offered(published, str(path.parent / str(fields.published)))
        own = {name: task.over(offered[name]) if name in offered else task for name, task in fields.tasks.items()}
        values["tasks"] = offered | own
        facts = {"tracks_starts": published.tracks_starts, "published_results": published.results}
        facts |= {"result_key_prefix": published.results.key_prefix, "result_table": published.results.table}
        facts |= {"result_expires_s": published.results.expires_s}
        values = {name: value for name, value in facts.items() if value is not None} | values
    return CeleryApplication.model_construct(**{**ApplicationFields().__dict__, **values}, id=path.stem, file=str(path))


def _read_published(path: Path, file: str, written: LinedYaml) -> Published:
    line = written.line_of(("published",))
    try:
        if path.stat().st_size > PUBLISHED_MAX_BYTES:
            raise DefinitionInvalid(file, line, "published", f"{path} is larger than {PUBLISHED_MAX_BYTES:,} bytes.")
        data = orjson.loads(path.read_bytes())
    except (FileNotFoundError, IsADirectoryError) as error:
        problem = f"{path} cannot be read: {error.strerror}; let the application publish its tasks there."
        raise DefinitionInvalid(file, line, "published", problem) from error
    except OSError as error:
        raise DefinitionUnreadable.of(path, error) from error
    except orjson.JSONDecodeError as error:
        problem = f"{path} is not JSON; let the application publish its tasks there again."
        raise DefinitionInvalid(file, line, "published", problem) from error
    if not isinstance(data, dict):
        raise DefinitionInvalid(file, line, "published", f"{path} was not written by `publish_tasks`.")
    return _validated(Published, data, str(path), None)


def _offered(published: Published, file: str) -> dict[str, CeleryTask]:
    """Return the published tasks; members of a task that this release does not know are ignored."""
    members = {field.alias or name for name, field in CeleryTask.model_fields.items()}
    tasks = {}
    for name, task in published.tasks.items():
        fields = {key: value for key, value in task.items() if key in members and value is not None}
        tasks[name] = _validated(CeleryTask, fields, file, None, ("tasks", name))
    return tasks


def _validated(
    model: type[M],
    data: Mapping[str, Any],
    file: str,
    written: LinedYaml | None,
    above: tuple[str | int, ...] = (),
) -> M:
    try:
        return model.model_validate(data)
    except ValidationError as error:
        mistake = _MISTAKES.first(error)
        raise replace(mistake, place=(*above, *mistake.place)).refusal(file, written) from error
    except RecursionError as error:
        raise DefinitionInvalid(file, None, None, "is nested too deeply.") from error


_MISTAKES = Mistakes(section_of=lambda path: CeleryTask if len(path) > 1 else ApplicationFields)
