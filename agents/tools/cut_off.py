"""Whether an exception leaves open what became of a request: sent, and its reply never came."""

from __future__ import annotations

import re
import socket

_HTTPX_OPEN = ("ReadTimeout", "WriteTimeout", "ReadError", "WriteError", "CloseError", "RemoteProtocolError")
_HTTPX_NEVER_SENT = ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError")
_HTTPX = ("httpx", "httpx2")
_OPEN = frozenset(
    {
        *((package, name) for package in _HTTPX for name in _HTTPX_OPEN),
        ("requests", "ReadTimeout"), ("requests", "ConnectionError"), ("requests", "ChunkedEncodingError"),
        ("urllib3", "ReadTimeoutError"), ("urllib3", "ProtocolError"),
        ("aiohttp", "ServerDisconnectedError"), ("aiohttp", "ClientPayloadError"), ("aiohttp", "SocketTimeoutError"),
        ("aiohttp", "BadHttpMessage"),
        ("http", "IncompleteRead"), ("http", "BadStatusLine"),
        ("ssl", "SSLEOFError"), ("ssl", "SSLZeroReturnError"), ("asyncio", "IncompleteReadError"),
        ("builtins", "EOFError"), ("smtplib", "SMTPServerDisconnected"), ("subprocess", "TimeoutExpired"),
    }
)  # fmt: skip
"""(top-level package, class) of what libraries raise once a request may have arrived."""
_NEVER_SENT = frozenset(
    {
        *((package, name) for package in _HTTPX for name in _HTTPX_NEVER_SENT),
        ("requests", "ConnectTimeout"), ("urllib3", "ConnectTimeoutError"), ("urllib3", "NewConnectionError"),
        ("aiohttp", "ClientConnectorError"), ("aiohttp", "ConnectionTimeoutError"),
    }
)  # fmt: skip
"""What they raise before anything was sent."""
_SOUNDS_OPEN = re.compile(r"Time(d?Out|out)|Disconnected|Connection(Error|Lost|Closed|Reset|Aborted)|IncompleteRead")
_SOUNDS_UNSENT = re.compile(r"Connect(ion|or)?Time|Refused|Pool|Resol|EndpointConnection")
"""Names by which other libraries call the same: a needless question costs less than a second order."""
_GATEWAYS = (502, 504)
"""Answers of something in between, which got none, or no whole one, from where it sent the request on to."""
_DEPTH = 8


def leaves_open(wrong: BaseException) -> bool:
    """Return whether the call that raised this may have taken effect on the other side.

    Libraries wrap what the socket told them (``URLError.reason``, ``MaxRetryError.reason``, ``__cause__``), so
    what is inside decides where the outer one says nothing. An exception that was raised while another one was
    handled does not close what that one left open.
    """
    one: BaseException | None = wrong
    for _ in range(_DEPTH):
        if one is None:
            break
        if _leaves_open(one):
            return True
        one = None if one.__suppress_context__ else one.__context__
    return False


def _leaves_open(wrong: BaseException) -> bool:
    inside = _unwrapped(wrong)
    if any(_was_never_sent(inner) for inner in inside):
        return False
    return any(_says_open(inner) for inner in inside) or _sounds_open(wrong)


def _was_never_sent(wrong: BaseException) -> bool:
    return isinstance(wrong, (ConnectionRefusedError, socket.gaierror)) or bool(_names(wrong) & _NEVER_SENT)


def _says_open(wrong: BaseException) -> bool:
    if isinstance(wrong, (ConnectionError, TimeoutError)) or _status_of(wrong) in _GATEWAYS:
        return True
    return bool(_names(wrong) & _OPEN)


def _sounds_open(wrong: BaseException) -> bool:
    """Return whether a library nobody knows here seems to say so, and nothing it wrapped says the opposite."""
    name = type(wrong).__name__
    if not _SOUNDS_OPEN.search(name) or _SOUNDS_UNSENT.search(name):
        return False
    inside = wrong.__context__
    return inside is None or not any(_was_never_sent(inner) for inner in _unwrapped(inside))


def _names(wrong: BaseException) -> set[tuple[str, str]]:
    return {(kind.__module__.partition(".")[0], kind.__name__) for kind in type(wrong).__mro__}


def _status_of(wrong: BaseException) -> object:
    """Return the HTTP status an exception tells, where each library keeps it."""
    response = getattr(wrong, "response", None)  # httpx and requests
    for holder, name in ((response, "status_code"), (wrong, "status"), (wrong, "code")):  # aiohttp, urllib
        status = getattr(holder, name, None)
        if isinstance(status, int):
            return status
    return None


def _unwrapped(wrong: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    pending: list[BaseException | None] = [wrong]
    while pending and len(found) < _DEPTH:
        one = pending.pop()
        if isinstance(one, BaseException) and one not in found:
            found.append(one)
            reason = getattr(one, "reason", None)
            pending += [one.__cause__, reason if isinstance(reason, BaseException) else None]
            pending += [arg for arg in one.args[:2] if isinstance(arg, BaseException)]
    return found
