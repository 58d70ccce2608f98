"""Executes a claimed run: notifies its observers, runs the agent, and commits the run's end or release."""

from __future__ import annotations

import asyncio
import logging
from functools import partial

from agents.agent import Agent
from agents.claimed_run import ClaimedRun
from agents.context import RunContext
from agents.errors import RunFailed
from bus.journal import STOPPED, CodeVersion, Commit, Ending, Journal, Reason, Release, StaleOwner, Totals, end_commit
from bus.payloads import StatusPayload
from config.errors import CallboardError

log = logging.getLogger(__name__)

NEW_OWNER = "run left to its new owner run_id=%s"


async def execute(journal: Journal, claimed: ClaimedRun) -> None:
    """Run the agent until the run ends, waits or is released; errors of the run are recorded, not raised."""
    context, lease = claimed.context, claimed.context.lease
    try:
        _notify_of_claim(journal, context)
        if claimed.agent is not None:
            await _work(journal, claimed.agent, claimed)
        else:
            assert claimed.error is not None
            await _give_up(journal, context, claimed.error)
    except StaleOwner:
        log.info(NEW_OWNER, lease.run_id)
    finally:
        claimed.held.close()
        await journal.disown(lease)


def _notify_of_claim(journal: Journal, context: RunContext) -> None:
    """Deliver to observers the events that were written without an owner (such as a person's answer), and the claim's.

    If this process crashes before, observers miss these events: the next owner delivers only those after this claim,
    so that no event is delivered twice.
    """
    lease = context.lease
    for payload in lease.undelivered:  # not to the hot log: the process that wrote them has put them there
        context.notify(payload)
    journal.begin_writing(lease, context.writer)
    for payload in lease.first_events:
        context.notify(payload)
    journal.hot_log.nudge(journal.keys.board, lease.run_id)


async def _work(journal: Journal, agent: Agent, claimed: ClaimedRun) -> None:
    context = claimed.context
    work = asyncio.create_task(agent.run(), name=f"run {context.lease.run_id}")
    context.halt = context.writer.on_lost = work.cancel
    if context.lease.can_be_cleared:
        context.on_calls_over = partial(claimed.clear_suspect, journal)
    await journal.lease_manager.track(context.writer, context)
    try:
        await work
    except asyncio.CancelledError:
        if context.writer.is_stale:
            log.info(NEW_OWNER, context.lease.run_id)
        elif context.is_stopped:
            await agent.finish(STOPPED)
        elif context.release_as is not None:
            await agent.release()
        else:
            raise
    except StaleOwner:
        raise
    except CallboardError as error:
        await agent.finish(Ending.failed(error))
    except Exception:
        log.exception("run failed unexpectedly run_id=%s", context.lease.run_id)
        await agent.finish(Ending.failed(RunFailed()))


async def _give_up(journal: Journal, context: RunContext, error: CallboardError) -> None:
    """Release a run that another version of the code can resume; end one that no worker can begin or resume."""
    if isinstance(error, CodeVersion):
        waits = StatusPayload(status="waiting", reason=error.code)
        release = Release(
            status="waiting", reason=Reason.CODE_VERSION, detail=str(error), ends_ms=await context.wait_expiry_ms()
        )
        await context.save(Commit(events=[waits], release=release))
    elif context.lease.fence > 1:  # an earlier owner may have left open calls and costs
        await journal.fail_owned(context.lease, error)
    else:
        await context.save(end_commit(Ending.failed(error), Commit(), Totals(), context.duration_ms))
