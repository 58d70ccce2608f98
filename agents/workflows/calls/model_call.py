"""A node that asks a model: one call without tools, streamed, retried and recorded like an agent's."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.errors import OutputInvalid
from agents.models.auto import resolve_model
from agents.models.call import ModelCall
from agents.models.errors import ModelKeyMissing
from agents.models.fallbacks import Models
from agents.steps.model_request import parse_output, repair_messages, response_format
from agents.steps.model_step import ModelStep
from agents.tools.results import in_thread_if_large
from agents.workflows.calls.node_call import NodeCall
from bus.journal.owner import Commit, Totals
from config.effects import MODEL

Messages = Sequence[Mapping[str, Any]]


async def asked(
    call: NodeCall,
    messages: Messages,
    *,
    model: str | None = None,
    params: Mapping[str, Any] | None = None,
    schema: Mapping[str, Any] | None = None,
) -> Any:
    """Return a model's answer: its text, or data that fits ``schema``, which it may repair once.

    ``call.change`` ends the step. What the answer is labelled with is the caller's to add (``MODEL``).

    Raises:
        OutputInvalid: the repaired answer does not fit either.
        CallboardError: the model cannot answer, or a policy or a guardrail keeps the answer back.
    """
    call.labels_got |= LABELS
    repair = call.executor.repairs.get(call.path)
    if repair is None:
        try:
            return await _answer(call, messages, model, params, schema)
        except OutputInvalid as error:
            repair = {"text": str(error.facts["answer"]), "problem": str(error)}
    repaired = [*messages, *repair_messages(repair["text"], repair["problem"])]
    return await _answer(call, repaired, model, params, schema)


async def _answer(
    call: NodeCall,
    messages: Messages,
    model: str | None,
    params: Mapping[str, Any] | None,
    schema: Mapping[str, Any] | None,
) -> Any:
    step = _step(call, messages, model, params, schema)
    executor, context = call.executor, call.executor.context
    notes = await step.ask_engine()
    is_resumed = call.prior is not None and step.id == call.prior.step.id
    started = [] if is_resumed else [replace(step.started(), node=call.path, input=_input_of(messages))]
    decided = {step.id: step.policy_decision} if is_resumed else {}
    change = Commit(events=[*notes, call.event("started", step_id=step.id)], started=started, decided=decided)
    context.spending.add(Totals(steps=not is_resumed))
    executor.ledger.add(change)
    await executor.ledger.flush()
    executor.open[call.path] = step
    try:
        answer = await step.ask()
        text = await step.report_to_engine(answer.text)
        output = text if schema is None else await in_thread_if_large(len(text), parse_output, text, schema)
    except OutputInvalid as error:
        executor.open.pop(call.path)
        executor.ledger.add(Commit(ended=[await step.refuse(text, error)]))
        context.spending.add(step.spent)
        call.prior = None
        raise OutputInvalid(str(error), answer=text) from error
    except ModelKeyMissing:  # another worker may have it, and continues with the open step
        raise
    except Exception:
        executor.open.pop(call.path)
        context.spending.add(step.spent)
        call.change = replace(step.cut_off("failed"), history=())
        raise
    executor.open.pop(call.path)
    context.spending.add(step.spent)
    call.change = replace(step.concluded(text), history=())
    return output


def _step(
    call: NodeCall,
    messages: Messages,
    model: str | None,
    params: Mapping[str, Any] | None,
    schema: Mapping[str, Any] | None,
) -> ModelStep:
    executor = call.executor
    definition, lease = executor.definition, executor.context.lease
    accepted = lease.model if model is None else resolve_model(model, os.environ)
    models = Models(definition if model is None else definition.model_copy(update=_ALONE), accepted)
    request = ModelCall(
        **dict(models.current),
        messages=list(messages),
        params={**definition.params, **(params or {})},
        response_format=response_format(schema) if schema is not None else None,
        timeouts=_timeouts(call),
    )
    return ModelStep(executor.context, request, models, prior=call.prior.step if call.prior is not None else None)


_ALONE = {"fallbacks": (), "api_base": None, "api_key_env": None}
"""Of a workflow whose node names a model of its own: what belongs to the workflow's."""


def _timeouts(call: NodeCall) -> Any:
    timeouts, own = call.executor.definition.timeouts, call.node.timeout_s
    return timeouts if own is None else timeouts.model_copy(update={"total_s": min(own, timeouts.total_s)})


def _input_of(messages: Messages) -> dict[str, Any]:
    """Return what the step keeps of what a model is asked."""
    return {str(message["role"]): message["content"] for message in messages}


LABELS = frozenset({MODEL})
"""Of what a model has written."""
