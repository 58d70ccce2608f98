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

from config.definitions.errors import DefinitionInvalid
from config.definitions.mcp.oauth import McpOAuthFields
from config.definitions.runner_spec import SECRET_IN_HEADER, Address, Headers, Strict, Variable
from config.definitions.secrets import REFERENCE, REFERENCE_FORM, required_secret
from config.definitions.yaml_lines import Mistakes, read_yaml, yaml_files
from config.effects import LABEL, Classification, Effect
from config.egress.errors import RequestRefused
from config.egress.request import checked_headers
from config.egress.target import Target, parse_target
from config.identity.principal import Role
from config.redaction import is_secret, redact
from config.redaction.provider_keys import is_providers
from config.text.names import nearest

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


class McpReadFields(Strict):
    """What a server's file says of what is read from it: its resources, or its prompts."""

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


class McpToolFields(McpReadFields):
    """What a server's file says of one of its tools."""

    effect: Effect | None = None
    """The effect class; ``unsafe`` by default, or what the server's hints say where they are trusted."""

    @field_validator("effect")
    @classmethod
    def _needs_no_check(cls, value: Effect | None) -> Effect | None:
        if value is not None and value.policy.needs_check:
            raise ValueError("cannot be checkable, since the protocol has no way to check; write another effect")
        return value


class McpSamplingFields(Strict):
    """Whether a server may ask the model of the run's agent, and how much."""

    allowed: Annotated[bool, Field(strict=True)] = False
    """Whether it may; the model's calls count as the run's."""
    max_calls: Annotated[int, Field(strict=True, ge=1, le=100)] = 5
    """How often during one call of a tool."""
    max_tokens: Annotated[int, Field(strict=True, ge=1, le=1_000_000)] = 1000
    """Tokens of an answer."""


class McpLimitFields(Strict):
    """How much of the machine each process of a server on stdio may use; None is no limit of ours."""

    cpu_s: Annotated[int, Field(strict=True, ge=1, le=31_536_000)] | None = None
    """Seconds of processor time, from its start on."""
    memory_mb: Annotated[int, Field(strict=True, ge=16, le=1_048_576)] | None = None
    """MiB of address space."""
    files: Annotated[int, Field(strict=True, ge=16, le=65_536)] | None = None
    """Open files."""
    processes: Annotated[int, Field(strict=True, ge=1, le=4096)] | None = None
    """Processes and threads beside those that the worker's user has at its start."""
    file_mb: Annotated[int, Field(strict=True, ge=1, le=1_048_576)] | None = None
    """MiB of the longest file that it writes."""


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
    limits: McpLimitFields = Field(default_factory=McpLimitFields)
    """How much of the machine a server on stdio may use."""
    url: Address | None = None
    """The address of a server that is reached by HTTP."""
    transport: Literal["http", "sse"] = "http"
    """``http`` is streamable HTTP; ``sse`` the older HTTP with server-sent events."""
    headers: Headers = Field(default_factory=dict)
    """Headers of each request; ``${NAME}`` in a value is the secret of that name."""
    oauth: McpOAuthFields | None = None
    """How access tokens are got, for a server that is reached by HTTP and wants them."""
    secrets: dict[Variable, _Reference] = Field(default_factory=dict)
    """A name -> where the worker finds the secret; on stdio it is the variable that the server gets."""
    mode: Literal["auto", "legacy"] = "auto"
    """``legacy`` for a server that cannot bear to be asked for the protocol of 2026 first."""
    disabled: Annotated[bool, Field(strict=True)] = False
    """Whether it is not to be used: it is never started, and agents that name it cannot be loaded."""
    included_tools: Annotated[tuple[_Tool, ...], Field(min_length=1)] | None = None
    """The tools that agents may use; all by default."""
    trusted_hints: Annotated[bool, Field(strict=True)] = False
    """Whether the server's hints decide the effects of its tools: read-only is ``pure``, idempotent ``idempotent``."""
    tools: dict[_Tool, McpToolFields] = Field(default_factory=dict)
    """What this file says of single tools, by their names at the server."""
    resources: McpReadFields = Field(default_factory=McpReadFields)
    """What this file says of listing and reading the server's resources."""
    prompts: McpReadFields = Field(default_factory=McpReadFields)
    """What this file says of listing and getting the server's prompts."""
    elicitation: Literal["auto", "always", "never"] = "auto"
    """Whether the server may ask a person during a call: ``never`` does not offer it. A call of a server of before 2026
    is made again with the answer, which ``auto`` does unless the tool is ``unsafe``."""
    sampling: McpSamplingFields = Field(default_factory=McpSamplingFields)
    """Whether the server may ask the model of the run's agent during a call."""
    log_level: Literal["off", "debug", "info", "notice", "warning", "error", "critical", "alert", "emergency"] = "info"
    """From which level on the server's log messages go into the log of the call's run; ``off``: none."""
    start_s: Annotated[float, Field(strict=True, gt=0, le=600)] = 30
    """Seconds until it has to be ready."""
    idle_s: Annotated[float, Field(strict=True, gt=0, le=86_400)] = 300
    """Seconds without a call after which it is closed; the next call opens it again."""
    max_bytes: Annotated[int, Field(strict=True, ge=1024, le=64 * MIB)] = 4 * MIB
    """Bytes of its longest message."""

    @field_validator("url")
    @classmethod
    def _has_no_secret(cls, value: str | None) -> str | None:
        if value is not None and redact(value) != value:
            raise ValueError("carries a secret; name it under `secrets:` and write ${NAME} in `headers:`")
        return value

    @field_validator("args")
    @classmethod
    def _hold_no_secret(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if any(redact(word) != word for word in value):
            raise ValueError("carries a secret, which every user of the machine can read; name it under `secrets:`")
        return value

    @field_validator("env")
    @classmethod
    def _holds_no_secret(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if is_secret(name, text):
                raise ValueError(f"`{name}` holds a secret; write a reference to it under `secrets:`")
        return value

    @field_validator("env_from")
    @classmethod
    def _names_no_secret(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for name in value:
            if _is_own(name) or is_providers(name):
                raise ValueError(f"may not have {name}: no server gets Callboard's own variables or a provider's key")
            if is_secret(name, "x" * 20):
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
        alien = ("headers", "transport", "oauth") if self.url is None else ("args", "env", "env_from", "limits")
        kind = "started by a command" if self.url is None else "reached by HTTP"
        yield from ((name, f"is not for a server that is {kind}") for name in alien if name in self.model_fields_set)
        if self.oauth is not None and any(name.lower() == "authorization" for name in self.headers):
            yield "headers", "may not have Authorization, which `oauth` sets; keep one of them"
        if self.oauth is not None and self.url is not None and not _is_private(parse_target(self.url)):
            yield "url", "has to begin with https://, since access tokens go there; http is for this machine alone"
        named = {name for text in self.headers.values() for name in SECRET_IN_HEADER.findall(text)}
        yield from (("secrets", f"has no {name}, which a header uses") for name in sorted(named - set(self.secrets)))
        yield from (("tools", problem) for problem in self._tools_not_included())
        variables = [*self.env, *self.env_from, *(self.secrets if self.command is not None else ())]
        yield from (("env", f"may not set {name}, a name of Callboard's own") for name in variables if _is_own(name))
        twice = sorted({name for name in variables if variables.count(name) > 1})
        yield from (("env", f"has {name}, which is also under `env_from` or `secrets`; keep one") for name in twice)

    def _tools_not_included(self) -> Iterator[str]:
        """Yield what is wrong with each tool that is not to be used: its name is likely to be misspelt."""
        included = self.included_tools
        for name in sorted(set(self.tools) - set(included)) if included is not None else ():
            near = nearest(name, included or ())
            remedy = f"the nearest name there is '{near}'" if near else "add it there, or remove it here"
            yield f"has {name}, which is not in `included_tools`; {remedy}"


def _is_private(target: Target) -> bool:
    """Return whether others cannot read what goes there."""
    is_here = target.host == "localhost" or (target.address is not None and target.address.is_loopback)
    return target.scheme == "https" or is_here


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
            SECRET_MISSING: a reference leads to nothing.
        """
        variables = (*INHERITED, *self.env_from)
        return {name: worker[name] for name in variables if name in worker} | self.env | self.secret_values()

    def secret_values(self) -> dict[str, str]:
        """Return the secrets by name.

        Raises:
            SECRET_MISSING: a reference leads to nothing.
        """
        return {name: required_secret(name, reference) for name, reference in self.secrets.items()}

    def filled_headers(self) -> dict[str, str]:
        """Return the headers with their secrets.

        Raises:
            SECRET_MISSING: a reference leads to nothing.
            RequestRefused: HTTP cannot carry one; the message does not have its value.
        """
        values = self.secret_values()
        filled = {name: SECRET_IN_HEADER.sub(lambda at: values[at[1]], text) for name, text in self.headers.items()}
        filled = {name: text.strip(" \t") for name, text in filled.items()}  # HTTP has no spaces around a value
        try:
            return dict(checked_headers(filled.items()))
        except RequestRefused as error:
            raise RequestRefused(f"the MCP server {self.name} cannot be used: {error}") from error


def load_server(path: Path) -> McpServerDefinition:
    """Return the server that ``path`` describes.

    Raises:
        DefinitionInvalid: the message names the file, the line, the field and what to write instead.
    """
    written = read_yaml(path, "`command: ...` or `url: ...`")
    try:
        fields = McpServerFields.model_validate(written.data)
    except ValidationError as error:
        raise _MISTAKES.first(error, written).refusal(str(path), written) from error
    except RecursionError as error:
        raise DefinitionInvalid(str(path), None, None, "is nested too deeply.") from error
    name = fields.name or path.stem
    if not SERVER_NAME.fullmatch(name):
        problem = (
            "the file's name is the server's: letters, digits, '_' and '-', at most 32, and first a letter. Rename it, "
            "or write `name:`."
        )
        raise DefinitionInvalid(str(path), None, None, problem)
    values = {field: getattr(fields, field) for field in fields.model_fields_set}
    return McpServerDefinition(**{**values, "name": name, "file": str(path)})


def read_servers(folders: Collection[Path]) -> tuple[dict[str, McpServerDefinition], list[DefinitionInvalid]]:
    """Return the usable servers by name, and what is wrong with the files of the others.

    Where two files have one name, neither can be used.
    """
    servers_by_name: dict[str, list[McpServerDefinition]] = {}
    broken = []
    for path in yaml_files(folders):
        try:
            server = load_server(path)
        except DefinitionInvalid as error:
            broken.append(error)
        else:
            servers_by_name.setdefault(server.name, []).append(server)
    for name, those in servers_by_name.items():
        if len(those) > 1:
            problem = f"the server '{name}' is also in {those[0].file}; rename one of them."
            twice = DefinitionInvalid(those[-1].file, None, "name", problem)
            twice.facts["server"] = name
            broken.append(twice)
    return {name: those[0] for name, those in servers_by_name.items() if len(those) == 1}, broken


def name_of(problem: DefinitionInvalid) -> str:
    """Return the name of the server that a problem of ``read_servers`` is about."""
    return str(problem.facts.get("server") or Path(str(problem.facts["file"])).stem)


_SENTENCES: Mapping[str, str] = {
    "string_pattern_mismatch name": "has to be letters, digits, '_' and '-', at most 32, and first a letter.",
    "string_type": "has to be text; put it in quotes.",
    "literal_error": "has to be {expected}.",
    "tuple_type": "has to be a list, for example `{name}: [one, two]`.",
    "dict_type": "has to be a mapping of names to values.",
}
"""The remedy by pydantic's name of an error, or by that and the field's name."""


def _section(path: tuple[int | str, ...]) -> type[Strict]:
    """Return the section that has the field at this place."""
    if len(path) == 1:
        return McpServerFields
    sections: dict[Any, type[Strict]] = {"resources": McpReadFields, "prompts": McpReadFields, "oauth": McpOAuthFields}
    sections |= {"sampling": McpSamplingFields}
    return sections.get(path[0], McpToolFields)


_MISTAKES = Mistakes(section_of=_section, sentences=_SENTENCES)
