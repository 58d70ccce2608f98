"""What settings declare and narrow of the client of `mcp serve`: its roles, its initiator, and where its runs are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

import pytest
from mcp import Client
from pydantic import SecretStr

from agents.runner import Runner
from agents.tools import tool
from bus.identity.credentials import keys
from bus.identity.credentials.key_form import SECRET_NAME, KeyForm
from cli.mcp.stdio import stdio_service
from config.database.shared_secret import shared_secret
from config.errors import SettingInvalid
from config.identity.principal import Principal, Role
from tests.cli.mcp.conftest import Installation
from web.mcp.server import build_server
from web.mcp.service import Context

pytestmark = pytest.mark.parity

calls_made: list[str] = []


@tool(effect="pure", roles=["operator"])
def open_door() -> str:
    """Open the door."""
    calls_made.append("open")
    return "open"


@pytest.fixture
def serve(installation: Installation) -> Iterator[Callable[..., Runner]]:
    """Open the runner of a process with these settings."""
    calls_made.clear()
    file = installation.folder / "agents" / "tester.yaml"
    file.write_text(f"name: Tester\nmodel: demo/assistant\nsystem_prompt: You open.\ntools: ['{__name__}:open_door']\n")
    opened: list[Runner] = []

    def serve(**settings: Any) -> Runner:
        opened.append(Runner.open(installation.settings.model_copy(update=settings)))
        return opened[-1]

    yield serve
    for runner in opened:
        runner.settle(10)
        runner.close()


def call(runner: Runner, name: str = "open_door", **arguments: Any) -> dict[str, Any]:
    """Call a tool as the client of this process, and return the structured content."""
    service = stdio_service(runner)

    async def called() -> dict[str, Any]:
        server = await service.loop.wait(build_server, service)
        async with Client(server, mode="legacy") as client:
            return dict((await client.call_tool(name, arguments)).structured_content or {})

    return service.loop.run(called(), 40)


def key_with(runner: Runner, *roles: Role) -> SecretStr:
    """Return a new key of the principal ``ci`` with these roles."""
    form = KeyForm(partial(shared_secret, runner.journal.database, SECRET_NAME))
    form.open()
    with runner.journal.database.write() as connection:
        principal = Principal(id="ci", roles=frozenset(roles))
        return SecretStr(keys.create(connection, form, principal, by="root")[1])


@pytest.mark.parametrize(
    ("roles", "may"),
    [(None, True), ("operator", True), ("viewer,operator", True), ("viewer", False), ("none", False)],
)
def test_a_call_is_made_with_the_roles_that_the_settings_leave(
    roles: str | None, may: bool, serve: Callable[..., Runner]
) -> None:
    runner = serve(mcp_roles=roles)

    state = call(runner)

    assert (state.get("code"), calls_made) == ((None, ["open"]) if may else ("UNAUTHORIZED", []))
    newest_runs = runner.journal.readers.runs.newest(runner.principal)
    role_lists = [
        runner.journal.readers.runs.get(runner.principal, run["run_id"])["security_context"]["roles"]
        for run in newest_runs
    ]
    assert role_lists == ([sorted(Role) if roles is None else sorted(roles.split(","))] if may else [])


def test_an_agents_call_is_made_with_the_roles_that_the_settings_leave(serve: Callable[..., Runner]) -> None:
    runner = serve(mcp_roles="viewer")
    service = stdio_service(runner)
    caller = service.caller(cast(Context, None))

    handle = service.loop.run(
        service.act(caller, runner.call_tool, "open_door", {}, agent_id="tester", principal=caller.principal), 20
    )

    assert (handle.result(20).reason, calls_made) == ("role_missing", [])


def test_a_role_that_the_principal_does_not_have_is_refused_at_the_start(serve: Callable[..., Runner]) -> None:
    key = key_with(serve(), Role.VIEWER, Role.OPERATOR)

    with pytest.raises(SettingInvalid, match="names the role admin, which 'ci' does not have"):
        stdio_service(serve(mcp_api_key=key, mcp_roles="viewer,admin"))


def test_the_name_of_another_initiator_gives_none_of_its_rights(serve: Callable[..., Runner]) -> None:
    declared = {
        "mcp_initiator_id": "local",
        "mcp_token_ref": "vault:till",
        "mcp_status_url": "https://runs.example.org",
    }
    first = serve()
    runner = serve(mcp_api_key=key_with(first, Role.VIEWER), **declared)

    refused, state = call(runner), call(runner, "tester", input="Hello")

    assert (refused["code"], calls_made) == ("UNAUTHORIZED", [])
    record = runner.journal.readers.runs.get(runner.principal, state["run_id"])
    assert (state["status"], record["principal"]) == ("succeeded", "ci")
    assert (record["context"]["initiator_id"], record["security_context"]["token_ref"]) == ("local", "vault:till")
    assert state["status_url"] == f"https://runs.example.org/v1/runs/{state['run_id']}"
