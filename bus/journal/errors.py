"""Errors of runs, threads, cursors and approvals."""

from __future__ import annotations

from config.errors import CallboardError, ModelVisible, Permanent, Retryable, Topic
from config.identity.principal import Principal
from config.settings.limits import LimitName

RETRY_AFTER_S = 5


class RunUnknown(Permanent):
    """There is no such run, or the caller does not see it."""

    code = "run_unknown"
    status = 404
    remedy = "`./callboard runs` lists the runs."
    text = "there is no run '{run_id:.80}'; `./callboard runs` lists the runs."

    @property
    def public(self) -> str:
        return f"there is no run '{self.facts['run_id'][:80]}'; GET /v1/runs lists those that you see."


class ThreadUnknown(Permanent):
    """There is no such thread, or the caller does not see it. A start has it only for an id that Callboard made
    (`thr_…`).
    """

    code = "thread_unknown"
    status = 404
    remedy = "`./callboard threads` lists the threads."
    text = "there is no thread '{thread_id:.80}'; `./callboard threads` lists the threads."

    @property
    def public(self) -> str:
        return f"there is no thread '{self.facts['thread_id'][:80]}'; GET /v1/threads lists yours."


SUMMARY_UNKNOWN = Permanent.row(
    "summary_unknown",
    "The thread has no summary with that id.",
    status=404,
    text=(
        "the thread has no summary '{summary_id:.80}'; `./callboard threads summaries THREAD` lists those that it has."
    ),
    remedy="`./callboard threads summaries THREAD` lists them.",
)

THREAD_OF_OTHER_AGENT = Permanent.row(
    "thread_of_other_agent",
    "The credential is not for the agent that began the thread, or for one that ran in it.",
    status=403,
    text=(
        "thread '{thread_id:.80}' has an agent that this credential is not for; continue it with another "
        "credential, or name a new thread."
    ),
    remedy="Use another `thread_id`.",
)
"""The run would read that agent's messages."""

RUN_OPEN = Permanent.row(
    "run_open",
    "The run to delete has not ended, or the thread to delete has an open run.",
    status=409,
    remedy="`./callboard cancel` the run first. Nothing was deleted.",
)


def run_open(run_id: str, status: str, thread_id: str | None = None) -> CallboardError:
    what = f"thread '{thread_id[:80]}' has a run that is {status}" if thread_id else f"run '{run_id}' is {status}"
    return RUN_OPEN(
        f"{what}; stop it first (`./callboard cancel {run_id}`), then remove it. Nothing was removed.",
        run_id=run_id,
        thread_id=thread_id,
    )


TOO_MANY_RUNS = Retryable.row(
    "too_many_runs",
    "The principal or its tenant has as many open or queued runs as it may.",
    status=429,
    remedy="Wait until one has ended or begun, or stop one.",
)


def too_many_runs(principal: Principal, name: LimitName, limit: int) -> CallboardError:
    scope, kind, _ = name.split("_")
    whose = f"'{principal.id}'" if scope == "principal" else f"tenant '{principal.tenant}'"
    return TOO_MANY_RUNS(
        f"{whose} has {limit} {kind} runs, as many as it may; start this one when one of them has "
        f"{'begun' if kind == 'queued' else 'ended'}, or stop one.",
        limit=limit,
        retry_after_s=RETRY_AFTER_S,
    )


DELEGATION_REFUSED = ModelVisible.row(
    "delegation_refused",
    "A call of another agent was not made: the run's principal may not start that agent, the agent has worked above "
    "this run already, the message is refused, or there are as many child runs as there may be.",
    remedy="The model reads the sentence. `CALLBOARD_CHILD_RUNS` and `CALLBOARD_CHILD_DEPTH` are the limits, and "
    "`access:` of the other agent says who may start it.",
)

CHILD_FAILED = ModelVisible.row(
    "child_failed",
    "The child run of a call failed, was stopped, or was removed.",
    remedy="`./callboard runs` shows the child run with its own error.",
)

TOO_MANY_CONTROLS = Retryable.row(
    "too_many_controls",
    "The run has as many unread controls as it may.",
    status=429,
    text="this run has {limit} controls that its owner has not read yet; send this one when it has.",
    remedy="Wait until the run's owner has read some, or `cancel` the run, which always works.",
)

CONTROL_REFUSED = Permanent.row(
    "control_refused",
    "The run's state does not allow what was requested.",
    status=409,
    text="this run cannot be asked {request}: {problem}.",
    remedy="The sentence says what to do instead.",
)

THREAD_BUSY = Permanent.row(
    "thread_busy",
    'The thread has an open run, and the message was sent with `"if_busy": "reject"`.',
    status=409,
    text=(
        "thread '{thread_id:.80}' is busy: run {run_id} is {status}. Send the message when it has ended, or with "
        'another `"if_busy"` (in the terminal `--if-busy`).'
    ),
    remedy='Wait for the run that the answer names, or send another `"if_busy"`.',
)

MESSAGE_TAKEN = Permanent.row(
    "message_taken",
    "The queued message is not queued any more: its run has begun or ended.",
    status=409,
    text="the message of run {run_id} is not queued any more: the run is {status}; {instead}.",
    remedy="Send another message; or, while the run is open, steer it (`POST /v1/runs/{id}/steer`).",
)

CURSOR_INVALID = Permanent.row(
    "cursor_invalid",
    "The cursor is not a valid number.",
    text=(
        "'{cursor:.40}' is not a cursor; send back the id of the last event you saw, or leave it out to read from the "
        "beginning."
    ),
    remedy="Send the id of the last event you got, or none.",
)

CURSOR_AHEAD = Permanent.row(
    "cursor_ahead",
    "The cursor is beyond the run's last number.",
    status=409,
    text="cursor {cursor} is beyond the last event of this run, {last}; read again from {last} or earlier.",
    remedy="Read again from the number that the sentence names.",
)

IDEMPOTENCY_CONFLICT = Permanent.row(
    "idempotency_conflict",
    "The key was used with another body.",
    status=409,
    text="the idempotency key '{key:.80}' was used with another body; send the same body again, or a new key.",
    remedy="Send the same body, or a new key.",
)

VERSION_UNKNOWN = Permanent.row(
    "version_unknown",
    "The agent has no version of this number, or its content is not kept any more.",
    status=404,
    remedy="`./callboard agents versions AGENT` lists the versions.",
)
ALIAS_REFUSED = Permanent.row(
    "alias_refused",
    "There is nothing to go back to, or no stable version that a canary could share the threads with.",
    status=409,
    remedy="The sentence names what to promote first.",
)
UPGRADE_REFUSED = Permanent.row(
    "upgrade_refused",
    "The run does not wait, behaves as today's version of its agent does, or that is not the version that was shown.",
    status=409,
    remedy="The sentence says what to do instead; a run that is running or has ended keeps its version.",
)


class StaleOwner(Permanent):
    """Another worker owns the run now."""

    code = "stale_owner"
    topic = Topic.RUN
    over_http = False
    remedy = "This one stops writing; the run continues there."

    def __init__(self, run_id: str, fence: int) -> None:
        super().__init__(
            f"run {run_id} is no longer owned under fence {fence}; nothing was written.", run_id=run_id, fence=fence
        )


CONNECTION_UNUSABLE = Permanent.row(
    "connection_unusable",
    "`Runner.run(connection=...)`: the caller's connection cannot carry the run's commit.",
    topic=Topic.CONFIGURATION,
    over_http=False,
    remedy="The sentence says which connection to pass ([in your own transaction](own-transaction.md)).",
)


class CodeVersion(Permanent):
    """The run's journal needs code or tools that this worker does not have."""

    code = "code_version"
    status = 503
    topic = Topic.RUN
    over_http = False
    retryable = True
    remedy = "The run waits; start a worker that has them. A week later (`CALLBOARD_APPROVAL_TTL_S`) it fails."


class PrincipalDisabled(Permanent):
    """The run's principal is disabled."""

    code = "principal_disabled"
    status = 403
    topic = Topic.RUN
    over_http = False
    remedy = (
        "`./callboard principals enable` it; the run waits for that, at most a week (`CALLBOARD_APPROVAL_TTL_S`), or "
        "fails at once with `CALLBOARD_DISABLED_PRINCIPAL=fail`."
    )
    text = (
        "the principal '{principal}' is disabled; `./callboard principals enable {principal}` lets its runs continue."
    )


RUN_CRASHED = Permanent.row(
    "crashed",
    "The run lost three workers or more, the last of them while it worked on this run alone.",
    status=502,
    topic=Topic.RUN,
    over_http=False,
    text=(
        "{crashes} workers were lost while they worked on this run, the last one on no other (at work: {during}), so "
        "it is not tried again. Find out what that does to a worker's process, then start a new run."
    ),
    remedy="It ends as `dead` and is not retried; `crashes` of the run says what was in flight.",
)

APPROVAL_EXPIRED = Permanent.row(
    "approval_expired",
    "The run's question was not answered in time.",
    status=410,
    topic=Topic.RUN,
    over_http=False,
    text="no person answered this run's question in time, so it ended; start a new run.",
    remedy="The run fails; start a new one.",
)


PAUSE_EXPIRED = Permanent.row(
    "pause_expired",
    "The run was paused and not resumed in time.",
    status=410,
    topic=Topic.RUN,
    over_http=False,
    text="this run was paused and no client resumed it in time, so it ended; send its message again.",
    remedy="The run fails; send its message again.",
)


class ApprovalUnknown(Permanent):
    """The run has no question with this id."""

    code = "approval_unknown"
    status = 404
    remedy = "Read the run's `approvals`."
    text = "this run asks nothing with the id '{approval_id:.80}'; look at what it waits for and answer that."


class ApprovalDecided(Permanent):
    """The question was answered before; `decision` and `by` are the answer and its author."""

    code = "approval_decided"
    status = 409
    remedy = "Nothing; the first answer counts."
    text = "this was decided already: {decision}, by {by}; nothing was changed."


class ApprovalOver(Permanent):
    """The run ended or is being stopped, or the question has expired."""

    code = "approval_over"
    status = 409
    remedy = "Start a new run."


DECISION_REFUSED = Permanent.row(
    "decision_refused",
    "The answer is not one of those offered.",
    text="'{answer:.40}' is not among the answers to this; give one of: {offered}.",
    remedy="Use one that the message names.",
)

APPROVER_REFUSED = Permanent.row(
    "approver_refused",
    "Several persons have to approve the call, and you have done so or the run is yours; or it is for another role.",
    status=409,
    remedy="Another person has to.",
)

EDIT_REFUSED = Permanent.row(
    "edit_refused",
    "The arguments given with an approval do not fit the tool's schema.",
    status=422,
    text="the call cannot be made with these arguments: {problems:.2000}.",
    remedy="The sentence names each place; send others, or none.",
)

ANSWER_REFUSED = Permanent.row(
    "answer_refused",
    "The answer does not fit the question's form.",
    status=422,
    text="this answer does not fit what was asked: {problems:.2000}.",
    remedy="The sentence names each field; correct those.",
)

LINK_UNKNOWN = Permanent.row(
    "link_unknown",
    "This deployment made no such link to a question.",
    status=404,
    text="there is no such link to a question; open it as it was sent to you, whole.",
    remedy="Open the link as it was sent, whole.",
)

LINK_NOT_YOURS = Permanent.row(
    "link_not_yours",
    "The link to a question was made for another person.",
    status=403,
    text="this link was made for another person; sign in as the one that it was sent to, or ask for your own.",
    remedy="Sign in as the person that it was sent to.",
)

LINK_OVER = Permanent.row(
    "link_over",
    "The link to a question was used, or has expired, or its question is not open any more.",
    status=409,
    text="this link is over: {problem}. The run's conversation shows what became of the question.",
    remedy="Open the run's conversation, or ask for a new link.",
)

SCOPE_REFUSED = Permanent.row(
    "scope_refused",
    "The question does not offer to approve the tool's later calls too, or not for so long.",
    status=422,
    text="the approval cannot hold for later calls: {problem}.",
    remedy="Send a `scope` and a `scope_s` that the question offers, or none.",
)

STICKY_UNKNOWN = Permanent.row(
    "sticky_unknown",
    "There is no sticky approval with this id about which you may decide.",
    status=404,
    text="there is no sticky approval '{sticky_id:.80}'; GET /v1/sticky-approvals lists those that you may end.",
    remedy="`./callboard approve --list-sticky` lists them.",
)


class StickyOver(Permanent):
    """A sticky approval ended before the call that it approves had begun; the call asks a person."""

    code = "sticky_over"
    over_http = False
    topic = Topic.RUN
    remedy = "Nothing: the run asks for an approval."
    text = "the sticky approval of a call has ended, so the call needs its own."


ARGUMENTS_DIFFER = Permanent.row(
    "arguments_differ",
    "The digest sent with an answer is not that of the call's arguments.",
    status=409,
    text="the question '{approval_id:.80}' is about other arguments than those that you decided about.",
    remedy="Read the question again, and decide about what it shows.",
)


class ControlsChanged(Exception):
    """A commit answers a control that has another answer, or ends a run with a control that it does not answer."""
