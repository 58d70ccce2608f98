"""Sagas: the calls that undo others, registered in the commit of the call they undo, and made in reverse order.

Each is a step and a call like any other, with its policy, approval, key and retries. What could not be undone is named
in the run's end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Protocol

import orjson

from agents.context import RunContext
from agents.errors import CALL_BLOCKED
from agents.models.streams.tool_calls import ToolCall
from agents.steps import open_calls
from agents.steps.tool_step import ToolStep
from agents.tools.tool import Tool
from bus.journal.owner import Commit, Ending, NodeStep, OpenStep, StepEnded, StepStarted
from bus.payloads import NodePayload
from config.definitions.workflows.fields import WorkflowDefinition
from config.definitions.workflows.graph import COMPENSATION
from config.errors import CallboardError, Permanent
from config.ids import canonical_digest, new_id

SAGA = "~saga"
"""The path of the step that says that a run has failed, and that what it did is being undone."""
LEFT_SO = "the call that undoes it failed, or its outcome is unknown, and a person left it so"
REASONS = {
    "done": "no call that undoes it is registered",
    "unknown": "it is not known whether it took effect, and nothing undoes it",
}
"""Why a call is named, by its outcome."""
MAX_NAMED = 100
"""Most calls that a run's end names."""
MAX_NOTED = 5 * MAX_NAMED
"""Most calls that are noted: more, since the call that undoes one is registered right behind it."""


class UndoneRun(Protocol):
    """What a saga needs of the run that it undoes (``agents.workflows.runtime.Runtime``)."""

    context: RunContext
    definition: WorkflowDefinition
    message_id: str
    open: dict[str, Any]

    @property
    def is_leaving(self) -> bool: ...

    def changes(self, path: str, effect: str) -> bool: ...

    def ids_of(self, path: str) -> dict[str, Any]: ...

    def tool_called(self, name: str) -> Tool: ...


class Saga:
    """What a run has done that can be undone; to be used on the loop's thread."""

    def __init__(self, executor: UndoneRun, recorded: Iterable[NodeStep]) -> None:
        self._executor, self._context = executor, executor.context
        self._planned: list[OpenStep] = []
        self._nodes: dict[str, str] = {}
        self._covered: set[str] = set()
        self._done: dict[str, dict[str, Any]] = {}
        self._reached: set[str] = set()  # nodes whose calls this run has made, or taken from the record
        self._failed: list[dict[str, Any]] = []
        self._marker: str | None = None
        self.ending: Ending | None = None
        """How the run ends, where an earlier owner has begun to undo it."""
        steps = list(recorded)
        for step in (step for step in steps if step.node.endswith((COMPENSATION, SAGA))):
            self._read(step)
        for step in (step for step in steps if step.kind == "tool" and step.is_over):
            if step.step.status in REASONS and not step.node.endswith(COMPENSATION):
                self._note(step.node, step.step.name, step.step.effect, step.step.status)

    def _read(self, step: NodeStep) -> None:
        """Take what an earlier owner has written."""
        if step.node == SAGA:
            facts = orjson.loads(step.step.arguments_text or "{}")
            error = _error(facts) if facts.get("message") is not None else None
            self._marker = step.step.id
            self.ending = Ending(status=facts["status"], reason=facts["reason"], note=facts["note"], error=error)
            return
        node = step.node.removesuffix(COMPENSATION)
        self._covered.add(node)
        if not step.is_over:
            self._planned.append(step.step)
            self._nodes[step.step.id] = node
        elif step.step.status != "done":
            self._failed.append(_named(node, step.step.name, str(step.result)))

    # --- while the run works

    def registered(self, node: str, tool: Tool, arguments: Mapping[str, Any]) -> StepStarted:
        """Return the step of the call that undoes a node's, for the commit with the node's end."""
        text, _ = self._context.guardrails.call(orjson.dumps(dict(arguments)).decode())
        recorded = orjson.loads(text)
        started = StepStarted(
            id=new_id("step"),
            kind="tool",
            name=tool.name,
            call_id=f"{node}{COMPENSATION}",
            node=f"{node}{COMPENSATION}",
            input=recorded,
            effect=str(tool.effect),
            arguments_digest=canonical_digest(recorded),
            idempotency_key=new_id("key"),
            status="planned",
        )
        self._planned.append(_prior(started))
        self._nodes[started.id] = node
        self._covered.add(node)
        self._done.pop(node, None)
        return started

    def note_call(self, node: str, step: ToolStep) -> None:
        """Note a call that is over; the run's end names it where it may have changed something that nothing undoes."""
        end, tool = step.work.end, step.record.tool
        if tool is not None and end is not None and end.outcome in REASONS:
            self._note(node, tool.name, str(tool.effect), end.outcome)

    def _note(self, node: str, tool: str, effect: str, outcome: str) -> None:
        self._reached.add(node)
        has_room = node not in self._covered and len(self._done) < MAX_NOTED
        if has_room and self._executor.changes(node, effect):
            self._done[node] = _named(node, tool, REASONS[outcome])

    def dropped(self) -> Commit:
        """Return the ends of the calls that need not be made, since the run has succeeded."""
        return Commit(ended=[StepEnded(id=step.id, status="cancelled") for step in self._planned])

    # --- after it has failed

    @property
    def is_begun(self) -> bool:
        """Whether the run is at its end but for what is being undone."""
        return self._marker is not None

    @property
    def has_calls(self) -> bool:
        """Whether anything is to be undone."""
        return bool(self._planned)

    @property
    def not_undone(self) -> list[dict[str, Any]] | None:
        """The calls that changed something and that nothing has undone; None where there is none."""
        left = [
            _named(self._nodes[step.id], step.name, "the call that undoes it was not made") for step in self._planned
        ]
        return [*self._done.values(), *self._failed, *left, *self._left_earlier()][:MAX_NAMED] or None

    @property
    def not_reached(self) -> list[dict[str, Any]] | None:
        """The calls of earlier runs which this run continues from, of nodes that it has not come to; or None."""
        return list(islice(self._left_earlier(), MAX_NAMED)) or None

    def _left_earlier(self) -> Iterator[dict[str, Any]]:
        recorded = self._context.lease.recorded
        for node in recorded.left(self._reached | self._covered) if recorded is not None else ():
            if self._executor.changes(node.path, node.effect):
                yield _named(node.path, node.name, f"the run {node.run_id} made it, and this run has not come to it")

    def begun(self, ending: Ending) -> Commit:
        """Return the commit that says how the run ends once it is undone; none where an earlier owner wrote that."""
        if self._marker is not None:
            return Commit()
        facts = {"status": ending.status, "reason": ending.reason, "note": ending.note}
        if ending.error is not None:
            facts |= {"code": ending.error.code, "message": str(ending.error)}
        started = StepStarted(
            id=new_id("step"),
            kind="node",
            name="saga",
            node=SAGA,
            input=facts,
            arguments_digest=canonical_digest(facts),
            idempotency_key=new_id("key"),
        )
        self._marker = started.id
        return Commit(started=[started])

    def ended(self) -> Commit:
        """Return the end of that step."""
        return Commit(ended=[StepEnded(id=self._marker, status="done")]) if self._marker is not None else Commit()

    async def undo(self) -> bool:
        """Make the calls that undo, the newest first; return whether all are over: otherwise one waits for a person, or
        this process is to leave the run.

        Raises:
            StaleOwner: another worker owns the run now.
        """
        while self._planned:
            if self._executor.is_leaving:
                return False
            step = self._step(self._planned[-1])
            if not await self._made(step):
                return False
            self._planned.pop()
        return True

    def _step(self, prior: OpenStep) -> ToolStep:
        executor = self._executor
        tool = executor.tool_called(prior.name)
        call = ToolCall(id=prior.call_id, name=prior.name, arguments_text=prior.arguments_text or "")
        return open_calls.new_step(self._context, executor.definition, {tool.name: tool}, call, prior)

    async def _made(self, step: ToolStep) -> bool:
        """Make one call; return whether it is over."""
        executor, node = self._executor, self._nodes[step.id]
        answer = step.record.answer
        used = [answer.approval_id] if answer.decision is not None and answer.approval_id is not None else []
        _refuse_halted(step)
        if step.will_run:
            notes = await open_calls.ask_engine(self._context, [step])
            _refuse_halted(step)
            events = [*notes, step.call_event(executor.message_id)]
            decided = open_calls.decided([step])
            change = Commit(events=events, restarted=[step.id], decided=decided, answers_used=used)
            await self._context.save(change)
            used = []
        executor.open[f"{node}{COMPENSATION}"] = step
        await step.run()
        end = step.work.end
        if end is not None and end.outcome == "failed" and not _is_given_up(step):
            step.work.set_outcome("unknown", str(end.result))  # a person decides how to continue
        is_open = step.work.is_pending or open_calls.waits_for_a_person(step, "ask")
        if is_open and not _is_given_up(step):
            return False
        executor.open.pop(f"{node}{COMPENSATION}")
        await self._context.save(replace(self._over(step, node), answers_used=used))
        return True

    def _over(self, step: ToolStep, node: str) -> Commit:
        executor, end = self._executor, step.work.end
        assert end is not None
        is_undone = end.outcome == "done"
        if not is_undone:
            reason = LEFT_SO if step.record.is_answered("fail") else str(end.result)
            self._failed.append(_named(node, step.record.call.name, reason))
        self._nodes.pop(step.id)
        change = replace(step.outcome(self._executor.message_id), history=())
        event = NodePayload(
            **executor.ids_of(node),
            status="compensated" if is_undone else "failed",
            step_id=step.id,
            content=None if is_undone else f"It was not undone: {str(end.result)[:300]}",
        )
        return replace(change, events=[*change.events, event])


def _named(node: str, tool: str, reason: str) -> dict[str, Any]:
    return {"node": node, "tool": tool, "reason": reason[:300]}


def _is_given_up(step: ToolStep) -> bool:
    return step.record.is_answered("fail") or step.record.is_answered("reject") or step.decision.refusal is not None


def _refuse_halted(step: ToolStep) -> None:
    """Refuse a call for which the policy ends the run: it is at its end, and only without the call."""
    halting = step.decision.policy_decision
    if step.decision.is_halted and halting is not None:
        step.refuse(CALL_BLOCKED(f"Not done: the policy's rule '{halting.rule}' ends the run. {halting.reason}"))


def _prior(started: StepStarted) -> OpenStep:
    return OpenStep(
        id=started.id,
        name=started.name,
        call_id=started.call_id or "",
        effect=started.effect or "",
        status="planned",
        key=started.idempotency_key,
        attempt=1,
        arguments_digest=started.arguments_digest,
        arguments_text=orjson.dumps(started.input).decode(),
    )


def _error(facts: Mapping[str, Any]) -> CallboardError:
    error = Permanent(facts["message"])
    error.code = facts["code"]
    return error
