"""API keys of the caller's tenant: create, list, revoke. And tickets: a link to a run's events.

A ticket is for clients that cannot send headers, such as a browser's EventSource.
"""

from __future__ import annotations

from typing import Annotated

from flask import Blueprint, Response, url_for
from pydantic import ConfigDict, Field
from pydantic.config import JsonDict

from agents.errors import AgentUnknown
from bus.identity.credentials import keys as table
from bus.identity.credentials.credential import CredentialKind
from bus.identity.credentials.tickets import issue
from bus.identity.errors import KEY_UNKNOWN, NAME_RESERVED, SCOPE_EXCEEDED
from bus.journal.errors import RunUnknown
from config.clock import epoch_ms, stamp
from config.definitions.errors import DefinitionInvalid
from config.identity.principal import NAME, Principal, Role, Verb
from web.api.answers import answer
from web.auth.authentication import (
    current_caller,
    current_key_form,
    current_principal,
    require_administrator,
    require_still_valid,
)
from web.calls.call import call
from web.calls.fields import Answer, Input, Maybe
from web.calls.parameters import ListPlace, Whole, next_place, place_of
from web.process import current_process
from web.schemas.paths import KeyId, RunId


class Key(Answer):
    """An API key, without its secret part."""

    id: str
    name: str
    """The principal that it acts as."""
    tenant: str
    roles: list[Role]
    verbs: Maybe[list[Verb]] = None
    """What it may be used for; absent: everything that its roles allow."""
    agents: Maybe[list[str]] = None
    """The agents that it may be used for; absent: all."""
    created_by: str
    created_at: str
    expires_at: Maybe[str] = None
    """When it ends by itself."""
    used_at: Maybe[str] = None
    """Its last use, to the minute."""
    revoked_at: Maybe[str] = None


class NewKey(Key):
    """A key that was created."""

    key: str
    """The key itself; it is shown only now."""


class KeyPage(Answer):
    """A page of the keys of the caller's tenant, the newest first."""

    keys: list[Key]
    next: Maybe[str] = None
    """Where the next page begins; absent on the last one."""


keys = Blueprint("keys", __name__)

MAX_LIFETIME_S = 10 * 365 * 86_400
LASTING = frozenset({CredentialKind.KEY, CredentialKind.SERVICE})
"""Kinds of credentials whose end a key that they create may not outlive; a session is short for another reason."""


class WhichKeys(Input):
    """Which keys to list."""

    limit: Annotated[int, Whole(1, 200)] = 50
    """Most keys of a page."""
    before: ListPlace = None
    """``next`` of the page before."""


@keys.get("/v1/keys")
@call({200: KeyPage}, requires=require_administrator)
def many(query: WhichKeys) -> Response:
    """List the keys of the caller's tenant, newest first, with those that ended."""
    tenant, cursor = current_principal().tenant, place_of(query.before)
    with current_process().journal.database.read() as connection:
        key_list = [key.shown() for key in table.of_tenant(connection, tenant, limit=query.limit, **cursor)]
    return answer({"keys": key_list, **next_place(key_list, query.limit, "created_at", "id")})


SCOPED_NEEDS: JsonDict = {
    "if": {"required": ["agents"], "properties": {"agents": {"type": "array"}}},
    "then": {"properties": {"verbs": {"not": {"type": "array", "contains": {"const": str(Verb.ADMINISTER)}}}}},
}
"""What ``require_useful_scope`` refuses, for the document."""


class CreateKey(Input):
    """A key for a program."""

    model_config = ConfigDict(json_schema_extra=SCOPED_NEEDS)

    name: Annotated[str, Field(pattern=rf"^{NAME}$", examples=["ci"])]
    """The principal that it acts as: a name of letters, digits and ``_.@+-``."""
    roles: list[Annotated[Role, Field(strict=False)]] = Field([])
    """What widens its reach in the tenant."""
    verbs: Maybe[Annotated[list[Annotated[Verb, Field(strict=False)]], Field(min_length=1)]] = None
    """What it may be used for; absent: everything."""
    agents: Maybe[Annotated[list[str], Field(min_length=1, max_length=100)]] = None
    """The agents that it may be used for; absent: all."""
    expires_in_s: Maybe[Annotated[int, Whole(1, MAX_LIFETIME_S)]] = None
    """Seconds until it ends by itself; absent: it does not."""


@keys.post("/v1/keys")
@call(
    {201: NewKey},
    problems=(SCOPE_EXCEEDED, NAME_RESERVED, AgentUnknown, DefinitionInvalid),
    requires=require_administrator,
)
def create(body: CreateKey) -> Response:
    """Create a key in the caller's tenant, with no more than the caller has, and return it, once."""
    creator, registry = current_principal(), current_process().runner.registry
    table.require_useful_scope(body.verbs or (), body.agents or ())
    principal = Principal(
        tenant=creator.tenant,
        id=body.name,
        roles=frozenset(body.roles),
        verbs=frozenset(body.verbs or Verb),
        agents=None if body.agents is None else frozenset(registry.get_for(creator, agent).id for agent in body.agents),
    )
    if current_process().settings.is_local(principal):
        raise NAME_RESERVED(name=principal.id, tenant=principal.tenant)
    _require_within(principal, creator)
    _require_no_longer(body.expires_in_s)
    require_still_valid()  # a key that was revoked half a second ago must not leave another behind
    form = current_key_form()
    with current_process().journal.database.write() as connection:
        lasting_s, local = body.expires_in_s, current_process().settings.local_principal
        key, text = table.create(connection, form, principal, by=creator.id, lifetime_s=lasting_s, local=local)
    return answer(key.shown() | {"key": text}, 201)


@keys.delete("/v1/keys/<key_id>")
@call({204: None}, problems=(KEY_UNKNOWN,), requires=require_administrator)
def revoke(key_id: KeyId) -> Response:
    """End a key of the caller's tenant everywhere, within a second; repeating it is harmless."""
    principal = current_principal()
    with current_process().journal.database.write() as connection:
        table.revoke(connection, key_id, principal.tenant, by=principal.id)
    return Response(status=204)


def _require_within(principal: Principal, creator: Principal) -> None:
    """Return if the key has no more than its creator: an administrator has every role, and is for all agents."""
    if excess := principal.verbs - creator.verbs:
        raise SCOPE_EXCEEDED(what=f"verbs: {', '.join(sorted(excess))}")


def _require_no_longer(lifetime_s: int | None) -> None:
    """Return if the key ends before the credential that creates it."""
    credential = current_caller().credential
    ends_ms = credential.expires_ms if credential.kind in LASTING else None
    if ends_ms is not None and (lifetime_s is None or epoch_ms() + lifetime_s * 1000 > ends_ms):
        raise SCOPE_EXCEEDED(what="a later end; set 'expires_in_s'")


class Ticket(Answer):
    """What opens the events of one run, once."""

    ticket: str
    expires_at: str
    """When it can no longer be used, UTC."""
    url: str
    """The address of the run's events with the ticket."""


tickets = Blueprint("tickets", __name__)


@tickets.post("/v1/runs/<run_id>/ticket", endpoint="create")
@call({201: Ticket}, problems=(RunUnknown,))
def create_ticket(run_id: RunId) -> Response:
    """Return a ticket for the run's events: valid for 30 s and once, and as long as the caller's credential."""
    journal, form = current_process().journal, current_key_form()
    journal.readers.runs.bounds(current_principal(), run_id, 0)
    with journal.database.write() as connection:
        ticket, expires_ms = issue(connection, form, current_caller(), run_id)
    url = url_for("events.of_run", run_id=run_id, ticket=ticket)
    return answer({"ticket": ticket, "expires_at": stamp(expires_ms), "url": url}, 201)
