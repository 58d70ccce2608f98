"""Signals for the nodes of a workflow: checked against what it declares, and guarded, before they are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from agents.errors import INPUT_TOO_LARGE, SIGNAL_INVALID, SIGNAL_UNKNOWN
from agents.governance.guardrails.guardrails import sealing_guardrails
from agents.mailbox.texts import definition_of_run
from agents.registry import AgentRegistry
from bus.identity.access import require
from bus.journal import Journal
from bus.journal.clients import SIGNAL, WORKFLOW
from bus.journal.errors import CONTROL_REFUSED
from config.definitions.agent import AgentDefinition
from config.definitions.schemas.json_schema import schema_errors
from config.identity.principal import Principal, Verb
from config.text.names import did_you_mean


def signal_data(
    journal: Journal, registry: AgentRegistry, principal: Principal, run_id: str, name: str, data: Any
) -> Mapping[str, Any]:
    """Return the data of a signal's control, if a node of the run's workflow waits for a signal of this name and form.

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
    signals = _signals_of(definition)
    form = next((form for signal, form in signals.items() if _is_for(name, signal)), None)
    if form is None:
        listing = ", ".join(f"'{signal}'" for signal in signals) or "none"
        raise SIGNAL_UNKNOWN(name=name, hint=did_you_mean(name, signals), known=listing)
    text, limit = orjson.dumps(data), journal.settings.max_input_chars
    if len(text) > limit:
        raise INPUT_TOO_LARGE(size=len(text), limit=limit)
    problems = schema_errors(form, data)
    if problems:
        raise SIGNAL_INVALID(name=name, problems="; ".join(problems))
    guardrails, _ = sealing_guardrails(journal.settings, definition.guardrails)
    guardrails.require_call({"data": data})
    return {"name": name, "data": data}


def _signals_of(definition: AgentDefinition) -> dict[str, Mapping[str, Any]]:
    """Return what a definition's nodes wait for: the schema of each signal by its name."""
    nodes = getattr(definition, "nodes", ())
    waits = (node.settings for node in nodes if node.type == "WAIT" and node.settings.signal is not None)
    return {**getattr(definition, "signals", {}), **{wait.signal: wait.form or {} for wait in waits}}


def _is_for(name: str, signal: str) -> bool:
    """Return whether a name is that of a signal; inside of a FOR_EACH the indices of the items follow it."""
    rest = name.removeprefix(signal) if name.startswith(signal) else "?"
    return rest == "" or (all(part.isdecimal() for part in rest.removeprefix("-").split("-")) and rest.startswith("-"))
