"""Owners that do what an agent does, step by step: stream, call tools, ask, release, end; on the real journal."""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from sqlalchemy import select

from bus.journal.approvals import UNKNOWN, Decision, Question, use
from bus.journal.live.hotlog import HotLog
from bus.journal.log.commit import Commit
from bus.journal.log.progress import OpenStep, Progress, read_progress
from bus.journal.ownership.leases import claim_on
from bus.journal.records.steps import StepEnded, StepStarted, restart_steps, start_steps
from bus.journal.records.threads import HistoryItem
from bus.journal.states.codes import Reason
from bus.journal.states.lease import Lease
from bus.journal.states.release import Release
from bus.payloads import (
    EndPayload,
    EndStatus,
    MessagePayload,
    Outcome,
    ReasoningPayload,
    ResponsePayload,
    StatusPayload,
    ToolNamePayload,
    ToolPayload,
    ToolResultPayload,
)
from cli.crashlab.ledger import BEGAN, Entry
from config.clock import epoch_ms
from config.database.tables import steps
from config.ids import canonical_digest
from tests.bus.journal_harness import JournalHarness, Owner, save_end

NUMBERS = itertools.count(1)
"""For ids that are unique in the whole test run, and the same when a failure is played again."""
LEASE_S = 600.0
WEEK_MS = 7 * 24 * 3600 * 1000
Piece = Literal["response", "reasoning", "tool"]
State = Literal["to_run", "done", "taken_as_done", "given_up", "unknown"]
OUTCOMES: dict[State, Outcome] = {
    "to_run": "failed",
    "done": "done",
    "taken_as_done": "done",
    "given_up": "failed",
    "unknown": "unknown",
}


@dataclass(slots=True)
class Call:
    """A tool call without a result."""

    id: str
    call_id: str
    effect: str
    state: State
    is_asked: bool = False
    result: Any = None

    @classmethod
    def taken_up(cls, step: OpenStep) -> Call:
        """Return a call an earlier owner left, as its effect and a person's answer allow."""
        call = cls(step.id, step.call_id, step.effect, "unknown", step.is_asked)
        if step.decision is not None:
            answers: dict[str, State] = {"run_again": "to_run", "take_as_done": "taken_as_done", "fail": "given_up"}
            call.state, call.result = answers[step.decision.decision], step.decision.result
        elif step.status == "planned" or step.effect == "pure":
            call.state = "to_run"
        return call


@dataclass(slots=True)
class Outside:
    """The effects outside of the journal."""

    entries: defaultdict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))
    """The calls of each run that took effect."""
    used: Counter[str] = field(default_factory=Counter)
    """How often each answer was used."""


class FakeOwner:
    """One owner of a run. An owner that lost the run continues all the same, until the journal refuses."""

    def __init__(self, owner: Owner, progress: Progress, thinking: str | None, outside: Outside) -> None:
        self.owner = owner
        self.writer = owner.writer
        self.lease = owner.lease
        self.outside = outside
        self.step = thinking
        """The model call under way; None while tools are called."""
        self.calls = [Call.taken_up(step) for step in progress.calls]
        self.is_stopped = self.lease.stop_requested
        self._message_id = ""
        self._said: dict[str, str] = {}

    # --- streaming

    async def say(self, kinds: Sequence[Piece]) -> None:
        """Tell pieces of the message under way."""
        self._message_id = self._message_id or f"msg_{next(NUMBERS)}"
        ids = {"message_id": self._message_id, "step_id": self.step or ""}
        for kind in kinds:
            piece = f"{self._message_id}.{next(NUMBERS)} "
            if kind == "tool":
                self.writer.delta(ToolNamePayload, {"call_id": f"call_{next(NUMBERS)}", "name": "look_up", **ids})
            else:
                self.writer.delta(
                    ResponsePayload if kind == "response" else ReasoningPayload, {"content": piece, **ids}
                )
                self._said[kind] = self._said.get(kind, "") + piece

    async def retry(self) -> None:
        """Take the message under way back, as after a stream that broke."""
        await self.writer.withdraw(self._message_id, *[StatusPayload(status="running", reason="again")])
        self._message_id, self._said = "", {}

    async def message(self, effects: Sequence[str] = ()) -> None:
        """Commit the message under way, and with it what comes next: calls with these effects, or another message."""
        calls = [Call(f"stp_{next(NUMBERS)}", f"call_{next(NUMBERS)}", effect, "to_run") for effect in effects]
        thinking = None if calls else f"stp_{next(NUMBERS)}"
        payload, history_item = self._whole(calls)
        started = [_tool_step(call) for call in calls] if calls else [_model_step(thinking or "")]
        ended = StepEnded(id=self.step or "", status="done", result={"message_id": payload.message_id})
        await self.writer.commit(
            Commit(events=[payload, *map(_call_event, calls)], started=started, ended=[ended], history=[history_item])
        )
        self.step, self.calls, self._message_id, self._said = thinking, calls, "", {}

    def _whole(self, calls: Sequence[Call]) -> tuple[MessagePayload, HistoryItem]:
        message_id = self._message_id or f"msg_{next(NUMBERS)}"
        tool_calls = [{"call_id": call.call_id, "name": "tool", "arguments_text": "{}"} for call in calls] or None
        content, reasoning = self._said.get("response"), self._said.get("reasoning")
        data = {"content": content, "reasoning": reasoning, "tool_calls": tool_calls}
        payload = MessagePayload(
            role="assistant",
            content=content,
            reasoning=reasoning,
            tool_calls=tool_calls,
            message_id=message_id,
            step_id=self.step or "",
        )
        return payload, HistoryItem(id=message_id, role="assistant", data=data)

    async def note(self) -> None:
        """Commit an event of no consequence."""
        await self.writer.commit(Commit(events=[StatusPayload(status="running", reason=f"note {next(NUMBERS)}")]))

    # --- tools

    def effect(self, call: Call) -> None:
        """Let a call take effect outside; its start was committed before."""
        (step,) = self.owner.harness.rows(select(steps).where(steps.c.id == call.id))
        assert step.status != "planned", "a step takes effect whose start was not committed"
        entries = self.outside.entries[self.lease.run_id]
        entries.append(Entry(mark=BEGAN, tool="tool", says=None, key=call.id, call_id=call.call_id, arguments={}))
        call.state, call.result = "done", f"effect {len(entries)}"

    async def result(self, call: Call) -> None:
        """Commit what came of a call; after the last one the model is called again."""
        is_last = len(self.calls) == 1
        thinking = f"stp_{next(NUMBERS)}" if is_last else None
        started = [_model_step(thinking)] if thinking else []
        event, ended, item = _result(call)
        await self.writer.commit(Commit(events=[event], started=started, ended=[ended], history=[item]))
        self.calls.remove(call)
        self.step = thinking

    # --- releasing

    async def ask(self, expires_in_ms: int = WEEK_MS) -> list[Question]:
        """Let the run wait for a person's decision on every call whose outcome is unknown."""
        questions = [_question(call, expires_in_ms) for call in self.calls if not call.is_asked]
        waits = StatusPayload(status="waiting", reason="approval")
        release = Release(status="waiting", reason=Reason.APPROVAL, questions=tuple(questions), detail="a person")
        events = [*(question.payload() for question in questions), waits]
        await self.writer.commit(Commit(events=events, unknown=[call.id for call in self.calls], release=release))
        return questions

    async def release(self) -> None:
        """Let the run go back to the queue; what has an outcome is written down, what was not begun is planned."""
        settled = [call for call in self.calls if call.state not in ("to_run", "unknown")]
        results = [_result(call) for call in settled]
        change = Commit(
            events=[*(event for event, _, _ in results), StatusPayload(status="moved", reason="drain")],
            ended=[ended for _, ended, _ in results],
            history=[item for _, _, item in results],
            planned=[call.id for call in self.calls if call.state == "to_run"],
            unknown=[call.id for call in self.calls if call.state == "unknown"],
            release=Release(status="queued", reason=Reason.DRAIN),
        )
        await self.writer.commit(change)

    async def end(self, status: EndStatus) -> None:
        """End the run; every open call gets its result."""
        results = [_result(call) for call in self.calls]
        thinking = [StepEnded(id=self.step, status="cancelled")] if self.step else []
        change = Commit(
            events=[*(event for event, _, _ in results), EndPayload(status=status, steps=1)],
            ended=[*thinking, *(ended for _, ended, _ in results)],
            history=[item for _, _, item in results],
            error_code="test" if status == "failed" else None,
        )
        await save_end(self.owner.harness, self.writer, change)


async def take(harness: JournalHarness, run_id: str, owner: str, hot_log: HotLog, outside: Outside) -> FakeOwner | None:
    """Return the run's new owner; None: the run cannot be claimed."""
    claimed = await harness.loop.write(_claim, harness, run_id, owner, outside)
    if claimed is None:
        return None
    lease, progress, thinking = claimed
    fake = FakeOwner(Owner(harness, lease, hot_log), progress, thinking, outside)
    fake.owner.notify_of_claim()
    return fake


def _claim(
    harness: JournalHarness, run_id: str, owner: str, outside: Outside
) -> tuple[Lease, Progress, str | None] | None:
    with harness.database.write() as connection:
        lease = claim_on(connection, harness.database, run_id, owner, LEASE_S)
        if lease is None:
            return None
        progress = read_progress(connection, run_id)
        thinking = progress.asking.id if progress.asking else None
        runnable = [step.id for step in progress.calls if Call.taken_up(step).state == "to_run"]
        restart_steps(connection, lease.fence, [*runnable, *([thinking] if thinking else [])])
        use(connection, [step.approval_id for step in progress.calls if step.approval_id and step.decision])
        if not progress.calls and thinking is None:
            thinking = f"stp_{next(NUMBERS)}"
            start_steps(connection, lease.run_id, lease.fence, [_model_step(thinking)])
    for step in progress.calls:
        if step.approval_id is not None and step.decision is not None:
            outside.used[step.approval_id] += step.decision == AGAIN  # the others do nothing outside
    return lease, progress, thinking


AGAIN = Decision(decision="run_again")


def _model_step(step_id: str) -> StepStarted:
    return StepStarted(id=step_id, kind="model", name="demo", arguments_digest="m" * 64, idempotency_key=step_id)


def _tool_step(call: Call) -> StepStarted:
    return StepStarted(
        id=call.id,
        kind="tool",
        name="tool",
        arguments_digest=canonical_digest({}),
        idempotency_key=call.id,
        effect=call.effect,
        call_id=call.call_id,
    )


def _call_event(call: Call) -> ToolPayload:
    return ToolPayload(call_id=call.call_id, name="tool", arguments={}, effect=call.effect, step_id=call.id)


def _result(call: Call) -> tuple[ToolResultPayload, StepEnded, HistoryItem]:
    """Return the event, the step's end and the history item of a call's outcome."""
    outcome, text = OUTCOMES[call.state], call.result or call.state
    facts: dict[str, Any] = {"call_id": call.call_id, "name": "tool", "outcome": outcome, "result": text}
    ended = StepEnded(id=call.id, status=outcome, result=text)
    return (
        ToolResultPayload(**facts, step_id=call.id),
        ended,
        HistoryItem(id=f"msg_{next(NUMBERS)}", role="tool", data=facts),
    )


def _question(call: Call, expires_in_ms: int) -> Question:
    return Question(
        id=f"apr_{next(NUMBERS)}",
        step_id=call.id,
        call_id=call.call_id,
        name="tool",
        arguments={},
        digest=canonical_digest({}),
        decisions=UNKNOWN,
        reason="its outcome is not known",
        expires_ms=epoch_ms() + expires_in_ms,
    )
