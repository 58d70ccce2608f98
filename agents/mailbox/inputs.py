"""What clients give runs that were accepted before: texts, and signals for the nodes of workflows.

It passes the guardrails of the run's agent, like the run's input.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

import orjson

from agents.errors import INPUT_TOO_LARGE, SIGNAL_INVALID, SIGNAL_UNKNOWN
from agents.governance.guardrails.guardrails import sealing_guardrails
from agents.prompt import check_objective
from agents.registry import AgentRegistry
from bus.identity.access import require
from bus.journal import Journal
from bus.journal.clients import SIGNAL, WORKFLOW
from bus.journal.errors import CONTROL_REFUSED
from bus.sealing import Original
from config.definitions.agent import AgentDefinition
from config.definitions.loading import pinned_definition
from config.definitions.schemas.json_schema import schema_errors
from config.identity.principal import Principal, Verb
from config.text.names import did_you_mean


def steer_data(
    journal: Journal, registry: AgentRegistry, principal: Principal, run_id: str, content: str
) -> tuple[dict[str, str], list[Original]]:
    """Return the data of a steer: what the guardrails of a run's agent leave of the text; and what is to be sealed.

    Raises:
        RunUnknown: there is no such run, or the principal does not see it.
        INPUT_EMPTY, INPUT_TOO_LARGE, BadRequest, INPUT_BLOCKED: the text cannot be used.
    """
    check_objective(content, journal.settings.max_input_chars)
    run = journal.readers.runs.row(principal, run_id)
    definition = definition_of_run(journal, registry, run)
    text, originals = guarded(journal, definition, content)
    return {"content": text, "checked_by": definition.digest}, originals


def signal_data(
    journal: Journal,
    registry: AgentRegistry,
    principal: Principal,
    run_id: str,
    name: str,
    data: Any,
    labels: Collection[str] = (),
) -> Mapping[str, Any]:
    """Return the data of a signal's control, if a node of the run's workflow waits for a signal of this name and form.

    ``labels``: what the data are, for policies; the run has them once the node has taken the signal.

    Raises:
        RunUnknown: there is no such run, or the principal does not see it.
        FORBIDDEN: the principal may not do this with it.
        CONTROL_REFUSED: it is no workflow's.
        SIGNAL_UNKNOWN: no node waits for this name, at any time.
        SIGNAL_INVALID: the data do not fit what the node expects.
        INPUT_TOO_LARGE, INPUT_BLOCKED: the data cannot be kept.
    """
    run = journal.readers.runs.row(principal, run_id)
    require(principal, Verb.CONTROL, run, "this run")
    if run.kind != WORKFLOW:
        raise CONTROL_REFUSED(request=SIGNAL.request, problem=f"{run_id} is no workflow's, and waits for no signal")
    definition = definition_of_run(journal, registry, run)
    is_part = run.parent_id is not None and journal.readers.runs.row(principal, run.parent_id).agent_id == run.agent_id
    form = _required_form(definition, name, is_part=is_part)
    try:
        text, limit = orjson.dumps(data), journal.settings.max_input_chars
    except TypeError as error:  # of a Python caller
        raise SIGNAL_INVALID(name=name, problems=f"they are no JSON: {error}") from error
    if len(text) > limit:
        raise INPUT_TOO_LARGE(size=len(text), limit=limit)
    problems = schema_errors(form, data)
    if problems:
        raise SIGNAL_INVALID(name=name, problems="; ".join(problems))
    guardrails, _ = sealing_guardrails(journal.settings, definition.guardrails)
    guardrails.require_call({"data": data})
    return {"name": name, "data": data} | ({"labels": sorted(labels)} if labels else {})


def _required_form(definition: AgentDefinition, name: str, *, is_part: bool) -> Mapping[str, Any]:
    """Return the schema of a signal.

    Raises:
        SIGNAL_UNKNOWN: no node waits for this name, at any time.
    """
    signals, others = _signals_of(definition, is_part), _signals_of(definition, not is_part)
    form = _form_of(signals, name)
    if form is not None:
        return form
    listing = ", ".join(f"'{signal}'" for signal in signals) or "none"
    hint = did_you_mean(name, signals) if _form_of(others, name) is None else OF_CHILD if not is_part else OF_PARENT
    raise SIGNAL_UNKNOWN(name=name, hint=hint, known=listing)


def definition_of_run(journal: Journal, registry: AgentRegistry, run: Any) -> AgentDefinition:
    """Return the definition that a run was accepted with, or where that is not recorded, today's."""
    content_json = journal.readers.recorded_definition(run.definition_digest)
    if content_json is None:
        return registry.get(run.agent_id)
    return pinned_definition(run.agent_id, run.definition_digest, content_json)


def guarded(journal: Journal, definition: AgentDefinition, content: str) -> tuple[str, list[Original]]:
    """Return what an agent's guardrails leave of a text, and what is to be sealed of it."""
    guardrails, originals = sealing_guardrails(journal.settings, definition.guardrails)
    return guardrails.input(content), originals


def _signals_of(definition: AgentDefinition, is_part: bool) -> dict[str, Mapping[str, Any]]:
    """Return what a workflow waits for: the schema of each signal, by its name with ``-INDEX`` for each list around.

    ``is_part``: in child runs, which work on items that a FOR_EACH spreads; otherwise in the run itself.
    """
    from config.definitions.workflows.fields import WorkflowDefinition  # most processes have no workflow
    from config.definitions.workflows.graph import TOP
    from config.definitions.workflows.node_configs import ForEachConfig, WaitConfig

    assert isinstance(definition, WorkflowDefinition)
    forms: dict[str, Mapping[str, Any]] = {} if is_part else dict(definition.signals)
    for node in definition.nodes:
        if isinstance(node.settings, WaitConfig) and node.settings.signal is not None:
            around = definition.graph.around(definition.graph.scope_of[node.id])
            lists = [definition.node(scope).settings for scope in around if scope != TOP]
            if any(isinstance(each, ForEachConfig) and each.spread for each in lists) == is_part:
                forms[node.settings.signal + _INDEX * len(lists)] = node.settings.form or {}
    return forms


OF_CHILD = " The child run that works on the item waits for it; give it to that run."
OF_PARENT = " The run above this one waits for it; give it to that run."
_INDEX = "-INDEX"


def _form_of(signals: Mapping[str, Mapping[str, Any]], name: str) -> Mapping[str, Any] | None:
    """Return the schema of a signal; None where no node waits for one of this name."""
    patterns = {re.escape(signal).replace(re.escape(_INDEX), "-(0|[1-9][0-9]{0,4})"): signal for signal in signals}
    return next((signals[signal] for pattern, signal in patterns.items() if re.fullmatch(pattern, name)), None)
