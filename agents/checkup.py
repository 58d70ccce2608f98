"""Checks an agent's definition as deeply as is possible without a model call.

For ``./callboard agents`` and ``doctor``: imports LiteLLM, the tools and the observers, and calls no provider.
"""

from __future__ import annotations

import difflib
import logging
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from agents.capabilities.folder import declared
from agents.catalogue import READING, TOOLS, find_reading_tools, find_tool, find_tools, tools_of
from agents.delegation.agent_tool import PREFIX
from agents.governance.policy.checks import KnownTool, Vocabulary
from agents.models.abilities import is_chat_model, shortcomings
from agents.models.auto import resolve_model
from agents.models.call import is_in_process
from agents.models.fallbacks import Models
from agents.models.providers import lacks_address
from agents.registry import AgentRegistry
from agents.tools.isolation.errors import CONTAINERS_DISABLED, IMAGE_MISSING
from agents.tools.tool import Tool
from config.definitions.agent import AgentDefinition
from config.definitions.capability import CapabilityDefinition
from config.definitions.dotted_path import reason_of
from config.definitions.errors import SECRET_MISSING, DefinitionInvalid, PluginUnknown, ToolUnknown
from config.definitions.loading import BEGINNING
from config.definitions.model_fields import Fallback
from config.definitions.runner_spec import ContainerSpec, ProcessSpec
from config.definitions.secrets import resolve_secret
from config.definitions.yaml_lines import LinedYaml, Place, read_yaml
from config.errors import CallboardError
from config.settings import Settings
from config.settings.container_engine import engine_of, engine_variables

log = logging.getLogger(__name__)

Severity = Literal["error", "warning"]

_ANY_NAME = frozenset(
    """
    ollama ollama_chat hosted_vllm vllm openrouter azure azure_ai bedrock vertex_ai huggingface replicate sagemaker
    together_ai fireworks_ai databricks lm_studio llamafile xinference litellm_proxy custom_openai
    text-completion-openai openai_like docker_model_runner lemonade oobabooga petals watsonx baseten
    """.split()
)
"""Providers that serve their users' own models, which are in no list."""
_LOCAL = frozenset(
    """
    ollama ollama_chat hosted_vllm vllm lm_studio llamafile xinference docker_model_runner lemonade
    """.split()
)
"""Providers that need no key."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Problem:
    """A problem of a definition: an ``error`` fails every run of the agent, a ``warning`` may fail some."""

    severity: Severity
    file: str
    line: int | None
    field: str | None
    text: str
    """A sentence with the remedy."""
    code: str = "definition_invalid"
    """The error code that a run would fail with."""

    def __str__(self) -> str:
        where = self.file if self.line is None else f"{self.file}:{self.line}"
        return f"{where}: {f'{self.field}: ' if self.field else ''}{self.text}"


def deep_check(
    definition: AgentDefinition,
    settings: Settings,
    environment: Mapping[str, str] | None = None,
    serving: Mapping[str, int] = MappingProxyType({}),
) -> list[Problem]:
    """Return all problems of ``definition``, in the order of its fields; empty when it can run.

    ``serving``: by agent, the version that serves in place of what its file says (``AgentRegistry.serving``).
    """
    check = _Check(definition, settings, os.environ if environment is None else environment, serving)
    looks = [check.models] if definition.asks_model else []
    looks += [check.tools, check.observers]
    return [problem for look in looks for problem in check.guarded(look)]


def problem_of(error: DefinitionInvalid) -> Problem:
    """Return the problem of a definition that could not be read."""
    facts = error.facts
    file, line, field = str(facts["file"]), facts.get("line"), facts.get("field")
    where = f"{file}:{line}:" if line is not None else f"{file}:"
    text = str(error).removeprefix(where).strip()
    return Problem(
        severity="error",
        file=file,
        line=line,
        field=field,
        text=text.removeprefix(f"{field}:").strip() if field else text,
    )


class _Check:
    def __init__(
        self,
        definition: AgentDefinition,
        settings: Settings,
        environment: Mapping[str, str],
        serving: Mapping[str, int],
    ) -> None:
        self._agent = definition
        self._serving = serving
        self._settings = settings
        self._environment = environment
        self._lines: LinedYaml | None = None
        with suppress(CallboardError):  # edited since it was read
            self._lines = read_yaml(Path(definition.file), BEGINNING)

    def guarded(self, look: Callable[[], Iterator[Problem]]) -> Iterator[Problem]:
        """Yield the problems that ``look`` finds; if ``look`` raises, yield that as a problem."""
        try:
            yield from look()
        except (Exception, SystemExit) as error:
            yield self._problem((), f"its {look.__name__} could not be checked ({reason_of(error)}).", "internal")

    def models(self) -> Iterator[Problem]:
        """Yield what is wrong with the model and the fallbacks: their names, what they lack, their keys."""
        own = Models(self._agent, resolve_model(self._agent.model, self._environment)).current
        places: list[tuple[Fallback, Place]] = [(own, ())]
        places += [(other, ("fallbacks", number)) for number, other in enumerate(self._agent.fallbacks)]
        for model, place in places:
            if not is_in_process(model.model):
                yield from self._model(model, place)

    def _model(self, chosen: Fallback, place: Place) -> Iterator[Problem]:
        from agents.models.lite import litellm_module

        litellm, name = litellm_module(), chosen.model
        at = (*place, "model")
        try:
            model, provider = litellm.get_llm_provider(name, api_base=chosen.api_base)[:2]
        except Exception as error:  # LiteLLM raises its own BadRequestError, and others for odd names
            near = _nearest_model(name, litellm)
            text = f"LiteLLM knows no provider for '{name}'.{near} Write provider/model, for example openai/gpt-5-mini."
            log.debug("LiteLLM found no provider", extra={"reason": str(error)[:200]})
            yield self._problem(at, text, "model_unknown")
            return
        if not _is_known(chosen, model, provider, litellm):
            near = _nearest_model(name, litellm)
            text = f"LiteLLM's list has no model '{name}'; it may be newer than the list.{near}"
            yield self._problem(at, text, "model_unknown", "warning")
        severity: Severity = "warning" if is_chat_model(chosen) else "error"
        for text in shortcomings(chosen, self._agent):
            yield self._problem(at, text, "model_refused", severity)
        if provider == "azure":
            yield from self._azure(chosen, place, litellm)
        yield from self._key(chosen, place, provider, litellm)

    def _azure(self, chosen: Fallback, place: Place, litellm: Any) -> Iterator[Problem]:
        """Yield what Azure needs beside the key: the resource's address, and the version of its interface."""
        if lacks_address(chosen.model, chosen.api_base, self._environment):
            text = (
                "the address is missing; write `api_base: https://RESOURCE.openai.azure.com` with `api_key_env:`, or "
                "set AZURE_API_BASE."
            )
            yield self._problem((*place, "model"), text, "model_key_missing", "warning")
        if not self._agent.params.get("api_version") and not self._environment.get("AZURE_API_VERSION", "").strip():
            text = (
                f"the API version is missing; LiteLLM takes {litellm.AZURE_DEFAULT_API_VERSION}, and another one in "
                "another release. Write `params: {api_version: ...}`, or set AZURE_API_VERSION."
            )
            yield self._problem((*place, "model"), text, "model_refused", "warning")

    def tools(self) -> Iterator[Problem]:
        """Yield each tool that cannot be built, then what is wrong with them together."""
        broken = False
        named = {"tools": find_tools} | {field: partial(find_reading_tools, field) for field in READING}
        for field, find in named.items():
            for problem in self._unusable(field, getattr(self._agent, field), find):
                broken = True
                yield problem
        if broken:
            return
        try:
            tools_of(self._agent, self._settings)
        except DefinitionInvalid as error:
            yield self._problem(_place_of(str(error.facts["field"])), problem_of(error).text, error.code)
        for position, name in enumerate(self._agent.tools):
            if name in declared(self._settings):
                for text in problems_of(name, self._settings):  # the agent can run without this tool
                    yield self._problem(("tools", position), f"'{name}': {text}", "capability_failed", "warning")

    def observers(self) -> Iterator[Problem]:
        """Yield each observer that is not known or cannot be used."""
        from observers.discovery import OBSERVERS

        yield from self._unusable("observers", self._agent.observers, OBSERVERS.find)

    def _unusable(self, field: str, names: Sequence[str], find: Callable[[str, Settings], object]) -> Iterator[Problem]:
        for position, name in enumerate(names):
            try:
                find(name, self._settings)
            except (ToolUnknown, PluginUnknown) as error:
                version = self._serving.get(name.removeprefix(PREFIX)) if name.startswith(PREFIX) else None
                if version is None:
                    yield self._problem((field, position), str(error), error.code)
                else:  # calls of the agent work
                    text = f"'{name}': its file cannot be used, so its last version, {version}, serves; mend the file."
                    yield self._problem((field, position), text, error.code, "warning")

    def _key(self, chosen: Fallback, place: Place, provider: str, litellm: Any) -> Iterator[Problem]:
        named = chosen.api_key_env
        if named is not None:
            if not self._environment.get(named, "").strip():
                text = f"the variable {named} is not set; the model will refuse the run."
                yield self._problem((*place, "api_key_env"), text, "model_key_missing", "warning")
            return
        if provider in _LOCAL or chosen.api_base is not None:
            return
        missing = _missing_keys(chosen.model, litellm, self._environment)
        if missing:
            text = f"the key is missing; set {' or '.join(missing)}, or use demo/assistant, which needs none."
            yield self._problem((*place, "model"), text, "model_key_missing", "warning")

    def _problem(self, path: Place, text: str, code: str, severity: Severity = "error") -> Problem:
        path = self._as_written(path)
        line = self._lines.line_of(path) if self._lines else None
        field = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path).lstrip(".")
        return Problem(severity=severity, file=self._agent.file, line=line, field=field, text=text, code=code)

    def _as_written(self, path: Place) -> Place:
        """Return the place in the file of one in the definition: a tool that a route adds is in that route."""
        if self._lines is None or path in self._lines.lines:
            return path
        match path:
            case ("tools", int(position)):
                agent = self._agent.tools[position].removeprefix(PREFIX)
                routes = [number for number, route in enumerate(self._agent.router) if route.agent == agent]
                return ("router", routes[0], "agent") if routes else path
        return path


def _place_of(field: str) -> Place:
    return tuple(int(part) if part.isdigit() else part for part in field.replace("]", "").replace("[", ".").split("."))


def _is_known(chosen: Fallback, model: str, provider: str, litellm: Any) -> bool:
    if chosen.api_base is not None or provider in _ANY_NAME:
        return True
    costs = litellm.model_cost
    return chosen.model in costs or model in costs or f"{provider}/{model}" in costs


def _nearest_model(name: str, litellm: Any) -> str:
    """Return a question with the nearest known model, written as it was asked for."""
    provider, slash, model = name.partition("/")
    model_names = ["auto"]
    for key, facts in litellm.model_cost.items():
        if facts.get("mode") in ("chat", "responses", None):
            model_names.append(key if "/" in key or not slash else f"{facts.get('litellm_provider', provider)}/{key}")
    near = difflib.get_close_matches(name, model_names, n=1, cutoff=0.7)
    if not near and slash:
        providers = sorted({str(item) for item in litellm.models_by_provider})
        match = difflib.get_close_matches(provider, providers, n=1, cutoff=0.7)
        near = [f"{match[0]}/{model}"] if match and match[0] != provider else []
    return f" Did you mean '{near[0]}'?" if near else ""


def _missing_keys(name: str, litellm: Any, environment: Mapping[str, str]) -> list[str]:
    """Return the variables that would each supply the provider's key, when none of them is set.

    LiteLLM reads the process's own environment, so what it misses is looked up in ``environment`` again.
    """
    validation: dict[str, Any] = litellm.validate_environment(name)
    if validation.get("keys_in_environment"):
        return []
    keys = [str(key) for key in validation.get("missing_keys", []) if "KEY" in str(key) or "TOKEN" in str(key)]
    return [] if any(environment.get(key, "").strip() for key in keys) else keys


# --- a capability


INSPECT_S = 10.0
OPEN_NETWORK = (
    '`hosts: ["*"]` lets its container reach what the engine\'s default network reaches, perhaps private addresses and '
    "the cloud's metadata service; limit that network by a firewall, or use a server and `type: http`."
)


def problems_of(capability_id: str, settings: Settings) -> list[str]:
    """Return what keeps this machine from calling a capability, as sentences; nothing where it can be called."""
    definition = declared(settings)[capability_id]
    if isinstance(definition, DefinitionInvalid):
        return [str(definition)]
    if definition.retired is not None:
        return []
    try:
        find_tool(capability_id, settings)
    except CallboardError as error:
        return [str(error)]
    return [*_missing_secrets(definition), *_missing_program(definition), *_missing_image(definition, settings)]


def warnings_of(capability_id: str, settings: Settings) -> list[str]:
    """Return what an operator should know of a capability that can be called, as sentences."""
    definition = declared(settings)[capability_id]
    if isinstance(definition, DefinitionInvalid) or definition.retired is not None:
        return []
    if isinstance(definition.runner, ContainerSpec) and definition.hosts:
        return [OPEN_NETWORK]
    return []


def _missing_secrets(definition: CapabilityDefinition) -> Iterator[str]:
    for name, reference in definition.secrets.items():
        if resolve_secret(reference) is None:
            yield str(SECRET_MISSING(name=name, reference=reference))


def _missing_program(definition: CapabilityDefinition) -> Iterator[str]:
    if isinstance(definition.runner, ProcessSpec):
        program = definition.runner.command[0]
        if not program.startswith("./") and shutil.which(program) is None:
            yield f"there is no program '{program}' on this machine; install it, or write its path."


def _missing_image(definition: CapabilityDefinition, settings: Settings) -> Iterator[str]:
    if not isinstance(definition.runner, ContainerSpec):
        return
    engine = engine_of(settings.containers)
    if engine is None:
        yield str(CONTAINERS_DISABLED())
        return
    asking = [*engine.command, "image", "inspect", "--", definition.runner.image]
    try:
        process = subprocess.run(asking, capture_output=True, timeout=INSPECT_S, check=False, env=engine_variables())
    except (OSError, subprocess.SubprocessError):
        yield f"{engine.command[0]} does not answer on this machine; install it, or correct CALLBOARD_CONTAINERS."
    else:
        if process.returncode != 0:
            yield str(IMAGE_MISSING(image=definition.runner.image))


# --- what a policy may name


_COMBINED = ("$ref", "allOf", "anyOf", "oneOf", "patternProperties")
"""Keywords by which a schema may have arguments that its ``properties`` do not list."""


def vocabulary_of(settings: Settings) -> Vocabulary:
    """Return what there is. MCP servers are asked for their tools; what cannot be built is left out."""
    tools: list[Tool] = []
    for name in TOOLS.names(settings):
        with suppress(CallboardError):
            tools.append(find_tool(name, settings))
    definitions = [
        agent_definition
        for agent_definition in AgentRegistry(settings.agent_folders).all()
        if isinstance(agent_definition, AgentDefinition)
    ]
    unread: list[str] = []
    for definition in definitions:
        try:
            tools += tools_of(definition, settings).values()
        except CallboardError:
            unread.append(definition.id)
    entries = dict.fromkeys(_known(tool) for tool in tools)
    agents = frozenset(definition.id for definition in definitions)
    return Vocabulary(tools=tuple(entries), agents=agents, unread=tuple(unread))


def _known(tool: Tool) -> KnownTool:
    labels = tool.labels | tool.result_labels
    arguments = arguments_in(tool.parameters)
    return KnownTool(name=tool.name, identity=tool.identity, arguments=arguments, labels=labels)


def arguments_in(parameters: Mapping[str, Any]) -> frozenset[str] | None:
    """Return the names of the arguments that a schema has; None where it leaves them open."""
    properties, more = parameters.get("properties") or {}, parameters.get("additionalProperties", True)
    is_open = any(keyword in parameters for keyword in _COMBINED) or isinstance(more, dict)
    return None if is_open or (more and not properties) else frozenset(properties)
