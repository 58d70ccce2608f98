"""The audit log of the caller's tenant, and what guardrails removed from its runs, for its administrators."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from flask import Blueprint, Response
from pydantic import Field

from bus.identity.audit import chain
from bus.journal.errors import RunUnknown
from bus.sealing import SealKeyMissing, sealer_of
from config.clock import stamp
from web.api.answers import answer
from web.auth.authentication import current_principal, require_administrator
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import Filter, Whole
from web.process import current_process
from web.schemas.paths import RunId


class AuditLogEntry(Answer):
    """What was done, by whom, to what. ``digest`` is SHA-256 over the other fields: see docs/audit.md."""

    tenant: str
    number: int
    """1, 2, 3 … in the tenant, without gaps."""
    at: str
    """When, by the database's clock, UTC."""
    action: str
    """Such as ``run.controlled``; docs/audit.md lists them."""
    outcome: Literal["done", "refused"]
    principal: str
    """Who did it; empty: no principal, such as retention."""
    credential: str
    """The kind of its credential; ``process``: a program with access to the database, such as the terminal."""
    credential_id: str
    target: str
    """The kind of what it was done to."""
    target_id: str
    facts: dict[str, Any]
    """Ids, digests, counts and short texts, by the kind of action."""
    previous: str
    """The digest of the entry before it."""
    digest: str


class UnsealedOriginal(Answer):
    """What a guardrail removed something from."""

    id: str
    what: str
    """``input``, ``answer``, ``thinking``, or ``result`` or ``arguments`` and the tool's name."""
    at: str
    """When it was sealed, UTC."""
    original: Any
    """A text, or JSON data."""


class UnsealedOriginals(Answer):
    """The originals of a run, the oldest first."""

    run_id: str
    originals: list[UnsealedOriginal]


class AuditPage(Answer):
    """A page of the caller's tenant's audit log, the newest entry first."""

    entries: list[AuditLogEntry]
    next: Maybe[int] = None
    """Where the next page begins; absent on the last one."""


class VerifiedChain(Answer):
    """What computing the digests again has found."""

    entries: int
    """Entries before the first that is broken, or all."""
    digest: str
    """Of the last of these entries."""
    is_whole: bool
    broken: Maybe[int] = None
    """The number of the first broken entry."""
    problem: Maybe[str] = None
    """What is wrong with it."""


audit = Blueprint("audit", __name__)


class WhichEntries(Input):
    """Which entries to list."""

    limit: Annotated[int, Whole(1, 200)] = 50
    """Most entries of a page."""
    before: Maybe[Annotated[int, Whole(1, 999_999_999)]] = None
    """``next`` of the page before."""
    action: Maybe[Filter] = None
    """Only this action, such as ``key.created``."""
    principal: Maybe[Filter] = None
    """Only what this principal did."""
    target_id: Maybe[Filter] = None
    """Only what was done to this."""
    outcome: Maybe[Literal["done", "refused"]] = None
    """Only what was done, or what was refused."""


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
    from bus.journal.readers import unseal_originals  # the first request opens the journal

    originals = unseal_originals(process.journal.database, sealer, current_principal(), run_id, body.reason.strip())
    entries = [
        {"id": original.id, "what": original.what, "at": stamp(original.created_ms), "original": original.value}
        for original in originals
    ]
    return answer({"run_id": run_id, "originals": entries})


@audit.get("/v1/audit")
@call({200: AuditPage}, requires=require_administrator)
def many(query: WhichEntries) -> Response:
    """List the audit log of the caller's tenant, newest first; it cannot be changed."""
    database, tenant = current_process().journal.database, current_principal().tenant
    which = {name: getattr(query, name) or None for name in ("action", "principal", "target_id", "outcome")}
    entries = chain.newest(database, tenant, limit=query.limit, before=query.before, **which)
    page: dict[str, Any] = {"entries": [{**entry.content(), "digest": entry.digest} for entry in entries]}
    is_last = len(entries) < query.limit or entries[-1].number == 1
    return answer(page if is_last else page | {"next": entries[-1].number})


@audit.get("/v1/audit/verification")
@call({200: VerifiedChain}, requires=require_administrator)
def verification() -> Response:
    """Compute the digests of the caller's tenant's audit log again, and return whether they fit.

    This shows changed and removed entries, and not a log that was written anew as a whole: `./callboard audit verify`
    also compares with the heads in log files.
    """
    process = current_process()
    with process.large_work():
        verified = chain.verify(process.journal.database, current_principal().tenant)
    broken = {"broken": verified.broken, "problem": verified.problem} if verified.broken is not None else {}
    facts = {"entries": verified.entries, "digest": verified.digest, "is_whole": verified.broken is None}
    return answer(facts | broken)
