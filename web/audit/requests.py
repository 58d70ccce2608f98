"""Connects requests with the audit log: entries name the credential that acted, and refusals are counted."""

from __future__ import annotations

from flask import Flask, Response, g, request

from bus.identity.audit.recording import PROCESS, acting_with
from bus.identity.credentials.credential import Caller
from web.audit.refusals import Refusal, Refusals
from web.auth.authentication import is_anonymous
from web.errors import Unauthenticated
from web.process import WebProcess

EXTENSION = "callboard_refusals"
"""The application's extension with its refusals that are not in the audit log yet."""
REFUSED = (401, 403)
"""Statuses that are counted. 404 is not: a run that the caller does not see costs the same as one that is not there.

Of the 401s, only those count whose request carried a credential: a page that asks who is reading carries none.
"""


def register(app: Flask, process: WebProcess) -> None:
    """Name each request's credential, and count the refused ones; to be called after the authentication's."""
    refusals = app.extensions[EXTENSION] = Refusals(lambda: process.journal.database)
    process.at_close(refusals.close)

    @app.before_request
    def act() -> None:
        credential = caller.credential if (caller := _caller()) is not None else None
        acting_with.set((credential.kind, credential.id) if credential is not None else ("none", ""))

    @app.teardown_request
    def act_no_more(_error: BaseException | None) -> None:
        acting_with.set(PROCESS)  # the thread may do other work

    @app.after_request
    def count(answer: Response) -> Response:
        if answer.status_code in REFUSED:
            refusal = _refusal(answer, process)
            if refusal.code != Unauthenticated.code or not is_anonymous():
                refusals.add(refusal)
        return answer


def _caller() -> Caller | None:
    caller: Caller | None = g.get("caller")
    return caller


def _refusal(answer: Response, process: WebProcess) -> Refusal:
    caller = _caller()
    code = (answer.get_json(silent=True) or {}).get("code", "")
    return Refusal(
        tenant=caller.principal.tenant if caller is not None else process.settings.tenant,
        principal=caller.principal.id if caller is not None else "",
        credential=caller.credential.kind if caller is not None else "none",
        credential_id=caller.credential.id if caller is not None else "",
        code=code,
        address=request.remote_addr or "",
    )
