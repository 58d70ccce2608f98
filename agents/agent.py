"""The agent loop: calls the model, runs the tools that it calls, and repeats until the model answers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from agents.context import RunContext
from agents.errors import OutputInvalid
from agents.models.call import ModelCall
from agents.models.fallbacks import Models
from agents.models.streams.tool_calls import ToolCall
from agents.steps import open_calls
from agents.steps.handover import PlannedHandover
from agents.steps.model_request import model_request, parse_output, repair_messages
from agents.steps.model_step import ModelStep
from agents.steps.prompt_guard import asking
from agents.steps.tool_step import ToolStep
from agents.tools.results import in_thread_if_large
from agents.tools.tool import Tool
from bus.journal.errors import ControlsChanged, StickyOver
from bus.journal.owner import (
    Commit,
    Ending,
    FirstCommit,
    HistoryItem,
    OpenStep,
    Progress,
    Reason,
    end_commit,
    end_event,
)
from config.definitions.agent import AgentDefinition

CALLS_AT_ONCE = 16
"""Tool calls of one answer that run at the same time."""


class Agent:
    """One configured agent working on one run.

    The algorithm of ``run``:

    1. Build the chat input: system prompt, the thread's history, the tools on offer.
    2. Commit the model step as started; the first one together with the claim.
    3. Have LiteLLM open the provider's stream (``agents/models/open.py``).
    4. Wrap it (``StreamedResponseWrapper``): each chunk is a delta, numbered and published at once.
    5. If the call fails with a retryable error: withdraw what it streamed, write an error event, wait, call again;
       where its model cannot answer, call one of the agent's ``fallbacks`` in the same way.
    6. Commit the whole message, its usage, and every tool call as started, in one transaction.
    7. No tool calls: check the answer against the output schema (one repair), and end.
    8. Run the calls at once; commit each result; the last one shares its commit with the next step 2.
    9. After ``max_iterations`` rounds call the model once more without tools, so that there is a usable answer.
    10. Commit the end: status, reason, output, usage, cost.

    A run that had an owner before resumes after that owner's last commit: recorded steps are not repeated, an open
    model call is made again, and an open tool call is made again, checked or left unknown, by its effect's policy. If
    a call's outcome is unknown, the run waits for a person, fails, or gives the model that outcome (``on_unknown``).

    A call that hands over to another agent is the only one of its answer. Its result is committed with the hand-over
    and the run's release; the next owner continues with the other agent, and what the run has used counts on.

    A stop, a lost lease or the end of the process cancels the task at any point. Then ``finish`` ends the run with a
    valid history, or ``release`` gives it back for the next owner.
    """

    def __init__(
        self,
        definition: AgentDefinition,
        tools: Mapping[str, Tool],
        context: RunContext,
        progress: Progress = Progress(),
    ) -> None:
        self._definition, self._tools = definition, tools
        self._context, self._progress = context, progress
        self._models = Models(definition, context.lease.model, progress.model)
        context.lease = replace(context.lease, model=self._models.current.model)
        self._rounds, self._rounds_bought, self._calls_of = progress.rounds, progress.rounds_bought, progress.calls_of
        context.spending.rounds_left = self._max_rounds - self._rounds + 1
        self._ask = asking(context, definition, tools, progress)
        self._step: ModelStep | None = None
        self._calls: list[ToolStep] = []
        self._repair = repair_messages(r["text"], r["problem"]) if (r := progress.repair) is not None else []

    def begin(self) -> FirstCommit:
        """Set the step or the calls with which ``run`` begins, and return what has to be committed before it.

        A resumed run begins with what its last owner left open.
        """
        progress = self._progress
        if progress.calls:
            self._calls = [
                open_calls.resumed(self._context, self._definition, self._tools, step) for step in progress.calls
            ]
            return open_calls.first_commit(self._calls, progress.calls)
        if progress.asking is not None:
            self._step = step = self._model_step(prior=progress.asking)
            self._context.spending.resume(lambda: step.spent)
            return FirstCommit(restarted=[self._step.id], decided={self._step.id: self._step.policy_decision})
        steered = self._context.inbox.steered(at_claim=True)
        step = self._begin(self._model_step(steered=steered.history))
        self._take_up(steered)
        return FirstCommit(events=steered.events, history=steered.history, started=[step.started()])

    async def run(self) -> None:
        """Execute the run from its present state until it has ended or is released.

        Raises:
            CallboardError: it failed; the caller ends it with ``finish``.
            StaleOwner: another worker owns the run now.
        """
        assert self._step is not None or self._calls, "begin() comes first"
        await self._ask_engine_about_begun()
        step = self._step if self._step is not None else await self._run_calls()
        while step is not None and (answer := await self._ask(step)) is not None:
            text = await step.report_to_engine(answer.text)
            if answer.tool_calls and not self._is_last:
                step = await self._use_tools(step, text, answer.tool_calls)
            else:
                step = await self._conclude(step, text)

    async def _ask_engine_about_begun(self) -> None:
        """Ask the governance engine about what the claim has begun, and commit what is decided."""
        context, step = self._context, self._step
        if context.governance is None:
            return
        if step is None:
            await open_calls.ask_engine_about_begun(context, self._calls)
            return
        notes = await step.ask_engine()
        await context.save(Commit(events=notes, decided={step.id: step.policy_decision}))

    @property
    def _is_last(self) -> bool:
        """Whether every round with tools is used up, so that the model has to answer without tools."""
        return self._rounds >= self._max_rounds

    @property
    def _max_rounds(self) -> int:
        return self._context.inbox.allowed_rounds(self._definition.max_iterations) + self._rounds_bought

    def _take_up(self, steered: Commit) -> None:
        """Count the round that texts of clients buy, and keep these for the calls of the model to come."""
        for item in steered.history:
            self._context.chat_history.add(item)
        self._rounds_bought += bool(steered.history)

    # --- asking

    def _model_step(self, prior: OpenStep | None = None, steered: Sequence[HistoryItem] = ()) -> ModelStep:
        """Return a call of the model with the conversation so far, and with the texts of clients behind it."""
        definition, context = self._definition, self._context
        request = model_request(
            definition,
            context.chat_history,
            self._tools,
            context.lease.roles,
            max_result_chars=context.settings.max_result_chars,
            steered=steered,
            repair=self._repair,
            is_last=self._is_last and not steered,
        )
        starters, timeouts = definition.starters, definition.timeouts
        call = ModelCall(**dict(self._models.current), **request, starters=starters, timeouts=timeouts)
        return ModelStep(context, call, self._models, prior=prior)

    def _begin(self, step: ModelStep) -> ModelStep:
        """Make ``step`` the current one: its start is committed, and so are the results of the calls before it."""
        self._context.spending.begin(1, lambda: step.spent)
        self._step, self._calls = step, []
        return step

    # --- answering

    async def _conclude(self, step: ModelStep, text: str) -> ModelStep | None:
        """End with this answer, or return the step that repairs it."""
        output: Any = text
        if self._definition.output_schema is not None:
            try:
                output = await in_thread_if_large(len(text), parse_output, text, self._definition.output_schema)
            except OutputInvalid as error:
                if self._repair:
                    raise
                refused = await step.refuse(text, error)
                self._repair = repair_messages(text, str(error))
                return await self._continue(Commit(ended=[refused]))
        if self._is_last and not text.strip():
            output = "I used every tool call I may make without reaching an answer."
        change = step.concluded(output if isinstance(output, str) else text)
        reason = Reason.MAX_ITERATIONS if self._is_last else None
        end = end_event("succeeded", self._context.spending.total, self._context.took, reason=reason, output=output)
        inbox = self._context.inbox
        await inbox.settle()
        if not inbox.has_steers:
            with suppress(ControlsChanged):  # a text arrived meanwhile
                await self._context.save_end(replace(change, events=[*change.events, end]))
                return None
        return await self._continue(change)

    # --- using tools

    async def _use_tools(self, step: ModelStep, text: str, tool_calls: Sequence[ToolCall]) -> ModelStep | None:
        """Run every call of the answer and return the next model step, committed as started."""
        await self._context.read_sticky(self._tools.get(call.name) for call in tool_calls)
        calls = [await self._checked(call) for call in tool_calls]
        open_calls.refuse_handover_beside_others(calls)
        notes = await open_calls.ask_engine(self._context, calls)
        message = step.concluded(text, calls)
        release, answers = await self._context.inbox.departure()
        call_events = (call.call_event(step.message_id) for call in calls)
        change = replace(
            message,
            events=[*message.events, *notes, *call_events, *answers, *open_calls.moved(release)],
            started=[call.started("planned" if release else "started") for call in calls],
            sticky=() if release else open_calls.sticky_of(calls),
            release=release,
        )
        try:
            await self._context.save(change, then=lambda: self._track_calls(calls, step))
        except (StickyOver, ControlsChanged):  # revoked, or taken back, since it was read
            await self._context.inbox.refresh()
            return await self._use_tools(step, text, tool_calls)
        return None if release else await self._run_calls()

    async def _checked(self, call: ToolCall) -> ToolStep:
        """Return the call with its arguments decoded and validated against the tool's schema."""
        size, needed = len(call.arguments_text), (self._context, self._definition, self._tools)
        return await in_thread_if_large(size, open_calls.new_step, *needed, call)

    def _track_calls(self, calls: list[ToolStep], step: ModelStep) -> None:
        """Make these the open calls: from here on each needs a result, also if the run ends early."""
        self._context.spending.begin(len(calls))
        self._step = None
        self._calls, self._calls_of = calls, step.message_id
        self._rounds += 1
        self._context.spending.rounds_left = self._max_rounds - self._rounds + 1

    async def _run_calls(self) -> ModelStep | None:
        """Run the calls at once and commit each result, the last one with the step that follows.

        Returns None where the run was released: this process ends, or the outcome of a call is unknown.
        """
        open_calls.require_wanted(self._calls)
        taken, others = await open_calls.take_children(self._calls, self._calls_of)
        if taken is not None and not others:
            return await self._continue(taken)
        if taken is not None:
            await self._context.save(taken, then=partial(setattr, self, "_calls", others))
        limit, left = asyncio.Semaphore(CALLS_AT_ONCE), len(self._calls)
        tasks = [asyncio.create_task(_run(call, limit)) for call in self._calls]
        try:
            for finished in asyncio.as_completed(tasks):
                call = await finished
                left -= 1
                if call.work.is_pending or open_calls.waits_for_a_person(call, self._definition.on_unknown):
                    continue
                outcome = open_calls.outcomes([call], self._calls_of)
                if left == 0 and self._calls == [call]:
                    return await self._continue(outcome, call.work.handover)
                await self._context.save(outcome, then=partial(self._calls.remove, call))
        except BaseException:  # a stop, or another worker owns the run: every call is cancelled
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            raise
        if self._calls:
            await open_calls.wait(self._context, self._calls, self._definition.on_unknown)
            return None
        return await self._continue(Commit())

    async def _continue(self, change: Commit, handover: PlannedHandover | None = None) -> ModelStep | None:
        """Commit ``change`` with the start of the next model step, or with the release where this process ends, or
        where another agent continues the run."""
        for item in change.history:
            self._context.chat_history.add(item)
        while True:
            try:
                following = await self._leave_step(change, handover)
            except ControlsChanged:
                await self._context.inbox.refresh()
            else:
                await self._context.note_calls_over()
                return following

    async def _leave_step(self, change: Commit, handover: PlannedHandover | None) -> ModelStep | None:
        """Commit what follows a step: the next one, with the texts of clients that have arrived, or the release.

        Raises:
            ControlsChanged: a client has taken something back meanwhile; nothing is committed.
        """
        inbox = self._context.inbox
        await inbox.settle()
        release, answers = await inbox.departure()
        if handover is not None:
            release = handover.release(release)
        steered = inbox.steered() if release is None else Commit()
        following = self._model_step(steered=steered.history) if release is None else None
        notes = await following.ask_engine() if following is not None else ()
        handed_over = [handover.event] if handover is not None else []
        history = change.history if handover is None else [handover.marked(item) for item in change.history]
        change = replace(
            change,
            events=[*change.events, *steered.events, *notes, *handed_over, *answers, *open_calls.moved(release)],
            history=[*history, *steered.history],
            started=[following.started()] if following is not None else [],
            release=release,
        )
        await self._context.writer.commit(change, then=partial(self._step_on, following, steered))
        return following

    def _step_on(self, following: ModelStep | None, steered: Commit) -> None:
        """Begin the step that follows, where this process makes it."""
        if following is not None:
            self._begin(following)
            self._take_up(steered)
        self._context.inbox.committed(steered.events)

    # --- ending early

    async def release(self) -> None:
        """Release the run in the middle of a step; results of completed calls are committed."""
        await self._context.writer.settle()  # which calls are open depends on the commit under way
        await self._context.save(open_calls.given_back(self._calls, self._calls_of))

    async def finish(self, ending: Ending) -> None:
        """End a run early: partial text is kept and marked, and every open call gets a result."""
        await self._context.writer.settle()  # which calls are open depends on the commit under way
        parts = [self._step.cut_off(ending.step_status)] if self._step is not None else []
        closed = open_calls.joined([*parts, open_calls.cut_off(self._calls, self._calls_of, ending)])
        await self._context.save_end(end_commit(ending, closed, self._context.spending.total, self._context.took))


async def _run(call: ToolStep, limit: asyncio.Semaphore) -> ToolStep:
    async with limit:
        await call.run()
    return call
