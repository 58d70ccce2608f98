"""Errors of an HTTP request."""

from __future__ import annotations

import errno

from config.errors import Permanent, Retryable

_EXHAUSTED = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM})


HOST_REFUSED = Permanent.row(
    "host_refused",
    "The Host header names another host.",
    status=403,
    remedy="Use `127.0.0.1` or `localhost`, or allow the name.",
)
"""A foreign page may resolve its name to this server (DNS rebinding)."""

ORIGIN_REFUSED = Permanent.row(
    "origin_refused",
    "The request comes from another site's page.",
    status=403,
    remedy="Open Callboard's own page.",
)

MEDIA_TYPE_REFUSED = Permanent.row(
    "media_type_refused",
    "The body is not JSON, or is compressed.",
    status=415,
    text="send JSON, with the header Content-Type: application/json.",
    remedy="Send `Content-Type: application/json`, and no `Content-Encoding`.",
)

NO_STARTERS = Permanent.row(
    "no_starters",
    "`/start-workflow`: the agent's definition has no `starters`.",
    status=409,
    text="agent '{agent_id}' has no `starters:` to begin with; call /send-prompt.",
    remedy="Call `POST /send-prompt`, or add some.",
)

STRATEGY_UNKNOWN = Permanent.row(
    "strategy_unknown",
    "`/query` names a strategy that this release does not have.",
    status=422,
    text="there is no strategy '{strategy:.80}'; known strategies: {known}.",
    remedy="Use one of those that the response lists.",
)


def is_exhausted(error: BaseException) -> bool:
    """Return whether the system has no file or memory left for this process; closed connections give some back."""
    return isinstance(error, OSError) and error.errno in _EXHAUSTED


class Overloaded(Retryable):
    """The process has as many clients or viewers as it can serve, or no free file."""

    code = "overloaded"
    text = "too much is being sent to this server at once; send the request again in a moment."
    remedy = "Try again, or start the run detached."


TOO_MANY_REQUESTS = Retryable.row(
    "too_many_requests",
    "The principal or its tenant sent as many requests in this minute as it may ([limits](operations.md#limits)).",
    status=429,
    text="{whose} may send {limit} requests a minute, and has sent them; try again in {retry_after_s} s.",
    remedy="Wait as long as `Retry-After` says.",
)

TOO_MANY_VIEWERS = Retryable.row(
    "too_many_viewers",
    "The principal or its tenant follows as many streams of this web process as it may.",
    status=429,
    text="{whose} may follow {limit} streams at once; end one, or read pages with Accept: application/json.",
    remedy="End a stream, or read pages.",
)


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


WEBHOOK_REFUSED = Permanent.row(
    "webhook_refused",
    "There is no webhook of this name, or the delivery is not signed as it has to be.",
    status=401,
    text="this delivery was not accepted: its address, its signature or its time is wrong.",
    remedy="Compare address and secret with those of the sender; the log of the web process has the reason.",
)
"""The same for each reason, so that a guess teaches nothing."""

WEBHOOK_UNUSABLE = Retryable.row(
    "webhook_unusable",
    "The webhook's file or its secret cannot be used.",
    text="this webhook cannot be used now; the log of the server says why.",
    remedy="`./callboard webhooks` says what is wrong; a sender that tries again is served once it is mended.",
)

WEBHOOK_UNFIT = Permanent.row(
    "webhook_unfit",
    "A verified delivery lacks what the webhook's definition takes from it.",
    status=422,
    text="the delivery does not fit the definition of webhook '{name}': {problem}.",
    remedy="Correct the template or the condition, or give it a default; then send the delivery again.",
)

ISSUER_UNREACHABLE = Retryable.row(
    "issuer_unreachable",
    (
        "The public keys of the issuer of service tokens could not be fetched for an hour, or never; or the "
        "token names an unknown key, and they cannot be fetched just now."
    ),
    text="the keys of the issuer of service tokens cannot be fetched just now; try again in a moment.",
    remedy="Check `CALLBOARD_SERVICE_JWKS`; the log has the reason.",
)

SECRET_IN_ADDRESS = Permanent.row(
    "secret_in_address",
    "The address has a key or a token, or a parameter named like one.",
    text=(
        "the address has a key or a token, and addresses are kept in logs; revoke it, and send another one in the "
        "header `Authorization: Bearer KEY`."
    ),
    remedy="Revoke it; send another one in the header.",
)
"""Proxies, browsers and logs keep addresses."""

CSRF_REFUSED = Permanent.row(
    "csrf_refused",
    "The request came with a session and changes something, without the session's token.",
    status=403,
    text=(
        "the header X-CSRF-Token is missing or belongs to another session; reload the page, and sign in again if that "
        "does not help."
    ),
    remedy="Reload the page; sign in again.",
)


# --- errors of requests that no function of Callboard saw (web/problems.py), and of the calls that wait for a run ---


NOT_FOUND = Permanent.row(
    "not_found",
    "There is nothing at this address.",
    status=404,
    text="there is nothing at this address; docs/http.md lists what there is.",
    remedy="[http.md](http.md) lists the addresses.",
)

METHOD_NOT_ALLOWED = Permanent.row(
    "method_not_allowed",
    "The address does not take that method.",
    status=405,
    text="this address does not take that method; the Allow header says which it takes.",
    remedy="The `Allow` header says which.",
)

REQUEST_TIMEOUT = Retryable.row(
    "request_timeout",
    "The request's headers or body did not arrive [in time](http.md#how-requests-are-read).",
    status=408,
    text="the request did not arrive in time; send it again.",
    remedy="Send it again.",
)

REQUEST_BODY_TOO_LARGE = Permanent.row(
    "body_too_large",
    "The body is larger than 2 MiB.",
    status=413,
    text="the body is larger than 2 MiB; put long material in a file the agent can read.",
    remedy="Put long material in a file the agent can read.",
)

URI_TOO_LONG = Permanent.row(
    "uri_too_long",
    "The request line is longer than 4094 bytes.",
    status=414,
    text="the request line is longer than 4094 bytes; send long values in a body.",
    remedy="Send long values in a body.",
)

EXPECT_REFUSED = Permanent.row(
    "http_417",
    "The request has an `Expect` other than `100-continue`.",
    status=417,
    text="the server meets no other Expect than 100-continue; leave the header out.",
    remedy="Leave the header out.",
)

HEADERS_TOO_LARGE = Permanent.row(
    "headers_too_large",
    "More than 100 headers, one of more than 8190 bytes, or more than 64 KiB in all.",
    status=431,
    text="the headers are too many or too long: 100, of 8190 bytes each, 64 KiB in all.",
    remedy="Send fewer.",
)

TRANSFER_ENCODING_REFUSED = Permanent.row(
    "http_501",
    "The request has a `Transfer-Encoding` other than `chunked`.",
    status=501,
    text="the server reads no other Transfer-Encoding than chunked; leave the header out.",
    remedy="Leave the header out.",
)

RUN_NOT_SUCCEEDED = Permanent.row(
    "run_failed",
    "`/process`: the run ended with another status than `succeeded`.",
    status=502,
    remedy="Read its log by `run_id`.",
)

NOTHING_TO_CONFIRM = Permanent.row(
    "nothing_to_confirm",
    "`/confirm`: no call of the conversation waits for an approval, or none with this `call_id`.",
    status=409,
    text="no such call of conversation '{thread_id:.80}' waits for an approval.",
    remedy="Read `GET /tool-data`, which says what the conversation waits for.",
)

SEVERAL_TO_CONFIRM = Permanent.row(
    "several_to_confirm",
    "`/confirm`: several calls wait; `pending` lists them.",
    status=409,
    text="{count} calls wait for an approval; name one of them by its `call_id`.",
    remedy="Send the `call_id` of one of them.",
)
