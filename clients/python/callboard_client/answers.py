"""Answers of the server as results and errors."""

from __future__ import annotations

from typing import Any, TypeVar

import httpx

from callboard_client.calls import Call
from callboard_client.errors import CallboardError, RequestRefused, UnexpectedAnswer, Unreachable

T = TypeVar("T")

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
        place = response.url.join(response.headers["Location"]).copy_with(query=None, fragment=None, userinfo=b"")
        raise UnexpectedAnswer(address, f"it redirects to {place}, which the client does not follow with your key")
    if not response.is_success:
        raise RequestRefused(response.status_code, _problem(response), _retry_after_s(response))


def require_stream(response: httpx.Response, address: str) -> None:
    """Return if the answer is a stream of events.

    Raises:
        UnexpectedAnswer: it is anything else.
    """
    found = response.headers.get("Content-Type", "of no type")
    if not found.startswith("text/event-stream"):
        raise UnexpectedAnswer(address, f"instead of a stream of events it sends '{found[:80]}'")


def unreachable(error: httpx.RequestError, address: str) -> Unreachable:
    """Return the error of a request without an answer."""
    return Unreachable(address, str(error) or type(error).__name__, not isinstance(error, _NOT_SENT))


def is_gone(call: Call[Any], error: CallboardError) -> bool:
    """Return whether a request to delete something finds that there is nothing."""
    return call.removes and isinstance(error, RequestRefused) and error.status == 404


def _problem(response: httpx.Response) -> dict[str, Any]:
    try:
        found = response.json()
    except ValueError:
        return {}  # a page of a proxy
    return found if isinstance(found, dict) else {}


def _retry_after_s(response: httpx.Response) -> float | None:
    """Return the seconds of the header; a proxy may send a date, which is left out."""
    try:
        return max(0.0, float(response.headers["Retry-After"]))
    except (KeyError, ValueError):
        return None
