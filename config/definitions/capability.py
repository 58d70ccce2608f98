"""A capability's definition: the fields of its YAML file, and their validation."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, field_validator, model_validator

from config.definitions.dotted_path import reason_of
from config.definitions.errors import DefinitionInvalid
from config.definitions.runner_spec import (
    SECRET_IN_HEADER,
    ContainerSpec,
    EndpointSpec,
    FunctionSpec,
    ProcessSpec,
    RunnerLimits,
    RunnerSpec,
    Strict,
    Text,
    Variable,
)
from config.definitions.schemas.json_schema import JsonSchema, schema_errors
from config.definitions.secrets import REFERENCE, REFERENCE_FORM
from config.definitions.yaml_lines import Mistakes, read_yaml
from config.effects import LABEL, CapabilityKind, Classification, Effect, OnExpiry
from config.egress.policy import hosts_in
from config.identity.principal import Role
from config.settings.container_engine import is_engines_own

CAPABILITY_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
"""Valid names of a capability's file, without its extension: a tool's name."""
_Reference = Annotated[str, Field(max_length=600)]


class RetryRule(Strict):
    """How often a call is attempted within its time; for effects that may be repeated."""

    attempts: Annotated[int, Field(strict=True, ge=1, le=5)] = 1
    delay_s: Annotated[float, Field(ge=0, le=60)] = 1.0
    """Seconds between two attempts, doubled each time."""


class CapabilityFields(Strict):
    """The fields of a capability's file; its id is the file's name without its extension."""

    name: Annotated[str, Field(min_length=1, max_length=80)]
    """The name shown to people."""
    description: Text
    """What it does, for the model."""
    title: Annotated[str, Field(max_length=200)] = ""
    """What a call does, for a person who decides about it; ``{amount}`` stands for an argument."""
    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]{1,40})?$")]
    """By semantic versioning; an approval holds for one version."""
    maintainer: Annotated[str, Field(min_length=1, max_length=200)]
    """Who answers for it: a name or an address."""
    kind: CapabilityKind
    runner: RunnerSpec
    effect: Effect = Effect.UNSAFE
    classification: Classification = Classification.INTERNAL
    roles: frozenset[Role] = frozenset()
    """The roles of which a run's principal needs one; none: all principals."""
    input_schema: JsonSchema | None = None
    """JSON Schema of the arguments, an object; a ``function`` has its own, from its type hints."""
    output_schema: JsonSchema | None = None
    config: dict[str, Any] = Field(default_factory=dict)
    """Values that the author sets and the model does not see."""
    config_schema: JsonSchema | None = None
    """JSON Schema that ``config`` has to fit."""
    secrets: dict[Variable, _Reference] = Field(default_factory=dict)
    """The program's name for a secret -> where the worker finds it: ``env:NAME`` or ``file:/path``."""
    hosts: tuple[Text, ...] | None = None
    """The hosts that a call may connect to."""
    timeout_s: Annotated[float, Field(strict=True, gt=0, le=86_400)] = 60
    retry: RetryRule = Field(default_factory=RetryRule)
    confirm: Annotated[bool, Field(strict=True)] = False
    """Whether a person has to approve each call."""
    approvers: Annotated[int, Field(strict=True, ge=1, le=5)] = 1
    on_expiry: OnExpiry = OnExpiry.FAIL
    default: Any = None
    labels: frozenset[Annotated[str, Field(pattern=rf"^{LABEL}$")]] = frozenset()
    retired: Annotated[str, Field(min_length=1, max_length=300)] | None = None
    """Why it may no longer be named, and what to name instead; the file stays, so that its id is not taken again."""

    @field_validator("secrets")
    @classmethod
    def _are_references(cls, value: dict[str, str]) -> dict[str, str]:
        for name, reference in value.items():
            if not REFERENCE.fullmatch(reference):
                raise ValueError(f"`{name}` has to be {REFERENCE_FORM}, and never the secret itself")
        return value

    @field_validator("hosts")
    @classmethod
    def _are_hosts(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        hosts_in(value or ())
        return value

    @model_validator(mode="after")
    def _agree(self) -> CapabilityFields:
        for field, problem in self._disagreements():
            raise ValueError(f"`{field}` {problem}")
        return self

    def _disagreements(self) -> Iterator[tuple[str, str]]:
        """Yield each field that does not go with the others, and why."""
        if self.effect.policy.needs_check:
            yield "effect", "cannot be checkable, since no file can say how to check; write another effect"
        if self.retry.attempts > 1 and self.effect is Effect.UNSAFE:
            yield "retry", "would repeat an unsafe call; write attempts: 1, or another effect where it is true"
        problems = schema_errors(self.config_schema, self.config) if self.config_schema is not None else []
        if problems:
            yield "config", f"does not fit `config_schema`: {'; '.join(problems)}"
        if isinstance(self.runner, FunctionSpec):
            yield from self._not_for_functions()
        elif (self.input_schema or {}).get("type") != "object":
            yield "input_schema", "needs `type: object` at its top, since arguments have names"
        yield from self._not_for_runner(self.runner)

    def _not_for_functions(self) -> Iterator[tuple[str, str]]:
        if self.input_schema is not None:
            yield "input_schema", "is not for functions, whose type hints say it; leave it out"
        if self.hosts is not None:
            yield "hosts", "cannot be enforced for a function; leave it out, or use a container or http"
        if self.retry.attempts > 1:
            yield "retry", "is not for functions; leave it out, or repeat inside the function"

    def _not_for_runner(self, runner: RunnerSpec) -> Iterator[tuple[str, str]]:
        if isinstance(runner, EndpointSpec):
            named = {name for text in runner.headers.values() for name in SECRET_IN_HEADER.findall(text)}
            yield from (
                ("secrets", f"has no {name}, which a header uses") for name in sorted(named - set(self.secrets))
            )
            if self.config:
                yield "config", "does not reach a server; write the values into `url` or `headers`"
        if isinstance(runner, ProcessSpec) and self.hosts is not None:
            yield "hosts", "cannot be enforced for a process; leave it out, or use a container or http"
        if isinstance(runner, ContainerSpec) and self.hosts not in (None, (), ("*",)):
            yield "hosts", 'cannot be some hosts for a container; write [] for none, or ["*"] for all'
        if isinstance(runner, ProcessSpec | ContainerSpec):
            reserved = [name for name in {*self.secrets, *runner.environment} if _is_reserved(runner.type, name)]
            yield from (("secrets", f"may not set {name}, which has a meaning already") for name in reserved)


def _is_reserved(kind: str, name: str) -> bool:
    return name.startswith("CALLBOARD_") or (kind == "container" and is_engines_own(name))


class CapabilityDefinition(CapabilityFields):
    """A valid definition, with its id and origin."""

    id: str
    file: str
    """The file it was read from."""


def load_capability(path: Path) -> CapabilityDefinition:
    """Return the capability defined in ``path``.

    Raises:
        DefinitionInvalid: the message names the file, the line, the field and what to write instead.
    """
    if not CAPABILITY_ID.fullmatch(path.stem):
        problem = (
            "a capability's file name may have letters, digits, '_' and '-', at most 64, and begins with a letter."
        )
        raise DefinitionInvalid(str(path), None, None, problem)
    try:
        written = read_yaml(path, "`name: ...`, `description: ...`, `kind: ...` and `runner: ...`")
        fields = CapabilityFields.model_validate(written.data)
        values = {name: getattr(fields, name) for name in fields.model_fields_set}
        return CapabilityDefinition(**values, id=path.stem, file=str(path))
    except DefinitionInvalid:
        raise
    except ValidationError as error:
        raise _MISTAKES.first(error, written).refusal(str(path), written) from error
    except Exception as error:  # a library may run out of stack on input that passed the checks
        problem = f"cannot be read ({reason_of(error)}); make it simpler."
        raise DefinitionInvalid(str(path), None, None, problem) from error


def _without_tag(location: tuple[int | str, ...]) -> tuple[int | str, ...]:
    """Return the place without the name of the runner's type, which pydantic puts behind ``runner``."""
    return (*location[:1], *location[2:]) if location[:1] == ("runner",) and len(location) > 1 else location


_SENTENCES: Mapping[str, str] = {
    "missing": "is missing; add it. `./callboard capability new NAME` writes a whole file.",
    "union_tag_not_found": "needs a `type`: function, process, container or http.",
    "union_tag_invalid": "has an unknown `type`; write function, process, container or http.",
    "literal_error": "has to be {expected}.",
    "enum": "has to be {expected}.",
    "string_type": "has to be text; put it in quotes.",
    "string_pattern_mismatch version": "has to be three numbers, like 1.0.0.",
    "string_pattern_mismatch path": "has to be `package.module:function`.",
    "string_pattern_mismatch user": 'has to be the numbers of a user and a group, like "1000:1000".',
    "tuple_type": "has to be a list, for example `{name}: [one, two]`.",
    "dict_type": "has to be a mapping of names to values.",
}
"""The remedy by pydantic's name of an error, or by that and the field's name."""
_SECTIONS: Mapping[str, type[Strict]] = {
    "function": FunctionSpec,
    "process": ProcessSpec,
    "container": ContainerSpec,
    "http": EndpointSpec,
}


def _section(location: tuple[int | str, ...]) -> type[Strict]:
    if "limits" in location[:-1]:
        return RunnerLimits
    if location[0] == "runner" and len(location) > 2:
        return _SECTIONS[str(location[1])]
    return RetryRule if location[0] == "retry" and len(location) > 1 else CapabilityFields


_MISTAKES = Mistakes(section_of=_section, sentences=_SENTENCES, as_written=_without_tag)
