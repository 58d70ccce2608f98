"""A server's lists: read in pages, and that of its tools kept for as long as it is known to be the present one.

A server of before 2026 says by itself that its list has changed. One of 2026 says so to those who listen, and where it
has no such request, its list is read again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mcp import ClientSession, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.types import METHOD_NOT_FOUND, PaginatedRequestParams, PaginatedResult, Tool
from mcp_types.methods import validate_server_result
from pydantic import BaseModel, ValidationError

from config.text.visible import visible

T = TypeVar("T")

STALE_S = 1.0
"""Seconds that a list is used without asking again, where the server does not say that it has changed."""
AGAIN_S = 5.0
"""Seconds until the next attempt to listen, after the connection for it broke."""
MAX_PAGES, MAX_ITEMS = 100, 2000
"""Pages and items of a list that are read."""
MAX_WEIGHT = 16 * 1024 * 1024
"""Bytes of memory that a list may take, about; no page is read after the one with which it takes more."""
_EACH = 64


@dataclass(kw_only=True, slots=True)
class _Reading:
    """A list that is being read."""

    task: asyncio.Task[list[Tool]]
    changes: int
    """How often the list had changed when it was asked for."""
    callers: int = 0


class ListedTools:
    """What a server listed last."""

    def __init__(self) -> None:
        self._tools: list[Tool] | None = None
        self._read_s = 0.0
        self._reading: _Reading | None = None
        self._is_followed = False
        self._changes = 0
        """How often the list may have changed."""
        self.count: int | None = None
        """The number of tools that were listed last; None before."""

    async def present(self, ask: Callable[[], Awaitable[list[Tool]]]) -> list[Tool]:
        """Return the tools, read with ``ask`` where they may have changed; callers at once share what one reads.

        What ``ask`` raises goes to each of them. It is cancelled when the last of them is.
        """
        is_present = self._is_followed or time.monotonic() - self._read_s < STALE_S
        if self._tools is not None and is_present:
            return self._tools
        reading = self._reading
        if reading is None or reading.task.done() or reading.changes != self._changes:
            task = asyncio.create_task(self._read(ask, self._changes), name="mcp list of tools")
            reading = self._reading = _Reading(task=task, changes=self._changes)
        reading.callers += 1
        try:
            return await asyncio.shield(reading.task)
        finally:
            reading.callers -= 1
            if not reading.callers:
                reading.task.cancel()
                self._reading = None if self._reading is reading else self._reading

    async def _read(self, ask: Callable[[], Awaitable[list[Tool]]], changes: int) -> list[Tool]:
        tools = await ask()
        self.count = len(tools)
        if changes == self._changes:
            self._tools, self._read_s = tools, time.monotonic()
        return tools

    def changed(self) -> None:
        """Have the list asked for again."""
        self._changes += 1
        self._tools = None

    async def follow(self, session: ClientSession) -> None:
        """Note each change that the server says, until this is cancelled; return where it says none."""
        if session.initialize_result is not None:  # before 2026 it says so without being asked
            self._is_followed = True
            return
        while await self._listened(session):
            await asyncio.sleep(AGAIN_S)

    async def _listened(self, session: ClientSession) -> bool:
        """Note changes for as long as the server says them; return whether it may do so again."""
        try:
            async with listen(session, tools_list_changed=True) as subscription:
                self.changed()  # perhaps before the server heeded this
                self._is_followed = bool(subscription.honored.tools_list_changed)
                async for _ in subscription:
                    self.changed()
                return self._is_followed
        except SubscriptionLost:
            return self._is_followed
        except (MCPError, ListenNotSupportedError):
            return False
        finally:
            self._is_followed = False


async def all_pages(ask: Callable[..., Awaitable[PaginatedResult]], items_of: Callable[[Any], Sequence[T]]) -> list[T]:
    """Return the items of a list, up to ``MAX_ITEMS`` and about ``MAX_WEIGHT``; ``ask`` takes ``params``."""
    entries: list[T] = []
    cursor: str | None = None
    weight = 0
    for _ in range(MAX_PAGES):
        page = await ask(params=PaginatedRequestParams(cursor=cursor) if cursor else None)
        items = items_of(page)
        entries += items
        weight += weight_of(items)
        cursor = page.next_cursor
        if not cursor or len(entries) >= MAX_ITEMS or weight >= MAX_WEIGHT:
            break
    return entries[:MAX_ITEMS]


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
        node = left.pop()
        weight += _EACH
        if isinstance(node, str):
            weight += len(node) if node.isascii() else 4 * len(node)
        elif isinstance(node, BaseModel):
            left += [vars(node), node.model_extra]
        elif isinstance(node, dict):
            left += [*node.keys(), *node.values()]
        elif isinstance(node, list):
            left += node
    return weight


def is_absent(error: BaseException) -> bool:
    """Return whether the server says that it has no lists of this kind."""
    return isinstance(error, MCPError) and error.code == METHOD_NOT_FOUND


# --- results with parts that the protocol does not know: the SDK would refuse the whole result for one of them


MALFORMED = "callboard/malformed"
"""Member of the ``_meta`` of a stand-in, with the place at which the tool is malformed."""
MAX_PLACE = 200
MAX_FAULTS = 200
"""Faults of one error that are read for the place of the first."""
MAX_TYPE = 80
"""Characters of an unknown type of content."""
_CONTENT = frozenset({"text", "image", "audio", "resource", "resource_link"})


def mend(result: dict[str, Any], protocol: str) -> None:
    """Make a result one that the SDK does not refuse for a part; ``protocol`` is empty before it is agreed upon.

    Without its type it is a complete one, as the protocol of 2026 asks of clients. Of a call's content an item of an
    unknown type is named in its place, and malformed tools get stand-ins.
    """
    result.setdefault("resultType", "complete")
    content = result.get("content")  # no other result that a server gives has it
    if isinstance(content, list) and not all(map(_is_known, content)):
        result["content"] = [item if _is_known(item) else _named(item) for item in content]
    if protocol and isinstance(result.get("tools"), list):
        with_stand_ins(result, protocol)


def _is_known(content: Any) -> bool:
    """Return whether the SDK knows the type, or there is none to name."""
    kind = content.get("type") if isinstance(content, dict) else None
    return not isinstance(kind, str) or kind in _CONTENT


def _named(content: dict[str, Any]) -> dict[str, Any]:
    type_name = visible(content["type"][:MAX_TYPE])
    return {"type": "text", "text": f"[an item of the type '{type_name}', which is not known and not shown]"}


def with_stand_ins(result: dict[str, Any], protocol: str) -> None:
    """Put a stand-in for each malformed tool into a result of ``tools/list``, by the protocol of this version.

    A stand-in has the name, and why the tool cannot be used. A tool without a name is left out, and so are those that
    would not be read (``MAX_ITEMS``). One tool is judged at a time, so that no error has the faults of all.
    """
    frame, entries = {**result, "resultType": "complete"}, []
    for tool in result["tools"][:MAX_ITEMS]:
        location = _fault(tool, frame, protocol)
        entry = tool if location is None else _stand_in(tool, location)
        if entry is not None:
            entries.append(entry)
    result["tools"] = entries


def _fault(tool: Any, frame: dict[str, Any], protocol: str) -> str | None:
    """Return the first place at which a tool is malformed, None where it is not; ``frame`` is its list's result."""
    frame["tools"] = [tool]
    try:
        Tool.model_validate(tool, by_name=False)
    except ValidationError as error:
        return place_of(error)
    try:
        validate_server_result("tools/list", protocol, frame)
    except ValidationError as error:
        location = place_of(error)
        return None if location and not location.startswith("tools.0") else location.removeprefix("tools.0").lstrip(".")
    return None


def place_of(error: ValidationError) -> str:
    """Return the first place of an error; empty where it has too many faults to be read, each costs a kilobyte."""
    if error.error_count() > MAX_FAULTS:
        return ""
    loc = error.errors(include_url=False, include_context=False, include_input=False)[0]["loc"]
    return ".".join(map(str, loc))[:MAX_PLACE]


def _stand_in(tool: Any, location: str) -> dict[str, Any] | None:
    name = tool.get("name") if isinstance(tool, dict) else None
    if not isinstance(name, str):
        return None
    return {"name": name, "inputSchema": {"type": "object"}, "_meta": {MALFORMED: location}}
