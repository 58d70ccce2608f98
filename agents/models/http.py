"""Limits on providers' HTTP responses: no redirects, no long error bodies, no decompression bombs; and the trace.

LiteLLM uses its own clients, the OpenAI SDK's and others, asynchronous and blocking ones. All of them call ``send`` of
httpx, where ``install_guard`` applies the limits. They apply only inside ``provider_call()``, so that tools' clients
are not affected.
"""

from __future__ import annotations

import asyncio
import time
import zlib
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractContextManager, nullcontext, suppress
from typing import Any

import httpx

from agents.models.call import address_of, in_provider_call
from agents.models.errors import MODEL_REFUSED, ModelFailed
from config.egress.errors import HostNotAllowed, UrlRefused
from config.egress.operators import require_operators_url, require_operators_url_here
from config.egress.policy import allowed_in
from config.forks import after_fork
from config.redaction import redact_start
from config.settings import settings
from config.tracing import TRACEPARENT, current_traceparent

MAX_ERROR_BYTES = 64 * 1024
"""Longest body of a response that is not 2xx, decompressed; a longer one is truncated before LiteLLM reads it."""
ERROR_BODY_S = 5.0
"""Seconds that such a body may take; the part received by then is used."""
MAX_WHOLE_BYTES = 32 * 1024 * 1024
"""Longest response that LiteLLM reads as a whole instead of as a stream."""
_UNCOMPRESSED = {"accept-encoding": "identity"}
"""Compression would delay tokens until a block is full."""
_REMADE = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that do not fit a body that was cut or decompressed."""
PIECE_BYTES = 256 * 1024
"""Most bytes that one step yields."""
MAX_RATIO = 100
"""Most decompressed bytes per compressed byte, over the whole body; event streams reach 20, gzip at most 1032."""
_FREE_BYTES = 8 * 1024 * 1024
"""Decompressed bytes up to which the ratio is not checked."""
_KNOWN = frozenset({"gzip", "x-gzip", "deflate"})
_GZIP_OR_ZLIB = 47
"""zlib's ``wbits`` that recognises both headers."""
KNOWN_S = 60.0
"""Seconds that a host which was looked up passes without another lookup."""
MAX_KNOWN = 1000
_passed: dict[str, float] = {}
"""Origin of an address that passed -> until when, by the monotonic clock."""


def install_guard() -> None:
    """Patch httpx's clients so that they apply the limits inside ``provider_call()``; a second call does nothing."""
    if getattr(httpx.AsyncClient.send, "is_guarded", False):
        return
    send_async, send_sync = httpx.AsyncClient.send, httpx.Client.send

    async def guarded_async(client: Any, request: httpx.Request, *, stream: bool = False, **more: Any) -> Any:
        if not in_provider_call():
            return await send_async(client, request, stream=stream, **more)
        await require_base(request.url)
        more["follow_redirects"] = False
        request.headers.update(_UNCOMPRESSED | _trace())
        answer = await send_async(client, request, stream=True, **more)
        try:
            return await _checked(answer, stream=stream)
        except BaseException:
            await answer.aclose()
            raise

    def guarded_sync(client: Any, request: httpx.Request, *, stream: bool = False, **more: Any) -> Any:
        if not in_provider_call():
            return send_sync(client, request, stream=stream, **more)
        require_base_here(request.url)
        more["follow_redirects"] = False
        request.headers.update(_UNCOMPRESSED | _trace())
        answer = send_sync(client, request, stream=True, **more)
        try:
            return _checked_sync(answer, stream=stream)
        except BaseException:
            answer.close()
            raise

    guarded_async.is_guarded = True  # type: ignore[attr-defined]  # a mark, so that it is installed once
    httpx.AsyncClient.send = guarded_async  # type: ignore[method-assign, assignment]  # the one place all routes pass
    httpx.Client.send = guarded_sync  # type: ignore[method-assign, assignment]  # the same


def _trace() -> dict[str, str]:
    """Return the header with which a gateway, or a server of models, continues the run's trace."""
    traceparent = current_traceparent()
    return {TRACEPARENT: traceparent} if traceparent is not None else {}


async def _checked(answer: httpx.Response, *, stream: bool) -> httpx.Response:
    """Return the answer as LiteLLM may read it.

    Raises:
        MODEL_REFUSED: it is a redirect.
        ModelFailed: it is too long, or compressed by a method that was not asked for.
    """
    _refuse_redirect(answer)
    unpacked = inflated(answer)
    if answer.is_success and stream:
        return answer if unpacked is None else _remade(answer, stream=unpacked)
    body = bytearray()
    with _excused(answer):
        async with asyncio.timeout(None if answer.is_success else ERROR_BODY_S):
            async for piece in unpacked or answer.aiter_raw():
                if _is_enough(answer, body, piece):
                    break
    await answer.aclose()
    return _remade(answer, content=bytes(body))


def _checked_sync(answer: httpx.Response, *, stream: bool) -> httpx.Response:
    """Do what ``_checked`` does, for a client that blocks; only the body's time is not limited."""
    _refuse_redirect(answer)
    unpacked = inflated(answer)
    if answer.is_success and stream:
        return answer if unpacked is None else _remade(answer, stream=unpacked)
    body = bytearray()
    with _excused(answer):
        for piece in unpacked or answer.iter_raw():
            if _is_enough(answer, body, piece):
                break
    answer.close()
    return _remade(answer, content=bytes(body))


def _excused(answer: httpx.Response) -> AbstractContextManager[object]:
    """Suppress what breaks an error's body: its status says more than the rest."""
    return nullcontext() if answer.is_success else suppress(TimeoutError, httpx.HTTPError, ModelFailed)


def _is_enough(answer: httpx.Response, body: bytearray, piece: bytes) -> bool:
    """Add a piece to the body; return whether it is an error's, and has all that is read of one."""
    body += piece
    if answer.is_success:
        if len(body) > MAX_WHOLE_BYTES:
            raise ModelFailed(
                f"the provider sent more than {MAX_WHOLE_BYTES // 1024**2} MiB at once; it was not read further."
            )
        return False
    del body[MAX_ERROR_BYTES:]
    return len(body) == MAX_ERROR_BYTES


def _remade(answer: httpx.Response, **body: Any) -> httpx.Response:
    headers = [(name, value) for name, value in answer.headers.multi_items() if name.lower() not in _REMADE]
    return httpx.Response(
        answer.status_code, headers=headers, request=answer.request, extensions=answer.extensions, **body
    )


def _refuse_redirect(answer: httpx.Response) -> None:
    if not answer.has_redirect_location:
        return
    url = address_of(str(answer.request.url), "")
    try:
        target = str(answer.request.url.join(answer.headers["location"]))
    except (httpx.InvalidURL, ValueError):
        target = "an address that cannot be read"
    raise MODEL_REFUSED(
        f"{url} answered with a redirect (HTTP {answer.status_code}) to {redact_start(address_of(target, ''), 200)}. "
        "Callboard does not follow it, because the prompt and the key would go there; write the address of the "
        "provider itself as `api_base:`.",
        provider_status=answer.status_code,
    )


# --- the address ----------------------------------------------------------------------------------------


@after_fork
def _renew() -> None:
    _passed.clear()


async def require_base(url: httpx.URL) -> None:
    """Return if a request may be sent there.

    Raises:
        MODEL_REFUSED: its host is, or resolves to, a metadata service that the operator does not list.
    """
    origin = _origin(url)
    if _passed.get(origin, 0.0) > time.monotonic():
        return
    try:
        await require_operators_url(origin, allowed_in(settings().http_allowed_hosts))
    except (HostNotAllowed, UrlRefused) as error:
        raise MODEL_REFUSED(f"the model was not asked: {error}") from error
    _note(origin)


def require_base_here(url: httpx.URL) -> None:
    """Do the same for a client that blocks its thread.

    Raises:
        MODEL_REFUSED: as ``require_base``.
    """
    origin = _origin(url)
    if _passed.get(origin, 0.0) > time.monotonic():
        return
    try:
        require_operators_url_here(origin, allowed_in(settings().http_allowed_hosts))
    except (HostNotAllowed, UrlRefused) as error:
        raise MODEL_REFUSED(f"the model was not asked: {error}") from error
    _note(origin)


def _origin(url: httpx.URL) -> str:
    return f"{url.scheme}://{url.netloc.decode('ascii')}/"


def _note(origin: str) -> None:
    if len(_passed) >= MAX_KNOWN:
        _passed.clear()
    _passed[origin] = time.monotonic() + KNOWN_S


# --- decompression ----------------------------------------------------------------------------------


class Inflated(httpx.AsyncByteStream, httpx.SyncByteStream):
    """The decompressed body of a response, gzip or zlib; on a loop, other tasks run between two steps.

    Reading it raises ModelFailed where the body is malformed, or a decompression bomb.
    """

    def __init__(self, answer: httpx.Response) -> None:
        self._answer = answer
        self._zlib = zlib.decompressobj(_GZIP_OR_ZLIB)
        self._taken = self._given = 0

    def _steps(self, data: bytes) -> Iterator[bytes]:
        """Yield the decompressed form of the next bytes, in pieces of at most ``PIECE_BYTES``."""
        self._taken += len(data)
        try:
            while data:
                piece = self._zlib.decompress(data, PIECE_BYTES)
                data = self._zlib.unconsumed_tail
                self._given += len(piece)
                if self._given > max(_FREE_BYTES, MAX_RATIO * self._taken):
                    raise ModelFailed("the provider's answer is a compressed bomb; it was not read further.")
                if piece:
                    yield piece
        except zlib.error as error:
            raise ModelFailed("the provider's answer is compressed and broken; it cannot be read.") from error

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for data in self._answer.aiter_raw():
            for piece in self._steps(data):
                yield piece
                await asyncio.sleep(0)

    def __iter__(self) -> Iterator[bytes]:
        for data in self._answer.iter_raw():
            yield from self._steps(data)

    async def aclose(self) -> None:
        await self._answer.aclose()

    def close(self) -> None:
        self._answer.close()


def inflated(answer: httpx.Response) -> Inflated | None:
    """Return the response's body decompressed; None where it is not compressed.

    Raises:
        ModelFailed: the body is compressed by another method than gzip and deflate.
    """
    encoding = answer.headers.get("content-encoding", "identity").strip().lower()
    if encoding in ("", "identity"):
        return None
    if encoding not in _KNOWN:
        raise ModelFailed(
            f"the provider's answer (HTTP {answer.status_code}) is compressed by {encoding[:20]!r}, which was not "
            "asked for; check `api_base:` and the proxies before it.",
            provider_status=answer.status_code,
        )
    return Inflated(answer)
