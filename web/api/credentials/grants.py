"""Privilege grants of the caller's tenant: issue, list, revoke."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from flask import Blueprint, Response
from pydantic import Field
from pydantic.config import JsonDict

from agents.errors import AgentUnknown
from bus.identity.credentials import grants as table
from bus.identity.errors import GRANT_UNKNOWN
from config.database.shared_secret import shared_secret
from config.definitions.errors import DefinitionInvalid
from config.identity.principal import NAME
from web.api.answers import answer
from web.auth.authentication import current_principal, require_administrator, require_still_valid
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import Whole
from web.process import current_process
from web.schemas.paths import AgentName, GrantId


class PrivilegeGrant(Answer):
    """A grant: one principal may start one run of one agent in privileged mode."""

    grant_id: str
    agent: str
    """The id of the agent."""
    principal: str
    """Who may use it."""
    reason: str
    issued_by: str
    created_at: str
    expires_at: str
    """When it, and the privilege of its run, end."""
    run_id: Maybe[str] = None
    """The run that has used it."""
    used_at: Maybe[str] = None
    revoked_at: Maybe[str] = None


class IssuedGrant(PrivilegeGrant):
    """A grant that was issued."""

    grant: str
    """What its principal starts the run with; it is shown only now."""


class Grants(Answer):
    """The newest grants of the caller's tenant."""

    grants: list[PrivilegeGrant]


grants = Blueprint("grants", __name__)

NOT_BLANK: JsonDict = {"minLength": 1, "pattern": r"\S"}
MAX_MINUTES = table.MAX_LIFETIME_S // 60


Reason = Annotated[
    str, Field(max_length=table.MAX_REASON_CHARS, examples=["incident 4711"], json_schema_extra=NOT_BLANK)
]


class IssueGrant(Input):
    """A grant for one run."""

    agent: AgentName
    """The agent of the run."""
    principal: Annotated[str, Field(pattern=rf"^{NAME}$", examples=["ann"])]
    """Who may start the run, in your tenant."""
    reason: Annotated[
        str, Field(max_length=table.MAX_REASON_CHARS, examples=["incident 4711"], json_schema_extra=NOT_BLANK)
    ]
    """Why; the audit log and the log of the run show it."""
    minutes: Annotated[int, Whole(1, MAX_MINUTES)] = 60
    """How long it holds, and the privilege of its run."""


@grants.post("/v1/grants")
@call({201: IssuedGrant}, problems=(AgentUnknown, DefinitionInvalid), requires=require_administrator)
def issue(body: IssueGrant) -> Response:
    """Issue a grant, and return its text, once."""
    process, issuer = current_process(), current_principal()
    agent = process.runner.registry.get_for(issuer, body.agent)
    require_still_valid()
    form = table.GrantForm(partial(shared_secret, process.journal.database, table.SECRET_NAME))
    form.open()
    fields = {"principal": body.principal, "agent_id": agent.id, "reason": body.reason}
    with process.journal.database.write() as connection:
        grant, text = table.issue(connection, form, issuer, **fields, lifetime_s=60 * body.minutes)
    return answer(grant.shown() | {"grant": text}, 201)


class WhichGrants(Input):
    """How many grants to list."""

    limit: Annotated[int, Whole(1, 200)] = 50
    """Most grants of the list."""


@grants.get("/v1/grants")
@call({200: Grants}, requires=require_administrator)
def many(query: WhichGrants) -> Response:
    """List the newest grants of the caller's tenant, with those that ended, without their texts."""
    with current_process().journal.database.read() as connection:
        rows = table.of_tenant(connection, current_principal().tenant, limit=query.limit)
    return answer({"grants": [grant.shown() for grant in rows]})


@grants.delete("/v1/grants/<grant_id>")
@call({204: None}, problems=(GRANT_UNKNOWN,), requires=require_administrator)
def revoke(grant_id: GrantId) -> Response:
    """End a grant, and the privilege of its run when a worker picks that up next; repeating it is harmless."""
    with current_process().journal.database.write() as connection:
        table.revoke(connection, grant_id, current_principal())
    return Response(status=204)
