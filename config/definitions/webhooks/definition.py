"""A webhook that others send us: the fields of its file in ``config/webhooks``, and what it makes of a delivery."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import StringConstraints, ValidationError, field_validator, model_validator

from config.definitions.agent import AGENT_ID
from config.definitions.errors import DefinitionInvalid
from config.definitions.runner_spec import Strict
from config.definitions.webhooks.secret_references import MAX_SECRETS, SecretReferences, keys_of
from config.definitions.yaml_lines import YAML_SUFFIXES, Mistakes, read_yaml, yaml_files
from config.expressions.cel import Expression, Language, Values
from config.expressions.templates import render_data, template_of, templates_in
from config.identity.principal import NAME as PRINCIPAL
from config.identity.principal import NAME_FORM, Principal, Verb
from config.watched_files import FileStamp, stamp_of

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
"""What a webhook may be called: it stands in its address."""
NAMES = ("body", "headers", "id", "event")
"""What templates and the condition may refer to; `event` is its type, a name that CEL has for something else."""
DELIVERY = Language(
    lambda kinds: {
        "body": kinds.DYN,
        "headers": kinds.Map(kinds.STRING, kinds.STRING),
        "id": kinds.STRING,
        "event": kinds.STRING,
    }
)
"""The names of a delivery with their types."""

_Id = Annotated[str, StringConstraints(pattern=rf"^{AGENT_ID.pattern}$")]
_Whose = Annotated[str, StringConstraints(pattern=rf"^{PRINCIPAL}$")]
_Template = Annotated[str, StringConstraints(min_length=1, max_length=100_000)]


@lru_cache(maxsize=64)
def _condition_of(source: str) -> Expression:
    return Expression(DELIVERY, source)


def _have_templates(data: Any) -> Any:
    for _, text in templates_in(data):
        template_of(text, NAMES)
    return data


class WebhookStartFields(Strict):
    """Which run each delivery starts."""

    agent: _Id | None = None
    """The agent; ``input`` is a template, and makes its message."""
    workflow: _Id | None = None
    """The workflow; ``input`` has its fields, each with a template."""
    input: Any

    @model_validator(mode="after")
    def _agree(self) -> WebhookStartFields:
        if (self.agent is None) == (self.workflow is None):
            raise ValueError("`agent` or `workflow` is needed, and not both")
        if self.agent is not None and not (isinstance(self.input, str) and self.input.strip()):
            raise ValueError("`input` has to be text with templates, for example `{{ body.issue.title }}`")
        if self.workflow is not None and not isinstance(self.input, dict):
            raise ValueError("`input` has to be a mapping of the workflow's fields to templates")
        return self

    @field_validator("input")
    @classmethod
    def _has_templates(cls, value: Any) -> Any:
        return _have_templates(value)


class WebhookSignalFields(Strict):
    """Which signal each delivery gives to a run of a workflow."""

    run: _Template
    """The run's id."""
    name: _Template
    data: Any = None
    """What the node that waits for it gets; texts in it are templates."""

    @field_validator("run", "name", "data")
    @classmethod
    def _have_templates(cls, value: Any) -> Any:
        return _have_templates(value)


class WebhookFields(Strict):
    """The fields of a webhook's file."""

    format: Literal["standard", "github", "stripe"]
    """How its deliveries are signed."""
    secret: SecretReferences
    """References to where the web process finds the secret, alone or several in a list: any of them may have signed,
    so that one can be replaced."""
    tenant: _Whose = "default"
    principal: _Whose | None = None
    """Whose the runs are; the webhook's name by default."""
    start: WebhookStartFields | None = None
    signal: WebhookSignalFields | None = None
    thread: _Template | None = None
    """The conversation that a started run continues; a new one by default."""
    only: Annotated[str, StringConstraints(min_length=1, max_length=2000)] | None = None
    """A condition in CEL: a delivery for which it is false is accepted, and starts nothing."""

    @field_validator("thread")
    @classmethod
    def _is_template(cls, value: str | None) -> str | None:
        return None if value is None else str(_have_templates(value))

    @field_validator("only")
    @classmethod
    def _is_condition(cls, value: str | None) -> str | None:
        if value is not None:
            _condition_of(value)
        return value

    @model_validator(mode="after")
    def _agree(self) -> WebhookFields:
        if (self.start is None) == (self.signal is None):
            raise ValueError("`start` or `signal` is needed, and not both")
        if self.signal is not None and self.thread is not None:
            raise ValueError("`thread` is for a webhook that starts runs; a signal's run has its own")
        return self


class WebhookDefinition(WebhookFields):
    """A webhook's definition, with its name and origin."""

    name: str
    file: str
    """The file it was read from."""

    @property
    def who(self) -> Principal:
        """For whom its deliveries act: for nothing but what it does."""
        does = Verb.START if self.start is not None else Verb.CONTROL
        return Principal(tenant=self.tenant, id=self.principal or self.name, verbs=frozenset({Verb.SEE, does}))

    def keys(self) -> list[bytes]:
        """Return the keys with which its deliveries may be signed.

        Raises:
            DefinitionInvalid: a reference leads to nothing, or a secret is none of its format.
        """
        try:
            return keys_of(self.format, self.secret, "the web process")
        except ValueError as error:
            raise DefinitionInvalid(self.file, None, "secret", str(error)) from error

    def applies(self, delivery: Mapping[str, Any]) -> bool:
        """Return whether a delivery meets the condition ``only``.

        Raises:
            ExpressionFailed: it fails for these values.
        """
        return self.only is None or _condition_of(self.only).holds(Values(DELIVERY, delivery))

    def rendered(self, data: Any, delivery: Mapping[str, Any]) -> Any:
        """Return data of the file with the values of its templates.

        Raises:
            ExpressionFailed: a value is missing, or does not fit.
        """
        return render_data(data, delivery, NAMES)


# --- the files


def load_webhook(path: Path) -> WebhookDefinition:
    """Return the webhook that ``path`` describes.

    Raises:
        DefinitionInvalid: the message names the file, the line, the field and what to write instead.
    """
    if not NAME.fullmatch(path.stem):
        problem = "the file's name is the webhook's: letters, digits, '_' and '-', at most 64; rename it."
        raise DefinitionInvalid(str(path), None, None, problem)
    written = read_yaml(path, "`format: standard`, `secret: ${VARIABLE}` and `start: ...`")
    try:
        fields = WebhookFields.model_validate(written.data)
        values = {field: getattr(fields, field) for field in fields.model_fields_set}
        return WebhookDefinition(**{**values, "name": path.stem, "file": str(path)})
    except ValidationError as error:
        raise _MISTAKES.first(error, written).refusal(str(path), written) from error


def read_webhooks(folders: Collection[Path]) -> tuple[dict[str, WebhookDefinition], list[DefinitionInvalid]]:
    """Return the usable webhooks by name, and what is wrong with the files of the others.

    The first file of a name counts.
    """
    webhooks: dict[str, WebhookDefinition] = {}
    broken, names = [], set[str]()
    for path in yaml_files(folders):
        if path.stem in names:
            continue
        names.add(path.stem)
        try:
            webhooks[path.stem] = load_webhook(path)
        except DefinitionInvalid as error:
            broken.append(error)
    return webhooks, broken


class WebhookFiles:
    """The webhooks of some folders, each read again when its file has changed; from any thread."""

    def __init__(self, folders: Collection[Path]) -> None:
        self._folders = tuple(folders)
        self._read: dict[str, tuple[FileStamp, WebhookDefinition | DefinitionInvalid]] = {}

    def get(self, name: str) -> WebhookDefinition | DefinitionInvalid | None:
        """Return the webhook of a name, or what is wrong with its file; None: there is none."""
        for path in self._paths(name):
            try:
                stamp = stamp_of(path)
            except OSError:
                continue
            entry = self._read.get(name)
            if entry is None or entry[0] != stamp:
                entry = self._read[name] = stamp, _loaded(path)
            return entry[1]
        return None

    def _paths(self, name: str) -> Iterator[Path]:
        if NAME.fullmatch(name):
            yield from (folder / f"{name}{suffix}" for folder in self._folders for suffix in YAML_SUFFIXES)


def _loaded(path: Path) -> WebhookDefinition | DefinitionInvalid:
    try:
        return load_webhook(path)
    except DefinitionInvalid as error:
        return error


_SENTENCES: Mapping[str, str] = {
    "missing format": "is missing; write `format: standard`, `github` or `stripe`.",
    "missing secret": "is missing; write where it is, for example `secret: ${{SHOP_WEBHOOK_SECRET}}`.",
    "missing": "is missing; add it, for example `{name}: ...`.",
    "literal_error": "has to be {expected}.",
    "string_type": "has to be text; put it in quotes.",
    "string_pattern_mismatch tenant": f"has to be {NAME_FORM}.",
    "string_pattern_mismatch principal": f"has to be {NAME_FORM}.",
    "string_pattern_mismatch agent": "has to be the id of an agent, its file's name without `.yaml`.",
    "string_pattern_mismatch workflow": "has to be the id of a workflow, its file's name without `.yaml`.",
    "tuple_type": "has to be `${{VARIABLE}}`, or a list of several.",
    "too_long secret": f"has more than {MAX_SECRETS} secrets; leave the oldest out.",
    "model_type": "has to be a mapping of fields to values.",
}
"""The remedy by pydantic's name of an error, or by that and the field's name."""


def _section(path: tuple[int | str, ...]) -> type[Strict]:
    sections: dict[Any, type[Strict]] = {"start": WebhookStartFields, "signal": WebhookSignalFields}
    return WebhookFields if len(path) == 1 else sections.get(path[0], WebhookFields)


_MISTAKES = Mistakes(section_of=_section, sentences=_SENTENCES)
