"""Steps: one row for each model call or tool call; ``started`` is committed before the call, the result after."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, func, insert, select, update

from bus.journal.records.task_wait import TaskWait, begin_waits
from config.database.engine import WALL_MS
from config.database.tables import messages, runs, steps, timers
from config.definitions.workflows.graph import COMPENSATION
from config.ids import new_id
from config.policy_decision import PolicyDecision

AGENT, TOOL, WORKFLOW = "agent", "tool", "workflow"
"""The kinds of runs: an agent's turn, one call of one tool, and a graph or a blueprint."""
NO_MODEL = ""
"""The model of a run of kind ``tool``."""
WAIT = "wait"
"""The kind of the timer of a workflow's node that waits for a time, or for a signal at most so long."""
RESULT_IN = "result_in"
"""The field that replaces an event's or a step's ``result``: the id of the message that has it."""


@dataclass(frozen=True, kw_only=True, slots=True)
class NewCall:
    """The call that a run of kind ``tool`` makes."""

    name: str
    """The tool's name, as its agent's model would write it."""
    arguments: Mapping[str, Any]

    def message_fields(self) -> dict[str, Any]:
        """Return what the user's message has besides its text: the call, in the form of an assistant's message."""
        text = orjson.dumps(dict(self.arguments)).decode()
        call = {"call_id": new_id("call"), "name": self.name, "arguments": self.arguments, "arguments_text": text}
        return {"tool_calls": [call]}


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedCall:
    """The call of a run of kind ``tool``, as it was accepted."""

    message_id: str
    """The user's message that has it."""
    call_id: str
    name: str
    arguments_text: str


def read_call(connection: Connection, run_id: str) -> AcceptedCall | None:
    """Return the call that a run of kind ``tool`` was accepted with; None of a run of another kind."""
    row = connection.execute(_MESSAGE, {"run_": run_id}).first()
    calls = orjson.loads(row.data_json).get("tool_calls") if row is not None else None
    if row is None or not calls:
        return None
    (call,) = calls
    return AcceptedCall(message_id=row.id, **{name: call[name] for name in ("call_id", "name", "arguments_text")})


@dataclass(frozen=True, kw_only=True, slots=True)
class AcceptedInput:
    """What a workflow was started with."""

    message_id: str
    """The user's message that has it."""
    data: Mapping[str, Any]
    body: Mapping[str, Any] | None = None
    """The items of a FOR_EACH on which it works, in place of the whole graph."""


def read_input(connection: Connection, run_id: str) -> AcceptedInput:
    """Return what a workflow was started with."""
    row = connection.execute(_MESSAGE, {"run_": run_id}).one()
    fields = orjson.loads(row.data_json)
    return AcceptedInput(message_id=row.id, data=fields["input"], body=fields.get("body"))


_MESSAGE = (
    select(messages.c.id, messages.c.data_json)
    .join(runs, (runs.c.id == messages.c.run_id) & (runs.c.thread_key == messages.c.thread_key))  # forks have copies
    .where(messages.c.run_id == bindparam("run_"), messages.c.role == "user")
    .order_by(messages.c.number)
    .limit(1)
)


def handing_calls(connection: Connection, run_id: str) -> Sequence[str]:
    """Return the ids of the calls that handed a run over to another agent, in their order.

    Their stored results say so, which a run that continues from another one has copies of.
    """
    results = map(orjson.loads, connection.execute(_HANDING, {"run_": run_id}).scalars())
    return [result["call_id"] for result in results if result.get("handed_over")]


_HANDING = (
    select(messages.c.data_json)
    .join(runs, (runs.c.id == messages.c.run_id) & (runs.c.thread_key == messages.c.thread_key))
    .where(messages.c.run_id == bindparam("run_"), messages.c.role == "tool")
    .where(messages.c.data_json.contains('"handed_over":true'))
    .order_by(messages.c.number)
)


@dataclass(frozen=True, kw_only=True, slots=True)
class StepStarted:
    """A step that begins with the commit that has it."""

    id: str
    kind: str
    """model, tool; sample: a model call that a tool's server asks for; guard: a function checks the input. Of a
    workflow also node: computed by the owner; item: one of a FOR_EACH; wait: for a signal or a time."""
    name: str
    """The name of the model or the tool."""
    arguments_digest: str
    idempotency_key: str
    """The same for every owner and every try of the step."""
    effect: str | None = None
    call_id: str | None = None
    status: str = "started"
    """``planned`` where the next owner will begin it: this one releases the run between two steps."""
    decision: PolicyDecision | None = None
    """What the policy decides about the call; None where the call is not valid, so that it is not made."""
    wait: TaskWait | None = None
    """The task that the call begins, where another system does its work."""
    node: str | None = None
    """Of a workflow: the path of the node, ``items/17/charge``."""
    input: Any = None
    """Of a workflow: what the node is given, which its next owner calls it with."""
    timer_ms: int | None = None
    """Of a ``wait``: after how many milliseconds it is over."""

    def row(self) -> dict[str, Any]:
        """Return its columns."""
        columns = dict(zip(_ROW, _columns_of(self), strict=True), decision_json=_json(self.decision))
        return columns | {"input_json": orjson.dumps(self.input).decode() if self.input is not None else None}


_ROW = "id kind name arguments_digest idempotency_key effect call_id status node".split()
_columns_of = attrgetter(*_ROW)


def _json(decision: PolicyDecision | None) -> str | None:
    return orjson.dumps(decision.as_json()).decode() if decision is not None else None


@dataclass(frozen=True, kw_only=True, slots=True)
class StepEnded:
    """The result of a step."""

    id: str
    status: str
    """done, failed, refused, cancelled or unknown."""
    result: Any = None
    usage: Mapping[str, int] | None = None
    cost_usd: float | None = None
    attempts: int = 1
    spans: Sequence[Mapping[str, Any]] = ()
    """The operations of the call (``agents.tools.spans``), as JSON data of bounded size."""
    labels: frozenset[str] = frozenset()
    """Of a workflow: the labels of the node's output."""


_NUMBER = (
    select(func.coalesce(func.max(steps.c.number), 0) + 1).where(steps.c.run_id == bindparam("run_")).scalar_subquery()
)
_START = insert(steps).inline().values(number=_NUMBER, started_ms=WALL_MS)
_RECORD = insert(steps).inline().values(number=_NUMBER, started_ms=WALL_MS, ended_ms=WALL_MS)
_END = update(steps).where(steps.c.id == bindparam("id_")).values(ended_ms=WALL_MS)


def start_steps(connection: Connection, run_id: str, fence: int, started: Sequence[StepStarted]) -> None:
    """Insert steps, numbered after those that the run has."""
    for step in started:
        row = {"run_": run_id, "run_id": run_id, "attempt": 1, "fence": fence}
        connection.execute(_START, row | step.row())
        if step.wait is not None:
            begin_waits(connection, run_id, {step.id: step.wait})
        if step.timer_ms is not None:
            timer = {"id": step.id, "run_id": run_id, "kind": WAIT}
            connection.execute(insert(timers).values(**timer, due_ms=WALL_MS + step.timer_ms))


def restart_steps(connection: Connection, fence: int, step_ids: Sequence[str]) -> None:
    """Mark an earlier owner's open steps as started by this one, in the claim's transaction, before their effect."""
    if step_ids:
        again = {"status": "started", "fence": fence, "attempt": steps.c.attempt + 1}
        connection.execute(update(steps).where(steps.c.id.in_(step_ids)).values(**again))


def edit_steps(connection: Connection, digests: Mapping[str, str]) -> None:
    """Record the digests of arguments that a person changed, by the ids of their steps."""
    for step_id, digest in digests.items():
        connection.execute(update(steps).where(steps.c.id == step_id).values(arguments_digest=digest))


def decide_steps(connection: Connection, decisions: Mapping[str, PolicyDecision]) -> None:
    """Record what the policy decides about steps that are resumed, by their ids."""
    for step_id, decision in decisions.items():
        connection.execute(update(steps).where(steps.c.id == step_id).values(decision_json=_json(decision)))


def number_attempts(connection: Connection, attempts: Mapping[str, int]) -> None:
    """Record which attempt of open steps begins, by their ids, so that a later owner makes no more than are left."""
    for step_id, number in attempts.items():
        connection.execute(update(steps).where(steps.c.id == step_id).values(attempt=number))


def ask_other_models(connection: Connection, models: Mapping[str, str]) -> None:
    """Record which models open model steps ask from now on, by the ids of the steps."""
    for step_id, model in models.items():
        connection.execute(update(steps).where(steps.c.id == step_id).values(name=model))


def models_of(connection: Connection, run_id: str) -> list[str]:
    """Return the models that answered a run's steps, in the order in which they first did."""
    query = select(steps.c.name).where(steps.c.run_id == run_id, steps.c.kind == "model", steps.c.status == "done")
    return list(dict.fromkeys(connection.execute(query.order_by(steps.c.number)).scalars()))


def left_to_undo(connection: Connection, run_id: str) -> list[Mapping[str, Any]]:
    """Return the calls of a run that would undo others and were not made: the ``node`` and the ``tool`` of each."""
    rows = connection.execute(_COMPENSATIONS, {"run_": run_id})
    return [{"node": row.node.removesuffix(COMPENSATION), "tool": row.name} for row in rows]


_COMPENSATIONS = (
    select(steps.c.node, steps.c.name)
    .where(steps.c.run_id == bindparam("run_"), steps.c.ended_ms.is_(None))
    .where(steps.c.node.endswith(COMPENSATION, autoescape=True))
    .order_by(steps.c.number)
)


def leave_steps(connection: Connection, step_ids: Sequence[str], status: str) -> None:
    """Leave open steps as ``planned`` (not begun), ``waiting`` (for a task) or ``unknown`` (the outcome is unknown)."""
    if step_ids:
        connection.execute(update(steps).where(steps.c.id.in_(step_ids)).values(status=status))


def end_steps(connection: Connection, ended: Sequence[StepEnded]) -> None:
    """Write the results of steps that have begun."""
    for step in ended:
        connection.execute(_END, {"id_": step.id, **_result_of(step)})


def record_steps(
    connection: Connection, run_id: str, fence: int, recorded: Sequence[tuple[StepStarted, StepEnded]]
) -> None:
    """Insert steps that are over, numbered after those that the run has; all of them are one statement."""
    owned = {"run_": run_id, "run_id": run_id, "fence": fence}
    rows = [owned | started.row() | _result_of(ended) for started, ended in recorded]
    if rows:
        connection.execute(_RECORD, rows)


def _result_of(step: StepEnded) -> dict[str, Any]:
    return {
        "status": step.status,
        "cost_usd": step.cost_usd,
        "result_json": orjson.dumps(step.result).decode() if step.result is not None else None,
        "usage_json": orjson.dumps(dict(step.usage)).decode() if step.usage else None,
        "attempt": step.attempts,
        "spans_json": orjson.dumps([*step.spans]).decode() if step.spans else None,
        "labels_json": orjson.dumps(sorted(step.labels)).decode() if step.labels else None,
    }


def steps_of(connection: Connection, run_id: str) -> list[Mapping[str, Any]]:
    """Return a run's steps in order."""
    query = select(steps).where(steps.c.run_id == run_id).order_by(steps.c.number)
    return [dict(row) for row in connection.execute(query).mappings()]


# --- totals ----------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True, slots=True)
class Totals:
    """Sums over the steps of a run; zero for a new run."""

    steps: int = 0
    usage: Mapping[str, int] = field(default_factory=dict)
    """Tokens by kind, including failed attempts."""
    cost_usd: float | None = None
    """None where no step's price is known, which differs from 0."""

    def plus(self, other: Totals) -> Totals:
        total = {name: self.usage.get(name, 0) + other.usage.get(name, 0) for name in {**self.usage, **other.usage}}
        costs = [cost for cost in (self.cost_usd, other.cost_usd) if cost is not None]
        return Totals(steps=self.steps + other.steps, usage=total, cost_usd=sum(costs) if costs else None)


def total_of(rows: Iterable[Any]) -> Totals:
    """Return the sums over rows of steps."""
    total = Totals()
    for row in rows:
        usage = orjson.loads(row.usage_json) if row.usage_json else {}
        total = total.plus(Totals(steps=1, usage=usage, cost_usd=row.cost_usd))
    return total


def read_totals(connection: Connection, run_id: str) -> Totals:
    """Return the run's totals; reads only columns whose format is the same in all releases."""
    return total_of(connection.execute(_TOTALS, {"run_": run_id}))


_TOTALS = (
    select(steps.c.usage_json, steps.c.cost_usd).where(steps.c.run_id == bindparam("run_")).order_by(steps.c.number)
)
