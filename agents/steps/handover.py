"""The hand-over of a run: another agent continues it, in the same thread and with what the run has used so far."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace

import orjson

from agents.context import RunContext
from agents.errors import HANDOVER_REFUSED
from agents.governance.guardrails.guardrails import Guardrails, guardrails_of
from agents.models.auto import resolve_model
from agents.process import opened_process
from bus.identity.access import may_start
from bus.journal.owner import HANDED_OVER, Handover, HistoryItem, Release
from bus.payloads import HandoverPayload
from config.definitions.agent import AgentDefinition
from config.errors import CallboardError, ModelVisible
from config.identity.principal import Principal
from config.text.names import did_you_mean

MAX_LISTED = 20
"""Most agents in a sentence, which the model reads too."""
SHOWN_PART = 2
"""So many times an agent's ``history_chars`` are more than it is shown and a summary is made from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PlannedHandover:
    """A hand-over that is committed with the result of the call that asked for it."""

    handover: Handover
    reason: str
    """What the agent said about it."""

    @property
    def event(self) -> HandoverPayload:
        from_agent = self.handover.handed_from[-1]
        return HandoverPayload(from_agent=from_agent, to_agent=self.handover.agent_id, reason=self.reason or None)

    def marked(self, item: HistoryItem) -> HistoryItem:
        """Return the call's result as it is stored: from it on the thread has another agent."""
        return replace(item, data={**item.data, "handed_over": True})

    def release(self, planned: Release | None) -> Release:
        """Return the release that hands the run over; ``planned``: how it was to be released anyway."""
        if planned is None or planned.status == "queued":
            planned = HANDED_OVER
        return replace(planned, handover=self.handover)


class StartableAgents:
    """The agents to which one call may hand its run over: those that the run's principal may start."""

    def __init__(self, context: RunContext, tool: str, *, may_hand_over: bool) -> None:
        """``may_hand_over``: whether the tool is one that hands over, so that its call is alone in its answer."""
        self._context, self._tool, self._may_hand_over = context, tool, may_hand_over
        self.planned: PlannedHandover | None = None
        """What the call has asked for."""

    @property
    def _principal(self) -> Principal:
        lease = self._context.lease
        return Principal(tenant=lease.tenant, id=lease.principal, roles=lease.roles, agents=lease.agents)

    def startable(self) -> Sequence[AgentDefinition]:
        """Return them, sorted by id."""
        process, principal = opened_process(), self._principal
        seen = process.registry.seen_by(principal) if process is not None else []
        return [agent for agent in seen if not agent.is_workflow and may_start(principal, agent)]

    def hand_over(self, agent_id: str, reason: str) -> AgentDefinition:
        """Have the agent continue the run once this call has returned, and return it.

        Raises:
            HANDOVER_REFUSED: it may not; the sentence lists those that may.
        """
        if not self._may_hand_over or self._context.lease.kind != "agent":
            raise HANDOVER_REFUSED(
                f"Not done: {self._tool} is no call of a conversation's agent, or its tool is not marked `hands_over`."
            )
        above = self._agents_above()
        taken = {self._context.lease.agent_id, *above}
        agents = {agent.id: agent for agent in self.startable() if agent.id not in taken}
        if agent_id not in agents:
            raise self._refused(agent_id, agents, above)
        definition = self._served(agent_id)
        self._require_accepted(definition, reason)
        self.planned = PlannedHandover(handover=self._handover(definition), reason=reason)
        return definition

    def _served(self, agent_id: str) -> AgentDefinition:
        """Return the version of an agent that serves the run's thread, as it does for the thread's next turns."""
        process = opened_process()
        assert process is not None, "a run is executed in an open process"
        try:
            return process.registry.startable(self._principal, agent_id, self._context.lease.thread_id)
        except CallboardError as error:
            raise HANDOVER_REFUSED(f"Not done: {error}") from error

    def _agents_above(self) -> Sequence[str]:
        """Return the agents of the runs that wait for this one, the first run's first."""
        process, lease = opened_process(), self._context.lease
        if process is None or lease.parent_id is None:
            return ()
        _, *above = process.journal.owner.lineage(lease.run_id)
        return [agent for run_agents in reversed(above) for agent in run_agents]

    def _refused(self, agent_id: str, agents: dict[str, AgentDefinition], above: Sequence[str]) -> ModelVisible:
        names = [*agents]
        listing = ", ".join(names[:MAX_LISTED]) or "none"
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        if agent_id == self._context.lease.agent_id:
            problem = f"'{agent_id}' has the conversation already"
        elif agent_id in above:
            chain = " -> ".join([*above, self._context.lease.agent_id, agent_id])
            problem = f"'{agent_id}' has worked above this run already ({chain}), which would be a circle"
        else:
            problem = f"there is no agent '{agent_id[:80]}' that '{self._context.lease.principal}' may start"
        return HANDOVER_REFUSED(
            f"Not done: {problem}.{did_you_mean(agent_id[:80], names)} Agents to hand over to: {listing}{more}."
        )

    def _handover(self, definition: AgentDefinition) -> Handover:
        lease = self._context.lease
        try:
            model = resolve_model(definition.model, os.environ)
        except CallboardError as error:
            raise HANDOVER_REFUSED(f"Not done: '{definition.id}' has no model here: {error}") from error
        before: list[str] = orjson.loads(lease.handed_from_json or "[]")
        return Handover(
            agent_id=definition.id,
            agent_name=definition.name,
            definition_digest=definition.digest,
            definition_json=definition.content_json,
            model=model,
            observers=tuple(dict.fromkeys([*lease.observers, *definition.observers])),
            queue=definition.queue,
            private=definition.access.runs == "private",
            handed_from=(*before, lease.agent_id),
        )

    def _require_accepted(self, definition: AgentDefinition, reason: str) -> None:
        """Return if the other agent's guardrails have nothing to remove from what it is about to read: the reason, what
        users wrote that fits its own history, hidden from the agent before or not, and the texts that are unread.

        Raises:
            HANDOVER_REFUSED: they have; the messages are stored as the guardrails so far have left them.
        """
        try:
            guardrails = Guardrails(guardrails_of(self._context.settings, definition.guardrails))
        except CallboardError as error:
            raise HANDOVER_REFUSED(f"Not done: the guardrails of '{definition.id}' cannot be read: {error}") from error
        for text in (reason, *self.texts_for(definition)):
            reasons = guardrails.check_input(text).reasons
            if reasons:
                what = "the reason" if text is reason else "a message of the user"
                raise HANDOVER_REFUSED(
                    f"Not done: the guardrails of '{definition.id}' do not let it read {what} ({', '.join(reasons)}). "
                    "Give another reason, or have the user begin a conversation with it."
                )

    def texts_for(self, definition: AgentDefinition) -> list[str]:
        """Return what users wrote and the other agent is about to be shown, or to summarise."""
        process, lease = opened_process(), self._context.lease
        assert process is not None, "a run is executed in an open process"
        chars = SHOWN_PART * definition.history_chars
        past = process.journal.stores.summaries.messages(lease.thread_key, lease.turn, chars)
        items = [*([past.sentence] if past.sentence is not None else []), *past.items]
        steers = [request.content for request in self._context.inbox.unread.copy().values() if request.kind == "steer"]
        return [*(item.data.get("content") or "" for item in items if item.role == "user"), *steers]
