"""The one way to end a run: give every open step a result, then build the end event.

An owner has the facts in memory; the code that ends a run without an owner (``endings``) reads them from SQL.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from bus.journal.approvals import Decision
from bus.journal.log.commit import Commit
from bus.journal.states.ending import Ending
from bus.journal.threads import error_item
from bus.journal.totals import Totals
from bus.payloads import EndPayload, EndStatus, ErrorPayload, Outcome
from config.effects import recorded_policy

NOT_FINISHED = "The run ended before this call was finished."
NOT_KNOWN = "The run ended while this call was under way; it is not known whether it took effect."
GIVEN_UP = "It is not known whether this call took effect, and a person let the run fail."


def end_commit(ending: Ending, closed: Commit, totals: Totals, duration_ms: int) -> Commit:
    """Return the commit that ends a run: ``closed``, the error event if there is one, and the end event last.

    ``closed`` has a result for every open call, so that the thread's history stays valid.
    """
    error = ending.error
    errors = [ErrorPayload(code=error.code, message=str(error), retryable=False)] if error is not None else []
    end = end_event(ending.status, totals, duration_ms, reason=ending.reason)
    code = error.code if error is not None else None
    history = [*closed.history, error_item(ending.note, code)]
    return replace(closed, events=[*closed.events, *errors, end], history=history, error_code=code)


def result_of_cut_off(effect: str | None, decision: Decision | None, *, is_begun: bool) -> tuple[Outcome, Any]:
    """Return the outcome and result of a call that was open when the run ended: ``unknown`` if it may have had effect.

    ``decision`` is a person's answer about the call that no owner has used yet. ``effect`` is None for a call whose
    tool does not exist or whose arguments are invalid.
    """
    if decision is not None and decision.decision == "take_as_done":
        return "done", decision.taken
    if decision is not None and decision.decision == "fail":
        return "unknown", GIVEN_UP
    if is_begun and effect and recorded_policy(effect).is_unknown_when_cut_off:
        return "unknown", NOT_KNOWN
    return "failed", NOT_FINISHED


def end_event(
    status: EndStatus, totals: Totals, duration_ms: int, *, reason: str | None = None, output: Any = None
) -> EndPayload:
    """Return the last event of a run that has used ``totals``."""
    return EndPayload(
        status=status,
        reason=reason,
        output=output,
        usage=totals.usage or None,
        cost_usd=totals.cost_usd,
        steps=totals.steps,
        duration_ms=duration_ms,
    )
