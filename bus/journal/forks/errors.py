"""Errors of forks, reruns and retries."""

from __future__ import annotations

from config.errors import Permanent

MESSAGE_UNKNOWN = Permanent.row(
    "message_unknown",
    "The thread has no message with this number.",
    status=404,
    text=(
        "thread '{thread_id:.80}' has no message {number}; its messages have numbers from 1 to {last}, which "
        "`./callboard threads {thread_id:.80} --json` and `GET /v1/threads/ID/messages` list."
    ),
    remedy="Name the `number` of a message of the thread.",
)

THREAD_EXISTS = Permanent.row(
    "thread_exists",
    "The principal has a thread with the name that a new one is to get.",
    status=409,
    text="there is a thread '{thread_id:.80}' already; choose another name, or leave it out to get a new one.",
    remedy="Send another `thread_id`, or none.",
)

RUN_NOT_REPEATABLE = Permanent.row(
    "run_not_repeatable",
    "The run that is to be repeated has not ended, or another run delegated it; or it is to be retried and has "
    "succeeded.",
    status=409,
    remedy="Wait for its end or stop it; repeat the run that delegated it; of a run that succeeded, name a step.",
)

STEP_UNKNOWN = Permanent.row(
    "step_unknown",
    "The run has no step with this number.",
    status=404,
    text=(
        "run '{run_id:.80}' has no step {number}; its last one is {last}, and "
        "`./callboard runs --decisions {run_id:.80}` lists them."
    ),
    remedy="Name the number of a step: `./callboard runs --decisions RUN` lists them.",
)

RUN_NOT_EXPORTABLE = Permanent.row(
    "run_not_exportable",
    "The run cannot be written to a file that a test replays: it has not ended, or was more than one agent's answers "
    "to one message.",
    status=409,
    remedy="The sentence says what is in the way; wait for the run's end, or export a run without it.",
)

RECORDING_INVALID = Permanent.row(
    "recording_invalid",
    "The file is no recording of a run as `./callboard runs export` writes it: it was edited, is of a newer version, "
    "or names a tool that is not there.",
    over_http=False,
    remedy="Export the run again, or give the test what the sentence names.",
)
