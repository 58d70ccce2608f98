"""Changes of what a client was shown: found by comparing, and sent to clients that listen for them.

A client of 2026-07-28 names them in `subscriptions/listen`, on each transport. One of the handshake era gets
notifications where it has a connection of its own, which is stdio.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass
from typing import Any

from mcp import MCPError
from mcp.server import Server
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler
from mcp.shared.subscriptions import ResourcesListChanged, ResourceUpdated, ServerEvent, ToolsListChanged
from mcp.types import (
    INVALID_PARAMS,
    EmptyResult,
    NotificationParams,
    ReadResourceRequestParams,
    SubscribeRequestParams,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
    UnsubscribeRequestParams,
)

from config.identity.principal import Principal
from config.ids import canonical_digest
from web.errors import Unauthenticated
from web.mcp.errors import code_and_sentence
from web.mcp.offers import Offers
from web.mcp.resources import Resources
from web.mcp.service import Acting, Context, Service

LOOK_S = 2.0
"""Seconds between two comparisons for one client."""
SHARED_S = 1.0
"""Seconds for which a look is shared by the clients of one principal that listen for the same."""
MAX_KEPT = 1000
MAX_SUBSCRIBED = 50
"""Resources that one client may subscribe to; each is read for each comparison."""


@dataclass(frozen=True, kw_only=True, slots=True)
class _Look:
    """How one address looked to one principal."""

    begun_s: float
    digest: asyncio.Task[str | None]
    """None: it could not be read."""

    @property
    def has_failed(self) -> bool:
        return self.digest.done() and not self.digest.cancelled() and self.digest.result() is None


class ChangeWatch:
    """Finds what has changed for the caller of a request."""

    def __init__(self, service: Service, offers: Offers, resources: Resources) -> None:
        self._service = service
        self._offers = offers
        self._resources = resources
        self._looks: dict[tuple[Principal, ServerEvent], _Look] = {}

    async def watch(
        self, context: Context, event_source: Callable[[], Collection[ServerEvent]]
    ) -> AsyncGenerator[ServerEvent]:
        """Yield these events as they happen, until the caller's credential is not valid any more."""
        seen: dict[ServerEvent, str] = {}
        fails = False
        while True:
            try:
                caller = await self._service.acting(context)
                events, fails = tuple(event_source()), False
            except Unauthenticated:
                return
            except Exception as error:
                if not fails:  # once, and not every two seconds until it is mended
                    code_and_sentence(error)
                events, fails = (), True
            else:
                seen = {event: digest for event, digest in seen.items() if event in events}
            for event in events:
                digest = await self._digest(caller, event)
                if digest is not None and seen.setdefault(event, digest) != digest:
                    seen[event] = digest
                    yield event
            await asyncio.sleep(LOOK_S)

    async def listen(self, context: Context, params: SubscriptionsListenRequestParams) -> SubscriptionsListenResult:
        """Send the changes that a request asks for, until its client goes away."""
        notifications = params.notifications
        events: list[ServerEvent] = [ResourceUpdated(uri) for uri in notifications.resource_subscriptions or ()]
        require_few(len(events))
        events += [ToolsListChanged()] if notifications.tools_list_changed else []
        events += [ResourcesListChanged()] if notifications.resources_list_changed else []
        bus = InMemorySubscriptionBus()
        handler = ListenHandler(bus)

        async def publish() -> None:
            try:
                async with aclosing(self.watch(context, lambda: events)) as changes:
                    async for event in changes:
                        await bus.publish(event)
            finally:
                handler.close()

        publishing = asyncio.create_task(publish())
        try:
            return await handler(context, params)
        finally:
            publishing.cancel()

    async def _digest(self, caller: Acting, event: ServerEvent) -> str | None:
        """Return the digest of what an event is about, as this client or another one of the principal last saw it."""
        key, now_s = (caller.principal, event), time.monotonic()
        look = self._looks.get(key)
        if look is None or (look.digest.done() and now_s - look.begun_s >= SHARED_S):
            if len(self._looks) >= MAX_KEPT:
                self._looks = {
                    look_key: look for look_key, look in self._looks.items() if now_s - look.begun_s < SHARED_S
                }
            has_failed = look is not None and look.has_failed
            task = asyncio.create_task(self._look(caller, event, has_failed=has_failed))
            self._looks[key] = look = _Look(begun_s=now_s, digest=task)
        return await asyncio.shield(look.digest)

    async def _look(self, caller: Acting, event: ServerEvent, *, has_failed: bool) -> str | None:
        try:
            return await self._service.act(caller, self._digest_now, caller.principal, event)
        except Exception as error:
            if not has_failed:
                code_and_sentence(error)
            return None

    def _digest_now(self, principal: Principal, event: ServerEvent) -> str:
        if isinstance(event, ToolsListChanged):
            offers = self._offers.of(principal).values()
            return canonical_digest([offer.mcp_tool.model_dump(mode="json") for offer in offers])
        if isinstance(event, ResourceUpdated):
            return canonical_digest(self._resources.state(principal, event.uri))
        return canonical_digest(self._resources.addresses(principal))


class Notifications:
    """Notifies the one client of a connection of the handshake era."""

    def __init__(self, changes: ChangeWatch, resources: Resources) -> None:
        self._changes = changes
        self._resources = resources
        self._subscribed: set[str] = set()
        self._sending: asyncio.Task[None] | None = None

    def register(self, server: Server[Any]) -> None:
        """Let the server take what such a client sends about them."""
        server.add_notification_handler("notifications/initialized", NotificationParams, self._begin)
        server.add_request_handler("resources/subscribe", SubscribeRequestParams, self._subscribe)
        server.add_request_handler("resources/unsubscribe", UnsubscribeRequestParams, self._unsubscribe)

    @asynccontextmanager
    async def lifespan(self, _server: Server[Any]) -> AsyncIterator[dict[str, Any]]:
        """End them with the connection."""
        try:
            yield {}
        finally:
            if self._sending is not None:
                self._sending.cancel()

    async def _begin(self, context: Context, _params: NotificationParams | None) -> None:
        if self._sending is None:
            self._sending = asyncio.create_task(self._send(context))

    async def _subscribe(self, context: Context, params: SubscribeRequestParams) -> EmptyResult:
        """Notify of changes of a resource from now on; it has to exist."""
        require_few(len({*self._subscribed, str(params.uri)}))
        await self._resources.read(context, ReadResourceRequestParams(uri=params.uri))
        self._subscribed.add(str(params.uri))
        return EmptyResult()

    async def _unsubscribe(self, _context: Context, params: UnsubscribeRequestParams) -> EmptyResult:
        self._subscribed.discard(str(params.uri))
        return EmptyResult()

    def _wanted(self) -> list[ServerEvent]:
        return [ToolsListChanged(), ResourcesListChanged(), *map(ResourceUpdated, self._subscribed)]

    async def _send(self, context: Context) -> None:
        session = context.session
        async with aclosing(self._changes.watch(context, self._wanted)) as changes:
            async for event in changes:
                if isinstance(event, ToolsListChanged):
                    await session.send_tool_list_changed()
                elif isinstance(event, ResourceUpdated):
                    await session.send_resource_updated(event.uri)
                else:
                    await session.send_resource_list_changed()


def require_few(subscribed: int) -> None:
    """Return if a client may subscribe to so many resources.

    Raises:
        MCPError: they are too many.
    """
    if subscribed > MAX_SUBSCRIBED:
        sentence = f"{subscribed:,} resources are subscribed to and the limit is {MAX_SUBSCRIBED}; name fewer."
        raise MCPError(code=INVALID_PARAMS, message=sentence, data={"code": "bad_request"})
