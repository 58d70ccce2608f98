"""Errors of runs, threads, cursors and approvals."""

from __future__ import annotations

from config.errors import Permanent, Retryable
from config.identity.principal import Principal
from config.limits import LimitName

RETRY_AFTER_S = 5


class RunUnknown(Permanent):
    code = "run_unknown"
    status = 404
    text = "there is no run '{run_id:.80}'; `./callboard runs` lists the runs."

    @property
    def public(self) -> str:
        return f"there is no run '{self.facts['run_id'][:80]}'; GET /v1/runs lists those that you see."


class ThreadUnknown(Permanent):
    code = "thread_unknown"
    status = 404
    text = "there is no thread '{thread_id:.80}'; `./callboard threads` lists the threads."

    @property
    def public(self) -> str:
        return f"there is no thread '{self.facts['thread_id'][:80]}'; GET /v1/threads lists yours."


class ThreadOfOtherAgent(Permanent):
    """The principal's credential is not for the thread's agent, whose messages the run would read."""

    code = "thread_of_other_agent"
    status = 403
    text = (
        "thread '{thread_id:.80}' has an agent that this credential is not for; continue it with another "
        "credential, or name a new thread."
    )


class RunOpen(Permanent):
    """A run that has not ended cannot be removed."""

    code = "run_open"
    status = 409

    def __init__(self, run_id: str, status: str, thread_id: str | None = None) -> None:
        what = f"thread '{thread_id[:80]}' has a run that is {status}" if thread_id else f"run '{run_id}' is {status}"
        super().__init__(
            f"{what}; stop it first (`./callboard cancel {run_id}`), then remove it. Nothing was removed.",
            run_id=run_id,
            thread_id=thread_id,
        )


class TooManyRuns(Retryable):
    """The principal or its tenant has as many open or queued runs as it may."""

    code = "too_many_runs"
    status = 429

    def __init__(self, principal: Principal, name: LimitName, limit: int) -> None:
        scope, kind, _ = name.split("_")
        whose = f"'{principal.id}'" if scope == "principal" else f"tenant '{principal.tenant}'"
        super().__init__(
            f"{whose} has {limit} {kind} runs, as many as it may; start this one when one of them has "
            f"{'begun' if kind == 'queued' else 'ended'}, or stop one.",
            limit=limit,
            retry_after_s=RETRY_AFTER_S,
        )


class CursorInvalid(Permanent):
    code = "cursor_invalid"
    text = (
        "'{cursor:.40}' is not a cursor; send back the id of the last event you saw, or leave it out to read from the "
        "beginning."
    )


class CursorAhead(Permanent):
    code = "cursor_ahead"
    status = 409
    text = "cursor {cursor} is beyond the last event of this run, {last}; read again from {last} or earlier."


class IdempotencyConflict(Permanent):
    code = "idempotency_conflict"
    status = 409
    text = "the idempotency key '{key:.80}' was used with another body; send the same body again, or a new key."


class StaleOwner(Permanent):
    """Another worker owns the run now; stop writing."""

    code = "stale_owner"

    def __init__(self, run_id: str, fence: int) -> None:
        super().__init__(
            f"run {run_id} is no longer owned under fence {fence}; nothing was written.", run_id=run_id, fence=fence
        )


class CodeVersion(Permanent):
    """The run's journal is not compatible with this worker's code or tools; the run waits for a worker that is."""

    code = "code_version"
    status = 503


class RunCrashed(Permanent):
    """The run lost too many owners, so it is not tried again."""

    code = "crashed"
    status = 502
    text = (
        "{crashes} workers were lost while they worked on this run (at work: {during}), so it is not tried again. Find "
        "out what that does to a worker's process, then start a new run."
    )


class ApprovalExpired(Permanent):
    code = "approval_expired"
    status = 410
    text = "no person answered this run's question in time, so it ended; start a new run."


class ApprovalUnknown(Permanent):
    code = "approval_unknown"
    status = 404
    text = "this run asks nothing with the id '{approval_id:.80}'; look at what it waits for and answer that."


class ApprovalDecided(Permanent):
    """The question was answered before; the facts have that decision."""

    code = "approval_decided"
    status = 409
    text = "this was decided already: {decision}, by {by}; nothing was changed."


class ApprovalOver(Permanent):
    """The run no longer waits for this answer: it ended, is being stopped, or the question expired."""

    code = "approval_over"
    status = 409


class DecisionRefused(Permanent):
    code = "decision_refused"
    text = "'{answer:.40}' is not among the answers to this; give one of: {offered}."


class ApproverRefused(Permanent):
    """The principal cannot be one of the several that have to approve a call."""

    code = "approver_refused"
    status = 409


class EditRefused(Permanent):
    """The arguments that a person gives with an approval do not fit the tool's schema."""

    code = "edit_refused"
    status = 422
    text = "the call cannot be made with these arguments: {problems:.2000}."
