"""Errors of access control."""

from __future__ import annotations

from typing import Literal

from config.errors import CallboardError, Permanent
from config.identity.principal import Principal, Verb, roles_that_reach

_WORDS = {
    Verb.SEE: "see",
    Verb.START: "start",
    Verb.CONTROL: "stop or delete",
    Verb.DECIDE: "answer the approvals of",
    Verb.ADMINISTER: "manage the keys or read the audit log of",
}
"""What a principal wants to do, in a sentence."""

FORBIDDEN = Permanent.row(
    "forbidden",
    "The caller sees the run or thread, and may not do this with it; the message names the roles that may.",
    status=403,
    remedy="Use a credential with such a role.",
)


def forbidden(principal: Principal, verb: Verb, what: str) -> CallboardError:
    if verb is Verb.ADMINISTER:
        remedy = "a principal with the role admin may, by a credential for 'administer' and for all agents."
    elif verb in principal.verbs:
        remedy = f"its owner may, and so may a principal with the role {' or '.join(roles_that_reach(verb))}."
    else:
        remedy = f"use a credential whose scope has the verb '{verb}'."
    return FORBIDDEN(f"you may not {_WORDS[verb]} {what}; {remedy}")


AGENT_FORBIDDEN = Permanent.row(
    "agent_forbidden",
    "The agent's `access:`, or a credential without the verb `start`, does not let the caller start it.",
    status=403,
    remedy="Change [`access:`](agents.md), or use another [key](authentication.md#api-keys).",
)


def agent_forbidden(principal: Principal, agent_id: str) -> CallboardError:
    if Verb.START in principal.verbs:
        remedy = "`access:` in its definition says who may."
    else:
        remedy = "use a credential whose scope has the verb 'start'."
    problem = f"'{principal.id}' may not start agent '{agent_id:.80}'; {remedy}"
    return AGENT_FORBIDDEN(problem, principal=principal.id, agent_id=agent_id)


def promotion_forbidden(principal: Principal, agent_id: str) -> CallboardError:
    remedy = (
        "an operator or administrator may, of the tenant that alone has the agent, else of the tenant 'default', by a "
        "credential for 'control'."
    )
    problem = f"'{principal.id}' may not say which version of agent '{agent_id:.80}' serves; {remedy}"
    return FORBIDDEN(problem, principal=principal.id, agent_id=agent_id)


SCOPE_EXCEEDED = Permanent.row(
    "scope_exceeded",
    "A key was to have more than the credential that creates it: verbs, agents, or a later end.",
    status=403,
    text="a key has no more than the credential that creates it, which does not have {what}.",
    remedy="Ask for less.",
)

NAME_RESERVED = Permanent.row(
    "name_reserved",
    "A key was to act as the installation's own principal (`CALLBOARD_PRINCIPAL` in `CALLBOARD_TENANT`).",
    status=400,
    text=(
        "'{name}' in tenant '{tenant}' is this installation's own principal (CALLBOARD_PRINCIPAL), whose runs are the "
        "terminal's; give the key another name."
    ),
    remedy="Give the key another name; the role `admin` reaches that principal's runs too.",
)

KEY_UNKNOWN = Permanent.row(
    "key_unknown",
    "The tenant has no API key with this id.",
    status=404,
    text="there is no API key '{id:.80}'; `./callboard keys list` lists the ids.",
    remedy="`./callboard keys list` lists the ids.",
)

GRANT_REFUSED = Permanent.row(
    "grant_refused",
    "The privilege grant is forged, used, revoked or expired, or for another principal or agent.",
    status=403,
    remedy="Ask an administrator for another [grant](privilege.md), or start the run without one.",
)


def grant_refused(why: str) -> CallboardError:
    return GRANT_REFUSED(f"the grant cannot be used: {why}; ask an administrator for another one.")


GRANT_UNKNOWN = Permanent.row(
    "grant_unknown",
    "The tenant has no privilege grant with this id.",
    status=404,
    text="there is no grant '{id:.80}'; `./callboard grants list` lists the ids.",
    remedy="`./callboard grants list` lists the ids.",
)


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
