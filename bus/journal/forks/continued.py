"""A run that continues from another one's recorded steps: a rerun from a step, or a retry.

What the other run recorded before the first step that is made anew is copied into the new run, in the commit that
accepts it: steps that cost nothing, their messages, and their events, all with ids of their own, and the agents that
handed it over. Its owner then finds them as it finds what an earlier owner has done (``bus/journal/log/progress.py``).
The calls of the last copied answer from that step on are planned: they pass the stages again, and get recorded
outcomes (``bus/journal/records/recorded_calls.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from sqlalchemy import Connection, Row, bindparam, or_, select

from bus.identity.access import rows_for
from bus.identity.errors import forbidden
from bus.journal.errors import RunUnknown
from bus.journal.forks.copied_nodes import copy_nodes
from bus.journal.forks.errors import RUN_NOT_REPEATABLE, STEP_UNKNOWN
from bus.journal.log.commit import Commit, record
from bus.journal.log.results import RESULT_BYTES
from bus.journal.records.recorded_calls import RETRY, Origin
from bus.journal.records.steps import RESULT_IN, WORKFLOW, NewCall, StepEnded, StepStarted, handing_calls, steps_of
from bus.journal.records.threads import HistoryItem
from bus.journal.states.conditions import note_copied
from bus.journal.states.queue_order import priority_name
from bus.payloads import TERMINAL, HandoverPayload, MessagePayload, Payload, ToolPayload, ToolResultPayload, decode
from config.clock import stamp
from config.database.tables import events, messages, runs
from config.database.tables import steps as steps_table
from config.identity.principal import Principal, Verb
from config.ids import new_id

Step = Mapping[str, Any]
"""A step's row."""


@dataclass(frozen=True, kw_only=True, slots=True)
class RepeatedRun:
    """What a new run takes from the one that it continues from."""

    agent_id: str
    thread_id: str
    turn: int
    objective: str
    call: NewCall | None
    """The call of a run of kind ``tool``."""
    input: Mapping[str, Any] | None
    """What a workflow was started with."""
    body: Mapping[str, Any] | None
    """The items on which it worked, where it was the child run of a FOR_EACH."""
    nodes: Sequence[Step]
    """Of a workflow: the ``node``, ``number`` and ``status`` of each step, in order."""
    definition_digest: str
    metadata: Mapping[str, Any]
    priority: str


def repeatable(connection: Connection, principal: Principal, origin: Origin) -> RepeatedRun:
    """Return what a principal's rerun or retry of a run takes from it.

    Raises:
        RunUnknown: there is no such run, or the principal does not see it.
        FORBIDDEN: it belongs to another principal.
        RUN_NOT_REPEATABLE: it has not ended, or there is nothing to retry.
    """
    its = select(runs).where(runs.c.id == origin.run_id, rows_for(principal, Verb.SEE, runs))
    run = connection.execute(its).first()
    message = connection.execute(_INPUT, {"run_": origin.run_id}).first()
    if run is None or message is None:
        raise RunUnknown(run_id=origin.run_id)
    if (run.tenant, run.principal) != (principal.tenant, principal.id):
        raise forbidden(principal, Verb.START, f"a run in a thread of '{run.principal}'")
    _require_over(run, origin)
    return _repeated(connection, run, message, origin.from_step)


def earlier_child(connection: Connection, run_id: str) -> RepeatedRun | None:
    """Return what a child run takes from the one that an earlier run had in its place; None where that is gone."""
    run = connection.execute(select(runs).where(runs.c.id == run_id, runs.c.ended_ms.is_not(None))).first()
    message = connection.execute(_INPUT, {"run_": run_id}).first()
    return _repeated(connection, run, message, None) if run is not None and message is not None else None


def _repeated(connection: Connection, run: Any, message: Any, from_step: int | None) -> RepeatedRun:
    data = orjson.loads(message.data_json)
    calls = [NewCall(name=call["name"], arguments=call["arguments"]) for call in data.get("tool_calls") or ()]
    return RepeatedRun(
        agent_id=_agents_at(connection, run, from_step)[-1],
        thread_id=run.thread_id,
        turn=run.turn,
        objective=data["content"],
        call=calls[0] if calls else None,
        input=data.get("input"),
        body=data.get("body"),
        nodes=_nodes(connection, run.id) if run.kind == WORKFLOW else (),
        definition_digest=run.definition_digest,
        metadata=orjson.loads(run.metadata_json) if run.metadata_json else {},
        priority=priority_name(run.priority),
    )


def _nodes(connection: Connection, run_id: str) -> list[Step]:
    return [dict(row) for row in connection.execute(_NODES, {"run_": run_id}).mappings()]


_NODES = (
    select(*steps_table.c["node", "number", "status"])
    .where(steps_table.c.run_id == bindparam("run_"), steps_table.c.node.is_not(None))
    .order_by(steps_table.c.number)
)
# A run that was steered has more messages of its user, and forks have copies of all.
_INPUT = (
    select(messages.c.data_json)
    .join(runs, (runs.c.id == messages.c.run_id) & (runs.c.thread_key == messages.c.thread_key))
    .where(messages.c.run_id == bindparam("run_"), messages.c.role == "user")
    .order_by(messages.c.number)
    .limit(1)
)


def _agents_at(connection: Connection, run: Row[Any], from_step: int | None) -> Sequence[str]:
    """Return the agents that had a run up to the first step that is made anew, in order; the last one continues."""
    agents = [*orjson.loads(run.handed_from_json or "[]"), run.agent_id]
    if len(agents) == 1:
        return agents
    steps = steps_of(connection, run.id)
    first = _first_without_result(steps) if from_step is None else from_step
    calls = handing_calls(connection, run.id)
    later = [step for step in steps if step["number"] >= first and step["call_id"] in calls]
    return agents[: len(agents) - len(later)]


def _require_over(run: Any, origin: Origin) -> None:
    if run.status not in TERMINAL:
        raise RUN_NOT_REPEATABLE(
            f"run '{run.id}' is {run.status}; wait for its end, or stop it with `./callboard cancel {run.id}`.",
            run_id=run.id,
        )
    if run.parent_id is not None:
        raise RUN_NOT_REPEATABLE(
            f"run '{run.id}' was delegated by run '{run.parent_id}', which gets its result; repeat that one.",
            run_id=run.id,
        )
    if run.kind == WORKFLOW and origin.from_step is not None:
        raise RUN_NOT_REPEATABLE(
            f"run '{run.id}' is of a workflow, whose nodes are no steps in a row; `./callboard runs retry {run.id}` "
            "makes again what has failed, and what follows from it.",
            run_id=run.id,
        )
    if origin.kind == RETRY and run.status == "succeeded" and not origin.items_only:
        raise RUN_NOT_REPEATABLE(
            f"run '{run.id}' has succeeded, so there is nothing to retry; "
            f"`./callboard runs rerun {run.id} --from-step N` runs it again from a step.",
            run_id=run.id,
        )


def continue_from(connection: Connection, origin: Origin, run_id: str, redo: Collection[str] = ()) -> None:
    """Copy into a run that was just inserted what its origin has recorded before the first step that is made anew.

    Of a workflow, what its origin has recorded of all nodes but those at the paths ``redo``.

    Raises:
        STEP_UNKNOWN: the origin has no step with this number.
        RUN_NOT_REPEATABLE: the origin is a workflow's run that was retried, so that its record is not the newest.
    """
    run = connection.execute(_RUN, {"run_": run_id}).one()
    if run.kind == WORKFLOW:
        if origin.kind == RETRY:
            if origin.mode != "live":
                _require_newest(connection, origin, run)
            copy_nodes(connection, run, origin.run_id, redo)
        return
    steps = steps_of(connection, origin.run_id)
    last = steps[-1]["number"] if steps else 0
    first = _first_without_result(steps) if origin.from_step is None else origin.from_step
    if origin.from_step is not None and not any(step["number"] == first for step in steps):
        raise STEP_UNKNOWN(run_id=origin.run_id, number=first, last=last)
    source = connection.execute(_SOURCE, {"run_": origin.run_id}).one()
    *handed_from, _ = _agents_at(connection, source, first)
    copies = _Copies(source=origin.run_id, steps=_parts(steps, first))
    copies.read(connection)
    started = [copies.started(step, is_settled=is_settled) for step, is_settled in copies.steps]
    ended = [copies.ended(step) for step, is_settled in copies.steps if is_settled]
    numbered = [replace(payload, seq=seq, at=stamp()) for seq, payload in enumerate(copies.events(connection), 2)]
    record(connection, run, 0, Commit(started=started), ())
    record(connection, run, 0, Commit(ended=ended, history=list(copies.items.values())), numbered)
    note_copied(connection, run_id, 1 + len(numbered), handed_from)


def _require_newest(connection: Connection, origin: Origin, run: Any) -> None:
    """Return where no other run has retried a workflow's run; its thread is locked, so none can be on its way."""
    query = select(*runs.c["id", "status"]).where(runs.c.thread_key == run.thread_key, runs.c.id != run.run_id)
    query = query.where(runs.c.origin_id == origin.run_id, runs.c.origin_json.contains('"retry"'))
    later = connection.execute(query.order_by(runs.c.turn.desc()).limit(1)).first()
    if later is not None:
        raise RUN_NOT_REPEATABLE(
            f"run '{origin.run_id}' was retried as '{later.id}', which is {later.status} and knows what was done; "
            f"`./callboard runs retry {later.id}` continues from there, and `--live` makes everything again.",
            run_id=origin.run_id,
        )


_SOURCE = select(*runs.c["id", "agent_id", "handed_from_json"]).where(runs.c.id == bindparam("run_"))
_RUN = select(runs.c.id.label("run_id"), *runs.c["thread_id", "thread_key", "turn", "kind"]).where(
    runs.c.id == bindparam("run_")
)


def _first_without_result(steps: Sequence[Step]) -> int:
    """Return the number of the first step whose result cannot be used as it is; behind the last where all can."""
    usable = ("done", "failed", "refused")
    for step in steps:
        if step["kind"] == "model" and step["result_json"] is None:
            return int(step["number"])
        if step["kind"] == "tool" and step["status"] not in usable:
            return int(step["number"])
    return int(steps[-1]["number"]) + 1 if steps else 1


def _parts(steps: Sequence[Step], first: int) -> list[tuple[Step, bool]]:
    """Return the steps to copy, each with whether its result is: else it is a call of the last answer to be made."""
    parts: list[tuple[Step, bool]] = []
    for step in steps:
        is_before = step["number"] < first
        if step["kind"] == "model" and not is_before:
            break
        if step["kind"] == "model" and step["result_json"] is not None:
            parts.append((step, True))
        elif step["kind"] == "tool" and parts:
            parts.append((step, is_before or not step["effect"]))  # one without an effect class was never made
    return parts


@dataclass(kw_only=True, slots=True)
class _Copies:
    """Copies of steps with their messages and events, with ids of their own."""

    source: str
    """The run that has recorded them."""
    steps: Sequence[tuple[Step, bool]]
    items: dict[str, HistoryItem] = field(default_factory=dict)
    """The id of the message, or of the call with this result -> the copy."""
    ids: dict[str, str] = field(default_factory=dict)
    """Each id of a step, a message or a call -> that of its copy."""

    def read(self, connection: Connection) -> None:
        """Read the messages of the steps, and copy them, with the texts that the run was given between them."""
        answers = {orjson.loads(step["result_json"]).get("message_id") for step, _ in self.steps if not step["call_id"]}
        settled = {step["call_id"] for step, is_settled in self.steps if is_settled and step["call_id"]}
        is_before = True
        for row in connection.execute(_MESSAGES, {"run_": self.source}):
            data = orjson.loads(row.data_json)
            if row.role == "user":
                if is_before and "control_id" in data:
                    self._keep(row.id, row, data)
            elif row.role == "assistant" and row.id in answers:
                calls = [
                    call | {"call_id": self._new(call["call_id"], "call")} for call in data.get("tool_calls") or ()
                ]
                self._keep(row.id, row, data | ({"tool_calls": calls} if calls else {}))
            elif row.role == "tool" and data["call_id"] in settled:
                self._keep(data["call_id"], row, data | {"call_id": self._new(data["call_id"], "call")})
            else:
                is_before = False  # the texts behind it were for steps that are made anew

    def _keep(self, key: str, row: Any, data: dict[str, Any]) -> None:
        self.items[key] = HistoryItem(id=self._new(row.id, "msg"), role=row.role, data=data, partial=row.partial)

    def _new(self, old: str, prefix: str) -> str:
        return self.ids.setdefault(old, new_id(prefix))

    def started(self, step: Step, *, is_settled: bool) -> StepStarted:
        """Return the copy of a step's start."""
        return StepStarted(
            id=self._new(step["id"], "step"),
            kind=step["kind"],
            name=step["name"],
            arguments_digest=step["arguments_digest"],
            idempotency_key=new_id("key"),
            effect=step["effect"],
            call_id=self.ids.get(step["call_id"]) if step["call_id"] else None,
            status="started" if is_settled else "planned",
        )

    def ended(self, step: Step) -> StepEnded:
        """Return the copy of a step's result, which costs nothing."""
        item = self.items.get(step["call_id"]) if step["call_id"] else None
        result = orjson.loads(step["result_json"]) if step["result_json"] is not None else None
        if item is not None:
            result = item.data.get("result")
        elif isinstance(result, dict) and "message_id" in result:
            result |= {"message_id": self.ids[result["message_id"]]}
        return StepEnded(id=self.ids[step["id"]], status=step["status"], cost_usd=0.0, result=result)

    def events(self, connection: Connection) -> Iterator[Payload]:
        """Yield the copies of the steps' events, as far as the log of the source still has them."""
        step_ids = [step["id"] for step, _ in self.steps]
        settled = {step["id"] for step, is_settled in self.steps if is_settled}
        hand_overs = sum(1 for item in self.items.values() if item.data.get("handed_over"))
        for (line,) in connection.execute(_EVENTS, {"run_": self.source, "steps_": step_ids}) if step_ids else ():
            payload = decode(line)
            if isinstance(payload, MessagePayload):
                calls = [{**call, "call_id": self.ids[call["call_id"]]} for call in payload.tool_calls or ()]
                yield self._copy(payload, tool_calls=calls or None)
            elif isinstance(payload, ToolPayload):
                yield self._copy(payload, call_id=self.ids[payload.call_id])
            elif isinstance(payload, ToolResultPayload) and payload.step_id in settled:
                yield self._result(payload)
            elif isinstance(payload, HandoverPayload) and hand_overs:
                hand_overs -= 1
                yield payload

    def _result(self, payload: ToolResultPayload) -> Payload:
        item = self.items.get(payload.call_id)
        result = item.data.get("result") if item is not None else payload.result
        extra = {name: value for name, value in payload.extra.items() if name not in (RESULT_IN, RESULT_BYTES)}
        call_id = self.ids[payload.call_id]
        return self._copy(payload, call_id=call_id, result=result, extra=extra, recorded_in=self.source)

    def _copy(self, payload: Any, **changed: Any) -> Payload:
        ids = {"step_id": self.ids[payload.step_id], "message_id": self.ids.get(payload.message_id, "")}
        copy: Payload = replace(payload, **ids, **changed)
        return copy


_MESSAGES = (
    select(*messages.c["id", "role", "data_json", "partial"])
    .join(runs, (runs.c.id == messages.c.run_id) & (runs.c.thread_key == messages.c.thread_key))
    .where(messages.c.run_id == bindparam("run_"), messages.c.role.in_(("user", "assistant", "tool")))
    .order_by(messages.c.number)
)
_EVENTS = (
    select(events.c.data_json)
    .where(events.c.run_id == bindparam("run_"), events.c.type.in_(("message", "tool", "tool_result", "handover")))
    .where(or_(events.c.type == "handover", events.c.step_id.in_(bindparam("steps_", expanding=True))))
    .order_by(events.c.seq)
)
