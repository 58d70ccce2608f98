"""The progress of a run, read from its journal by an owner that resumes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, case, select

from bus.journal.approvals import NO_ANSWER, Decision, PersonAnswer, answers
from bus.journal.log.children import ChildRun, children_of
from bus.journal.records.control_requests import rounds_bought, rounds_set
from bus.journal.records.steps import WAIT, WORKFLOW, Totals, handing_calls, read_call, total_of
from bus.journal.records.task_wait import TaskWait, waits_of
from config.database.engine import WALL_MS
from config.database.tables import messages, runs, steps, timers


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenStep:
    """A step without a result."""

    id: str
    name: str
    call_id: str
    """Of a tool call; empty for a model call."""
    effect: str
    """The tool's effect class when the step was recorded."""
    status: str
    """``planned``: not begun. ``started``: it may have taken effect. ``waiting``: its task is under way.
    ``unknown``: a person is asked."""
    key: str
    """The step's idempotency key."""
    attempt: int
    arguments_digest: str
    answer: PersonAnswer = NO_ANSWER
    """What a person has said about it."""
    constrained: Mapping[str, Any] | None = None
    """The arguments as a policy rewrote them before the call was begun."""
    remote: str = ""
    """What the remote engine said of it; empty where it was not asked."""
    labels: tuple[str, ...] = ()
    """Labels that the policy gave to the call's result."""
    needs_approval: bool = False
    """Whether a person had to approve it, as was decided last."""
    wait: TaskWait | None = None
    """The task that it began, where another system does its work. With the status ``waiting`` it is known to be sent.
    """
    child: ChildRun | None = None
    """The child run to which it was delegated."""
    arguments_text: str | None = None
    """The arguments as the model wrote them; None where the message that made the call cannot be read."""

    @property
    def approval_id(self) -> str | None:
        """The question to a person about it, if there is one."""
        return self.answer.approval_id

    @property
    def decision(self) -> Decision | None:
        """The answer, which is to be used; None while there is none."""
        return self.answer.decision

    @property
    def is_asked(self) -> bool:
        """Whether it has an unanswered question."""
        return self.approval_id is not None and self.decision is None

    @property
    def may_be_called(self) -> bool:
        """Whether resuming may call the tool: the call was valid, and it neither waits for a person nor is settled."""
        decision = self.decision.decision if self.decision is not None else None
        is_settled = decision in ("reject", "take_as_done") or (self.status == "unknown" and decision != "run_again")
        return bool(self.effect) and not is_settled


@dataclass(frozen=True, kw_only=True, slots=True)
class NodeStep:
    """A step of a workflow's node."""

    node: str
    """The node's path."""
    kind: str
    step: OpenStep
    is_over: bool
    result: Any = None
    """What it returned, or the error with which it failed."""
    labels: frozenset[str] = frozenset()
    left_ms: int | None = None
    """Of an open step of the kind ``wait`` that has a time: until that is over; None where it is, or has none."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What an owner needs to resume a run where the last one stopped; empty for a new run."""

    totals: Totals = field(default_factory=Totals)
    rounds: int = 0
    """Number of model answers that called tools."""
    rounds_of_agent: int = 0
    """Those of the agent that has the run now: since the newest hand-over."""
    model: str = ""
    """The model that the run's agent asked last; empty where it has asked none."""
    asking: OpenStep | None = None
    """The model call that was open."""
    calls: tuple[OpenStep, ...] = ()
    """The tool calls of the last answer that have no result."""
    calls_of: str = ""
    """The id of the message that made them."""
    rounds_bought: int = 0
    """Rounds that the run may make beyond its agent's limit, since it was steered."""
    max_rounds: int | None = None
    """Most rounds, as a client has set them; None: no client has."""
    validation: Mapping[str, Any] | None = None
    """The verdict on the run's input, of the prompt guard of the agent that has the run now; None where there is none.
    """
    repair: Mapping[str, Any] | None = None
    """``text`` and ``problem`` of an answer that failed the output schema and that the model is asked to repair."""
    nodes: tuple[NodeStep, ...] = ()
    """Of a workflow: its steps in their order; ``calls`` are the open tool calls among them."""


def progress_of(connection: Connection, run_id: str, kind: str) -> Progress:
    """Return how far earlier owners of a run came, or the run that it continues from."""
    read = read_workflow_progress if kind == WORKFLOW else read_progress
    return read(connection, run_id)


def read_progress(connection: Connection, run_id: str) -> Progress:
    rows = connection.execute(_STEPS, {"run_": run_id}).all()
    own_rows = _of_agent(connection, run_id, rows)
    verdicts, own_results = _recorded(own_rows)
    _, results = _recorded(rows)
    unended = [row for row in rows if row.ended_ms is None]
    tools = [row for row in unended if row.kind == "tool"]
    answered = answers(connection, run_id) if tools else {}
    calls_of = results[-1].get("message_id", "") if results else ""
    if tools and not results:  # a run of kind ``tool``: the user's message has its call
        call = read_call(connection, run_id)
        calls_of = call.message_id if call is not None else ""
    written = _written(connection, run_id, calls_of) if tools else {}
    waits = waits_of(connection, run_id) if tools else {}
    children = children_of(connection, run_id, [row.id for row in tools])
    return Progress(
        totals=total_of(rows),
        rounds_bought=rounds_bought(connection, run_id),
        max_rounds=rounds_set(connection, run_id),
        rounds=_rounds(results),
        rounds_of_agent=_rounds(own_results),
        model=_newest_model(own_rows),
        asking=next((_open(row) for row in reversed(unended) if row.kind == "model"), None),
        calls=tuple(
            _open(row, answered.get(row.id), written.get(row.call_id), waits.get(row.id), children.get(row.id))
            for row in tools
        ),
        calls_of=calls_of,
        validation=next(iter(verdicts), None),
        repair=next((result["repair"] for result in own_results if "repair" in result), None),
    )


def read_workflow_progress(connection: Connection, run_id: str) -> Progress:
    """Return how far earlier owners of a workflow came."""
    rows = connection.execute(_NODES, {"run_": run_id}).all()
    tools = [row for row in rows if row.ended_ms is None and row.kind == "tool"]
    answered = answers(connection, run_id)
    waits = waits_of(connection, run_id) if tools else {}
    children = children_of(connection, run_id, [row.id for row in tools])
    left_ms = {row.id: row.left_ms for row in connection.execute(_TIMERS, {"run_": run_id})}
    nodes = tuple(
        NodeStep(
            node=row.node,
            kind=row.kind,
            step=_open(row, answered.get(row.id), row.input_json, waits.get(row.id), children.get(row.id)),
            is_over=row.ended_ms is not None,
            result=orjson.loads(row.result_json) if row.result_json is not None else None,
            labels=frozenset(orjson.loads(row.labels_json or "[]")),
            left_ms=left_ms.get(row.id),
        )
        for row in rows
        if row.node is not None
    )
    calls = tuple(node.step for node in nodes if not node.is_over and node.kind == "tool")
    return Progress(totals=total_of(rows), calls=calls, nodes=nodes)


def _newest_model(rows: Sequence[Any]) -> str:
    return next((row.name for row in reversed(rows) if row.kind == "model"), "")


def _recorded(rows: Sequence[Any]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the verdicts of guards that these steps have recorded, and the other results."""
    recorded = [orjson.loads(row.result_json) for row in rows if row.result_json is not None]
    verdicts = [result for result in recorded if "validationResult" in result]
    return verdicts, [result for result in recorded if "validationResult" not in result]


def _rounds(results: Sequence[Mapping[str, Any]]) -> int:
    return sum(1 for result in results if result.get("calls"))


def _of_agent(connection: Connection, run_id: str, rows: Sequence[Any]) -> Sequence[Any]:
    """Return the steps of the agent that has the run now: those behind the newest call that handed it over."""
    if connection.execute(_HANDED_FROM, {"run_": run_id}).scalar() is None:
        return rows
    newest = next(reversed(handing_calls(connection, run_id)), "")  # none in a turn that another run's agents began
    first = next((index + 1 for index, row in enumerate(rows) if newest and row.call_id == newest), 0)
    return rows[first:]


_HANDED_FROM = select(runs.c.handed_from_json).where(runs.c.id == bindparam("run_"))
_STEP_COLUMNS = (
    "id kind name call_id effect status attempt idempotency_key arguments_digest decision_json ended_ms usage_json "
    "cost_usd"
)
_STEPS = (
    select(
        *steps.c[*_STEP_COLUMNS.split()],
        # Results of tools may be large, and are in the history.
        case((steps.c.kind.in_(("model", "guard")), steps.c.result_json), else_=None).label("result_json"),
    )
    .where(steps.c.run_id == bindparam("run_"))
    .order_by(steps.c.number)
)
_NODES = (
    select(*steps.c[*_STEP_COLUMNS.split()], *steps.c["node", "input_json", "labels_json", "result_json"])
    .where(steps.c.run_id == bindparam("run_"))
    .order_by(steps.c.number)
)
_TIMERS = select(timers.c.id, (timers.c.due_ms - WALL_MS).label("left_ms")).where(
    timers.c.run_id == bindparam("run_"), timers.c.kind == WAIT
)
_MESSAGE = select(messages.c.data_json).where(messages.c.run_id == bindparam("run_"), messages.c.id == bindparam("id_"))


def _written(connection: Connection, run_id: str, message_id: str) -> dict[str, str]:
    """Return the arguments of a message's calls, by the call's id."""
    data_json = connection.execute(_MESSAGE, {"run_": run_id, "id_": message_id}).scalar()
    calls = orjson.loads(data_json).get("tool_calls") if data_json is not None else None
    return {call["call_id"]: call["arguments_text"] for call in calls or ()}


def _open(
    row: Any,
    answer: PersonAnswer | None = None,
    text: str | None = None,
    wait: TaskWait | None = None,
    child: ChildRun | None = None,
) -> OpenStep:
    decided = orjson.loads(row.decision_json) if row.decision_json is not None else {}
    return OpenStep(
        id=row.id,
        name=row.name,
        call_id=row.call_id or "",
        effect=row.effect or "",
        status=row.status,
        key=row.idempotency_key,
        wait=wait,
        child=child,
        attempt=row.attempt,
        arguments_digest=row.arguments_digest,
        answer=answer or NO_ANSWER,
        constrained=decided.get("arguments"),
        remote=decided.get("remote", ""),
        labels=tuple(decided.get("labels", ())),
        needs_approval=decided.get("verdict") == "require_approval",
        arguments_text=text,
    )
