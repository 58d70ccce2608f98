"""What a new run is about: a message to an agent, a tool's call, a workflow's input, or what another run was about."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import Any, NamedTuple, TypedDict

from agents.delegation.router import routed_call
from agents.delegation.workflow_input import input_fields, require_kind, retried_nodes
from agents.governance.guardrails.guardrails import Guardrails
from agents.models.auto import resolve_model
from agents.process import Process
from agents.prompt import check_call, check_objective
from bus.journal.clients import NO_MODEL, IdempotencyKey, NewCall, Origin, RepeatedRun
from config.definitions.agent import AgentDefinition
from config.identity.principal import Principal

Fields = Callable[[AgentDefinition, Guardrails, Principal], dict[str, Any]]


class StartOptions(TypedDict, total=False):
    """What every start may say; ``agents.runner.Runner.run`` explains it."""

    thread_id: str | None
    detached: bool
    grant: str | None
    principal: Principal | None
    metadata: Mapping[str, Any] | None
    idempotency: IdempotencyKey | None
    connection: Any
    labels: Collection[str]


class RunSubject(NamedTuple):
    """How a run is accepted."""

    check: Callable[[], object]
    """Raises where it cannot be accepted for any agent."""
    fields: Fields
    """Returns the fields of ``NewRun`` that it decides, as they may be kept."""


def message(process: Process, objective: str) -> RunSubject:
    """Return that a run is an agent's turn, or where a route of the agent takes the message, the call of a child."""

    def fields(definition: AgentDefinition, guardrails: Guardrails, principal: Principal) -> dict[str, Any]:
        require_kind(definition, is_workflow=False)
        text = guardrails.input(objective)
        return _turn(definition, text, routed_call(definition, text, process.registry, principal))

    return RunSubject(lambda: check_objective(objective, process.settings.max_input_chars), fields)


def tool_call(name: str, arguments: Mapping[str, Any]) -> RunSubject:
    """Return that a run is one call of a tool."""

    def fields(definition: AgentDefinition, guardrails: Guardrails, _: Principal) -> dict[str, Any]:
        require_kind(definition, is_workflow=False)  # a node's call may follow an approval, which this would skip
        guardrails.require_call(arguments)
        return _turn(definition, check_call(name, arguments), NewCall(name=name, arguments=arguments))

    return RunSubject(lambda: check_call(name, arguments), fields)


def workflow(process: Process, data: Mapping[str, Any]) -> RunSubject:
    """Return that a run is a workflow's with this input."""

    def fields(definition: AgentDefinition, guardrails: Guardrails, _: Principal) -> dict[str, Any]:
        require_kind(definition, is_workflow=True)
        return input_fields(definition, data, guardrails, process.settings.max_input_chars)

    return RunSubject(lambda: None, fields)


def repeated(process: Process, source: RepeatedRun, origin: Origin) -> RunSubject:
    """Return that a run is about what another run was about."""

    def fields(definition: AgentDefinition, guardrails: Guardrails, principal: Principal) -> dict[str, Any]:
        if source.input is not None:
            fields_of_input = input_fields(definition, source.input, guardrails, process.settings.max_input_chars)
            return fields_of_input | {"redo": retried_nodes(process.journal, definition, source, origin)}
        if source.call is not None:
            guardrails.require_call(source.call.arguments)
            return _turn(definition, source.objective, source.call)
        text = guardrails.input(source.objective)
        return _turn(definition, text, routed_call(definition, text, process.registry, principal))

    return RunSubject(lambda: None, fields)


def _turn(definition: AgentDefinition, text: str, call: NewCall | None) -> dict[str, Any]:
    model = resolve_model(definition.model, os.environ) if call is None else NO_MODEL
    return {"objective": text, "call": call, "model": model}
