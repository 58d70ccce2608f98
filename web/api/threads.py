"""Threads: conversations and their messages."""

from __future__ import annotations

from flask import Blueprint, Response, url_for

from web import parameters
from web.api.answers import answer
from web.bodies import read_body
from web.process import current_process
from web.security import current_principal

threads = Blueprint("threads", __name__)

MAX_TITLE_CHARS = 120


@threads.get("/v1/threads")
def many() -> Response:
    """List threads, most recently used first."""
    parameters.only("search", "limit", "before")
    limit, before = parameters.number("limit", 50, 1, 200), parameters.list_cursor()
    search, journal = parameters.text("search"), current_process().journal
    found = journal.threads.newest(current_principal(), search=search, limit=limit, **before)
    return answer({"threads": found, **parameters.next_place(found, limit, "updated_at", "thread_id")})


@threads.post("/v1/threads")
def start() -> Response:
    """Create an empty thread: 201 and its id."""
    body = read_body("agent", "title", optional=True)
    process = current_process()
    agent_id = body.text("agent", process.settings.default_agent, max_chars=80)
    process.runner.registry.get(agent_id)
    title = " ".join(body.text("title", "New thread", max_chars=MAX_TITLE_CHARS).split())
    thread_id = process.journal.threads.open(current_principal(), agent_id, title)
    return answer({"thread_id": thread_id}, 201, Location=url_for("threads.one", thread_id=thread_id))


@threads.get("/v1/threads/<thread_id>")
def one(thread_id: str) -> Response:
    """Return one thread with its runs."""
    return answer(current_process().journal.threads.get(current_principal(), thread_id))


@threads.delete("/v1/threads/<thread_id>")
def remove(thread_id: str) -> Response:
    """Remove a thread with its messages and its runs."""
    current_process().journal.threads.remove(current_principal(), [thread_id])
    return Response(status=204)


@threads.get("/v1/threads/<thread_id>/messages")
def messages(thread_id: str) -> Response:
    """Return a page of a thread's messages in reading order."""
    parameters.only("after", "limit")
    limit = parameters.number("limit", 200, 1, 500)
    after, process = parameters.message_cursor(), current_process()
    with process.large_work():
        found, has_more = process.journal.threads.message_page(current_principal(), thread_id, after=after, limit=limit)
        following = {"next": f"{found[-1]['turn']}.{found[-1]['number']}"} if has_more and found else {}
        return answer({"messages": found, **following})
