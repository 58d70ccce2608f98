"""Threads: conversations and their messages."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any, Literal

from flask import Blueprint, Response, url_for
from pydantic import Field

from agents.errors import AgentUnknown
from bus.identity.errors import AGENT_FORBIDDEN, FORBIDDEN
from bus.journal.errors import RUN_OPEN, ThreadUnknown
from bus.journal.forks.errors import MESSAGE_UNKNOWN, THREAD_EXISTS
from bus.journal.readers import MessagesUntil, RunStatus
from bus.payloads import Outcome
from config.definitions.errors import DefinitionInvalid
from config.text.stored_texts import TITLE_CHARS
from web.api.answers import answer
from web.auth.authentication import current_principal
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import Conditional, Filter, ListPlace, MessagePlace, PastState, Whole, next_place, place_of
from web.process import current_process
from web.schemas.paths import AgentName, ThreadId, ThreadName


class ThreadSummary(Answer):
    """A conversation."""

    thread_id: str
    title: str
    agent: str
    """The id of the agent that it was begun with."""
    open_run: Maybe[str] = None
    """The run that is at work in it."""
    principal: str
    """Whom it belongs to."""
    private: Maybe[bool] = None
    """True where its agent's definition hides it from the other principals of the tenant."""
    forked_from: Maybe[str] = None
    """Of a fork: the thread whose first messages it has."""
    forked_at: Maybe[int] = None
    """Of a fork: the highest number of the messages that were copied; absent where there are none."""
    created_at: str
    updated_at: str
    """When it was last used."""


class RunOfThread(Answer):
    """A run of a thread."""

    run_id: str
    status: RunStatus
    reason: Maybe[str] = None
    created_at: str


class Thread(ThreadSummary):
    """A conversation with its runs, the oldest first."""

    runs: list[RunOfThread]


class ThreadPage(Answer):
    """A page of threads, the most recently used first."""

    threads: list[ThreadSummary]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


class NewThread(Answer):
    """The thread that was created."""

    thread_id: str


class Message(Answer):
    """A message of a thread."""

    number: int
    """Its number in the thread; results of concurrent calls may be stored in any order."""
    turn: int
    """The turn that it belongs to; messages are in the order (turn, number)."""
    run_id: str
    message_id: str
    role: Literal["user", "assistant", "tool", "error"]
    """``error``: a failure, shown to people and not sent to models."""
    partial: Maybe[bool] = None
    """True where a stop or a failure cut it off."""
    undone: Maybe[bool] = None
    """True where its turn was undone: no model gets it again."""
    validation: Maybe[dict[str, Any]] = None
    """Of the answer to an input that the agent's prompt guard refused: the verdict."""
    at: str
    content: Maybe[str] = None
    control_id: Maybe[str] = None
    """Of a text that a client gave an open run: the control by which."""
    reasoning: Maybe[str] = None
    """What the model thought before."""
    tool_calls: Maybe[list[dict[str, Any]]] = None
    call_id: Maybe[str] = None
    """Of a tool's result: the call it belongs to."""
    name: Maybe[str] = None
    """Of a tool's result: the tool."""
    outcome: Maybe[Outcome] = None
    result: Any = None
    code: Maybe[str] = None
    """Of an error: its code."""


class MessagePage(Answer):
    """A page of messages in reading order."""

    messages: list[Message]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


class SummaryOfThread(Answer):
    """What models are given in place of old messages of a thread. The messages stay."""

    summary_id: str
    agent: str
    """The id of the agent whose model wrote it, and is given it."""
    from_number: int
    """The number of the first message that it replaces."""
    upto_number: int
    """The number of the last one."""
    text: str
    pinned: dict[str, str]
    """The facts that the agent's definition pins, by their names."""
    calls: list[str]
    """Calls of tools with their arguments, ids and outcomes, a line each; the newest that fit."""
    left_out: Maybe[int] = None
    """How many calls before these did not fit; absent where all did."""
    model: str
    """The model that wrote it."""
    usage: Maybe[dict[str, Any]] = None
    cost_usd: Maybe[float] = None
    created_at: str
    used_by: Maybe[str] = None
    """The id of the first run that was given it; absent before that."""
    dropped_at: Maybe[str] = None
    """When a person let it count no more; absent where it counts."""
    dropped_by: Maybe[str] = None


class SummaryPage(Answer):
    """A page of summaries, the newest first."""

    summaries: list[SummaryOfThread]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


threads = Blueprint("threads", __name__)


class WhichThreads(Input):
    """Which threads to list."""

    search: Maybe[Filter] = None
    """Only threads with this in their title, or in what a person or an agent wrote in them."""
    owner: Maybe[Filter] = None
    """The principal that they belong to; ``*``: all whose threads you see. Absent: your own."""
    limit: Annotated[int, Whole(1, 200)] = 50
    """Most threads of a page."""
    before: ListPlace = None
    """``next`` of the page before."""


@threads.get("/v1/threads")
@call({200: ThreadPage})
def many(query: WhichThreads) -> Response:
    """List threads, most recently used first."""
    summaries = current_process().journal.readers.threads.newest(
        current_principal(),
        owner=query.owner or None,
        search=query.search or None,
        limit=query.limit,
        **place_of(query.before),
    )
    return answer({"threads": summaries, **next_place(summaries, query.limit, "updated_at", "thread_id")})


class StartThread(Input):
    """What the thread is begun with."""

    agent: Maybe[AgentName] = None
    """The id of its agent; absent: the default agent."""
    title: Annotated[str, Field(max_length=TITLE_CHARS)] = "New thread"
    """What lists call it."""


@threads.post("/v1/threads")
@call({201: NewThread}, problems=(AgentUnknown, AGENT_FORBIDDEN, DefinitionInvalid))
def start(body: StartThread) -> Response:
    """Create an empty thread: 201 and its id."""
    process = current_process()
    agent_id = process.settings.default_agent if body.agent is None else body.agent
    agent = process.runner.registry.startable(current_principal(), agent_id)
    is_private = agent.access.runs == "private"
    thread_id = process.journal.readers.threads.open(current_principal(), agent.id, body.title, is_private=is_private)
    return answer({"thread_id": thread_id}, 201, Location=url_for("threads.one", thread_id=thread_id))


class WhoseThread(Input):
    """Which thread of this name is meant: principals name their own."""

    owner: Maybe[Filter] = None
    """The principal that it belongs to; absent: your own."""


@threads.get("/v1/threads/<thread_id>")
@call({200: Thread, 304: None}, problems=(ThreadUnknown,))
def one(thread_id: ThreadId, query: WhoseThread, headers: Conditional) -> Response:
    """Return one thread with its runs."""
    thread = current_process().journal.readers.threads.get(current_principal(), thread_id, owner=query.owner or None)
    return headers.answer(thread)


@threads.delete("/v1/threads/<thread_id>")
@call({204: None}, problems=(ThreadUnknown, RUN_OPEN))
def remove(thread_id: ThreadId, query: WhoseThread) -> Response:
    """Remove a thread with its messages and its runs."""
    current_process().journal.readers.threads.remove(current_principal(), [thread_id], query.owner or None)
    return Response(status=204)


class ForkThread(Input):
    """Where a thread is forked."""

    message: Annotated[int, Whole(1, 2**31 - 1), Field(examples=[2])]
    """The number of the last message that the fork gets."""
    thread_id: Maybe[ThreadName] = None
    """Your own name for the fork; absent: a new one."""


class ForkedThread(Answer):
    """A thread that begins with messages of another one."""

    thread_id: str
    forked_from: str
    """The thread whose messages it has."""
    at: int
    """The number of the last message that was copied: the one that was named, or an earlier one where a call of a tool
    would have lost its result. 0: none was. What other runs wrote that have begun and not ended is left out."""
    messages: int
    """How many were copied."""


@threads.post("/v1/threads/<thread_id>/fork")
@call({201: ForkedThread}, problems=(ThreadUnknown, MESSAGE_UNKNOWN, THREAD_EXISTS, FORBIDDEN))
def fork(thread_id: ThreadId, body: ForkThread) -> Response:
    """Fork a thread of yours: 201 and a thread that begins with copies of its messages."""
    clients = current_process().journal.clients
    branch = clients.fork(current_principal(), thread_id, body.message, body.thread_id)
    return answer(asdict(branch), 201, Location=url_for("threads.one", thread_id=branch.thread_id))


class WhichMessages(WhoseThread):
    """Which messages to return."""

    at: PastState = MessagesUntil()
    """The thread as it was: the ``number`` of the message that was its newest, or a time (RFC 3339). Absent: now."""
    after: MessagePlace = (0, 0)
    """``next`` of the page before."""
    limit: Annotated[int, Whole(1, 500)] = 200
    """Most messages of a page."""


@threads.get("/v1/threads/<thread_id>/messages")
@call({200: MessagePage, 304: None}, problems=(ThreadUnknown,))
def messages(thread_id: ThreadId, query: WhichMessages, headers: Conditional) -> Response:
    """Return a page of a thread's messages in reading order; it ends at its limit or at a megabyte."""
    process = current_process()
    with process.large_work():
        page, has_more = process.journal.readers.threads.message_page(
            current_principal(),
            thread_id,
            after=query.after,
            limit=query.limit,
            owner=query.owner or None,
            at=query.at,
        )
        following = {"next": f"{page[-1]['turn']}.{page[-1]['number']}"} if has_more and page else {}
        return headers.answer({"messages": page, **following})


class WhichSummaries(WhoseThread):
    """Which summaries to return."""

    limit: Annotated[int, Whole(1, 100)] = 20
    """Most summaries of a page."""
    before: ListPlace = None
    """``next`` of the page before."""


@threads.get("/v1/threads/<thread_id>/summaries")
@call({200: SummaryPage}, problems=(ThreadUnknown,))
def summaries(thread_id: ThreadId, query: WhichSummaries) -> Response:
    """Return a page of a thread's summaries, the newest first, with those that were dropped."""
    store, place = current_process().journal.stores.summaries, place_of(query.before)
    page = store.of_thread(current_principal(), thread_id, query.owner or None, limit=query.limit, **place)
    return answer({"summaries": page, **next_place(page, query.limit, "created_at", "summary_id")})
