"""Errors of an HTTP request."""

from __future__ import annotations

from config.errors import Permanent, Retryable


class HostRefused(Permanent):
    """The Host header names another host: a foreign page may resolve its name to this server (DNS rebinding)."""

    code = "host_refused"
    status = 403


class OriginRefused(Permanent):
    code = "origin_refused"
    status = 403


class MediaTypeRefused(Permanent):
    code = "media_type_refused"
    status = 415


class NoStarters(Permanent):
    code = "no_starters"
    status = 409
    text = "agent '{agent_id}' has no `starters:` to begin with; call /send-prompt."


class StrategyUnknown(Permanent):
    code = "strategy_unknown"
    status = 422
    text = "there is no strategy '{strategy:.80}'; known strategies: {known}."


class Overloaded(Retryable):
    """This process serves as many clients of a kind as it can."""

    code = "overloaded"


class TooManyRequests(Retryable):
    code = "too_many_requests"
    status = 429
    text = "{whose} may send {limit} requests a minute, and has sent them; try again in {retry_after_s} s."


class TooManyViewers(Retryable):
    code = "too_many_viewers"
    status = 429
    text = "{whose} may follow {limit} streams at once; end one, or read pages with Accept: application/json."


class Unauthenticated(Permanent):
    """The request has no valid credential. Equal for every reason, so that a guess teaches nothing."""

    code = "unauthenticated"
    status = 401
    text = (
        "this request has no valid credential; send an API key as `Authorization: Bearer KEY` "
        "(`./callboard keys create NAME` makes one), or open the page by the address that `./callboard up` prints."
    )


class IssuerUnreachable(Retryable):
    """The public keys of the issuer of service tokens are not known."""

    code = "issuer_unreachable"
    text = "the keys of the issuer of service tokens cannot be fetched just now; try again in a moment."


class SecretInAddress(Permanent):
    """The address has a key or a token; proxies, browsers and logs keep addresses."""

    code = "secret_in_address"
    text = (
        "the address has a key or a token, and addresses are kept in logs; revoke it, and send another one in the "
        "header `Authorization: Bearer KEY`."
    )


class CsrfRefused(Permanent):
    """The request came with a session and changes something, without the session's token."""

    code = "csrf_refused"
    status = 403
    text = (
        "the header X-CSRF-Token is missing or belongs to another session; reload the page, and sign in again if that "
        "does not help."
    )
