"""Reads definitions: from a file, from the journal as they were stored with a run, or from code; and names mistakes."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson
from pydantic import ValidationError

from config.definitions.agent import AGENT_ID, Access, AgentDefinition, DefinitionFields
from config.definitions.behaviour import ON_DISCONNECT_FORM, behaviour_of
from config.definitions.dotted_path import reason_of
from config.definitions.errors import DefinitionInvalid, DefinitionUnreadable
from config.definitions.guardrails.checks import Checks, CheckSection, GuardrailFields, PatternCheck
from config.definitions.guardrails.prompt_guard import PromptGuardFields
from config.definitions.model_fields import Compaction, Fallback, Section, Timeouts
from config.definitions.router import Route
from config.definitions.tool_override import ToolOverride
from config.definitions.yaml_lines import LinedYaml, Mistakes, read_yaml
from config.identity.principal import NAME_FORM
from config.redaction import register_secrets, secrets_in_url
from config.settings import QUEUE_NAME_FORM

BEGINNING = "`name: ...`, `model: auto` and `system_prompt: ...`"
"""What an agent's file begins with."""
MARKS = ("nodes", "blueprint")
"""Fields of which a workflow's file has one, and an agent's none."""


def pinned_definition(agent_id: str, digest: str, content_json: str) -> AgentDefinition:
    """Return a definition as it was stored when a run was accepted.

    Raises:
        DefinitionInvalid: this version of the code does not accept it.
    """
    origin = f"the definition {digest[:12]} of '{agent_id}'"
    with _only_definition_errors(origin):
        return _definition(agent_id, origin, orjson.loads(content_json))


def definition_of(agent_id: str, content: Mapping[str, Any]) -> AgentDefinition:
    """Return an agent that no file has.

    Raises:
        DefinitionInvalid: it cannot be one.
    """
    origin = f"the agent '{agent_id}'"
    with _only_definition_errors(origin):
        return _definition(agent_id, origin, content)


def load_definition(path: Path) -> AgentDefinition:
    """Return the agent defined in ``path``.

    Raises:
        DefinitionInvalid: the message names the file, the line, the field and what to write instead.
    """
    if not AGENT_ID.fullmatch(path.stem):
        problem = "an agent's file name may have letters, digits, '_', '-' and '.', at most 64 of them."
        raise DefinitionInvalid(str(path), None, None, problem)
    with _only_definition_errors(str(path)):
        written = read_yaml(path, BEGINNING)
        return _definition(path.stem, str(path), written.data, written)


def is_of_workflow(error: DefinitionInvalid) -> bool:
    """Return whether the file that cannot be used is a workflow's, as far as its text says so."""
    try:
        text = Path(str(error.facts["file"])).read_text(errors="replace")
    except OSError:
        return False
    return any(re.search(rf"^{mark}\s*:", text, re.MULTILINE) for mark in MARKS)


@contextmanager
def _only_definition_errors(origin: str) -> Iterator[None]:
    """Turn any exception of reading a definition into ``DefinitionInvalid``, so that other definitions can be read.

    A library may run out of stack or panic on input that passed the checks.
    """
    try:
        yield
    except (DefinitionInvalid, KeyboardInterrupt, SystemExit, GeneratorExit):
        raise
    except OSError as error:  # of this moment, and not of the file
        raise DefinitionUnreadable.of(Path(origin), error) from error
    except BaseException as error:  # a panic of Rust code is no Exception
        problem = f"cannot be read ({reason_of(error)}); make it simpler."
        raise DefinitionInvalid(origin, None, None, problem) from error


def _definition(
    agent_id: str, file: str, content: Mapping[str, Any], written: LinedYaml | None = None
) -> AgentDefinition:
    kind: type[AgentDefinition] = AgentDefinition
    fields_of: type[DefinitionFields] = DefinitionFields
    is_workflow = any(mark in content for mark in MARKS)
    if is_workflow:
        from config.definitions.workflows.fields import WorkflowDefinition, WorkflowFields  # most processes have none

        kind, fields_of = WorkflowDefinition, WorkflowFields
    try:
        fields = fields_of.model_validate(content, context=agent_id)
    except ValidationError as error:
        raise _MISTAKES.first(error, written).refusal(file, written) from error
    targets: list[DefinitionFields | Fallback] = [fields, *fields.fallbacks]
    for target in targets:
        register_secrets([os.environ.get(target.api_key_env or "", "")])
        register_secrets(secrets_in_url(target.api_base or ""))
    values = {name: getattr(fields, name) for name in fields.model_fields_set}
    canonical = orjson.dumps(content, option=orjson.OPT_SORT_KEYS)
    digest = hashlib.sha256(canonical).hexdigest()
    ours: dict[str, Any] = {"digest": digest, "content_json": canonical.decode(), "behaviour": behaviour_of(content)}
    definition = kind(**values, **ours, id=agent_id, file=file)
    if is_workflow:
        from config.definitions.workflows.checks import checked

        return checked(definition, written)
    return definition


_SENTENCES = {
    "missing name": "is missing; add it, for example `name: Assistant`.",
    "missing model": "is missing; add it, for example `model: auto`.",
    "missing system_prompt": "is missing; add it, for example `system_prompt: You answer briefly.`.",
    "missing": "is missing; add it, for example `{name}: ...`.",
    "literal_error": "has to be {expected}.",
    "enum": "has to be {expected}.",
    "string_pattern_mismatch access": f"has to be {NAME_FORM}.",
    "string_type": "has to be text; put it in quotes.",
    "string_pattern_mismatch": "has to be a built-in tool's name or `package.module:function`.",
    "string_pattern_mismatch api_key_env": (
        "has to be the name of an environment variable, like OPENAI_API_KEY, and never the key itself."
    ),
    "string_pattern_mismatch databases": "has to be the name of a database, as CALLBOARD_SQL_DATABASES has it.",
    "string_pattern_mismatch resources": "has to be `mcp:server` or `mcp:server/uri`; `*` in the URI is any text.",
    "string_pattern_mismatch prompts": "has to be `mcp:server` or `mcp:server/name`.",
    "string_pattern_mismatch agent": "has to be the id of an agent, its file's name without `.yaml`.",
    "string_pattern_mismatch function": "has to be `package.module:function`.",
    "string_pattern_mismatch id": "has to be letters, digits and `_`, at most 64, and begin with no digit.",
    "string_pattern_mismatch blueprint": "has to be `package.module:Class`.",
    "string_pattern_mismatch on_disconnect": ON_DISCONNECT_FORM,
    "string_pattern_mismatch queue": f"has to be {QUEUE_NAME_FORM}.",
    "string_type fallbacks": "has to be the name of a model, or a mapping with `model:`.",
    "model_type fallbacks": "has to be the name of a model, or a mapping with `model:`.",
    "too_short fallbacks": "names no model; list one, for example `fallbacks: [openai/gpt-5-mini]`, or leave it out.",
    "too_long fallbacks": "names more than 8 models; leave some out.",
    "too_long nodes": "has more than {max_length}; make some of them a workflow that a SUB_WORKFLOW calls.",
    "too_long edges": "has more than {max_length}; make a part of the graph a workflow that a SUB_WORKFLOW calls.",
    "tuple_type": "has to be a list, for example `{name}: [one, two]`.",
    "list_type": "has to be a list, for example `{name}: [one, two]`.",
    "dict_type": "has to be a mapping of fields to values.",
    "model_type": "has to be a mapping of fields to values.",
}
"""The remedy by pydantic's name of an error, or by that and the field's name."""


def _section(location: Sequence[Any]) -> type[Section | CheckSection]:
    """Return the section that has the field at this place."""
    if location[0] in ("nodes", "edges", "blueprint", "input", "output", "variables"):
        return _section_of_workflow(location)
    if len(location) == 1:
        return DefinitionFields
    if location[0] == "guardrails":
        return (GuardrailFields, Checks, PatternCheck)[min(len(location) - 2, 2)]
    sections: dict[Any, type[Section | CheckSection]] = {"prompt_guard": PromptGuardFields, "compaction": Compaction}
    sections |= {"timeouts": Timeouts, "access": Access, "router": Route, "fallbacks": Fallback}
    return sections.get(location[0], ToolOverride)


def _section_of_workflow(location: Sequence[Any]) -> type[Section | CheckSection]:
    from config.definitions.workflows.fields import Compensation, EdgeFields, NodeFields

    if "compensate" in location[:3]:
        return Compensation
    return NodeFields if location[0] == "nodes" else EdgeFields


_MISTAKES = Mistakes(section_of=_section, sentences=_SENTENCES)
