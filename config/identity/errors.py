"""Errors of access control."""

from __future__ import annotations

from config.errors import Permanent
from config.identity.principal import Principal, Verb, roles_that_reach


class Forbidden(Permanent):
    """The principal sees the object, and may not do this with it."""

    code = "forbidden"
    status = 403

    def __init__(self, principal: Principal, verb: Verb, what: str) -> None:
        if verb is Verb.ADMINISTER:
            remedy = "principals with the role admin may, by a credential that is for it."
        elif verb in principal.verbs:
            roles = " or ".join(roles_that_reach(verb))
            remedy = f"its owner may, and so may principals of the tenant with the role {roles}."
        else:
            remedy = f"its credential is not for '{verb}'; use one whose scope has that."
        super().__init__(f"'{principal.id}' may not {verb} {what}: {remedy}")


class AgentForbidden(Permanent):
    """The agent's definition does not let this principal start it."""

    code = "agent_forbidden"
    status = 403
    text = "'{principal}' may not start agent '{agent_id:.80}'; `access:` in its definition says who may."


class ScopeExceeded(Permanent):
    """A key was to have more than its creator."""

    code = "scope_exceeded"
    status = 403
    text = "a key has no more than the credential that creates it, which does not have {what}."


class KeyUnknown(Permanent):
    """The tenant has no API key with this id."""

    code = "key_unknown"
    status = 404
    text = "there is no API key '{id:.80}'; `./callboard keys list` lists the ids."
