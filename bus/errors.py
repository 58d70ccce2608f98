"""Errors of the process's loop and of Celery."""

from __future__ import annotations

from config.errors import Permanent, Retryable


class LoopBlocked(Permanent):
    code = "loop_blocked"
    status = 500
    text = "{what} would block the event loop it was called on; call it from a plain thread."


class OpenedBeforeFork(Permanent):
    code = "opened_before_fork"
    status = 500
    text = (
        "this was opened by process {opened_by}, and a process forked from it has none of its threads, so nothing "
        "would ever answer; call Runner.open() in this process and take the handle from there."
    )


class BrokerMissing(Retryable):
    """No broker is configured, so no wake-up can be published."""

    code = "broker_missing"


class PoolRefused(Permanent):
    code = "pool_refused"
    public_text = "a worker was started with a pool that does not work; the server's log names those that do."
