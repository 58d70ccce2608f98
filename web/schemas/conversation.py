"""Answers in the dialect of the first chat design."""

from __future__ import annotations

from typing import Any, Literal

from web.calls.fields import Answer, Maybe


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
