"""The child run of one call: accepted with a commit of its parent, and read back when it has ended."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import partial
from typing import Any

from agents.context import RunContext
from agents.delegation.agent_tool import MESSAGE
from agents.delegation.router import routed_call
from agents.delegation.workflow_input import body_fields, child_nodes, input_fields
from agents.governance.guardrails.guardrails import Guardrails, sealing_guardrails
from agents.models.auto import resolve_model
from agents.process import Process, opened_process
from agents.prompt import check_objective
from agents.tools.tool import Tool
from bus.journal.clients import NO_MODEL, THREAD, AcceptedChild, NewRun, Origin, Parent
from bus.journal.errors import CHILD_FAILED, DELEGATION_REFUSED, StaleOwner
from bus.journal.owner import ChildRun, Commit, Lease, OpenStep
from bus.payloads import ChildPayload, Payload
from config.definitions.agent import AgentDefinition
from config.definitions.loading import pinned_definition
from config.errors import CallboardError, ModelVisible
from config.identity.contexts import DeclaredContext, declared_for
from config.ids import new_id

REMOVED = "the child run of this call was removed, so its result is not known."
CHANGED = "agent '{agent}' may have changed since this call was approved; call it again."


class ChildWork:
    """One call's child run; a later owner of the parent continues with the child that an earlier one began."""

    def __init__(self, context: RunContext, tool: Tool, step_id: str, call_id: str, prior: OpenStep | None) -> None:
        """``prior``: the step as an earlier owner left it."""
        assert tool.child is not None
        self._context, self._tool, self._agent_id = context, tool, tool.child
        self._step_id, self._call_id, self._prior = step_id, call_id, prior
        self.run: ChildRun | None = prior.child if prior is not None else None
        """The child as it was when this owner claimed the parent."""
        self.is_begun = self.run is not None
        """Whether there is a child."""
        self.is_held = False
        """Whether its result has to wait for that of an earlier call."""

    @property
    def was_removed(self) -> bool:
        """Whether the parent waited for a child that is not there any more."""
        return self.run is None and self._prior is not None and self._prior.status == "waiting"

    @property
    def is_over(self) -> bool:
        """Whether the child had ended when this owner claimed the parent, or is gone."""
        return self.run.is_over if self.run is not None else self.was_removed

    async def begin(self, arguments: Mapping[str, Any], timeout_s: float | None, *, is_approved: bool) -> None:
        """Commit the child run together with the event that says so; it is stopped after ``timeout_s``.

        ``is_approved``: whether a person has approved the call, for the tool as it is here.

        Raises:
            ModelVisible: there is none: the agent may not be started, or the message may not be kept.
            StaleOwner: another worker owns the parent now.
        """
        accepted = partial(self._accepted, declared=declared_for(self._context.lease.tenant), is_approved=is_approved)
        try:
            child = await self._context.loop.wait(accepted, arguments, timeout_s)
            event = self._event(child.run_id, "queued")
            await self._context.save(Commit(events=[event], children=[child]), then=self._note_begun)
        except (ModelVisible, StaleOwner):
            raise
        except CallboardError as error:
            raise DELEGATION_REFUSED(f"agent '{self._agent_id}' was not asked: {error}") from error

    def _note_begun(self) -> None:
        self.is_begun = True

    def _accepted(
        self,
        arguments: Mapping[str, Any],
        timeout_s: float | None,
        *,
        declared: DeclaredContext | None,
        is_approved: bool,
    ) -> AcceptedChild:
        """Return the run that is to be inserted; blocks."""
        process = opened_process()
        assert process is not None, "a run is executed by a process that was opened"
        lease, settings = self._context.lease, self._context.settings
        thread_id = f"{THREAD}_{self._step_id.partition('_')[2]}"  # the same for each try of the call
        body = self._tool.body(arguments) if self._tool.body is not None else None
        if body is not None:
            definition = _own_definition(process, lease)
        else:
            self._require_below(process)
            definition = self._definition(process, thread_id, is_approved=is_approved)
        guardrails, originals = sealing_guardrails(settings, definition.guardrails)
        fields = definition.run_fields()
        fields["is_private"] |= lease.private
        if body is not None:
            about = body_fields(body, lease.model)
        elif definition.is_workflow:
            about = input_fields(definition, arguments, guardrails, settings.max_input_chars)
        else:
            about = self._message_fields(process, definition, arguments[MESSAGE], guardrails)
        new = NewRun(
            **fields | about | self._continued(process, definition, about),
            new_thread_id=thread_id,
            principal=lease.starter,
            detached=True,
            declared=declared,
            parent=self._inherited(timeout_s),
            originals=originals,
        )
        return process.journal.owner.new_child(new)

    def _continued(self, process: Process, definition: AgentDefinition, about: Mapping[str, Any]) -> dict[str, Any]:
        """Return what the child takes from the one that the run has begun here from which its parent continues."""
        recorded = self._context.lease.recorded
        child_id = recorded.child_of(self._call_id) if recorded is not None else None
        source = process.journal.owner.earlier_child(child_id) if child_id is not None else None
        if child_id is None or source is None or source.agent_id != definition.id:
            return {}
        origin = Origin(run_id=child_id, kind="retry")
        if definition.is_workflow:
            return {"origin": origin, "redo": child_nodes(process.journal, definition, source, origin, about)}
        is_same = source.objective == about["objective"] and source.call is None and about["call"] is None
        return {"origin": origin} if is_same else {}

    def _message_fields(
        self, process: Process, definition: AgentDefinition, message: str, guardrails: Guardrails
    ) -> dict[str, Any]:
        """Return what an agent's run takes from its message."""
        check_objective(message, self._context.settings.max_input_chars)
        text = guardrails.input(message)
        call = routed_call(definition, text, process.registry, self._context.lease.starter)
        model = resolve_model(definition.model, os.environ) if call is None else NO_MODEL
        return {"objective": text, "call": call, "model": model}

    def _require_below(self, process: Process) -> None:
        """Check the child's place below the runs above it.

        Raises:
            DELEGATION_REFUSED: it is too deep, or one of them is or was a run of the same agent.
        """
        lineage, most = process.journal.owner.lineage(self._context.lease.run_id), self._context.settings.child_depth
        agents = [agent for run_agents in reversed(lineage) for agent in run_agents]
        if self._agent_id in agents:
            chain = " -> ".join([*agents, self._agent_id])
            raise DELEGATION_REFUSED(
                f"agent '{self._agent_id}' has worked above this call already ({chain}), which would be a circle; "
                "do this yourself, or ask another agent."
            )
        if len(lineage) > most:
            raise DELEGATION_REFUSED(
                f"this run is {most} levels below the first one, as deep as child runs may be "
                "(CALLBOARD_CHILD_DEPTH); do this yourself."
            )

    def _definition(self, process: Process, thread_id: str, *, is_approved: bool) -> AgentDefinition:
        """Return the version of the agent that gets the call: a canary has its share of the children's threads.

        A call that a person approved goes to the version that the question was about, so never to a canary.

        Raises:
            DELEGATION_REFUSED: another version serves in its place by now.
            CallboardError: the agent may not be started.
        """
        starter = self._context.lease.starter
        if not is_approved:
            return process.registry.startable(starter, self._agent_id, thread_id)
        definition = process.registry.startable(starter, self._agent_id)
        if definition.digest != self._tool.implementation:
            raise self.changed
        return definition

    @property
    def changed(self) -> ModelVisible:
        """The error of a call that a person approved, maybe for another version of the agent."""
        return DELEGATION_REFUSED(CHANGED.format(agent=self._agent_id))

    def _inherited(self, timeout_s: float | None) -> Parent:
        lease = self._context.lease
        return Parent(
            child_id=new_id("run"),
            run_id=lease.run_id,
            step_id=self._step_id,
            credential=lease.credential,
            credential_id=lease.credential_id,
            trace_id=lease.trace_id,
            correlation_id=lease.correlation_id,
            labels=frozenset(self._context.labels),
            max_rounds=self._context.spending.rounds_left,
            timeout_ms=round(timeout_s * 1000) if timeout_s is not None else None,
        )

    # --- its end

    @property
    def failure(self) -> ModelVisible | None:
        """Why the child that has ended has no result; None where it has one."""
        if self.run is None:
            return CHILD_FAILED(REMOVED)
        if self.run.status == "succeeded":
            return None
        what = {"cancelled": "was stopped", "dead": "ended, since its workers were lost again and again"}
        ending = what.get(self.run.status, "failed")
        problem = f" ({self.run.problem})" if self.run.problem else ""
        return CHILD_FAILED(f"the run {self.run.run_id} of agent '{self._agent_id}' {ending}{problem}.")

    @property
    def notes(self) -> list[Payload]:
        """The event of the child's end, where the parent's log lacks it."""
        if self.run is None or self.run.is_in_log:
            return []
        return [self._event(self.run.run_id, self.run.status)]

    def _event(self, run_id: str, status: str) -> ChildPayload:
        return ChildPayload(child_run_id=run_id, agent=self._agent_id, status=status, call_id=self._call_id)


def _own_definition(process: Process, lease: Lease) -> AgentDefinition:
    """Return the definition that a run was accepted with.

    Raises:
        DefinitionInvalid: this code does not take it.
    """
    content_json = process.journal.readers.recorded_definition(lease.definition_digest)
    if content_json is None:
        return process.registry.get(lease.agent_id)
    return pinned_definition(lease.agent_id, lease.definition_digest, content_json)
