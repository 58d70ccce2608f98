"""Errors of access control."""

from __future__ import annotations

from typing import Literal

from config.errors import Permanent
from config.identity.principal import Principal, Verb, roles_that_reach

_WORDS = {
    Verb.SEE: "see",
    Verb.START: "start",
    Verb.CONTROL: "stop or delete",
    Verb.DECIDE: "answer the approvals of",
    Verb.ADMINISTER: "manage the keys or read the audit log of",
}
"""What a principal wants to do, in a sentence."""


class Forbidden(Permanent):
    """The caller sees the run or thread, and may not do this with it; the message names the roles that may."""

    code = "forbidden"
    status = 403
    remedy = "Use a credential with such a role."

    def __init__(self, principal: Principal, verb: Verb, what: str) -> None:
        if verb is Verb.ADMINISTER:
            remedy = "a principal with the role admin may, by a credential for 'administer' and for all agents."
        elif verb in principal.verbs:
            remedy = f"its owner may, and so may a principal with the role {' or '.join(roles_that_reach(verb))}."
        else:
            remedy = f"use a credential whose scope has the verb '{verb}'."
        super().__init__(f"you may not {_WORDS[verb]} {what}; {remedy}")


class AgentForbidden(Permanent):
    """The agent's `access:`, or a credential without the verb `start`, does not let the caller start it."""

    code = "agent_forbidden"
    status = 403
    remedy = "Change [`access:`](agents.md), or use another [key](authentication.md#api-keys)."

    def __init__(self, principal: Principal, agent_id: str) -> None:
        if Verb.START in principal.verbs:
            remedy = "`access:` in its definition says who may."
        else:
            remedy = "use a credential whose scope has the verb 'start'."
        problem = f"'{principal.id}' may not start agent '{agent_id:.80}'; {remedy}"
        super().__init__(problem, principal=principal.id, agent_id=agent_id)


class ScopeExceeded(Permanent):
    """A key was to have more than the credential that creates it: verbs, agents, or a later end."""

    code = "scope_exceeded"
    status = 403
    remedy = "Ask for less."
    text = "a key has no more than the credential that creates it, which does not have {what}."


class NameReserved(Permanent):
    """A key was to act as the installation's own principal (`CALLBOARD_PRINCIPAL` in `CALLBOARD_TENANT`)."""

    code = "name_reserved"
    status = 400
    remedy = "Give the key another name; the role `admin` reaches that principal's runs too."
    text = (
        "'{name}' in tenant '{tenant}' is this installation's own principal (CALLBOARD_PRINCIPAL), whose runs are the "
        "terminal's; give the key another name."
    )


class KeyUnknown(Permanent):
    """The tenant has no API key with this id."""

    code = "key_unknown"
    status = 404
    remedy = "`./callboard keys list` lists the ids."
    text = "there is no API key '{id:.80}'; `./callboard keys list` lists the ids."


class GrantRefused(Permanent):
    """The privilege grant is forged, used, revoked or expired, or for another principal or agent."""

    code = "grant_refused"
    status = 403
    remedy = "Ask an administrator for another [grant](privilege.md), or start the run without one."

    def __init__(self, why: str) -> None:
        super().__init__(f"the grant cannot be used: {why}; ask an administrator for another one.")


class GrantUnknown(Permanent):
    """The tenant has no privilege grant with this id."""

    code = "grant_unknown"
    status = 404
    remedy = "`./callboard grants list` lists the ids."
    text = "there is no grant '{id:.80}'; `./callboard grants list` lists the ids."


class EnvelopeRefused(Permanent):
    """The call has no valid signed envelope: none where one is required, one that is malformed, of an unknown key, too
    old, for another call or audience, or one that was used before.

    The message is the same for all that is not signed, so that a guess teaches nothing.
    """

    code = "envelope_refused"
    status = 401
    seed_name = "UNAUTHORIZED"
    remedy = "Sign the call's bytes anew ([signed envelopes](authentication.md#signed-envelopes))."

    def __init__(
        self, why: Literal["missing", "form", "key", "signature", "time", "expired", "used"], *, apart_s: float = 0
    ) -> None:
        if why == "time":
            problem = (
                f"the envelope's time is {abs(apart_s):.0f} s {'before' if apart_s > 0 else 'after'} the server's, and "
                "300 s are accepted; correct the clock, and sign the call anew."
            )
        elif why == "expired":
            problem = "the envelope has expired by the database's clock; compare the clocks, and sign the call anew."
        elif why == "used":
            problem = "the envelope was used before, and holds for one call; sign the call anew."
        else:
            problem = (
                "this call has no valid signed envelope; sign it as it is sent, for this audience and method, with a "
                "key of CALLBOARD_ENVELOPE_KEYS (docs/authentication.md)."
            )
        super().__init__(problem, why=why)
