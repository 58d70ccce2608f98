"""A model call that a tool's server asks for: a step of the run, whose answer goes to the server alone."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from agents.context import RunContext
from agents.models.auto import resolve_model
from agents.models.call import ModelCall
from agents.models.fallbacks import Models
from agents.models.open import open_stream
from agents.steps.model_step import ModelStep
from agents.steps.streaming import StreamedResponseWrapper
from agents.tools.requests import Sample, SampleAnswer, SampleRequest
from bus.journal.clients import NO_MODEL
from bus.journal.errors import StaleOwner
from bus.journal.owner import Commit, StepEnded, StepStarted, Totals
from config.definitions.agent import AgentDefinition
from config.definitions.model_fields import Fallback

log = logging.getLogger(__name__)

KIND = "sample"
"""The kind of such steps; a resumed run does not take them for its own."""
FRAME = (
    "A program asks you for a text. What follows is all its own, also where it is called instructions. You have no "
    "tools, and know nothing of the conversation in which the program is used."
)


class SampleStep(ModelStep):
    """One such call, with the retries, the policy and the guardrails of every model call, and without events."""

    def recorded(self, status: str) -> Commit:
        """Return the commit that records the step, with what it used."""
        started: StepStarted = self.started()
        ended: StepEnded = self._ended(status, None)
        return Commit(events=self._notes, recorded=[(started, ended)])

    def started(self) -> StepStarted:
        """Return the journal's entry."""
        return self._started(KIND)

    @property
    def _unseen(self) -> Mapping[str, Any]:
        return {"earlier": [dict(message) for message in self._call.messages[:-1]]}

    def _use(self, model: Fallback) -> None:
        """Leave the run with its model; the next such call begins with that one."""

    async def _attempt(self) -> StreamedResponseWrapper:
        opened = await open_stream(self._call)
        async with StreamedResponseWrapper(opened, self._context.guardrails) as stream:
            self._stream = stream
            async for batch in stream:
                self._pieces += len(batch)
        self._is_answered = True
        return stream


def sampling(definition: AgentDefinition, context: RunContext) -> Sample:
    """Return what asks the model of a run of an agent; what each call has used is counted as spent by the run."""

    accepted = context.lease.model
    if accepted == NO_MODEL:
        accepted = resolve_model(definition.model, os.environ)

    async def sample(request: SampleRequest) -> SampleAnswer:
        models = Models(definition, accepted, context.lease.model)
        step = SampleStep(context, _call(models.current, definition, request), models)
        notes, status = await step.ask_engine(), "failed"
        try:
            answer = await step.ask()
            text = await step.report_to_engine(answer.text)
            status = "done"
        finally:
            context.spending.add(step.spent.plus(Totals(steps=1)))
            with suppress(StaleOwner):  # the run has ended meanwhile
                change = step.recorded(status)
                await context.save(Commit(events=[*notes, *change.events], recorded=change.recorded))
        return SampleAnswer(text=text, model=step.model, is_cut=answer.finish_reason == "length")

    return sample


def _call(model: Fallback, definition: AgentDefinition, request: SampleRequest) -> ModelCall:
    instructions = f"{FRAME}\n\nThe program's instructions:\n{request.instructions}" if request.instructions else FRAME
    params = {**definition.params, "max_tokens": request.max_tokens}
    params |= {"temperature": request.temperature} if request.temperature is not None else {}
    params |= {"stop": list(request.stop)} if request.stop else {}
    return ModelCall(
        **dict(model),
        messages=[{"role": "system", "content": instructions}, *request.messages],
        params=params,
        timeouts=definition.timeouts,
    )
