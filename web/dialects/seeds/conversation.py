"""The seven calls of the first chat design: each caller has one conversation, unless it names others."""

from __future__ import annotations

from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field

from agents.errors import AgentUnknown
from bus.journal.errors import (
    APPROVER_REFUSED,
    ARGUMENTS_DIFFER,
    IDEMPOTENCY_CONFLICT,
    ApprovalDecided,
    ApprovalOver,
)
from config.definitions.errors import DefinitionInvalid
from web.api.answers import STARTING, accepted, answer
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import MessagePlace, Repeatable, Whole
from web.dialects.seeds.agent_goal_workflow import AgentGoal, AgentGoalWorkflow, ConversationHistory, ToolData
from web.errors import NO_STARTERS, NOTHING_TO_CONFIRM, SEVERAL_TO_CONFIRM
from web.process import current_process
from web.schemas.approval import DecidedApproval
from web.schemas.paths import AgentName, Sentence, ThreadName
from web.schemas.run import AcceptedRun

conversation = Blueprint("conversation", __name__)

OWN = "conversation"
"""The thread of a caller that names none. Threads are named by their owner, so each principal has its own."""


class WhichConversation(Input):
    """Which conversation is meant."""

    thread_id: ThreadName = OWN
    """Your own name for it; absent: the one that you have without a name."""

    @property
    def workflow(self) -> AgentGoalWorkflow:
        return AgentGoalWorkflow(self.thread_id)


class StartWorkflow(WhichConversation):
    """What the conversation is begun with."""

    agent_id: Maybe[AgentName] = None
    """The agent; absent: the default agent."""


@conversation.post("/start-workflow")
@call(
    {202: AcceptedRun},
    problems=(NO_STARTERS, *STARTING),
)
def start(body: StartWorkflow, headers: Repeatable) -> Response:
    """Send an agent the first of its ``starters``: 202 with the run's addresses."""
    process = current_process()
    agent_id = process.settings.default_agent if body.agent_id is None else body.agent_id
    agent = process.runner.registry.startable(current_principal(), agent_id)
    if not agent.starters:
        raise NO_STARTERS(agent_id=agent.id)
    return accepted(body.workflow.user_prompt(agent.starters[0], agent.id, body, headers))


class SendPrompt(WhichConversation):
    """A message for the conversation's agent."""

    prompt: Sentence
    """The message."""


@conversation.post("/send-prompt")
@call({202: AcceptedRun}, problems=STARTING)
def send(body: SendPrompt, headers: Repeatable) -> Response:
    """Send a message to the agent of the conversation, which begins with the default agent: 202 with the run."""
    return accepted(body.workflow.user_prompt(body.prompt, None, body, headers))


class Confirm(WhichConversation):
    """Which call is approved."""

    call_id: Maybe[Annotated[str, Field(max_length=200)]] = None
    """The call's id, or that of its approval; absent: the only one that waits."""
    digest: Maybe[Annotated[str, Field(pattern="^[0-9a-f]{64}$")]] = None
    """The digest of the arguments that you were shown; the approval is refused where it is another one."""


@conversation.post("/confirm")
@call(
    {200: DecidedApproval},
    problems=(
        NOTHING_TO_CONFIRM,
        SEVERAL_TO_CONFIRM,
        APPROVER_REFUSED,
        ApprovalDecided,
        ApprovalOver,
        ARGUMENTS_DIFFER,
        IDEMPOTENCY_CONFLICT,
    ),
)
def confirm(body: Confirm, headers: Repeatable) -> Response:
    """Approve the call that the conversation waits for; 409 with the list in ``pending`` where several do."""
    return answer(body.workflow.confirm(body.call_id, body.digest, headers.idempotency(body)))


class EndedChat(Answer):
    """A conversation whose open runs were asked to stop."""

    thread_id: str
    stopped: list[str]
    """The ids of these runs."""


@conversation.post("/end-chat")
@call({200: EndedChat})
def end(body: WhichConversation) -> Response:
    """Stop the conversation's open runs; its messages stay, and the next prompt continues it."""
    return answer({"thread_id": body.thread_id, "stopped": body.workflow.end_chat()})


class WhichHistory(WhichConversation):
    """Which part of which conversation."""

    after: MessagePlace = (0, 0)
    """``next`` of the page before."""
    limit: Annotated[int, Whole(1, 500)] = 500
    """Most messages of a page."""


@conversation.get("/get-conversation-history")
@conversation.get("/conversation-history", endpoint="history_too")
@call({200: ConversationHistory})
def history(query: WhichHistory) -> Response:
    """Return the conversation's messages in reading order, none where it has not begun."""
    with current_process().large_work():
        return answer(query.workflow.get_conversation_history(query.after, query.limit))


@conversation.get("/tool-data")
@call({200: ToolData})
def tool_data(query: WhichConversation) -> Response:
    """Return what the conversation waits for, a confirmation or an answer; else its latest call of a tool."""
    with current_process().large_work():
        return answer(query.workflow.get_latest_tool_data())


@conversation.get("/agent-goal")
@call({200: AgentGoal}, problems=(AgentUnknown, DefinitionInvalid))
def goal(query: WhichConversation) -> Response:
    """Return what the conversation's agent is for; where none has begun, the default agent."""
    return answer(query.workflow.get_agent_goal())
