"""Errors of the process's loop and of Celery."""

from __future__ import annotations

from config.errors import Permanent, Retryable, Topic

LOOP_BLOCKED = Permanent.row(
    "loop_blocked",
    "Code waits for a result on the event loop's own thread.",
    status=500,
    text="{what} would block the event loop it was called on; call it from a plain thread.",
    remedy="Call it from a plain thread.",
)


class OpenedBeforeFork(Permanent):
    """An iteration over events that began before a fork continues in the child."""

    code = "opened_before_fork"
    status = 500
    remedy = "Get a new handle in the child: `runner.handle(run_id)`."
    text = (
        "this was opened by process {opened_by}, and a process forked from it has none of its threads, so nothing "
        "would ever answer; call Runner.open() in this process and take the handle from there."
    )


class BrokerMissing(Retryable):
    """No Redis and no other broker is configured, so no wake-up can be published."""

    code = "broker_missing"
    topic = Topic.MACHINE
    remedy = "Set `CALLBOARD_REDIS_URL`, or let `./callboard up` start one. Runs are accepted nevertheless."


POOL_REFUSED = Permanent.row(
    "pool_refused",
    "A worker was started with a pool that does not work.",
    topic=Topic.CONFIGURATION,
    over_http=False,
    public_text="a worker was started with a pool that does not work; the server's log names those that do.",
    remedy="Use `--pool threads`, `prefork` or `solo`.",
)

RESULTS_UNREACHABLE = Retryable.row(
    "results_unreachable",
    "The database with the results of a Celery application cannot be read.",
    topic=Topic.MACHINE,
    over_http=False,
    remedy="Start it, or correct `result_backend` in the application's file; runs that wait for tasks look again.",
)
