"""A server's lists, which come in pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

from mcp import MCPError
from mcp.types import METHOD_NOT_FOUND, PaginatedRequestParams, PaginatedResult
from pydantic import BaseModel

T = TypeVar("T")

MAX_PAGES, MAX_ITEMS = 100, 2000
"""Pages and items of a list that are read."""
MAX_WEIGHT = 16 * 1024 * 1024
"""Bytes of memory that a list may take, about; no page is read after the one with which it takes more."""
_EACH = 64


async def all_pages(ask: Callable[..., Awaitable[PaginatedResult]], items_of: Callable[[Any], Sequence[T]]) -> list[T]:
    """Return the items of a list, up to ``MAX_ITEMS`` and about ``MAX_WEIGHT``; ``ask`` takes ``params``."""
    found: list[T] = []
    cursor: str | None = None
    weight = 0
    for _ in range(MAX_PAGES):
        page = await ask(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        items = items_of(page)
        found += items
        weight += weight_of(items)
        cursor = page.next_cursor
        if not cursor or len(found) >= MAX_ITEMS or weight >= MAX_WEIGHT:
            break
    return found[:MAX_ITEMS]


def tools_read(count: int) -> str:
    """Return a server's tools for a sentence, which says so where the list is longer than what is read of it."""
    return f"its first {MAX_ITEMS:,} tools (no more are read)" if count >= MAX_ITEMS else f"its {count} tools"


def where_sought(count: int) -> str:
    """Return what to say behind ``the server does not have it``: where it was sought, if not in the whole list."""
    return f" among {tools_read(count)}" if count >= MAX_ITEMS else ""


def weight_of(items: Sequence[object]) -> int:
    """Return about how many bytes of memory items of a list take; most of it are texts, or many small values."""
    weight, left = 0, list(items)
    while left:
        one = left.pop()
        weight += _EACH
        if isinstance(one, str):
            weight += len(one) if one.isascii() else 4 * len(one)
        elif isinstance(one, BaseModel):
            left += [vars(one), one.model_extra]
        elif isinstance(one, dict):
            left += [*one.keys(), *one.values()]
        elif isinstance(one, list):
            left += one
    return weight


def is_absent(error: BaseException) -> bool:
    """Return whether the server says that it has no lists of this kind."""
    return isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND
