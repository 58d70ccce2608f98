"""What a run does: its events, and what the policy decided about its calls.

Events come as the board's stream; a run's as a stream, as a page, or as a page that waits for the next event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Literal

import orjson
from flask import Blueprint, Response, request
from pydantic import Field

from agents.governance.policy.errors import PolicyInvalid
from bus.identity.access import may_see_machines, require_may_see_policy
from bus.identity.errors import FORBIDDEN
from bus.journal.errors import CURSOR_AHEAD, CURSOR_INVALID, RunUnknown
from bus.journal.forks.errors import RUN_NOT_EXPORTABLE
from bus.journal.readers import Line
from bus.payloads import TERMINAL
from config.policy_decision import Verdict
from web.api.answers import answer
from web.auth.authentication import current_principal, require_still_valid
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import EventCursor, Filter, Preferring, Whole, applied
from web.errors import TOO_MANY_VIEWERS
from web.process import WebProcess, current_process
from web.schemas.paths import RunId
from web.schemas.run import BoardEvent, BoardSnapshot, Event, EventPage
from web.sse import StreamResponse

if TYPE_CHECKING:
    from agents.governance.policy.compiled import CompiledRule

events = Blueprint("events", __name__)

MAX_WAIT_S = 60
PAGE_EVENTS, PAGE_BYTES = 500, 1024 * 1024
LOG_BYTES = 4 * 1024 * 1024


class BoardCursor(Input):
    """What a client that resumes sends; the board begins with a snapshot whatever it is."""

    after: Maybe[Filter] = None
    """Taken and ignored."""
    last_event_id: Maybe[Filter] = None
    """The same, as EventSource polyfills call it."""


@events.get("/v1/events")
@call({200: {"text/event-stream": BoardEvent, "application/json": BoardSnapshot}}, problems=(TOO_MANY_VIEWERS,))
def board(query: BoardCursor) -> Response:
    """Stream the board: what it shows, then each change; a new connection begins anew. Or return it once, as JSON."""
    principal, process = current_principal(), current_process()
    if _wants_page():
        with process.large_work():
            snapshot = process.journal.readers.runs.board(principal)
            return answer({"runs": snapshot.runs, "counts": snapshot.counts})
    process.hub.viewers.require_room(principal)
    return StreamResponse(process.hub.viewers, lambda: process.hub.board_feed(principal))


class Resumed(Preferring):
    """Where a browser's EventSource resumes, and how long a page waits."""

    last_event_id: EventCursor = Field(0, alias="Last-Event-ID")
    """The id of the last event that the client has; it goes before the parameters."""


class WhichEvents(Input):
    """Which events to return."""

    after: EventCursor = 0
    """The number of the last event that the client has; 0: from the beginning."""
    last_event_id: EventCursor = 0
    """The same, as EventSource polyfills call it."""
    ticket: Maybe[Annotated[str, Field(max_length=100)]] = None
    """A ticket for the events of this run, in place of a header."""
    wait_s: Maybe[Annotated[int, Whole(0, MAX_WAIT_S)]] = None
    """Return a page of JSON, and wait so many seconds for the first event where there is none yet."""
    limit: Annotated[int, Whole(1, PAGE_EVENTS)] = PAGE_EVENTS
    """Most events of a page."""


@events.get("/v1/runs/<run_id>/events")
@call(
    {200: {"text/event-stream": Event, "application/json": EventPage}, 204: None},
    problems=(RunUnknown, CURSOR_INVALID, CURSOR_AHEAD, TOO_MANY_VIEWERS),
)
def of_run(run_id: RunId, query: WhichEvents, headers: Resumed) -> Response:
    """Stream the events after the cursor, or return a page of them when JSON is asked for.

    204 where no event follows, and none will: it makes a browser's EventSource stop.
    """
    process, cursor = current_process(), headers.last_event_id or query.after or query.last_event_id
    preferred_s = min(headers.wait_s, MAX_WAIT_S) if query.wait_s is None else 0
    wait_s, limit = query.wait_s or preferred_s, query.limit
    thread_id, status, last = process.journal.readers.runs.bounds(current_principal(), run_id, cursor)
    is_over = status in TERMINAL and cursor >= last  # no event follows, and none will
    if _wants_page() or query.wait_s is not None:
        if status not in TERMINAL:
            process.journal.readers.note_viewer(run_id)
        page = _page(process, run_id, thread_id, cursor, 0 if status in TERMINAL else wait_s, limit, is_over)
        page.headers.update(applied(preferred_s))
        return page
    if is_over:
        return Response(status=204)
    hub, tenant = process.hub, current_principal().tenant
    hub.viewers.require_room(current_principal())
    return StreamResponse(hub.viewers, lambda: hub.run_feed(tenant, run_id, thread_id), cursor)


def _wants_page() -> bool:
    return request.accept_mimetypes.best_match(["text/event-stream", "application/json"]) == "application/json"


def _page(
    process: WebProcess, run_id: str, thread_id: str, cursor: int, wait_s: int, limit: int, is_over: bool
) -> Response:
    with process.large_work():
        lines = _read(process, run_id, thread_id, cursor)
        if lines or not wait_s:
            return _page_of(lines, cursor, limit, is_over)
    tenant = current_principal().tenant
    batch = process.wait(
        tenant, wait_s, lambda: anext(process.journal.readers.follow(tenant, run_id, thread_id, cursor), ())
    )
    require_still_valid()
    return _page_of(batch or (), cursor, limit)


def _page_of(lines: Sequence[Line], cursor: int, limit: int, is_over: bool = False) -> Response:
    page = _fitting(lines, limit)
    last = page[-1].seq if page else cursor
    ended = b"true" if (page[-1].is_end if page else is_over) else b"false"
    events_json = b",".join(line.data for line in page)
    body = b'{"events":[%s],"cursor":"%d","ended":%s}' % (events_json, last, ended)
    return Response(body, content_type="application/json")


def _read(process: WebProcess, run_id: str, thread_id: str, cursor: int) -> Sequence[Line]:
    """Return the events behind the cursor that exist now, stored and live ones merged."""
    journal = process.journal
    stored, has_more = journal.readers.page(run_id, thread_id, cursor)
    tenant = current_principal().tenant
    return process.run(journal.readers.with_live(tenant, run_id, cursor, stored, has_more=has_more))


def _fitting(lines: Sequence[Line], limit: int) -> Sequence[Line]:
    """Return as many as fit into one answer, and one at least."""
    size = 0
    for count, line in enumerate(lines[:limit]):
        size += len(line.data)
        if size > PAGE_BYTES and count:
            return lines[:count]
    return lines[:limit]


class RecordedDecision(Answer):
    """What the policy decided about one call, before it was made."""

    step_id: str
    number: int
    """Of the step in its run, from 1."""
    point: Literal["model", "tool"]
    name: str
    """The model, or the tool."""
    identity: Maybe[str] = None
    """The tool as ``mcp:server/tool``, whatever the model calls it; absent of a tool of no MCP server."""
    call_id: Maybe[str] = None
    effect: Maybe[str] = None
    """The tool's effect class; absent where the call was not made."""
    status: str
    """Of the step: started, done, failed, refused and so on."""
    at: str
    """When the step was recorded, UTC."""
    verdict: Verdict
    rule: str
    """The rule that decided; ``default`` where none matched."""
    reason: Maybe[str] = None
    version: str
    """Of the policy: a digest of its rules."""
    arguments: Maybe[dict[str, Any]] = None
    """The arguments with which the call is made, where a rule changed them."""
    timeout_s: Maybe[float] = None
    """Seconds that the call may take, where a rule says so."""
    labels: Maybe[list[str]] = None
    """What the rules label the run with after the call."""
    seen: Maybe[list[str]] = None
    """The labels that the call had when it was decided about."""
    remote: Maybe[str] = None
    """What the remote engine said of the call, where one was asked."""


class DecisionPage(Answer):
    """Decisions of a run, in the order of its steps."""

    decisions: list[RecordedDecision]
    next: Maybe[str] = None
    """The ``after`` of the next page; absent on the last one."""


decisions = Blueprint("decisions", __name__)

MOST_STEPS = 10**9


class WhichDecisions(Input):
    """Which page of the decisions."""

    limit: Annotated[int, Whole(1, 200)] = 50
    """Most decisions of a page."""
    after: Annotated[int, Whole(0, MOST_STEPS)] = 0
    """``next`` of the page before."""


@decisions.get("/v1/runs/<run_id>/decisions", endpoint="of_run")
@call({200: DecisionPage}, problems=(RunUnknown,))
def decisions_of_run(run_id: RunId, query: WhichDecisions) -> Response:
    """List what the policy decided about each call of a model or a tool, in order."""
    process = current_process()
    with process.large_work():
        rows = process.journal.readers.runs.decisions(
            current_principal(), run_id, after=query.after, limit=query.limit + 1
        )
        page = rows[: query.limit]
        rest = {"next": str(page[-1]["number"])} if len(rows) > query.limit else {}
        return answer({"decisions": page, **rest})


# --- a run as text, and as a file for a test


@events.get("/v1/runs/<run_id>/log")
@call({200: {"text/plain": str}}, problems=(RunUnknown,))
def log_of_run(run_id: RunId) -> Response:
    """Return the stored events as the lines that the logger observer writes of them.

    Pieces of text are left out, as their message follows them; beyond 4 MiB a last line says that more is left out.
    """
    from bus.payloads import TextPayload, decode  # the first request opens the journal
    from observers.base import facts_of
    from observers.logfile.record import record_of, text_line

    process, size, cursor, has_more = current_process(), 0, 0, True
    lines: list[str] = []
    with process.large_work():
        row = process.journal.readers.runs.row(current_principal(), run_id)
        agent, run = facts_of(row, row.id, orjson.loads(row.metadata_json or "{}"))
        while has_more and size < LOG_BYTES:
            stored, has_more = process.journal.readers.page(run_id, row.thread_id, cursor)
            payloads = [decode(line.data) for line in stored]
            new_lines = [text_line(record_of(agent, it, run)) for it in payloads if not isinstance(it, TextPayload)]
            size += sum(map(len, new_lines))
            cursor = stored[-1].seq if stored else cursor
            lines += new_lines
    if has_more:
        lines.append(f"... the events behind number {cursor} are left out; GET /v1/runs/{run_id}/events has them")
    return Response("".join(f"{line}\n" for line in lines), content_type="text/plain; charset=utf-8")


@events.get("/v1/runs/<run_id>/recording")
@call({200: {"application/json": dict}}, problems=(RunUnknown, FORBIDDEN, RUN_NOT_EXPORTABLE))
def recording_of_run(run_id: RunId) -> Response:
    """Return the file that a test replays, as ``./callboard runs export`` writes it; it has prompts and texts."""
    from agents.recording.export import export_run  # the first request opens the journal
    from agents.recording.recording import written

    with current_process().large_work():
        recording = export_run(current_process().runner, current_principal(), run_id)
    name = f'attachment; filename="{run_id}.json"'
    return Response(written(recording), content_type="application/json", headers={"Content-Disposition": name})


# --- the rules in force


class PolicyRule(Answer):
    """A rule of the policy."""

    name: str
    """By which decisions and questions name it."""
    point: Literal["tool", "model"]
    """Before which calls it is asked."""
    verdict: Verdict
    reason: str
    when: dict[str, Any]
    """Which calls it is about, as its file says it; empty: all of its point."""
    unless: Maybe[dict[str, Any]] = None
    """Which of them it is not about."""
    condition: Maybe[str] = None
    """CEL that has to be true."""
    labels: Maybe[list[str]] = None
    """What it labels the run with after the call."""
    file: Maybe[str] = None
    line: Maybe[int] = None
    """For principals who may know of machines."""


class PolicyShown(Answer):
    """The policy that decides about calls that begin now."""

    version: str
    """A digest of its rules, which decisions have too."""
    defaults: dict[str, Verdict]
    """What is decided where no rule matches: about a ``tool`` and about a ``model``."""
    rules: list[PolicyRule]
    """In the order of the files; the strictest one that matches decides."""


@decisions.get("/v1/policy")
@call({200: PolicyShown}, problems=(FORBIDDEN, PolicyInvalid))
def policy() -> Response:
    """Return the policy's rules, without those that are about other tenants alone.

    For principals with a role that sees the runs of others.
    """
    principal = current_principal()
    require_may_see_policy(principal)
    current, names_files = current_process().policies.current(), may_see_machines(principal)
    rules = [_rule(rule, names_files) for rule in current.rules if names_files or rule.may_concern(principal.tenant)]
    defaults = {point: decision.verdict for point, decision in current.defaults.items()}
    return answer({"version": current.version, "defaults": defaults, "rules": rules})


_SHOWN = "name verdict reason when unless condition labels".split()


def _rule(rule: CompiledRule, names_files: bool) -> dict[str, Any]:
    dumped = rule.fields.model_dump(mode="json", by_alias=True, exclude_unset=True)
    facts: dict[str, Any] = {"when": {}, "point": rule.fields.point}
    facts |= {name: dumped[name] for name in _SHOWN if dumped.get(name) is not None}
    return facts | ({"file": rule.file, "line": rule.line} if names_files else {})
