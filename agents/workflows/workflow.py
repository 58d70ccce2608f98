"""A run of kind ``workflow``: its graph is walked by one owner after another, until it ends or waits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from agents.context import RunContext
from agents.errors import OutputInvalid
from agents.steps import open_calls
from agents.steps.model_step import ModelStep
from agents.steps.tool_step import ToolStep
from agents.tools.tool import Tool
from agents.workflows.blueprint_executor import BlueprintExecutor
from agents.workflows.calls.tool_call import tool_step
from agents.workflows.executor import DynamicWorkflowExecutor
from agents.workflows.ledger import joined
from agents.workflows.nodes.wait import OpenNode
from agents.workflows.runtime import Runtime
from agents.workflows.saga import SAGA
from agents.workflows.toolbox import toolbox_of
from bus.journal.owner import (
    DRAINED,
    AcceptedInput,
    Commit,
    Ending,
    FirstCommit,
    NodeStep,
    Progress,
    Reason,
    Release,
    end_commit,
    end_event,
)
from bus.payloads import EndPayload, StatusPayload
from config.definitions.schemas.json_schema import schema_errors
from config.definitions.workflows.fields import WorkflowDefinition
from config.definitions.workflows.graph import COMPENSATION

NEW = Progress()
"""That of a run which no owner has begun."""
MOST_WAITS = 20
"""Nodes that the sentence about a waiting run names."""


class Workflow:
    """The work on a run of kind ``workflow``; it begins, resumes, waits, stops and is released like an agent's.

    Each node is a step. A step that calls something is committed as started before, and its result after; what a node
    computes is committed with the next of these.
    """

    def __init__(self, runtime: Runtime, progress: Progress = NEW) -> None:
        """``progress``: how far earlier owners came."""
        self._runtime, self._progress = runtime, progress
        self._definition, self._context, self._saga = runtime.definition, runtime.context, runtime.saga
        self._calls: list[ToolStep] = []

    @property
    def _opened(self) -> list[NodeStep]:
        calls = (step for step in self._progress.nodes if not step.is_over and step.kind == "tool")
        return [step for step in calls if not step.node.endswith(COMPENSATION)]

    @property
    def _left_open(self) -> list[NodeStep]:
        """The other steps that an earlier owner left open, but for the one that says how the run ends."""
        others = (step for step in self._progress.nodes if not step.is_over and step.kind != "tool")
        return [step for step in others if step.node != SAGA]

    def begin(self) -> FirstCommit:
        """Set the calls that an earlier owner left open, and return what has to be committed before they continue."""
        for step in self._opened:
            call, tool = self._runtime.resumed(step)
            self._runtime.open[step.node] = tool_step(call, tool, step.step.arguments_text or "", step.step)
        self._calls = list(self._runtime.open.values())
        self._runtime.open |= {step.node: OpenNode(step.step.id) for step in self._left_open}
        first = open_calls.first_commit(self._calls, [step.step for step in self._opened])
        over = [step.step for step in self._progress.nodes if step.is_over]  # of which a person was asked afterwards
        used = [step.approval_id for step in over if step.approval_id and step.decision]
        answers = (step.step.answer for step in self._progress.nodes)
        events = [answer.unlogged for answer in answers if answer.unlogged is not None]
        return replace(first, events=[*first.events, *events], answers_used=[*first.answers_used, *used])

    async def run(self) -> None:
        """Walk the graph until the run has ended or is released.

        Raises:
            CallboardError: it failed; the caller ends it with ``finish``.
            StaleOwner: another worker owns the run now.
        """
        if self._saga.ending is not None:
            await self.finish(self._saga.ending)
            return
        await open_calls.ask_engine_about_begun(self._context, self._calls)
        finished = await self._runtime.run()
        await self._context.note_calls_over()
        if finished is None:
            await self._leave()
            return
        self._require_fit(finished.output)
        await self._end(finished.output)

    def _require_fit(self, output: Any) -> None:
        """Check the run's output; that of a child run which works on items is no output of the workflow.

        Raises:
            OutputInvalid: it does not fit the workflow's schema.
        """
        schema = self._definition.output if self._runtime.body is None else None
        problems = schema_errors(schema, output) if schema is not None else []
        if problems:
            raise OutputInvalid(f"the output does not fit the workflow's schema: {'; '.join(problems)}.")

    async def _end(self, output: Any) -> None:
        change, context = joined([self._runtime.ledger.take(), self._saga.dropped()]), self._context
        end = end_event("succeeded", context.spending.total, context.took, output=output)
        end = replace(end, not_undone=self._saga.not_reached)
        await context.save_end(replace(change, events=[*change.events, end]))

    # --- waiting

    async def _leave(self) -> None:
        """Release the run: until something comes that a branch waits for, or since this process is to leave it."""
        runtime, context = self._runtime, self._context
        await runtime.ledger.flush()
        calls = [step for step in runtime.open.values() if isinstance(step, ToolStep)]
        release, answers = await context.inbox.departure()
        if release is not None:
            left = open_calls.given_back(calls, runtime.message_id)
            events = [*answers, *open_calls.moved(release)]
            await context.save(replace(left, events=events, history=(), release=release))
            return
        change = await self._waiting(calls)
        assert change.release is not None
        its: dict[str, Any] = {"seen_signals": runtime.untaken_signals, "is_undoing": self._saga.is_begun}
        await context.save(replace(change, release=replace(change.release, **its)))
        if any(wait is not None for wait in change.waiting.values()):
            context.note_task_waits()

    async def _waiting(self, calls: Sequence[ToolStep]) -> Commit:
        """Return the commit with which the run waits for all that its branches wait for."""
        expires_ms = await self._context.wait_expiry_ms()
        questions = self._runtime.questions(expires_ms)
        if questions:
            asks = StatusPayload(status="waiting", reason=Reason.APPROVAL)
            detail = "A person has to decide how the run continues, since its code has changed."
            release = Release(status="waiting", reason=Reason.APPROVAL, questions=tuple(questions), detail=detail)
            return Commit(events=[*(question.payload() for question in questions), asks], release=release)
        if calls:
            return await open_calls.waiting(self._context, calls, self._definition.on_unknown)
        waits = StatusPayload(status="waiting", reason=Reason.SIGNAL)
        waits_at = [f"at '{path}' {node.what}" for path, node in self._runtime.open.items() if node.what]
        more = [f"and at {len(waits_at) - MOST_WAITS:,} more"] if len(waits_at) > MOST_WAITS else []
        detail = f"Waits {', '.join([*waits_at[:MOST_WAITS], *more])}."
        release = Release(status="waiting", reason=Reason.SIGNAL, detail=detail)
        return Commit(events=[waits], release=release)

    # --- ending early

    async def release(self) -> None:
        """Release the run in the middle of its nodes; what has ended is committed."""
        runtime = self._runtime
        await runtime.ledger.settle()
        await self._context.writer.settle()
        calls = [step for step in runtime.open.values() if isinstance(step, ToolStep)]
        left = open_calls.given_back([step for step in calls if not step.is_settled], runtime.message_id)
        change = joined([runtime.ledger.take(), replace(left, history=(), release=None)])
        await self._context.save(replace(change, release=DRAINED))

    async def finish(self, ending: Ending) -> None:
        """End the run early; every open step gets a result."""
        runtime, context = self._runtime, self._context
        await runtime.ledger.settle()
        await context.writer.settle()
        parts = [runtime.ledger.take(), *(self._cut_off(*item, ending) for item in runtime.open.items())]
        runtime.open.clear()
        ending, closed = self._saga.ending or ending, joined(parts)
        if self._saga.has_calls:
            context.inbox.is_ending = True
            await context.save(joined([closed, self._saga.begun(ending)]))
            if not await self._saga.undo():
                await self._leave()
                return
            closed = Commit()
        closed = joined([closed, self._saga.ended()])
        change = end_commit(ending, closed, context.spending.total, context.took)
        *events, end = change.events
        assert isinstance(end, EndPayload)
        await context.save_end(replace(change, events=[*events, replace(end, not_undone=self._saga.not_undone)]))

    def _cut_off(self, path: str, step: Any, ending: Ending) -> Commit:
        if isinstance(step, ToolStep):
            closed = open_calls.cut_off([step], self._runtime.message_id, ending)
            if not path.endswith(COMPENSATION):
                self._saga.note_call(path, step)
            return replace(closed, history=())
        if isinstance(step, ModelStep):
            self._context.spending.add(step.spent)
            return replace(step.cut_off(ending.step_status), history=())
        change: Commit = step.cut_off(ending)
        return change


def workflow_of(
    loaded: tuple[Any, Mapping[str, Tool]],
    context: RunContext,
    accepted: AcceptedInput,
    handlers: Mapping[str, str],
    progress: Progress,
) -> Workflow:
    """Return the work on a workflow's run.

    Raises:
        CallboardError: this code cannot carry it out.
    """
    definition, tools = loaded
    assert isinstance(definition, WorkflowDefinition), "a run of kind workflow has a workflow's definition"
    toolbox, recorded = toolbox_of(definition, tools), progress.nodes
    runtime: Runtime
    if definition.blueprint is not None:
        runtime = BlueprintExecutor(context, definition, toolbox, accepted, recorded)
    else:
        runtime = DynamicWorkflowExecutor(context, definition, toolbox, handlers, accepted, recorded)
    return Workflow(runtime, progress)
