"""An MCP server that agents may use: the fields of its file in ``config/mcp_servers``, and their validation.

Nothing else starts a server: no request, no run and no agent's file has a command.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, ValidationError, field_validator, model_validator

from config.capabilities import LABEL, Classification
from config.definitions.credentials import require_no_credentials
from config.definitions.errors import DefinitionInvalid
from config.definitions.runner_spec import SECRET_IN_HEADER, Strict, Text, Variable
from config.definitions.secret_reference import REFERENCE, REFERENCE_FORM, required_secret
from config.definitions.yaml_lines import LinedYaml, dotted, read_yaml, yaml_files
from config.effects import Effect
from config.egress.errors import UrlRefused
from config.egress.target import parse_target
from config.identity.principal import Role
from config.provider_keys import is_key, is_providers
from config.redaction import redact
from config.spelling import did_you_mean

SERVER_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,31}")
"""Valid names of a server."""
TOOL_NAME = re.compile(r"[A-Za-z0-9_./-]{1,128}")
"""What the protocol allows as a tool's name."""
INHERITED = ("HOME", "LANG", "LC_ALL", "LC_CTYPE", "LOGNAME", "PATH", "TMPDIR", "TZ", "USER")
"""The worker's variables that every server gets; of the others those that its file names."""
MIB = 1024 * 1024

_Word = Annotated[str, Field(max_length=8000)]
_Value = Annotated[str, Field(max_length=8000)]
_Reference = Annotated[str, Field(max_length=600)]
_Tool = Annotated[str, Field(pattern=rf"^{TOOL_NAME.pattern}$")]


class McpToolFields(Strict):
    """What a server's file says of one of its tools."""

    effect: Effect | None = None
    """The effect class; ``unsafe`` by default, or what the server's hints say where they are trusted."""
    timeout_s: Annotated[float, Field(strict=True, gt=0, le=86_400)] | None = None
    """Seconds that a call may take; the agent's ``tool_s`` by default."""
    confirm: Annotated[bool, Field(strict=True)] = False
    """Whether a person has to approve each call."""
    roles: frozenset[Role] = frozenset()
    """The roles of which a run's principal needs one; none: all principals may call it."""
    classification: Classification = Classification.INTERNAL
    """Of its data; a person has to approve each call of a ``RESTRICTED`` one."""
    labels: frozenset[Annotated[str, Field(pattern=rf"^{LABEL}$")]] = frozenset()
    """For policies: ``untrusted`` and ``outward`` where they do not say ``trusted`` and ``inward``."""

    @field_validator("effect")
    @classmethod
    def _needs_no_check(cls, value: Effect | None) -> Effect | None:
        if value is not None and value.policy.needs_check:
            raise ValueError("cannot be checkable, since the protocol has no way to check; write another effect")
        return value


class McpServerFields(Strict):
    """The fields of a server's file."""

    name: Annotated[str, Field(pattern=rf"^{SERVER_NAME.pattern}$")] | None = None
    """What agents call it; the file's name without its extension by default."""
    command: Annotated[str, Field(min_length=1, max_length=8000)] | None = None
    """The program of a server on stdio. No shell reads it. ``./name`` is a file beside this one."""
    args: Annotated[tuple[_Word, ...], Field(max_length=200)] = ()
    """Its arguments; ``./name`` is a file beside this one."""
    env: dict[Variable, _Value] = Field(default_factory=dict)
    """Variables that it gets, without secrets."""
    env_from: tuple[Variable, ...] = ()
    """The worker's variables that it gets besides ``INHERITED``; none that holds a secret."""
    url: Text | None = None
    """The address of a server that is reached by HTTP."""
    transport: Literal["http", "sse"] = "http"
    """``http`` is streamable HTTP; ``sse`` the older HTTP with server-sent events."""
    headers: dict[Text, Text] = Field(default_factory=dict)
    """Headers of each request; ``${NAME}`` in a value is the secret of that name."""
    secrets: dict[Variable, _Reference] = Field(default_factory=dict)
    """A name -> where the worker finds the secret; on stdio it is the variable that the server gets."""
    mode: Literal["auto", "legacy"] = "auto"
    """``legacy`` for a server that cannot bear to be asked for the protocol of 2026 first."""
    included_tools: Annotated[tuple[_Tool, ...], Field(min_length=1)] | None = None
    """The tools that agents may use; all by default."""
    trusted_hints: Annotated[bool, Field(strict=True)] = False
    """Whether the server's hints decide the effects of its tools: read-only is ``pure``, idempotent ``idempotent``."""
    tools: dict[_Tool, McpToolFields] = Field(default_factory=dict)
    """What this file says of single tools, by their names at the server."""
    start_s: Annotated[float, Field(strict=True, gt=0, le=600)] = 30
    """Seconds until it has to be ready."""
    idle_s: Annotated[float, Field(strict=True, gt=0, le=86_400)] = 300
    """Seconds without a call after which it is closed; the next call opens it again."""
    max_bytes: Annotated[int, Field(strict=True, ge=1024, le=64 * MIB)] = 4 * MIB
    """Bytes of its longest message."""

    @field_validator("url")
    @classmethod
    def _is_an_address(cls, value: str | None) -> str | None:
        try:
            if value is not None:
                parse_target(value)
        except UrlRefused as error:
            raise ValueError(str(error).rstrip(".")) from error
        if value is not None and redact(value) != value:
            raise ValueError("carries a secret; name it under `secrets:` and write ${NAME} in `headers:`")
        return value

    @field_validator("args")
    @classmethod
    def _hold_no_secret(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(redact(word) != word for word in value):
            raise ValueError("carries a secret, which every user of the machine can read; name it under `secrets:`")
        return value

    @field_validator("headers")
    @classmethod
    def _have_no_secret(cls, value: dict[str, str]) -> dict[str, str]:
        try:
            require_no_credentials({"headers": {name: text for name, text in value.items() if "${" not in text}})
        except ValueError as error:
            raise ValueError("carries a credential; name it under `secrets:` and write ${NAME} here") from error
        return value

    @field_validator("env")
    @classmethod
    def _holds_no_secret(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if is_key(name, text):
                raise ValueError(f"`{name}` holds a secret; write a reference to it under `secrets:`")
        return value

    @field_validator("env_from")
    @classmethod
    def _names_no_secret(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if _is_own(name) or is_providers(name):
                raise ValueError(f"may not have {name}: no server gets Callboard's own variables or a provider's key")
            if is_key(name, "x" * 20):
                raise ValueError(f"may not have {name}, which is named like a secret; write it under `secrets:`")
        return value

    @field_validator("secrets")
    @classmethod
    def _are_references(cls, value: dict[str, str]) -> dict[str, str]:
        for name, reference in value.items():
            if not REFERENCE.fullmatch(reference):
                raise ValueError(f"`{name}` has to be {REFERENCE_FORM}, and never the secret itself")
            variable = reference.removeprefix("env:")
            if variable != reference and (_is_own(variable) or is_providers(variable)):
                raise ValueError(f"`{name}` may not be {variable}: no server gets a key of Callboard or of a provider")
        return value

    @model_validator(mode="after")
    def _agree(self) -> McpServerFields:
        for field, problem in self._disagreements():
            raise ValueError(f"`{field}` {problem}")
        return self

    def _disagreements(self) -> Iterator[tuple[str, str]]:
        """Yield each field that does not go with the others, and why."""
        if (self.command is None) == (self.url is None):
            yield "command", "or `url` is needed, and not both: a server is started here, or is reached by HTTP"
        alien = ("headers", "transport") if self.url is None else ("args", "env", "env_from")
        kind = "started by a command" if self.url is None else "reached by HTTP"
        yield from ((name, f"is not for a server that is {kind}") for name in alien if name in self.model_fields_set)
        named = {name for text in self.headers.values() for name in SECRET_IN_HEADER.findall(text)}
        yield from (("secrets", f"has no {name}, which a header uses") for name in sorted(named - set(self.secrets)))
        given = [*self.env, *self.env_from, *(self.secrets if self.command is not None else ())]
        yield from (("env", f"may not set {name}, a name of Callboard's own") for name in given if _is_own(name))
        twice = sorted({name for name in given if given.count(name) > 1})
        yield from (("env", f"has {name}, which is also under `env_from` or `secrets`; keep one") for name in twice)


def _is_own(name: str) -> bool:
    return name.startswith(("CALLBOARD_", "_CALLBOARD_"))


class McpServerDefinition(McpServerFields):
    """A server's definition, with its name and origin."""

    name: str
    file: str
    """The file it was read from."""

    def includes(self, tool: str) -> bool:
        """Return whether agents may use the server's tool of this name."""
        return self.included_tools is None or tool in self.included_tools

    def argv(self) -> list[str]:
        """Return the program and its arguments, each one word for the kernel."""
        folder = Path(self.file).parent
        words = (self.command or "", *self.args)
        return [str(folder / word) if word.startswith("./") else word for word in words]

    def environment(self, worker: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Return all variables that the server gets.

        Raises:
            SecretMissing: a reference leads to nothing.
        """
        wanted = (*INHERITED, *self.env_from)
        return {name: worker[name] for name in wanted if name in worker} | self.env | self.secret_values()

    def secret_values(self) -> dict[str, str]:
        """Return the secrets by name.

        Raises:
            SecretMissing: a reference leads to nothing.
        """
        return {name: required_secret(name, reference) for name, reference in self.secrets.items()}

    def filled_headers(self) -> dict[str, str]:
        """Return the headers with their secrets.

        Raises:
            SecretMissing: a reference leads to nothing.
        """
        values = self.secret_values()
        return {name: SECRET_IN_HEADER.sub(lambda at: values[at[1]], text) for name, text in self.headers.items()}


def load_server(path: Path) -> McpServerDefinition:
    """Return the server that ``path`` describes.

    Raises:
        DefinitionInvalid: the message names the file, the line, the field and what to write instead.
    """
    written = read_yaml(path)
    try:
        fields = McpServerFields.model_validate(written.data)
    except ValidationError as error:
        raise _first_error(error, str(path), written) from error
    except RecursionError as error:
        raise DefinitionInvalid(str(path), None, None, "is nested too deeply.") from error
    name = fields.name or path.stem
    if not SERVER_NAME.fullmatch(name):
        problem = (
            "the file's name is the server's: letters, digits, '_' and '-', at most 32, and first a letter. Rename it, "
            "or write `name:`."
        )
        raise DefinitionInvalid(str(path), None, None, problem)
    values = {one: getattr(fields, one) for one in fields.model_fields_set}
    return McpServerDefinition(**{**values, "name": name, "file": str(path)})


def read_servers(folders: Collection[Path]) -> tuple[dict[str, McpServerDefinition], list[DefinitionInvalid]]:
    """Return the usable servers by name, and what is wrong with the files of the others.

    Where two files have one name, neither can be used.
    """
    found: dict[str, list[McpServerDefinition]] = {}
    broken = []
    for path in yaml_files(folders):
        try:
            server = load_server(path)
        except DefinitionInvalid as error:
            broken.append(error)
        else:
            found.setdefault(server.name, []).append(server)
    for name, those in found.items():
        if len(those) > 1:
            problem = f"the server '{name}' is also in {those[0].file}; rename one of them."
            broken.append(DefinitionInvalid(those[-1].file, None, "name", problem))
    return {name: those[0] for name, those in found.items() if len(those) == 1}, broken


def _first_error(found: ValidationError, file: str, written: LinedYaml) -> DefinitionInvalid:
    errors = found.errors(include_url=False, include_input=False)
    error = next((one for one in errors if one["type"] == "extra_forbidden"), errors[0])
    place = tuple(error["loc"])
    named = re.search(r"`(\w+)`", error["msg"]) if error["type"] == "value_error" else None
    if named and (*place, named[1]) in written.lines:
        place = (*place, named[1])
    return DefinitionInvalid(file, written.line_of(place), dotted(place), _problem(error, place))


_SENTENCES: Mapping[str, str] = {
    "string_pattern_mismatch name": "has to be letters, digits, '_' and '-', at most 32, and first a letter.",
    "string_type": "has to be text; put it in quotes.",
    "literal_error": "has to be {expected}.",
    "tuple_type": "has to be a list, for example `{name}: [one, two]`.",
    "dict_type": "has to be a mapping of names to values.",
}
"""The remedy by pydantic's name of an error, or by that and the field's name."""


def _problem(error: Any, place: tuple[int | str, ...]) -> str:
    """Return what is wrong, as a sentence, without the value, which may be a secret."""
    name = str(place[-1]) if place else ""
    if error["type"] == "extra_forbidden":
        known = list((McpToolFields if len(place) > 1 else McpServerFields).model_fields)
        return f"there is no such field.{did_you_mean(name, known)} Known fields: {', '.join(known)}."
    sentence = _SENTENCES.get(f"{error['type']} {name}") or _SENTENCES.get(error["type"])
    if sentence is not None:
        return sentence.format(name=name, **error.get("ctx", {}))
    text = str(error["msg"]).removeprefix("Value error, ")
    return f"{text[0].lower()}{text[1:]}."
