"""Answers of the server as results and errors."""

from __future__ import annotations

import ssl
from typing import Any, TypeVar

import httpx

from callboard_client.calls import Call
from callboard_client.errors import CallboardError, RequestRefused, UnexpectedAnswer, Unreachable

T = TypeVar("T")

_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST")
"""What OpenSSL's releases call an answer that is no TLS."""
_NOT_SENT = (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError)


def result_of(call: Call[T], response: httpx.Response, address: str) -> T:
    """Return the result of a call from an answer that was read.

    Raises:
        RequestRefused, UnexpectedAnswer: it has none.
    """
    require_success(response, address)
    try:
        return call.read(None if response.status_code == 204 else response.json())
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise UnexpectedAnswer(address, f"the answer to {call.method} {call.path} cannot be read") from error


def require_success(response: httpx.Response, address: str) -> None:
    """Return if the server did what it was asked; the body of another answer has to be read before.

    Raises:
        RequestRefused: it refused.
        UnexpectedAnswer: it names another address.
    """
    if response.is_redirect:
        location = response.url.join(response.headers["Location"]).copy_with(query=None, fragment=None, userinfo=b"")
        raise UnexpectedAnswer(address, f"it redirects to {location}, which the client does not follow with your key")
    if not response.is_success:
        raise RequestRefused(response.status_code, _problem(response), _retry_after_s(response))


def require_stream(response: httpx.Response, address: str) -> None:
    """Return if the answer is a stream of events.

    Raises:
        UnexpectedAnswer: it is anything else.
    """
    content_type = response.headers.get("Content-Type", "of no type")
    if not content_type.startswith("text/event-stream"):
        raise UnexpectedAnswer(address, f"instead of a stream of events it sends '{content_type[:80]}'")


def unanswered(error: httpx.RequestError, address: str) -> CallboardError:
    """Return the error of a request without an answer; one about TLS is not temporary."""
    tls = _tls_error(error)
    if isinstance(tls, ssl.SSLCertVerificationError):
        remedy = "name the file of its CA in SSL_CERT_FILE, or pass an http_client that trusts it"
        return UnexpectedAnswer(address, f"its certificate is not accepted ({tls.verify_message}); {remedy}")
    if tls is not None and tls.reason in _NO_TLS:
        return UnexpectedAnswer(address, "it does not speak TLS, so its address begins with http://")
    return Unreachable(address, str(error) or type(error).__name__, not isinstance(error, _NOT_SENT))


def is_gone(call: Call[Any], error: CallboardError) -> bool:
    """Return whether a request to delete something finds that there is nothing."""
    return call.removes and isinstance(error, RequestRefused) and error.status == 404


def _tls_error(error: BaseException | None) -> ssl.SSLError | None:
    while error is not None and not isinstance(error, ssl.SSLError):
        error = error.__cause__ or error.__context__
    return error


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        document = response.json()
    except ValueError:
        return {}  # a page of a proxy
    return document if isinstance(document, dict) else {}


def _retry_after_s(response: httpx.Response) -> float | None:
    """Return the seconds of the header; a proxy may send a date, which is left out."""
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None
