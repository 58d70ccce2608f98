"""What an exception says of a request: it was sent and no reply came, or it was never sent."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

_OPEN = frozenset(
    """
    httpx.ReadTimeout httpx.WriteTimeout httpx.ReadError httpx.WriteError httpx.CloseError httpx.RemoteProtocolError
    requests.ReadTimeout requests.ConnectionError requests.ChunkedEncodingError
    urllib3.ReadTimeoutError urllib3.ProtocolError
    aiohttp.ServerDisconnectedError aiohttp.ClientPayloadError aiohttp.SocketTimeoutError aiohttp.BadHttpMessage
    http.IncompleteRead http.BadStatusLine ssl.SSLEOFError ssl.SSLZeroReturnError asyncio.IncompleteReadError
    builtins.EOFError smtplib.SMTPServerDisconnected subprocess.TimeoutExpired
    """.split()
)
"""Package and class of exceptions raised after a request may have arrived; ``httpx`` is also ``httpx2``."""
_NEVER_SENT = frozenset(
    """
    httpx.ConnectError httpx.ConnectTimeout httpx.PoolTimeout httpx.ProxyError
    requests.ConnectTimeout urllib3.ConnectTimeoutError urllib3.NewConnectionError
    aiohttp.ClientConnectorError aiohttp.ConnectionTimeoutError
    """.split()
)
"""Exceptions that they raise before anything was sent."""
_SOUNDS_OPEN = re.compile(r"Time(d?Out|out)|Disconnected|Connection(Error|Lost|Closed|Reset|Aborted)|IncompleteRead")
_SOUNDS_UNSENT = re.compile(r"Connect(ion|or)?Time|Refused|Pool|Resol|EndpointConnection")
"""Names of such exceptions in other libraries; in doubt a failure is ambiguous, since repeating an order costs more."""
_GATEWAYS = (502, 504)
"""HTTP statuses of a gateway that got no complete response from the server."""
_DEPTH = 8


def is_ambiguous(error: BaseException) -> bool:
    """Return whether the call that raised ``error`` may have taken effect on the other side.

    Libraries wrap the socket's error (``URLError.reason``, ``MaxRetryError.reason``, ``__cause__``), so the inner
    exceptions decide where the outer one does not. If an exception was raised while an ambiguous one was handled, the
    failure is still ambiguous.
    """
    return any(_leaves_open(link) for link in _chain(error))


def is_unsent(error: BaseException) -> bool:
    """Return whether the call that raised ``error`` made no connection, so that its request was never sent."""
    return any(_was_never_sent(inner) for link in _chain(error) for inner in _unwrapped(link))


def _chain(error: BaseException) -> Iterator[BaseException]:
    """Yield an exception, and those that were handled when it was raised."""
    link: BaseException | None = error
    for _ in range(_DEPTH):
        if link is None:
            return
        yield link
        link = None if link.__suppress_context__ else link.__context__


def _leaves_open(error: BaseException) -> bool:
    inside = _unwrapped(error)
    if any(_was_never_sent(inner) for inner in inside):
        return False
    kinds = (ConnectionError, TimeoutError)
    if any(isinstance(cause, kinds) or _status_of(cause) in _GATEWAYS or _names(cause) & _OPEN for cause in inside):
        return True
    return _sounds_open(error)


def _was_never_sent(error: BaseException) -> bool:
    return isinstance(error, (ConnectionRefusedError, socket.gaierror)) or bool(_names(error) & _NEVER_SENT)


def _sounds_open(error: BaseException) -> bool:
    """Return whether an unknown exception is named like an ambiguous failure, and nothing it wraps says otherwise."""
    name = type(error).__name__
    if not _SOUNDS_OPEN.search(name) or _SOUNDS_UNSENT.search(name):
        return False
    inside = error.__context__
    return inside is None or not any(_was_never_sent(inner) for inner in _unwrapped(inside))


def _names(error: BaseException) -> set[str]:
    packages = ((kind.__module__.partition(".")[0], kind.__name__) for kind in type(error).__mro__)
    return {f"{'httpx' if package == 'httpx2' else package}.{name}" for package, name in packages}


def _status_of(error: BaseException) -> object:
    """Return the HTTP status of an exception, from where each library keeps it."""
    response = getattr(error, "response", None)  # httpx and requests
    for holder, name in ((response, "status_code"), (error, "status"), (error, "code")):  # aiohttp, urllib
        status = getattr(holder, name, None)
        if isinstance(status, int):
            return status
    return None


def _unwrapped(error: BaseException) -> list[BaseException]:
    exceptions: list[BaseException] = []
    pending: list[BaseException | None] = [error]
    while pending and len(exceptions) < _DEPTH:
        exception = pending.pop()
        if isinstance(exception, BaseException) and exception not in exceptions:
            exceptions.append(exception)
            reason = getattr(exception, "reason", None)
            pending += [exception.__cause__, reason if isinstance(reason, BaseException) else None]
            pending += [arg for arg in exception.args[:2] if isinstance(arg, BaseException)]
    return exceptions
