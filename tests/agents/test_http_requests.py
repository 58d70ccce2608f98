"""Runs whose model asks for addresses: private ones get no request, and a change whose reply is lost no second one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from agents.handle import RunHandle
from agents.testing import AgentKit, Call, Turn
from agents.tools.http import http_get, http_request
from bus.journal.approvals import Decision
from bus.payloads import ToolResultPayload
from config.definitions.errors import DefinitionInvalid
from config.settings import Settings
from config.settings.limits import Tenants, TenantSettings
from tests.agents.tools.shop_server import Shop, answer, close

pytestmark = pytest.mark.parity


@pytest.fixture
def shop() -> Iterator[Shop]:
    with Shop(behaves=[answer]) as shop:
        yield shop


@pytest.fixture
def is_allowed(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    """The operator allows the shop's address."""
    allowed = settings.model_copy(update={"http_allowed_hosts": "127.0.0.1"})
    monkeypatch.setattr("agents.tools.http.settings", lambda: allowed)


def begin(kit: AgentKit, tool: Any, url: str, **fields: Any) -> RunHandle:
    kit.agent(tools=[tool], **fields)
    kit.model.script(Turn(calls=[Call(name=tool.__name__, arguments={"url": url})]), Turn(text="Done."))
    return kit.run()


def results(handle: RunHandle) -> list[tuple[str, Any]]:
    return [(e.outcome, e.result) for e in handle.events() if isinstance(e, ToolResultPayload)]


@pytest.mark.parametrize("tool", [http_get, http_request])
def test_a_server_of_this_machine_gets_no_request_of_a_model(kit: AgentKit, shop: Shop, tool: Any) -> None:
    handle = begin(kit, tool, shop.url)

    assert handle.result(30).status == "succeeded"
    ((outcome, result),) = results(handle)
    assert outcome == "failed"
    assert "127.0.0.1 is not a public host" in str(result)
    assert shop.arrived == []


def test_an_allowed_server_is_read(kit: AgentKit, shop: Shop, is_allowed: None) -> None:
    handle = begin(kit, http_get, shop.url)

    assert handle.result(30).status == "succeeded"
    ((outcome, result),) = results(handle)
    assert (outcome, result["status"], result["text"]) == ("done", 200, "done")


def test_a_change_whose_reply_is_lost_is_a_question(kit: AgentKit, shop: Shop, is_allowed: None) -> None:
    shop.behaves = [close]
    handle = begin(kit, http_request, shop.url)

    next(event for event in handle.events() if event.event_type == "approval")
    (question,) = handle.approvals()
    handle.decide(str(question["approval_id"]), Decision(decision="take_as_done", result="it came by post"))

    assert handle.result(30).status == "succeeded"
    assert results(handle) == [("done", "it came by post")]
    assert [bool(sent["idempotency-key"]) for sent in shop.arrived] == [True]


def test_a_keyed_change_is_sent_again_with_its_key(kit: AgentKit, shop: Shop, is_allowed: None) -> None:
    shop.behaves = [close, answer]
    handle = begin(kit, http_request, shop.url, tool_overrides={"http_request": {"effect": "keyed"}})

    assert handle.result(30).status == "succeeded"
    assert results(handle)[0][0] == "done"
    assert len({sent["idempotency-key"] for sent in shop.arrived}) == 1
    assert len(shop.arrived) == 2


def test_a_tool_reaches_no_host_beside_its_own(kit: AgentKit, shop: Shop, is_allowed: None) -> None:
    handle = begin(kit, http_get, shop.url, tool_overrides={"http_get": {"hosts": ["example.org"]}})

    assert handle.result(30).status == "succeeded"
    ((outcome, result),) = results(handle)
    assert outcome == "failed"
    assert "127.0.0.1 is not among the allowed hosts" in result
    assert shop.arrived == []


def test_a_tenant_reaches_no_host_beside_its_own(
    kit: AgentKit, shop: Shop, settings: Settings, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    tenants = Tenants({"default": TenantSettings(http_allowed_hosts="example.org")})
    chosen = settings.model_copy(update={"http_allowed_hosts": "127.0.0.1", "tenants": tenants})
    monkeypatch.setattr("agents.tools.http.settings", lambda: chosen)

    handle = begin(kit, http_get, shop.url)

    assert handle.result(30).status == "succeeded"
    assert [outcome for outcome, _ in results(handle)] == ["failed"]
    assert shop.arrived == []
    (line,) = [record for record in caplog.records if record.name == "config.egress.fetch"]
    assert (line.host, line.code) == ("127.0.0.1", "host_not_allowed")  # type: ignore[attr-defined]


@pytest.mark.parametrize("hosts", [[""], ["http://a/"], ["a..b"], "example.org"])
def test_hosts_that_are_none_break_the_definition(kit: AgentKit, hosts: Any) -> None:
    kit.agent(tools=[http_get], tool_overrides={"http_get": {"hosts": hosts}})

    with pytest.raises(DefinitionInvalid):
        kit.run()
