"""The audit log of the caller's tenant, for its administrators."""

from __future__ import annotations

from typing import Annotated, Any

from flask import Blueprint, Response

from config.identity.audit import chain
from web.api.answers import answer
from web.calls.call import call
from web.calls.fields import Input, Maybe
from web.parameters import Whole
from web.process import current_process
from web.schemas.audit import AuditPage
from web.security import current_principal, require_administrator

audit = Blueprint("audit", __name__)


class WhichEntries(Input):
    """Which entries to list."""

    limit: Annotated[int, Whole(1, 200)] = 50
    """Most entries of a page."""
    before: Maybe[Annotated[int, Whole(1, 999_999_999)]] = None
    """``next`` of the page before."""


@audit.get("/v1/audit")
@call({200: AuditPage}, requires=require_administrator)
def many(query: WhichEntries) -> Response:
    """List the audit log of the caller's tenant, newest first; it cannot be changed."""
    database, tenant = current_process().journal.database, current_principal().tenant
    found = chain.newest(database, tenant, limit=query.limit, before=query.before)
    page: dict[str, Any] = {"entries": [{**entry.content(), "digest": entry.digest} for entry in found]}
    is_last = not found or found[-1].number == 1
    return answer(page if is_last else page | {"next": found[-1].number})
