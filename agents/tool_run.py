"""A run of kind ``tool``: one call of one of its agent's tools, made without a model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from agents.context import RunContext
from agents.errors import OUTCOME_UNKNOWN
from agents.models.streams.tool_calls import ToolCall
from agents.steps import open_calls
from agents.steps.tool_step import ToolStep
from agents.tools.tool import Tool
from bus.journal.owner import AcceptedCall, Commit, Ending, FirstCommit, Progress, Totals, end_commit, end_event
from config.definitions.agent import AgentDefinition
from config.errors import CallboardError


class ToolRun:
    """The work on a run of kind ``tool``; it begins, resumes, waits, stops and is released like an agent's.

    The call is a step like a call of a model: the claim commits its start with what was decided, and the result is
    committed with the run's end. The run's output is the result. A call that may not be made, that failed, or whose
    outcome stays unknown fails the run with the call's error.
    """

    def __init__(
        self,
        definition: AgentDefinition,
        tools: Mapping[str, Tool],
        context: RunContext,
        accepted: AcceptedCall,
        progress: Progress = Progress(),
    ) -> None:
        self._definition, self._tools, self._context = definition, tools, context
        self._accepted, self._progress = accepted, progress
        self._call: ToolStep | None = None
        self._own = Totals() if progress.calls else Totals(steps=1)
        """What the call counts; the policy is asked about it before."""

    @property
    def _total(self) -> Totals:
        return self._context.spending.total.plus(self._own)

    def begin(self) -> FirstCommit:
        """Set the call, and return what has to be committed before it is made."""
        prior = self._progress.calls
        if prior:
            (step,) = prior
            self._call = open_calls.resumed(self._context, self._definition, self._tools, step)
            return open_calls.first_commit([self._call], prior)
        call = ToolCall(
            id=self._accepted.call_id, name=self._accepted.name, arguments_text=self._accepted.arguments_text
        )
        self._call = open_calls.new_step(self._context, self._definition, self._tools, call)
        events, sticky = [self._call.call_event(self._accepted.message_id)], open_calls.sticky_of([self._call])
        return FirstCommit(events=events, started=[self._call.started()], sticky=sticky)

    async def run(self) -> None:
        """Make the call and end the run with its result, or release the run until a person or a task decides it.

        Raises:
            CallboardError: the run failed; the caller ends it with ``finish``.
            StaleOwner: another worker owns the run now.
        """
        assert self._call is not None, "begin() comes first"
        call = self._call
        await open_calls.ask_engine_about_begun(self._context, [call])
        open_calls.require_wanted([call])
        await call.run()
        if call.work.is_pending or open_calls.waits_for_a_person(call, self._definition.on_unknown):
            await open_calls.wait(self._context, [call], self._definition.on_unknown)
            return
        await self._context.note_calls_over()
        await self._end(call)

    async def _end(self, call: ToolStep) -> None:
        assert call.work.end is not None, "run() comes first"
        result = call.work.end.result
        closed = open_calls.outcomes([call], self._accepted.message_id)
        error: CallboardError | None = OUTCOME_UNKNOWN(str(result)) if call.is_unknown else call.work.end.error
        took = self._context.took
        if error is not None:
            await self._context.save_end(end_commit(Ending.failed(error), closed, self._total, took))
            return
        end = end_event("succeeded", self._total, took, output=result)
        await self._context.save_end(replace(closed, events=[*closed.events, end]))

    async def release(self) -> None:
        """Release the run in the middle of its call; a call that is completed ends the run."""
        assert self._call is not None, "begin() comes first"
        if self._call.is_settled and not self._call.is_unknown:
            await self._end(self._call)
            return
        await self._context.save(open_calls.given_back([self._call], self._accepted.message_id))

    async def finish(self, ending: Ending) -> None:
        """End the run early; the call gets a result."""
        calls = [self._call] if self._call is not None else []
        closed = open_calls.cut_off(calls, self._accepted.message_id, ending) if calls else Commit()
        await self._context.save_end(end_commit(ending, closed, self._total, self._context.took))
