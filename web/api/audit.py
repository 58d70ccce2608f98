"""The audit log of the caller's tenant, and what guardrails removed from its runs, for its administrators."""

from __future__ import annotations

from typing import Annotated, Any

from flask import Blueprint, Response
from pydantic import Field

from bus.journal import RunUnknown
from config.clock import stamp
from config.identity.audit import chain
from config.sealing import SealKeyMissing, sealer_of
from web.api.answers import answer
from web.auth.authentication import current_principal, require_administrator
from web.calls.call import call
from web.calls.fields import Input, Maybe
from web.calls.parameters import Whole
from web.process import current_process
from web.schemas.audit import AuditPage, UnsealedOriginals
from web.schemas.paths import RunId

audit = Blueprint("audit", __name__)


class WhichEntries(Input):
    """Which entries to list."""

    limit: Annotated[int, Whole(1, 200)] = 50
    """Most entries of a page."""
    before: Maybe[Annotated[int, Whole(1, 999_999_999)]] = None
    """``next`` of the page before."""


class Unseal(Input):
    """Why the originals are read."""

    reason: Annotated[str, Field(min_length=1, max_length=200, pattern=r"\S", examples=["report of a leaked key"])]
    """Recorded in the audit log."""


@audit.post("/v1/runs/<run_id>/unseal")
@call({200: UnsealedOriginals}, problems=(RunUnknown, SealKeyMissing))
def unseal(run_id: RunId, body: Unseal) -> Response:
    """Return the originals of what guardrails removed from a run; the audit log has who read them, and why."""
    process = current_process()
    sealer = sealer_of(process.settings)
    from bus.journal import unseal_originals  # the first request opens the journal

    found = unseal_originals(process.journal.database, sealer, current_principal(), run_id, body.reason.strip())
    shown = [{"id": one.id, "what": one.what, "at": stamp(one.created_ms), "original": one.value} for one in found]
    return answer({"run_id": run_id, "originals": shown})


@audit.get("/v1/audit")
@call({200: AuditPage}, requires=require_administrator)
def many(query: WhichEntries) -> Response:
    """List the audit log of the caller's tenant, newest first; it cannot be changed."""
    database, tenant = current_process().journal.database, current_principal().tenant
    found = chain.newest(database, tenant, limit=query.limit, before=query.before)
    page: dict[str, Any] = {"entries": [{**entry.content(), "digest": entry.digest} for entry in found]}
    is_last = not found or found[-1].number == 1
    return answer(page if is_last else page | {"next": found[-1].number})
