"""Errors of an HTTP request."""

from __future__ import annotations

import errno

from config.errors import Permanent, Retryable

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


class HostRefused(Permanent):
    """The Host header names another host.

    A foreign page may resolve its name to this server (DNS rebinding).
    """

    code = "host_refused"
    status = 403
    remedy = "Use `127.0.0.1` or `localhost`, or allow the name."


class OriginRefused(Permanent):
    """The request comes from another site's page."""

    code = "origin_refused"
    status = 403
    remedy = "Open Callboard's own page."


class MediaTypeRefused(Permanent):
    """The body is not JSON, or is compressed."""

    code = "media_type_refused"
    status = 415
    text = "send JSON, with the header Content-Type: application/json."
    remedy = "Send `Content-Type: application/json`, and no `Content-Encoding`."


class NoStarters(Permanent):
    """`/start-workflow`: the agent's definition has no `starters`."""

    code = "no_starters"
    status = 409
    remedy = "Call `POST /send-prompt`, or add some."
    text = "agent '{agent_id}' has no `starters:` to begin with; call /send-prompt."


class StrategyUnknown(Permanent):
    """`/query` names a strategy that this release does not have."""

    code = "strategy_unknown"
    status = 422
    remedy = "Use one of those that the response lists."
    text = "there is no strategy '{strategy:.80}'; known strategies: {known}."


def is_exhausted(error: BaseException) -> bool:
    """Return whether the system has no file or memory left for this process; closed connections give some back."""
    return isinstance(error, OSError) and error.errno in _EXHAUSTED


class Overloaded(Retryable):
    """The process has as many clients or viewers as it can serve, or no free file."""

    code = "overloaded"
    text = "too much is being sent to this server at once; send the request again in a moment."
    remedy = "Try again, or start the run detached."


class TooManyRequests(Retryable):
    """The principal or its tenant sent as many requests in this minute as it may ([limits](operations.md#limits))."""

    code = "too_many_requests"
    status = 429
    remedy = "Wait as long as `Retry-After` says."
    text = "{whose} may send {limit} requests a minute, and has sent them; try again in {retry_after_s} s."


class TooManyViewers(Retryable):
    """The principal or its tenant follows as many streams of this web process as it may."""

    code = "too_many_viewers"
    status = 429
    remedy = "End a stream, or read pages."
    text = "{whose} may follow {limit} streams at once; end one, or read pages with Accept: application/json."


class Unauthenticated(Permanent):
    """The request has no valid credential: none, or one that is malformed, unknown, revoked or expired.

    The message is the same for each reason, so that a guess teaches nothing.
    """

    code = "unauthenticated"
    status = 401
    remedy = "Send a [credential](authentication.md)."
    text = (
        "this request has no valid credential; send an API key as `Authorization: Bearer KEY` "
        "(`./callboard keys create NAME` makes one), or open the page by the address that `./callboard up` prints."
    )


class IssuerUnreachable(Retryable):
    """The public keys of the issuer of service tokens could not be fetched for an hour, or never; or the token names an
    unknown key, and they cannot be fetched just now.
    """

    code = "issuer_unreachable"
    remedy = "Check `CALLBOARD_SERVICE_JWKS`; the log has the reason."
    text = "the keys of the issuer of service tokens cannot be fetched just now; try again in a moment."


class SecretInAddress(Permanent):
    """The address has a key or a token, or a parameter named like one.

    Proxies, browsers and logs keep addresses.
    """

    code = "secret_in_address"
    remedy = "Revoke it; send another one in the header."
    text = (
        "the address has a key or a token, and addresses are kept in logs; revoke it, and send another one in the "
        "header `Authorization: Bearer KEY`."
    )


class CsrfRefused(Permanent):
    """The request came with a session and changes something, without the session's token."""

    code = "csrf_refused"
    status = 403
    remedy = "Reload the page; sign in again."
    text = (
        "the header X-CSRF-Token is missing or belongs to another session; reload the page, and sign in again if that "
        "does not help."
    )


# --- errors of requests that no function of Callboard saw (web/problems.py), and of the calls that wait for a run ---


class NotFound(Permanent):
    """There is nothing at this address."""

    code = "not_found"
    status = 404
    text = "there is nothing at this address; docs/http.md lists what there is."
    remedy = "[http.md](http.md) lists the addresses."


class MethodNotAllowed(Permanent):
    """The address does not take that method."""

    code = "method_not_allowed"
    status = 405
    text = "this address does not take that method; the Allow header says which it takes."
    remedy = "The `Allow` header says which."


class RequestTimeout(Retryable):
    """The request's headers or body did not arrive [in time](http.md#how-requests-are-read)."""

    code = "request_timeout"
    status = 408
    text = "the request did not arrive in time; send it again."
    remedy = "Send it again."


class RequestBodyTooLarge(Permanent):
    """The body is larger than 2 MiB."""

    code = "body_too_large"
    status = 413
    text = "the body is larger than 2 MiB; put long material in a file the agent can read."
    remedy = "Put long material in a file the agent can read."


class UriTooLong(Permanent):
    """The request line is longer than 4094 bytes."""

    code = "uri_too_long"
    status = 414
    text = "the request line is longer than 4094 bytes; send long values in a body."
    remedy = "Send long values in a body."


class ExpectRefused(Permanent):
    """The request has an `Expect` other than `100-continue`."""

    code = "http_417"
    status = 417
    text = "the server meets no other Expect than 100-continue; leave the header out."
    remedy = "Leave the header out."


class HeadersTooLarge(Permanent):
    """More than 100 headers, one of more than 8190 bytes, or more than 64 KiB in all."""

    code = "headers_too_large"
    status = 431
    text = "the headers are too many or too long: 100, of 8190 bytes each, 64 KiB in all."
    remedy = "Send fewer."


class TransferEncodingRefused(Permanent):
    """The request has a `Transfer-Encoding` other than `chunked`."""

    code = "http_501"
    status = 501
    text = "the server reads no other Transfer-Encoding than chunked; leave the header out."
    remedy = "Leave the header out."


class RunNotSucceeded(Permanent):
    """`/process`: the run ended with another status than `succeeded`."""

    code = "run_failed"
    status = 502
    remedy = "Read its log by `run_id`."


class NothingToConfirm(Permanent):
    """`/confirm`: no call of the conversation waits for an approval, or none with this `call_id`."""

    code = "nothing_to_confirm"
    status = 409
    remedy = "Read `GET /tool-data`, which says what the conversation waits for."
    text = "no such call of conversation '{thread_id:.80}' waits for an approval."


class SeveralToConfirm(Permanent):
    """`/confirm`: several calls wait; `pending` lists them."""

    code = "several_to_confirm"
    status = 409
    remedy = "Send the `call_id` of one of them."
    text = "{count} calls wait for an approval; name one of them by its `call_id`."
