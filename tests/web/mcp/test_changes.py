"""Clients are notified when their tools, runs and threads change, and of nothing that they do not see."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated, ToolsListChanged
from mcp.types import (
    EmptyResult,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    SubscribeRequest,
    SubscribeRequestParams,
    ToolListChangedNotification,
    UnsubscribeRequest,
    UnsubscribeRequestParams,
)

from agents.registry import AgentRegistry
from config.identity.principal import Principal
from tests.web.mcp import counter
from tests.web.mcp.conftest import AGENT, Place
from web.errors import Unauthenticated
from web.mcp.changes import MAX_SUBSCRIBED
from web.mcp.resources import Resources
from web.mcp.service import Acting

pytestmark = pytest.mark.parity

MODERN = "2026-07-28"


@pytest.fixture(autouse=True)
def _without_keeping(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make each list of tools anew, and look for changes often, which every open client of these tests costs."""
    monkeypatch.setattr("web.mcp.changes.LOOK_S", 0.02)
    monkeypatch.setattr("web.mcp.changes.SHARED_S", 0.0, raising=False)
    monkeypatch.setattr("web.mcp.offers.FRESH_S", 0.0)
    monkeypatch.setattr("web.mcp.offers.START_LOOK_S", 0.01)


class NotifiedClient:
    """The notifications that a client of the handshake era gets."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[Any] = asyncio.Queue()

    async def __call__(self, message: Any) -> None:
        if isinstance(message, Exception):
            raise message
        await self._queue.put(message)

    async def next(self, kind: type[Any]) -> Any:
        """Return the next notification of this kind."""
        async with asyncio.timeout(20):
            while not isinstance(notification := await self._queue.get(), kind):
                pass
        return notification


def _add_agent(endpoint: Place, name: str) -> None:
    folder = Path(endpoint.service.settings.agents_dir)
    (folder / f"{name}.yaml").write_text(AGENT.replace("name: Counter", f"name: {name}"))


async def _subscribe(client: Client, uri: str) -> None:
    await client.session.send_request(SubscribeRequest(params=SubscribeRequestParams(uri=uri)), EmptyResult)


class Looks:
    """Counts the comparisons for a client that does nothing else: each asks who the caller is."""

    def __init__(self, endpoint: Place) -> None:
        self._caller = endpoint.service.caller
        self._made = 0
        self.place = Place(replace(endpoint.service, caller=self._counted))

    def _counted(self, context: Any) -> Acting:
        self._made += 1
        return self._caller(context)

    async def pass_by(self) -> None:
        """Wait for the end of a comparison that began after this call."""
        target_count = self._made + 3
        async with asyncio.timeout(20):
            while self._made < target_count:
                await asyncio.sleep(0.005)


async def _next(subscription: Any) -> Any:
    return await asyncio.wait_for(anext(aiter(subscription)), 20)


def test_a_client_that_listens_gets_the_changes_it_asked_for(place: Place) -> None:
    looks = Looks(place)
    run_id = place.state("book", MODERN, room="blue")["run_id"]
    uri = f"callboard://runs/{run_id}"

    async def work(client: Client) -> list[Any]:
        notifications = []
        async with client.listen(tools_list_changed=True) as tools:
            await looks.pass_by()
            await asyncio.to_thread(_add_agent, place, "second")
            notifications.append(await _next(tools))
        async with client.listen(resource_subscriptions=[uri]) as runs:
            await looks.pass_by()
            await client.call_tool("cancel_run", {"run_id": run_id})
            notifications.append(await _next(runs))
        async with client.listen(resources_list_changed=True) as runs:
            await looks.pass_by()
            await client.call_tool("add", {"a": 1, "b": 2})
            notifications.append(await _next(runs))
        return [*notifications, [tool.name for tool in (await client.list_tools()).tools]]

    *events, names = looks.place.use(work, MODERN)

    assert events == [ToolsListChanged(), ResourceUpdated(uri), ResourcesListChanged()]
    assert "second" in names


def test_a_client_of_the_handshake_era_is_notified_on_its_connection(place: Place) -> None:
    looks = Looks(place)
    run_id = place.state("book", room="blue")["run_id"]
    uri = f"callboard://runs/{run_id}"
    inbox = NotifiedClient()

    async def work(client: Client) -> str:
        await looks.pass_by()
        await asyncio.to_thread(_add_agent, place, "second")
        await inbox.next(ToolListChangedNotification)
        await _subscribe(client, uri)
        await looks.pass_by()
        await client.call_tool("cancel_run", {"run_id": run_id})
        updated = await inbox.next(ResourceUpdatedNotification)
        await client.session.send_request(UnsubscribeRequest(params=UnsubscribeRequestParams(uri=uri)), EmptyResult)
        await client.call_tool("add", {"a": 1, "b": 2})
        await inbox.next(ResourceListChangedNotification)
        return str(updated.params.uri)

    assert looks.place.use(work, message_handler=inbox) == uri


def test_changes_of_others_are_not_sent(place: Place) -> None:
    looks = Looks(place.as_principal(Principal(tenant="other", id="eve")))
    run_id = place.with_settings(mcp_capability_behavior="start").state("wait_outside", MODERN)["run_id"]

    async def work(client: Client) -> None:
        uri = f"callboard://runs/{run_id}"
        async with client.listen(resources_list_changed=True, resource_subscriptions=[uri]) as runs:
            await looks.pass_by()
            counter.is_open.set()
            await asyncio.to_thread(place.service.runner.settle, 20)
            event = asyncio.ensure_future(anext(aiter(runs)))
            await looks.pass_by()
            assert not event.done()
            event.cancel()
            await asyncio.wait([event])

    looks.place.use(work, MODERN)


def test_clients_of_one_principal_share_a_look_and_those_of_another_do_not(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("web.mcp.changes.SHARED_S", 20.0, raising=False)
    readers, addresses = cycle(Principal(tenant="acme", id=name) for name in ("ann", "eve")), Resources.addresses
    looks = Looks(Place(replace(place.service, caller=lambda _: Acting(principal=next(readers)))))
    read: list[str] = []

    def counted(resources: Resources, principal: Principal) -> list[str]:
        read.append(principal.id)
        return addresses(resources, principal)

    monkeypatch.setattr(Resources, "addresses", counted)

    async def work(client: Client) -> None:
        async with AsyncExitStack() as listening:
            for _ in range(6):
                await listening.enter_async_context(client.listen(resources_list_changed=True))
            for _ in range(6):
                await looks.pass_by()

    looks.place.use(work, MODERN)

    assert sorted(read) == ["ann", "eve"]


@pytest.mark.parametrize("uri", ["callboard://runs/no", "callboard://threads/a%00b", "file:///etc/passwd"])
def test_what_is_no_resource_is_not_subscribed_to(place: Place, uri: str) -> None:
    looks = Looks(place)
    with pytest.raises(MCPError, match=r"there is no|NUL"):
        place.use(lambda client: _subscribe(client, uri))

    async def listen(client: Client) -> None:  # the protocol has it that such a subscription brings nothing
        async with client.listen(resource_subscriptions=[uri]) as never:
            event = asyncio.ensure_future(anext(aiter(never)))
            await looks.pass_by()
            assert not event.done()
            event.cancel()
            await asyncio.wait([event])

    looks.place.use(listen, MODERN)


def test_too_many_subscriptions_are_refused(place: Place) -> None:
    async def work(client: Client) -> None:
        uris = [f"callboard://runs/{number}" for number in range(MAX_SUBSCRIBED + 1)]
        async with client.listen(resource_subscriptions=uris):
            pass

    with pytest.raises(MCPError, match="limit is 50"):
        place.use(work, MODERN)


def test_a_subscription_ends_with_the_credential(place: Place) -> None:
    ended: list[bool] = []

    def caller(_: Any) -> Acting:
        if ended:
            raise Unauthenticated("the key was revoked.")
        return Acting(principal=place.service.runner.principal)

    async def work(client: Client) -> list[Any]:
        async with client.listen(tools_list_changed=True) as tools:
            ended.append(True)
            async with asyncio.timeout(20):
                return [event async for event in tools]

    assert Place(replace(place.service, caller=caller)).use(work, MODERN) == []


def test_a_subscription_outlives_a_defect_which_is_logged_once(
    place: Place, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = Looks(place)

    async def work(client: Client) -> Any:
        async with client.listen(tools_list_changed=True) as tools:
            await looks.pass_by()
            with monkeypatch.context() as broken:
                broken.setattr(AgentRegistry, "seen_by", lambda *_: 1 / 0)
                while "ZeroDivisionError" not in caplog.text:
                    await looks.pass_by()
                await looks.pass_by()
            await asyncio.to_thread(_add_agent, place, "second")
            return await _next(tools)

    assert looks.place.use(work, MODERN) == ToolsListChanged()
    assert caplog.text.count("MCP request failed") == 1


@pytest.mark.parametrize(("mode", "is_notified"), [("legacy", False), ("auto", True)])
def test_a_client_over_http_is_promised_what_its_era_has_there(place: Place, mode: str, is_notified: bool) -> None:
    over_http = Place(replace(place.service, has_one_client=False))

    async def work(client: Client) -> Any:
        return client.server_capabilities

    capabilities = over_http.use(work, mode)

    assert (capabilities.tools.list_changed, capabilities.resources.list_changed, capabilities.resources.subscribe) == (
        is_notified,
    ) * 3


def test_lists_wait_for_the_tools_of_the_first_worker(place: Place, mode: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("web.mcp.offers.START_S", 20.0)
    calls: list[int] = []
    tools_of: Callable[..., list[dict[str, Any]]] = place.service.tools_of

    def later(agent_ids: Any) -> list[dict[str, Any]]:
        calls.append(1)
        return tools_of(agent_ids) if len(calls) > 4 else []

    starting = Place(replace(place.service, tools_of=later))

    names = [tool.name for tool in starting.use(lambda client: client.list_tools(), mode).tools]
    calls.clear()

    assert "add" in names
    assert starting.state("add", mode, a=1, b=2)["status"] == "succeeded"
