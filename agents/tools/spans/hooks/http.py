"""Hooks into httpx, requests and urllib3."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from agents.tools.spans.collector import Span, is_collecting, named, note_answer, note_request, span


def _httpx(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    def hooked(client: Any, request: Any, **more: Any) -> Any:
        if not is_collecting("http"):
            return send(client, request, **more)
        with _of_httpx(request) as open_span:
            answer = send(client, request, **more)
            _note_httpx(open_span, answer)
            return answer

    return hooked


def _httpx_async(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    async def hooked(client: Any, request: Any, **more: Any) -> Any:
        if not is_collecting("http"):
            return await send(client, request, **more)
        with _of_httpx(request) as open_span:
            answer = await send(client, request, **more)
            _note_httpx(open_span, answer)
            return answer

    return hooked


def _of_httpx(request: Any) -> Any:
    url, method = str(request.url), str(request.method)
    span_context = span("http", named(method, url), method=method, url=url)
    return _Noted(span_context, dict(request.headers), getattr(request, "_content", None))


class _Noted:
    """Enters a span and adds what is known of its request."""

    def __init__(self, entered: Any, headers: dict[str, str], body: Any) -> None:
        self._entered, self._headers, self._body = entered, headers, body

    def __enter__(self) -> Span:
        open_span: Span = self._entered.__enter__()
        note_request(open_span, self._headers, self._body)
        return open_span

    def __exit__(self, *raised: Any) -> Any:
        return self._entered.__exit__(*raised)


def _note_httpx(open_span: Span, answer: Any) -> None:
    note_answer(open_span, answer.status_code, answer.headers, getattr(answer, "_content", None))


def _requests(send: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(send)
    def hooked(session: Any, request: Any, **more: Any) -> Any:
        if not is_collecting("http"):
            return send(session, request, **more)
        url, method = str(request.url), str(request.method)
        with span("http", named(method, url), method=method, url=url) as open_span:
            note_request(open_span, request.headers, request.body)
            answer = send(session, request, **more)
            body = getattr(answer, "_content", None)
            note_answer(open_span, answer.status_code, answer.headers, body if isinstance(body, bytes) else None)
            return answer

    return hooked


def _urllib3(urlopen: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(urlopen)
    def hooked(pool: Any, method: str, url: str, *others: Any, **more: Any) -> Any:
        if not is_collecting("http"):
            return urlopen(pool, method, url, *others, **more)
        address = url if "://" in url else f"{pool.scheme}://{pool.host}:{pool.port}{url}"
        with span("http", named(method, address), method=method, url=address) as open_span:
            note_request(open_span, more.get("headers"), more.get("body"))
            answer = urlopen(pool, method, url, *others, **more)
            note_answer(open_span, answer.status, answer.headers, getattr(answer, "_body", None))
            return answer

    return hooked


HTTP_HOOKS = (
    ("httpx", "Client.send", _httpx),
    ("httpx", "AsyncClient.send", _httpx_async),
    ("httpx2", "Client.send", _httpx),
    ("httpx2", "AsyncClient.send", _httpx_async),
    ("requests", "Session.send", _requests),
    ("urllib3.connectionpool", "HTTPConnectionPool.urlopen", _urllib3),
)

# --- open, by its two names: pathlib uses the one of io


_QUIET = ("/dev/", "/proc/", "/sys/")
"""Folders of the system, whose files libraries read all the time."""


def _open(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def hooked(file: Any, mode: str = "r", *others: Any, **more: Any) -> Any:
        if not is_collecting("file") or isinstance(file, int):
            return original(file, mode, *others, **more)
        path = os.fsdecode(os.fspath(file)) if isinstance(file, str | bytes | os.PathLike) else str(file)
        if path.startswith(_QUIET) and not path.startswith("/dev/shm/"):
            return original(file, mode, *others, **more)
        with span("file", f"open {os.path.basename(path)}", path=path, mode=mode):
            return original(file, mode, *others, **more)

    return hooked


FILE_HOOKS = (("builtins", "open", _open), ("io", "open", _open))
