"""A node that calls a tool: the call passes the stages of every tool call, and is a step like one of an agent's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import orjson

from agents.errors import OUTCOME_UNKNOWN
from agents.models.streams.tool_calls import ToolCall
from agents.steps import open_calls
from agents.steps.tool_step import ToolStep
from agents.tools.tool import Tool
from agents.workflows.calls.model_call import LABELS
from agents.workflows.calls.node_call import NodeCall, NodeFailed
from agents.workflows.calls.scope import NodeOutput
from bus.journal.errors import StickyOver
from bus.journal.owner import Commit, OpenStep, StepStarted
from config.errors import CallboardError


def tool_step(call: NodeCall, tool: Tool, arguments_text: str, prior: OpenStep | None = None) -> ToolStep:
    """Return the step of a node's call; ``prior``: as an earlier owner left it."""
    executor = call.executor
    its = ToolCall(id=call.path, name=tool.name, arguments_text=arguments_text)
    return open_calls.new_step(executor.context, executor.definition, {tool.name: tool}, its, prior)


async def called(call: NodeCall, tool: Tool, arguments: Mapping[str, Any]) -> NodeOutput | None:
    """Make a node's call, and return its result; None where it waits for a person, a task or a child run.

    Raises:
        NodeFailed: the call was refused, has failed, or its outcome is unknown; or a person or the policy ends the run.
    """
    executor = call.executor
    step = executor.open.get(call.path)
    if step is None:
        step = await _begun(call, tool, arguments)
        executor.open[call.path] = step
    try:
        open_calls.require_wanted([step])
    except CallboardError as error:
        raise NodeFailed(error, ends_run=True) from error
    await step.run()
    if step.work.is_pending or open_calls.waits_for_a_person(step, executor.definition.on_unknown):
        return None
    return concluded(call, step)


async def _begun(call: NodeCall, tool: Tool, arguments: Mapping[str, Any]) -> ToolStep:
    """Return the step of a new call, whose start is committed."""
    executor, context = call.executor, call.executor.context
    text = orjson.dumps(dict(arguments)).decode()
    while True:
        await context.read_sticky([tool])
        step = tool_step(call, tool, text)
        notes = await open_calls.ask_engine(context, [step])
        events = [*notes, call.event("started", step_id=step.id), step.call_event(executor.message_id)]
        sticky = open_calls.sticky_of([step])
        change = Commit(events=events, started=[_written(call, step)], sticky=sticky)
        context.spending.begin(1)
        if not sticky:
            executor.ledger.add(change)
            await executor.ledger.flush()
            return step
        try:
            await executor.ledger.flush()
            await context.save(change)
        except StickyOver:  # revoked since it was read
            continue
        return step


def _written(call: NodeCall, step: ToolStep) -> StepStarted:
    """Return the start of a call with its node, and with the arguments as they may be recorded."""
    return replace(step.started(), node=call.path, input=recorded_arguments(step))


def recorded_arguments(step: ToolStep) -> Any:
    """Return the arguments of a call as they may be recorded."""
    return orjson.loads(step.record.call.arguments_text)


def concluded(call: NodeCall, step: ToolStep) -> NodeOutput:
    """Return the result of a call that has ended.

    Raises:
        NodeFailed: it was refused, has failed, or its outcome is unknown.
    """
    executor, end = call.executor, step.work.end
    assert end is not None, "run() comes first"
    change = replace(step.outcome(executor.message_id), history=())
    executor.open.pop(call.path, None)
    tool, has_its_labels = step.record.tool, call.node.type in ("SUB_WORKFLOW", "FOR_EACH")
    written = LABELS if tool is not None and tool.child is not None and not has_its_labels else frozenset[str]()
    labels = call.labels_got = step.record.labels(step.decision) | end.labels | written
    executor.saga.note_call(call.path, step)
    if end.outcome != "done" or end.error is not None:
        raise NodeFailed(end.error or OUTCOME_UNKNOWN(str(end.result)), change, labels=labels)
    call.change = change
    return NodeOutput(value=end.result, labels=labels)
