"""The calls of the first chat design: each caller has one conversation, unless it names others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Annotated, Any, Literal

from flask import Blueprint, Response

from agents.errors import AgentUnknown
from bus.journal.clients import CONTROLS
from bus.journal.errors import RunUnknown, ThreadUnknown
from config.definitions.errors import DefinitionInvalid
from web.api.answers import STARTING, accepted, answer, start_run
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import MessagePlace, Repeatable, Whole
from web.errors import NO_STARTERS
from web.process import current_process
from web.schemas.paths import AgentName, Sentence, ThreadName
from web.schemas.run import AcceptedRun


class HistoryEntry(Answer):
    """What one side said or did."""

    actor: Literal["user", "agent", "tool_result", "user_confirmed_tool_run"]
    """``user_confirmed_tool_run``: a person let the call before it be made."""
    response: str | dict[str, Any]
    """A text; of a call of a tool its ``tool`` and ``args``, and of its result ``name``, ``outcome`` and ``result``. Of
    a confirmation also ``by``, ``at``, and ``approved_by`` where several persons had to."""


class ConversationHistory(Answer):
    """A page of a conversation in reading order."""

    messages: list[HistoryEntry]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


class ToolData(Answer):
    """What a conversation waits for; without that, its latest call of a tool."""

    next: Literal["confirm", "question", "done"]
    """``confirm``: a call waits for `POST /confirm`. ``question``: another answer is needed. ``done``: nothing."""
    force_confirm: bool
    """Whether a call waits for a confirmation."""
    tool: Maybe[str] = None
    args: Maybe[dict[str, Any]] = None
    response: Maybe[str] = None
    """Why a person is asked, or what is asked."""
    run_id: Maybe[str] = None
    approval_id: Maybe[str] = None
    call_id: Maybe[str] = None
    digest: Maybe[str] = None
    """SHA-256 of the arguments; to be sent with the confirmation."""
    status: Maybe[str] = None
    """With ``done``: that of the call, as a step: ``started``, ``done``, ``failed``, ``refused`` and so on."""
    result: Maybe[Any] = None
    """With ``done``: what the call returned, once it has ended."""


class EndedChat(Answer):
    """A conversation whose open runs were asked to stop."""

    thread_id: str
    stopped: list[str]
    """The ids of these runs."""


class AgentGoal(Answer):
    """What an agent is for."""

    id: str
    agent_name: str
    agent_friendly_description: str
    tools: list[str]
    """Their names, as the definition has them."""
    starter_prompt: Maybe[str] = None
    """What a conversation with it begins with."""


conversation = Blueprint("conversation", __name__)

OWN = "conversation"
"""The thread of a caller that names none. Threads are named by their owner, so each principal has its own."""


class WhichConversation(Input):
    """Which conversation is meant."""

    thread_id: ThreadName = OWN
    """Your own name for it; absent: the one that you have without a name."""


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
    return _send(agent.starters[0], agent.id, body, headers)


class SendPrompt(WhichConversation):
    """A message for the conversation's agent."""

    prompt: Sentence
    """The message."""


@conversation.post("/send-prompt")
@call({202: AcceptedRun}, problems=STARTING)
def send(body: SendPrompt, headers: Repeatable) -> Response:
    """Send a message to the agent of the conversation, which begins with the default agent: 202 with the run."""
    return _send(body.prompt, _agent_of(body.thread_id), body, headers)


@conversation.post("/end-chat")
@call({200: EndedChat})
def end(body: WhichConversation) -> Response:
    """Stop the conversation's open runs; its messages stay, and the next prompt continues it."""
    process, principal = current_process(), current_principal()
    rows, _ = process.journal.readers.runs.page(
        principal, status="open", thread_id=body.thread_id, owner=principal.id, limit=200
    )
    ids = [row["run_id"] for row in rows]
    for run_id in ids:
        with suppress(RunUnknown):  # removed meanwhile
            process.journal.clients.control(principal, run_id, CONTROLS["cancel"], by=principal.id)
    return answer({"thread_id": body.thread_id, "stopped": ids})


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
    process, principal = current_process(), current_principal()
    threads = process.journal.readers.threads
    with process.large_work():
        try:
            messages, has_more = threads.message_page(principal, query.thread_id, after=query.after, limit=query.limit)
            confirmed = threads.confirmed_calls(principal, query.thread_id, {message["run_id"] for message in messages})
        except ThreadUnknown:
            messages, has_more, confirmed = [], False, {}
        entries = [entry for message in messages for entry in _entries(message, confirmed)]
        following = {"next": f"{messages[-1]['turn']}.{messages[-1]['number']}"} if has_more and messages else {}
        return answer({"messages": entries, **following})


@conversation.get("/agent-goal")
@call({200: AgentGoal}, problems=(AgentUnknown, DefinitionInvalid))
def goal(query: WhichConversation) -> Response:
    """Return what the conversation's agent is for; where none has begun, the default agent."""
    agent = current_process().runner.registry.get_for(current_principal(), _agent_of(query.thread_id))
    fields = {
        "id": agent.id,
        "agent_name": agent.name,
        "agent_friendly_description": agent.description,
        "tools": list(agent.tools),
    }
    return answer(fields | ({"starter_prompt": agent.starters[0]} if agent.starters else {}))


def _agent_of(thread_id: str) -> str:
    """Return the id of the agent that the caller's thread was begun with; of a new one the default agent's."""
    process = current_process()
    try:
        return str(process.journal.readers.threads.get(current_principal(), thread_id)["agent"])
    except ThreadUnknown:
        return process.settings.default_agent


def _send(prompt: str, agent_id: str, body: WhichConversation, headers: Repeatable) -> Response:
    return accepted(start_run(prompt, agent_id, body, headers, thread_id=body.thread_id, detached=True))


def _entries(
    message: Mapping[str, Any], confirmed: Mapping[tuple[str, str], dict[str, Any]]
) -> Iterator[dict[str, Any]]:
    """Yield a message as the history has it: an entry for its text, for each call of a tool, and its confirmation."""
    if message["role"] == "tool":
        names = ("name", "outcome", "result")
        yield {"actor": "tool_result", "response": {name: message[name] for name in names if name in message}}
        return
    actor = "user" if message["role"] == "user" else "agent"
    if message.get("content") or not message.get("tool_calls"):
        yield {"actor": actor, "response": message.get("content", "")}
    for called in message.get("tool_calls", ()):
        yield {"actor": actor, "response": {"tool": called["name"], "args": called["arguments"]}}
        confirmation = confirmed.get((message["run_id"], called["call_id"]))
        if confirmation is not None:
            yield {"actor": "user_confirmed_tool_run", "response": confirmation}
