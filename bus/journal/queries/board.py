"""What is read of many runs at once: the board, open questions, child runs, and what the policy decided about calls."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import ColumnElement, Connection, Row, Select, and_, case, func, or_, select

from bus.identity.access import rows_for
from bus.journal.approvals import UNANSWERED, VOID, answers
from bus.journal.paging import Pages, newest_first, present
from bus.journal.queries.run_contexts import golden_of
from bus.journal.records.questions import QUESTION, question_data
from bus.journal.records.steps import Totals, total_of
from bus.journal.states.codes import Reason
from config.clock import stamp
from config.database.engine import wall_ms
from config.database.tables import approvals, messages, runs, steps
from config.effects import Effect
from config.identity.principal import Principal, Role, Verb
from config.policy_decision import CallFacts

MOST_RUNS = 100
"""Runs of each group that the board shows at most; the counts are of all."""
DAY_MS = 86_400_000

ASKS = and_(runs.c.status == "waiting", runs.c.reason == Reason.APPROVAL)
"""The condition that a run waits for a person's answer."""
_LATEST = runs.c.created_ms.desc()
# As expressions, so that the database sorts the open runs instead of reading all runs in the order of an index.
_LATEST_OPEN = (runs.c.created_ms + 0).desc()
_LONGEST_OPEN = runs.c.created_ms + 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """What a principal sees on the board."""

    runs: Sequence[dict[str, Any]]
    """Questions first, then what runs, waits, is queued, failed within a day, and has ended otherwise."""
    counts: dict[str, int]
    """How many runs there are: ``running``, ``waiting``, ``queued``; ``questions``, the waiting ones that ask a person;
    and ``failed``, those that failed within a day."""


def board_rows(
    connection: Connection, principal: Principal, columns: Sequence[ColumnElement[Any]]
) -> tuple[list[Row[Any]], dict[str, int]]:
    """Return the rows of the runs on the board, and its counts."""
    seen = rows_for(principal, Verb.SEE, runs)
    open_ = and_(seen, runs.c.ended_ms.is_(None))
    # The index of failed runs has this condition.
    failed = and_(seen, runs.c.error_code.is_not(None), runs.c.ended_ms > wall_ms(connection) - DAY_MS)
    counts = _counts(connection, open_) | {"failed": _count(connection, failed)}
    groups: dict[str, tuple[ColumnElement[bool], ColumnElement[int]]] = {
        "questions": (and_(open_, ASKS), _LONGEST_OPEN),
        "running": (and_(open_, runs.c.status == "running"), _LATEST_OPEN),
        "waiting": (and_(open_, runs.c.status == "waiting", _is_no_question()), _LONGEST_OPEN),
        "queued": (and_(open_, runs.c.status == "queued"), _LONGEST_OPEN),
        "failed": (failed, runs.c.ended_ms.desc()),
    }
    queries = [select(*columns).where(which).order_by(order) for name, (which, order) in groups.items() if counts[name]]
    queries.append(select(*columns).where(seen, _ended_well()).order_by(_LATEST))
    return [row for query in queries for row in connection.execute(query.limit(MOST_RUNS))], counts


def _counts(connection: Connection, which: ColumnElement[bool]) -> dict[str, int]:
    counts = dict.fromkeys(("queued", "running", "waiting", "questions"), 0)
    query = select(runs.c.status, func.count(), func.count().filter(ASKS)).where(which).group_by(runs.c.status)
    for status, number, questions in connection.execute(query):
        counts[status] = number
        counts["questions"] += questions
    return counts


def _count(connection: Connection, which: ColumnElement[bool]) -> int:
    return int(connection.execute(select(func.count()).select_from(runs).where(which)).scalar_one())


def _is_no_question() -> ColumnElement[bool]:
    return or_(runs.c.reason.is_(None), runs.c.reason != Reason.APPROVAL)


def _ended_well() -> ColumnElement[bool]:
    return and_(runs.c.ended_ms.is_not(None), runs.c.error_code.is_(None))


# --- the open questions that a principal may decide about


HOUR_MS = 3_600_000
_ORDER = (approvals.c.created_ms.desc(), approvals.c.id.desc())
_RUN = (runs.c.thread_id, runs.c.agent_id, runs.c.principal, runs.c.title, runs.c.private)


def inbox(
    connection: Connection, principal: Principal, *, limit: int, before_ms: int | None = None, before_id: str = ""
) -> tuple[list[dict[str, Any]], bool]:
    """Return open questions, the newest first, each with its run; and whether the page was shortened for its size.

    They are those of waiting runs that the principal may decide about: its own, and with the role ``approver`` or
    ``admin`` others' of its tenant.
    """
    query: Select[Any] = select(*QUESTION, *_RUN).join(runs, runs.c.id == approvals.c.run_id)
    query = query.where(UNANSWERED, runs.c.status == "waiting", rows_for(principal, Verb.DECIDE, runs))
    time_ms, id_ = approvals.c.created_ms, approvals.c.id
    query = newest_first(query, time_ms, id_, limit=limit, before_ms=before_ms, before_id=before_id)
    rows, is_cut = Pages(query=query, text=approvals.c.arguments_json, order=_ORDER).read(connection)
    return [_with_run(row) for row in rows], is_cut


_ANSWER_ORDER = (approvals.c.decided_ms.desc(), approvals.c.id.desc())
_ANSWERED = and_(approvals.c.decision.is_not(None), approvals.c.decision != VOID, approvals.c.decided_ms.is_not(None))
_SIZE = (
    func.coalesce(approvals.c.arguments_json, "").concat(func.coalesce(approvals.c.decision_json, "")).label("size_")
)
CHANGED = and_(approvals.c.decision == "approve", approvals.c.decision_json.contains('"arguments":{', autoescape=True))
"""The condition that a person approved a call with other arguments; within a text the quotes would be escaped."""
PAST_MS = 30 * DAY_MS
MOST_PAST = 1000
"""Decisions that are read at most of what was decided lately."""
MOST_LATEST = 50


def answered(
    connection: Connection, principal: Principal, *, limit: int, before_ms: int | None = None, before_id: str = ""
) -> tuple[list[dict[str, Any]], bool]:
    """Return answered questions as ``inbox`` does open ones, those answered last first, each with its ``answer``."""
    query: Select[Any] = select(*QUESTION, *_RUN, _SIZE).join(runs, runs.c.id == approvals.c.run_id)
    query = query.where(_ANSWERED, rows_for(principal, Verb.DECIDE, runs))
    time_ms, id_ = approvals.c.decided_ms, approvals.c.id
    query = newest_first(query, time_ms, id_, limit=limit, before_ms=before_ms, before_id=before_id)
    rows, is_cut = Pages(query=query, text=_SIZE, order=_ANSWER_ORDER).read(connection)
    return [_with_run(row) | {"answer": _answer(row)} for row in rows], is_cut


def _answer(row: Any) -> dict[str, Any]:
    data = orjson.loads(row.decision_json) if row.decision_json is not None else {}
    new, old = data.get("arguments"), orjson.loads(row.arguments_json)
    changed = None if new is None else sorted(name for name in {*new, *old} if new.get(name) != old.get(name))
    facts = {"decision": row.decision, "by": row.decided_by, "message": data.get("message"), "changed": changed}
    times = {"at": stamp(row.decided_ms), "after_ms": max(0, row.decided_ms - row.created_ms)}
    return present(facts | times)


def decided_lately(connection: Connection, principal: Principal, tool: str | None) -> dict[str, Any]:
    """Return how persons decided about calls in the last 30 days, by tool; of one tool also its latest decisions.

    The newest 1,000 decisions about which the principal may decide are read.
    """
    columns = approvals.c["id", "run_id", "name", "decision", "decided_by", "decided_ms", "created_ms"]
    note = case((approvals.c.decision == "reject", approvals.c.decision_json), else_=None).label("note_json")
    query = select(*columns, CHANGED.label("is_changed"), note).join(runs, runs.c.id == approvals.c.run_id)
    lately = approvals.c.decided_ms > wall_ms(connection) - PAST_MS, approvals.c.kind == "call"
    query = query.where(_ANSWERED, *lately, rows_for(principal, Verb.DECIDE, runs))
    query = query.where(approvals.c.name == tool) if tool is not None else query
    rows = connection.execute(query.order_by(*_ANSWER_ORDER).limit(MOST_PAST)).all()
    by_tool = defaultdict[str, list[Any]](list)
    for row in rows:
        by_tool[row.name].append(row)
    tools = [_of_tool(name, of_tool) for name, of_tool in by_tool.items()][:MOST_RUNS]
    latest = [_past(row) for row in rows[:MOST_LATEST]] if tool is not None else None
    return {"tools": tools, "is_cut": len(rows) == MOST_PAST} | present({"latest": latest})


def _of_tool(name: str, rows: Sequence[Any]) -> dict[str, Any]:
    by_person = [row for row in rows if row.decided_by != "expiry"]
    counts = {
        "approved": sum(row.decision == "approve" and not row.is_changed for row in by_person),
        "changed": sum(bool(row.is_changed) for row in by_person),
        "rejected": sum(row.decision == "reject" for row in by_person),
        "expired": len(rows) - len(by_person),
    }
    waits_ms = sorted(max(0, row.decided_ms - row.created_ms) for row in by_person)
    return present({"name": name, **counts, "median_ms": waits_ms[len(waits_ms) // 2] if waits_ms else None})


def _past(row: Any) -> dict[str, Any]:
    message = orjson.loads(row.note_json).get("message") if row.note_json is not None else None
    facts = {"approval_id": row.id, "run_id": row.run_id, "decision": row.decision, "by": row.decided_by}
    is_changed = True if row.is_changed else None
    return present(facts | {"is_changed": is_changed, "message": message, "at": stamp(row.decided_ms)})


def asked_lately(connection: Connection, tenant: str, principal: str, most: int) -> int:
    """Return how many questions the runs of a principal asked within the last hour, at most ``most``."""
    ours = (runs.c.tenant == tenant, runs.c.principal == principal, approvals.c.kind != "unknown")
    lately = approvals.c.created_ms > wall_ms(connection) - HOUR_MS
    query = select(approvals.c.id).join(runs, runs.c.id == approvals.c.run_id).where(lately, *ours).limit(most)
    return int(connection.execute(select(func.count()).select_from(query.subquery())).scalar_one())


def _with_run(row: Any) -> dict[str, Any]:
    run = {"run_id": row.run_id, "thread_id": row.thread_id, "agent": row.agent_id, "principal": row.principal}
    return question_data(row) | run | present({"title": row.title, "private": row.private or None})


# --- what the policy decided about calls


PAGE = 200
"""Decisions in a list without an explicit limit."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DecidedCall:
    """A call of a model or a tool, with what is known of it."""

    run_id: str
    step_id: str
    number: int
    """Of the step in its run, from 1."""
    at_ms: int
    facts: CallFacts
    """Without the classification of the tool, which is not recorded."""
    decision: Mapping[str, Any]
    """As it was recorded; empty of a call that was made before there were policies."""


def decisions_of(connection: Connection, run_id: str, *, after: int = 0, limit: int = PAGE) -> list[dict[str, Any]]:
    """Return the run's decisions as the API shows them, in the order of the steps behind number ``after``."""
    columns = steps.c["id", "number", "kind", "name", "call_id", "effect", "status", "decision_json", "started_ms"]
    query = select(*columns).where(steps.c.run_id == run_id, steps.c.number > after, steps.c.decision_json.is_not(None))
    return [_shown(row) for row in connection.execute(query.order_by(steps.c.number).limit(limit))]


def _shown(row: Row[Any]) -> dict[str, Any]:
    fields = {
        "step_id": row.id,
        "number": row.number,
        "point": row.kind,
        "name": row.name,
        "call_id": row.call_id,
        "effect": row.effect,
        "status": row.status,
        "at": stamp(row.started_ms),
        **orjson.loads(row.decision_json),
    }
    return {name: value for name, value in fields.items() if value is not None}


def decided_calls(connection: Connection, run: Row[Any]) -> list[DecidedCall]:
    """Return the calls of a run, given as its row, that the policy was or would have been asked about, in order."""
    rows = connection.execute(select(steps).where(steps.c.run_id == run.id).order_by(steps.c.number)).all()
    arguments = _arguments(connection, run.id, rows)
    calls, model = [], run.model
    for index, row in enumerate(rows):
        model = row.name if row.kind == "model" else model  # a fallback may have answered
        if row.kind not in ("model", "sample", "tool") or (
            row.kind == "tool" and row.effect is None and not row.decision_json
        ):
            continue  # a call that was not valid
        decision = orjson.loads(row.decision_json) if row.decision_json else {}
        fields = {"model": model, "arguments": arguments.get(row.id, {}), "labels": frozenset(decision.get("seen", ()))}
        fields["identity"] = decision.get("identity", "")
        facts = _facts(run, row, total_of(rows[: _asked_with(rows, index)]), fields)
        calls.append(
            DecidedCall(
                run_id=run.id, step_id=row.id, number=row.number, at_ms=row.started_ms, facts=facts, decision=decision
            )
        )
    return calls


def _asked_with(rows: Any, index: int) -> int:
    """Return the place of the first call of the answer that asked for this one: all of them are judged at once."""
    while rows[index].kind == "tool" and index and rows[index - 1].kind == "tool":
        index -= 1
    return index


def _facts(run: Row[Any], row: Row[Any], spent: Totals, fields: dict[str, Any]) -> CallFacts:
    names = orjson.loads(run.roles_json) if run.roles_json else []
    return CallFacts(
        point="tool" if row.kind == "tool" else "model",
        name=row.name,
        effect=Effect(row.effect)
        if row.effect in set(Effect)
        else Effect.PURE
        if row.kind != "tool"
        else Effect.UNSAFE,
        principal=run.principal,
        roles=frozenset(Role(name) for name in names if name in set(Role)),
        tenant=run.tenant,
        agent_id=run.agent_id,
        cost_usd=spent.cost_usd or 0.0,
        tokens=sum(spent.usage.get(name, 0) for name in ("input_tokens", "output_tokens")),
        steps=spent.steps,
        context=golden_of(run),
        **fields,
    )


def _arguments(connection: Connection, run_id: str, rows: Any) -> dict[str, dict[str, Any]]:
    """Return the arguments of each tool step before the policy changed them: a person's, else the model's."""
    written: dict[str, str] = {}
    query = select(messages.c.data_json).where(messages.c.run_id == run_id, messages.c.role.in_(("assistant", "user")))
    for (data_json,) in connection.execute(query):
        for call in orjson.loads(data_json).get("tool_calls") or ():
            written[call["call_id"]] = call.get("arguments_text") or "{}"
    answers_by_step = answers(connection, run_id)
    by_step = {}
    for row in rows:
        edited = answers_by_step[row.id].edited if row.id in answers_by_step else None
        by_step[row.id] = dict(edited) if edited is not None else _decoded(written.get(row.call_id, "{}"))
    return by_step


def _decoded(text: str) -> dict[str, Any]:
    try:
        value = orjson.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


RUN_COLUMNS = runs.c["id", "principal", "tenant", "roles_json", "agent_id", "model", "context_json", "trace_id"]
"""What ``decided_calls`` reads of a run's row."""


# --- the child runs of a run, and those below them

MOST_CHILDREN = 1000
"""Most runs that are shown, those of the upper levels first."""


def children_shown(connection: Connection, principal: Principal, run_id: str) -> list[dict[str, Any]]:
    """Return the children that the principal sees, level by level, each level in the order of acceptance."""
    children: list[Any] = []
    above = [run_id]
    while above and len(children) < MOST_CHILDREN:
        level = select(*_CHILD_COLUMNS, steps.c.call_id).outerjoin(steps, steps.c.id == runs.c.parent_step)
        level = level.where(runs.c.parent_id.in_(above), rows_for(principal, Verb.SEE, runs))
        rows = connection.execute(
            level.order_by(runs.c.created_ms, runs.c.id).limit(MOST_CHILDREN - len(children))
        ).all()
        above = [row.id for row in rows]
        children += rows
    questions = _questions_of(connection, [row.id for row in children if row.status == "waiting"])
    return [_child_shown(row, questions.get(row.id)) for row in children]


_CHILD_COLUMNS = runs.c["id", "parent_id", "agent_id", "title", "status", "reason", "created_ms", "ended_ms"]


def _questions_of(connection: Connection, run_ids: Sequence[str]) -> dict[str, list[str]]:
    """Return the ids of the open questions of these runs."""
    questions = defaultdict[str, list[str]](list)
    if run_ids:
        query = select(approvals.c.run_id, approvals.c.id).where(approvals.c.run_id.in_(run_ids), UNANSWERED)
        for row in connection.execute(query.order_by(approvals.c.created_ms, approvals.c.id)):
            questions[row.run_id].append(row.id)
    return questions


def _child_shown(row: Any, questions: list[str] | None) -> dict[str, Any]:
    return present(
        {
            "run_id": row.id,
            "parent_run_id": row.parent_id,
            "call_id": row.call_id,
            "agent": row.agent_id,
            "title": row.title,
            "status": row.status,
            "reason": row.reason,
            "approvals": questions,
            "created_at": stamp(row.created_ms),
            "ended_at": stamp(row.ended_ms) if row.ended_ms else None,
        }
    )
