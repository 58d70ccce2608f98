"""`AgentGoalWorkflow` of the first chat design: its signals and queries, over the log of the caller's thread.

There is no state beside the log. ``conversation_history``, ``tool_data``, ``goal``, ``confirmed`` and ``chat_ended`` of
that design are read anew from messages, steps, questions and runs at each query (docs/seed-000.md maps each name).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from bus.journal.approvals import Decision
from bus.journal.clients import CONTROLS
from bus.journal.errors import RunUnknown, ThreadUnknown
from web.api.answers import agent_of_thread, start_run
from web.auth.authentication import current_principal
from web.calls.fields import Answer, Maybe
from web.errors import NOTHING_TO_CONFIRM, SEVERAL_TO_CONFIRM
from web.process import current_process

if TYPE_CHECKING:
    from agents.handle import RunHandle
    from bus.journal.clients import IdempotencyKey
    from config.definitions.agent import AgentDefinition
    from web.calls.fields import Input
    from web.calls.parameters import Repeatable

MAX_RUNS = 200
"""Open runs of a conversation that are looked at."""
MAX_LISTED = 50
LISTED = ("run_id", "approval_id", "call_id", "name", "digest")
CHOICE = "ListAgents"
"""The tool with whose result an agent lets its user choose another one."""


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

    next: Literal["confirm", "question", "pick-new-goal", "done"]
    """``confirm``: a call waits for `POST /confirm`. ``question``: another answer is needed. ``pick-new-goal``: the
    agent has listed the agents, for the user to choose one. ``done``: nothing."""
    tool: str
    """Its name; empty where no tool was called."""
    args: dict[str, Any]
    response: str
    """Why a person is asked, or what is asked; where nothing is, what the agent said last."""
    force_confirm: bool
    """Whether a call waits for a confirmation."""
    run_id: Maybe[str] = None
    approval_id: Maybe[str] = None
    call_id: Maybe[str] = None
    digest: Maybe[str] = None
    """SHA-256 of the arguments; to be sent with the confirmation."""
    status: Maybe[str] = None
    """Where nothing waits: that of the call, as a step: ``started``, ``done``, ``failed``, ``refused`` and so on."""
    result: Maybe[Any] = None
    """Where nothing waits: what the call returned, once it has ended."""


class ToolDefinition(Answer):
    """A tool of a goal."""

    name: str
    """As the model knows it; as the agent's file names it where no worker has loaded it yet."""
    description: str


class GoalServer(Answer):
    """The MCP server that a goal names first."""

    name: str
    included_tools: list[str]
    """Those of its tools that the goal uses; empty: all."""


class AgentGoal(Answer):
    """What an agent is for."""

    id: str
    category_tag: str
    agent_name: str
    agent_friendly_description: str
    tools: list[ToolDefinition]
    description: str
    """The same sentence: the instruction to the model is in no answer."""
    starter_prompt: str
    """What a conversation with it begins with; empty: nothing."""
    example_conversation_history: str
    mcp_server_definition: Maybe[GoalServer] = None
    """Absent: it has none."""


@dataclass(frozen=True, slots=True)
class AgentGoalWorkflow:
    """The caller's conversation of this name."""

    thread_id: str

    # --- signals

    def user_prompt(self, prompt: str, agent_id: str | None, body: Input, headers: Repeatable) -> RunHandle:
        """Send a message to an agent; None: that of the conversation."""
        return start_run(prompt, agent_id, body, headers, thread_id=self.thread_id, detached=True)

    def confirm(self, call_id: str | None, digest: str | None, key: IdempotencyKey | None) -> dict[str, Any]:
        """Approve the call that waits, and return its ids and what came of it.

        Raises:
            NOTHING_TO_CONFIRM: there is none.
            SEVERAL_TO_CONFIRM: there are several, and none is named.
        """
        question = self._only([entry for entry in self._waiting() if entry["kind"] == "call"], call_id)
        run_id, approval_id, principal = question["run_id"], question["approval_id"], current_principal()
        decision = Decision(decision="approve", digest=digest or question["digest"])
        decided = current_process().journal.clients.decide(
            principal, run_id, approval_id, decision, by=principal.id, idempotency=key
        )
        facts = {"decision": decided.decision, "by": decided.by, "status": decided.written.status}
        return {"run_id": run_id, "approval_id": approval_id, **facts}

    def end_chat(self) -> list[str]:
        """Stop the conversation's open runs, and return their ids."""
        process, principal = current_process(), current_principal()
        rows, _ = process.journal.readers.runs.page(
            principal, status="open", thread_id=self.thread_id, owner=principal.id, limit=MAX_RUNS
        )
        for row in rows:
            with suppress(RunUnknown):  # removed meanwhile
                process.journal.clients.control(principal, row["run_id"], CONTROLS["cancel"], by=principal.id)
        return [row["run_id"] for row in rows]

    # --- queries

    def get_conversation_history(self, after: tuple[int, int], limit: int) -> dict[str, Any]:
        """Return messages in reading order, none where it has not begun."""
        principal, threads = current_principal(), current_process().journal.readers.threads
        try:
            messages, has_more = threads.message_page(principal, self.thread_id, after=after, limit=limit)
            run_ids = {message["run_id"] for message in messages}
            confirmed = threads.confirmed_calls(principal, self.thread_id, run_ids)
        except ThreadUnknown:
            messages, has_more, confirmed = [], False, {}
        entries = [entry for message in messages for entry in _entries(message, confirmed)]
        following = {"next": f"{messages[-1]['turn']}.{messages[-1]['number']}"} if has_more and messages else {}
        return {"messages": entries, **following}

    def get_agent_goal(self) -> dict[str, Any]:
        """Return what the conversation's agent is for; where none has begun, the default agent."""
        process, principal = current_process(), current_principal()
        agent = process.runner.registry.get_for(principal, agent_of_thread(self.thread_id))
        tools = process.journal.stores.tools.listed([agent.id])
        listed = [{name: entry[name] for name in ("name", "description")} for entry in tools]
        return {
            "id": agent.id,
            "category_tag": agent.category_tag,
            "agent_name": agent.name,
            "agent_friendly_description": agent.description,
            "tools": listed or [{"name": name, "description": ""} for name in agent.tools],
            "description": agent.description,
            "starter_prompt": agent.starters[0] if agent.starters else "",
            "example_conversation_history": agent.example_conversation_history,
            **_server_of(agent),
        }

    def get_latest_tool_data(self) -> dict[str, Any]:
        """Return what the conversation waits for, a confirmation or an answer; else its latest call of a tool."""
        waiting = self._waiting()
        if not waiting:
            return self._done()
        question = waiting[0]
        is_call = question["kind"] == "call"
        fields = {
            "tool": question["name"],
            "args": question["arguments"],
            "response": question["reason"],
            "force_confirm": is_call,
        }
        ids = {name: question[name] for name in ("run_id", "approval_id", "call_id", "digest")}
        return {"next": "confirm" if is_call else "question", **fields, **ids}

    # --- folds over the log

    def _done(self) -> dict[str, Any]:
        principal, readers = current_principal(), current_process().journal.readers
        fields: dict[str, Any] = {"next": "done", "tool": "", "args": {}, "response": "", "force_confirm": False}
        with suppress(ThreadUnknown):
            fields["response"] = readers.threads.latest_answer(principal, self.thread_id)
            call = readers.threads.latest_call(principal, self.thread_id) or {}
            newest, _ = readers.runs.page(principal, thread_id=self.thread_id, owner=principal.id, limit=1)
            if call.get("tool") == CHOICE and [run["run_id"] for run in newest] == [call["run_id"]]:
                fields["next"] = "pick-new-goal"
            fields |= call
        return fields

    def _waiting(self) -> list[dict[str, Any]]:
        """Return the open questions of the caller's conversation, the oldest first, each with its run."""
        principal, runs = current_principal(), current_process().journal.readers.runs
        run_rows, _ = runs.page(
            principal, status="waiting", thread_id=self.thread_id, owner=principal.id, limit=MAX_RUNS
        )
        return [
            question | {"run_id": run["run_id"]}
            for run in reversed(run_rows)
            for question in runs.questions(principal, run["run_id"])
        ]

    def _only(self, waiting: Sequence[dict[str, Any]], call_id: str | None) -> dict[str, Any]:
        """Return the one question that is meant."""
        named = [question for question in waiting if call_id in (None, question["call_id"], question["approval_id"])]
        if not named:
            raise NOTHING_TO_CONFIRM(thread_id=self.thread_id)
        if len(named) > 1:
            listed = [{name: question[name] for name in LISTED} for question in named[:MAX_LISTED]]
            raise SEVERAL_TO_CONFIRM(count=len(named), pending=listed)
        return named[0]


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


def _server_of(agent: AgentDefinition) -> dict[str, Any]:
    """Return the MCP server that the agent's ``tools`` name first, as the first design writes it."""
    lines = [line.removeprefix("mcp:").partition("/") for line in agent.tools if line.startswith("mcp:")]
    if not lines:
        return {}
    name = lines[0][0]
    included = [tool for server, _, tool in lines if server == name and tool]
    return {"mcp_server_definition": {"name": name, "included_tools": included}}
