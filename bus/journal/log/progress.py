"""How far a run has come, read from its journal by an owner that goes on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson
from sqlalchemy import Connection, bindparam, case, select

from bus.journal.approvals import Decision, answers, asked_steps
from config.tables import messages, steps


@dataclass(frozen=True, kw_only=True, slots=True)
class OpenStep:
    """A step without a result."""

    id: str
    name: str
    call_id: str
    """Of a tool call; empty for a model call."""
    effect: str
    """As it was when the step was written down."""
    status: str
    """``planned``: never begun. ``started``: it may have taken effect. ``unknown``: a person is asked."""
    key: str
    """Its idempotency key."""
    attempt: int
    arguments_digest: str
    approval_id: str | None = None
    """The answer to use, if there is one."""
    decision: Decision | None = None
    is_asked: bool = False
    """Whether a person was asked and has not answered."""
    arguments_text: str | None = None
    """As the model wrote them; None where the message that made the call cannot be read."""

    @property
    def may_be_called(self) -> bool:
        """Whether the tool may be needed for it: it could be called once, and nobody settled it otherwise."""
        is_settled = self.status == "unknown" and (self.decision is None or self.decision.decision != "run_again")
        return bool(self.effect) and not is_settled


@dataclass(frozen=True, kw_only=True, slots=True)
class Progress:
    """What an owner needs to go on where the last one stopped; of a new run, nothing."""

    steps: int = 0
    rounds: int = 0
    """Answers that called tools."""
    usage: Mapping[str, int] = field(default_factory=dict)
    cost_usd: float | None = None
    asking: OpenStep | None = None
    """The model call that was under way."""
    calls: tuple[OpenStep, ...] = ()
    """The tool calls of the last answer that have no result."""
    calls_of: str = ""
    """The message that made them."""
    repair: Mapping[str, Any] | None = None
    """``text`` and ``problem`` of an answer that did not fit the schema and is being mended."""


NOTHING_YET = Progress()


@dataclass(frozen=True, kw_only=True, slots=True)
class Tally:
    """What a run has used, by its recorded steps; an end without an owner says the same as an owner's would."""

    steps: int
    usage: Mapping[str, int]
    """Tokens by kind, those of attempts that came to nothing included."""
    cost_usd: float | None
    """None where no part of it is known."""


def read_tally(connection: Connection, run_id: str) -> Tally:
    """Return what the run has used. Of a step nothing is read whose form could be another release's."""
    rows = connection.execute(_TALLY, {"its_run": run_id}).all()
    return Tally(steps=len(rows), usage=_summed(rows), cost_usd=_cost(rows))


def read_progress(connection: Connection, run_id: str) -> Progress:
    """Return how far the run has come."""
    rows = connection.execute(_STEPS, {"its_run": run_id}).all()
    done = [row for row in rows if row.kind == "model" and row.result_json is not None]
    results = [orjson.loads(row.result_json) for row in done]
    unended = [row for row in rows if row.ended_ms is None]
    tools = [row for row in unended if row.kind == "tool"]
    decided = answers(connection, run_id) if tools else {}
    asked = asked_steps(connection, run_id) if tools else frozenset[str]()
    calls_of = results[-1].get("message_id", "") if results else ""
    written = _written(connection, run_id, calls_of) if tools else {}
    return Progress(
        steps=len(rows),
        rounds=sum(1 for result in results if result.get("calls")),
        usage=_summed(rows),
        cost_usd=_cost(rows),
        asking=next((_open(row) for row in reversed(unended) if row.kind == "model"), None),
        calls=tuple(
            _open(row, *decided.get(row.id, (None, None)), is_asked=row.id in asked, text=written.get(row.call_id))
            for row in tools
        ),
        calls_of=calls_of,
        repair=next((result["repair"] for result in results if "repair" in result), None),
    )


_STEPS = (
    select(
        steps.c.id, steps.c.kind, steps.c.name, steps.c.call_id, steps.c.effect, steps.c.status, steps.c.attempt,
        steps.c.idempotency_key, steps.c.arguments_digest, steps.c.ended_ms, steps.c.usage_json, steps.c.cost_usd,
        # What tools returned may be much, and is in the history.
        case((steps.c.kind == "model", steps.c.result_json), else_=None).label("result_json"),
    )
    .where(steps.c.run_id == bindparam("its_run"))
    .order_by(steps.c.number)
)  # fmt: skip
_TALLY = (
    select(steps.c.usage_json, steps.c.cost_usd).where(steps.c.run_id == bindparam("its_run")).order_by(steps.c.number)
)
_MESSAGE = select(messages.c.data_json).where(
    messages.c.run_id == bindparam("its_run"), messages.c.id == bindparam("its_id")
)


def _written(connection: Connection, run_id: str, message_id: str) -> dict[str, str]:
    """Return the arguments of a message's calls, by the call's id."""
    data_json = connection.execute(_MESSAGE, {"its_run": run_id, "its_id": message_id}).scalar()
    calls = orjson.loads(data_json).get("tool_calls") if data_json is not None else None
    return {call["call_id"]: call["arguments_text"] for call in calls or ()}


def _open(
    row: Any, approval_id: str | None = None, decision: Decision | None = None, *, is_asked: bool = False,
    text: str | None = None,
) -> OpenStep:  # fmt: skip
    return OpenStep(
        id=row.id, name=row.name, call_id=row.call_id or "", effect=row.effect or "", status=row.status,
        key=row.idempotency_key, attempt=row.attempt, arguments_digest=row.arguments_digest,
        approval_id=approval_id, decision=decision, is_asked=is_asked, arguments_text=text,
    )  # fmt: skip


def _summed(rows: Any) -> dict[str, int]:
    total: dict[str, int] = {}
    for row in rows:
        for name, tokens in (orjson.loads(row.usage_json) if row.usage_json else {}).items():
            total[name] = total.get(name, 0) + tokens
    return total


def _cost(rows: Any) -> float | None:
    costs = [row.cost_usd for row in rows if row.cost_usd is not None]
    return sum(costs) if costs else None
