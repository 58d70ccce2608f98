"""A server's list of tools, for as long as it is known to be the present one.

A server of before 2026 says by itself that its list has changed. One of 2026 says so to those who listen, and where it
has no such request, its list is read again.
"""

from __future__ import annotations

import asyncio
import time

from mcp import ClientSession, MCPError
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, listen
from mcp.types import Tool

STALE_S = 1.0
"""Seconds that a list is used without asking again, where the server does not say that it has changed."""
AGAIN_S = 5.0
"""Seconds until the next attempt to listen, after the connection for it broke."""


class ListedTools:
    """What a server listed last."""

    def __init__(self) -> None:
        self._tools: list[Tool] | None = None
        self._read_s = 0.0
        self._is_followed = False
        self.changes = 0
        """How often the list may have changed."""
        self.count: int | None = None
        """The number of tools that were listed last; None before."""

    def present(self) -> list[Tool] | None:
        """Return the tools; None where they have to be asked for."""
        is_present = self._is_followed or time.monotonic() - self._read_s < STALE_S
        return self._tools if is_present else None

    def read(self, tools: list[Tool], changes: int) -> None:
        """Keep what was listed, where nothing has changed since there were so many changes."""
        self.count = len(tools)
        if changes == self.changes:
            self._tools, self._read_s = tools, time.monotonic()

    def changed(self) -> None:
        """Have the list asked for again."""
        self.changes += 1
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
