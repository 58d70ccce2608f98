"""What a workflow's run is accepted with: its input, checked and guarded, and the nodes that a retry makes again."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import orjson

from agents.errors import INPUT_INVALID, INPUT_TOO_LARGE, WORKFLOW_MISSED
from agents.governance.guardrails.guardrails import Guardrails
from agents.models.auto import resolve_model
from bus.journal import Journal
from bus.journal.clients import NO_MODEL, Origin, RepeatedRun
from bus.journal.forks.errors import RUN_NOT_REPEATABLE
from config.definitions.agent import AgentDefinition
from config.definitions.errors import DefinitionInvalid
from config.definitions.loading import pinned_definition
from config.definitions.schemas.json_schema import defaults_of, schema_errors


def input_fields(
    definition: AgentDefinition, data: Mapping[str, Any], guardrails: Guardrails, max_chars: int
) -> dict[str, Any]:
    """Return what a new run of a workflow takes from its input: the input, its text for people, and the model.

    Fields that the input leaves out have the schema's defaults, so that the run's record has all that it works with.

    Raises:
        INPUT_INVALID: it does not fit the workflow's schema.
        INPUT_TOO_LARGE: it is longer than an input may be.
        INPUT_BLOCKED: it has a secret, or a guardrail blocks it.
    """
    schema = definition.input_schema or {}
    left_out = {name: value for name, value in defaults_of(schema).items() if name not in data}
    data = {**data, **left_out}
    text = orjson.dumps(data).decode()
    if len(text) > max_chars:
        raise INPUT_TOO_LARGE(size=len(text), limit=max_chars)
    problems = schema_errors(schema, data)
    if problems:
        raise INPUT_INVALID(workflow=definition.id, problems="; ".join(problems))
    guardrails.require_call(data)
    model = resolve_model(definition.model, os.environ) if definition.asks_model else NO_MODEL
    return {"objective": text, "input": data, "model": model}


def body_fields(body: Mapping[str, Any], model: str) -> dict[str, Any]:
    """Return what a child run takes that works on items of a FOR_EACH of its parent; all of it is the parent's."""
    text = f"{_item_words(body['indices'])} of '{body['node']}'"
    return {"objective": text, "input": body["input"], "body": body, "model": model}


def _item_words(indices: Sequence[int]) -> str:
    first, last = indices[0], indices[-1]
    if first == last:
        return f"Item {first}"
    is_whole = last - first + 1 == len(indices)  # a retry has some of them
    return f"Items {first} to {last}" if is_whole else f"{len(indices)} of the items {first} to {last}"


def require_kind(definition: AgentDefinition, *, is_workflow: bool) -> None:
    """Return where a definition is a workflow's, or an agent's, as its start expects.

    Raises:
        WORKFLOW_MISSED: it is of the other kind.
    """
    if definition.is_workflow == is_workflow:
        return
    if is_workflow:
        problem = f"'{definition.id}' is an agent and no workflow; start it with `agent` and a message."
    else:
        problem = f"'{definition.id}' is a workflow, which takes no message; start it with `workflow` and `input`."
    raise WORKFLOW_MISSED(problem=problem)


def child_nodes(
    journal: Journal, definition: AgentDefinition, source: RepeatedRun, origin: Origin, about: Mapping[str, Any]
) -> frozenset[str]:
    """Return the paths of the nodes that a child run makes again, which continues from an earlier child.

    They are all where it is given other data, and all of an item that is another one.
    """
    body, before = about.get("body"), source.body
    paths = frozenset(step["node"] for step in source.nodes)
    if (body is None) != (before is None) or source.input != about["input"]:
        return paths
    redo = retried_nodes(journal, definition, source, origin)
    if body is None or before is None:
        return redo
    if body["outputs"] != before["outputs"]:
        return paths
    items = dict(zip(before["indices"], before["items"], strict=True))
    same = [i for i, item in zip(body["indices"], body["items"], strict=True) if i in items and items[i] == item]
    kept = tuple("/".join(map(str, (*body["path"], body["node"], index, ""))) for index in same)
    return redo | {path for path in paths if not path.startswith(kept)}


def retried_nodes(journal: Journal, definition: AgentDefinition, source: RepeatedRun, origin: Origin) -> frozenset[str]:
    """Return the paths of the nodes that the retry of a run makes again.

    Raises:
        WORKFLOW_MISSED: items alone are to be made again, and a blueprint has none.
        RUN_NOT_REPEATABLE: they are, and none has failed.
    """
    from config.definitions.workflows.fields import WorkflowDefinition  # most processes have no workflow
    from config.definitions.workflows.redo import calls_from_the_first_failed, redo_of

    assert isinstance(definition, WorkflowDefinition)
    if origin.kind != "retry":
        return frozenset()
    if definition.blueprint is not None and origin.items_only:
        raise WORKFLOW_MISSED(problem=f"'{definition.id}' is a blueprint, which has no items; retry the whole run.")
    if definition.blueprint is not None:
        return calls_from_the_first_failed(source.nodes)
    before_json = journal.readers.recorded_definition(source.definition_digest)
    before: Any = None
    with suppress(DefinitionInvalid):  # this code does not take it any more: nothing is known to have changed
        if before_json is not None:
            before = pinned_definition(source.agent_id, source.definition_digest, before_json)
    redo = redo_of(definition, before, source.nodes, items_only=origin.items_only)
    if origin.items_only and not redo:
        raise RUN_NOT_REPEATABLE(
            f"no item of run '{origin.run_id}' has failed, so there is nothing to retry; where a workflow that it "
            "called has failed items, start that one with them.",
            run_id=origin.run_id,
        )
    return redo
